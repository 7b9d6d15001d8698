"""Changes of invoices: payment status and metadata, lost disputes, retries, voids."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from usagebill.core import limits
from usagebill.core.credit_notes import Parts
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.invoices import changes
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceStatus
from usagebill.core.invoices.records import Invoice, InvoiceMetadata
from usagebill.core.provider_requests import PayableType
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tasks import MarkOverdue
from usagebill.core.tax_providers import TaxSubject
from usagebill.operations import synced_documents
from usagebill.operations.backlog import Unrelated, after_backlog, of_record, without_backlog
from usagebill.operations.credit_notes.automatic import check_void_amounts
from usagebill.operations.disputes import lose
from usagebill.operations.invoices import generation_failures
from usagebill.operations.invoices.awaiting_taxes import wait_again
from usagebill.operations.invoices.undoing import undo
from usagebill.operations.payment_status import due_changed, set_payment_status
from usagebill.operations.tax_connections import ask_about
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.payment_requests import charges_under_way
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.views.invoices import invoice_webhook_view


@Input
class MetadataItemInput:
    """A metadata item; with the id of an existing item it changes that."""

    id: Maybe[str] = ABSENT
    key: Maybe[str] = described(required="always")
    value: Maybe[str] = described(required="always")


@Input
class InvoiceUpdate:
    """`metadata` is the whole list: items left out are removed."""

    payment_status: Maybe[str] = ABSENT
    metadata: Maybe[tuple[MetadataItemInput, ...]] = ABSENT


@Input
class InvoiceVoid:
    """With `generate_credit_note`, the amounts (cents with taxes) are given back as credit and refund."""

    generate_credit_note: Maybe[bool] = described(
        "Whether to create a credit note for the amount paid.", default="false"
    )
    refund_amount: Maybe[Annotated[int, limits.INVOICE_PART]] = described("The refunded amount.", unit="cents")
    credit_amount: Maybe[Annotated[int, limits.INVOICE_PART]] = described(
        "The amount credited to later invoices.", unit="cents"
    )


@after_backlog(of_record(Invoice))
def update(work: Work, invoice_id: str, request: InvoiceUpdate) -> Invoice:
    """Set the payment status and replace the metadata of an issued invoice. Raises as `NotAllowed` and `Invalid`.

    Who says that it is not paid says so of a charge of unknown outcome as well: it can be charged again.
    """
    invoice = visible_invoice(work, invoice_id)
    metadata = value_or(request.metadata, None)
    sent = request.payment_status if is_given(request.payment_status) else None
    refusal = changes.update_refusal(
        invoice.status,
        invoice.payment_status,
        sent_status=str(sent) if is_given(request.payment_status) else None,
        items=None if metadata is None else len(metadata),
    )
    if refusal is not None:
        raise refusal
    status = None if sent is None else PaymentStatus(str(sent))
    if metadata is not None:
        invoice = replace(invoice, metadata=_metadata(work, invoice, metadata))
    is_unpaid = status is not None and status is not PaymentStatus.SUCCEEDED
    if is_unpaid and not charges_under_way(work, PayableType.INVOICE, invoice.id):
        invoice = replace(invoice, ready_for_payment_processing=True)
    invoice = replace(invoice, updated_at=work.now)
    work.tx.replace(invoice)
    return invoice if status is None else set_payment_status(work, invoice, status)


def _metadata(reader: Reader, invoice: Invoice, sent: tuple[MetadataItemInput, ...]) -> tuple[InvoiceMetadata, ...]:
    stored = {item.id: item for item in invoice.metadata}
    items = []
    for item in sent:
        known = stored.get(item.id) if item.id else None
        if known is None:
            known = InvoiceMetadata(id=reader.new_id(), key="", value="", created_at=reader.now)
        key = known.key if item.key is ABSENT else value_or(item.key, "")
        value = known.value if item.value is ABSENT else value_or(item.value, "")
        items.append(replace(known, key=key, value=value))
    problems = changes.metadata_problems(items)
    if problems:
        raise Invalid(problems)
    return tuple(items)


@after_backlog(of_record(Invoice))
def lose_dispute(work: Work, invoice_id: str) -> Invoice:
    """Record that a dispute over an issued invoice was lost; only the first time counts and sends a message.

    Raises `NotFound` and `NotAllowed`.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.status not in ISSUED:
        raise NotAllowed("not_disputable", invoice.status)
    return lose(work, invoice, work.now)


@without_backlog(Unrelated.OWN_INSTANT)
def retry(work: Work, invoice_id: str) -> Invoice:
    """Retry a failed invoice: request its taxes again, or run its generation again.

    Raises `NotFound`, and `NotAllowed` for any other invoice.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.failed_job_id is not None and invoice.status == InvoiceStatus.FAILED:
        return generation_failures.retry(work, invoice)
    return wait_again(work, invoice)


@after_backlog(of_record(Invoice))
def void(work: Work, invoice_id: str, request: InvoiceVoid) -> Invoice:
    """Void an issued invoice; it keeps its number. Everything that paid it goes back (`core.invoices.undoing`).

    Money goes back only with `generate_credit_note`: as the requested credit and refund. What these leave of the
    invoice goes to a second credit note that is voided at once. Raises `NotFound`, `Invalid` and `NotAllowed`.
    """
    invoice = visible_invoice(work, invoice_id)
    generate = bool(value_or(request.generate_credit_note, False))
    credit, refund = value_or(request.credit_amount, 0), value_or(request.refund_amount, 0)
    if generate:
        check_void_amounts(work, invoice, credit_cents=credit, refund_cents=refund)
    voided = changes.voided(invoice, work.now)
    refusal = changes.void_refusal(invoice.payment_status, gives_back=generate)
    if refusal is not None:
        raise refusal
    work.tx.replace(voided)
    due_changed(work, voided)
    work.cancel(MarkOverdue(customer_id=voided.customer_id, invoice_id=voided.id))
    voided = undo(work, voided, given=Parts(credit=credit, refund=refund) if generate else None)
    if voided.tax_connection_id is not None:
        ask_about(work, TaxSubject.VOID, voided.id)
    synced_documents.invoice_changed(work, voided)
    work.emit("invoice.voided", lambda: invoice_webhook_view(work, "invoice.voided", voided), voided.id)
    return voided
