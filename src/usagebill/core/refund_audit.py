"""The audit of refunds and of payments under way: refunds of credit notes are paid back, and nothing is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from usagebill.core.audit import Finding
from usagebill.core.credit_notes import CreditNote
from usagebill.core.payments import (
    GIVEN_BACK,
    LIVE,
    OF_ALL_MONEY,
    MoneyBack,
    Payment,
    RefundAttempt,
    SurplusBack,
    TakenBack,
    money_back_word,
    note_refund_status,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus

# A payment in one of these states has an attempt to give it back.
_UNDER_WAY = (MoneyBack.PENDING, MoneyBack.DONE, SurplusBack.PENDING, SurplusBack.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundBook:
    """A customer's payments and refunds through providers.

    `attempts` are in the order in which they were made; `notes` are the customer's credit notes by id; `closed` are the
    invoices that nobody is to pay; `awaited` are the ids of attempts, invoices and payment requests about which a
    waiting job will ask their provider.
    """

    payments: Sequence[Payment]
    attempts: Sequence[RefundAttempt]
    notes: Mapping[str, CreditNote]
    closed: Collection[str]
    awaited: Collection[str]


def _is_unanswered(attempt: RefundAttempt) -> bool:
    """Whether its provider is still to be asked, or has not answered."""
    return attempt.refund_status == PaymentStatus.PENDING and attempt.provider_refund_id is None


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
    """Each refund belongs to a payment that had succeeded. Those of a credit note do not exceed its refund; its status,
    and that of payments given back, follow them. No payment is paid back beyond its amount, no payment for something
    that nobody was to pay is kept, and unknown outcomes are inquired about.
    """
    payments = {payment.id: payment for payment in book.payments}
    for attempt in book.attempts:
        payment = payments.get(attempt.payment_id)
        if payment is None:
            yield _refund(attempt, "payment", "one of its customer's", attempt.payment_id)
            continue
        if payment.payment_status != ChargeStatus.SUCCEEDED and payment.status != TakenBack.RETURNED:
            yield _refund(attempt, "payment_status of the payment", ChargeStatus.SUCCEEDED, payment.payment_status)
        if attempt.credit_note_id is not None:
            yield from _noted(attempt, book)
    # They are asked for one after the other.
    first = {attempt.payment_id: attempt for attempt in reversed(book.attempts) if _is_unanswered(attempt)}
    for attempt in first.values():
        if attempt.id not in book.awaited:
            yield _refund(attempt, "jobs that ask for it", 1, 0)
    for payment in book.payments:
        yield from _paid_back(payment, book)


def _noted(attempt: RefundAttempt, book: RefundBook) -> Iterator[Finding]:
    note = book.notes.get(attempt.credit_note_id or "")
    if note is None:
        yield _refund(attempt, "credit note", "one of its customer's", attempt.credit_note_id)
        return
    attempts = [other for other in book.attempts if other.credit_note_id == note.id]
    if attempt is not attempts[-1]:
        return
    expected = {(note.currency, note.invoice_id)}
    actual = {(other.currency, other.invoice_id) for other in attempts}
    if actual != expected:
        yield _refund(attempt, f"currency and invoice of credit note {note.number}", expected, actual)
    cents = sum(other.amount_cents for other in attempts if other.refund_status != PaymentStatus.FAILED)
    if cents > note.refund_amount_cents:
        detail = f"cents of credit note {note.number}"
        yield _refund(attempt, detail, f"at most {note.refund_amount_cents}", cents)
    # By hand a note may be marked as refunded, whatever the provider says.
    status = note_refund_status(note.refund_amount_cents, attempts)
    if note.refund_status not in (status, PaymentStatus.SUCCEEDED):
        yield _refund(attempt, f"refund_status of credit note {note.number}", status, note.refund_status)


def _paid_back(payment: Payment, book: RefundBook) -> Iterator[Finding]:
    refunded = sum(
        attempt.amount_cents
        for attempt in book.attempts
        if attempt.payment_id == payment.id and attempt.refund_status != PaymentStatus.FAILED
    )
    if refunded > payment.amount_cents:
        yield _payment(payment, "refunds", f"at most {payment.amount_cents}", refunded)
    given_back = [
        attempt for attempt in book.attempts if attempt.payment_id == payment.id and attempt.credit_note_id is None
    ]
    if payment.status in _UNDER_WAY and not given_back:
        yield _payment(payment, "refunds without a credit note", 1, 0)
    if given_back and payment.status not in OF_ALL_MONEY and payment.status != money_back_word(payment, given_back):
        word = money_back_word(payment, given_back)
        yield _refund(given_back[-1], "status of the payment", word, payment.status)
    is_paid = payment.payment_status == ChargeStatus.SUCCEEDED
    if is_paid and payment.invoice_id in book.closed and payment.status not in GIVEN_BACK:
        yield _payment(payment, "of an invoice that nobody was to pay", "given back", payment.status)
    # A payment that the provider answered with a conflict waits for somebody to try again.
    is_under_way = payment.unanswered and payment.payment_status in LIVE and payment.status == ChargeStatus.PENDING
    if is_under_way and payment.payable_id not in book.awaited:
        yield _payment(payment, "jobs that ask for it", 1, 0)
