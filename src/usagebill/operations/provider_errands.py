"""Errands: requests to payment providers other than charges, and the processing of responses.

As with charges, a request is prepared in one transaction, sent while none is open, and its response processed in
another. Without a response it is retried with the same idempotency key, a few times soon and then once an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from usagebill.core.authorizations import HOLD_LASTS, ReleaseHold
from usagebill.core.collection import MOST_QUICK_ATTEMPTS, retry_delay
from usagebill.core.customers import Customer
from usagebill.core.jobs import Job
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import Payment, PaymentPage
from usagebill.core.provider_metadata import charge_metadata
from usagebill.core.provider_requests import (
    TEMPORARY_FAILURES,
    Charged,
    Connect,
    Connected,
    CreateCustomer,
    CustomerCreated,
    Disconnect,
    ExpirePage,
    ListMethods,
    Methods,
    PageUrl,
    ProviderErrand,
    ProviderFailure,
    Request,
    SetupUrl,
    UpdateCharge,
    UpdateCustomer,
)
from usagebill.operations import look_ups, refunds
from usagebill.operations.payables import cancellation, find_payable, follow_cancellation
from usagebill.operations.payment_methods import keep_method
from usagebill.operations.payment_orders import order_page_look_up
from usagebill.operations.provider_customers import ask_setup, tell_created, tell_error
from usagebill.process.logs import Log
from usagebill.queries.customers import find_customer
from usagebill.queries.payment_providers import (
    find_connection,
    methods_of,
    notice_url,
    payer_of,
    payment_connection_of,
)
from usagebill.runtime.work import Reader, Work
from usagebill.views.payment_providers import checkout_url_view, payment_provider_error

_log = Log("usagebill.payments")
_REGISTER = "payment_provider.register_webhook"

Prepared = tuple[PaymentConnection, Request[Any]]


@dataclass(frozen=True, slots=True)
class Errand:
    """The handlers of a type of task: its request, the response, and a final failure."""

    prepare: Callable[[Work, AskPaymentProvider], Prepared | None]
    conclude: Callable[[Work, AskPaymentProvider, PaymentConnection, Any], None]
    fail: Callable[[Work, AskPaymentProvider, PaymentConnection, ProviderFailure], None]


def prepare(work: Work, job: Job, task: AskPaymentProvider) -> Prepared | None:
    """The request to the provider; None if there is nothing to ask, and the job is done."""
    prepared = ERRANDS[task.errand].prepare(work, task)
    if prepared is None:
        work.tx.jobs.complete(job)
    return prepared


def conclude(
    work: Work, job: Job, task: AskPaymentProvider, connection: PaymentConnection, answer: object | ProviderFailure
) -> None:
    """Act on a response; without one, retry later."""
    work.tx.jobs.complete(job)
    errand = ERRANDS[task.errand]
    if isinstance(answer, ProviderFailure) and task.errand is ProviderErrand.REFUND:
        answer = refunds.given_up(work, task, answer)
    if not isinstance(answer, ProviderFailure):
        errand.conclude(work, task, connection, answer)
    elif answer.kind in TEMPORARY_FAILURES:
        attempts = task.attempts + 1
        if attempts == MOST_QUICK_ATTEMPTS:
            _say(task, connection, answer)
        work.schedule(replace(task, attempts=attempts), work.now + retry_delay(attempts))
    else:
        _say(task, connection, answer)
        errand.fail(work, task, connection, answer)


def _say(task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    _log.warning(
        "provider_failed",
        errand=task.errand.value,
        subject=task.subject_id,
        connection=connection.code,
        reason=failure.message,
        code=failure.code,
        attempts=task.attempts + 1,
    )


def _ignore(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: object) -> None:
    """Log a failure that has no other effect."""


# Connections


def _prepare_connect(work: Work, task: AskPaymentProvider) -> Prepared | None:
    connection = work.tx.get(PaymentConnection, task.subject_id)
    if connection is None or connection.accepts_notices:
        return None
    return connection, Connect(notice_url=notice_url(work, connection))


def _connected(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: Connected) -> None:
    now = work.tx.get(PaymentConnection, connection.id, deleted=True) or connection
    work.tx.replace(
        replace(
            now,
            credentials={**answer.credentials, **now.credentials},
            webhook_id=answer.webhook_id or now.webhook_id,
            connect_error=None,
            updated_at=work.now,
        )
    )


def _not_connected(
    work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure
) -> None:
    now = work.tx.get(PaymentConnection, connection.id, deleted=True) or connection
    work.tx.replace(replace(now, connect_error=failure.message, updated_at=work.now))
    view = partial(payment_provider_error, connection, _REGISTER, failure.message, failure.code)
    work.emit("payment_provider.error", view, connection.id)


def _prepare_disconnect(work: Work, task: AskPaymentProvider) -> Prepared | None:
    connection = find_connection(work, task.subject_id)
    return None if connection is None else (connection, Disconnect())


# Customers


def _linked(reader: Reader, task: AskPaymentProvider) -> tuple[Customer, PaymentConnection] | None:
    customer = reader.tx.get(Customer, task.subject_id)
    connection = None if customer is None else payment_connection_of(reader, customer)
    return None if customer is None or connection is None else (customer, connection)


def _prepare_create(work: Work, task: AskPaymentProvider) -> Prepared | None:
    linked = _linked(work, task)
    if linked is None or linked[0].provider_customer_id:
        return None
    customer, connection = linked
    payer = payer_of(work, customer, connection)
    return connection, CreateCustomer(payer=payer, key=task.request_key or customer.id)


def _created(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: CustomerCreated) -> None:
    linked = _linked(work, task)
    if linked is None or linked[1].id != connection.id:
        return
    customer = replace(linked[0], provider_customer_id=answer.provider_customer_id, updated_at=work.now)
    work.tx.replace(customer)
    tell_created(work, customer)
    ask_setup(work, customer, connection)


def _not_linked(work: Work, task: AskPaymentProvider, connection: PaymentConnection, failure: ProviderFailure) -> None:
    customer = find_customer(work, task.subject_id)
    if customer is not None:
        tell_error(work, customer, connection, failure.message, failure.code)


def _prepare_update(work: Work, task: AskPaymentProvider) -> Prepared | None:
    linked = _linked(work, task)
    if linked is None or not linked[0].provider_customer_id:
        return None
    return linked[1], UpdateCustomer(payer=payer_of(work, *linked))


def _prepare_setup(work: Work, task: AskPaymentProvider) -> Prepared | None:
    linked = _linked(work, task)
    if linked is None:
        return None
    customer, connection = linked
    payer = payer_of(work, customer, connection)
    return connection, SetupUrl(payer=payer, key=task.request_key or customer.id, at=work.now)


def _set_up(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: PageUrl) -> None:
    customer = find_customer(work, task.subject_id)
    if customer is not None:
        view = partial(checkout_url_view, customer, connection, answer.url)
        work.emit("customer.checkout_url_generated", view, customer.id)


def _prepare_methods(work: Work, task: AskPaymentProvider) -> Prepared | None:
    linked = _linked(work, task)
    if linked is None or not linked[0].provider_customer_id or methods_of(work, linked[0].id):
        return None
    return linked[1], ListMethods(payer=payer_of(work, *linked))


def _methods(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: Methods) -> None:
    linked = _linked(work, task)
    if linked is not None and linked[1].id == connection.id and answer.methods and not methods_of(work, linked[0].id):
        keep_method(work, linked[0], connection, answer.methods[0])


# Payments


def _prepare_cancel(work: Work, task: AskPaymentProvider) -> Prepared | None:
    payment = work.tx.get(Payment, task.subject_id)
    return None if payment is None else cancellation(work, payment)


def _canceled(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: Charged | None) -> None:
    payment = work.tx.get(Payment, task.subject_id)
    if payment is not None and answer is not None:
        follow_cancellation(work, payment, answer)


def _prepare_update_charge(work: Work, task: AskPaymentProvider) -> Prepared | None:
    payment = work.tx.get(Payment, task.subject_id)
    connection = None if payment is None else find_connection(work, payment.connection_id)
    collectable = None if payment is None else find_payable(work, payment.payable_type, payment.payable_id)
    customer = None if payment is None else find_customer(work, payment.customer_id)
    if payment is None or connection is None or collectable is None or customer is None:
        return None
    number = collectable.payable.number
    if payment.provider_payment_id is None or number is None:
        return None
    payer = payer_of(work, customer, connection, payment.amount_currency)
    metadata = charge_metadata(connection.kind, collectable.payable, payer, payment.id)
    return connection, UpdateCharge(
        provider_payment_id=payment.provider_payment_id,
        reference=collectable.payable.reference,
        metadata=metadata | {"svc_invoice_number": number},
    )


def _prepare_release(work: Work, task: AskPaymentProvider) -> Prepared | None:
    connection = find_connection(work, task.connection_id)
    if connection is None or task.provider_customer_id is None or task.since is None:
        return None
    if work.now - task.since > HOLD_LASTS:
        return None
    return connection, ReleaseHold(
        key=task.subject_id,
        provider_customer_id=task.provider_customer_id,
        since=task.since,
        provider_payment_id=task.provider_payment_id,
    )


# Pages


def _prepare_expire(work: Work, task: AskPaymentProvider) -> Prepared | None:
    page = work.tx.get(PaymentPage, task.subject_id)
    connection = None if page is None else find_connection(work, page.connection_id)
    if page is None or connection is None or page.provider_page_id is None or page.expires_at <= work.now:
        return None
    return connection, ExpirePage(provider_page_id=page.provider_page_id)


def _page_ended(work: Work, task: AskPaymentProvider, connection: PaymentConnection, answer: object) -> None:
    """It may have been paid just before, and its notice be under way."""
    page = work.tx.get(PaymentPage, task.subject_id)
    if page is not None:
        order_page_look_up(work, page, at_once=True)


ERRANDS: Mapping[ProviderErrand, Errand] = {
    ProviderErrand.CONNECT: Errand(_prepare_connect, _connected, _not_connected),
    ProviderErrand.DISCONNECT: Errand(_prepare_disconnect, _ignore, _ignore),
    ProviderErrand.CREATE_CUSTOMER: Errand(_prepare_create, _created, _not_linked),
    ProviderErrand.UPDATE_CUSTOMER: Errand(_prepare_update, _ignore, _not_linked),
    ProviderErrand.SETUP_URL: Errand(_prepare_setup, _set_up, _not_linked),
    ProviderErrand.FETCH_METHODS: Errand(_prepare_methods, _methods, _ignore),
    ProviderErrand.CANCEL: Errand(_prepare_cancel, _canceled, _ignore),
    ProviderErrand.UPDATE_CHARGE: Errand(_prepare_update_charge, _ignore, _ignore),
    ProviderErrand.REFUND: Errand(refunds.prepare, refunds.conclude, refunds.fail),
    ProviderErrand.LOOK_UP_CHARGE: Errand(look_ups.prepare_charge, look_ups.conclude_charge, look_ups.fail_charge),
    ProviderErrand.LOOK_UP_PAGE: Errand(look_ups.prepare_page, look_ups.conclude_page, look_ups.fail_page),
    ProviderErrand.LOOK_UP_REFUND: Errand(look_ups.prepare_refund, look_ups.conclude_refund, look_ups.fail_refund),
    ProviderErrand.EXPIRE_PAGE: Errand(_prepare_expire, _page_ended, _page_ended),
    ProviderErrand.RELEASE_HOLD: Errand(_prepare_release, _ignore, _ignore),
}
