"""The audit of refunds and of payments under way: refunds of credit notes are paid back, and nothing is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CreditNote
from usagebill.core.payments import GIVEN_BACK, LIVE, SURPLUS_BACK, MoneyBack, Payment, RefundAttempt, SurplusBack
from usagebill.core.statuses import ChargeStatus, PaymentStatus

# A payment in one of these states has an attempt to give it back.
_UNDER_WAY = (MoneyBack.PENDING, MoneyBack.DONE, SurplusBack.PENDING, SurplusBack.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundBook:
    """A customer's payments and refunds through providers.

    `notes` are the customer's credit notes by id; `closed` are the invoices that nobody is to pay; `awaited` are the
    ids of attempts, invoices and payment requests about which a waiting job will ask their provider.
    """

    payments: Sequence[Payment]
    attempts: Sequence[RefundAttempt]
    notes: Mapping[str, CreditNote]
    closed: Collection[str]
    awaited: Collection[str]


def _refund(attempt: RefundAttempt, detail: str, expected: object, found: object) -> Finding:
    subject = f"refund of payment {attempt.payment_id}"
    return Finding(
        check="refund", subject=subject, subject_id=attempt.id, detail=detail, expected=str(expected), found=str(found)
    )


def _payment(payment: Payment, detail: str, expected: object, found: object) -> Finding:
    subject = f"payment {payment.id}"
    return Finding(
        check="payment", subject=subject, subject_id=payment.id, detail=detail, expected=str(expected), found=str(found)
    )


def audited_refunds(book: RefundBook) -> Iterator[Finding]:
    """Each refund belongs to a successful payment, equals its credit note's refund and has the status marked there. No
    payment is paid back beyond its amount, no payment for something that nobody was to pay is kept, and unknown
    outcomes are inquired about.
    """
    payments = {payment.id: payment for payment in book.payments}
    for attempt in book.attempts:
        payment = payments.get(attempt.payment_id)
        if payment is None:
            yield _refund(attempt, "payment", "one of its customer's", attempt.payment_id)
            continue
        if payment.payment_status != ChargeStatus.SUCCEEDED:
            yield _refund(attempt, "payment_status of the payment", ChargeStatus.SUCCEEDED, payment.payment_status)
        yield from _given_back(attempt, payment) if attempt.credit_note_id is None else _noted(attempt, book.notes)
        is_open = attempt.refund_status == PaymentStatus.PENDING and attempt.provider_refund_id is None
        if is_open and attempt.id not in book.awaited:
            yield _refund(attempt, "jobs that ask for it", 1, 0)
    for payment in book.payments:
        yield from _paid_back(payment, book)


def _noted(attempt: RefundAttempt, notes: Mapping[str, CreditNote]) -> Iterator[Finding]:
    note = notes.get(attempt.credit_note_id or "")
    if note is None:
        yield _refund(attempt, "credit note", "one of its customer's", attempt.credit_note_id)
        return
    expected = (note.refund_amount_cents, note.currency, note.invoice_id)
    actual = (attempt.amount_cents, attempt.currency, attempt.invoice_id)
    if actual != expected:
        yield _refund(attempt, f"amount, currency and invoice of credit note {note.number}", expected, actual)
    # By hand a note may be marked as refunded, whatever the provider says.
    is_marked = note.refund_status in (attempt.refund_status, PaymentStatus.SUCCEEDED)
    if attempt.refund_status != PaymentStatus.PENDING and not is_marked:
        detail = f"refund_status of credit note {note.number}"
        yield _refund(attempt, detail, attempt.refund_status, note.refund_status)


def _given_back(attempt: RefundAttempt, payment: Payment) -> Iterator[Finding]:
    is_surplus = payment.status in SURPLUS_BACK
    if is_surplus and not 0 < attempt.amount_cents < payment.amount_cents:
        yield _refund(attempt, "amount_cents", f"less than {payment.amount_cents}", attempt.amount_cents)
    if not is_surplus and attempt.amount_cents != payment.amount_cents:
        yield _refund(attempt, "amount_cents", payment.amount_cents, attempt.amount_cents)
    words = SurplusBack if is_surplus else MoneyBack
    expected = {
        PaymentStatus.PENDING: words.PENDING,
        PaymentStatus.SUCCEEDED: words.DONE,
        PaymentStatus.FAILED: words.OWED,
    }[attempt.refund_status]
    if payment.status != expected:
        yield _refund(attempt, "status of the payment", expected, payment.status)


def _paid_back(payment: Payment, book: RefundBook) -> Iterator[Finding]:
    refunded = sum(
        attempt.amount_cents
        for attempt in book.attempts
        if attempt.payment_id == payment.id and attempt.refund_status != PaymentStatus.FAILED
    )
    if refunded > payment.amount_cents:
        yield _payment(payment, "refunds", f"at most {payment.amount_cents}", refunded)
    of_payment = [attempt for attempt in book.attempts if attempt.payment_id == payment.id]
    if payment.status in _UNDER_WAY and all(attempt.credit_note_id is not None for attempt in of_payment):
        yield _payment(payment, "refunds without a credit note", 1, 0)
    is_paid = payment.payment_status == ChargeStatus.SUCCEEDED
    if is_paid and payment.invoice_id in book.closed and payment.status not in GIVEN_BACK:
        yield _payment(payment, "of an invoice that nobody was to pay", "given back", payment.status)
    # A payment that the provider answered with a conflict waits for somebody to try again.
    is_under_way = payment.unanswered and payment.payment_status in LIVE and payment.status == ChargeStatus.PENDING
    if is_under_way and payment.payable_id not in book.awaited:
        yield _payment(payment, "jobs that ask for it", 1, 0)
