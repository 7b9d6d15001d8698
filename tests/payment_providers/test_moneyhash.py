"""MoneyHash over HTTP: our requests, and the translation of its answers and notices."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.payment_providers.provider_requests import (
    NO_ANSWER,
    NOW,
    charge,
    checkout,
    connection_to,
    failure_of,
    invoice,
    payer,
    providers,
    refund,
    request,
)
from tests.payment_servers.moneyhash import MoneyHashServer
from tests.payment_servers.server import Fault, Notice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    Charge,
    Charged,
    Connect,
    CreateCustomer,
    FailureKind,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders

_PAYER = payer(notice_url="https://billing.example/webhooks/moneyhash/org-1?code=main")


@pytest.fixture
def moneyhash() -> Iterator[MoneyHashServer]:
    with MoneyHashServer() as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(moneyhash: MoneyHashServer) -> PaymentConnection:
    return connection_to(moneyhash)


def card(**fields: object) -> Charge:
    return charge("moneyhash", **{"payer": _PAYER, "provider_method_id": "tok_1", **fields})


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


def test_the_key_of_notices_is_fetched(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    bare = replace(main, credentials={"api_key": "mh.0123456789", "flow_id": "flow_1"})
    made = http.ask(bare, Connect(notice_url="https://billing.example"))
    assert made.credentials == {"signature_key": "signature_0123456789"}
    assert moneyhash.lines() == ["GET /api/v1/organizations/get-webhook-signature-key/"]
    assert http.ask(main, Connect(notice_url="https://billing.example")).credentials == {}
    wrong = replace(main, credentials={"api_key": "mh.wrong", "flow_id": "flow_1"})
    failure = failure_of(http, wrong, Connect(notice_url="https://billing.example"))
    assert (failure.kind, failure.code) == (FailureKind.UNAUTHORIZED, "401")
    assert "mh.wrong" not in f"{failure!r} {wrong!r}"


def test_a_customer_is_made(http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection) -> None:
    who = payer(provider_customer_id=None, customer_type="company", legal_name="Acme AG", firstname="Ada")
    made = http.ask(main, CreateCustomer(payer=who, key="c-1"))
    assert made.provider_customer_id == "mh-cus-1"
    (call,) = moneyhash.calls
    assert call.headers["x-api-key"] == "mh.0123456789"
    custom = call.fields.pop("custom_fields")
    assert call.fields == {
        "type": "COMPANY",
        "first_name": "Ada",
        "email": "pay@acme.example",
        "phone_number": "+4930123",
        "address": "Allee 1",
        "contact_person_name": "Acme & Söhne",
        "company_name": "Acme AG",
    }
    assert (custom["svc_customer_id"], custom["svc_customer_external_id"]) == ("c-1", "acme")
    assert (custom["svc_organization_id"], custom["svc_mh_connection_code"]) == ("org-1", "main")
    failure = failure_of(http, main, CreateCustomer(payer=payer(email="nobody"), key="c-2"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "400")
    assert "Enter a valid email address." in failure.message


def test_a_page_to_leave_a_card_on(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    page = http.ask(main, SetupUrl(payer=_PAYER, key="s-1", at=NOW))
    assert page.url == "https://embed.moneyhash.test/mh-int-1?svc_request=generate_checkout_url"
    fields = moneyhash.calls[0].fields
    assert (fields["amount"], fields["amount_currency"], fields["tokenize_card"]) == (5, "EUR", True)
    paid = understood(http, main, moneyhash.page_event("mh-int-1"))
    assert paid == Unhandled(reason="nothing is paid with it")


# Charges


def test_a_charge_is_sent_to_the_cent(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    payable = replace(invoice(), plan_id="plan-1", external_subscription_id="sub-1")
    assert http.ask(main, card(amount_cents=1099, payable=payable)) == Charged(
        provider_payment_id="mh-int-1",
        status="UNPROCESSED",
        payment_status=ChargeStatus.PROCESSING,
        method=MethodDetails(provider_method_id="tok_1"),
    )
    (call,) = moneyhash.calls
    assert call.line == "POST /api/v1.1/payments/intent/"
    assert b'"amount":10.99,' in call.body
    custom = call.fields.pop("custom_fields")
    assert call.fields == {
        "flow_id": "flow_1",
        "billing_data": {
            "name": "Acme & Söhne",
            "email": "pay@acme.example",
            "phone_number": "+4930123",
            "address": "Allee 1",
            "city": "Berlin",
            "country": "DE",
            "postal_code": "10115",
        },
        "customer": "cus_acme",
        "webhook_url": "https://billing.example/webhooks/moneyhash/org-1?code=main",
        "payment_type": "UNSCHEDULED",
        "recurring_data": {"agreement_id": "c-1"},
        "amount": 10.99,
        "amount_currency": "EUR",
        "merchant_initiated": True,
        "card_token": "tok_1",
    }
    named = ("svc_payable_id", "svc_payable_type", "svc_payment_id", "svc_plan_id", "svc_subscription_external_id")
    assert [custom[name] for name in named] == ["inv-1", "Invoice", "p-1", "plan-1", "sub-1"]
    assert (custom["svc_payable_invoice_type"], custom["svc_mit"]) == ("subscription", "true")


def test_keys_are_random_looking_and_always_the_same(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    http.ask(main, card())
    http.ask(main, card(payment_id="p-2", key="payment-p-2"))
    http.ask(main, card())
    first, second, third = (call.key for call in moneyhash.calls)
    assert first == third != second
    assert uuid.UUID(first).version == 4
    assert len(moneyhash.intents) == 2


@pytest.mark.parametrize("faults", [*NO_ANSWER[2:], (Fault.LOST,), (Fault.CLOSED,)])
def test_whatever_becomes_of_the_answer_a_card_is_charged_once(
    faults: tuple[Fault, ...], http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    moneyhash.befall(*faults)
    assert failure_of(http, main, card()).kind is FailureKind.UNREACHABLE
    assert http.ask(main, card()).provider_payment_id == "mh-int-1"
    assert list(moneyhash.intents) == ["mh-int-1"]


def test_a_charge_whose_key_may_be_forgotten_is_not_sent_again(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, card(since=NOW - timedelta(days=8), at=NOW))
    assert (failure.kind, failure.code) == (FailureKind.FORGOTTEN, "outcome_unknown")
    assert moneyhash.calls == []
    http.ask(main, card(since=NOW - timedelta(hours=22), at=NOW))


def test_time_outs_and_throttling(moneyhash: MoneyHashServer, main: PaymentConnection) -> None:
    moneyhash.befall(Fault.SILENT, Fault.BUSY)
    with providers(timeout=0.3) as hasty:
        kinds = [failure_of(hasty, main, card()).kind for _ in range(2)]
    assert kinds == [FailureKind.UNREACHABLE, FailureKind.THROTTLED]


@pytest.mark.parametrize(
    ("word", "charge_status", "status"),
    [
        ("SUCCESSFUL", "SUCCESSFUL", ChargeStatus.SUCCEEDED),
        ("PROCESSED", "PROCESSED", ChargeStatus.SUCCEEDED),
        ("nested", "SUCCESSFUL", ChargeStatus.SUCCEEDED),
        ("PENDING_AUTHENTICATION", "PENDING_AUTHENTICATION", ChargeStatus.PROCESSING),
        ("FAILED", "FAILED", ChargeStatus.FAILED),
        ("NEW_WORD", "NEW_WORD", ChargeStatus.PROCESSING),
    ],
)
def test_answers(
    word: str,
    charge_status: str,
    status: ChargeStatus,
    http: HttpPaymentProviders,
    moneyhash: MoneyHashServer,
    main: PaymentConnection,
) -> None:
    moneyhash.outcomes.append(word)
    charged = http.ask(main, card())
    assert (charged.status, charged.payment_status) == (charge_status, status)


def test_a_charge_that_is_refused(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    failure = failure_of(http, main, card(provider_method_id="gone"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "400")
    assert "Not found." in failure.message
    without = failure_of(http, main, card(provider_method_id=None))
    assert (without.kind, without.code) == (FailureKind.REFUSED, "no_payment_method")
    assert failure_of(http, main, refund("mh-int-1")).kind is FailureKind.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("cents", "currency", "wire"), [(1, "EUR", b"0.01"), (5124, "KWD", b"5.124"), (500, "JPY", b"500")]
)
def test_amounts_in_major_units(
    cents: int,
    currency: str,
    wire: bytes,
    http: HttpPaymentProviders,
    moneyhash: MoneyHashServer,
    main: PaymentConnection,
) -> None:
    http.ask(main, card(amount_cents=cents, currency=currency))
    assert b'"amount":' + wire + b"," in moneyhash.calls[0].body
    moved = understood(http, main, moneyhash.purchase_event("mh-int-1", "successful"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.amount_cents, moved.currency) == (cents, currency)


# Pages


def test_a_page_to_pay_on(http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection) -> None:
    page = http.ask(main, checkout(payer=_PAYER, amount_cents=1099))
    assert page.url == "https://embed.moneyhash.test/mh-int-1?svc_request=generate_payment_url"
    fields = moneyhash.calls[0].fields
    assert (fields["amount"], fields["merchant_initiated"]) == (10.99, False)
    assert (fields["expires_after_seconds"], "tokenize_card" in fields) == (86400, False)
    expected = PaymentMoved(
        provider_payment_id="mh-int-1",
        status="SUCCESSFUL",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=1099,
        currency="EUR",
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        creates=True,
    )
    assert understood(http, main, moneyhash.page_event("mh-int-1")) == expected
    assert understood(http, main, moneyhash.page_event("mh-int-1", amount="10.99")) == expected
    expired = understood(http, main, moneyhash.page_event("mh-int-1", "intent.time_expired"))
    assert expected.provider_payment_id == "mh-int-1"
    assert isinstance(expired, PaymentMoved)
    assert (expired.payment_status, expired.creates) == (ChargeStatus.FAILED, False)


# Notices


@pytest.mark.parametrize(
    ("outcome", "word", "status"),
    [
        ("successful", "SUCCESSFUL", ChargeStatus.SUCCEEDED),
        ("failed", "FAILED", ChargeStatus.FAILED),
        ("pending_authentication", "processing", ChargeStatus.PENDING),
    ],
)
def test_what_is_reported_of_charges(
    outcome: str,
    word: str,
    status: ChargeStatus,
    http: HttpPaymentProviders,
    moneyhash: MoneyHashServer,
    main: PaymentConnection,
) -> None:
    http.ask(main, card(payable=request()))
    assert understood(http, main, moneyhash.purchase_event("mh-int-1", outcome)) == PaymentMoved(
        provider_payment_id="mh-int-1",
        status=word,
        payment_status=status,
        amount_cents=1050,
        currency="EUR",
        payable_type=PayableType.PAYMENT_REQUEST,
        payable_id="req-1",
        payment_id="p-1",
    )


def test_cards_come_and_go(http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection) -> None:
    fields = {"svc_customer_id": "c-1", "svc_organization_id": "org-1"}
    details = MethodDetails(
        provider_method_id="tok_1",
        type="card",
        last4="4242",
        brand="Visa",
        expiration_month=3,
        expiration_year=2030,
        card_holder_name="A. Cme",
        issuer="Bank <& Co>",
    )
    for action in ("created", "updated"):
        added = understood(http, main, moneyhash.token_event(action, "tok_1", fields))
        assert added == MethodAdded(method=details, customer_id="c-1")
    removed = understood(http, main, moneyhash.token_event("deleted", "tok_1", fields))
    assert removed == MethodRemoved(provider_method_id="tok_1")
    for others in ({}, {"svc_customer_id": "c-1", "svc_organization_id": "org-2"}):
        assert isinstance(understood(http, main, moneyhash.token_event("created", "tok_1", others)), Unhandled)


def test_a_notice_is_signed_over_its_json(
    http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    event = {
        "type": "card_token.deleted",
        "data": {"card_token": {"id": "tok_1", "issuer": "Bank <& Söhne>", "n": 1.50}},
    }
    compact, spaced = moneyhash.signed(event), moneyhash.signed(event, spaces=True)
    for notice in (compact, spaced):
        assert len(http.notices(main, notice.headers, notice.body, NOW + timedelta(days=3))) == 1
    header = compact.headers["moneyhash-signature"]
    for headers, body, secret in [
        ({}, compact.body, "signature_0123456789"),
        ({"moneyhash-signature": "t=1"}, compact.body, "signature_0123456789"),
        ({"moneyhash-signature": header.replace("v3=", "v4=")}, compact.body, "signature_0123456789"),
        ({"moneyhash-signature": header.replace("t=", "t=1")}, compact.body, "signature_0123456789"),
        ({"moneyhash-signature": "t=1,v3=ü"}, compact.body, "signature_0123456789"),
        (compact.headers, compact.body.replace(b"tok_1", b"tok_2"), "signature_0123456789"),
        (compact.headers, b"{}", "signature_0123456789"),
        (compact.headers, compact.body, "other"),
        (compact.headers, compact.body, ""),
    ]:
        checked = replace(main, credentials={**main.credentials, "signature_key": secret})
        with pytest.raises(NoticeRejected):
            http.notices(checked, headers, body, NOW)


@pytest.mark.parametrize(
    ("event", "known"),
    [
        ({"type": "intent.created"}, False),
        ({"type": "intent.processed", "data": {"intent": {}}}, False),
        ({"type": "transaction.purchase.failed"}, False),
        ({"type": "card_token.created", "data": {}}, False),
        (
            {
                "type": "transaction.purchase.failed",
                "intent": {
                    "id": "i",
                    "amount": {"value": 1, "currency": "EUR"},
                    "custom_fields": {"svc_organization_id": "org-2", "svc_payable_id": "inv-1"},
                },
            },
            True,
        ),
    ],
)
def test_events_without_effect(
    event: object, known: bool, http: HttpPaymentProviders, moneyhash: MoneyHashServer, main: PaymentConnection
) -> None:
    outcome = understood(http, main, moneyhash.signed(event))
    assert isinstance(outcome, Unhandled)
    assert outcome.known is known
