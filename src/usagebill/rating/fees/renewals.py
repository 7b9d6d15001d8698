"""Renewals: recurring charges paid in advance, billed for the whole of the period that begins.

Within a period each event is billed by itself. When the next one begins, the quantity at the end of the elapsed period
is billed again at the full price: on the period's invoice if the charge is invoiceable, else as fees without invoice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from usagebill.core.aggregation import Window
from usagebill.core.days import local_date
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import IN_ARREARS
from usagebill.core.periods import Succession, is_empty
from usagebill.core.periods.calendar import day_end, day_start
from usagebill.core.plans import Charge
from usagebill.queries.billing_periods import BillingContext
from usagebill.rating.charge_scope import ChargeScope, usage_window
from usagebill.rating.fees.charges import UsageToBill, charge_fee
from usagebill.rating.usage import charge_results
from usagebill.storage.conditions import eq, missing
from usagebill.work import Reader


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


def _renewed(context: BillingContext, *, invoiceable: bool) -> Iterator[Charge]:
    """The charges to renew: none at an end, unless a downgrade follows."""
    elapsed = context.boundaries.charges
    if elapsed is None or not IN_ARREARS[context.period.invoicing_reason].usage:
        return
    if is_empty(elapsed.start, elapsed.end, context.cycle.tz, ends=context.ended):
        return
    if context.ended and context.subscription.succession != Succession.DOWNGRADE:
        return
    for charge in context.definition.charges:
        recurring = context.definition.metrics[charge.billable_metric_id].recurring
        if charge.pay_in_advance and recurring and charge.invoiceable is invoiceable:
            yield charge


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
    """The renewal of one charge: its whole quantity, not prorated, dated to the period that begins."""
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
        known_at=reader.now,
    )
    metric = context.definition.metrics[charge.billable_metric_id]
    first, last = _coming(context)
    return [
        replace(charge_fee(reader, usage, result), from_datetime=first, to_datetime=last)
        for result in charge_results(reader, replace(charge, prorated=False), metric, scope)
    ]


def _coming(context: BillingContext) -> tuple[datetime, datetime]:
    """The first and last instant of the charges period that contains the billing timestamp."""
    tz = context.cycle.tz
    period = context.cycle.period(local_date(context.boundaries.timestamp, tz), context.cycle.charges_interval)
    return day_start(period.start, tz), day_end(period.end, tz)
