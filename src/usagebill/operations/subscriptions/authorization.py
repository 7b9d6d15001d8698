"""Authorization by Stripe before a subscription is created; the hold is always released again."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from usagebill.core.authorizations import (
    HELD,
    NO_METHOD,
    RELEASE_AFTER,
    AuthorizationRefused,
    Authorize,
    Authorized,
    StripeRequired,
    authorization_key,
    authorization_question,
)
from usagebill.core.currencies import CURRENCIES
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.limits import AUTHORIZED_AMOUNT
from usagebill.core.payment_methods import PaymentMethodChoice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.provider_requests import FailureKind, ProviderErrand, ProviderFailure
from usagebill.core.subscriptions import Subscription
from usagebill.operations.subscriptions.inputs import AuthorizationInput
from usagebill.queries.customers import customer_of
from usagebill.queries.payment_providers import default_method, method_chosen, payer_of, payment_connection_of
from usagebill.runtime.work import Reader, Work


class Amount(NamedTuple):
    """An amount to authorize: cents of a currency."""

    cents: int
    currency: str


def check_authorization(sent: AuthorizationInput) -> Amount:
    """The sent amount and currency. Raises `Invalid`."""
    problems: dict[str, object] = {}
    amount, currency = sent.amount_cents, sent.amount_currency
    if not isinstance(amount, int):
        problems["authorization.amount_cents"] = ["value_is_mandatory"]
    elif not AUTHORIZED_AMOUNT.holds(amount):
        problems["authorization.amount_cents"] = ["value_is_out_of_range"]
    if not currency:
        problems["authorization.amount_currency"] = ["value_is_mandatory"]
    elif currency.upper() not in CURRENCIES:
        problems["authorization.amount_currency"] = ["value_is_invalid"]
    if problems or not isinstance(amount, int) or not currency:
        raise Invalid(problems)
    return Amount(amount, currency.upper())


def authorize(work: Work, subscription: Subscription, sent: AuthorizationInput) -> None:
    """Have Stripe authorize the amount with the subscription's method, else the customer's.

    The hold is released at once, by a job that is stored before Stripe is asked, so that a crash leaves no hold behind.
    Raises `StripeRequired`, `Invalid` without a method, and `AuthorizationRefused`.
    """
    amount = check_authorization(sent)
    customer = customer_of(work, subscription)
    connection = payment_connection_of(work, customer)
    if connection is None or not connection.traits.authorizes:
        raise StripeRequired
    if customer.provider_customer_id is None:
        raise Invalid(payment_method_id=NO_METHOD)
    request = Authorize(
        key=authorization_key(customer.id, work.actor.request_id or work.new_id()),
        amount_cents=amount.cents,
        currency=amount.currency,
        payer=payer_of(work, customer, connection, amount.currency),
        metadata={"svc_customer_id": customer.id, "svc_organization_id": customer.organization_id},
        provider_method_id=_method_id(work, subscription, customer),
    )
    release = AskPaymentProvider(
        errand=ProviderErrand.RELEASE_HOLD,
        subject_id=request.key,
        connection_id=connection.id,
        provider_customer_id=customer.provider_customer_id,
        since=work.now,
    )
    outcome = work.asked(
        authorization_question(customer.id),
        connection,
        request,
        first=lambda earlier: earlier.schedule(release, earlier.now + RELEASE_AFTER),
    )
    assert isinstance(outcome.request, Authorize)
    if isinstance(outcome.answer, ProviderFailure):
        raise _refusal(connection, outcome.answer)
    assert isinstance(outcome.answer, Authorized)
    if outcome.answer.status not in HELD:
        raise _refusal(connection, _not_held(outcome.answer))
    held = replace(release, subject_id=outcome.request.key, provider_payment_id=outcome.answer.provider_payment_id)
    work.cancel(held)
    work.schedule(held, work.now)


def _method_id(reader: Reader, subscription: Subscription, customer: Customer) -> str | None:
    choice = PaymentMethodChoice(kind=subscription.payment_method_type, id=subscription.payment_method_id)
    method = method_chosen(reader, customer.id, choice) or default_method(reader, customer.id)
    return None if method is None else method.provider_method_id


def _not_held(answer: Authorized) -> ProviderFailure:
    needs_action = answer.status == "requires_action"
    code = "authentication_required" if needs_action else answer.status
    message = "The customer has to confirm it" if needs_action else f"The amount is not held: {answer.status}"
    return ProviderFailure(kind=FailureKind.DECLINED, code=code, message=message)


def _refusal(connection: PaymentConnection, failure: ProviderFailure) -> Invalid | AuthorizationRefused:
    if failure.code == NO_METHOD:
        return Invalid(payment_method_id=NO_METHOD)
    details = {"code": failure.code, "message": failure.message, "request_id": None, "http_status": None}
    return AuthorizationRefused(connection.code, {**details, "http_body": None, **failure.details})
