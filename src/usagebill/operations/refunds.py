"""Refunds, paid back through the provider that collected the payment: of credit notes, of money for invoices that
nobody is to pay, and of what was paid beyond what is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from usagebill.core import collection, limits
from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.invoices.life_cycle import NOT_TO_BE_PAID
from usagebill.core.invoices.payment_states import PaymentEvent
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import (
    NOT_MADE,
    OF_ALL_MONEY,
    TO_BE_REFUNDED,
    Payment,
    RefundAttempt,
    TakenBack,
    is_refund_due,
    is_refund_late,
    money_back_word,
    note_refund_status,
    refund_shares,
)
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    FailureKind,
    ProviderErrand,
    ProviderFailure,
    Refund,
    Refunded,
    Request,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.backlog import after_backlog, of_record
from usagebill.operations.payment_orders import order_refund_look_up
from usagebill.operations.payment_status import move_payment
from usagebill.process.logs import Log
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_providers import find_connection
from usagebill.queries.payments import MAYBE_REFUNDED, given_back_cents, left_cents, paid_invoices, payments_of_invoice
from usagebill.requests.inputs import Input, Maybe, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, eq, missing, ne, present
from usagebill.views.payment_providers import refund_failure_view
from usagebill.views.payments import payment_view

_log = Log("usagebill.payments")


def order_refund(work: Work, note: CreditNote) -> None:
    """Order the refund of an issued note, or what of it is not under way, through the providers that collected the
    payments of its invoice, from the newest.

    Nothing is ordered for an invoice that is unpaid, or has a lost dispute.
    """
    invoice = work.tx.get(Invoice, note.invoice_id)
    if invoice is None or not is_refund_due(note, invoice):
        return
    succeeded = [
        (payment, left_cents(work, payment, invoice.id))
        for payment in payments_of_invoice(work, invoice.id)
        if payment.payment_status == ChargeStatus.SUCCEEDED
    ]
    for payment, cents in refund_shares(note.refund_amount_cents - _ordered_cents(work, note), succeeded):
        connection = _refunding_connection(work, payment)
        if connection is not None:
            _order(work, payment, connection, invoice.id, cents, note)


def _ordered_cents(reader: Reader, note: CreditNote) -> int:
    return reader.tx.total(RefundAttempt, "amount_cents", eq("credit_note_id", note.id), MAYBE_REFUNDED)


def deny_unknown(work: Work, column: str, id: str) -> None:
    """Somebody says that the refunds of unknown outcome of a credit note or payment were not made."""
    for attempt in work.tx.find(RefundAttempt, eq(column, id), eq("error_code", OUTCOME_UNKNOWN)):
        work.tx.replace(replace(attempt, error_code=NOT_MADE, updated_at=work.now))


def _is_outcome_unknown(reader: Reader, column: str, id: str) -> bool:
    return reader.tx.first(RefundAttempt, eq(column, id), eq("error_code", OUTCOME_UNKNOWN)) is not None


def _refunding_connection(reader: Reader, payment: Payment) -> PaymentConnection | None:
    """The connection through which the payment can be refunded; None if that has to be done by hand."""
    connection = find_connection(reader, payment.connection_id)
    can_refund = connection is not None and connection.traits.refunds and payment.provider_payment_id is not None
    return connection if can_refund else None


@after_backlog(of_record(CreditNote))
def retry(work: Work, credit_note_id: str) -> CreditNote:
    """Order the refund of a credit note again, as far as it failed.

    Raises `NotFound`, and `NotAllowed` if nothing of it has failed, it may have been made, or its provider cannot
    refund.
    """
    note = finalized_credit_note(work, credit_note_id)
    before = _ordered_cents(work, note)
    if note.refund_status == PaymentStatus.FAILED:
        order_refund(work, note)
    if _ordered_cents(work, note) == before and _is_outcome_unknown(work, "credit_note_id", note.id):
        raise NotAllowed("refund_outcome_unknown")
    if _ordered_cents(work, note) == before:
        raise NotAllowed("no_refund_to_retry", f"its refund_status {note.refund_status}")
    note = replace(note, refund_status=PaymentStatus.PENDING, updated_at=work.now)
    work.tx.replace(note)
    return note


@Input
class RefundInput:
    """The refund of a payment."""

    amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = described(
        "The amount to give back: at most what was paid beyond what is due.", unit="cents", default="all of that"
    )
    by_hand: Maybe[bool] = described(
        "Whether you have given it back yourself, so that the provider is not asked. Required after a refund of unknown"
        " outcome.",
        default="false",
    )


@after_backlog(of_record(Payment))
def refund(work: Work, payment_id: str, request: RefundInput) -> Payment:
    """Give back what a payment brought beyond what was due; its invoices stay as they are.

    Raises `NotFound`, `NotAllowed` if there is nothing to give back, it may have been given back, or the provider
    cannot refund, and `Invalid` for more than there is.
    """
    payment = work.tx.get(Payment, payment_id)
    if payment is None:
        raise NotFound("payment", payment_id)
    sent_cents = value_or(request.amount_cents, None)
    if sent_cents is not None and (sent_cents <= 0 or limits.INVOICE_PART.is_beyond(sent_cents)):
        raise Invalid(amount_cents="value_is_out_of_range")
    if is_given(request.by_hand):
        deny_unknown(work, "payment_id", payment.id)
    if payment.status == TakenBack.DISPUTED:
        raise Invalid(base="dispute_lost")
    connection = find_connection(work, payment.connection_id)
    surplus = _surplus(work, payment)
    if _is_outcome_unknown(work, "payment_id", payment.id):
        raise NotAllowed("refund_outcome_unknown")
    if connection is None or not surplus:
        raise NotAllowed("nothing_to_refund")
    by_hand = bool(value_or(request.by_hand, False))
    if not by_hand and _refunding_connection(work, payment) is None:
        raise NotAllowed("feature_not_supported")
    cents = sum(surplus.values()) if sent_cents is None else sent_cents
    if cents > sum(surplus.values()):
        raise Invalid(amount_cents="value_is_out_of_range")
    for invoice_id, most in surplus.items():
        share = min(cents, most)
        if share > 0:
            attempt = _order(work, payment, connection, invoice_id, share, asks=not by_hand)
            cents -= share
            if by_hand:
                move_refund(work, attempt, "by_hand", PaymentStatus.SUCCEEDED)
    _mark(work, payment)
    return work.tx.get(Payment, payment_id) or payment


def _surplus(reader: Reader, payment: Payment) -> dict[str, int]:
    """The cents of a payment that can be given back, by invoice: what it brought beyond what is due, or for invoices
    that nobody is to pay, if that is not under way.
    """
    if payment.payment_status != ChargeStatus.SUCCEEDED:
        return {}
    surplus = {}
    for invoice in paid_invoices(reader, payment):
        cents = invoice.overpaid_cents - given_back_cents(reader, invoice.id, PaymentStatus.PENDING)
        if invoice.status in NOT_TO_BE_PAID:
            is_owed = payment.status in TO_BE_REFUNDED
            cents = payment.amount_cents if is_owed else 0
        cents = min(cents, left_cents(reader, payment, invoice.id))
        if cents > 0:
            surplus[invoice.id] = cents
    return surplus


def give_back(work: Work, payment: Payment, unwanted: Mapping[str, int]) -> None:
    """Order the refund of these cents, by invoice, of a payment that succeeded for invoices not to be paid any more.

    If its provider does not support that, the payment shows that a person has to do it.
    """
    connection = find_connection(work, payment.connection_id)
    if connection is None or work.tx.first(RefundAttempt, eq("payment_id", payment.id)) is not None:
        return
    can_refund = _refunding_connection(work, payment) is not None
    for invoice_id, cents in unwanted.items():
        attempt = _order(work, payment, connection, invoice_id, cents, asks=can_refund)
        if not can_refund:
            work.tx.replace(replace(attempt, status="failed", refund_status=PaymentStatus.FAILED))
    _mark(work, payment, "its provider cannot refund it")


def _mark(work: Work, payment: Payment, reason: str | None = None) -> None:
    """Store on a payment what becomes of what is given back of it, unless it shows what became of all of its money."""
    attempts = work.tx.find(RefundAttempt, eq("payment_id", payment.id), missing("credit_note_id"))
    word = money_back_word(payment, attempts)
    status = payment.status if payment.status in OF_ALL_MONEY else word.value
    payment = replace(payment, status=status, is_shown=True, updated_at=work.now)
    work.tx.replace(payment)
    if word in TO_BE_REFUNDED:
        work.emit("payment.refund_failure", lambda: payment_view(work, payment), payment.id)
        _log.error(
            "payment_to_be_refunded",
            payment=payment.id,
            provider_payment=payment.provider_payment_id,
            connection=payment.payment_provider_code,
            amount_cents=sum(made.amount_cents for made in attempts if made.refund_status == PaymentStatus.FAILED),
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
    *,
    asks: bool = True,
) -> RefundAttempt:
    """Store a refund, and unless somebody else is to do it, have the provider asked for it."""
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
        created_at=work.now,
        updated_at=work.now,
        attempts=0,
    )
    work.tx.insert(attempt)
    if asks:
        _ask(work, payment.id)
    return attempt


def _ask(work: Work, payment_id: str) -> None:
    """Have the provider asked for the payment's oldest refund that it has not answered. One at a time: each request
    names the total of those before.
    """
    unanswered = eq("payment_id", payment_id), eq("refund_status", PaymentStatus.PENDING), missing("provider_refund_id")
    waiting = work.tx.first(RefundAttempt, *unanswered, order=[asc("created_at"), asc("id")])
    if waiting is not None:
        work.schedule(AskPaymentProvider(errand=ProviderErrand.REFUND, subject_id=waiting.id), work.now)


def prepare(work: Work, task: AskPaymentProvider) -> tuple[PaymentConnection, Request[Any]] | None:
    """The request for a refund attempt; None if it has an outcome."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None or _is_answered(attempt):
        return None
    payment = work.tx.get(Payment, attempt.payment_id)
    note = _note_of(work, attempt)
    connection = find_connection(work, attempt.connection_id)
    if payment is None or connection is None or payment.provider_payment_id is None:
        return None
    if attempt.credit_note_id is not None and note is None:
        return None
    made = eq("payment_id", payment.id), present("provider_refund_id"), ne("refund_status", PaymentStatus.FAILED)
    before_cents = work.tx.total(RefundAttempt, "amount_cents", *made)
    work.tx.replace(replace(attempt, attempts=attempt.attempts + 1, refunded_before_cents=before_cents))
    return connection, Refund(
        provider_payment_id=payment.provider_payment_id,
        key=attempt.id if note is None or _is_further(work, attempt) else note.id,
        credit_note_id=attempt.credit_note_id,
        invoice_id=attempt.invoice_id,
        customer_id=attempt.customer_id,
        amount_cents=attempt.amount_cents,
        currency=attempt.currency,
        reason=CreditNoteReason.OTHER.value if note is None else note.reason.value,
        refunded_before_cents=before_cents,
        since=attempt.created_at if attempt.attempts else None,
        at=work.now,
    )


def _is_answered(attempt: RefundAttempt) -> bool:
    return attempt.provider_refund_id is not None or attempt.refund_status != PaymentStatus.PENDING


def _is_further(reader: Reader, attempt: RefundAttempt) -> bool:
    """Whether it is not the first attempt for its note: that one has the note's id for its key."""
    first = reader.tx.first(
        RefundAttempt, eq("credit_note_id", attempt.credit_note_id), order=[asc("created_at"), asc("id")]
    )
    return first is not None and first.id != attempt.id


def _note_of(reader: Reader, attempt: RefundAttempt) -> CreditNote | None:
    return None if attempt.credit_note_id is None else reader.tx.get(CreditNote, attempt.credit_note_id)


def conclude(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: Refunded) -> None:
    """Act on the response: the provider has made the refund, or will report it."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None:
        return
    # A notice may have come before the answer: then its status counts.
    answered = replace(attempt, provider_refund_id=answer.provider_refund_id or attempt.provider_refund_id)
    work.tx.replace(answered)
    if attempt.provider_refund_id is None:
        move_refund(work, answered, answer.status, answer.refund_status)
    if answer.refund_status == PaymentStatus.PENDING and answered.provider_refund_id is not None:
        order_refund_look_up(work, answered)
    _ask(work, attempt.payment_id)


def given_up(work: Work, task: AskPaymentProvider, failure: ProviderFailure) -> ProviderFailure:
    """The failure to make a refund: one that says nothing is final after a month."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    return failure if attempt is None else collection.given_up(failure, attempt.created_at, work.now)


def fail(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    """The provider has refused the refund, unless it has answered otherwise since."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None or failure.kind is FailureKind.NOT_SUPPORTED or _is_answered(attempt):
        return
    move_refund(work, attempt, "failed", PaymentStatus.FAILED, failure.message, failure.code)
    _ask(work, attempt.payment_id)


def move_refund(
    work: Work,
    attempt: RefundAttempt,
    word: str,
    status: PaymentStatus,
    message: str = "Payment refund failed",
    code: str | None = None,
) -> None:
    """Store a refund as pending, succeeded or failed (with a `code`), and what follows for its credit note, or its
    payment and invoice.

    One that succeeded can still fail: the money came back.
    """
    before = attempt.refund_status
    if is_refund_late(attempt, status):
        return
    error_code = code if status is PaymentStatus.FAILED else None
    attempt = replace(attempt, status=word, refund_status=status, error_code=error_code, updated_at=work.now)
    work.tx.replace(attempt)
    if status == before:
        return
    if attempt.credit_note_id is None:
        payment = work.tx.get(Payment, attempt.payment_id)
        invoice = work.tx.get(Invoice, attempt.invoice_id)
        if payment is not None and invoice is not None:
            _mark(work, payment, message)
            move_payment(work, invoice, PaymentEvent.RECOUNTED)
        return
    note = _note_of(work, attempt)
    # By hand a note may be marked as refunded, whatever the provider says.
    if note is None or (note.refund_status == PaymentStatus.SUCCEEDED != before):
        return
    attempts = work.tx.find(RefundAttempt, eq("credit_note_id", note.id))
    of_note = note_refund_status(note.refund_amount_cents, attempts)
    refunded_at = work.now if of_note == PaymentStatus.SUCCEEDED else None
    work.tx.replace(replace(note, refund_status=of_note, refunded_at=refunded_at, updated_at=work.now))
    if status == PaymentStatus.FAILED:
        view = partial(refund_failure_view, customer_of(work, note), note.id, message, code)
        work.emit("credit_note.provider_refund_failure", view, note.id)
