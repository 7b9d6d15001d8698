"""Taxes from a provider: requests about invoices, fees and credit notes, and the processing of responses.

A request is prepared in one transaction, sent while none is open, and its response processed in another. If the record
has changed meanwhile, it is asked about again, and the response to the earlier request is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from usagebill.core.bills import Step
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.error_details import TAX_ERROR, TAX_VOIDING_ERROR, ErrorDetail, without
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import AWAITING_PROVIDER_TAXES, InvoiceEvent, InvoiceStatus, transition
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.statuses import TaxStatus
from usagebill.core.tasks import AskTaxProvider, RetryLimitedTaxes, TaxWaitingInvoices
from usagebill.core.tax_providers import (
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    Reported,
    TaxConnection,
    TaxSubject,
    credit_note_items,
    fee_items,
    number_told,
    provider_taxed,
    retry_delay,
    withdrawal_after,
    withdrawn,
)
from usagebill.core.taxes import taxed_fee
from usagebill.operations.invoices.awaiting_taxes import wait_again
from usagebill.operations.invoices.issue import copy_subscriptions, tell_ready
from usagebill.operations.invoices.record import record
from usagebill.operations.tax_connections import ask_about
from usagebill.queries.customers import customer_of
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.invoice import redated, taxed_bill
from usagebill.rating.provider_taxes import TaxRequest, estimated, question
from usagebill.rating.settlement import fee_taxes
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, ne
from usagebill.views.tax_providers import customer_tax_error, fee_tax_error

Answer = ProviderTaxes | Reported | ProviderFailure

# Common to all providers' rate limit errors; such invoices are retried.
_LIMIT = "API limit"
_LIMIT_WAIT = timedelta(minutes=15)


# Questions


def prepare(work: Work, job: Job, task: AskTaxProvider) -> TaxRequest | None:
    """The request of the job; None if there is nothing to ask, and the job is done."""
    request = _PREPARE[task.subject](work, task)
    if request is None:
        work.tx.jobs.complete(job)
    return request


def _fees(reader: Reader, invoice_id: str) -> list[Fee]:
    return reader.tx.find(Fee, eq("invoice_id", invoice_id), order=[asc("created_at"), asc("id")])


def _by_id(fee: Fee) -> str:
    return fee.id


def _waiting(reader: Reader, task: AskTaxProvider) -> tuple[Invoice, Customer] | None:
    """The invoice, with its customer, that waits for this very request."""
    invoice = reader.tx.get(Invoice, task.subject_id)
    if invoice is None or invoice.tax_request_id != task.request_id:
        return None
    if invoice.tax_status != TaxStatus.PENDING or invoice.status not in AWAITING_PROVIDER_TAXES:
        return None
    return invoice, customer_of(reader, invoice)


def _prepare_invoice(work: Work, task: AskTaxProvider) -> TaxRequest | None:
    waiting = _waiting(work, task)
    if waiting is None:
        return None
    invoice, customer = waiting
    connection = connection_of(work, customer)
    if connection is None:
        work.schedule(TaxWaitingInvoices(customer_id=customer.id), work.now)
        return None
    purpose = Purpose.DRAFT
    if invoice.status != InvoiceStatus.DRAFT:
        # It will be dated on the day of the response, however long ago it was created.
        purpose, invoice = Purpose.FINALIZED, redated(work, invoice)
    items = fee_items(_fees(work, invoice.id), connection.item_codes, named_by=_by_id)
    return question(
        work,
        customer,
        connection,
        purpose,
        items,
        invoice,
        document_id=invoice.id,
        request_id=invoice.tax_request_id,
    )


def _prepare_fee(work: Work, task: AskTaxProvider) -> TaxRequest | None:
    fee = work.tx.get(Fee, task.subject_id)
    if fee is None or fee.invoice_id is not None:
        return None
    customer = customer_of(work, fee)
    connection = connection_of(work, customer)
    if connection is None:
        # The provider has never taxed it, and is not to be asked any more.
        taxed = taxed_fee(fee, fee_taxes(work, customer, fee), work.now, work.new_id)
        work.tx.replace(replace(taxed, updated_at=work.now))
        return None
    items = fee_items([fee], connection.item_codes, named_by=_by_id)
    return question(work, customer, connection, Purpose.FINALIZED, items, currency=fee.currency, document_id=fee.id)


def _told_connection(reader: Reader, invoice: Invoice) -> TaxConnection | None:
    """The provider that the invoice was reported to."""
    return None if invoice.tax_connection_id is None else reader.tx.get(TaxConnection, invoice.tax_connection_id)


def _prepare_void(reader: Reader, task: AskTaxProvider) -> TaxRequest | None:
    invoice = reader.tx.get(Invoice, task.subject_id)
    connection = None if invoice is None else _told_connection(reader, invoice)
    if invoice is None or connection is None:
        return None
    purpose = task.purpose or Purpose.VOID
    items = fee_items(_fees(reader, invoice.id), connection.item_codes, named_by=_by_id)
    if purpose is not Purpose.VOID:
        items = withdrawn(items)
    customer = customer_of(reader, invoice)
    return question(
        reader, customer, connection, purpose, items, invoice, number=number_told(invoice), document_id=invoice.id
    )


def _prepare_credit_note(reader: Reader, task: AskTaxProvider) -> TaxRequest | None:
    note = reader.tx.get(CreditNote, task.subject_id)
    invoice = None if note is None else reader.tx.get(Invoice, note.invoice_id)
    # Voiding withdraws everything reported about the invoice; its credit notes would withdraw it twice.
    if note is None or invoice is None or invoice.status == InvoiceStatus.VOIDED:
        return None
    connection = _told_connection(reader, invoice)
    if connection is None:
        return None
    fees = {fee.id: fee for fee in _fees(reader, invoice.id)}
    items = credit_note_items(note, fees, connection.item_codes)
    customer = customer_of(reader, invoice)
    return question(
        reader, customer, connection, Purpose.CREDIT_NOTE, items, invoice, number=note.number, document_id=note.id
    )


_PREPARE = {
    TaxSubject.INVOICE: _prepare_invoice,
    TaxSubject.FEE: _prepare_fee,
    TaxSubject.VOID: _prepare_void,
    TaxSubject.CREDIT_NOTE: _prepare_credit_note,
}


# Answers


def conclude(work: Work, job: Job, task: AskTaxProvider, request: TaxRequest, answer: Answer) -> None:
    """Act on a response. Without one, the request is retried before the failure is shown."""
    work.tx.jobs.complete(job)
    if task.subject is TaxSubject.INVOICE and _waiting(work, task) is None:
        # It no longer waits, or waits for a later request, which this response must not delay.
        return
    if isinstance(answer, ProviderFailure) and _asked_again(work, task, answer):
        return
    _CONCLUDE[task.subject](work, task, request, answer)


def _asked_again(work: Work, task: AskTaxProvider, failure: ProviderFailure) -> bool:
    attempts = task.attempts + 1
    delay = retry_delay(failure, attempts)
    if delay is None:
        return False
    ask_about(
        work,
        task.subject,
        task.subject_id,
        request_id=task.request_id,
        attempts=attempts,
        at=work.now + delay,
        purpose=task.purpose,
    )
    return True


def _conclude_invoice(work: Work, task: AskTaxProvider, request: TaxRequest, answer: Answer) -> None:
    waiting = _waiting(work, task)
    if waiting is None:
        return
    invoice, customer = waiting
    invoice = replace(invoice, error_details=without(invoice.error_details, TAX_ERROR))
    if isinstance(answer, ProviderTaxes):
        fees = _provided(work, _fees(work, invoice.id), answer)
        invoice = replace(invoice, tax_connection_id=request.connection.id)
        _note_customer(work, customer, request, answer)
        step = Step.STAY if invoice.status == InvoiceStatus.DRAFT else Step.ISSUE
        taxed = record(work, taxed_bill(work, invoice, fees, provided=True, step=step))
        if step is Step.STAY:
            _ready(work, taxed)
    elif isinstance(answer, ProviderFailure):
        _fail(work, invoice, customer, request.connection, answer)


def _provided(reader: Reader, fees: Sequence[Fee], answer: ProviderTaxes) -> list[Fee]:
    taxes = {item.item_id: item for item in answer.items}
    return [provider_taxed(fee, taxes[fee.id], reader.now, reader.new_id) for fee in fees]


def _note_customer(work: Work, customer: Customer, request: TaxRequest, answer: ProviderTaxes) -> None:
    """Store the provider's id of the customer, and clear its tax errors."""
    links = customer.integration_customers
    if answer.customer_id and request.question.purpose is Purpose.FINALIZED:
        links = tuple(
            replace(link, external_customer_id=answer.customer_id)
            if link.connection_id == request.connection.id
            else link
            for link in links
        )
    updated = replace(customer, integration_customers=links, tax_error=None)
    if updated != customer:
        work.tx.replace(updated)


def _ready(work: Work, draft: Invoice) -> None:
    copy_subscriptions(work, draft)
    tell_ready(work, draft)


def _detail(reader: Reader, error_code: str, failure: ProviderFailure) -> ErrorDetail:
    details: dict[str, object] = {error_code: failure.code}
    if failure.message:
        details[f"{error_code}_message"] = failure.message
    return ErrorDetail(id=reader.new_id(), error_code=error_code, details=details, created_at=reader.now)


def _fail(
    work: Work, invoice: Invoice, customer: Customer, connection: TaxConnection, failure: ProviderFailure
) -> None:
    detail = _detail(work, TAX_ERROR, failure)
    drafted = invoice.status == InvoiceStatus.DRAFT
    failed = replace(
        invoice,
        status=invoice.status if drafted else transition(invoice.status, InvoiceEvent.TAXES_FAILED),
        tax_status=TaxStatus.FAILED,
        tax_request_id=None,
        error_details=(*invoice.error_details, detail),
        updated_at=work.now,
    )
    work.tx.replace(failed)
    work.tx.replace(replace(customer, tax_error=detail))
    work.emit("customer.tax_provider_error", partial(customer_tax_error, customer, connection, failure), customer.id)
    if drafted:
        _ready(work, failed)
    elif _LIMIT in failure.message:
        work.schedule(RetryLimitedTaxes(invoice_id=failed.id), work.now + _LIMIT_WAIT)


def retry_limited(work: Work, task: RetryLimitedTaxes) -> None:
    """Job: retry an invoice that failed because of its provider's rate limit."""
    invoice = work.tx.get(Invoice, task.invoice_id)
    if invoice is None or invoice.status != InvoiceStatus.FAILED:
        return
    wait_again(work, invoice)


def _conclude_fee(work: Work, task: AskTaxProvider, request: TaxRequest, answer: Answer) -> None:
    fee = work.tx.get(Fee, task.subject_id)
    if fee is None or fee.invoice_id is not None:
        return
    if isinstance(answer, ProviderTaxes):
        work.tx.replace(replace(_provided(work, [fee], answer)[0], updated_at=work.now))
    elif isinstance(answer, ProviderFailure):
        work.emit("fee.tax_provider_error", partial(fee_tax_error, fee, request.connection, answer), fee.id)


def _conclude_void(work: Work, task: AskTaxProvider, request: TaxRequest, answer: Answer) -> None:
    invoice = work.tx.get(Invoice, task.subject_id)
    if invoice is None or not isinstance(answer, ProviderFailure):
        return
    withdrawal = withdrawal_after(request.question.purpose, answer)
    if withdrawal is not None:
        ask_about(work, TaxSubject.VOID, invoice.id, purpose=withdrawal)
        return
    kept = without(invoice.error_details, TAX_VOIDING_ERROR)
    work.tx.replace(replace(invoice, error_details=(*kept, _detail(work, TAX_VOIDING_ERROR, answer))))


def _conclude_credit_note(work: Work, task: AskTaxProvider, request: TaxRequest, answer: Answer) -> None:
    note = work.tx.get(CreditNote, task.subject_id)
    if note is not None and isinstance(answer, ProviderFailure):
        kept = without(note.error_details, TAX_ERROR)
        work.tx.replace(replace(note, error_details=(*kept, _detail(work, TAX_ERROR, answer))))


_CONCLUDE = {
    TaxSubject.INVOICE: _conclude_invoice,
    TaxSubject.FEE: _conclude_fee,
    TaxSubject.VOID: _conclude_void,
    TaxSubject.CREDIT_NOTE: _conclude_credit_note,
}


# Previews


def previewed(work: Work, invoice: Invoice) -> Invoice:
    """The previewed invoice that would wait for its provider, issued with the taxes that the provider gives, if any.

    Invoices that wait before it are issued first: they use up credit notes, and issue draft notes with them.
    """
    invoice = work.tx.get(Invoice, invoice.id) or invoice
    customer = customer_of(work, invoice)
    if invoice.tax_status != TaxStatus.PENDING or connection_of(work, customer) is None:
        return invoice
    for earlier in work.tx.find(
        Invoice,
        eq("customer_id", customer.id),
        eq("status", InvoiceStatus.PENDING),
        eq("tax_status", TaxStatus.PENDING),
        ne("id", invoice.id),
        order=[asc("created_at"), asc("id")],
    ):
        fees = _fees(work, earlier.id)
        record(work, taxed_bill(work, earlier, estimated(work, customer, fees) or fees, provided=True))
    fees = _fees(work, invoice.id)
    issued = replace(invoice, status=InvoiceStatus.PENDING)
    fees = estimated(work, customer, fees) or fees
    return record(work, taxed_bill(work, issued, fees, provided=True, step=Step.STAY))
