"""Progressive credits: amounts that progressive billing invoices have already billed of an invoice's periods."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.credit_notes import CREDITED, CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import BILLED_AHEAD, IN_ADVANCE_REASONS, InvoiceType, InvoicingReason
from usagebill.core.invoices.progressive import billed_less_surplus, left_to_credit
from usagebill.core.invoices.records import BillingPeriod, CreditType, Invoice
from usagebill.core.invoices.totals import ProgressiveBilled
from usagebill.core.progressive_billing import BilledAhead, Place, ProgressiveFee, unbilled_since
from usagebill.storage.conditions import at_most, eq, has_item, more, ne, within
from usagebill.work import Reader

__all__ = ["billed_ahead", "progressive_fees"]


def billed_ahead(reader: Reader, invoice: Invoice, periods: Sequence[BillingPeriod]) -> tuple[ProgressiveBilled, ...]:
    """For each of the `periods` of `invoice`, the last progressive billing invoice with its uncredited amount."""
    credits = []
    for period in periods:
        if period.charges_from_datetime is None or period.invoicing_reason in IN_ADVANCE_REASONS:
            continue
        billed = _last_of_period(reader, invoice, period)
        if billed is not None:
            credits.append(billed)
    return tuple(credits)


def _last_of_period(reader: Reader, invoice: Invoice, period: BillingPeriod) -> ProgressiveBilled | None:
    start = period.charges_from_datetime
    periods = reader.tx.find(
        BillingPeriod,
        eq("subscription_id", period.subscription_id),
        eq("invoicing_reason", InvoicingReason.PROGRESSIVE_BILLING),
        ne("invoice_id", invoice.id),
        at_most("charges_from_datetime", start),
        more("charges_to_datetime", start),
    )
    if not periods:
        return None
    ids = [period.invoice_id for period in periods]
    invoices = reader.tx.find(Invoice, within("id", ids), eq("invoice_type", InvoiceType.PROGRESSIVE_BILLING))
    place = _place(reader, invoice)
    ahead = {candidate.id: _ahead(reader, candidate) for candidate in invoices}
    standing = [candidate for candidate in invoices if ahead[candidate.id].stands and ahead[candidate.id].place < place]
    if not standing:
        return None
    last = max(standing, key=lambda candidate: (ahead[candidate.id].place, candidate.created_at, candidate.id))
    unbilled = unbilled_since(ahead[last.id], list(ahead.values()))
    return _progressive_billed(reader, invoice, last, period.subscription_id, unbilled)


def _place(reader: Reader, invoice: Invoice) -> Place:
    """The invoice's place in the order of creation; a regenerated one takes the place of the voided one."""
    while invoice.voided_invoice_id is not None:
        voided = reader.tx.get(Invoice, invoice.voided_invoice_id)
        if voided is None:
            break
        invoice = voided
    return invoice.created_at, invoice.id


def _ahead(reader: Reader, invoice: Invoice) -> BilledAhead:
    return BilledAhead(
        place=_place(reader, invoice),
        stands=invoice.status in BILLED_AHEAD,
        billed_cents=billed_less_surplus(invoice, _notes(reader, invoice)),
        credits=tuple(
            (_place(reader, source), credit.amount_cents)
            for credit in invoice.credits
            if credit.item_type == CreditType.INVOICE
            and (source := reader.tx.get(Invoice, credit.source_id or "")) is not None
        ),
    )


def _notes(reader: Reader, invoice: Invoice) -> Sequence[CreditNote]:
    return reader.tx.find(CreditNote, eq("invoice_id", invoice.id), within("credit_status", CREDITED))


def _progressive_billed(
    reader: Reader, invoice: Invoice, billed: Invoice, subscription_id: str, unbilled_cents: int
) -> ProgressiveBilled:
    crediting = reader.tx.find(
        Invoice,
        eq("customer_id", billed.customer_id),
        ne("id", invoice.id),
        has_item("credits", source_id=billed.id, item_type="invoice"),
    )
    return ProgressiveBilled(
        invoice_id=billed.id,
        number=billed.number,
        subscription_id=subscription_id,
        left_cents=left_to_credit(billed, crediting, _notes(reader, billed), unbilled_cents=unbilled_cents),
        fees=progressive_fees(reader, billed.id),
    )


def progressive_fees(reader: Reader, invoice_id: str) -> tuple[ProgressiveFee, ...]:
    """The fees of a progressive billing invoice."""
    return tuple(
        ProgressiveFee(
            charge_id=fee.charge_id or "",
            charge_filter_id=fee.charge_filter_id,
            grouped_by=fee.grouped_by,
            amount_cents=fee.amount_cents,
        )
        for fee in reader.tx.find(Fee, eq("invoice_id", invoice_id))
    )
