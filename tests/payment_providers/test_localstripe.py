"""Our adapter against a stand-in for Stripe that we did not write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.payment_providers.provider_requests import charge, connection_to, failure_of, payer, providers, refund
from tests.payment_servers.localstripe import LocalStripe
from tests.receiver import Receiver
from usagebill.core.provider_requests import (
    Cancel,
    CreateCustomer,
    FailureKind,
    ListMethods,
    Outcome,
    PaymentMoved,
    UpdateCustomer,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus


@pytest.fixture(scope="module")
def stripe() -> Iterator[LocalStripe]:
    with LocalStripe() as server:
        yield server


def test_a_customer_with_a_card_is_charged_and_refunded(stripe: LocalStripe) -> None:
    main = connection_to(stripe)
    with providers() as http, Receiver() as receiver:
        stripe.reports_to(receiver.url)
        made = http.ask(main, CreateCustomer(payer=payer(), key="c-1")).provider_customer_id
        who = payer(provider_customer_id=made)
        card = stripe.has_card(made, "4242424242424242")
        http.ask(main, UpdateCustomer(payer=payer(provider_customer_id=made, name="Acme AG")))
        assert stripe.directly("GET", f"/v1/customers/{made}", {})[1]["name"] == "Acme AG"
        (method,) = http.ask(main, ListMethods(payer=who)).methods
        assert (method.provider_method_id, method.last4, method.brand) == (card, "4242", "visa")

        charged = http.ask(main, charge("stripe", payer=who, provider_method_id=card))
        assert (charged.status, charged.payment_status) == ("succeeded", ChargeStatus.SUCCEEDED)
        assert http.ask(main, charge("stripe", payer=who, provider_method_id=card)) == charged
        _, intent = stripe.directly("GET", f"/v1/payment_intents/{charged.provider_payment_id}", {})
        assert (intent["amount"], intent["currency"], intent["customer"]) == (1050, "eur", made)
        assert intent["metadata"]["svc_payment_id"] == "p-1"

        refunded = http.ask(main, refund(charged.provider_payment_id))
        assert refunded.refund_status is PaymentStatus.SUCCEEDED

        moves: list[Outcome] = []
        while not any(isinstance(move, PaymentMoved) for move in moves):
            assert receiver.came.wait(30)
            receiver.came.clear()
            for delivery in receiver.received:
                signed = dict(part.split("=", 1) for part in delivery.headers["stripe-signature"].split(","))
                at = datetime.fromtimestamp(int(signed["t"]), UTC)
                (event,) = http.notices(main, delivery.headers, delivery.body, at)
                moves += http.outcomes(main, event, at)
        paid = next(move for move in moves if isinstance(move, PaymentMoved))
        assert (paid.provider_payment_id, paid.payment_id) == (charged.provider_payment_id, "p-1")
        assert (paid.amount_cents, paid.payment_status) == (1050, ChargeStatus.SUCCEEDED)


def test_cards_that_do_not_simply_pay(stripe: LocalStripe) -> None:
    main = connection_to(stripe)
    with providers() as http:
        made = http.ask(main, CreateCustomer(payer=payer(), key="c-2")).provider_customer_id
        who = payer(provider_customer_id=made)
        stripe.has_card(made, "4000000000000341")
        declined = failure_of(http, main, charge("stripe", payer=who, key="payment-p-2", payment_id="p-2"))
        assert (declined.kind, declined.code) == (FailureKind.DECLINED, "card_declined")

        stripe.has_card(made, "4000002500003155")
        request = charge("stripe", payer=who, key="payment-p-3", payment_id="p-3", on_session=True)
        waiting = http.ask(main, request)
        assert (waiting.status, waiting.payment_status) == ("requires_action", ChargeStatus.PROCESSING)
        assert waiting.next_action["type"] == "use_stripe_sdk"
        cancelled = http.ask(main, Cancel(provider_payment_id=waiting.provider_payment_id, key="cancel-p-3"))
        assert cancelled is not None
        assert cancelled.payment_status is ChargeStatus.FAILED

        gone = charge("stripe", payer=payer(provider_customer_id="cus_unknown"), key="k", payment_id="p-4")
        assert failure_of(http, main, gone).kind is FailureKind.REFUSED
