"""The payment status of an invoice and its fees."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.fees import Fee
from usagebill.core.invoices.changes import with_payment_status
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent, Telling, move
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_tasks import AskPaymentProvider, SettleActivation
from usagebill.core.payments import LIVE, Payment, PaymentPage
from usagebill.core.provider_requests import ProviderErrand
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tasks import SettleTopUp
from usagebill.operations import synced_documents
from usagebill.operations.dunning_progress import was_paid
from usagebill.queries.payment_requests import requested_invoices, requests_of_invoice
from usagebill.queries.payments import paid_cents
from usagebill.storage.conditions import eq, missing, within
from usagebill.views.invoices import invoice_webhook_view
from usagebill.work import Work

_UPDATED = "invoice.payment_status_updated"


def move_payment(work: Work, invoice: Invoice, event: PaymentEvent) -> Invoice:
    """Apply a payment event to the invoice, by the table of `payment_states`, and store it."""
    effect = move(invoice.payment_status, event)
    before = invoice
    if effect.ready is not None:
        invoice = replace(invoice, ready_for_payment_processing=effect.ready)
    if effect.counts:
        invoice = replace(invoice, total_paid_amount_cents=paid_cents(work, invoice.id))
    if effect.status is not None:
        return set_payment_status(work, invoice, effect.status, tells=effect.tells is not Telling.NEVER)
    if invoice != before:
        invoice = replace(invoice, updated_at=work.now)
        work.tx.replace(invoice)
    return invoice


def set_payment_status(work: Work, invoice: Invoice, status: PaymentStatus, *, tells: bool = True) -> Invoice:
    """Store the invoice as pending, succeeded or failed, and send a message if that is new.

    Once it has succeeded, it is no longer overdue and its payment pages end. The credits of a top-up follow its
    invoice.
    """
    changed = with_payment_status(invoice, status, work.now)
    work.tx.replace(changed)
    if invoice.payment_overdue and status == PaymentStatus.SUCCEEDED:
        was_paid(work, invoice)
    for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)):
        if fee.payment_status != status:
            work.tx.replace(replace(fee, payment_status=status, updated_at=work.now))
    if status == PaymentStatus.SUCCEEDED and invoice.payment_status != status:
        end_pages(work, "invoice_id", invoice.id)
    if tells and invoice.payment_status != status and invoice.status in VISIBLE:
        work.emit(_UPDATED, lambda: invoice_webhook_view(work, _UPDATED, changed), changed.id)
    if invoice.invoice_type == InvoiceType.CREDIT and status != PaymentStatus.PENDING:
        # The credits are settled right after.
        task = SettleTopUp(customer_id=invoice.customer_id, invoice_id=invoice.id, payment_status=status.value)
        work.schedule(task, work.now)
    if invoice.payment_status != status:
        synced_documents.invoice_changed(work, changed)
    if invoice.invoice_type == InvoiceType.SUBSCRIPTION and invoice.status == InvoiceStatus.OPEN:
        _settle_activation(work, changed)
    return changed


def _settle_activation(work: Work, invoice: Invoice) -> None:
    """Schedule the job that settles the subscription which waits for this invoice."""
    if invoice.payment_status != PaymentStatus.PENDING:
        task = SettleActivation(
            customer_id=invoice.customer_id, invoice_id=invoice.id, payment_status=invoice.payment_status.value
        )
        work.schedule(task, work.now)


def end_pages(work: Work, column: str, payable_id: str) -> None:
    """End the payment pages of an invoice or payment request, also at the provider if it supports that."""
    for page in work.tx.find(PaymentPage, eq(column, payable_id), missing("ended_at")):
        work.tx.replace(replace(page, ended_at=work.now))
        if page.provider_page_id is not None and page.expires_at > work.now:
            work.schedule(AskPaymentProvider(errand=ProviderErrand.EXPIRE_PAGE, subject_id=page.id), work.now)


def cancel_charges(work: Work, invoice_id: str) -> None:
    """Cancel the charges under way of an invoice that is not to be paid any more, at providers that support it.

    A charge of a payment request is canceled only if none of its invoices is to be paid any more.
    """
    _cancel(work, "invoice_id", invoice_id)
    for request in requests_of_invoice(work, invoice_id):
        # Less is due on the request now, so it needs a new page.
        end_pages(work, "payment_request_id", request.id)
        if all(invoice.status == InvoiceStatus.VOIDED for invoice in requested_invoices(work, request)):
            _cancel(work, "payment_request_id", request.id)


def _cancel(work: Work, column: str, payable_id: str) -> None:
    for payment in work.tx.find(Payment, eq(column, payable_id), within("payment_status", LIVE)):
        work.schedule(AskPaymentProvider(errand=ProviderErrand.CANCEL, subject_id=payment.id), work.now)
