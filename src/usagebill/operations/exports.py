"""Exports: invoices, fees, events, payments, credit notes and taxes as table rows, streamed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.export_rows import (
    EVENT_COLUMNS,
    FEE_COLUMNS,
    FOCUS_COLUMNS,
    INVOICE_COLUMNS,
    NOTE_COLUMNS,
    PAYMENT_COLUMNS,
    TAX_COLUMNS,
    Row,
    event_row,
    fee_row,
    focus_rows,
    invoice_row,
    note_row,
    payment_row,
    tax_rows,
)
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import ISSUED, VISIBLE, InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment
from usagebill.core.subscriptions import Subscription
from usagebill.operations.issuers import issuer
from usagebill.queries.customers import find_customer
from usagebill.storage.conditions import Condition, asc, at_least, eq, less, related, within
from usagebill.work import Reader

Bound: TypeAlias = datetime | None

_EARLIEST, _LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A table: its columns with the types of their values, the number of its records, and its rows.

    Both functions take a start (inclusive) and an end (exclusive) of the records' creation; None sets no bound.
    """

    columns: Mapping[str, type]
    count: Callable[[Reader, Bound, Bound], int]
    rows: Callable[[Reader, Bound, Bound], Iterator[Row]]


def _made(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("created_at", start)]
    return bounds if end is None else [*bounds, less("created_at", end)]


def _external_id(reader: Reader, customer_id: str) -> str | None:
    customer = reader.cached(("exported customer", customer_id), lambda: find_customer(reader, customer_id))
    return None if customer is None else customer.external_id


def _invoice(reader: Reader, invoice_id: str | None) -> Invoice | None:
    if invoice_id is None:
        return None
    return reader.cached(("exported invoice", invoice_id), lambda: reader.tx.get(Invoice, invoice_id))


def _visible(start: Bound, end: Bound) -> list[Condition]:
    return [within("status", VISIBLE), *_made(start, end)]


def _invoice_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for invoice in reader.tx.each(Invoice, *_visible(start, end), order=[asc("created_at")]):
        yield invoice_row(invoice, _external_id(reader, invoice.customer_id))


def _invoiced(start: Bound, end: Bound) -> list[Condition]:
    """Conditions for fees that an invoice shows, by the creation of the invoice."""
    return [related(Invoice, "invoice_id", *_visible(start, end))]


def _fees(reader: Reader, conditions: list[Condition]) -> Iterator[Fee]:
    return reader.tx.each(Fee, *conditions, order=[asc("created_at")])


def _fee_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for fee in _fees(reader, _invoiced(start, end)):
        yield fee_row(fee, _invoice(reader, fee.invoice_id), _external_id(reader, fee.customer_id))


def _payment_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for payment in reader.tx.each(Payment, *_made(start, end), order=[asc("created_at")]):
        yield payment_row(payment, _invoice(reader, payment.invoice_id), _external_id(reader, payment.customer_id))


def _final_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_made(start, end)]


def _note_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for note in reader.tx.each(CreditNote, *_final_notes(start, end), order=[asc("created_at")]):
        yield note_row(note, _invoice(reader, note.invoice_id), _external_id(reader, note.customer_id))


def _taxed_invoices(start: Bound, end: Bound) -> list[Condition]:
    return [within("status", ISSUED), *_issued_on(start, end)]


def _taxed_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_issued_on(start, end)]


def _issued_on(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("issuing_date", start.date())]
    return bounds if end is None else [*bounds, less("issuing_date", end.date())]


def _tax_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for invoice in reader.tx.each(Invoice, *_taxed_invoices(start, end), order=[asc("created_at")]):
        yield from tax_rows(invoice, _external_id(reader, invoice.customer_id))
    for note in reader.tx.each(CreditNote, *_taxed_notes(start, end), order=[asc("created_at")]):
        yield from tax_rows(note, _external_id(reader, note.customer_id))


def _event_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    yield from map(event_row, reader.tx.events.received(start or _EARLIEST, end or _LATEST))


def _issued(start: Bound, end: Bound) -> list[Condition]:
    final = within("status", (InvoiceStatus.FINALIZED,))
    return [related(Invoice, "invoice_id", final, *_made(start, end))]


def _focus_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for fee in _fees(reader, _issued(start, end)):
        invoice = _invoice(reader, fee.invoice_id)
        if invoice is not None:
            customer = find_customer(reader, fee.customer_id)
            subscription = None if fee.subscription_id is None else reader.tx.get(Subscription, fee.subscription_id)
            yield from focus_rows(fee, invoice, customer, subscription, _issuer_name(reader, invoice))


def _issuer_name(reader: Reader, invoice: Invoice) -> str:
    entity = reader.cached(
        ("exported issuer", invoice.billing_entity_id, invoice.issuer_version_id),
        lambda: issuer(reader, invoice.billing_entity_id, invoice.issuer_version_id),
    )
    return entity.legal_name or entity.name


EXPORTS: Mapping[str, Export] = {
    "invoices": Export(
        columns=INVOICE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Invoice, *_visible(start, end)),
        rows=_invoice_rows,
    ),
    "fees": Export(
        columns=FEE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Fee, *_invoiced(start, end)),
        rows=_fee_rows,
    ),
    "events": Export(
        columns=EVENT_COLUMNS,
        count=lambda reader, start, end: sum(1 for _ in reader.tx.events.received(start or _EARLIEST, end or _LATEST)),
        rows=_event_rows,
    ),
    "payments": Export(
        columns=PAYMENT_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Payment, *_made(start, end)),
        rows=_payment_rows,
    ),
    "credit_notes": Export(
        columns=NOTE_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(CreditNote, *_final_notes(start, end)),
        rows=_note_rows,
    ),
    "taxes": Export(
        columns=TAX_COLUMNS,
        count=lambda reader, start, end: (
            sum(len(invoice.applied_taxes) for invoice in reader.tx.each(Invoice, *_taxed_invoices(start, end)))
            + sum(len(note.applied_taxes) for note in reader.tx.each(CreditNote, *_taxed_notes(start, end)))
        ),
        rows=_tax_rows,
    ),
}
# Fees with the columns of the FinOps Open Cost and Usage Specification 1.2.
FOCUS = Export(
    columns=FOCUS_COLUMNS,
    count=lambda reader, start, end: reader.tx.count(Fee, *_issued(start, end)),
    rows=_focus_rows,
)
