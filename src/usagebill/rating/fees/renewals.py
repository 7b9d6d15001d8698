"""Renewals: recurring charges paid in advance, billed for the whole of the period that begins.

Within a period each event is billed by itself. When the next one begins, the quantity at the end of the elapsed period
is billed again at the full price: on the period's invoice if the charge is invoiceable, else as fees without invoice.

A plan that follows another opens with the quantity of that moment, for the days left of its first period. Days that
older plans were paid for in advance are not billed again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.aggregation import Window
from usagebill.core.days import local_date
from usagebill.core.fees import Fee
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import IN_ARREARS, InvoicingReason
from usagebill.core.periods import Window as Span, is_empty
from usagebill.core.periods.calendar import day_end, day_start
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.subscriptions import Subscription, begins_at
from usagebill.queries.billing_periods import BillingContext
from usagebill.queries.plans import plan_definition
from usagebill.rating.charge_scope import ChargeScope, usage_window
from usagebill.rating.fees.charges import UsageToBill, charge_fee
from usagebill.rating.fees.paid_before import less_days_of_older_plans
from usagebill.rating.usage import charge_results
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq, missing


def renewal_fees(reader: Reader, context: BillingContext) -> list[Fee]:
    """The renewals on a billing period's invoice, charge by charge; empty ones are left out."""
    return [
        fee
        for charge in _renewed(context, invoiceable=True)
        for fee in renewals_of(reader, context, charge)
        if fee.units or fee.amount_cents or fee.events_count
    ]


def standalone_renewals(reader: Reader, context: BillingContext) -> list[Fee]:
    """The renewals without invoice, empty ones included, once per elapsed period.

    They do not wait for the period's invoice to be finalized.
    """
    return [
        replace(fee, invoice_id=None, self_billed=False, pay_in_advance=True, created_at=reader.now)
        for charge in _renewed(context, invoiceable=False)
        if not _is_renewed(reader, context, charge)
        for fee in renewals_of(reader, context, charge)
    ]


def opens_with_charges(reader: Reader, subscription: Subscription) -> bool:
    """Whether the subscription has recurring charges in advance, which open with what was there before it."""
    return bool(recurring_in_advance(plan_definition(reader, subscription.plan_id)))


def recurring_in_advance(definition: PlanDefinition) -> list[Charge]:
    """The recurring charges that are paid in advance."""
    return [
        charge
        for charge in definition.charges
        if charge.pay_in_advance and definition.metrics[charge.billable_metric_id].recurring
    ]


def _renewed(context: BillingContext, *, invoiceable: bool) -> list[Charge]:
    """The charges to renew or to open with; none at an end: the days after it are not the plan's."""
    elapsed, reason = context.boundaries.charges, context.period.invoicing_reason
    charges = [charge for charge in recurring_in_advance(context.definition) if charge.invoiceable is invoiceable]
    if not charges or _is_opening(context):
        return charges
    if elapsed is None or not IN_ARREARS[reason].usage or context.ended:
        return []
    return [] if is_empty(elapsed.start, elapsed.end, context.cycle.tz, ends=False) else charges


def _is_opening(context: BillingContext) -> bool:
    """Whether the period is that of the change of plan that started the subscription."""
    begun, tz = begins_at(context.subscription), context.cycle.tz
    if context.period.invoicing_reason != InvoicingReason.STARTING or context.subscription.origin is None:
        return False
    return begun is not None and local_date(context.boundaries.timestamp, tz) == local_date(begun, tz)


def _is_renewed(reader: Reader, context: BillingContext, charge: Charge) -> bool:
    """Whether the charge has been renewed after this elapsed period, even if the fees were deleted."""
    fee = reader.tx.first(
        Fee,
        eq("charge_id", charge.id),
        eq("subscription_id", context.subscription.id),
        missing("event_transaction_id"),
        eq("charges_from_datetime", _elapsed(context).start),
        eq("charges_to_datetime", _elapsed(context).end),
        deleted=True,
    )
    return fee is not None


def _elapsed(context: BillingContext) -> Window:
    charges = context.boundaries.charges
    if charges is None:
        raise LookupError(f"billing period {context.period.id} bills no usage")
    return usage_window(charges, context.cycle.tz, context.subscription)


def renewals_of(reader: Reader, context: BillingContext, charge: Charge) -> list[Fee]:
    """The renewal of one charge, dated to the period that begins: its whole quantity, not prorated; or what a plan that
    follows another opens with. Days that older plans were paid for are left out.
    """
    lines = (_opening if _is_opening(context) else _renewal)(reader, context, charge)
    return less_days_of_older_plans(reader, context, charge, lines)


def _renewal(reader: Reader, context: BillingContext, charge: Charge) -> list[Fee]:
    subscription, window = context.subscription, _elapsed(context)
    usage = UsageToBill(
        invoice=context.invoice,
        subscription=subscription,
        definition=context.definition,
        window=window,
    )
    scope = ChargeScope(
        subscription=subscription,
        currency=context.plan.amount_currency,
        window=window,
        known_at=reader.known_at,
    )
    metric = context.definition.metrics[charge.billable_metric_id]
    first, last = _coming(context)
    return [
        replace(charge_fee(reader, usage, result), from_datetime=first, to_datetime=last)
        for result in charge_results(reader, replace(charge, prorated=False), metric, scope)
    ]


def _opening(reader: Reader, context: BillingContext, charge: Charge) -> list[Fee]:
    """The quantity of before the change, for the days left of the first charges period if the charge is prorated, else
    for all of it.
    """
    subscription, tz = context.subscription, context.cycle.tz
    first, last = _coming(context)
    begun = begins_at(subscription) or first
    days = context.cycle.period(local_date(begun, tz), context.cycle.charges_interval).days
    since = max(first, begun) if charge.prorated else first
    window = usage_window(Span(start=since, end=last, duration=days), tz, subscription)
    usage = UsageToBill(
        invoice=context.invoice, subscription=subscription, definition=context.definition, window=window
    )
    scope = ChargeScope(
        subscription=subscription,
        currency=context.plan.amount_currency,
        window=window,
        known_at=reader.known_at,
        counted_until=begun - MICROSECOND,
    )
    metric, opening = context.definition.metrics[charge.billable_metric_id], context.period
    return [
        replace(
            charge_fee(reader, usage, result),
            charges_from_datetime=opening.charges_from_datetime,
            charges_to_datetime=opening.charges_to_datetime,
        )
        for result in charge_results(reader, charge, metric, scope)
        if result.amounts.units
    ]


def _coming(context: BillingContext) -> tuple[datetime, datetime]:
    """The first and last instant of the charges period that contains the billing timestamp."""
    tz = context.cycle.tz
    period = context.cycle.period(local_date(context.boundaries.timestamp, tz), context.cycle.charges_interval)
    return day_start(period.start, tz), day_end(period.end, tz)
