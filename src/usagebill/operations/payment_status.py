"""The payment status of an invoice and its fees."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.fees import Fee
from usagebill.core.invoices.changes import with_payment_status
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID, VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent, Telling, move
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import dues
from usagebill.core.payment_tasks import AskPaymentProvider, SettleActivation
from usagebill.core.payments import LIVE, Payment, PaymentPage
from usagebill.core.periods.schedule import overdue_at
from usagebill.core.provider_requests import ProviderErrand
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tasks import MarkOverdue, SettleTopUp
from usagebill.operations import synced_documents
from usagebill.operations.dunning_progress import was_paid
from usagebill.operations.payment_orders import order_page_look_up, page_look_up
from usagebill.queries.payment_requests import requested_invoices, requests_of_invoice
from usagebill.queries.payments import paid_cents
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, present, within
from usagebill.storage.jobs import task_of
from usagebill.views.invoices import invoice_webhook_view

_UPDATED = "invoice.payment_status_updated"
_OVERPAID = "invoice.overpaid"


def move_payment(work: Work, invoice: Invoice, event: PaymentEvent) -> Invoice:
    """Apply a payment event to the invoice, by the table of `payment_states`, and store it."""
    effect = move(invoice.payment_status, event)
    before = invoice
    if effect.counts:
        invoice = replace(invoice, total_paid_amount_cents=paid_cents(work, invoice.id))
    effect = effect.with_left(invoice.due_cents)
    if effect.ready is not None:
        invoice = replace(invoice, ready_for_payment_processing=effect.ready)
    if effect.status is not None:
        changed = set_payment_status(work, invoice, effect.status, tells=effect.tells is not Telling.NEVER)
    elif invoice != before:
        changed = replace(invoice, updated_at=work.now)
        work.tx.replace(changed)
    else:
        return invoice
    if effect.status != PaymentStatus.SUCCEEDED and changed.due_cents != before.due_cents:
        due_changed(work, changed)
    if changed.overpaid_cents > before.overpaid_cents and changed.status in VISIBLE:
        work.emit(_OVERPAID, lambda: invoice_webhook_view(work, _OVERPAID, changed), changed.id)
    return changed


def set_payment_status(work: Work, invoice: Invoice, status: PaymentStatus, *, tells: bool = True) -> Invoice:
    """Store the invoice as pending, succeeded or failed, and send a message if that is new.

    Once it has succeeded, it is no longer overdue, and nothing is due on it (`due_changed`); if that is undone, it will
    be overdue in time. The credits of a top-up follow its invoice.
    """
    changed = with_payment_status(invoice, status, work.now)
    work.tx.replace(changed)
    if invoice.payment_overdue and status == PaymentStatus.SUCCEEDED:
        was_paid(work, invoice)
    if invoice.payment_status == PaymentStatus.SUCCEEDED != status:
        watch_payment(work, changed)
    for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)):
        if fee.payment_status != status:
            work.tx.replace(replace(fee, payment_status=status, updated_at=work.now))
    if status == PaymentStatus.SUCCEEDED and invoice.payment_status != status:
        due_changed(work, changed)
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


def watch_payment(work: Work, invoice: Invoice) -> None:
    """Schedule the job that marks an invoice as overdue if it is not paid by then."""
    if invoice.status == InvoiceStatus.FINALIZED:
        task = MarkOverdue(customer_id=invoice.customer_id, invoice_id=invoice.id)
        work.schedule(task, max(overdue_at(invoice.payment_due_date), work.now))


def _settle_activation(work: Work, invoice: Invoice) -> None:
    """Schedule the job that settles the subscription which waits for this invoice."""
    if invoice.payment_status != PaymentStatus.PENDING:
        task = SettleActivation(
            customer_id=invoice.customer_id, invoice_id=invoice.id, payment_status=invoice.payment_status.value
        )
        work.schedule(task, work.now)


def due_changed(work: Work, invoice: Invoice) -> None:
    """What is due on the invoice has changed, whatever the cause: what still asks for the amount before is ended.

    Payment pages of the invoice, and of payment requests with it, are ended, also at their provider, unless their
    amount is the one now due; whoever asks for a page gets a new one. A charge under way that would take more than is
    due of the invoice, or of a request with it, is canceled at providers that support it.
    """
    owed_cents = 0 if invoice.status in NOT_TO_BE_PAID else sum(dues([invoice]))
    _end_pages(work, "invoice_id", invoice.id, owed_cents)
    for payment in _live(work, "invoice_id", invoice.id):
        if payment.amount_cents > owed_cents:
            cancel_charge(work, payment)
    for request in requests_of_invoice(work, invoice.id):
        invoices = [invoice if other.id == invoice.id else other for other in requested_invoices(work, request)]
        requested_cents = 0 if request.payment_status == PaymentStatus.SUCCEEDED else sum(dues(invoices))
        _end_pages(work, "payment_request_id", request.id, requested_cents)
        # What is charged for an invoice that was voided meanwhile is given back.
        is_kept = invoice.status in NOT_TO_BE_PAID and requested_cents > 0
        for payment in _live(work, "payment_request_id", request.id):
            if payment.amount_cents > requested_cents and not is_kept:
                cancel_charge(work, payment)


def end_page(work: Work, page: PaymentPage) -> None:
    """End a payment page, also at its provider if that is possible."""
    if page.ended_at is None:
        page = replace(page, ended_at=work.now)
        work.tx.replace(page)
        order_page_look_up(work, page)
    if page.provider_page_id is not None and page.expires_at > work.now:
        work.schedule(_ending(page), work.now)


def is_being_ended(reader: Reader, page: PaymentPage) -> bool:
    """Whether its provider has not answered yet that it has ended the page, and that it was not paid there before."""
    if reader.tx.jobs.get(_ending(page).key) is not None:
        return True
    look = reader.tx.jobs.get(page_look_up(page).key)
    return look is not None and (look.due_at <= reader.now or task_of(AskPaymentProvider, look).attempts > 0)


def has_ended(work: Work, page: PaymentPage) -> None:
    """The provider has answered that it has ended the page, and that it was not paid: it is not asked again soon."""
    work.cancel(_ending(page))
    order_page_look_up(work, page)


def _ending(page: PaymentPage) -> AskPaymentProvider:
    return AskPaymentProvider(errand=ProviderErrand.EXPIRE_PAGE, subject_id=page.id)


def _end_pages(work: Work, column: str, payable_id: str, due_cents: int) -> None:
    for page in work.tx.find(PaymentPage, eq(column, payable_id), missing("ended_at")):
        if page.amount_cents != due_cents:
            end_page(work, page)


def _live(reader: Reader, column: str, payable_id: str) -> list[Payment]:
    return reader.tx.find(Payment, eq(column, payable_id), present("connection_id"), within("payment_status", LIVE))


def cancel_charge(work: Work, payment: Payment) -> None:
    """Have its provider cancel a charge under way, if it supports that."""
    work.schedule(AskPaymentProvider(errand=ProviderErrand.CANCEL, subject_id=payment.id), work.now)
