"""Adyen over HTTP: our requests, and the translation of its answers and notifications."""

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
    refund,
    request,
)
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.server import Fault, Notice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    AccountReady,
    AccountRefused,
    Cancel,
    Charge,
    Charged,
    CreateCustomer,
    DisputeLost,
    Done,
    ExpirePage,
    FailureKind,
    ListCharges,
    ListMethods,
    MethodDetails,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    RefundMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders

_PAYER = payer(provider_customer_id="acme")


@pytest.fixture
def adyen() -> Iterator[AdyenServer]:
    with AdyenServer() as server:
        server.knows("acme", "8415", "8416")
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(adyen: AdyenServer) -> PaymentConnection:
    return connection_to(adyen)


def card(**fields: object) -> Charge:
    return charge("adyen", **{"payer": _PAYER, "provider_method_id": "8415", **fields})


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message with one item."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


# Cards


def test_a_link_to_leave_a_card_on(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    page = http.ask(main, SetupUrl(payer=payer(provider_customer_id=None), key="s-1", at=NOW))
    assert page.url == "https://test.adyen.link/PL1"
    (call,) = adyen.calls
    assert (call.line, call.headers["x-api-key"]) == ("POST /v70/paymentLinks", "AQE0123456789")
    assert call.fields == {
        "merchantAccount": "HooliCOM",
        "applicationInfo": {"merchantApplication": {"name": "usagebill"}},
        "reference": "authorization customer acme",
        "amount": {"value": 0, "currency": "EUR"},
        "returnUrl": "https://shop.example/back",
        "shopperReference": "acme",
        "shopperEmail": "pay@acme.example",
        "storePaymentMethodMode": "enabled",
        "recurringProcessingModel": "UnscheduledCardOnFile",
        "expiresAt": "2024-05-13T12:00:00Z",
    }
    refused = failure_of(http, main, SetupUrl(payer=payer(external_id="x", provider_customer_id=None), key="s", at=NOW))
    assert (refused.kind, refused.code) == (FailureKind.REFUSED, "validation")


def test_customers_are_not_made_there(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    assert failure_of(http, main, CreateCustomer(payer=_PAYER, key="k")).kind is FailureKind.NOT_SUPPORTED
    times = ListCharges(since=NOW, until=NOW)
    assert failure_of(http, main, times).kind is FailureKind.NOT_SUPPORTED


def test_cards_on_file(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    listed = http.ask(main, ListMethods(payer=_PAYER)).methods
    assert [method.provider_method_id for method in listed] == ["8415", "8416"]
    assert listed[0] == MethodDetails(
        provider_method_id="8415",
        type="card",
        last4="1111",
        brand="visa",
        expiration_month=3,
        expiration_year=2030,
        card_holder_name="A. Cme",
    )
    adyen.knows("acme")
    assert http.ask(main, ListMethods(payer=_PAYER)).methods == ()


# Charges


def test_a_card_on_file_is_charged_at_once(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    assert http.ask(main, card(provider_method_id="8416")) == Charged(
        provider_payment_id="PSP1",
        status="Authorised",
        payment_status=ChargeStatus.SUCCEEDED,
        method=MethodDetails(provider_method_id="8416"),
    )
    (call,) = adyen.calls
    assert (call.line, call.key) == ("POST /v70/payments", "payment-p-1")
    metadata = {"svc_invoice_id": "inv-1", "svc_customer_id": "c-1", "svc_payment_id": "p-1"}
    assert call.fields == {
        "merchantAccount": "HooliCOM",
        "applicationInfo": {"merchantApplication": {"name": "usagebill"}},
        "amount": {"value": 1050, "currency": "EUR"},
        "reference": "Hooli - Invoice HOO-1-001",
        "paymentMethod": {"type": "scheme", "storedPaymentMethodId": "8416"},
        "shopperReference": "acme",
        "shopperEmail": "pay@acme.example",
        "shopperInteraction": "ContAuth",
        "recurringProcessingModel": "UnscheduledCardOnFile",
        "metadata": {**metadata, "invoice_issuing_date": "2024-03-05", "invoice_type": "subscription"},
    }


def test_the_end_of_a_long_reference_is_kept(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    named = replace(card().payable, reference=f"{'Hooli ' * 30}- Invoice HOO-1-001")
    http.ask(main, card(payable=named))
    reference = adyen.calls[0].fields["reference"]
    assert (len(reference), reference.endswith("Invoice HOO-1-001")) == (80, True)


@pytest.mark.parametrize("faults", NO_ANSWER)
def test_whatever_becomes_of_the_answer_a_card_is_charged_once(
    faults: tuple[Fault, ...], http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    request = card(provider_method_id=None)
    adyen.befall(*faults, only="POST /v70/payments")
    assert failure_of(http, main, request).kind is FailureKind.UNREACHABLE
    assert http.ask(main, request).payment_status is ChargeStatus.SUCCEEDED
    assert adyen.authorised() == {"EUR": 1050}


def test_a_charge_whose_key_may_be_forgotten_is_not_sent_again(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, card(since=NOW - timedelta(days=8), at=NOW))
    assert (failure.kind, failure.code) == (FailureKind.FORGOTTEN, "outcome_unknown")
    assert adyen.calls == []
    http.ask(main, card(since=NOW - timedelta(hours=22), at=NOW))


def test_time_outs_and_throttling(adyen: AdyenServer, main: PaymentConnection) -> None:
    adyen.befall(Fault.SILENT, Fault.BUSY)
    with providers(timeout=0.3) as hasty:
        kinds = [failure_of(hasty, main, card()).kind for _ in range(2)]
    assert kinds == [FailureKind.UNREACHABLE, FailureKind.THROTTLED]


def test_a_request_that_is_still_at_work_is_sent_again(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    adyen.error_once(422, "704", "Request already processed or in progress")
    assert failure_of(http, main, card()).kind is FailureKind.UNREACHABLE
    assert http.ask(main, card()).payment_status is ChargeStatus.SUCCEEDED


def test_a_refused_card(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    adyen.outcomes.append("Refused")
    charged = http.ask(main, card())
    assert (charged.status, charged.payment_status) == ("Refused", ChargeStatus.FAILED)
    assert (charged.error_code, charged.error_message) == ("12", "Not enough balance")


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ("Received", ChargeStatus.PROCESSING),
        ("Pending", ChargeStatus.PROCESSING),
        ("RedirectShopper", ChargeStatus.FAILED),
        ("ChallengeShopper", ChargeStatus.FAILED),
        ("Error", ChargeStatus.FAILED),
        ("SomethingNew", ChargeStatus.PROCESSING),
    ],
)
def test_other_results(
    result: str, status: ChargeStatus, http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    adyen.outcomes.append(result)
    charged = http.ask(main, card())
    assert (charged.status, charged.payment_status) == (result, status)


def test_a_request_that_adyen_does_not_take(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    adyen.outcomes.append("bad")
    failure = failure_of(http, main, card())
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "validation")
    assert (failure.message, failure.details) == ("Structure of the request is invalid", {"code": "702"})


def test_a_wrong_key_and_a_wrong_account(http: HttpPaymentProviders, adyen: AdyenServer) -> None:
    for name in ("api_key", "merchant_account"):
        wrong = connection_to(adyen, credentials={**adyen.credentials, name: "WRONG_AQE99"})
        failure = failure_of(http, wrong, card())
        assert (failure.kind, failure.code) == (FailureKind.UNAUTHORIZED, "security")
        assert "WRONG_AQE99" not in f"{failure!r} {wrong!r}"


def test_cards_that_are_gone_and_customers_without_any(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, card(provider_method_id="8000"))
    assert (failure.kind, failure.gone_method_ids) == (FailureKind.REFUSED, ("8000",))
    charged = http.ask(main, card(provider_method_id=None, payment_id="p-2", key="payment-p-2"))
    assert charged.method == MethodDetails(provider_method_id="8415")
    adyen.knows("acme")
    none = failure_of(http, main, card(provider_method_id=None, payment_id="p-3", key="payment-p-3"))
    assert (none.kind, none.code) == (FailureKind.REFUSED, "no_payment_method")


@pytest.mark.parametrize(
    ("cents", "currency", "wire"), [(500, "JPY", 500), (5125, "KWD", 5125), (500, "CLP", 50000), (12300, "IDR", 123)]
)
def test_amounts_in_adyen_s_own_form(
    cents: int, currency: str, wire: int, http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    charged = http.ask(main, card(amount_cents=cents, currency=currency))
    assert adyen.calls[0].fields["amount"] == {"value": wire, "currency": currency}
    moved = understood(http, main, adyen.about(charged.provider_payment_id, "AUTHORISATION"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.amount_cents, moved.currency) == (cents, currency)


def test_an_amount_that_adyen_cannot_take(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, card(amount_cents=12345, currency="IDR"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "amount_not_representable")
    assert adyen.calls == []


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        ({}, "https://checkout-test.adyen.com/v70/payments"),
        (
            {"live": True, "live_prefix": "179-Hooli"},
            "https://179-Hooli-checkout-live.adyenpayments.com/checkout/v70/payments",
        ),
    ],
)
def test_where_adyen_is(
    fields: dict[str, object],
    host: str,
    monkeypatch: pytest.MonkeyPatch,
    http: HttpPaymentProviders,
    adyen: AdyenServer,
) -> None:
    urls: list[str] = []

    def ask(_: object, method: str, url: str, *rest: object) -> object:
        urls.append(url)
        raise TimeoutError

    monkeypatch.setattr("usagebill.outside.bounded_http.Asking.request", ask)
    failure_of(http, connection_to(adyen, url=None, **fields), card())
    assert urls == [host]
    missing = failure_of(http, connection_to(adyen, url=None, live=True), card())
    assert (missing.code, len(urls)) == ("live_prefix_missing", 1)


# Afterwards


def test_a_cancellation_is_only_requested(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    adyen.outcomes.append("Received")
    http.ask(main, card())
    assert http.ask(main, Cancel(provider_payment_id="PSP1", key="cancel-p-1")) is None
    call = adyen.asked("POST /v70/payments/PSP1/cancels")[0]
    assert (call.key, call.fields) == ("cancel-p-1", {"merchantAccount": "HooliCOM"})
    assert http.ask(main, Cancel(provider_payment_id="PSP?", key="cancel-p-2")) is None
    cancelled = understood(http, main, adyen.about("PSP1", "CANCELLATION"))
    assert cancelled == PaymentMoved(
        provider_payment_id="PSP1",
        status="Cancelled",
        payment_status=ChargeStatus.FAILED,
        is_current=True,
        error_code="Cancelled",
    )
    refused = understood(http, main, adyen.about("PSP1", "CANCELLATION", success="false"))
    assert refused == Unhandled(reason="CANCELLATION changes nothing here", known=False)


def test_a_refund_is_pending_until_adyen_says(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    http.ask(main, card())
    refunded = http.ask(main, refund("PSP1"))
    assert (refunded.provider_refund_id, refunded.refund_status) == ("RPSP2", PaymentStatus.PENDING)
    assert http.ask(main, refund("PSP1")) == refunded
    call = adyen.asked("POST /v70/payments/PSP1/refunds")[0]
    assert (call.key, call.fields["amount"]) == ("note-1", {"value": 400, "currency": "EUR"})
    assert adyen.payments["PSP1"]["refunded"] == 400
    failure = failure_of(http, main, refund("PSP1", key="note-2", amount_cents=700))
    assert (failure.kind, failure.message) == (FailureKind.REFUSED, "Invalid amount specified")


@pytest.mark.parametrize(
    ("code", "success", "status"),
    [
        ("REFUND", "true", PaymentStatus.SUCCEEDED),
        ("REFUND", "false", PaymentStatus.FAILED),
        ("REFUND_FAILED", "true", PaymentStatus.FAILED),
        ("REFUNDED_REVERSED", "true", PaymentStatus.FAILED),
    ],
)
def test_what_is_reported_of_refunds(
    code: str,
    success: str,
    status: PaymentStatus,
    http: HttpPaymentProviders,
    adyen: AdyenServer,
    main: PaymentConnection,
) -> None:
    http.ask(main, card())
    moved = understood(http, main, adyen.about("PSP1", code, pspReference="RPSP2", success=success))
    assert isinstance(moved, RefundMoved)
    assert (moved.provider_refund_id, moved.refund_status) == ("RPSP2", status)


def test_a_dispute_is_about_the_original_payment(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    http.ask(main, card())
    details = {"disputeStatus": "Lost"}
    lost = understood(http, main, adyen.about("PSP1", "CHARGEBACK", additionalData=details, reason="Fraud"))
    assert lost == DisputeLost(provider_payment_id="PSP1", lost_at=NOW, reason="Fraud")
    open_still = adyen.about("PSP1", "CHARGEBACK", additionalData={"disputeStatus": "Undefended"})
    assert understood(http, main, open_still) == Unhandled(reason="CHARGEBACK changes nothing here", known=False)


# Pages


def test_a_link_to_pay_an_invoice_on(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    page = http.ask(main, checkout(payer=_PAYER))
    (call,) = adyen.calls
    assert call.key == "page-1"
    assert call.fields == {
        "merchantAccount": "HooliCOM",
        "applicationInfo": {"merchantApplication": {"name": "usagebill"}},
        "reference": "HOO-1-001",
        "amount": {"value": 1050, "currency": "EUR"},
        "returnUrl": "https://shop.example/back",
        "shopperReference": "acme",
        "shopperEmail": "pay@acme.example",
        "storePaymentMethodMode": "enabled",
        "recurringProcessingModel": "UnscheduledCardOnFile",
        "expiresAt": "2024-03-06T12:00:00Z",
        "metadata": {
            "svc_invoice_id": "inv-1",
            "svc_customer_id": "c-1",
            "invoice_issuing_date": "2024-03-05",
            "invoice_type": "subscription",
            "payment_type": "one-time",
        },
    }
    assert page.provider_page_id == "PL1"
    assert understood(http, main, adyen.link_paid("PL1", 1000)) == PaymentMoved(
        provider_payment_id="PSP2",
        status="succeeded",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=1000,
        currency="EUR",
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        creates=True,
        happened_at=NOW,
    )


def test_a_link_to_pay_a_request_on(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    http.ask(main, checkout(payer=_PAYER, payable=request(), expires_at=None))
    sent = adyen.calls[0].fields
    assert (sent["reference"], sent["expiresAt"]) == ("Overdue invoices", "2024-05-14T11:59:00Z")
    failed = understood(http, main, adyen.link_paid("PL1", paid=False))
    assert isinstance(failed, PaymentMoved)
    assert (failed.payment_status, failed.error_message) == (ChargeStatus.FAILED, "Expired Card")
    assert (failed.payable_type, failed.payable_id) == (PayableType.PAYMENT_REQUEST, "req-1")


def test_a_link_is_ended(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    http.ask(main, checkout(payer=_PAYER))
    for id in ("PL1", "PL1", "PL?"):
        assert http.ask(main, ExpirePage(provider_page_id=id)) == Done()
    assert adyen.links["PL1"]["status"] == "expired"


# Notifications


def test_a_card_that_was_left_makes_the_customer(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    ready = understood(http, main, adyen.card_left("acme", "8417"))
    details = MethodDetails(
        provider_method_id="8417", type="card", last4="1111", brand="visa", expiration_month=3, expiration_year=2030
    )
    assert ready == AccountReady(external_customer_id="acme", provider_customer_id="acme", method=details)
    newer = adyen.notification(
        eventCode="AUTHORISATION",
        additionalData={"tokenization.shopperReference": "acme", "tokenization.storedPaymentMethodId": "8418"},
    )
    assert isinstance(ready := understood(http, main, newer), AccountReady)
    assert ready.method is not None
    assert ready.method.provider_method_id == "8418"
    refused = understood(http, main, adyen.card_left("acme", "8419", accepted=False))
    assert refused == AccountRefused(external_customer_id="acme", message="Refused", error_code="AUTHORISATION")


def test_a_charge_that_was_under_way_is_finished_by_a_notification(
    http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    adyen.outcomes.append("Received")
    http.ask(main, card())
    details = {"metadata.svc_payment_id": "p-1"}
    moved = understood(http, main, adyen.about("PSP1", "AUTHORISATION", additionalData=details))
    assert isinstance(moved, PaymentMoved)
    assert (moved.provider_payment_id, moved.payment_id, moved.creates) == ("PSP1", "p-1", False)
    assert moved.payment_status is ChargeStatus.SUCCEEDED


def test_every_item_is_signed(http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection) -> None:
    good = adyen.item(eventCode="REPORT_AVAILABLE")
    other = adyen.item(eventCode="OFFER_CLOSED")
    both = adyen.batch(good, other)
    assert [event.type for event in http.notices(main, {}, both.body, NOW)] == ["REPORT_AVAILABLE", "OFFER_CLOSED"]
    again = http.notices(main, {}, adyen.batch(good).body, NOW + timedelta(days=9))
    assert again == http.notices(main, {}, adyen.batch(good).body, NOW)
    forged = [
        {**good, "success": "false"},
        {**good, "amount": {"value": 1, "currency": "EUR"}},
        {**good, "pspReference": "other"},
        {**good, "additionalData": {}},
        {**good, "additionalData": {"hmacSignature": "ü"}},
        {**good, "additionalData": {"hmacSignature": good["additionalData"]["hmacSignature"] + "A"}},
        "text",
    ]
    for item in forged:
        with pytest.raises(NoticeRejected):
            http.notices(main, {}, adyen.batch(other, item).body, NOW)
    for body in (b"", b"{}", b"[]", b"\xff"):
        with pytest.raises(NoticeRejected):
            http.notices(main, {}, body, NOW)
    for key in ("", "00", "not hex"):
        unsigned = replace(main, credentials={**main.credentials, "hmac_key": key})
        with pytest.raises(NoticeRejected):
            http.notices(unsigned, {}, adyen.batch(good).body, NOW)


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"eventCode": "REPORT_AVAILABLE"}, True),
        ({"eventCode": "RECURRING_CONTRACT"}, True),
        ({"eventCode": "CAPTURE"}, True),
        # About our payments, and for somebody to look at: a dispute has begun.
        ({"eventCode": "NOTIFICATION_OF_CHARGEBACK"}, False),
        ({"eventCode": "REQUEST_FOR_INFORMATION"}, False),
        ({"eventCode": "NOTIFICATION_OF_FRAUD"}, False),
        ({"eventCode": "CHARGEBACK", "success": "false"}, False),
        ({"eventCode": "REFUND_FAILED", "success": "false"}, False),
        ({"eventCode": "SOMETHING_NEW"}, False),
        ({"eventCode": "CHARGEBACK_REVERSED"}, False),
        ({"eventCode": "AUTHORISATION"}, False),
        ({"eventCode": "AUTHORISATION", "amount": {"value": 5, "currency": "XXX"}}, False),
        ({"eventCode": "CANCELLATION"}, False),
        ({"eventCode": "AUTHORISATION", "merchantAccountCode": "Other"}, True),
    ],
)
def test_notifications_without_effect(
    fields: dict[str, object], known: bool, http: HttpPaymentProviders, adyen: AdyenServer, main: PaymentConnection
) -> None:
    outcome = understood(http, main, adyen.notification(**fields))
    assert isinstance(outcome, Unhandled)
    assert outcome.known is known
