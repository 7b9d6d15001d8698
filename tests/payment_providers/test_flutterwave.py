"""Flutterwave over HTTP: its pages, and notices that count only once they are verified."""

from __future__ import annotations

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
    payer,
    providers,
    request,
)
from tests.payment_servers.flutterwave import FlutterwaveServer
from tests.payment_servers.server import Fault, Notice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    CheckoutUrl,
    FailureKind,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    ProviderFailed,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders

_REFERENCE = "inv_inv-1_page-1"


@pytest.fixture
def flutterwave() -> Iterator[FlutterwaveServer]:
    with FlutterwaveServer() as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(flutterwave: FlutterwaveServer) -> PaymentConnection:
    return connection_to(flutterwave)


def page(**fields: object) -> CheckoutUrl:
    return checkout(**{"currency": "NGN", "amount_cents": 1099, **fields})


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


def test_a_page_to_pay_an_invoice_on(
    http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    assert http.ask(main, page()).url == "https://checkout.flutterwave.test/1"
    (call,) = flutterwave.calls
    assert call.headers["authorization"] == "Bearer FLWSECK_TEST-0123456789-X"
    assert b'"amount":10.99,' in call.body
    assert call.fields == {
        "amount": 10.99,
        "currency": "NGN",
        "tx_ref": _REFERENCE,
        "redirect_url": "https://shop.example/back",
        "customer": {"email": "pay@acme.example", "phone_number": "+4930123", "name": "Acme & Söhne"},
        "customizations": {
            "title": "Hooli - Invoice HOO-1-001",
            "description": "Payment for Invoice #HOO-1-001",
        },
        "session_duration": 1440,
        "configurations": {"session_duration": 1440},
        "meta": {
            "svc_invoice_id": "inv-1",
            "svc_customer_id": "c-1",
            "invoice_issuing_date": "2024-03-05",
            "invoice_type": "subscription",
            "payment_type": "one-time",
            "svc_organization_id": "org-1",
            "svc_invoice_number": "HOO-1-001",
        },
    }


@pytest.mark.parametrize("repeats_meta", [True, False])
def test_a_page_to_pay_a_request_on(
    repeats_meta: bool, http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    who = payer(name=None, phone=None)
    http.ask(main, page(payable=request(), payer=who, expires_at=NOW + timedelta(minutes=45)))
    fields = flutterwave.calls[0].fields
    assert fields["customer"] == {"email": "pay@acme.example", "phone_number": "", "name": "pay@acme.example"}
    assert fields["customizations"]["description"] == "Payment for invoices: HOO-1-001, HOO-1-002"
    assert (fields["tx_ref"], fields["session_duration"]) == ("req_req-1_page-1", 45)
    flutterwave.repeats_meta = repeats_meta
    moved = understood(http, main, flutterwave.page_paid("req_req-1_page-1"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.payable_type, moved.payable_id) == (PayableType.PAYMENT_REQUEST, "req-1")
    assert moved.creates


@pytest.mark.parametrize(
    ("cents", "currency", "wire", "paid", "counted"),
    [
        (1099, "NGN", b"10.99", None, 1099),
        (1099, "NGN", b"10.99", 10.5, 1050),
        (500, "UGX", b"500", "500", 500),
        (10**15, "NGN", b"10000000000000", None, 10**15),
    ],
)
def test_what_was_paid_is_what_was_verified(
    cents: int,
    currency: str,
    wire: bytes,
    paid: object,
    counted: int,
    http: HttpPaymentProviders,
    flutterwave: FlutterwaveServer,
    main: PaymentConnection,
) -> None:
    http.ask(main, page(amount_cents=cents, currency=currency))
    assert b'"amount":' + wire + b"," in flutterwave.calls[0].body
    assert understood(http, main, flutterwave.page_paid(_REFERENCE, paid)) == PaymentMoved(
        provider_payment_id="2859500",
        status="successful",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=counted,
        currency=currency,
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        creates=True,
        happened_at=NOW,
    )
    assert flutterwave.lines()[-1] == "GET /transactions/2859500/verify"


def test_what_a_notice_claims_by_itself_does_not_count(
    http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    http.ask(main, page())
    genuine = flutterwave.page_paid(_REFERENCE)
    known = {"id": 2859500, "status": "successful", "amount": 10**9, "currency": "USD", "tx_ref": "inv_inv-2_page-9"}
    claimed = flutterwave.event("charge.completed", {**known, "meta": {"svc_invoice_id": "inv-2"}})
    assert understood(http, main, claimed) == understood(http, main, genuine)
    for lie in (
        flutterwave.event("charge.completed", {**known, "id": 1}),
        flutterwave.page_paid(_REFERENCE, verified="pending"),
    ):
        outcome = understood(http, main, lie)
        assert isinstance(outcome, Unhandled)
        assert not outcome.known


def test_transactions_of_others_change_nothing(
    http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    http.ask(main, page(payer=payer(organization_id="org-2")))
    outcome = understood(http, main, flutterwave.page_paid(_REFERENCE))
    assert outcome == Unhandled(reason="it is about another organization")
    flutterwave.pages["shop-77"] = {**flutterwave.pages[_REFERENCE], "meta": {}}
    assert understood(http, main, flutterwave.page_paid("shop-77")) == Unhandled(
        reason="the transaction is not one of ours"
    )


def test_a_notice_waits_until_flutterwave_answers(
    http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    http.ask(main, page())
    notice = flutterwave.page_paid(_REFERENCE)
    for fault, kind in [(Fault.BROKEN, FailureKind.UNREACHABLE), (Fault.BUSY, FailureKind.THROTTLED)]:
        flutterwave.befall(fault)
        with pytest.raises(ProviderFailed) as problem:
            understood(http, main, notice)
        assert problem.value.failure.kind is kind
    assert isinstance(understood(http, main, notice), PaymentMoved)


@pytest.mark.parametrize(
    ("type", "content", "known"),
    [
        ("transfer.completed", {}, True),
        ("charge.completed", {"status": "failed", "id": 1}, True),
        ("charge.completed", {"status": "successful"}, False),
        ("charge.completed", None, False),
    ],
)
def test_events_without_effect(
    type: str,
    content: object,
    known: bool,
    http: HttpPaymentProviders,
    flutterwave: FlutterwaveServer,
    main: PaymentConnection,
) -> None:
    outcome = understood(http, main, flutterwave.event(type, content))
    assert isinstance(outcome, Unhandled)
    assert outcome.known is known


def test_a_notice_has_the_word_that_was_agreed(
    http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    notice = flutterwave.event("charge.completed", {})
    assert len(http.notices(main, notice.headers, notice.body, NOW)) == 1
    for headers, body, secret in [
        ({}, notice.body, "a1b2c3d4e5f60718"),
        ({"verif-hash": ""}, notice.body, ""),
        ({"verif-hash": " "}, notice.body, " "),
        ({"verif-hash": "a1b2"}, notice.body, "a1b2c3d4e5f60718"),
        ({"verif-hash": "ü"}, notice.body, "a1b2c3d4e5f60718"),
        (notice.headers, b"[]", "a1b2c3d4e5f60718"),
        (notice.headers, b"{", "a1b2c3d4e5f60718"),
    ]:
        checked = replace(main, credentials={**main.credentials, "webhook_secret": secret})
        with pytest.raises(NoticeRejected):
            http.notices(checked, headers, body, NOW)


@pytest.mark.parametrize("faults", [*NO_ANSWER[2:], (Fault.LOST,), (Fault.CLOSED,)])
def test_pages_without_an_answer(
    faults: tuple[Fault, ...], http: HttpPaymentProviders, flutterwave: FlutterwaveServer, main: PaymentConnection
) -> None:
    flutterwave.befall(*faults)
    failure = failure_of(http, main, page())
    assert failure.kind in (FailureKind.UNREACHABLE, FailureKind.REFUSED)
    assert http.ask(main, page()).url


def test_refusals_and_time_outs(flutterwave: FlutterwaveServer, main: PaymentConnection) -> None:
    flutterwave.befall(Fault.SILENT, Fault.BUSY)
    with providers(timeout=0.3) as hasty:
        kinds = [failure_of(hasty, main, page()).kind for _ in range(2)]
        refused = failure_of(hasty, main, page(currency="CHF"))
        wrong = replace(main, credentials={"secret_key": "FLWSECK-wrong"})
        stranger = failure_of(hasty, wrong, page())
        none = failure_of(hasty, main, charge("flutterwave"))
    assert kinds == [FailureKind.UNREACHABLE, FailureKind.THROTTLED]
    assert (refused.kind, refused.message) == (FailureKind.REFUSED, "CHF is not supported")
    assert (stranger.kind, none.kind) == (FailureKind.UNAUTHORIZED, FailureKind.NOT_SUPPORTED)
    assert "FLWSECK-wrong" not in f"{stranger!r} {wrong!r}"
