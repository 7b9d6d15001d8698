"""Recounts of fees billed in advance, event by event or unit by unit, on an invoice of their own or on none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from usagebill.core.audit import Finding
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import LedgerEntry
from usagebill.core.events import Event
from usagebill.core.fees import Fee, FeeType
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import WHOLE_REASONS
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods import with_days
from usagebill.core.plans import Charge
from usagebill.core.recounts import (
    CHANGED,
    INVOICES_CHANGED,
    MOVED,
    SAME_INSTANT,
    UNKNOWN_PERIOD,
    differences,
    line_key,
    touched,
)
from usagebill.core.subscriptions import Subscription
from usagebill.queries.billing_periods import boundaries_of
from usagebill.queries.contracts import contract_of
from usagebill.queries.fees import charge_billed
from usagebill.queries.plans import plan_definition
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.events import event_price
from usagebill.rating.fees.fixed_charges import added_units_fee
from usagebill.rating.fees.in_advance import EventBilling, advance_fee, event_billing
from usagebill.rating.fees.renewals import renewals_of
from usagebill.rating.recounts.as_of import (
    are_others_changed,
    context_as_of,
    deducts_from_others,
    definition_then,
    has_moved,
)
from usagebill.rating.recounts.report import Recounts
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_most, desc, eq, within

_LONGEST_DAY = timedelta(hours=26)


def lines_in_advance(
    reader: Reader, invoice: Invoice, period: BillingPeriod, fees: Sequence[Fee], notes: Recounts
) -> Iterator[Finding]:
    for fee in fees:
        then = reader.as_of(fee.price_version)
        if fee.event_transaction_id is not None:
            yield from _event_fee(then, fee, invoice.number, period, notes)
        elif fee.fee_type == FeeType.FIXED_CHARGE:
            yield from _added_units(then, invoice, period, fee, notes)


def _added_units(
    reader: Reader, invoice: Invoice, period: BillingPeriod, fee: Fee, notes: Recounts
) -> Iterator[Finding]:
    context = context_as_of(reader, invoice, period, invoice.created_at, fee.price_version)
    charge = next((charge for charge in context.definition.fixed_charges if charge.id == fee.fixed_charge_id), None)
    if charge is None:
        notes.leave(fee, CHANGED)
        return
    expected = added_units_fee(reader.at(invoice.created_at), context, charge, period.timestamp)

    def doubt() -> str | None:
        if touched(charge, invoice.created_at, fee.price_version) or context.subscription.plan_id != period.plan_id:
            return CHANGED
        return INVOICES_CHANGED if are_others_changed(reader, invoice, invoice.created_at) else None

    yield from _line_findings(fee, invoice.number, invoice.id, expected, doubt, notes)


def _line_findings(
    fee: Fee, number: str, id: str, expected: Fee | None, doubt: Callable[[], str | None], notes: Recounts
) -> Iterator[Finding]:
    """The findings about a single line."""
    findings = list(differences(number, id, expected, fee))
    reason = doubt() if findings else None
    if reason is not None:
        notes.leave(fee, reason)
        return
    notes.count(fee)
    yield from findings


def fee_without_invoice(reader: Reader, fee: Fee, number: str, notes: Recounts) -> Iterator[Finding]:
    """Recount a fee without invoice: of an event, or of a renewal."""
    then = reader.as_of(fee.price_version)
    if fee.event_transaction_id is not None:
        yield from _event_fee(then, fee, number, None, notes)
    elif fee.fee_type == FeeType.CHARGE:
        yield from _renewal(then, fee, number, notes)


def _renewal(reader: Reader, fee: Fee, number: str, notes: Recounts) -> Iterator[Finding]:
    period = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", fee.subscription_id),
        eq("charges_from_datetime", fee.charges_from_datetime),
        eq("charges_to_datetime", fee.charges_to_datetime),
        within("invoicing_reason", WHOLE_REASONS),
        # A start in the last instant of a period and the run after it bill the same window.
        at_most("created_at", fee.created_at),
        order=[desc("created_at"), desc("id")],
    )
    invoice = None if period is None else reader.tx.get(Invoice, period.invoice_id)
    if period is None or invoice is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    at = fee.created_at
    priced_by = None if fee.charge_id is None else reader.tx.get(Charge, fee.charge_id)
    if priced_by is not None:
        # An override that is made while the invoice is a draft is the period's plan, but did not bill this fee.
        period = replace(period, plan_id=priced_by.plan_id)
    context = context_as_of(reader, invoice, period, at, fee.price_version)
    charge = next((charge for charge in context.definition.charges if charge.id == fee.charge_id), None)
    if charge is None:
        notes.leave(fee, CHANGED)
        return
    metric = context.definition.metrics[charge.billable_metric_id]

    def expected(then: datetime) -> Fee | None:
        lines = renewals_of(reader.at(then), context, charge)
        return next((line for line in lines if line_key(line) == line_key(fee)), None)

    def doubt() -> str | None:
        if touched(charge, at, fee.price_version) or touched(metric, at, fee.price_version):
            return CHANGED
        if has_moved(reader, period):
            return MOVED
        if deducts_from_others(context.subscription, charge) and are_others_changed(reader, invoice, at):
            return INVOICES_CHANGED
        before = list(differences("", "", expected(at - MICROSECOND), fee))
        return SAME_INSTANT if before != list(differences("", "", expected(at), fee)) else None

    yield from _line_findings(fee, number, fee.invoice_id or fee.id, expected(at), doubt, notes)


def _event_fee(
    reader: Reader, fee: Fee, number: str, period: BillingPeriod | None, notes: Recounts
) -> Iterator[Finding]:
    """Recount the fee of one event from the events received before it."""
    charge = charge_billed(reader, fee)
    metric = None if charge is None else reader.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
    subscription = reader.tx.get(Subscription, fee.subscription_id or "")
    if charge is None or metric is None or subscription is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    named = reader.tx.events.named(subscription.external_id, [fee.event_transaction_id or ""])
    event = next((candidate for candidate in named if candidate.code == metric.code), None)
    if event is None:
        reason = CHANGED if touched(metric, fee.created_at, fee.price_version) else None
        yield from _line_findings(fee, number, fee.invoice_id or fee.id, None, lambda: reason, notes)
        return
    billing = _event_billing(reader, fee, charge, subscription, event, period)
    if billing is None:
        notes.leave(fee, UNKNOWN_PERIOD)
        return
    row = reader.tx.first(LedgerEntry, eq("event_id", event.id), eq("charge_id", charge.id))

    def expected(known_at: datetime, *, is_stored: bool = True) -> Fee:
        priced = event_price(
            reader,
            charge,
            metric,
            event,
            billing.window,
            currency=fee.currency,
            subscription=subscription,
            is_stored=is_stored,
            known_at=known_at,
            as_of=row,
        )
        line = advance_fee(reader.at(fee.created_at), billing, priced, event)
        if _is_first_day(fee, billing.window.start):
            # The time zone that day began in is not kept.
            line = replace(line, from_datetime=fee.from_datetime)
        return line

    def doubt() -> str | None:
        if any(touched(record, event.created_at, fee.price_version) for record in (charge, metric)):
            return CHANGED
        if period is None or charge.prorated:
            of_subscription = eq("subscription_id", subscription.id)
            if len({period.timezone for period in reader.tx.find(BillingPeriod, of_subscription)}) > 1:
                return MOVED
        alone = list(differences("", "", expected(event.created_at - MICROSECOND, is_stored=False), fee))
        return SAME_INSTANT if alone != list(differences("", "", expected(event.created_at), fee)) else None

    yield from _line_findings(fee, number, fee.invoice_id or fee.id, expected(event.created_at), doubt, notes)


def _is_first_day(fee: Fee, start: datetime) -> bool:
    """Whether a fee without invoice begins with the day, in any time zone, on which its period starts."""
    shown = fee.from_datetime
    return not fee.invoiceable and shown is not None and start - _LONGEST_DAY <= shown <= start


def _event_billing(
    reader: Reader, fee: Fee, charge: Charge, subscription: Subscription, event: Event, period: BillingPeriod | None
) -> EventBilling | None:
    """The charges period in which an event was billed; None if it is no longer known."""
    definition = (
        definition_then(reader, charge.plan_id, fee.created_at)
        if fee.price_version is None
        else plan_definition(reader, charge.plan_id)
    )
    if period is not None:
        contract, zone = contract_of(reader, subscription), ZoneInfo(period.timezone)
        boundaries = with_days(contract.cycle(zone), boundaries_of(period))
        if boundaries.charges is None:
            return None
        return EventBilling(
            contract=contract,
            definition=definition,
            boundaries=boundaries,
            window=usage_window(boundaries.charges, zone, subscription),
        )
    billing = event_billing(reader, subscription, event.timestamp)
    start, end = fee.charges_from_datetime, fee.charges_to_datetime
    if (billing.window.start, billing.window.end) == (start, end):
        return replace(billing, definition=definition)
    # The length of the period matters only for prorated usage.
    if charge.prorated or start is None or end is None or not start <= event.timestamp <= end:
        return None
    return replace(billing, definition=definition, window=replace(billing.window, start=start, end=end))
