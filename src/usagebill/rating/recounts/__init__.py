"""Recounts of issued lines from events, plan and days, as known when the line was made.

Lines are counted and priced by the rules that billed them, so a finding is a record that was changed, lost or made
against the rules. An invoice's usage is that received before it was finalized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from usagebill.core.audit import Finding
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceType, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.recounts import AGAIN_BY_HAND, UNKNOWN_PERIOD, own_copies
from usagebill.rating.recounts.advance import fee_without_invoice, lines_in_advance
from usagebill.rating.recounts.missing_fees import lost_events as lost_events
from usagebill.rating.recounts.periods import UsageSoFar, WholePeriod
from usagebill.rating.recounts.plan_changes import (
    recounted_carried_usage as recounted_carried_usage,
    recounted_late_activation as recounted_late_activation,
)
from usagebill.rating.recounts.report import Recounts as Recounts
from usagebill.rating.recounts.unused_time import recounted_unused_time as recounted_unused_time
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, missing


def recounted(
    reader: Reader, invoice: Invoice, fees: Sequence[Fee], periods: Sequence[BillingPeriod], notes: Recounts
) -> Iterator[Finding]:
    """Recount the lines of an issued invoice that bill its `periods`, and count them in `notes`."""
    if invoice.voided_invoice_id is not None:
        for fee in fees:
            notes.leave(fee, AGAIN_BY_HAND)
        return
    for fee in fees:
        yield from own_copies(invoice.number, invoice.id, fee)
    if invoice.invoice_type == InvoiceType.ADVANCE_CHARGES:
        for fee in fees:
            yield from fee_without_invoice(reader, fee, invoice.number, notes)
        return
    subscribed = [period.subscription_id for period in periods]
    for fee in fees:
        if fee.subscription_id is not None and subscribed.count(fee.subscription_id) != 1:
            notes.leave(fee, UNKNOWN_PERIOD)
    for period in periods:
        if subscribed.count(period.subscription_id) > 1:
            continue
        then = reader.as_of(period.price_version)
        period_fees = [fee for fee in fees if fee.subscription_id == period.subscription_id]
        match period.invoicing_reason:
            case InvoicingReason.STARTING | InvoicingReason.PERIODIC | InvoicingReason.TERMINATING:
                counted_at = invoice.finalized_at or invoice.created_at
                yield from WholePeriod(then, invoice, period, period_fees, notes, counted_at).findings()
            case InvoicingReason.PROGRESSIVE_BILLING:
                yield from UsageSoFar(then, invoice, period, period_fees, notes, invoice.created_at).findings()
            case InvoicingReason.IN_ADVANCE:
                yield from lines_in_advance(reader, invoice, period, period_fees, notes)
            case InvoicingReason.IN_ADVANCE_PERIODIC:
                continue  # only of the invoices whose fees are recounted above
            case _:
                assert_never(period.invoicing_reason)


def recounted_without_invoice(reader: Reader, customer_id: str, notes: Recounts) -> Iterator[Finding]:
    """Recount the customer's fees without invoice."""
    for fee in reader.tx.each(Fee, eq("customer_id", customer_id), missing("invoice_id"), order=[asc("id")]):
        yield from fee_without_invoice(reader, fee, "(none)", notes)
