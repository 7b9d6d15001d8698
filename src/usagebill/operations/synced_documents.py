"""Synced documents: records pushed to accounting systems and CRMs.

A change orders a push in its own transaction. The push is prepared in one transaction, posted while none is open, and
its response processed in another. A document that depends on another one waits for it without a job of its own: the
outcome of that one decides when it is pushed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.customers import Customer, IntegrationCategory, IntegrationCustomer
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.core.error_details import ErrorDetail
from usagebill.core.errors import NotAllowed, NotFound
from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.payments import Payment
from usagebill.core.statuses import ChargeStatus, SyncStatus
from usagebill.core.sync_connections import (
    SHOWING_ERRORS,
    UNSETTLED,
    Accepted,
    Push,
    PushDocument,
    SyncConnection,
    SyncedDocument,
    SyncSubject,
    awaited,
    is_refused_altogether,
    sync_error,
)
from usagebill.core.synced_documents import (
    accepted,
    failed,
    is_pushed_again,
    is_released,
    lacking,
    ordered,
    pushed_fields,
    renewed,
    resent,
    retried,
)
from usagebill.core.tax_providers import ProviderFailure
from usagebill.core.webhooks import sign_hmac
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.process.json_text import encode_json, with_prefix
from usagebill.queries.customers import find_customer
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.sync_connections import document_of, find_connection
from usagebill.requests.inputs import Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, within
from usagebill.storage.ports import Page
from usagebill.views.credit_notes import credit_note_view
from usagebill.views.customers import customer_summary, customer_view
from usagebill.views.invoices import invoice_view, invoice_webhook_view
from usagebill.views.payments import payment_view
from usagebill.views.sync_connections import customer_sync_error, integration_error

_RESYNCED = "invoice.resynced"
# By category, the messages that a system created a customer, and that it refused a document.
_CREATED: Mapping[IntegrationCategory, str] = {
    IntegrationCategory.ACCOUNTING: "customer.accounting_provider_created",
    IntegrationCategory.CRM: "customer.crm_provider_created",
}
_REFUSED: Mapping[IntegrationCategory, str] = {
    IntegrationCategory.ACCOUNTING: "customer.accounting_provider_error",
    IntegrationCategory.CRM: "customer.crm_provider_error",
}
_NOT_LINKED = ProviderFailure(code="not_linked", message="the customer is not linked to this connection any more")
_ENDED = ProviderFailure(code="connection_deleted", message="the connection has ended")


@Input
class SyncedDocumentFilters:
    """`subject`: customer, invoice, credit_note or payment; `subject_id` names one record."""

    status: Maybe[str] = described("Only those with this status.")
    subject: Maybe[str] = described("Only documents of this kind.", values=tuple(SyncSubject))
    subject_id: Maybe[str] = described("Only the documents of this record, by id.")


# Orders


def _connections(
    reader: Reader, customer: Customer, subject: SyncSubject
) -> Iterator[tuple[IntegrationCustomer, SyncConnection]]:
    """The customer's systems to which documents of this subject are pushed."""
    for link in customer.integration_customers:
        if link.category is IntegrationCategory.TAX:
            continue
        connection = find_connection(reader, link.connection_id)
        if connection is not None and connection.takes(subject):
            yield link, connection


def _order(
    work: Work,
    connection: SyncConnection,
    customer: Customer,
    subject: SyncSubject,
    subject_id: str,
    parent: SyncedDocument | None = None,
) -> SyncedDocument:
    """Order a push of a record in its current state: at once, or after the document it depends on."""
    existing = document_of(work, connection.id, subject_id)
    awaits = awaited(parent)
    if existing is None:
        document = _made(work, connection, customer, subject, subject_id, awaits)
    else:
        document = ordered(existing, awaits, work.now)
        work.tx.replace(document)
    if awaits is None:
        # Nothing is scheduled if a push is under way or will be retried: the next one has the new version.
        work.schedule(PushDocument(document_id=document.id), work.now)
    elif parent is not None and parent.status == SyncStatus.FAILED:
        _fail(work, document, connection, customer, lacking(parent.subject))
    return document


def _made(
    work: Work,
    connection: SyncConnection,
    customer: Customer,
    subject: SyncSubject,
    subject_id: str,
    awaits_id: str | None = None,
) -> SyncedDocument:
    document = SyncedDocument(
        id=work.new_id(),
        organization_id=work.organization.id,
        connection_id=connection.id,
        customer_id=customer.id,
        subject=subject,
        subject_id=subject_id,
        awaits_id=awaits_id,
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(document)
    return document


def _renewed(work: Work, document: SyncedDocument, awaits_id: str | None) -> SyncedDocument:
    """The document with a new version to push, once the one it awaits is there."""
    again = replace(renewed(document, work.now), awaits_id=awaits_id)
    work.tx.replace(again)
    return again


def follow_customer(work: Work, before: Customer | None, after: Customer) -> None:
    """Push a customer to its systems, if it is new there or its pushed fields have changed."""
    former = {} if before is None else {link.connection_id: link for link in before.integration_customers}
    changed = before is None or pushed_fields(before) != pushed_fields(after)
    for link, connection in _connections(work, after, SyncSubject.CUSTOMER):
        if link.sync_with_provider and (changed or former.get(link.connection_id) != link):
            _order(work, connection, after, SyncSubject.CUSTOMER, after.id)


def _customer_document(reader: Reader, link: IntegrationCustomer, customer: Customer) -> SyncedDocument | None:
    """The document of a customer created by us; None for one that existed there before."""
    return document_of(reader, link.connection_id, customer.id) if link.sync_with_provider else None


def invoice_issued(work: Work, invoice: Invoice, customer: Customer) -> None:
    """Push a finalized invoice, unless self-billed, and payments made while it was hidden."""
    if not customer.integration_customers or invoice.self_billed:
        return
    for link, connection in _connections(work, customer, SyncSubject.INVOICE):
        parent = _customer_document(work, link, customer)
        _order(work, connection, customer, SyncSubject.INVOICE, invoice.id, parent)
    for payment in work.tx.find(Payment, eq("invoice_id", invoice.id)):
        payment_succeeded(work, payment, customer)


def invoice_changed(work: Work, invoice: Invoice) -> None:
    """Push a new payment status, void or dispute of an invoice to the systems that have it."""
    if invoice.status not in ISSUED:
        return
    for document in work.tx.find(SyncedDocument, eq("subject_id", invoice.id)):
        connection = find_connection(work, document.connection_id)
        customer = find_customer(work, invoice.customer_id)
        if connection is None or customer is None:
            continue
        if is_pushed_again(connection.category, invoice.status):
            parent = None if document.awaits_id is None else work.tx.get(SyncedDocument, document.awaits_id)
            _order(work, connection, customer, SyncSubject.INVOICE, invoice.id, parent)


def note_issued(work: Work, note: CreditNote) -> None:
    """Push an issued credit note after its invoice, if that is pushed."""
    customer = find_customer(work, note.customer_id)
    if customer is None or not customer.integration_customers or note.self_billed:
        return
    for link, connection in _connections(work, customer, SyncSubject.CREDIT_NOTE):
        parent = document_of(work, connection.id, note.invoice_id) or _customer_document(work, link, customer)
        _order(work, connection, customer, SyncSubject.CREDIT_NOTE, note.id, parent)


def payment_succeeded(work: Work, payment: Payment, customer: Customer) -> None:
    """Push a payment of a finalized invoice; it fails with `invoice_missing` if the invoice is not pushed."""
    if not customer.integration_customers or payment.invoice_id is None:
        return
    if payment.payment_status != ChargeStatus.SUCCEEDED:
        return
    invoice = work.tx.get(Invoice, payment.invoice_id)
    if invoice is None or invoice.status not in ISSUED or invoice.self_billed:
        return
    for _, connection in _connections(work, customer, SyncSubject.PAYMENT):
        _order_payment(work, connection, customer, payment)


def _order_payment(work: Work, connection: SyncConnection, customer: Customer, payment: Payment) -> None:
    if payment.invoice_id is None or document_of(work, connection.id, payment.id) is not None:
        return
    parent = document_of(work, connection.id, payment.invoice_id)
    if parent is None:
        document = _made(work, connection, customer, SyncSubject.PAYMENT, payment.id)
        _fail(work, document, connection, customer, lacking(SyncSubject.INVOICE))
        return
    _order(work, connection, customer, SyncSubject.PAYMENT, payment.id, parent)


# Pushes


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A push, and the connection that it goes to."""

    connection: SyncConnection
    push: Push


def prepare(work: Work, job: Job, task: PushDocument) -> Prepared | None:
    """The push of the job; None if there is nothing to post, and the job is done."""
    document = work.tx.get(SyncedDocument, task.document_id)
    if document is None or document.status not in UNSETTLED:
        work.tx.jobs.complete(job)
        return None
    connection = find_connection(work, document.connection_id)
    customer = find_customer(work, document.customer_id)
    link = None if customer is None else _link(customer, document)
    if connection is None or customer is None or link is None:
        work.tx.jobs.complete(job)
        _settle(work, document, _ENDED if connection is None else _NOT_LINKED)
        return None
    body = {
        "connection": {"type": connection.kind, "code": connection.code},
        "svc_document_id": document.id,
        "version": document.version,
        "object_type": document.subject.value,
        "external_id": document.external_id,
        "external_customer_id": link.external_customer_id,
        "subsidiary_id": link.subsidiary_id,
        "targeted_object": link.targeted_object,
        **_content(work, document),
    }
    encoded = encode_json(with_prefix(body, "svc_", work.settings.id_prefix))
    push = Push(
        document_id=document.id,
        version=document.version,
        subject=document.subject,
        body=encoded,
        signature=sign_hmac(derived_key(work.organization.root_key, Purpose.BRIDGE_CALL), encoded),
    )
    return Prepared(connection=connection, push=push)


def _link(customer: Customer, document: SyncedDocument) -> IntegrationCustomer | None:
    links = customer.integration_customers
    return next((link for link in links if link.connection_id == document.connection_id), None)


def _content(reader: Reader, document: SyncedDocument) -> Mapping[str, object]:
    """The current record, under its name; a payment or credit note with its invoice's id in the system."""
    id = document.subject_id
    match document.subject:
        case SyncSubject.CUSTOMER:
            customer = find_customer(reader, id)
            return {"customer": None if customer is None else customer_view(reader, customer)}
        case SyncSubject.INVOICE:
            invoice = reader.tx.get(Invoice, id)
            return {"invoice": None if invoice is None else invoice_view(reader, invoice)}
        case SyncSubject.CREDIT_NOTE:
            note = reader.tx.get(CreditNote, id)
            invoice_id = None if note is None else note.invoice_id
            shown = None if note is None else credit_note_view(reader, note)
            return {"external_invoice_id": _external_id(reader, document, invoice_id), "credit_note": shown}
        case SyncSubject.PAYMENT:
            payment = reader.tx.get(Payment, id)
            invoice_id = None if payment is None else payment.invoice_id
            paid = None if payment is None else payment_view(reader, payment)
            return {"external_invoice_id": _external_id(reader, document, invoice_id), "payment": paid}


def _external_id(reader: Reader, document: SyncedDocument, invoice_id: str | None) -> str | None:
    invoice = None if invoice_id is None else document_of(reader, document.connection_id, invoice_id)
    return None if invoice is None else invoice.external_id


def conclude(work: Work, job: Job, prepared: Prepared, answer: Accepted | ProviderFailure) -> None:
    """Act on a response. Without one, the push is retried before its failure is shown."""
    work.tx.jobs.complete(job)
    document = work.tx.get(SyncedDocument, prepared.push.document_id)
    if document is None or document.status not in UNSETTLED:
        return
    if isinstance(answer, ProviderFailure):
        retrying, delay = retried(document, answer, prepared.push.version, work.now)
        if delay is None:
            _settle(work, retrying, answer)
            return
        work.tx.replace(retrying)
        work.schedule(PushDocument(document_id=document.id), work.now + delay)
        return
    synced = accepted(document, answer, prepared.push.version, work.now)
    work.tx.replace(synced)
    if synced.status != SyncStatus.SYNCED:
        work.schedule(PushDocument(document_id=synced.id), work.now)
    _show_error(work, synced, None)
    if synced.subject is SyncSubject.CUSTOMER:
        _note_customer(work, synced, prepared.connection, is_new=document.external_id is None)
    for waiting in work.tx.find(SyncedDocument, eq("awaits_id", synced.id), order=_IN_ORDER):
        if is_released(waiting):
            released = _renewed(work, waiting, awaits_id=None)
            work.schedule(PushDocument(document_id=released.id), work.now)
            _show_error(work, released, None)


_IN_ORDER = [asc("created_at"), asc("id")]


def _settle(work: Work, document: SyncedDocument, failure: ProviderFailure) -> None:
    """Store the outcome of a push: its failure, if any, and that of the documents that wait for it."""
    connection = find_connection(work, document.connection_id)
    customer = find_customer(work, document.customer_id)
    of_connection = eq("connection_id", document.connection_id), eq("status", SyncStatus.FAILED)
    is_news = work.tx.first(SyncedDocument, *of_connection, eq("error_code", failure.code)) is None
    _fail(work, document, connection, customer, failure)
    if connection is not None and is_news and is_refused_altogether(failure):
        work.emit("integration.provider_error", partial(integration_error, connection, failure), connection.id)
    for waiting in work.tx.find(SyncedDocument, eq("awaits_id", document.id), order=_IN_ORDER):
        if waiting.status in UNSETTLED:
            _settle(work, waiting, lacking(document.subject))


def _fail(
    work: Work,
    document: SyncedDocument,
    connection: SyncConnection | None,
    customer: Customer | None,
    failure: ProviderFailure,
) -> None:
    gone = failed(document, failure, work.now)
    work.tx.replace(gone)
    if connection is None or customer is None:
        return
    link = _link(customer, gone)
    if link is not None:
        _show_error(work, gone, sync_error(link, gone))
    message = partial(customer_sync_error, customer, connection, failure)
    work.emit(_REFUSED[connection.category], message, customer.id)


def _show_error(work: Work, document: SyncedDocument, detail: ErrorDetail | None) -> None:
    """Store on an invoice or credit note that a system refused it, or clear that."""
    if document.subject not in SHOWING_ERRORS:
        return
    kind: type[Invoice] | type[CreditNote] = Invoice if document.subject is SyncSubject.INVOICE else CreditNote
    record = work.tx.get(kind, document.subject_id)
    if record is None:
        return
    details = tuple(known for known in record.error_details if known.id != document.id)
    if detail is not None:
        details = (*details, detail)
    if details != record.error_details:
        work.tx.replace(replace(record, error_details=details))


def _note_customer(work: Work, document: SyncedDocument, connection: SyncConnection, *, is_new: bool) -> None:
    """Store a system's id of a customer, and send the message that it was created there."""
    customer = work.tx.first(Customer, eq("id", document.customer_id))
    if customer is None or document.external_id is None:
        return
    links = tuple(
        replace(link, external_customer_id=document.external_id) if link.connection_id == connection.id else link
        for link in customer.integration_customers
    )
    if links != customer.integration_customers:
        customer = replace(customer, integration_customers=links)
        work.tx.replace(customer)
    if is_new:
        known = customer
        work.emit(_CREATED[connection.category], lambda: customer_summary(work, known), customer.id)


# Requests


def get(reader: Reader, synced_document_id: str) -> SyncedDocument:
    """The document with this id. Raises `NotFound`."""
    document = reader.tx.get(SyncedDocument, synced_document_id)
    if document is None:
        raise NotFound("synced_document", synced_document_id)
    return document


def list_all(reader: Reader, options: SyncedDocumentFilters, paging: Paging) -> Page[SyncedDocument]:
    """Documents, newest first."""
    conditions: list[Condition] = []
    if options.status:
        conditions.append(eq("status", options.status))
    if options.subject:
        conditions.append(eq("subject", options.subject))
    if options.subject_id:
        conditions.append(eq("subject_id", options.subject_id))
    return reader.page(SyncedDocument, *conditions, paging=paging)


@without_backlog(Unrelated.STORED)
def resend(work: Work, synced_document_id: str) -> SyncedDocument:
    """Push a document again, at once, with the idempotency key of the last push if that failed, else a new one.

    Raises `NotFound`, and `NotAllowed` if its connection has ended.
    """
    document = get(work, synced_document_id)
    if find_connection(work, document.connection_id) is None:
        raise NotAllowed("connection_deleted")
    return _resent(work, document)


def _resent(work: Work, document: SyncedDocument) -> SyncedDocument:
    parent = None if document.awaits_id is None else work.tx.get(SyncedDocument, document.awaits_id)
    if parent is not None and parent.external_id is None:
        _resent(work, parent)
        return _renewed(work, document, document.awaits_id)
    again = resent(document, work.now)
    work.tx.replace(again)
    _show_error(work, again, None)
    task = PushDocument(document_id=document.id)
    work.cancel(task)
    work.schedule(task, work.now)
    return again


@without_backlog(Unrelated.STORED)
def resend_failed(work: Work) -> int:
    """Push all failed documents again, except those of deleted connections. Returns their number."""
    failures = work.tx.find(SyncedDocument, eq("status", SyncStatus.FAILED), order=_IN_ORDER)
    sent = [document for document in failures if find_connection(work, document.connection_id) is not None]
    for document in sent:
        _resent(work, get(work, document.id))
    return len(sent)


@without_backlog(Unrelated.STORED)
def push_invoice(work: Work, invoice_id: str) -> Invoice:
    """Push a finalized invoice, with its credit notes and payments, to its customer's systems (again).

    It may have been issued before the customer was linked. Raises `NotFound`, and `NotAllowed` for an invoice that is
    not issued, or whose customer is linked to none.
    """
    invoice = visible_invoice(work, invoice_id)
    customer = find_customer(work, invoice.customer_id)
    targets = [] if customer is None else list(_connections(work, customer, SyncSubject.INVOICE))
    if customer is None or not targets or invoice.self_billed:
        raise NotAllowed("not_linked")
    if invoice.status not in ISSUED:
        raise NotAllowed("invalid_status", invoice.status)
    for link, connection in targets:
        known = document_of(work, connection.id, invoice.id)
        if known is None:
            parent = _customer_document(work, link, customer)
            _order(work, connection, customer, SyncSubject.INVOICE, invoice.id, parent)
        else:
            _resent(work, known)
        if connection.category is IntegrationCategory.CRM:
            work.emit(_RESYNCED, lambda: invoice_webhook_view(work, _RESYNCED, invoice), invoice.id)
        _push_what_belongs(work, connection, customer, invoice)
    return work.tx.get(Invoice, invoice.id) or invoice


def _push_what_belongs(work: Work, connection: SyncConnection, customer: Customer, invoice: Invoice) -> None:
    """Push the invoice's credit notes and payments that the system lacks."""
    parent = document_of(work, connection.id, invoice.id)
    wanted: list[tuple[SyncSubject, str]] = []
    if connection.takes(SyncSubject.CREDIT_NOTE):
        notes = work.tx.find(CreditNote, eq("invoice_id", invoice.id), order=_IN_ORDER)
        wanted += [(SyncSubject.CREDIT_NOTE, note.id) for note in notes if note.status == CreditNoteStatus.FINALIZED]
    if connection.takes(SyncSubject.PAYMENT):
        paid = work.tx.find(
            Payment, eq("invoice_id", invoice.id), eq("payment_status", ChargeStatus.SUCCEEDED), order=_IN_ORDER
        )
        wanted += [(SyncSubject.PAYMENT, payment.id) for payment in paid]
    for subject, id in wanted:
        known = document_of(work, connection.id, id)
        if known is None or known.status == SyncStatus.FAILED:
            _order(work, connection, customer, subject, id, parent)


def end(work: Work, connection: SyncConnection) -> None:
    """Drop the pending pushes of a connection that is being deleted."""
    unsettled = within("status", UNSETTLED)
    for document in work.tx.find(SyncedDocument, eq("connection_id", connection.id), unsettled):
        work.cancel(PushDocument(document_id=document.id))
        _fail(work, document, None, None, _ENDED)
