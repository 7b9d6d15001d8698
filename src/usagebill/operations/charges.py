"""Charges of invoices and payment requests at payment providers.

A charge is prepared in one transaction, sent while none is open, and its response processed in another. The request is
stored before it is sent: after a crash, it is sent again with the same idempotency key, or looked up if less is due by
then, until its outcome is known, and nothing else is charged for the same debt before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from usagebill.core.charge_attempts import ChargeStep, answered, charge_step, is_news, needs_no_method, refused
from usagebill.core.collection import (
    AUTHENTICATION_REQUIRED,
    MOST_QUICK_ATTEMPTS,
    Collectable,
    charge_key,
    consequence,
    given_up,
    retry_delay,
)
from usagebill.core.customers import Customer
from usagebill.core.invoices.payment_states import PaymentEvent, charge_event
from usagebill.core.jobs import Job
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import CollectPayment
from usagebill.core.payments import LIVE, Payment, PaymentMethod
from usagebill.core.provider_metadata import charge_metadata
from usagebill.core.provider_requests import TEMPORARY_FAILURES, Charge, Charged, FailureKind, ProviderFailure
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.operations.payables import PAYABLES, find_payable, log_unknown, move, tell_failure, watch
from usagebill.operations.payment_methods import forget_method
from usagebill.operations.payment_orders import order_look_up, order_look_up_of_lost
from usagebill.operations.payment_status import end_page, is_being_ended
from usagebill.operations.provider_notices import look_again
from usagebill.process.logs import Log
from usagebill.queries.customers import find_customer
from usagebill.queries.payment_providers import (
    find_connection,
    live_payment,
    method_chosen,
    payer_of,
    payment_connection_of,
)
from usagebill.queries.payment_requests import charge_beside, ended_pages, is_outcome_unknown, open_pages
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.payments import payment_view

_log = Log("usagebill.payments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A charge on its way."""

    connection: PaymentConnection
    payment_id: str
    charge: Charge


def prepare(work: Work, job: Job, task: CollectPayment) -> Sent | None:
    """The charge to send; None if there is nothing to charge now, and the job is done."""
    prepared = ChargeStep.WAIT if _is_charged_beside(work, task) else _prepared(work, task)
    if isinstance(prepared, Sent):
        return prepared
    work.tx.jobs.complete(job)
    if prepared is ChargeStep.WAIT:
        attempts = task.attempts + 1
        work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))
    return None


def _is_charged_beside(reader: Reader, task: CollectPayment) -> bool:
    """Whether a charge under way may pay the same debt: that of a payment request, or of one of its invoices."""
    collectable = find_payable(reader, task.payable_type, task.payable_id)
    if collectable is None or collectable.payment_status == PaymentStatus.SUCCEEDED:
        return False
    live = _live(reader, collectable)
    if live is not None and live.unanswered:
        return False
    return charge_beside(reader, task.payable_type, task.payable_id) is not None


def _live(reader: Reader, collectable: Collectable) -> Payment | None:
    return live_payment(reader, collectable.column, collectable.id)


def _prepared(work: Work, task: CollectPayment) -> Sent | ChargeStep | None:
    """The charge; `WAIT` if the debt could be paid on a page until now, None if there is nothing to charge."""
    collectable = find_payable(work, task.payable_type, task.payable_id)
    if collectable is None:
        return None
    live = _live(work, collectable)
    step = charge_step(collectable, live)
    if live is not None and live.sent is not None and step is ChargeStep.SEND_AGAIN:
        connection = find_connection(work, live.connection_id)
        charge = replace(live.sent, since=live.sent_at, at=work.now)
        return None if connection is None else Sent(connection=connection, payment_id=live.id, charge=charge)
    if live is not None and step is ChargeStep.LOOK_UP:
        order_look_up_of_lost(work, live)
        return None
    if step is ChargeStep.NOTHING or is_outcome_unknown(work, collectable):
        return None
    customer = find_customer(work, collectable.customer_id)
    connection = None if customer is None else payment_connection_of(work, customer)
    if customer is None or connection is None or not connection.traits.charges or not customer.provider_customer_id:
        return None
    choice = collectable.choice
    if task.method_kind is not None:
        choice = PaymentMethodChoice(kind=task.method_kind, id=task.method_id)
    method = method_chosen(work, customer.id, choice)
    if method is None and not needs_no_method(customer, collectable, choice):
        return None
    if step is ChargeStep.SETTLE:
        move(work, collectable, PaymentEvent.NOTHING_DUE)
    if step is not ChargeStep.CHARGE:
        return None
    if pages := open_pages(work, task.payable_type, task.payable_id):
        # Nobody may pay there as well: they are ended first, and what comes of it has to be known.
        for page in pages:
            end_page(work, page)
        return ChargeStep.WAIT
    if any(is_being_ended(work, page) for page in ended_pages(work, task.payable_type, task.payable_id)):
        return ChargeStep.WAIT
    if live is not None:
        # No money was taken, and its key is used up.
        work.tx.replace(replace(live, payment_status=ChargeStatus.FAILED, updated_at=work.now))
    return _begun(work, collectable, customer, connection, method)


def _begun(
    work: Work,
    collectable: Collectable,
    customer: Customer,
    connection: PaymentConnection,
    method: PaymentMethod | None,
) -> Sent:
    payment_id = work.new_id()
    payer = payer_of(work, customer, connection, collectable.currency)
    charge = Charge(
        payment_id=payment_id,
        key=charge_key(payment_id),
        amount_cents=collectable.due_cents,
        currency=collectable.currency,
        payer=payer,
        payable=collectable.payable,
        metadata=charge_metadata(connection.kind, collectable.payable, payer, payment_id),
        provider_method_id=None if method is None else method.provider_method_id,
        on_session=_was_unconfirmed(work, collectable),
    )
    payment = Payment(
        id=payment_id,
        organization_id=work.organization.id,
        customer_id=customer.id,
        amount_cents=charge.amount_cents,
        amount_currency=charge.currency,
        created_at=work.now,
        updated_at=work.now,
        status="pending",
        payment_status=ChargeStatus.PENDING,
        connection_id=connection.id,
        payment_provider_type=connection.kind,
        payment_provider_code=connection.code,
        provider_customer_id=customer.provider_customer_id,
        payment_method_id=None if method is None else method.id,
        method=None if method is None else method.details,
        sent=charge,
        sent_at=work.now,
        unanswered=True,
        is_shown=collectable.is_shown,
        invoice_id=collectable.invoice_id,
        payment_request_id=collectable.payment_request_id,
    )
    PAYABLES[collectable.type].attempt(work, collectable.id)
    work.tx.insert(payment)
    return Sent(connection=connection, payment_id=payment_id, charge=charge)


def _was_unconfirmed(reader: Reader, collectable: Collectable) -> bool:
    """Whether an earlier charge was refused because the customer had to confirm it."""
    unconfirmed = eq("error_code", AUTHENTICATION_REQUIRED)
    return reader.tx.first(Payment, eq(collectable.column, collectable.id), unconfirmed) is not None


# Answers


def conclude(work: Work, job: Job, task: CollectPayment, sent: Sent, answer: Charged | ProviderFailure) -> None:
    """Act on a response. Without one, the same request is retried later.

    If another worker has sent the same request as well, and had its answer first, a failure says nothing new.
    """
    work.tx.jobs.complete(job)
    payment = work.tx.get(Payment, sent.payment_id)
    collectable = find_payable(work, task.payable_type, task.payable_id)
    if payment is None or collectable is None:
        raise LookupError(f"payment {sent.payment_id} has lost what it pays")
    for provider_method_id in answer.gone_method_ids:
        forget_method(work, sent.connection.id, provider_method_id)
    if isinstance(answer, Charged):
        _answered(work, payment, collectable, answer)
        if sent.charge.since is not None:
            look_again(work, payment.connection_id)
        return
    if not payment.unanswered:
        return
    failure = given_up(answer, payment.sent_at or payment.created_at, work.now)
    if failure.kind in TEMPORARY_FAILURES:
        _unanswered(work, task, payment, collectable, failure)
    else:
        _refused(work, task, sent, payment, collectable, failure)


def _answered(work: Work, payment: Payment, collectable: Collectable, answer: Charged) -> None:
    says_more = is_news(payment, answer)
    payment = answered(payment, answer, work.now)
    work.tx.replace(payment)
    if not says_more:
        return
    PAYABLES[collectable.type].note(work, collectable.id, None)
    move(work, collectable, charge_event(answer.payment_status), payment)
    if payment.payment_status in LIVE:
        watch(work, payment)
    if answer.next_action:
        work.emit("payment.requires_action", lambda: payment_view(work, payment), payment.id)
    if answer.payment_status == ChargeStatus.FAILED:
        message = answer.error_message or answer.status
        tell_failure(
            work,
            collectable,
            ProviderFailure(kind=FailureKind.DECLINED, code=answer.error_code or answer.status, message=message),
        )


def _unanswered(
    work: Work, task: CollectPayment, payment: Payment, collectable: Collectable, failure: ProviderFailure
) -> None:
    attempts = task.attempts + 1
    work.tx.replace(replace(payment, attempts=payment.attempts + 1, updated_at=work.now))
    work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))
    if attempts == MOST_QUICK_ATTEMPTS:
        PAYABLES[collectable.type].note(work, collectable.id, failure)
        _log.warning(
            "provider_unreachable",
            payment=payment.id,
            connection=payment.payment_provider_code,
            reason=failure.message,
            attempts=attempts,
        )


def _refused(
    work: Work,
    task: CollectPayment,
    sent: Sent,
    payment: Payment,
    collectable: Collectable,
    failure: ProviderFailure,
) -> None:
    if payment.payment_status not in LIVE:
        return
    asks_customer = (sent.connection.supports_3ds or collectable.is_gated) and not sent.charge.on_session
    follows = consequence(failure.kind, asks_customer=asks_customer)
    payment = refused(payment, failure, follows, work.now)
    work.tx.replace(payment)
    log_unknown(payment, failure)
    PAYABLES[collectable.type].note(work, collectable.id, failure if follows.notes else None)
    if follows.tells:
        tell_failure(work, collectable, failure)
    move(work, collectable, follows.event, payment)
    if payment.unanswered:
        order_look_up(work, payment)
    if follows.event is PaymentEvent.CHARGE_AGAIN:
        work.schedule(replace(task, attempts=0), work.now + retry_delay(1))
