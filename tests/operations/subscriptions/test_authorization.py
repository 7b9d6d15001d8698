"""Subscriptions for which Stripe has to authorize an amount first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.json_asserts import for_programs
from tests.payment_provider import Killed
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Fault, PaymentServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

from usagebill.core.authorizations import AuthorizationRefused, Authorize, StripeRequired
from usagebill.core.errors import Invalid
from usagebill.core.subscriptions import Subscription

pytestmark = pytest.mark.now("2024-03-05T09:00:00Z")

TEN_EUROS = {"amount_cents": 1000, "amount_currency": "EUR"}


@pytest.fixture
def stripe(box: Scenario) -> Iterator[StripeServer]:
    """A Stripe account that knows acme, with a card."""
    with StripeServer(now=lambda: box.now) as server:
        server.knows("cus_1", "pm_1")
        link(box, server)
        box.plan()
        yield server


def link(box: Scenario, server: PaymentServer, **fields: Any) -> str:
    path = box.connect_payment_provider(server.kind, code="main", url=server.url, **server.credentials)
    account = {"payment_provider": server.kind, "payment_provider_code": "main", "provider_customer_id": "cus_1"}
    box.customer(billing_configuration={**account, **fields})
    box.run_due()
    return path


def ask(box: Scenario, authorization: Any = TEN_EUROS, request_id: str = "r-1", **fields: Any) -> tuple[int, Any]:
    """The status and body of the answer to a request for a subscription."""
    wanted = {"external_customer_id": "acme", "plan_code": "basic", "external_id": "sub", **fields}
    body = {"subscription": wanted, "authorization": authorization}
    return box.request("POST", "/api/v1/subscriptions", json=body, headers={"x-request-id": request_id})


def intents(server: StripeServer) -> list[str]:
    return [intent["status"] for intent in server.intents.values()]


def subscriptions(box: Scenario) -> list[Any]:
    listed: list[Any] = box.get("/subscriptions?status[]=active&status[]=pending")["subscriptions"]
    return listed


def test_an_amount_is_authorized_and_let_go_of_before_the_subscription_is_there(
    box: Scenario, stripe: StripeServer
) -> None:
    status, made = ask(box)
    assert status == 200, made
    assert made["subscription"]["status"] == "active"
    held = made["authorization"]
    assert held == {
        "payment_provider_code": "main",
        "provider_payment_id": next(iter(stripe.intents)),
        "status": "requires_capture",
        "amount_cents": 1000,
        "amount_currency": "EUR",
    }
    call = next(call for call in stripe.calls if call.line == "POST /v1/payment_intents")
    customer = box.get("/customers/acme")["customer"]
    assert call.headers["idempotency-key"] == f"auth-{customer['svc_id']}-r-1"
    sent = {name: value for name, value in call.fields.items() if name not in ("metadata", "return_url")}
    assert sent == {
        "amount": "1000",
        "currency": "eur",
        "customer": "cus_1",
        "payment_method": "pm_1",
        "capture_method": "manual",
        "confirm": "true",
        "automatic_payment_methods": {"enabled": "true", "allow_redirects": "never"},
        "description": "Pre-authorization for subscription",
    }
    assert intents(stripe) == ["canceled"]
    assert stripe.charged() == {}


def test_what_stripe_says_of_the_end_of_the_hold_concerns_no_payment(box: Scenario, stripe: StripeServer) -> None:
    ask(box)
    connection = box.billing.payment_connections.get("main")
    notice = stripe.payment_event(next(iter(stripe.intents)), "canceled")
    path = f"/webhooks/stripe/{connection.organization_id}?code=main"
    assert box.receive(path, notice.body, dict(notice.headers)) == 200
    assert box.get("/payments")["payments"] == []
    assert len(subscriptions(box)) == 1


def test_a_refusal_is_passed_on_and_there_is_no_subscription(box: Scenario, stripe: StripeServer) -> None:
    stripe.outcomes.append("declined")
    status, refused = ask(box)
    assert status == 422
    details = refused.pop("error_details")
    assert for_programs(refused) == {
        "status": 422,
        "error": "Unprocessable Entity",
        "code": "provider_error",
        "provider": {"code": "main"},
    }
    assert details.pop("http_body")
    assert details.pop("request_id").startswith("req_")
    assert details == {"code": "card_declined", "message": "Your card was declined.", "http_status": 402}
    assert subscriptions(box) == []
    # Another attempt is another request.
    assert ask(box, request_id="r-2")[0] == 200


def test_a_card_that_its_owner_has_to_confirm_is_not_authorized(box: Scenario, stripe: StripeServer) -> None:
    stripe.outcomes.append("needs_action")
    status, refused = ask(box)
    assert (status, refused["code"]) == (422, "provider_error")
    assert refused["error_details"]["code"] == "authentication_required"
    assert subscriptions(box) == []
    assert intents(stripe) == ["requires_action"]
    box.travel_to("2024-03-05T09:11:00Z")
    assert intents(stripe) == ["canceled"]


@pytest.mark.parametrize("faults", [(Fault.LOST, Fault.LOST), (Fault.CUT,)])
def test_a_hold_whose_answer_was_lost_is_found_and_let_go_of(
    box: Scenario, stripe: StripeServer, faults: tuple[Fault, ...]
) -> None:
    stripe.befall(*faults, only="POST /v1/payment_intents")
    status, refused = ask(box)
    assert (status, refused["code"]) == (422, "provider_error")
    assert set(refused["error_details"]) == {"code", "message", "request_id", "http_status", "http_body"}
    assert subscriptions(box) == []
    box.travel_to("2024-03-05T09:11:00Z")
    assert set(intents(stripe)) <= {"canceled"}


class Dying:
    """Payment providers whose answer about an authorization nobody lives to note."""

    def __init__(self, providers: Any) -> None:
        self._providers = providers

    def ask(self, connection: Any, request: Any) -> Any:
        answer = self._providers.ask(connection, request)
        if isinstance(request, Authorize):
            raise Killed
        return answer


def test_a_hold_is_let_go_of_though_the_process_dies_with_the_answer(box: Scenario, stripe: StripeServer) -> None:
    alive = box.billing._system.payment_providers
    box.billing._system.payment_providers = Dying(alive)  # type: ignore[assignment]
    with pytest.raises(Killed):
        ask(box)
    box.billing._system.payment_providers = alive
    assert intents(stripe) == ["requires_capture"]
    assert subscriptions(box) == []
    box.travel_to("2024-03-05T09:11:00Z")
    assert intents(stripe) == ["canceled"]


def test_a_hold_that_stripe_does_not_let_go_of_at_once_is_tried_again(box: Scenario, stripe: StripeServer) -> None:
    stripe.befall(Fault.BUSY, only="POST /v1/payment_intents/")
    assert ask(box)[0] == 200
    assert intents(stripe) == ["requires_capture"]
    box.travel_to("2024-03-05T09:00:30Z")
    assert intents(stripe) == ["canceled"]


def test_the_same_request_sent_twice_holds_once(box: Scenario, stripe: StripeServer) -> None:
    first, second = ask(box), ask(box)
    assert first[0] == second[0] == 200
    assert first[1]["authorization"] == second[1]["authorization"]
    assert len(stripe.intents) == 1
    assert len(subscriptions(box)) == 1


def test_the_method_of_the_subscription_comes_before_the_default(box: Scenario, stripe: StripeServer) -> None:
    link_path = f"/webhooks/stripe/{box.billing.organization.id}?code=main"
    notice = stripe.card_added("cus_1", "pm_2")
    assert box.receive(link_path, notice.body, dict(notice.headers)) == 200
    methods = box.get("/customers/acme/payment_methods")["payment_methods"]
    first = next(method for method in methods if method["provider_method_id"] == "pm_1")
    choice = {"payment_method_type": "provider", "payment_method_id": first["svc_id"]}
    assert ask(box, payment_method=choice)[0] == 200
    assert [intent["payment_method"] for intent in stripe.intents.values()] == ["pm_1"]


def test_whoever_has_no_card_at_stripe_gets_no_authorization(box: Scenario) -> None:
    with StripeServer(now=lambda: box.now) as server:
        server.knows("cus_1")
        link(box, server)
        box.plan()
        status, refused = ask(box)
        assert (status, refused["code"]) == (422, "validation_errors")
        assert refused["error_details"] == {"payment_method_id": ["customer_has_no_payment_method"]}
        assert subscriptions(box) == []
        # A card that Stripe has and we do not know yet will do.
        server.methods["pm_9"] = {"customer": "cus_1", "created": 1_700_000_000}
        assert ask(box, request_id="r-2")[0] == 200


def test_nobody_but_stripe_authorizes(box: Scenario) -> None:
    box.plan()
    box.customer()
    status, refused = ask(box)
    assert status == 422
    assert refused == {
        "status": 422,
        "error": "Unprocessable Entity",
        "code": "stripe_required",
        "message": "An amount can be authorized for customers of Stripe only",
        "error_details": {},
    }
    with GoCardlessServer(now=lambda: box.now) as server:
        link(box, server)
        assert ask(box)[1]["code"] == "stripe_required"
    # A customer that does not exist yet is not made either.
    assert ask(box, external_customer_id="new")[1]["code"] == "stripe_required"
    box.get("/customers/new", status=404)
    assert ask(box, authorization=None)[0] == 200


@pytest.mark.parametrize(
    ("sent", "field", "code"),
    [
        ({"amount_currency": "EUR"}, "authorization.amount_cents", "value_is_mandatory"),
        ({"amount_cents": 0, "amount_currency": "EUR"}, "authorization.amount_cents", "value_is_out_of_range"),
        ({"amount_cents": -1, "amount_currency": "EUR"}, "authorization.amount_cents", "value_is_out_of_range"),
        ({"amount_cents": 1000}, "authorization.amount_currency", "value_is_mandatory"),
        ({"amount_cents": 1000, "amount_currency": "XXX"}, "authorization.amount_currency", "value_is_invalid"),
    ],
)
def test_an_amount_that_is_none_is_refused(
    box: Scenario, stripe: StripeServer, sent: Any, field: str, code: str
) -> None:
    status, refused = ask(box, authorization=sent)
    assert (status, refused["error_details"]) == (422, {field: [code]})
    assert not stripe.intents


def test_stripe_is_not_asked_for_a_subscription_that_cannot_be_made(box: Scenario, stripe: StripeServer) -> None:
    assert ask(box, billing_time="never")[0] == 422
    assert ask(box, plan_code="unknown")[0] == 404
    assert not stripe.intents


def test_the_library_authorizes_too(box: Scenario, stripe: StripeServer) -> None:
    create = box.billing.subscriptions.create
    fields: dict[str, Any] = {"external_customer_id": "acme", "plan_code": "basic", "authorization": TEN_EUROS}
    made = create(external_id="sub", **fields)
    assert isinstance(made, Subscription)
    assert intents(stripe) == ["canceled"]
    stripe.outcomes.append("declined")
    with pytest.raises(AuthorizationRefused) as refused:
        create(external_id="other", **fields)
    assert (refused.value.provider, refused.value.details["code"]) == ("main", "card_declined")
    box.customer("globex")
    with pytest.raises(StripeRequired):
        create(external_id="third", **{**fields, "external_customer_id": "globex"})
    with pytest.raises(Invalid):
        create(external_id="fourth", **{**fields, "authorization": {"amount_cents": 5}})
