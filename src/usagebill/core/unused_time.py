"""Unused time: how the rest of a fee paid in advance is given back when its subscription ends early.

How much is left is `core.subscription_fees.unused_time_credit`; of that, what was paid and not used may be paid back.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from decimal import Decimal

from usagebill.core.credit_notes import Parts
from usagebill.core.fees import Fee
from usagebill.core.numbers import ZERO, add, divide, multiply, round_cents, subtract, truncate_to
from usagebill.core.periods import Period, Window
from usagebill.core.plans import Plan
from usagebill.core.subscription_fees import prorated, used_days
from usagebill.core.subscriptions import TerminationCredit

__all__ = ["plan_amount_of", "refundable_of_fee", "termination_parts", "used_amount"]


def refundable_of_fee(fee: Fee, used_cents: int, *, paid_cents: int, invoice_cents: int, total_cents: int) -> int:
    """What may be paid back: the fee's share of what was paid of its invoice, less what was used, at most the note.

    `used_cents` is what the used days come to, taxes included, `invoice_cents` the invoice's subtotal with taxes.
    """
    if invoice_cents <= 0:
        return 0
    whole = add(subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents), fee.taxes_precise_amount_cents)
    paid = divide(multiply(whole, Decimal(paid_cents)), Decimal(invoice_cents))
    return max(0, round_cents(min(subtract(paid, Decimal(used_cents)), Decimal(total_cents))))


def termination_parts(option: str, total_cents: int, refundable_cents: int, due_cents: int) -> Parts:
    """How the note is given: `credit` all as balance; `refund` and `offset` first pay back what may be paid back.

    `offset` then settles the invoice as far as `due_cents` of it are due. What is left is balance.
    """
    if option not in (TerminationCredit.REFUND, TerminationCredit.OFFSET):
        return Parts(credit=total_cents)
    remaining = total_cents - refundable_cents
    offset = min(remaining, max(0, due_cents)) if option == TerminationCredit.OFFSET else 0
    return Parts(credit=remaining - offset, refund=refundable_cents, offset=offset)


def plan_amount_of(fee: Fee, plan: Plan) -> int:
    """The plan's amount that the fee was computed from."""
    noted = fee.amount_details.get("plan_amount_cents")
    return int(noted) if isinstance(noted, (int, str, Decimal)) else plan.amount_cents


def used_amount(
    plan_amount: int, period: Period, fee: Fee, ended_at: datetime, tz: tzinfo, trial_end: datetime | None
) -> Decimal:
    """What the days of the fee's period that were used come to, cut to 5 decimals of a cent."""
    if fee.from_datetime is None or fee.to_datetime is None:
        return ZERO
    window = Window(start=fee.from_datetime, end=fee.to_datetime, duration=period.days)
    days = min(used_days(ended_at, window, tz, trial_end=trial_end), period.days)
    return truncate_to(prorated(plan_amount, days, period.days), 5)
