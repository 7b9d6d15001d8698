"""Unused time: how the unused part of a fee paid in advance is given back when its subscription ends early.

`core.subscription_fees.unused_time_credit` computes the unused amount; the paid part of it may be refunded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import Parts
from usagebill.core.days import local_date
from usagebill.core.fees import Fee
from usagebill.core.numbers import ONE, ZERO, add, divide, multiply, round_cents, subtract, total, truncate_to
from usagebill.core.paid_before import paid_before_cents
from usagebill.core.periods import Cycle, Period, Succession, Window
from usagebill.core.plans import Plan
from usagebill.core.subscription_fees import prorated, unused_days, unused_time_credit, used_days
from usagebill.core.subscriptions import TerminationCredit

_DECIMALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeCredit:
    """The amount of a fee to credit, in (fractions of) cents before taxes and coupons; all of it as balance without
    `parts`.
    """

    fee: Fee
    amount: Decimal
    parts: Parts | None = None


def termination_credit(
    balance: Balance,
    fee: Fee,
    plan_amount: int,
    cycle: Cycle,
    ended_at: datetime,
    *,
    option: str,
    trial_end: datetime | None = None,
) -> FeeCredit | None:
    """The credit for the last fee that a subscription paid in advance before it ended; None if it is zero.

    `balance` is that of the fee's invoice, `cycle` the one at the end, `option` a `TerminationCredit`.
    """
    credited_cents = total(item.precise_amount_cents for item in balance.items if item.fee_id == fee.id)
    amount = unused_amount(fee, plan_amount, cycle, ended_at, credited_cents=credited_cents, trial_end=trial_end)
    whole = balance.worth([(fee, amount)])
    if amount == ZERO or whole <= 0:
        return None
    invoice, period = balance.invoice, cycle.period(local_date(ended_at, cycle.tz), cycle.interval)
    used = used_amount(plan_amount, period, fee, ended_at, cycle.tz, trial_end)
    refundable = refundable_of_fee(
        fee,
        balance.worth([(fee, used)]),
        paid_cents=invoice.total_paid_amount_cents,
        invoice_cents=invoice.sub_total_including_taxes_amount_cents,
        total_cents=whole,
    )
    refundable_cents = invoice.total_paid_amount_cents - sum(note.refund_amount_cents for note in balance.notes)
    parts = termination_parts(option, whole, min(refundable, max(0, refundable_cents)), invoice.due_cents)
    return FeeCredit(fee=fee, amount=amount, parts=parts)


def unused_amount(
    fee: Fee,
    plan_amount: int,
    cycle: Cycle,
    ended_at: datetime,
    *,
    credited_cents: Decimal,
    trial_end: datetime | None = None,
) -> Decimal:
    """The price of the days that a fee in advance paid for after `ended_at`, in (fractions of) cents before taxes and
    coupons; less `credited_cents` that were given back. `cycle` is the one at the end.
    """
    ended_on = local_date(ended_at, cycle.tz)
    if fee.to_datetime is None or local_date(fee.to_datetime, cycle.tz) < ended_on:
        return ZERO
    period = cycle.period(ended_on, cycle.interval)
    upgraded = cycle.succession is Succession.UPGRADE
    return unused_time_credit(
        plan_amount,
        unused_days(ended_at, period, cycle.tz, upgraded=upgraded, trial_end=trial_end),
        period.days,
        fee_amount_cents=fee.amount_cents,
        credited_cents=credited_cents,
    )


def late_activation_credit(balance: Balance, fee: Fee, plan_amount: int, cycle: Cycle, until: date) -> FeeCredit | None:
    """The credit for the days before `until` of a fee in advance, on which its subscription was not active.

    At most the remaining amount of the fee; None if it is zero.
    """
    if fee.from_datetime is None or fee.to_datetime is None:
        return None
    first, last = local_date(fee.from_datetime, cycle.tz), local_date(fee.to_datetime, cycle.tz)
    days = max(0, min((until - first).days, (last - first).days + 1))
    share = prorated(plan_amount, days, cycle.period(first, cycle.interval).days)
    amount = min(truncate_to(share, _DECIMALS), Decimal(balance.creditable_cents_of(fee)))
    if amount <= ZERO or balance.worth([(fee, amount)]) <= 0:
        return None
    return FeeCredit(fee=fee, amount=amount)


def carried_amount(
    fee: Fee, *, days: int, days_left: int, held: Decimal, prorated: bool, left_out: Decimal = ZERO
) -> Decimal:
    """The part of a fee in advance of recurring usage, in (fractions of) cents before taxes and coupons, for
    `days_left` of its `days`, which the next plan bills again; for all of them if its price is not prorated.

    Only the share `held` of its units is billed again. The share `left_out` of the days left, which older plans were
    paid for, is no part of a prorated fee.
    """
    if days <= 0:
        return ZERO
    return multiply(_left_of(fee, days, days_left, left_out) if prorated else Decimal(fee.amount_cents), held)


def carried_credit(balance: Balance, fee: Fee, carried: Decimal) -> FeeCredit | None:
    """The credit for the `carried_amount` of a fee less what was given back of it before; None if it is zero."""
    given_back = total(item.precise_amount_cents for item in balance.items if item.fee_id == fee.id)
    amount = truncate_to(subtract(carried, given_back), _DECIMALS)
    if amount <= ZERO or balance.worth([(fee, amount)]) <= 0:
        return None
    return FeeCredit(fee=fee, amount=amount)


def _left_of(fee: Fee, days: int, days_left: int, left_out: Decimal) -> Decimal:
    """The cents of a prorated fee for `days_left` of its `days`."""
    whole = multiply(Decimal(fee.amount_cents + paid_before_cents(fee)), subtract(ONE, left_out))
    return min(divide(multiply(whole, Decimal(min(days_left, days))), Decimal(days)), Decimal(fee.amount_cents))


def refundable_of_fee(fee: Fee, used_cents: int, *, paid_cents: int, invoice_cents: int, total_cents: int) -> int:
    """The refundable cents: the fee's share of the amount paid on its invoice, less the used amount, at most the note's
    total.

    `used_cents` is the price of the used days, taxes included; `invoice_cents` is the invoice's subtotal with taxes.
    """
    if invoice_cents <= 0:
        return 0
    whole = add(subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents), fee.taxes_precise_amount_cents)
    paid = divide(multiply(whole, Decimal(paid_cents)), Decimal(invoice_cents))
    return max(0, round_cents(min(subtract(paid, Decimal(used_cents)), Decimal(total_cents))))


def termination_parts(option: str, total_cents: int, refundable_cents: int, due_cents: int) -> Parts:
    """The parts of the note: `credit` all as balance; `refund` and `offset` refund the refundable part first.

    `offset` then settles the invoice up to its `due_cents`. The remainder is balance.
    """
    if option not in (TerminationCredit.REFUND, TerminationCredit.OFFSET):
        return Parts(credit=total_cents)
    remaining = total_cents - refundable_cents
    offset = min(remaining, max(0, due_cents)) if option == TerminationCredit.OFFSET else 0
    return Parts(credit=remaining - offset, refund=refundable_cents, offset=offset)


def plan_amount_of(fee: Fee, plan: Plan) -> int:
    """The plan amount in cents that the fee was computed from."""
    noted = fee.amount_details.get("plan_amount_cents")
    return int(noted) if isinstance(noted, (int, str, Decimal)) else plan.amount_cents


def used_amount(
    plan_amount: int, period: Period, fee: Fee, ended_at: datetime, tz: tzinfo, trial_end: datetime | None
) -> Decimal:
    """The price of the used days of the fee's period, cut to 5 decimals of a cent."""
    if fee.from_datetime is None or fee.to_datetime is None:
        return ZERO
    window = Window(start=fee.from_datetime, end=fee.to_datetime, duration=period.days)
    days = min(used_days(ended_at, window, tz, trial_end=trial_end), period.days)
    return truncate_to(prorated(plan_amount, days, period.days), _DECIMALS)
