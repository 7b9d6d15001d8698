"""What older plans were paid in advance: after an upgrade, it pays for those days on the new plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from decimal import Decimal

from usagebill.core.credit_notes import CreditNote
from usagebill.core.days import days_billed
from usagebill.core.fees import Fee, FeeType
from usagebill.core.fixed_charges import days_paid_and_left
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import BILLED_AND_KEPT
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.numbers import ONE, ZERO, divide, multiply, total
from usagebill.core.paid_before import (
    PaidInAdvance,
    UnitsPaid,
    less_days_paid,
    less_paid_before,
    paid_before_cents,
    unit_days_paid,
    whole_units,
)
from usagebill.core.periods import Succession, Window
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.fees import fees_before
from usagebill.queries.subscriptions import upgraded_from
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, asc, at_least, at_most, eq, missing, related, within


def less_what_older_plans_were_paid(reader: Reader, context: BillingContext, fee: Fee, earlier: Sequence[Fee]) -> Fee:
    """After an upgrade, deduct what older plans were paid in advance for the same add-on and days from the new plan's
    fee of a fixed charge, whether that is in advance or in arrears.

    Each day is deducted once: `earlier` are the fees of the invoice before this one.
    """
    if context.subscription.origin != Succession.UPGRADE:
        return fee
    paid = _paid_by_older_plans(reader, context, fee)
    return less_paid_before(fee, paid, [*_fees_of_these_days(reader, context, fee), *earlier]) if paid else fee


def less_days_of_older_plans(
    reader: Reader, context: BillingContext, lines: Sequence[Fee], *, carried: Callable[[], Decimal]
) -> list[Fee]:
    """After an upgrade, the new plan's fees in advance for a recurring metric without the days that older plans were
    paid for; a fee without any day left is left out.

    `carried` counts the units of the moment of the upgrade: for what was added later, no older plan was paid.
    """
    first, last = (lines[0].from_datetime, lines[0].to_datetime) if lines else (None, None)
    if first is None or last is None or context.subscription.origin != Succession.UPGRADE:
        return list(lines)
    tz, upgraded = context.cycle.tz, context.ended_by_upgrade
    paid = _paid_for_units(reader, context.subscription, lines[0], first, tz, until=last, upgraded=upgraded)
    rows = [payment for plan in paid for _, payment in plan if payment.days_left]
    if not rows:
        return list(lines)
    share = _share_paid(paid, lines, days=days_billed(first, last, tz), held=carried())
    if share == ONE:
        return []
    return [less_days_paid(line, share, rows) for line in lines] if share else list(lines)


def share_paid_before(reader: Reader, subscription: Subscription, fee: Fee, tz: tzinfo) -> Decimal:
    """The share of a fee in advance of `subscription` for recurring usage, from now on, that older plans were paid for:
    these days of its units are left out of it.
    """
    last = fee.to_datetime
    if last is None or not paid_before_cents(fee):
        return ZERO
    opened_with = [
        other
        for other in fees_in_advance(reader, subscription, eq("charge_id", fee.charge_id), since=reader.now)
        if other.from_datetime == fee.from_datetime and other.event_transaction_id is None
    ]
    paid = _paid_for_units(reader, subscription, fee, reader.now, tz, until=last)
    held = total(whole_units(other) for other in opened_with)
    return _share_paid(paid, opened_with, days=days_billed(reader.now, last, tz), held=held)


def fees_in_advance(reader: Reader, subscription: Subscription, of_item: Condition, *, since: datetime) -> list[Fee]:
    """The fees in advance of the subscription for an item that pay for days from `since` on, oldest first."""
    fees = reader.tx.find(
        Fee,
        eq("subscription_id", subscription.id),
        of_item,
        at_least("to_datetime", since),
        at_most("created_at", reader.known_at),
        any_of(missing("invoice_id"), related(Invoice, "invoice_id", within("status", BILLED_AND_KEPT))),
        order=[asc("created_at"), asc("id")],
    )
    return [fee for fee in fees if _is_in_advance(reader, fee)]


def paid_from(reader: Reader, fee: Fee) -> datetime:
    """The first day that a fee in advance pays for: that of its period, or if its price is for the days left, that on
    which it was billed.
    """
    first = fee.from_datetime or fee.created_at
    charge = _charge_of(reader, fee)
    if charge is not None and not charge.prorated:
        return first
    if fee.invoice_id is not None:
        period = reader.tx.first(
            BillingPeriod, eq("invoice_id", fee.invoice_id), eq("subscription_id", fee.subscription_id)
        )
        return max(first, fee.created_at if period is None else period.timestamp)
    if fee.event_transaction_id is None:
        return first
    named = reader.tx.events.named(fee.external_subscription_id or "", [fee.event_transaction_id])
    return max([first, *(event.timestamp for event in named if event.code == fee.item.code)])


def _paid_by_older_plans(reader: Reader, context: BillingContext, fee: Fee) -> list[PaidInAdvance]:
    """The payments in advance for the fee's add-on, by subscriptions that upgrades ended, for days of the fee's period.

    A day was paid by the last plan that billed it in advance; what that plan deducted counts as paid.
    """
    unpaid_from, last = fee.from_datetime, fee.to_datetime
    if unpaid_from is None or last is None:
        return []
    payments: list[PaidInAdvance] = []
    for older in upgraded_from(reader, context.subscription):
        if unpaid_from > last:
            break
        since = unpaid_from
        for old in fees_in_advance(reader, older, eq("add_on_id", fee.add_on_id), since=since):
            if old.invoice_id == fee.invoice_id or old.currency != fee.currency:
                continue
            payment = payment_for(reader, old, since, context.cycle.tz, until=last, upgraded=context.ended_by_upgrade)
            if payment.cents <= 0:
                continue
            if payment.days_left:
                payments.append(payment)
            unpaid_from = max(unpaid_from, (old.to_datetime or last) + MICROSECOND)
    return payments


def payment_for(
    reader: Reader, fee: Fee, since: datetime, tz: tzinfo, *, until: datetime | None = None, upgraded: bool = False
) -> PaidInAdvance:
    """The fee in advance as a payment for its days from `since` on, up to `until` if that is earlier. `upgraded`: an
    upgrade ends them there.
    """
    last = fee.to_datetime or since
    window = Window(start=since, end=until or last, duration=0)
    days, left = days_paid_and_left(paid_from(reader, fee), last, window, tz, upgraded=upgraded)
    return PaidInAdvance(
        cents=fee.amount_cents + paid_before_cents(fee),
        days=days,
        days_left=left,
        given_back=_given_back(reader, fee) if left else ZERO,
    )


_PaidFee = tuple[Fee, PaidInAdvance]


def _paid_for_units(
    reader: Reader,
    subscription: Subscription,
    fee: Fee,
    since: datetime,
    tz: tzinfo,
    *,
    until: datetime,
    upgraded: bool = False,
) -> list[list[_PaidFee]]:
    """What each plan before `subscription` was paid in advance for the metric of `fee`, the latest first."""
    of_metric = eq("billable_metric_id", fee.billable_metric_id)
    return [
        [
            (paid, payment_for(reader, paid, since, tz, until=until, upgraded=upgraded))
            for paid in fees_in_advance(reader, older, of_metric, since=since)
        ]
        for older in upgraded_from(reader, subscription)
    ]


def _share_paid(paid: Sequence[Sequence[_PaidFee]], lines: Sequence[Fee], *, days: int, held: Decimal) -> Decimal:
    """The share of the units and days of `lines` that plans before were paid for, as `held` of their units are left."""
    billed = multiply(total(whole_units(line) for line in lines), Decimal(days))
    if billed <= ZERO:
        return ZERO
    of_plans = [[_units_paid(fee, payment) for fee, payment in plan] for plan in paid]
    return min(divide(unit_days_paid(of_plans, held), billed), ONE)


def _units_paid(fee: Fee, payment: PaidInAdvance) -> UnitsPaid:
    return UnitsPaid(
        units=multiply(whole_units(fee), payment.unused_share),
        days=payment.days_left,
        of_all=fee.event_transaction_id is None,
    )


def _given_back(reader: Reader, fee: Fee) -> Decimal:
    """The cents of the fee that credit notes have given back."""
    if fee.invoice_id is None:
        return ZERO
    notes = reader.tx.find(CreditNote, eq("invoice_id", fee.invoice_id), at_most("created_at", reader.known_at))
    return total(item.precise_amount_cents for note in notes for item in note.items if item.fee_id == fee.id)


def _charge_of(reader: Reader, fee: Fee) -> Charge | None:
    return reader.tx.get(Charge, fee.charge_id, deleted=True) if fee.charge_id else None


def _is_in_advance(reader: Reader, fee: Fee) -> bool:
    charge = _charge_of(reader, fee)
    return fee.pay_in_advance if charge is None else charge.pay_in_advance


def _fees_of_these_days(reader: Reader, context: BillingContext, fee: Fee) -> list[Fee]:
    """The subscription's fees for the same add-on on earlier invoices, for days of the fee's period."""
    return fees_before(
        reader,
        context,
        eq("fee_type", FeeType.FIXED_CHARGE),
        eq("add_on_id", fee.add_on_id),
        related(Invoice, "invoice_id", within("status", BILLED_AND_KEPT)),
    )
