"""The ledger: every change of a document is posted in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from usagebill.core.activity_logs import Change, changed_fields
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus, CreditStatus
from usagebill.core.customers import Customer
from usagebill.core.days import local_date
from usagebill.core.errors import Invalid
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.undoing import used_cents
from usagebill.core.ledger import (
    BY_HAND,
    DEBTS,
    Account,
    ClosedMonth,
    DocumentType,
    Entries,
    Movement,
    Place,
    Rates,
    allocation_entries,
    credit_note_entries,
    credit_use_entries,
    differences,
    ended_wallet_entries,
    in_base_currency,
    invoice_entries,
    last_day_of,
    open_day,
    payment_entries,
    provider_fee_entries,
    rates_of,
    refund_entries,
    single_rate,
    stages_of_invoice,
    stages_of_note,
    top_up_entries,
)
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt, TakenBack
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.tasks import PostPast
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.operations.backlog import after_backlog, of_everyone
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.exchange_rates import rate_on
from usagebill.queries.filters import named_entities
from usagebill.queries.ledger import closed_until
from usagebill.queries.payment_requests import request_of
from usagebill.queries.payments import paid_invoices
from usagebill.queries.wallets import wallet_of
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, at_least, at_most, desc, eq, related, within
from usagebill.storage.ports import Page

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What the ledger says of a record: whose it is, and its entries. `day` is its own date, if it has one and was not
    posted before.
    """

    type: DocumentType
    id: str
    customer_id: str
    billing_entity_id: str
    currency: str
    entries: Entries
    number: str | None = None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class _Posted:
    """A kind of record that is posted, whenever one of `fields` changes."""

    document: Callable[[Reader, Any], Document]
    fields: frozenset[str]


@Input
class LedgerFilters:
    external_customer_id: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT
    currency: Maybe[str] = ABSENT
    account: Maybe[str] = described("Only movements of this kind of account.", values=tuple(Account))
    document_type: Maybe[str] = described("Only movements of this kind of document.", values=tuple(DocumentType))
    from_date: Maybe[str] = described("Only movements posted on this day or later.", example="2024-03-01")
    to_date: Maybe[str] = described("Only movements posted on this day or before.", example="2024-03-31")


@Input
class MonthClose:
    month: Maybe[str] = described("The month to close, with all before it.", example="2024-03", required="always")


def list_all(reader: Reader, options: LedgerFilters, paging: Paging) -> Page[Movement]:
    """Movements, by the day on which they were posted; a customer that does not exist has none.

    Raises `Invalid` for a malformed day, and `NotFound` for an unknown billing entity.
    """
    conditions: list[Condition] = []
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    if options.billing_entity_code:
        conditions.append(within("billing_entity_id", named_entities(reader, [options.billing_entity_code])))
    for name in ("currency", "account", "document_type"):
        value = getattr(options, name)
        if value:
            conditions.append(eq(name, value))
    since, until = (value_or(text, None) for text in (options.from_date, options.to_date))
    if since:
        conditions.append(at_least("posting_date", _day("from_date", since)))
    if until:
        conditions.append(at_most("posting_date", _day("to_date", until)))
    return reader.page(Movement, *conditions, paging=paging, order=(asc("posting_date"),))


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise Invalid({name: ["invalid_date"]}) from problem


@after_backlog(of_everyone)
def close(work: Work, request: MonthClose) -> ClosedMonth:
    """Close a month and all before it: no movement is dated there any more. What happens later is dated the first open
    day. Closing a closed month again changes nothing.

    Raises `Invalid` for a month that is malformed or not over in the time zone of every billing entity.
    """
    last_day = last_day_of(value_or(request.month, None) or "")
    if last_day is None:
        raise Invalid(month="invalid_date")
    if any(local_date(work.now, ZoneInfo(entity.timezone)) <= last_day for entity in work.tx.find(BillingEntity)):
        raise Invalid(month="value_is_out_of_range")
    latest = work.tx.first(ClosedMonth, order=[desc("last_day")])
    if latest is not None and last_day <= latest.last_day:
        return latest
    closed = ClosedMonth(id=work.new_id(), organization_id=work.organization.id, last_day=last_day, created_at=work.now)
    work.tx.insert(closed)
    return closed


def post(work: Work, changes: Sequence[Change]) -> None:
    """Post what the changed records say now and did not say before."""
    for change in changes:
        posted = POSTED.get(type(change.record))
        if posted is None or change.new is None:
            continue
        if change.old is not None and posted.fields.isdisjoint(changed_fields(change.old, change.new)):
            continue
        _post(work, posted.document(work, change.new), is_new=change.old is None)
        for document in _related(work, change.old, change.new):
            _post(work, document, is_new=False)


def _related(reader: Reader, old: object, new: object) -> Iterator[Document]:
    """Other documents that say something else now: invoices whose payment is in dispute, the fee of a payment, and a
    note of whose refund a part was paid back.
    """
    if isinstance(old, Payment) and isinstance(new, Payment) and TakenBack.DISPUTED in (old.status, new.status):
        for invoice in paid_invoices(reader, new):
            yield _invoice(reader, invoice)
    if isinstance(new, Payment) and new.provider_fee_amount_cents is not None:
        yield _provider_fee(reader, new)
    if isinstance(new, RefundAttempt):
        if new.credit_note_id is not None:
            yield _credit_note(reader, _found(reader, CreditNote, new.credit_note_id))
        invoice = _found(reader, Invoice, new.invoice_id)
        if invoice.payment_dispute_lost_at is not None:
            yield _invoice(reader, invoice)


def _post(work: Work, document: Document, *, is_new: bool) -> None:
    of_document = eq("document_id", document.id), eq("document_type", document.type)
    before = [] if is_new else work.tx.find(Movement, *of_document)
    missing = differences(((movement.place, movement.amount_cents) for movement in before), document.entries)
    if not missing:
        return
    day = document.day
    if day is None or before:
        day = local_date(work.now, _zone(work, document.billing_entity_id))
    dated = open_day(day, closed_until(work))
    base_currency, rate, based = _in_base_currency(work, document, missing, before, day)
    rows = {**missing, **dict.fromkeys(based.keys() - missing.keys(), 0)}
    group_id, *ids = work.new_ids(len(rows) + 1)
    work.tx.insert(
        *(
            Movement(
                id=id,
                organization_id=work.organization.id,
                group_id=group_id,
                posting_date=dated,
                document_date=day,
                billing_entity_id=document.billing_entity_id,
                customer_id=document.customer_id,
                document_type=document.type,
                document_id=document.id,
                number=document.number,
                account=place.account,
                invoice_id=place.invoice_id,
                tax_code=place.tax_code,
                tax_rate=place.tax_rate,
                country=place.country,
                provider=place.provider,
                currency=document.currency,
                amount_cents=cents,
                created_at=work.now,
                base_currency=base_currency,
                base_amount_cents=based.get(place),
                exchange_rate=rate,
            )
            for id, (place, cents) in zip(ids, rows.items(), strict=True)
        )
    )


def _in_base_currency(
    reader: Reader, document: Document, missing: Entries, before: Sequence[Movement], day: date
) -> tuple[str | None, Decimal | None, Entries]:
    """The currency of the billing entity's books, the rate if there has to be one, and what is posted in it; nothing if
    none was given.
    """
    entity = find_entity(reader, document.billing_entity_id)
    if entity is None or entity.default_currency == document.currency:
        return document.currency, None, missing
    rate = rate_on(reader, entity, document.currency, day)
    if rate is None:
        return None, None, {}

    def posted(place: Place) -> Sequence[Movement]:
        if place.account not in DEBTS or place.invoice_id is None:
            return [movement for movement in before if movement.place == place]
        of_debt = eq("customer_id", document.customer_id), eq("invoice_id", place.invoice_id)
        return reader.tx.find(Movement, *of_debt, eq("account", place.account))

    return rate.base_currency, rate.rate, in_base_currency(missing, rate, posted)


def post_past(work: Work, task: PostPast) -> None:
    """Job: post the documents of a customer that are older than the ledger, dated as the documents say."""
    of_customer = eq("customer_id", task.customer_id)
    _note_voids(work, of_customer)
    past: list[tuple[datetime, object]] = []
    for invoice in work.tx.find(Invoice, of_customer):
        past += stages_of_invoice(invoice)
        parts = work.tx.find(RequestedInvoice, eq("invoice_id", invoice.id))
        past += [(part.updated_at, part) for part in parts]
    for note in work.tx.find(CreditNote, of_customer):
        past += stages_of_note(note)
    past += [(payment.created_at, payment) for payment in work.tx.find(Payment, of_customer)]
    past += [(refund.updated_at, refund) for refund in work.tx.find(RefundAttempt, of_customer)]
    for transaction in work.tx.find(WalletTransaction, of_customer):
        past.append((transaction.settled_at or transaction.created_at, transaction))
    for wallet in work.tx.find(Wallet, of_customer):
        past += [(use.created_at, use) for use in work.tx.find(WalletConsumption, eq("wallet_id", wallet.id))]
        past.append((wallet.terminated_at or wallet.created_at, wallet))
    for instant, record in sorted(past, key=lambda stage: stage[0]):
        at = work.at(instant)
        _post(at, POSTED[type(record)].document(at, record), is_new=False)


def _note_voids(work: Work, of_customer: Condition) -> None:
    """Note how much of the customer's credit notes was voided: earlier versions did not."""
    invoices = work.tx.find(Invoice, of_customer)
    for note in work.tx.find(CreditNote, of_customer, eq("credit_status", CreditStatus.VOIDED)):
        if not note.voided_amount_cents and not note.withdrawn_amount_cents:
            lost = note.credit_amount_cents - used_cents(note.id, invoices)
            work.tx.replace(replace(note, voided_amount_cents=lost))


def _zone(reader: Reader, billing_entity_id: str) -> ZoneInfo:
    entity = find_entity(reader, billing_entity_id)
    return ZoneInfo("UTC" if entity is None else entity.timezone)


def _found(reader: Reader, kind: type[R], id: str | None) -> R:
    record = reader.tx.get(kind, id or "", deleted=True)
    if record is None:
        raise LookupError(f"no {kind.__name__} {id}")
    return record


def _rates(reader: Reader, *documents: Invoice | CreditNote) -> dict[str, Rates]:
    """The parts by tax rate of the documents that are not taxed alike."""
    rates = {}
    for document in documents:
        if single_rate(document) is None:
            if isinstance(document, Invoice):
                fees = reader.tx.find(Fee, eq("invoice_id", document.id))
                lines = [(fee, Decimal(fee.amount_cents)) for fee in fees]
            else:
                credited = {item.fee_id: item.precise_amount_cents for item in document.items}
                lines = [(fee, credited[fee.id]) for fee in reader.tx.find(Fee, within("id", credited))]
            rates[document.id] = rates_of(lines)
    return rates


def _invoice(reader: Reader, invoice: Invoice) -> Document:
    notes = reader.tx.find(CreditNote, eq("invoice_id", invoice.id)) if invoice.status == InvoiceStatus.VOIDED else []
    lost_at = invoice.payment_dispute_lost_at
    return Document(
        type=DocumentType.INVOICE,
        id=invoice.id,
        customer_id=invoice.customer_id,
        billing_entity_id=invoice.billing_entity_id,
        currency=invoice.currency,
        number=invoice.number,
        day=invoice.issuing_date if invoice.status == InvoiceStatus.FINALIZED else None,
        entries=invoice_entries(
            invoice,
            notes=notes,
            disputed={} if lost_at is None else _disputed(reader, invoice, lost_at),
            rates=_rates(reader, invoice, *notes),
        ),
    )


def _disputed(reader: Reader, invoice: Invoice, lost_at: datetime) -> dict[str, int]:
    """The cents that lost disputes took back, by provider: what it had collected by then and not paid back, of the
    payments in dispute if these are known.
    """
    cents: dict[str, int] = {}
    succeeded = eq("payment_status", ChargeStatus.SUCCEEDED)
    collected = [
        (payment, payment.amount_cents)
        for payment in reader.tx.find(Payment, eq("invoice_id", invoice.id), succeeded)
        if payment.created_at <= lost_at or payment.status == TakenBack.DISPUTED
    ]
    for part in reader.tx.find(RequestedInvoice, eq("invoice_id", invoice.id)):
        of_request = eq("payment_request_id", part.payment_request_id)
        paying = reader.tx.first(Payment, of_request, succeeded, at_most("created_at", lost_at))
        if paying is not None:
            collected.append((paying, part.paid_cents))
    refunded = eq("refund_status", PaymentStatus.SUCCEEDED)
    known = [taken for taken in collected if taken[0].status == TakenBack.DISPUTED]
    for payment, received in known or collected:
        if payment.is_manual:
            continue
        returned = reader.tx.total(
            RefundAttempt, "amount_cents", eq("payment_id", payment.id), eq("invoice_id", invoice.id), refunded
        )
        provider = payment.payment_provider_code or BY_HAND
        cents[provider] = cents.get(provider, 0) + received - returned
    return cents


def _credit_note(reader: Reader, note: CreditNote) -> Document:
    return Document(
        type=DocumentType.CREDIT_NOTE,
        id=note.id,
        customer_id=note.customer_id,
        billing_entity_id=note.billing_entity_id,
        currency=note.currency,
        number=note.number,
        day=note.issuing_date if note.status == CreditNoteStatus.FINALIZED else None,
        entries=credit_note_entries(
            note,
            _found(reader, Invoice, note.invoice_id).invoice_type,
            paid_back=_paid_back(reader, note),
            rates=_rates(reader, note),
        ),
    )


def _paid_back(reader: Reader, note: CreditNote) -> dict[str, int]:
    """The cents of a note's refund that were paid back, by provider: the rest of one that succeeded came by hand."""
    if not note.refund_amount_cents:
        return {}
    succeeded = eq("refund_status", PaymentStatus.SUCCEEDED)
    cents: dict[str, int] = {}
    for refund in reader.tx.find(RefundAttempt, eq("credit_note_id", note.id), succeeded):
        provider = _found(reader, Payment, refund.payment_id).payment_provider_code or BY_HAND
        cents[provider] = cents.get(provider, 0) + refund.amount_cents
    rest = note.refund_amount_cents - sum(cents.values()) if note.refund_status == PaymentStatus.SUCCEEDED else 0
    return {**cents, BY_HAND: cents.get(BY_HAND, 0) + rest} if rest else cents


def _payment(reader: Reader, payment: Payment) -> Document:
    paid: Invoice | PaymentRequest = (
        _found(reader, Invoice, payment.invoice_id)
        if payment.payment_request_id is None
        else request_of(reader, payment.payment_request_id)
    )
    return Document(
        type=DocumentType.PAYMENT,
        id=payment.id,
        customer_id=payment.customer_id,
        billing_entity_id=paid.billing_entity_id,
        currency=payment.amount_currency,
        number=payment.reference or payment.provider_payment_id,
        day=_received_on(reader, payment, paid.billing_entity_id),
        entries=payment_entries(payment, self_billed=isinstance(paid, Invoice) and paid.self_billed),
    )


def _provider_fee(reader: Reader, payment: Payment) -> Document:
    paid = _payment(reader, payment)
    currency = payment.provider_fee_currency or payment.amount_currency
    entries = provider_fee_entries(payment)
    return replace(paid, type=DocumentType.PROVIDER_FEE, currency=currency, entries=entries)


def _received_on(reader: Reader, payment: Payment, billing_entity_id: str) -> date | None:
    """The day on which money was received, by hand or by the provider's own word; None for what is received as it
    succeeds. By hand, a day without a time of day is midnight UTC.
    """
    if not payment.is_manual:
        received_at = payment.received_at
        return None if received_at is None else local_date(received_at, _zone(reader, billing_entity_id))
    paid_at = payment.created_at.astimezone(UTC)
    return paid_at.date() if paid_at.time() == time() else local_date(paid_at, _zone(reader, billing_entity_id))


def _allocation(reader: Reader, part: RequestedInvoice) -> Document:
    request = request_of(reader, part.payment_request_id)
    of_request = eq("payment_request_id", request.id), eq("payment_status", ChargeStatus.SUCCEEDED)
    payment = reader.tx.first(Payment, *of_request)
    return Document(
        type=DocumentType.ALLOCATION,
        id=part.id,
        customer_id=request.customer_id,
        billing_entity_id=request.billing_entity_id,
        currency=request.currency,
        number=_found(reader, Invoice, part.invoice_id).number,
        day=None if payment is None else _received_on(reader, payment, request.billing_entity_id),
        entries=allocation_entries(part),
    )


def _refund(reader: Reader, refund: RefundAttempt) -> Document:
    invoice = _found(reader, Invoice, refund.invoice_id)
    payment = _found(reader, Payment, refund.payment_id)
    return Document(
        type=DocumentType.REFUND,
        id=refund.id,
        customer_id=refund.customer_id,
        billing_entity_id=invoice.billing_entity_id,
        currency=refund.currency,
        number=refund.provider_refund_id,
        entries=refund_entries(refund, payment, self_billed=invoice.self_billed),
    )


def _entity_of(reader: Reader, wallet: Wallet) -> str:
    return wallet.billing_entity_id or _found(reader, Customer, wallet.customer_id).billing_entity_id


def _credits(reader: Reader, transaction: WalletTransaction, type: DocumentType, id: str, entries: Entries) -> Document:
    wallet = wallet_of(reader, transaction)
    return Document(
        type=type,
        id=id,
        customer_id=wallet.customer_id,
        billing_entity_id=transaction.billing_entity_id or _entity_of(reader, wallet),
        currency=wallet.currency,
        number=wallet.code,
        entries=entries,
    )


def _top_up(reader: Reader, transaction: WalletTransaction) -> Document:
    return _credits(reader, transaction, DocumentType.TOP_UP, transaction.id, top_up_entries(transaction))


def _credit_use(reader: Reader, use: WalletConsumption) -> Document:
    inbound = _found(reader, WalletTransaction, use.inbound_id)
    outbound = _found(reader, WalletTransaction, use.outbound_id)
    entries = credit_use_entries(use, inbound, outbound)
    return _credits(reader, outbound, DocumentType.CREDIT_USE, use.id, entries)


def _ended_wallet(reader: Reader, wallet: Wallet) -> Document:
    inbound = reader.tx.find(WalletTransaction, eq("wallet_id", wallet.id))
    return Document(
        type=DocumentType.WALLET,
        id=wallet.id,
        customer_id=wallet.customer_id,
        billing_entity_id=_entity_of(reader, wallet),
        currency=wallet.currency,
        number=wallet.code,
        entries=ended_wallet_entries(wallet, inbound),
    )


# A kind of record -> what it says, and the fields that this depends on.
POSTED: Mapping[type, _Posted] = {
    Invoice: _Posted(_invoice, frozenset({"status", "credits", "payment_dispute_lost_at"})),
    CreditNote: _Posted(
        _credit_note, frozenset({"status", "voided_amount_cents", "withdrawn_amount_cents", "refund_status"})
    ),
    Payment: _Posted(_payment, frozenset({"payment_status", "status", "provider_fee_amount_cents"})),
    RequestedInvoice: _Posted(_allocation, frozenset({"paid_cents"})),
    RefundAttempt: _Posted(_refund, frozenset({"refund_status"})),
    WalletTransaction: _Posted(_top_up, frozenset({"status"})),
    WalletConsumption: _Posted(_credit_use, frozenset()),
    Wallet: _Posted(_ended_wallet, frozenset({"status", "balance_cents"})),
}
