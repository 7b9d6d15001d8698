"""Exports: invoices, credit notes, payments, taxes and all else that closes a month, as table rows streamed one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import TypeAlias
from zoneinfo import ZoneInfo

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.days import local_date
from usagebill.core.deferred_revenue import Change as EarnedChange, earned_by_month
from usagebill.core.documents.electronic import kinds_of
from usagebill.core.documents.sources import InvoiceSource
from usagebill.core.export_rows import (
    CREDIT_COLUMNS,
    DEFERRED_COLUMNS,
    EVENT_COLUMNS,
    FEE_COLUMNS,
    FOCUS_COLUMNS,
    INVOICE_COLUMNS,
    LEDGER_COLUMNS,
    NOTE_COLUMNS,
    PAYMENT_COLUMNS,
    RECEIVABLE_COLUMNS,
    REFUND_COLUMNS,
    REQUESTED_COLUMNS,
    TAX_COLUMNS,
    WALLET_COLUMNS,
    Categories,
    Parties,
    Row,
    categories,
    credit_rows,
    deferred_row,
    event_row,
    fee_row,
    focus_rows,
    invoice_row,
    ledger_row,
    note_row,
    parties_of,
    payment_row,
    receivable_row,
    refund_row,
    requested_row,
    tax_rows,
    void_rows,
    wallet_row,
)
from usagebill.core.fees import EARNED_BY_DAY, Fee
from usagebill.core.invoices.life_cycle import ISSUED, VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.ledger import DEBTS, DocumentType, Movement
from usagebill.core.numbers import divide, multiply, round_cents, total
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import net_of_coupons, net_of_part
from usagebill.core.wallet_transactions import TransactionKind, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.operations.issuers import issuer
from usagebill.queries.customers import find_customer
from usagebill.rating.fee_events import events_paid_in_advance
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, all_of, any_of, asc, at_least, eq, less, present, related, within
from usagebill.views.customers import customer_summary

Bound: TypeAlias = datetime | None

_DAY, _TWO_DAYS = timedelta(days=1), timedelta(days=2)
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


def _parties(reader: Reader, document: Invoice | CreditNote) -> Parties:
    """The issuer of a document, and its customer as of its issue, or now while it has no copy."""
    customer = document.customer_snapshot or _summary(reader, document.customer_id)
    invoice = document if isinstance(document, Invoice) else _invoice(reader, document.invoice_id)
    code = None if invoice is None else _entity(reader, invoice.billing_entity_id, document.issuer_version_id).code
    return parties_of(code, customer)


def _parties_of_invoice(
    reader: Reader, invoice: Invoice | None, customer_id: str, billing_entity_id: str | None = None
) -> Parties:
    """The parties of an invoice; the billing entity and the customer as it is now if there is none."""
    if invoice is None:
        code = None if billing_entity_id is None else _entity(reader, billing_entity_id, None).code
        return parties_of(code, _summary(reader, customer_id))
    return reader.cached(("exported parties", invoice.id), lambda: _parties(reader, invoice))


def _summary(reader: Reader, customer_id: str) -> Mapping[str, object] | None:
    def found() -> Mapping[str, object] | None:
        customer = find_customer(reader, customer_id)
        return None if customer is None else customer_summary(reader, customer)

    return reader.cached(("exported customer's fields", customer_id), found)


def _entity(reader: Reader, billing_entity_id: str, version_id: str | None) -> BillingEntity:
    return reader.cached(
        ("exported issuer", billing_entity_id, version_id), lambda: issuer(reader, billing_entity_id, version_id)
    )


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
        yield invoice_row(invoice, _parties(reader, invoice))


def _invoiced(start: Bound, end: Bound) -> list[Condition]:
    """Conditions for fees that an invoice shows, by the creation of the invoice."""
    return [related(Invoice, "invoice_id", *_visible(start, end))]


def _fees(reader: Reader, conditions: list[Condition]) -> Iterator[Fee]:
    return reader.tx.each(Fee, *conditions, order=[asc("created_at")])


def _fee_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for fee in _fees(reader, _invoiced(start, end)):
        invoice = _invoice(reader, fee.invoice_id)
        yield fee_row(fee, invoice, _parties_of_invoice(reader, invoice, fee.customer_id))


def _payment_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for payment in reader.tx.each(Payment, *_made(start, end), order=[asc("created_at")]):
        invoice = _invoice(reader, payment.invoice_id)
        of_payment = eq("document_id", payment.id), eq("document_type", DocumentType.PAYMENT)
        received = reader.tx.first(Movement, *of_payment, order=[asc("id")])
        received_on, entity_id = (
            (None, None) if received is None else (received.document_date, received.billing_entity_id)
        )
        parties = _parties_of_invoice(reader, invoice, payment.customer_id, entity_id)
        yield payment_row(payment, invoice, parties, received_on)


def _final_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_made(start, end)]


def _note_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for note in reader.tx.each(CreditNote, *_final_notes(start, end), order=[asc("created_at")]):
        yield note_row(note, _invoice(reader, note.invoice_id), _parties(reader, note))


def _taxed_invoices(start: Bound, end: Bound) -> list[Condition]:
    return [within("status", ISSUED), *_issued_on(start, end)]


def _taxed_notes(start: Bound, end: Bound) -> list[Condition]:
    return [eq("status", CreditNoteStatus.FINALIZED), *_issued_on(start, end)]


def _issued_on(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("issuing_date", start.date())]
    return bounds if end is None else [*bounds, less("issuing_date", end.date())]


def _voided_within(start: Bound, end: Bound) -> list[Condition]:
    """Voided invoices whose day of the void may lie within these days: a time zone moves it by less than two days."""
    bounds = [] if start is None else [at_least("voided_at", start - _TWO_DAYS)]
    return [eq("status", InvoiceStatus.VOIDED), *bounds, *([] if end is None else [less("voided_at", end + _TWO_DAYS)])]


def _tax_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for invoice in reader.tx.each(Invoice, *_taxed_invoices(start, end), order=[asc("created_at")]):
        yield from tax_rows(invoice, _parties(reader, invoice), _categories(reader, invoice))
    for note in reader.tx.each(CreditNote, *_taxed_notes(start, end), order=[asc("created_at")]):
        if not note.of_void:
            yield from tax_rows(note, _parties(reader, note), _note_categories(reader, note))
    for invoice in reader.tx.each(Invoice, *_voided_within(start, end), order=[asc("created_at")]):
        if invoice.voided_at is None:
            continue
        day = local_date(invoice.voided_at, ZoneInfo(invoice.timezone))
        if (start is None or start.date() <= day) and (end is None or day < end.date()):
            finalized = eq("status", CreditNoteStatus.FINALIZED)
            notes = [
                (note, _note_categories(reader, note))
                for note in reader.tx.find(CreditNote, eq("invoice_id", invoice.id), finalized)
                if not note.of_void
            ]
            yield from void_rows(invoice, _parties(reader, invoice), _categories(reader, invoice), notes, day)


def _lines(reader: Reader, invoice: Invoice) -> tuple[list[Fee], Callable[[Fee], str]]:
    """The fees of an invoice that sell something, and their categories. Credits are sold when they are used."""
    if invoice.invoice_type == InvoiceType.CREDIT:
        return [], lambda fee: ""
    source = InvoiceSource(
        invoice=invoice,
        fees=tuple(reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at"), asc("id")])),
        entity=_entity(reader, invoice.billing_entity_id, invoice.issuer_version_id),
        customer=invoice.customer_snapshot or _summary(reader, invoice.customer_id) or {},
        locale="en",
        zone=ZoneInfo(invoice.timezone),
    )
    kind_of = kinds_of(source)
    return list(source.fees), lambda fee: kind_of(fee)[0]


def _categories(reader: Reader, invoice: Invoice) -> Categories:
    return categories(*_lines(reader, invoice))


def _note_categories(reader: Reader, note: CreditNote) -> Categories:
    invoice = _invoice(reader, note.invoice_id)
    fees, category = ([], lambda fee: "") if invoice is None else _lines(reader, invoice)
    items = {item.fee_id: item for item in note.items}

    def net(fee: Fee) -> Decimal:
        """The credited part of the fee, less the same part of its coupons."""
        credited = items[fee.id].precise_amount_cents
        if not fee.amount_cents:
            return credited
        return divide(multiply(credited, net_of_coupons(fee)), Decimal(fee.amount_cents))

    return categories([fee for fee in fees if fee.id in items], category, net)


def _refund_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for refund in reader.tx.each(RefundAttempt, *_made(start, end), order=[asc("created_at")]):
        note = None if refund.credit_note_id is None else reader.tx.get(CreditNote, refund.credit_note_id)
        payment = reader.tx.get(Payment, refund.payment_id)
        invoice = _invoice(reader, refund.invoice_id)
        yield refund_row(refund, note, invoice, payment, _parties_of_invoice(reader, invoice, refund.customer_id))


def _requested_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for part in reader.tx.each(RequestedInvoice, *_made(start, end), order=[asc("created_at")]):
        request = reader.tx.get(PaymentRequest, part.payment_request_id)
        if request is not None:
            invoice = _invoice(reader, part.invoice_id)
            yield requested_row(part, request, invoice, _parties_of_invoice(reader, invoice, request.customer_id))


def _credit_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for invoice in reader.tx.each(Invoice, *_visible(start, end), order=[asc("created_at")]):
        yield from credit_rows(invoice, _parties(reader, invoice))


def _wallet_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    purchased = eq("transaction_status", TransactionKind.PURCHASED)
    for wallet in reader.tx.each(Wallet, *_made(start, end), order=[asc("created_at")]):
        cents = reader.tx.total(WalletTransaction, "remaining_amount_cents", eq("wallet_id", wallet.id), purchased)
        customer = find_customer(reader, wallet.customer_id)
        entity_id = wallet.billing_entity_id or (None if customer is None else customer.billing_entity_id)
        yield wallet_row(wallet, cents, _parties_of_invoice(reader, None, wallet.customer_id, entity_id))


def _posted_on(start: Bound, end: Bound) -> list[Condition]:
    bounds = [] if start is None else [at_least("posting_date", start.date())]
    return bounds if end is None else [*bounds, less("posting_date", end.date())]


def _ledger_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    in_groups = [asc("posting_date"), asc("group_id")]
    for movement in reader.tx.each(Movement, *_posted_on(start, end), order=in_groups):
        parties = Parties(
            billing_entity=_entity(reader, movement.billing_entity_id, None).code,
            external_customer_id=_external_id(reader, movement.customer_id),
        )
        yield ledger_row(movement, parties, _invoice(reader, movement.invoice_id))


def _ahead() -> list[Condition]:
    """Conditions for fees that were billed ahead: plan fees, fixed charges, and recurring charges such as seats."""
    issued = related(Invoice, "invoice_id", within("status", ISSUED), eq("self_billed", False))
    of_plan = all_of(within("fee_type", EARNED_BY_DAY), eq("pay_in_advance", True))
    recurring = related(BillableMetric, "billable_metric_id", eq("recurring", True))
    seats = related(Charge, "charge_id", eq("pay_in_advance", True), recurring)
    return [any_of(of_plan, seats), issued]


def _deferred_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    for fee in _fees(reader, _ahead()):
        invoice = _invoice(reader, fee.invoice_id)
        if invoice is None or fee.from_datetime is None or fee.to_datetime is None:
            continue
        zone = ZoneInfo(invoice.timezone)
        first, last = local_date(fee.from_datetime, zone), local_date(fee.to_datetime, zone)
        # What an event adds is held from its day on.
        first = max([first, *(local_date(event.timestamp, zone) for event in events_paid_in_advance(reader, fee))])
        for earned in earned_by_month(first, last, _billed(reader, fee, invoice)):
            is_late = end is not None and earned.month >= end.date()
            if not is_late and (start is None or earned.month >= start.date().replace(day=1)):
                yield deferred_row(fee, invoice, _parties(reader, invoice), first, last, earned)


def _billed(reader: Reader, fee: Fee, invoice: Invoice) -> list[EarnedChange]:
    """What was billed of a fee, less its coupons, and what credit notes and a void took back of it."""
    changes = [EarnedChange(day=invoice.issuing_date, cents=round_cents(net_of_coupons(fee)))]
    for note in reader.tx.find(CreditNote, *_notes_of(invoice)):
        items = [item.precise_amount_cents for item in note.items if item.fee_id == fee.id]
        if items and not note.of_void:
            cents = round_cents(net_of_part(fee, total(items)))
            changes.append(EarnedChange(day=note.issuing_date, cents=-cents))
    if invoice.voided_at is not None:
        day = local_date(invoice.voided_at, ZoneInfo(invoice.timezone))
        changes.append(EarnedChange(day=day, cents=-sum(change.cents for change in changes)))
    return changes


def _notes_of(invoice: Invoice) -> list[Condition]:
    return [eq("invoice_id", invoice.id), eq("status", CreditNoteStatus.FINALIZED)]


def _debts(start: Bound, end: Bound) -> list[Condition]:
    return [within("account", DEBTS), *_posted_on(None, end)]


def _receivable_rows(reader: Reader, start: Bound, end: Bound) -> Iterator[Row]:
    day = (end.date() if end is not None else reader.now.date() + _DAY) - _DAY
    of_invoices = reader.tx.each(Movement, *_debts(start, end), present("invoice_id"), order=[asc("invoice_id")])
    for invoice_id, movements in groupby(of_invoices, key=lambda movement: movement.invoice_id):
        cents = sum(movement.amount_cents for movement in movements)
        invoice = _invoice(reader, invoice_id)
        if cents and invoice is not None:
            yield receivable_row(invoice, _parties(reader, invoice), cents, day)


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
    entity = _entity(reader, invoice.billing_entity_id, invoice.issuer_version_id)
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
        # Of documents; most have one row.
        count=lambda reader, start, end: (
            reader.tx.count(Invoice, *_taxed_invoices(start, end))
            + reader.tx.count(CreditNote, *_taxed_notes(start, end))
        ),
        rows=_tax_rows,
    ),
    "credits": Export(
        columns=CREDIT_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Invoice, *_visible(start, end)),
        rows=_credit_rows,
    ),
    "refunds": Export(
        columns=REFUND_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(RefundAttempt, *_made(start, end)),
        rows=_refund_rows,
    ),
    "requested_invoices": Export(
        columns=REQUESTED_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(RequestedInvoice, *_made(start, end)),
        rows=_requested_rows,
    ),
    "wallets": Export(
        columns=WALLET_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Wallet, *_made(start, end)),
        rows=_wallet_rows,
    ),
    "deferred_revenue": Export(
        columns=DEFERRED_COLUMNS,
        # Of fees; each has a row for every month.
        count=lambda reader, start, end: reader.tx.count(Fee, *_ahead()),
        rows=_deferred_rows,
    ),
    "receivables": Export(
        columns=RECEIVABLE_COLUMNS,
        # Of movements; an invoice has several.
        count=lambda reader, start, end: reader.tx.count(Movement, *_debts(start, end)),
        rows=_receivable_rows,
    ),
    "ledger": Export(
        columns=LEDGER_COLUMNS,
        count=lambda reader, start, end: reader.tx.count(Movement, *_posted_on(start, end)),
        rows=_ledger_rows,
    ),
}
# Fees with the columns of the FinOps Open Cost and Usage Specification 1.2.
FOCUS = Export(
    columns=FOCUS_COLUMNS,
    count=lambda reader, start, end: reader.tx.count(Fee, *_issued(start, end)),
    rows=_focus_rows,
)
