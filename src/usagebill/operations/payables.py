"""Payables: invoices and payment requests, and the effects of payments on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from usagebill.core.collection import Collectable, collectable_invoice
from usagebill.core.error_details import PAYMENT_ERROR, ErrorDetail, without
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID, UNSEEN_BY_PROVIDERS, VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.payment_states import PaymentEvent, notice_event
from usagebill.core.invoices.records import Invoice
from usagebill.core.look_ups import NOT_CONFIRMED
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import LIVE, Payment
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    Cancel,
    Charged,
    FailureKind,
    Payable,
    PayableLine,
    PayableType,
    ProviderErrand,
    ProviderFailure,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.subscriptions import Subscription
from usagebill.operations import payment_receipts, refunds
from usagebill.operations.payment_orders import order_look_up
from usagebill.operations.payment_status import due_changed, move_payment
from usagebill.operations.request_payables import RequestPayables
from usagebill.process.logs import Log
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import customer_of
from usagebill.queries.invoices import find_invoice, periods_of
from usagebill.queries.payment_providers import choice_for, find_connection
from usagebill.queries.payment_requests import debt_of
from usagebill.queries.wallets import transaction_of_invoice
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import within
from usagebill.views.invoices import payment_failure_view
from usagebill.views.payment_providers import top_up_failure_view

_log = Log("usagebill.payments")


class Payables(Protocol):
    """A kind of payable."""

    def find(self, reader: Reader, id: str) -> Collectable | None:
        """The payable in its current state; None if there is nothing to pay with this id."""

    def attempt(self, work: Work, id: str) -> None:
        """Count an attempt: a charge is about to be made."""

    def move(self, work: Work, id: str, event: PaymentEvent, payment: Payment | None) -> None:
        """Store the effects of a payment event; `payment` is stored already."""

    def tell_failure(self, work: Work, id: str, failure: ProviderFailure) -> None:
        """Send the message that it could not be collected."""

    def note(self, work: Work, id: str, failure: ProviderFailure | None) -> None:
        """Show why it cannot be collected; None clears that."""


class InvoicePayables:
    """Invoices."""

    def find(self, reader: Reader, id: str) -> Collectable | None:
        """See `Payables`."""
        invoice = find_invoice(reader, id)
        if invoice is None or invoice.status in UNSEEN_BY_PROVIDERS:
            return None
        return collectable_invoice(invoice, _payable(reader, invoice), choice_for(reader, invoice))

    def attempt(self, work: Work, id: str) -> None:
        """See `Payables`."""
        invoice = _invoice(work, id)
        work.tx.replace(replace(invoice, payment_attempts=invoice.payment_attempts + 1, updated_at=work.now))

    def move(self, work: Work, id: str, event: PaymentEvent, payment: Payment | None) -> None:
        """See `Payables`. A payment that succeeded gets its receipt; of a voided or closed invoice it is given back."""
        invoice = _invoice(work, id)
        has_changed = payment is not None and payment.payment_status == ChargeStatus.SUCCEEDED
        if invoice.status == InvoiceStatus.VOIDED and (has_changed or event is PaymentEvent.RETURNED):
            event = PaymentEvent.RECOUNTED
        invoice = move_payment(work, invoice, event)
        if payment is not None and invoice.status in NOT_TO_BE_PAID:
            _refuse(work, payment, invoice)
        elif payment is not None:
            payment_receipts.issue(work, payment)

    def tell_failure(self, work: Work, id: str, failure: ProviderFailure) -> None:
        """See `Payables`. Of an invoice that nobody sees, only its purchase of credits is announced."""
        invoice = _invoice(work, id)
        if invoice.invoice_type == InvoiceType.CREDIT:
            purchase = transaction_of_invoice(work, invoice.id)
            if purchase is not None:
                work.emit(
                    "wallet_transaction.payment_failure",
                    partial(top_up_failure_view, customer_of(work, invoice), purchase.id, failure),
                    purchase.id,
                )
        if invoice.status in VISIBLE:
            details = dict(failure.details)
            view = partial(payment_failure_view, work, invoice, details, failure)
            work.emit("invoice.payment_failure", view, invoice.id)

    def note(self, work: Work, id: str, failure: ProviderFailure | None) -> None:
        """See `Payables`."""
        invoice = _invoice(work, id)
        kept = without(invoice.error_details, PAYMENT_ERROR)
        if failure is not None:
            details = {PAYMENT_ERROR: failure.code or failure.kind.value, f"{PAYMENT_ERROR}_message": failure.message}
            detail = ErrorDetail(id=work.new_id(), error_code=PAYMENT_ERROR, details=details, created_at=work.now)
            kept = (*kept, detail)
        if kept != invoice.error_details:
            work.tx.replace(replace(invoice, error_details=kept, updated_at=work.now))


def _refuse(work: Work, payment: Payment, invoice: Invoice) -> None:
    """Cancel a payment of an invoice that is not to be paid any more, or give it back if it has succeeded."""
    if payment.payment_status == ChargeStatus.SUCCEEDED:
        refunds.give_back(work, payment, {invoice.id: payment.amount_cents})
    elif payment.payment_status in LIVE:
        work.schedule(AskPaymentProvider(errand=ProviderErrand.CANCEL, subject_id=payment.id), work.now)


def _invoice(reader: Reader, id: str) -> Invoice:
    invoice = find_invoice(reader, id)
    if invoice is None:
        raise LookupError(f"no invoice {id}")
    return invoice


def _payable(reader: Reader, invoice: Invoice) -> Payable:
    entity = find_entity(reader, invoice.billing_entity_id)
    periods = periods_of(reader, invoice)
    subscription = None if not periods else reader.tx.get(Subscription, periods[0].subscription_id)
    # Until it is paid, a hidden invoice has no number.
    number = None if invoice.status == InvoiceStatus.OPEN else invoice.number
    return Payable(
        type=PayableType.INVOICE,
        id=invoice.id,
        reference=f"{'' if entity is None else entity.name} - Invoice {number or invoice.id}",
        billing_entity_id=invoice.billing_entity_id,
        lines=(PayableLine(name=number or invoice.id, amount_cents=max(0, invoice.due_cents)),),
        created_at=invoice.created_at,
        number=number,
        invoice_type=invoice.invoice_type,
        issuing_date=invoice.issuing_date,
        plan_id=None if subscription is None else subscription.plan_id,
        external_subscription_id=None if subscription is None else subscription.external_id,
    )


PAYABLES: Mapping[PayableType, Payables] = {
    PayableType.INVOICE: InvoicePayables(),
    PayableType.PAYMENT_REQUEST: RequestPayables(),
}


def log_unknown(payment: Payment, failure: ProviderFailure) -> None:
    """Log that a charge ended without a word from its provider, if that is its failure: somebody has to look there."""
    if failure.kind is FailureKind.FORGOTTEN:
        _log.warning(
            OUTCOME_UNKNOWN,
            payment=payment.id,
            provider_payment=payment.provider_payment_id,
            connection=payment.payment_provider_code,
            reason=failure.message,
        )


def find_payable(reader: Reader, payable_type: PayableType, id: str) -> Collectable | None:
    """The payable with this id; None if there is nothing to pay."""
    kind = PAYABLES.get(payable_type)
    return None if kind is None else kind.find(reader, id)


def move(work: Work, collectable: Collectable, event: PaymentEvent, payment: Payment | None = None) -> None:
    """Store the effects of a payment event on an invoice or payment request."""
    PAYABLES[collectable.type].move(work, collectable.id, event, payment)


def watch(work: Work, payment: Payment) -> None:
    """A charge is known to be under way: its provider is asked, should no notice of it come, and it is canceled if less
    is due by now than when it was sent.
    """
    order_look_up(work, payment)
    debt = debt_of(work, payment.payable_type, payment.payable_id)
    for invoice in work.tx.find(Invoice, within("id", debt.invoice_ids)):
        due_changed(work, invoice)


def cancellation(reader: Reader, payment: Payment) -> tuple[PaymentConnection, Cancel] | None:
    """The request to cancel a charge; None if it has an outcome, or its provider cannot cancel."""
    connection = find_connection(reader, payment.connection_id)
    if connection is None or payment.payment_status not in LIVE:
        return None
    if payment.provider_payment_id is None or not connection.traits.cancels:
        return None
    return connection, Cancel(provider_payment_id=payment.provider_payment_id, key=f"cancel-{payment.id}")


def follow_cancellation(work: Work, payment: Payment, answer: Charged) -> None:
    """Act on the answer that a charge was canceled."""
    if payment.payment_status not in LIVE:
        return
    payment = replace(
        payment, status=answer.status, payment_status=answer.payment_status, unanswered=False, updated_at=work.now
    )
    work.tx.replace(payment)
    collectable = find_payable(work, payment.payable_type, payment.payable_id)
    if collectable is None:
        return
    if payment.error_code == NOT_CONFIRMED and collectable.payment_status != PaymentStatus.SUCCEEDED:
        message = "the customer has not confirmed it in time"
        failure = ProviderFailure(kind=FailureKind.DECLINED, code=NOT_CONFIRMED, message=message)
        tell_failure(work, collectable, failure)
    move(work, collectable, notice_event(answer.payment_status), payment)


def tell_failure(work: Work, collectable: Collectable, failure: ProviderFailure) -> None:
    """Tell those who listen that it could not be collected."""
    PAYABLES[collectable.type].tell_failure(work, collectable.id, failure)
