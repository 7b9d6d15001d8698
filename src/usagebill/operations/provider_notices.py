"""Notices: webhooks of payment providers. Each is stored as it arrives, then processed once
(`core/payment_notices.py` decides).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never

from usagebill.core.collection import MOST_QUICK_ATTEMPTS, Collectable, retry_delay
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.payment_states import PaymentEvent, notice_event
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.payment_notices import (
    EXPECTED,
    NOTHING,
    REPEATED,
    TOO_EARLY,
    Reaction,
    followed,
    is_final,
    outcome_of,
    reaction_to,
    received_on,
    returned,
    why_not_recorded,
)
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider, CollectPayment
from usagebill.core.payments import (
    DISPUTE_WON,
    LIVE,
    NoticeStatus,
    Payment,
    PaymentMethod,
    ProviderNotice,
    RefundAttempt,
    TakenBack,
    is_refund_late,
)
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    AccountReady,
    AccountRefused,
    DefaultMethodCleared,
    DisputeLost,
    DisputeWon,
    FailureKind,
    FeeTold,
    MethodAdded,
    MethodRemoved,
    Notice,
    Outcome,
    PayableType,
    PaymentMoved,
    ProviderErrand,
    ProviderFailure,
    RefundMoved,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.disputes import lose_payment, win_payment
from usagebill.operations.payables import PAYABLES, find_payable, move, tell_failure, watch
from usagebill.operations.payment_methods import clear_default, forget_method, keep_method, stop_method
from usagebill.operations.payment_orders import order_payment, order_refund_look_up
from usagebill.operations.provider_customers import tell_created, tell_error
from usagebill.operations.refunds import move_refund
from usagebill.process.logs import Log
from usagebill.queries.payment_providers import find_connection
from usagebill.queries.payments import paid_invoices
from usagebill.requests.inputs import Input, Maybe, Paging, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import any_of, asc, eq, less, within
from usagebill.storage.ports import Page
from usagebill.views.payments import payment_view

# The retention of notices.
_KEPT = timedelta(days=90)
_MOST_DROPPED = 100
_log = Log("usagebill.payments")


def keep(work: Work, connection: PaymentConnection, notices: Sequence[Notice]) -> None:
    """Store the notices of a provider and schedule their processing; duplicates are skipped."""
    for notice in notices:
        named = eq("connection_id", connection.id), eq("event_id", notice.id)
        if work.tx.first(ProviderNotice, *named) is not None:
            continue
        kept = ProviderNotice(
            id=work.new_id(),
            organization_id=work.organization.id,
            connection_id=connection.id,
            event_id=notice.id,
            type=notice.type,
            body=notice.body,
            created_at=work.now,
            updated_at=work.now,
        )
        work.tx.insert(kept)
        work.schedule(AskPaymentProvider(errand=ProviderErrand.NOTICE, subject_id=kept.id), work.now)
    old = work.tx.find(
        ProviderNotice, less("created_at", work.now - _KEPT), order=[asc("created_at")], limit=_MOST_DROPPED
    )
    work.tx.delete(*old)


@Input
class NoticeFilters:
    """`status`: pending, succeeded, ignored, unhandled or failed."""

    status: Maybe[str] = described("Only those with this status.")


def list_all(reader: Reader, options: NoticeFilters, paging: Paging) -> Page[ProviderNotice]:
    """The notices of the last 90 days, newest first. Raises `Invalid` for an unknown status."""
    if not options.status:
        return reader.page(ProviderNotice, paging=paging)
    if options.status not in tuple(NoticeStatus):
        raise Invalid(status="value_is_invalid")
    return reader.page(ProviderNotice, eq("status", options.status), paging=paging)


def prepare(work: Work, job: Job, task: AskPaymentProvider) -> tuple[PaymentConnection, Notice] | None:
    """The notice to parse; None if that has been done."""
    kept = work.tx.get(ProviderNotice, task.subject_id)
    connection = None if kept is None else find_connection(work, kept.connection_id)
    if kept is None or connection is None or kept.status != NoticeStatus.PENDING:
        work.tx.jobs.complete(job)
        return None
    return connection, Notice(id=kept.event_id, type=kept.type, body=kept.body)


def conclude(
    work: Work,
    job: Job,
    task: AskPaymentProvider,
    connection: PaymentConnection,
    answer: Sequence[Outcome] | ProviderFailure,
) -> None:
    """Act on a notice; retry later if the provider gave no details, or it is ahead of our records."""
    work.tx.jobs.complete(job)
    kept = work.tx.get(ProviderNotice, task.subject_id)
    if kept is None or kept.status != NoticeStatus.PENDING:
        return
    attempts = task.attempts + 1
    kept = replace(kept, attempts=attempts, updated_at=work.now)
    if isinstance(answer, ProviderFailure):
        final = is_final(answer.kind)
        status = NoticeStatus.FAILED if final else NoticeStatus.PENDING
        work.tx.replace(replace(kept, status=status, reason=answer.message))
        if final or attempts == MOST_QUICK_ATTEMPTS:
            _say(kept, connection, answer.message)
        if not final:
            work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))
        return
    reasons = [reason for outcome in answer if (reason := apply(work, connection, outcome)) is not None]
    status = outcome_of(reasons, outcomes=len(answer), attempts=attempts)
    if status is NoticeStatus.PENDING:
        work.tx.replace(kept)
        work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))
        return
    if status is NoticeStatus.UNHANDLED:
        _say(kept, connection, next(reason for reason in reasons if reason not in EXPECTED))
    work.tx.replace(replace(kept, status=status, reason="; ".join(dict.fromkeys(reasons)) or None))


def _say(kept: ProviderNotice, connection: PaymentConnection, reason: str) -> None:
    _log.warning("notice_not_handled", notice=kept.id, type=kept.type, connection=connection.code, reason=reason)


def apply(work: Work, connection: PaymentConnection, outcome: Outcome) -> str | None:
    """Act on one outcome of a notice or a look-up. Returns the reason if it has no effect."""
    if isinstance(outcome, Unhandled):
        return NOTHING if outcome.known else outcome.reason
    return _APPLY[type(outcome)](work, connection, outcome)


# Payments


def _payment_moved(work: Work, connection: PaymentConnection, moved: PaymentMoved) -> str | None:
    payment = _known_payment(work, connection, moved)
    if payment is None:
        return _new_payment(work, connection, moved)
    if moved.currency is not None and moved.currency != payment.amount_currency:
        return f"it is in {moved.currency}, the payment in {payment.amount_currency}"
    collectable = find_payable(work, payment.payable_type, payment.payable_id)
    if collectable is None:
        return "what it paid is gone"
    match reaction_to(payment, moved, invoices_wait=_is_news_to_invoices(work, payment)):
        case Reaction.RETURN:
            _return(work, collectable, payment, moved)
            return None
        case Reaction.LOSE:
            if payment.payment_status != ChargeStatus.SUCCEEDED:
                taken = replace(moved, payment_status=ChargeStatus.SUCCEEDED, error_code=None, error_message=None)
                payment = _moved(work, payment, taken)
                _settle(work, collectable, payment, taken)
            lose_payment(work, payment, moved.happened_at or work.now, moved.error_message or moved.status)
            return None
        case Reaction.WIN:
            return None if win_payment(work, payment, moved.happened_at or work.now) else REPEATED
        case Reaction.KEEP_METHOD:
            work.tx.replace(replace(payment, method=moved.method, updated_at=work.now))
            return REPEATED
        case Reaction.NONE:
            return REPEATED
        case Reaction.FOLLOW:
            pass
        case reaction:
            assert_never(reaction)
    payment = _moved(work, payment, moved)
    if moved.payment_status == ChargeStatus.FAILED and _is_left_alone(work, collectable, payment):
        return None
    _settle(work, collectable, payment, moved)
    return None


def _is_news_to_invoices(reader: Reader, payment: Payment) -> bool:
    """Whether the payment is a failed charge of a payment request that its invoices do not know of yet."""
    if payment.payable_type is not PayableType.PAYMENT_REQUEST or payment.payment_status != ChargeStatus.FAILED:
        return False
    return any(invoice.payment_status == PaymentStatus.PENDING for invoice in paid_invoices(reader, payment))


def _payment_at(reader: Reader, connection: PaymentConnection, provider_payment_id: str) -> Payment | None:
    return reader.tx.first(Payment, eq("connection_id", connection.id), eq("provider_payment_id", provider_payment_id))


def _known_payment(reader: Reader, connection: PaymentConnection, moved: PaymentMoved) -> Payment | None:
    """Our payment, by the provider's id, else by our own id that we sent with an unanswered charge."""
    ids = (moved.provider_payment_id, *moved.known_as)
    payment = reader.tx.first(Payment, eq("connection_id", connection.id), within("provider_payment_id", ids))
    if payment is not None or moved.creates:
        return payment
    if moved.payment_id is not None:
        sent = reader.tx.get(Payment, moved.payment_id)
    elif moved.payable_id is not None and moved.payable_type is not None:
        column = "invoice_id" if moved.payable_type is PayableType.INVOICE else "payment_request_id"
        sent = reader.tx.first(Payment, eq(column, moved.payable_id), eq("unanswered", True))
    else:
        sent = None
    if sent is None or sent.connection_id != connection.id or sent.provider_payment_id is not None:
        return None
    return sent


def _moved(work: Work, payment: Payment, moved: PaymentMoved) -> Payment:
    method_id = payment.payment_method_id
    if method_id is None and moved.method is not None:
        named = eq("provider_method_id", moved.method.provider_method_id)
        method = work.tx.first(PaymentMethod, eq("customer_id", payment.customer_id), named)
        method_id = None if method is None else method.id
    # What was said of it before may have been given up: of a payment that was not known, or had not succeeded yet.
    is_news = payment.provider_payment_id is None or payment.payment_status in LIVE
    payment = followed(payment, moved, method_id=method_id, now=work.now)
    work.tx.replace(payment)
    if is_news:
        look_again(work, payment.connection_id)
    return payment


def _settle(work: Work, collectable: Collectable, payment: Payment, moved: PaymentMoved) -> None:
    """Announce a payment that a notice made succeed or fail, and update its payable."""
    was_paid = collectable.payment_status == PaymentStatus.SUCCEEDED
    if payment.payment_status == ChargeStatus.SUCCEEDED:
        PAYABLES[collectable.type].note(work, collectable.id, None)
        if collectable.type is PayableType.INVOICE and not was_paid:
            work.emit("payment.succeeded", lambda: payment_view(work, payment), payment.id)
    elif payment.payment_status == ChargeStatus.FAILED and not was_paid:
        _tell_why(work, collectable, moved)
    move(work, collectable, notice_event(payment.payment_status), payment)
    if payment.payment_status in LIVE:
        watch(work, payment)


def _tell_why(work: Work, collectable: Collectable, moved: PaymentMoved) -> None:
    message = moved.error_message or moved.status
    failure = ProviderFailure(kind=FailureKind.DECLINED, code=moved.error_code or moved.status, message=message)
    PAYABLES[collectable.type].note(work, collectable.id, failure)
    tell_failure(work, collectable, failure)


def _return(work: Work, collectable: Collectable, payment: Payment, moved: PaymentMoved) -> None:
    """A payment that had succeeded was taken back: its debt is open again."""
    payment = returned(payment, moved, work.now)
    work.tx.replace(payment)
    work.emit("payment.returned", lambda: payment_view(work, payment), payment.id)
    move(work, collectable, PaymentEvent.RETURNED, payment)
    due = find_payable(work, collectable.type, collectable.id)
    if due is not None and due.payment_status == PaymentStatus.FAILED:
        _tell_why(work, due, moved)


def _is_left_alone(work: Work, collectable: Collectable, failed: Payment) -> bool:
    """Whether another charge of the payable is under way, or will follow one that had to be confirmed."""
    if work.tx.jobs.waiting(CollectPayment.kind, collectable.id) is not None:
        return True
    payments = work.tx.find(Payment, eq(collectable.column, collectable.id))
    return any(
        payment.id != failed.id and payment.payment_status in LIVE and not payment.is_manual for payment in payments
    )


def _new_payment(work: Work, connection: PaymentConnection, moved: PaymentMoved) -> str | None:
    """Record an unknown payment, made on a page. Returns the reason if it has no effect."""
    collectable = None
    if moved.payable_id is not None and moved.payable_type is not None:
        collectable = find_payable(work, moved.payable_type, moved.payable_id)
    reason = why_not_recorded(moved, collectable)
    if collectable is None or reason is not None:
        return reason
    customer = work.tx.get(Customer, collectable.customer_id, deleted=True)
    amount = collectable.due_cents if moved.amount_cents is None else moved.amount_cents
    payment = Payment(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=collectable.customer_id,
        amount_cents=amount,
        amount_currency=collectable.currency,
        created_at=work.now,
        updated_at=work.now,
        status=moved.status,
        payment_status=moved.payment_status,
        connection_id=connection.id,
        payment_provider_type=connection.kind,
        payment_provider_code=connection.code,
        provider_customer_id=None if customer is None else customer.provider_customer_id,
        provider_payment_id=moved.provider_payment_id,
        method=moved.method,
        is_shown=collectable.is_shown,
        invoice_id=collectable.invoice_id,
        payment_request_id=collectable.payment_request_id,
        received_at=received_on(moved, work.now),
    )
    PAYABLES[collectable.type].attempt(work, collectable.id)
    work.tx.insert(payment)
    _settle(work, collectable, payment, moved)
    look_again(work, connection.id)
    return None


def look_again(work: Work, connection_id: str | None) -> None:
    """Process once more what was said of payments that nobody knew: one that is known by now may be among them."""
    early = eq("connection_id", connection_id), eq("status", NoticeStatus.UNHANDLED), eq("reason", TOO_EARLY)
    for kept in work.tx.find(ProviderNotice, *early, order=[asc("created_at")], limit=_MOST_DROPPED):
        work.tx.replace(replace(kept, status=NoticeStatus.PENDING, updated_at=work.now))
        task = AskPaymentProvider(errand=ProviderErrand.NOTICE, subject_id=kept.id, attempts=kept.attempts)
        work.schedule(task, work.now)


# Refunds and disputes


def _refund_moved(work: Work, connection: PaymentConnection, moved: RefundMoved) -> str | None:
    attempt = _known_refund(work, connection, moved)
    if attempt is None:
        return TOO_EARLY
    is_same = attempt.status == moved.status and attempt.error_code != OUTCOME_UNKNOWN
    if is_same or is_refund_late(attempt, moved.refund_status):
        return REPEATED
    attempt = replace(attempt, provider_refund_id=moved.provider_refund_id)
    work.tx.replace(attempt)
    move_refund(work, attempt, moved.status, moved.refund_status)
    if moved.refund_status == PaymentStatus.PENDING:
        order_refund_look_up(work, attempt)
    return None


def _known_refund(reader: Reader, connection: PaymentConnection, moved: RefundMoved) -> RefundAttempt | None:
    """Our refund, by the provider's id, else by the key that we sent with an unanswered request: its own id, or for the
    first one of a credit note, the note's.
    """
    of_connection = eq("connection_id", connection.id)
    attempt = reader.tx.first(RefundAttempt, of_connection, eq("provider_refund_id", moved.provider_refund_id))
    if attempt is not None or moved.key is None:
        return attempt
    sent = reader.tx.first(
        RefundAttempt,
        of_connection,
        any_of(eq("id", moved.key), eq("credit_note_id", moved.key)),
        order=[asc("created_at"), asc("id")],
    )
    return None if sent is None or sent.provider_refund_id is not None else sent


def _dispute_lost(work: Work, connection: PaymentConnection, lost: DisputeLost) -> str | None:
    payment = _payment_at(work, connection, lost.provider_payment_id)
    if payment is None:
        return TOO_EARLY
    if payment.payment_status in LIVE:
        return TOO_EARLY
    if payment.payment_status == ChargeStatus.FAILED:
        return "the payment has failed"
    # A file of an earlier version says of a dispute that was won only when that was recorded.
    known_at = payment.disputed_at or (payment.updated_at if payment.status == DISPUTE_WON else None)
    if known_at is not None and lost.lost_at <= known_at:
        return REPEATED
    if payment.status == TakenBack.DISPUTED:
        # Lost once more: a win between both comes too late.
        work.tx.replace(replace(payment, disputed_at=lost.lost_at, updated_at=work.now))
        return REPEATED
    lose_payment(work, payment, lost.lost_at, lost.reason)
    return None


def _dispute_won(work: Work, connection: PaymentConnection, won: DisputeWon) -> str | None:
    payment = _payment_at(work, connection, won.provider_payment_id)
    if payment is None or payment.payment_status in LIVE:
        return TOO_EARLY
    if payment.payment_status == ChargeStatus.FAILED:
        return "the payment has failed"
    if payment.disputed_at is not None and won.won_at < payment.disputed_at:
        return REPEATED
    return None if win_payment(work, payment, won.won_at) else REPEATED


def _fee_told(work: Work, connection: PaymentConnection, told: FeeTold) -> str | None:
    payment = _payment_at(work, connection, told.provider_payment_id)
    if payment is None:
        return TOO_EARLY
    known = payment.provider_fee_amount_cents, payment.provider_fee_currency
    if known == (told.amount_cents, told.currency):
        return REPEATED
    if known != (None, None) and payment.provider_fee_currency != told.currency:
        return f"its fee is in {told.currency}, and was in {payment.provider_fee_currency}"
    work.tx.replace(
        replace(
            payment,
            provider_fee_amount_cents=told.amount_cents,
            provider_fee_currency=told.currency,
            updated_at=work.now,
        )
    )
    return None


# Customers and their methods


def _customer_at(reader: Reader, connection: PaymentConnection, provider_customer_id: str | None) -> Customer | None:
    if provider_customer_id is None:
        return None
    return reader.tx.first(
        Customer, eq("payment_connection_id", connection.id), eq("provider_customer_id", provider_customer_id)
    )


def _method_added(work: Work, connection: PaymentConnection, added: MethodAdded) -> str | None:
    customer = _customer_at(work, connection, added.provider_customer_id)
    if customer is None and added.customer_id is not None:
        customer = work.tx.get(Customer, added.customer_id)
    if customer is None or customer.payment_connection_id != connection.id:
        return NOTHING
    keep_method(work, customer, connection, added.method)
    if connection.kind == "stripe":
        _collect_pending(work, customer)
    return None


def _collect_pending(work: Work, customer: Customer) -> None:
    """Charge the customer's payables that wait for a payment method."""
    for invoice in work.tx.find(
        Invoice,
        eq("customer_id", customer.id),
        eq("status", InvoiceStatus.FINALIZED),
        eq("payment_status", PaymentStatus.PENDING),
        eq("ready_for_payment_processing", True),
    ):
        if not invoice.skip_automatic_payment:
            order_payment(work, PayableType.INVOICE, invoice.id)


def _default_cleared(work: Work, connection: PaymentConnection, cleared: DefaultMethodCleared) -> str | None:
    customer = _customer_at(work, connection, cleared.provider_customer_id)
    if customer is None:
        return NOTHING
    clear_default(work, customer.id)
    return None


def _method_removed(work: Work, connection: PaymentConnection, removed: MethodRemoved) -> str | None:
    act = stop_method if removed.stays_listed else forget_method
    return None if act(work, connection.id, removed.provider_method_id) else NOTHING


def _account_ready(work: Work, connection: PaymentConnection, ready: AccountReady) -> str | None:
    customer = work.tx.first(
        Customer, eq("external_id", ready.external_customer_id), eq("payment_connection_id", connection.id)
    )
    if customer is None:
        return NOTHING
    is_new = customer.provider_customer_id != ready.provider_customer_id
    customer = replace(customer, provider_customer_id=ready.provider_customer_id, updated_at=work.now)
    work.tx.replace(customer)
    if ready.method is not None:
        keep_method(work, customer, connection, ready.method)
    if is_new:
        tell_created(work, customer)
    return None


def _account_refused(work: Work, connection: PaymentConnection, refused: AccountRefused) -> str | None:
    customer = work.tx.first(
        Customer, eq("external_id", refused.external_customer_id), eq("payment_connection_id", connection.id)
    )
    if customer is None:
        return NOTHING
    tell_error(work, customer, connection, refused.message, refused.error_code)
    return None


_APPLY: Mapping[type, Callable[[Work, PaymentConnection, Any], str | None]] = {
    PaymentMoved: _payment_moved,
    RefundMoved: _refund_moved,
    DisputeLost: _dispute_lost,
    DisputeWon: _dispute_won,
    FeeTold: _fee_told,
    MethodAdded: _method_added,
    DefaultMethodCleared: _default_cleared,
    MethodRemoved: _method_removed,
    AccountReady: _account_ready,
    AccountRefused: _account_refused,
}
