"""Look-ups: asking a provider about a charge or a refund of which no notice has come (`core/look_ups.py` decides when,
and how the wait ends).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from usagebill.core.charge_attempts import owed_cents, refused
from usagebill.core.collection import Collectable, consequence, retry_delay
from usagebill.core.look_ups import (
    NOT_CONFIRMED,
    NOT_FOUND,
    PAID_WITHOUT_NOTICE,
    LookStep,
    Wait,
    look_step,
    page_question,
    wait_of,
)
from usagebill.core.payment_notices import EXPECTED
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.payments import LIVE, Payment, PaymentPage, RefundAttempt
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    FailureKind,
    LookUpCharge,
    LookUpRefund,
    PayableType,
    PaymentMoved,
    ProviderFailure,
    RefundMoved,
    Request,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations import provider_notices
from usagebill.operations.payables import PAYABLES, find_payable, log_unknown, move, tell_failure
from usagebill.operations.payment_orders import order_look_up, order_page_look_up, order_payment, order_refund_look_up
from usagebill.operations.payment_status import cancel_charge
from usagebill.operations.refunds import move_refund
from usagebill.process.logs import Log
from usagebill.queries.payment_providers import find_connection
from usagebill.runtime.work import Work
from usagebill.storage.conditions import at_least, eq

_log = Log("usagebill.payments")
_SILENT = "the provider says nothing about it: look there before you try again"


def prepare_charge(work: Work, task: AskPaymentProvider) -> tuple[PaymentConnection, Request[Any]] | None:
    """The question about a charge; None if it has an outcome, or its request is still being sent."""
    payment = work.tx.get(Payment, task.subject_id)
    connection = None if payment is None else find_connection(work, payment.connection_id)
    if payment is None or connection is None or payment.payment_status not in LIVE:
        return None
    if payment.provider_payment_id is None and not payment.unanswered:
        return None
    if payment.unanswered and work.tx.jobs.waiting(CollectPayment.kind, payment.payable_id) is not None:
        return None
    return connection, LookUpCharge(
        payment_id=payment.id,
        provider_payment_id=payment.provider_payment_id,
        provider_customer_id=payment.provider_customer_id,
        since=payment.sent_at or payment.created_at,
    )


def conclude_charge(
    work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: PaymentMoved | None
) -> None:
    """Act on the answer: as on a notice once the charge has an outcome, else wait on, or end the wait."""
    payment = work.tx.get(Payment, task.subject_id)
    if payment is None or payment.payment_status not in LIVE:
        return
    if answer is None:
        collectable = find_payable(work, payment.payable_type, payment.payable_id)
        if collectable is not None and payment.unanswered and payment.amount_cents > owed_cents(collectable):
            _charge_again(work, payment, collectable)
            return
        message = "the provider has no such charge"
        _end(work, payment, collectable, ProviderFailure(kind=FailureKind.REFUSED, code=NOT_FOUND, message=message))
        return
    if payment.unanswered or answer.payment_status not in LIVE:
        reason = provider_notices.apply(work, connection, answer)
        if reason is not None and reason not in EXPECTED:
            _log.warning("look_up_not_handled", payment=task.subject_id, connection=connection.code, reason=reason)
    _wait_on(work, task, connection, is_known=True)


def fail_charge(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    """The provider has no look-up, does not know the charge, or does not accept the credentials now."""
    is_passing = failure.kind is FailureKind.UNAUTHORIZED and connection.deleted_at is None
    _wait_on(work, task, connection, is_known=is_passing)


def _wait_on(work: Work, task: AskPaymentProvider, connection: PaymentConnection, *, is_known: bool) -> None:
    payment = work.tx.get(Payment, task.subject_id)
    if payment is None or payment.payment_status not in LIVE:
        return
    collectable = find_payable(work, payment.payable_type, payment.payable_id)
    if collectable is not None and collectable.is_gated:
        # How long its subscription waits for it is said by the activation rule.
        order_look_up(work, payment)
        return
    wait, since = wait_of(payment), payment.sent_at or payment.created_at
    can_cancel = connection.traits.cancels and payment.provider_payment_id is not None
    match look_step(wait, since, work.now, is_known=is_known, can_cancel=can_cancel):
        case LookStep.END:
            failure = ProviderFailure(kind=FailureKind.FORGOTTEN, code=OUTCOME_UNKNOWN, message=_SILENT)
            _end(work, payment, collectable, failure)
            return
        case LookStep.CANCEL:
            if wait is Wait.CONFIRMATION:
                payment = replace(payment, error_code=NOT_CONFIRMED, updated_at=work.now)
                work.tx.replace(payment)
            cancel_charge(work, payment)
        case LookStep.ASK_AGAIN:
            pass
    order_look_up(work, payment)


def _charge_again(work: Work, payment: Payment, collectable: Collectable) -> None:
    """A charge that was not sent again, as less is due by now, was never made: what is left is charged instead."""
    message = "it was not made, and less is due by now"
    failure = ProviderFailure(kind=FailureKind.REFUSED, code=NOT_FOUND, message=message)
    follows = consequence(FailureKind.ACTION_REQUIRED, asks_customer=True)
    payment = refused(payment, failure, follows, work.now)
    work.tx.replace(payment)
    move(work, collectable, follows.event, payment)
    order_payment(work, collectable.type, collectable.id)


def _end(work: Work, payment: Payment, collectable: Collectable | None, failure: ProviderFailure) -> None:
    """Give up waiting for a charge: it counts as failed. Should it have succeeded, its notice is still followed."""
    follows = consequence(failure.kind, asks_customer=False)
    payment = refused(payment, failure, follows, work.now)
    work.tx.replace(payment)
    log_unknown(payment, failure)
    if collectable is None:
        return
    PAYABLES[collectable.type].note(work, collectable.id, failure)
    tell_failure(work, collectable, failure)
    move(work, collectable, follows.event, payment)


# Pages


def prepare_page(work: Work, task: AskPaymentProvider) -> tuple[PaymentConnection, Request[Any]] | None:
    """The question whether a page was paid."""
    page = work.tx.get(PaymentPage, task.subject_id)
    connection = None if page is None else find_connection(work, page.connection_id)
    return None if page is None or connection is None else (connection, page_question(page))


def conclude_page(
    work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: PaymentMoved | None
) -> None:
    """Record a payment of which no notice has come; ask again while the page can be paid."""
    page = work.tx.get(PaymentPage, task.subject_id)
    if page is None:
        return
    reason = None if answer is None else provider_notices.apply(work, connection, answer)
    if reason is not None and reason not in EXPECTED:
        _log.warning("look_up_not_handled", page=page.id, connection=connection.code, reason=reason)
    if answer is None:
        order_page_look_up(work, page)


def fail_page(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    """Show with what was paid that a payment is missing, if the provider says no more than that; else ask again."""
    page = work.tx.get(PaymentPage, task.subject_id)
    if page is None:
        return
    if failure.code != PAID_WITHOUT_NOTICE:
        order_page_look_up(work, page)
        return
    column = "invoice_id" if page.payment_request_id is None else "payment_request_id"
    of_page = eq(column, page.payment_request_id or page.invoice_id), eq("connection_id", connection.id)
    since = at_least("created_at", page.created_at)
    made = work.tx.first(Payment, *of_page, eq("payment_status", ChargeStatus.SUCCEEDED), since)
    payable_type = PayableType.INVOICE if page.payment_request_id is None else PayableType.PAYMENT_REQUEST
    collectable = find_payable(work, payable_type, page.payment_request_id or page.invoice_id or "")
    if made is not None:
        return
    if collectable is not None:
        PAYABLES[collectable.type].note(work, collectable.id, failure)
    if page.expires_at > work.now:
        # Its notice may be under way: until it comes, no charge for the same money is made (`is_being_ended`).
        attempts = task.attempts + 1
        work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))


# Refunds


def prepare_refund(work: Work, task: AskPaymentProvider) -> tuple[PaymentConnection, Request[Any]] | None:
    """The question about a refund; None if it has an outcome."""
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    connection = None if attempt is None else find_connection(work, attempt.connection_id)
    if attempt is None or connection is None or attempt.provider_refund_id is None:
        return None
    if attempt.refund_status != PaymentStatus.PENDING:
        return None
    return connection, LookUpRefund(provider_refund_id=attempt.provider_refund_id)


def conclude_refund(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: RefundMoved) -> None:
    """Act on the answer as on a notice once the refund has an outcome, else wait on."""
    if answer.refund_status != PaymentStatus.PENDING:
        provider_notices.apply(work, connection, answer)
    _wait_on_refund(work, task, is_known=True)


def fail_refund(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    """The provider has no look-up, does not know the refund, or does not accept the credentials now."""
    is_passing = failure.kind is FailureKind.UNAUTHORIZED and connection.deleted_at is None
    _wait_on_refund(work, task, is_known=is_passing)


def _wait_on_refund(work: Work, task: AskPaymentProvider, *, is_known: bool) -> None:
    attempt = work.tx.get(RefundAttempt, task.subject_id)
    if attempt is None or attempt.refund_status != PaymentStatus.PENDING:
        return
    step = look_step(Wait.REFUND, attempt.created_at, work.now, is_known=is_known, can_cancel=is_known)
    if step is LookStep.END:
        move_refund(work, attempt, "failed", PaymentStatus.FAILED, _SILENT, OUTCOME_UNKNOWN)
        return
    order_refund_look_up(work, attempt)
