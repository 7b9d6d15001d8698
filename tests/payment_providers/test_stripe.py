"""Stripe over HTTP: our requests, and the translation of its answers and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.payment_providers.provider_requests import (
    NO_ANSWER,
    NOW,
    charge,
    checkout,
    connection_to,
    failure_of,
    payer,
    providers,
    refund,
    request,
)
from tests.payment_servers.server import Fault, Notice
from tests.payment_servers.stripe import StripeServer
from usagebill.core.authorizations import Authorize, ReleaseHold
from usagebill.core.customers import Address
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    Cancel,
    Charged,
    Connect,
    CreateCustomer,
    DefaultMethodCleared,
    Disconnect,
    DisputeLost,
    DisputeWon,
    Done,
    ExpirePage,
    FailureKind,
    ListCharges,
    ListMethods,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    Notice as ProviderNotice,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    ProviderFailed,
    RefundMoved,
    SetupUrl,
    Unhandled,
    UpdateCharge,
    UpdateCustomer,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders


def visa(id: str) -> MethodDetails:
    """A card as Stripe shows it."""
    details = {"type": "card", "last4": "4242", "brand": "visa"}
    return MethodDetails(provider_method_id=id, expiration_month=12, expiration_year=2034, **details)


@pytest.fixture
def stripe() -> Iterator[StripeServer]:
    with StripeServer() as server:
        server.knows("cus_acme", "pm_1", "pm_2")
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(stripe: StripeServer) -> PaymentConnection:
    return connection_to(stripe)


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


def sent(stripe: StripeServer, line: str) -> Any:
    """The fields of the last such request."""
    return stripe.asked(line)[-1].fields


# The connection


def test_the_address_of_notices_is_registered_and_its_secret_kept(http: HttpPaymentProviders) -> None:
    with StripeServer() as stripe:
        main = connection_to(stripe, credentials={"secret_key": stripe.credentials["secret_key"]})
        made = http.ask(main, Connect(notice_url="https://billing.example/webhooks/stripe/org-1?code=a%26b"))
        assert made.webhook_id == "we_1"
        assert made.credentials == {"webhook_secret": stripe.credentials["webhook_secret"]}
        assert "whsec" not in repr(made)
        registered = sent(stripe, "POST /v1/webhook_endpoints")
        assert registered["url"] == "https://billing.example/webhooks/stripe/org-1?code=a%26b"
        assert registered["api_version"] == "2025-04-30.basil"
        assert len(registered["enabled_events"]) == 13

        moved = replace(main, webhook_id="we_1")
        http.ask(moved, Connect(notice_url="https://billing.example/new"))
        assert stripe.webhook_endpoints["we_1"]["url"] == "https://billing.example/new"
        http.ask(moved, Disconnect())
        assert stripe.webhook_endpoints == {}
        assert http.ask(moved, Disconnect()) == Done()
        assert http.ask(moved, Connect(notice_url="https://billing.example/new")).webhook_id == "we_2"


def test_an_address_that_was_registered_by_hand_is_left_alone(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    assert http.ask(main, Connect(notice_url="https://billing.example")).webhook_id is None
    assert stripe.calls == []


def test_a_wrong_key_is_reported_without_the_key(http: HttpPaymentProviders, stripe: StripeServer) -> None:
    wrong = connection_to(stripe, credentials={"secret_key": "sk_live_wrong_key"})
    failure = failure_of(http, wrong, charge("stripe"))
    assert failure.kind is FailureKind.UNAUTHORIZED
    assert failure.details["http_status"] == 401
    assert "sk_live_wrong_key" not in f"{failure!r} {wrong!r}"


# Customers


def test_a_customer_is_made_with_its_name_and_addresses(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    made = http.ask(main, CreateCustomer(payer=payer(), key="c-1-1709640000"))
    call = stripe.asked("POST /v1/customers")[0]
    assert call.key == "c-1-1709640000"
    assert call.headers["authorization"] == "Bearer sk_test_0123456789"
    assert call.fields == {
        "address": {"city": "Berlin", "country": "DE", "line1": "Allee 1", "postal_code": "10115"},
        "email": "pay@acme.example",
        "name": "Acme & Söhne",
        "phone": "+4930123",
        "metadata": {"svc_customer_id": "c-1", "customer_id": "acme"},
    }
    again = http.ask(main, CreateCustomer(payer=payer(), key="c-1-1709640000"))
    assert again == made
    assert len(stripe.customers) == 2

    http.ask(main, UpdateCustomer(payer=payer(provider_customer_id=made.provider_customer_id, name="Acme")))
    fields = sent(stripe, f"POST /v1/customers/{made.provider_customer_id}")
    assert (fields["name"], "metadata" in fields) == ("Acme", False)


def test_after_a_conflict_of_keys_the_customer_of_that_address_is_taken(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    made = http.ask(main, CreateCustomer(payer=payer(), key="same"))
    renamed = CreateCustomer(payer=payer(name="Acme AG"), key="same")
    assert http.ask(main, renamed) == made
    stripe.customers["cus_other"] = dict(stripe.customers[made.provider_customer_id])
    assert failure_of(http, main, renamed).kind is FailureKind.CONFLICT


def test_a_refused_customer(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    failure = failure_of(http, main, CreateCustomer(payer=payer(email="nobody"), key="k"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "email_invalid")
    assert failure.message == "Invalid email address: nobody"


def test_a_page_for_a_payment_method(http: HttpPaymentProviders, stripe: StripeServer) -> None:
    main = connection_to(stripe, require_terms_of_service_consent=True)
    request = SetupUrl(payer=payer(method_types=("card", "sepa_debit", "crypto")), key="s-1", at=NOW)
    page = http.ask(main, request)
    assert page.url == f"https://checkout.stripe.test/{page.provider_page_id}"
    assert sent(stripe, "POST /v1/checkout/sessions") == {
        "mode": "setup",
        "customer": "cus_acme",
        "success_url": "https://shop.example/back",
        "payment_method_types": ["card", "sepa_debit"],
        "consent_collection": {"terms_of_service": "required"},
    }
    failure = failure_of(http, main, replace(request, payer=payer(method_types=("crypto",))))
    assert failure.code == "no_payment_methods_to_setup_available"


def test_methods_begin_with_the_default_then_the_newest(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.knows("cus_new", "pm_a", "pm_b", "pm_c")
    who = payer(provider_customer_id="cus_new")
    assert http.ask(main, ListMethods(payer=who)).methods[0] == visa("pm_a")
    stripe.customers["cus_new"]["default"] = None
    listed = http.ask(main, ListMethods(payer=who)).methods
    assert [method.provider_method_id for method in listed] == ["pm_c", "pm_b", "pm_a"]
    other = payer(provider_customer_id="cus_new", method_types=("sepa_debit",))
    assert http.ask(main, ListMethods(payer=other)).methods == ()


# Charges


def test_a_charge_is_sent_with_everything_stripe_needs(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    charged = http.ask(main, charge("stripe", provider_method_id="pm_2"))
    assert charged == Charged(
        provider_payment_id="pi_1",
        status="succeeded",
        payment_status=ChargeStatus.SUCCEEDED,
        method=visa("pm_2"),
    )
    call = stripe.asked("POST /v1/payment_intents")[0]
    assert (call.key, call.headers["stripe-version"]) == ("payment-p-1", "2025-04-30.basil")
    assert call.fields == {
        "amount": "1050",
        "currency": "eur",
        "customer": "cus_acme",
        "payment_method": "pm_2",
        "payment_method_types": ["card"],
        "confirm": "true",
        "off_session": "true",
        "error_on_requires_action": "true",
        "return_url": "https://shop.example/back",
        "description": "Hooli - Invoice HOO-1-001",
        "metadata": {
            "svc_invoice_id": "inv-1",
            "svc_customer_id": "c-1",
            "invoice_issuing_date": "2024-03-05",
            "invoice_type": "subscription",
            "svc_payment_id": "p-1",
            "svc_payable_id": "inv-1",
            "svc_payable_type": "Invoice",
            "svc_organization_id": "org-1",
            "svc_billing_entity_id": "be-1",
        },
    }


@pytest.mark.parametrize("faults", NO_ANSWER)
def test_whatever_becomes_of_the_answer_a_charge_is_made_once(
    faults: tuple[Fault, ...], http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.befall(*faults, only="POST /v1/payment_intents")
    failure = failure_of(http, main, charge("stripe"))
    assert failure.kind is FailureKind.UNREACHABLE
    assert http.ask(main, charge("stripe")).payment_status is ChargeStatus.SUCCEEDED
    assert stripe.charged() == {"eur": 1050}


def test_a_provider_that_does_not_answer_in_time(stripe: StripeServer, main: PaymentConnection) -> None:
    stripe.faults.append(Fault.SILENT)
    with providers(timeout=0.3) as hasty:
        failure = failure_of(hasty, main, charge("stripe"))
    assert (failure.kind, failure.code) == (FailureKind.UNREACHABLE, "network_error")


def test_a_provider_that_is_asked_too_often(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.faults.append(Fault.BUSY)
    assert failure_of(http, main, charge("stripe")).kind is FailureKind.THROTTLED


def test_a_declined_card(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    stripe.outcomes.append("declined")
    failure = failure_of(http, main, charge("stripe"))
    assert (failure.kind, failure.code) == (FailureKind.DECLINED, "card_declined")
    assert (failure.message, failure.provider_payment_id) == ("Your card was declined.", "pi_1")
    assert {name: failure.details[name] for name in ("code", "message", "http_status")} == {
        "code": "card_declined",
        "message": "Your card was declined.",
        "http_status": 402,
    }
    assert str(failure.details["request_id"]).startswith("req_")
    assert json.loads(str(failure.details["http_body"]))["error"]["decline_code"] == "generic_decline"
    assert stripe.charged() == {}


def test_a_card_that_wants_its_owner(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    stripe.outcomes.extend(["needs_action", "needs_action"])
    failure = failure_of(http, main, charge("stripe"))
    assert (failure.kind, failure.provider_payment_id) == (FailureKind.ACTION_REQUIRED, "pi_1")
    charged = http.ask(main, charge("stripe", key="payment-p-2", payment_id="p-2", on_session=True))
    assert (charged.status, charged.payment_status) == ("requires_action", ChargeStatus.PROCESSING)
    to = {"url": "https://hooks.stripe.test/pi_2", "return_url": "https://shop.example/back"}
    assert charged.next_action == {"type": "redirect_to_url", "redirect_to_url": to}
    assert {"off_session", "error_on_requires_action"}.isdisjoint(sent(stripe, "POST /v1/payment_intents"))


def test_in_india_a_charge_may_ask_for_its_owner(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.outcomes.append("needs_action")
    charged = http.ask(main, charge("stripe", payer=payer(address=Address(country="IN"))))
    assert charged.status == "requires_action"
    fields = sent(stripe, "POST /v1/payment_intents")
    assert (fields["off_session"], fields["error_on_requires_action"]) == ("false", "false")


def test_an_amount_below_the_minimum(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    failure = failure_of(http, main, charge("stripe", amount_cents=49))
    assert (failure.kind, failure.code) == (FailureKind.TOO_SMALL, "amount_too_small")


@pytest.mark.parametrize(
    ("cents", "currency", "wire"),
    [
        (500, "JPY", "500"),
        (5120, "KWD", "5120"),
        (500, "ISK", "50000"),
        (1200, "MGA", "12"),
        (10**12, "EUR", f"{10**12}"),
    ],
)
def test_amounts_in_stripe_s_own_form(
    cents: int, currency: str, wire: str, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe", amount_cents=cents, currency=currency))
    assert sent(stripe, "POST /v1/payment_intents")["amount"] == wire
    moved = understood(http, main, stripe.payment_event("pi_1", "succeeded"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.amount_cents, moved.currency) == (cents, currency)


def test_an_amount_that_stripe_cannot_take_is_not_sent(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, charge("stripe", amount_cents=5124, currency="KWD"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "amount_not_representable")
    assert stripe.calls == []


def test_a_method_that_is_gone_is_reported_and_another_is_charged(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    charged = http.ask(main, charge("stripe", provider_method_id="pm_gone"))
    assert charged.gone_method_ids == ("pm_gone",)
    assert charged.method is not None
    assert charged.method.provider_method_id == "pm_1"

    stripe.card_removed("pm_1")
    stripe.outcomes.append("declined")
    again = charge("stripe", provider_method_id="pm_1", payment_id="p-2", key="payment-p-2")
    failure = failure_of(http, main, again)
    assert (failure.kind, failure.gone_method_ids) == (FailureKind.DECLINED, ("pm_1",))
    assert sent(stripe, "POST /v1/payment_intents")["payment_method"] == "pm_2"


def test_a_customer_without_any_method_is_refused(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.knows("cus_poor")
    failure = failure_of(http, main, charge("stripe", payer=payer(provider_customer_id="cus_poor")))
    assert failure.kind is FailureKind.DECLINED
    assert "payment_method" not in sent(stripe, "POST /v1/payment_intents")


def test_a_customer_that_stripe_does_not_know(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    failure = failure_of(http, main, charge("stripe", payer=payer(provider_customer_id="cus_?/x")))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "resource_missing")
    assert failure_of(http, main, charge("stripe", payer=payer(provider_customer_id=None))).kind is FailureKind.REFUSED


def test_a_key_that_came_with_another_method_finds_the_first_charge(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/payment_intents")
    assert failure_of(http, main, charge("stripe")).kind is FailureKind.UNREACHABLE
    stripe.card_removed("pm_1")
    charged = http.ask(main, charge("stripe"))
    assert (charged.provider_payment_id, charged.payment_status) == ("pi_1", ChargeStatus.SUCCEEDED)
    assert stripe.charged() == {"eur": 1050}


def test_a_key_that_was_used_for_something_else_is_a_conflict(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe", payment_id="p-0"))
    assert failure_of(http, main, charge("stripe", amount_cents=2000)).kind is FailureKind.CONFLICT
    assert stripe.charged() == {"eur": 1050}


def test_a_charge_whose_key_stripe_has_forgotten_is_looked_up(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    request = charge("stripe", since=NOW - timedelta(hours=24), at=NOW)
    for place in range(150):
        old = {"status": "canceled", "customer": "cus_acme", "metadata": {}, "created": int(NOW.timestamp())}
        stripe.intents[f"pi_old_{place}"] = {**old, "currency": "eur", "amount": 1}
    first = http.ask(main, request)
    stripe.forget_keys()
    assert http.ask(main, request).provider_payment_id == first.provider_payment_id
    assert stripe.charged() == {"eur": 1050}


@pytest.mark.parametrize(
    ("currency", "address", "transfer"),
    [
        ("EUR", "FR", {"type": "eu_bank_transfer", "eu_bank_transfer": {"country": "FR"}}),
        ("EUR", "IT", {"type": "eu_bank_transfer", "eu_bank_transfer": {"country": "IE"}}),
        ("GBP", "GB", {"type": "gb_bank_transfer"}),
        ("USD", "US", {"type": "us_bank_transfer"}),
        ("CHF", "CH", None),
    ],
)
def test_a_customer_that_pays_by_bank_transfer(
    currency: str,
    address: str,
    transfer: dict[str, object] | None,
    http: HttpPaymentProviders,
    stripe: StripeServer,
    main: PaymentConnection,
) -> None:
    stripe.outcomes.append("requires_action")
    who = payer(method_types=("customer_balance",), address=Address(country=address), entity_country="IE")
    charged = http.ask(main, charge("stripe", payer=who, currency=currency, provider_method_id="pm_1"))
    assert charged.payment_status is ChargeStatus.PROCESSING
    fields = sent(stripe, "POST /v1/payment_intents")
    assert fields["payment_method_data"] == {"type": "customer_balance"}
    balance = fields["payment_method_options"]["customer_balance"]
    assert (balance["funding_type"], balance.get("bank_transfer")) == ("bank_transfer", transfer)
    assert (fields["off_session"], fields["error_on_requires_action"], "payment_method" in fields) == (
        "false",
        "false",
        False,
    )


def test_a_bank_transfer_without_a_country_is_not_asked_for(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    who = payer(method_types=("customer_balance",), address=Address(country="AT"), entity_country="US")
    assert failure_of(http, main, charge("stripe", payer=who)).code == "missing_country"
    assert stripe.calls == []


def test_a_charge_is_given_its_number_and_cancelled(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.outcomes.append("processing")
    http.ask(main, charge("stripe"))
    update = UpdateCharge(
        provider_payment_id="pi_1", reference="HOO-1-001", metadata={"svc_invoice_number": "HOO-1-001"}
    )
    http.ask(main, update)
    assert stripe.intents["pi_1"]["description"] == "HOO-1-001"
    assert stripe.intents["pi_1"]["metadata"]["svc_invoice_number"] == "HOO-1-001"
    cancelled = http.ask(main, Cancel(provider_payment_id="pi_1", key="cancel-p-1"))
    assert cancelled is not None
    assert (cancelled.status, cancelled.payment_status) == ("canceled", ChargeStatus.FAILED)
    assert sent(stripe, "POST /v1/payment_intents/pi_1/cancel") == {"cancellation_reason": "abandoned"}
    assert http.ask(main, Cancel(provider_payment_id="pi_1", key="cancel-p-1")) is None


def hold(**fields: Any) -> Authorize:
    """An authorization of 10.50."""
    made = {"key": "auth-1", "amount_cents": 1050, "currency": "EUR", "payer": payer(), "metadata": {}, **fields}
    return Authorize(**made)


def test_an_amount_is_held_on_the_method_that_stripe_knows_and_let_go_of(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    held = http.ask(main, hold())
    assert held.status == "requires_capture"
    fields = sent(stripe, "POST /v1/payment_intents")
    assert (fields["payment_method"], fields["amount"], fields["capture_method"]) == ("pm_1", "1050", "manual")
    assert http.ask(main, hold()) == held
    # Without its id it is known by its key, among the customer's charges.
    http.ask(main, hold(key="auth-2"))
    http.ask(main, ReleaseHold(key="auth-1", provider_customer_id="cus_acme", since=NOW))
    assert [intent["status"] for intent in stripe.intents.values()] == ["canceled", "requires_capture"]
    other = ReleaseHold(key="auth-2", provider_customer_id="cus_acme", since=NOW, provider_payment_id="pi_2")
    assert http.ask(main, other) == Done()
    assert http.ask(main, other) == Done()
    assert {intent["status"] for intent in stripe.intents.values()} == {"canceled"}


def test_nothing_is_held_without_a_method(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.knows("cus_bare")
    failure = failure_of(http, main, hold(payer=payer(provider_customer_id="cus_bare")))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "customer_has_no_payment_method")


# Refunds


@pytest.mark.parametrize(
    ("reason", "stripe_reason"),
    [
        ("duplicated_charge", "duplicate"),
        ("product_unsatisfactory", "requested_by_customer"),
        ("fraudulent_charge", "fraudulent"),
        ("other", None),
    ],
)
def test_a_refund(
    reason: str, stripe_reason: str | None, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    refunded = http.ask(main, refund("pi_1", reason=reason))
    assert refunded.refund_status is PaymentStatus.SUCCEEDED
    call = stripe.asked("POST /v1/refunds")[0]
    assert call.key == "note-1"
    assert (call.fields["amount"], call.fields.get("reason")) == ("400", stripe_reason)
    assert call.fields["metadata"] == {
        "svc_customer_id": "c-1",
        "svc_credit_note_id": "note-1",
        "svc_invoice_id": "inv-1",
    }
    assert http.ask(main, refund("pi_1", reason=reason)) == refunded
    assert stripe.intents["pi_1"]["refunded"] == 400


def test_a_refund_whose_key_stripe_has_forgotten_is_looked_up(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    first = http.ask(main, refund("pi_1"))
    stripe.forget_keys()
    late = refund("pi_1", since=NOW - timedelta(hours=24), at=NOW)
    assert http.ask(main, late) == first
    other = replace(late, credit_note_id="note-2", key="note-2")
    assert http.ask(main, other).provider_refund_id != first.provider_refund_id
    assert stripe.intents["pi_1"]["refunded"] == 800


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", PaymentStatus.PENDING),
        ("requires_action", PaymentStatus.PENDING),
        ("failed", PaymentStatus.FAILED),
        ("canceled", PaymentStatus.FAILED),
    ],
)
def test_refunds_that_take_their_time(
    word: str, status: PaymentStatus, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    stripe.outcomes.append(word)
    refunded = http.ask(main, refund("pi_1"))
    assert (refunded.status, refunded.refund_status) == (word, status)
    assert refunded.provider_refund_id is not None
    moved = understood(http, main, stripe.refund_event(refunded.provider_refund_id, "succeeded"))
    id = refunded.provider_refund_id
    succeeded = PaymentStatus.SUCCEEDED
    assert moved == RefundMoved(provider_refund_id=id, status="succeeded", refund_status=succeeded, key="note-1")


def test_a_charge_that_cannot_be_refunded(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    stripe.outcomes.append("not_refundable")
    failure = failure_of(http, main, refund("pi_1"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "charge_not_refundable")


# Pages


def test_a_page_to_pay_an_invoice_on(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    page = http.ask(main, checkout())
    call = stripe.asked("POST /v1/checkout/sessions")[0]
    assert call.key == "page-1"
    product = {"currency": "eur", "unit_amount": "1050", "product_data": {"name": "HOO-1-001"}}
    assert call.fields == {
        "mode": "payment",
        "customer": "cus_acme",
        "success_url": "https://shop.example/back",
        "payment_method_types": ["card"],
        "expires_at": str(int((NOW + timedelta(hours=23, minutes=59)).timestamp())),
        "line_items": [{"quantity": "1", "price_data": product}],
        "payment_intent_data": {
            "description": "Hooli - Invoice HOO-1-001",
            "setup_future_usage": "off_session",
            "metadata": {
                "svc_invoice_id": "inv-1",
                "svc_customer_id": "c-1",
                "invoice_issuing_date": "2024-03-05",
                "invoice_type": "subscription",
                "payment_type": "one-time",
            },
        },
    }
    assert page.provider_page_id is not None
    assert http.ask(main, ExpirePage(provider_page_id=page.provider_page_id)) == Done()
    assert stripe.sessions[page.provider_page_id]["status"] == "expired"
    for id in (page.provider_page_id, "cs_unknown"):
        assert http.ask(main, ExpirePage(provider_page_id=id)) == Done()


def test_a_page_to_pay_a_request_on(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    page = http.ask(main, checkout(payable=request(), expires_at=None))
    session = sent(stripe, "POST /v1/checkout/sessions")
    amounts = [
        (line["price_data"]["product_data"]["name"], line["price_data"]["unit_amount"])
        for line in session["line_items"]
    ]
    assert amounts == [("HOO-1-001", "1000"), ("HOO-1-002", "50")]
    assert {"expires_at", "consent_collection"}.isdisjoint(session)
    assert "setup_future_usage" not in session["payment_intent_data"]
    assert page.provider_page_id is not None
    moved = understood(http, main, stripe.page_paid(page.provider_page_id))
    assert isinstance(moved, PaymentMoved)
    assert (moved.payable_type, moved.payable_id) == (PayableType.PAYMENT_REQUEST, "req-1")
    assert (moved.creates, moved.amount_cents) == (True, 1050)


@pytest.mark.parametrize("who", [payer(address=Address(country="IN")), payer(method_types=("card", "crypto"))])
def test_methods_that_may_not_be_kept_are_not(
    who: Any, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, checkout(payer=who))
    assert "setup_future_usage" not in sent(stripe, "POST /v1/checkout/sessions")["payment_intent_data"]


# Events


def test_an_event_is_signed_over_its_very_bytes(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    notice = stripe.payment_event("pi_1", "succeeded")
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    assert (event.type, event.body) == ("payment_intent.succeeded", notice.body.decode())
    signature = notice.headers["stripe-signature"]
    stamp = signature.split(",")[0]
    rotated = f"{stamp},v1={'0' * 64},{signature.split(',')[1]},v0=abc"
    assert http.notices(main, {"stripe-signature": rotated}, notice.body, NOW) == (event,)
    for headers, body, secret, now in [
        ({}, notice.body, None, NOW),
        ({"stripe-signature": ""}, notice.body, None, NOW),
        ({"stripe-signature": signature.replace("v1", "v0")}, notice.body, None, NOW),
        ({"stripe-signature": f"{stamp},v1=é"}, notice.body, None, NOW),
        ({"stripe-signature": f"{stamp},{signature}"}, notice.body, None, NOW),
        ({"stripe-signature": f"t={'9' * 5000},v1=0"}, notice.body, None, NOW),
        (notice.headers, notice.forged().body, None, NOW),
        (notice.headers, notice.body, "whsec_other", NOW),
        (notice.headers, notice.body, "", NOW),
        (notice.headers, notice.body, None, NOW + timedelta(seconds=301)),
        (notice.headers, notice.body, None, NOW - timedelta(seconds=301)),
    ]:
        key = main.credentials["webhook_secret"] if secret is None else secret
        checked = replace(main, credentials={**main.credentials, "webhook_secret": key})
        with pytest.raises(NoticeRejected):
            http.notices(checked, headers, body, now)
    for now in (NOW + timedelta(seconds=300), NOW - timedelta(seconds=300)):
        assert http.notices(main, notice.headers, notice.body, now) == (event,)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"id": "evt_1"}', b"\xff", b"{" * 100_000])
def test_a_signed_message_that_is_no_event_is_rejected(
    text: bytes, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    headers = {"stripe-signature": stripe.signature(text, int(NOW.timestamp()))}
    with pytest.raises(NoticeRejected):
        http.notices(main, headers, text, NOW)


def test_a_payment_that_succeeds_later(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.outcomes.append("processing")
    http.ask(main, charge("stripe"))
    assert understood(http, main, stripe.payment_event("pi_1", "succeeded")) == PaymentMoved(
        provider_payment_id="pi_1",
        status="succeeded",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=1050,
        currency="EUR",
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        payment_id="p-1",
        method=visa("pm_1"),
        happened_at=NOW,
    )


def test_a_payment_is_reported_even_if_its_card_cannot_be_read(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    stripe.faults.append(Fault.BROKEN)
    moved = understood(http, main, stripe.payment_event("pi_1", "succeeded"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.payment_status, moved.method) == (ChargeStatus.SUCCEEDED, MethodDetails(provider_method_id="pm_1"))


@pytest.mark.parametrize(("outcome", "code"), [("payment_failed", "expired_card"), ("canceled", None)])
def test_a_payment_that_fails_later(
    outcome: str, code: str | None, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    stripe.outcomes.append("processing")
    http.ask(main, charge("stripe"))
    moved = understood(http, main, stripe.payment_event("pi_1", outcome, "expired_card"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.status, moved.payment_status, moved.error_code) == ("failed", ChargeStatus.FAILED, code)


def test_a_card_that_was_set_up_becomes_the_default(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    added = understood(http, main, stripe.card_added("cus_acme", "pm_new"))
    details = visa("pm_new")
    assert added == MethodAdded(method=details, provider_customer_id="cus_acme")
    assert stripe.customers["cus_acme"]["default"] == "pm_new"


def test_a_card_that_is_gone_by_the_time_it_is_reported_is_not_added(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    added, changed = stripe.card_added("cus_acme", "pm_new"), stripe.default_changed("cus_acme", "pm_new")
    stripe.methods["pm_new"]["customer"] = None
    assert isinstance(understood(http, main, added), Unhandled)
    del stripe.methods["pm_new"]
    for notice in (added, changed):
        outcome = understood(http, main, notice)
        assert isinstance(outcome, Unhandled)
        assert outcome.known


def test_defaults_that_change_and_cards_that_go(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    changed = understood(http, main, stripe.default_changed("cus_acme", "pm_2"))
    assert isinstance(changed, MethodAdded)
    assert changed.method.provider_method_id == "pm_2"
    cleared = understood(http, main, stripe.default_changed("cus_acme", None))
    assert cleared == DefaultMethodCleared(provider_customer_id="cus_acme")
    removed = understood(http, main, stripe.card_removed("pm_2"))
    assert removed == MethodRemoved(provider_method_id="pm_2")


def test_disputes(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    http.ask(main, charge("stripe"))
    lost = DisputeLost(provider_payment_id="pi_1", lost_at=NOW, reason="fraudulent")
    assert understood(http, main, stripe.dispute_closed("pi_1")) == lost
    won = DisputeWon(provider_payment_id="pi_1", won_at=NOW)
    assert understood(http, main, stripe.dispute_closed("pi_1", "won")) == won
    assert understood(http, main, stripe.dispute_closed("pi_1", "warning_closed")) == won
    assert understood(http, main, stripe.dispute_event("funds_reinstated", "pi_1", "won")) == won
    odd = understood(http, main, stripe.dispute_closed("pi_1", "something_new"))
    assert odd == Unhandled(reason="the dispute is something_new", known=False)


@pytest.mark.parametrize(
    "reason", ["bank_cannot_process", "check_returned", "incorrect_account_details", "insufficient_funds"]
)
def test_a_debit_that_a_bank_returns_is_no_dispute(
    reason: str, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe"))
    assert understood(http, main, stripe.dispute_closed("pi_1", "lost", reason)) == PaymentMoved(
        provider_payment_id="pi_1",
        status=reason,
        payment_status=ChargeStatus.FAILED,
        is_current=True,
        error_code=reason,
    )


@pytest.mark.parametrize(
    ("type", "content"),
    [
        ("payment_intent.succeeded", {}),
        ("payment_intent.succeeded", {"id": "pi_1", "currency": "eur", "amount": "10.5"}),
        ("payment_intent.succeeded", {"id": "pi_1", "currency": "xxx", "amount": 10}),
        ("charge.refund.updated", {"id": "re_1"}),
        ("charge.dispute.closed", {"status": "lost"}),
        ("customer.updated", None),
        ("invoice.created", {"id": "in_1"}),
    ],
)
def test_events_that_are_not_understood_are_kept_for_a_look(
    type: str, content: object, http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    outcome = understood(http, main, stripe.event(type, content))
    assert isinstance(outcome, Unhandled)
    assert not outcome.known


def test_an_event_of_another_organization_changes_nothing(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    http.ask(main, charge("stripe", payer=payer(organization_id="org-2")))
    outcome = understood(http, main, stripe.payment_event("pi_1", "succeeded"))
    assert outcome == Unhandled(reason="it is about another organization")


def test_an_event_that_needs_an_answer_is_tried_again_if_there_is_none(
    http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection
) -> None:
    notice = stripe.card_added("cus_acme", "pm_new")
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    stripe.faults.append(Fault.BUSY)
    with pytest.raises(ProviderFailed) as problem:
        http.outcomes(main, event, NOW)
    assert problem.value.failure.kind is FailureKind.THROTTLED
    assert isinstance(event, ProviderNotice)


# The books


def test_the_books_of_the_account(http: HttpPaymentProviders, stripe: StripeServer, main: PaymentConnection) -> None:
    for place in range(120):
        http.ask(main, charge("stripe", payment_id=f"p-{place}", key=f"payment-p-{place}"))
    http.ask(main, refund("pi_1"))
    stripe.outcomes.append("declined")
    failure_of(http, main, charge("stripe", payment_id="p-declined", key="payment-p-declined"))
    listed = http.ask(main, ListCharges(since=NOW - timedelta(days=1), until=NOW + timedelta(days=1))).charges
    paid = [item for item in listed if item.payment_status is ChargeStatus.SUCCEEDED]
    assert (len(paid), len(listed), sum(item.amount_cents for item in paid)) == (120, 121, 120 * 1050)
    refunded = {item.provider_payment_id: item.refunded_cents for item in paid if item.refunded_cents}
    assert refunded == {"pi_1": 400}
    assert {item.metadata["svc_payment_id"] for item in listed} == {*(f"p-{n}" for n in range(120)), "p-declined"}
    assert {item.created_at for item in listed} == {datetime(2024, 3, 5, 12, tzinfo=UTC)}
    before = ListCharges(since=NOW - timedelta(days=2), until=NOW)
    assert http.ask(main, before).charges == ()
