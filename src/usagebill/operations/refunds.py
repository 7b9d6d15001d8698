"""Refunds of credit notes, paid back through the provider that collected the payment."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import Payment, RefundAttempt, is_refund_due, money_back_word, refunded_payment
from usagebill.core.provider_requests import FailureKind, ProviderErrand, ProviderFailure, Refund, Refunded, Request
from usagebill.core.statuses import PaymentStatus
from usagebill.logs import Log
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_providers import find_connection
from usagebill.queries.payments import payments_of_invoice
from usagebill.storage.conditions import eq, ne
from usagebill.views.payment_providers import refund_failure_view
from usagebill.work import Reader, Work

# Providers' codes for payments with nothing left to refund.
_log = Log("usagebill.payments")


def order_refund(work: Work, note: CreditNote) -> None:
    """Order the refund of an issued note, if a provider collected the newest payment of its invoice.

    Nothing is ordered for an invoice that is unpaid, or has a lost dispute.
    """
    invoice = work.tx.get(Invoice, note.invoice_id)
    if invoice is None or not is_refund_due(note, invoice):
        return
    payment = refunded_payment(payments_of_invoice(work, invoice.id))
    if payment is None:
        return
    connection = find_connection(work, payment.connection_id)
    if connection is None or not connection.traits.refunds:
        return
    _order(work, payment, connection, invoice.id, note.refund_amount_cents, note)


def give_back(work: Work, payment: Payment, invoice_id: str, cents: int) -> None:
    """Order the refund of `cents` of a payment that succeeded for an invoice not to be paid any more.

    If its provider does not support that, the payment shows that a person has to do it.
    """
    if work.tx.first(RefundAttempt, eq("payment_id", payment.id)) is not None:
        return
    connection = find_connection(work, payment.connection_id)
    can_refund = connection is not None and connection.traits.refunds and payment.provider_payment_id is not None
    if connection is None or not can_refund:
        _mark(work, payment, cents, PaymentStatus.FAILED, "its provider cannot refund it")
        return
    _mark(work, payment, cents, PaymentStatus.PENDING)
    _order(work, payment, connection, invoice_id, cents)


def _mark(work: Work, payment: Payment, cents: int, refund: PaymentStatus, reason: str | None = None) -> None:
    """Store the status of a refund of `cents` on its payment."""
    status = money_back_word(payment, cents, refund)
    work.tx.replace(replace(payment, status=status.value, is_shown=True, updated_at=work.now))
    if refund is PaymentStatus.FAILED:
        _log.error(
            "payment_to_be_refunded",
            payment=payment.id,
            provider_payment=payment.provider_payment_id,
            connection=payment.payment_provider_code,
            amount_cents=cents,
            currency=payment.amount_currency,
            reason=reason,
        )


def _order(
    work: Work,
    payment: Payment,
    connection: PaymentConnection,
    invoice_id: str,
    amount_cents: int,
    note: CreditNote | None = None,
) -> None:
    attempt = RefundAttempt(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=payment.customer_id,
        credit_note_id=None if note is None else note.id,
        invoice_id=invoice_id,
        payment_id=payment.id,
        connection_id=connection.id,
        amount_cents=amount_cents,
        currency=payment.amount_currency,
        refunded_before_cents=work.tx.total(
            RefundAttempt,
            "amount_cents",
            eq("payment_id", payment.id),
            ne("refund_status", PaymentStatus.FAILED),
        ),
        created_at=work.now,
        updated_at=work.now,
        attempts=0,
    )
    work.tx.insert(attempt)
    work.schedule(AskPaymentProvider(errand=ProviderErrand.REFUND, subject_id=attempt.id), work.now)


def prepare(work: Work, task: AskPaymentProvider) -> tuple[PaymentConnection, Request[Any]] | None:
    """The request for a refund attempt; None if it has an outcome."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None or attempt.provider_refund_id is not None or attempt.refund_status != PaymentStatus.PENDING:
        return None
    payment = work.tx.get(Payment, attempt.payment_id)
    note = _note_of(work, attempt)
    connection = find_connection(work, attempt.connection_id)
    if payment is None or connection is None or payment.provider_payment_id is None:
        return None
    if attempt.credit_note_id is not None and note is None:
        return None
    work.tx.replace(replace(attempt, attempts=attempt.attempts + 1))
    return connection, Refund(
        provider_payment_id=payment.provider_payment_id,
        key=attempt.id if note is None else note.id,
        credit_note_id=attempt.credit_note_id,
        invoice_id=attempt.invoice_id,
        customer_id=attempt.customer_id,
        amount_cents=attempt.amount_cents,
        currency=attempt.currency,
        reason=CreditNoteReason.OTHER.value if note is None else note.reason.value,
        refunded_before_cents=attempt.refunded_before_cents,
        since=attempt.created_at if attempt.attempts else None,
        at=work.now,
    )


def _note_of(reader: Reader, attempt: RefundAttempt) -> CreditNote | None:
    return None if attempt.credit_note_id is None else reader.tx.get(CreditNote, attempt.credit_note_id)


def conclude(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: Refunded) -> None:
    """Act on the response: the provider has made the refund, or will report it."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None:
        return
    answered = replace(attempt, provider_refund_id=answer.provider_refund_id or attempt.provider_refund_id)
    work.tx.replace(answered)
    move_refund(work, answered, answer.status, answer.refund_status)


def fail(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    """The provider has refused the refund."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None or failure.kind is FailureKind.NOT_SUPPORTED:
        return
    work.tx.replace(replace(attempt, error_code=failure.code))
    attempt = replace(attempt, error_code=failure.code)
    move_refund(work, attempt, "failed", PaymentStatus.FAILED, failure.message, failure.code)


def move_refund(
    work: Work,
    attempt: RefundAttempt,
    word: str,
    status: PaymentStatus,
    message: str = "Payment refund failed",
    code: str | None = None,
) -> None:
    """Store a refund and its credit note as pending, succeeded or failed; one that succeeded stays so."""
    if attempt.refund_status == PaymentStatus.SUCCEEDED:
        return
    changed = attempt.refund_status != status
    attempt = replace(attempt, status=word, refund_status=status, updated_at=work.now)
    work.tx.replace(attempt)
    if attempt.credit_note_id is None:
        payment = work.tx.get(Payment, attempt.payment_id)
        if payment is not None and changed:
            _mark(work, payment, attempt.amount_cents, status, message)
        return
    note = _note_of(work, attempt)
    if note is None or note.refund_status == PaymentStatus.SUCCEEDED:
        return
    refunded_at = work.now if status == PaymentStatus.SUCCEEDED else note.refunded_at
    work.tx.replace(replace(note, refund_status=status, refunded_at=refunded_at, updated_at=work.now))
    if status == PaymentStatus.FAILED and changed:
        view = partial(refund_failure_view, customer_of(work, note), note.id, message, code)
        work.emit("credit_note.provider_refund_failure", view, note.id)
