"""Orders to collect: charges of invoices and payment requests, and look-ups of those under way, scheduled."""

from __future__ import annotations

from usagebill.core.collection import first_charge_delay, is_collected_on_issue
from usagebill.core.customers import Customer
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.look_ups import Wait, look_after_loss, next_look, next_page_look, wait_of
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.payments import Payment, PaymentPage, RefundAttempt
from usagebill.core.provider_requests import PayableType, ProviderErrand
from usagebill.core.wallet_transactions import OF_RULES
from usagebill.queries.wallets import transaction_of_invoice
from usagebill.runtime.work import Reader, Work


def collect_on_issue(work: Work, invoice: Invoice, customer: Customer) -> None:
    """Order the charge of an invoice that can be paid from now on, if its customer's provider collects."""
    if not is_collected_on_issue(invoice, customer):
        return
    # The urgency matters only if there are pages to pay on.
    has_pages = _has_pages(work)
    delay = first_charge_delay(invoice, is_urgent=has_pages and _is_urgent(work, invoice), has_pages=has_pages)
    at = work.now + delay
    work.schedule(CollectPayment(payable_type=PayableType.INVOICE, payable_id=invoice.id), at)


def order_payment(
    work: Work, payable_type: PayableType, payable_id: str, choice: PaymentMethodChoice | None = None
) -> None:
    """Order the charge of an invoice or payment request now, with the chosen method, else the default.

    One that is being charged is not charged a second time.
    """
    task = CollectPayment(
        payable_type=payable_type,
        payable_id=payable_id,
        method_kind=None if choice is None else choice.kind,
        method_id=None if choice is None else choice.id,
    )
    waiting = work.tx.jobs.get(task.key)
    if waiting is not None and waiting.run_at == waiting.due_at and waiting.attempts == 0:
        # It was scheduled for later, and is not under way.
        work.cancel(task)
    work.schedule(task, work.now)


def order_look_up(work: Work, payment: Payment) -> None:
    """Have the provider asked about a charge under way, should no notice of it come."""
    at = next_look(wait_of(payment), payment.sent_at or payment.created_at, work.now)
    work.schedule(AskPaymentProvider(errand=ProviderErrand.LOOK_UP_CHARGE, subject_id=payment.id), at)


def order_look_up_of_lost(work: Work, payment: Payment) -> None:
    """Have the provider asked about a charge whose answer was lost, and which is not sent again."""
    task = AskPaymentProvider(errand=ProviderErrand.LOOK_UP_CHARGE, subject_id=payment.id)
    work.cancel(task)
    work.schedule(task, look_after_loss(payment, work.now))


def order_page_look_up(work: Work, page: PaymentPage, *, at_once: bool = False) -> None:
    """Have the provider asked whether a page was paid: in time, should no notice of it come, or `at_once`."""
    task = page_look_up(page)
    work.cancel(task)
    at = work.now if at_once else next_page_look(page, work.now)
    if at is not None:
        work.schedule(task, at)


def page_look_up(page: PaymentPage) -> AskPaymentProvider:
    """The task of asking whether a page was paid."""
    return AskPaymentProvider(errand=ProviderErrand.LOOK_UP_PAGE, subject_id=page.id)


def order_refund_look_up(work: Work, attempt: RefundAttempt) -> None:
    """Have the provider asked about a refund that it has accepted, should no notice of it come."""
    at = next_look(Wait.REFUND, attempt.created_at, work.now)
    work.schedule(AskPaymentProvider(errand=ProviderErrand.LOOK_UP_REFUND, subject_id=attempt.id), at)


def _is_urgent(reader: Reader, invoice: Invoice) -> bool:
    """Whether a subscription waits for the invoice to become active, or a rule for its credits."""
    if invoice.invoice_type == InvoiceType.CREDIT:
        purchase = transaction_of_invoice(reader, invoice.id)
        return purchase is not None and purchase.source in OF_RULES
    return invoice.status == InvoiceStatus.OPEN


def _has_pages(reader: Reader) -> bool:
    return reader.cached("has payment pages", lambda: reader.tx.first(PaymentPage) is not None)
