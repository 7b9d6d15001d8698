"""Cashfree over HTTP: its links, and the translation of its notices."""

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
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.server import Fault, Notice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    Cancel,
    CheckoutUrl,
    Done,
    ExpirePage,
    FailureKind,
    ListMethods,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    SetupUrl,
    Unhandled,
)
from usagebill.core.statuses import ChargeStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders


@pytest.fixture
def cashfree() -> Iterator[CashfreeServer]:
    with CashfreeServer() as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(cashfree: CashfreeServer) -> PaymentConnection:
    return connection_to(cashfree)


def link(**fields: object) -> CheckoutUrl:
    return checkout(**{"currency": "INR", "amount_cents": 20012, **fields})


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


def test_a_link_to_pay_an_invoice_on(
    http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    page = http.ask(main, link())
    assert page.url == "https://payments-test.cashfree.test/links/page-1"
    (call,) = cashfree.calls
    assert (call.line, call.key) == ("POST /links", "page-1")
    assert b'"link_amount":200.12,' in call.body
    assert call.fields == {
        "link_id": "page-1",
        "link_amount": 200.12,
        "link_currency": "INR",
        "link_purpose": "inv-1",
        "customer_details": {
            "customer_phone": "+4930123",
            "customer_email": "pay@acme.example",
            "customer_name": "Acme & Söhne",
        },
        "link_notify": {"send_sms": False, "send_email": False},
        "link_meta": {"upi_intent": True, "return_url": "https://shop.example/back"},
        "link_notes": {
            "svc_invoice_id": "inv-1",
            "svc_customer_id": "c-1",
            "invoice_issuing_date": "2024-03-05",
            "payment_type": "one-time",
        },
        "link_expiry_time": "2024-03-06T12:00:00+00:00",
        "link_partial_payments": False,
        "link_auto_reminders": False,
    }


def test_a_link_to_pay_a_request_on_lasts_ten_minutes(
    http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    who = payer(phone=None, email=None)
    http.ask(main, link(payable=request(), expires_at=None, payer=who))
    fields = cashfree.calls[0].fields
    assert fields["link_expiry_time"] == "2024-03-05T12:10:00+00:00"
    assert fields["customer_details"] == {"customer_phone": "9999999999", "customer_name": "Acme & Söhne"}
    assert fields["link_notes"] == {
        "svc_customer_id": "c-1",
        "svc_payable_id": "req-1",
        "svc_payable_type": "PaymentRequest",
        "payment_type": "one-time",
        "payment_issuing_date": "2024-03-05T12:00:00+00:00",
    }
    moved = understood(http, main, cashfree.link_event("page-1"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.payable_type, moved.payable_id) == (PayableType.PAYMENT_REQUEST, "req-1")


@pytest.mark.parametrize("faults", [*NO_ANSWER[2:], (Fault.LOST,), (Fault.CLOSED,)])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_whatever_becomes_of_the_answer_there_is_one_link(
    is_forgotten: bool,
    faults: tuple[Fault, ...],
    http: HttpPaymentProviders,
    cashfree: CashfreeServer,
    main: PaymentConnection,
) -> None:
    cashfree.befall(*faults)
    assert failure_of(http, main, link()).kind in (FailureKind.UNREACHABLE, FailureKind.REFUSED)
    if is_forgotten:
        cashfree.forget_keys()
    assert http.ask(main, link()).url == "https://payments-test.cashfree.test/links/page-1"
    assert list(cashfree.links) == ["page-1"]


def test_refusals_time_outs_and_throttling(cashfree: CashfreeServer, main: PaymentConnection) -> None:
    cashfree.befall(Fault.SILENT, Fault.BUSY, Fault.BROKEN)
    with providers(timeout=0.3) as hasty:
        kinds = [failure_of(hasty, main, link()).kind for _ in range(3)]
        refused = failure_of(hasty, main, link(amount_cents=99))
        wrong = replace(main, credentials={"client_id": "x", "client_secret": "cfsk_wrong"})
        stranger = failure_of(hasty, wrong, link())
    assert kinds == [FailureKind.UNREACHABLE, FailureKind.THROTTLED, FailureKind.UNREACHABLE]
    assert (refused.kind, refused.code) == (FailureKind.REFUSED, "link_amount_invalid")
    assert refused.message == "link_amount : should be at least 1"
    assert stranger.kind is FailureKind.UNAUTHORIZED
    assert "cfsk_wrong" not in f"{stranger!r} {wrong!r}"


def test_a_link_is_ended(http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection) -> None:
    http.ask(main, link())
    for id in ("page-1", "page-1", "page-?"):
        assert http.ask(main, ExpirePage(provider_page_id=id)) == Done()
    assert cashfree.links["page-1"]["link_status"] == "CANCELLED"


def test_what_it_does_not_do(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    for unsupported in (charge("cashfree"), refund("1"), SetupUrl(payer=payer(), key="k", at=NOW)):
        assert failure_of(http, main, unsupported).kind is FailureKind.NOT_SUPPORTED
    assert http.ask(main, ListMethods(payer=payer())).methods == ()
    assert http.ask(main, Cancel(provider_payment_id="1", key="k")) is None


@pytest.mark.parametrize(("paid", "cents"), [(None, 20012), ("200.12", 20012), ("150.5", 15050), ("1000000", 10**8)])
def test_a_link_that_is_paid(
    paid: str | None, cents: int, http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    http.ask(main, link())
    assert understood(http, main, cashfree.link_event("page-1", paid=paid)) == PaymentMoved(
        # A link is paid once and in full, so its id is the payment's.
        provider_payment_id="1",
        known_as=("page-1", "1021206"),
        status="PAID",
        payment_status=ChargeStatus.SUCCEEDED,
        amount_cents=cents,
        currency="INR",
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        creates=True,
        happened_at=NOW,
    )
    without_order = understood(http, main, cashfree.link_event("page-1", order=None))
    assert isinstance(without_order, PaymentMoved)
    assert without_order.provider_payment_id == "1"


@pytest.mark.parametrize("status", ["EXPIRED", "CANCELLED"])
def test_links_that_are_not_paid_change_nothing(
    status: str, http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    http.ask(main, link())
    outcome = understood(http, main, cashfree.link_event("page-1", status))
    assert outcome == Unhandled(reason=f"the link is {status}")


@pytest.mark.parametrize(
    ("type", "content", "known"),
    [
        ("PAYMENT_SUCCESS_WEBHOOK", {}, True),
        ("PAYMENT_FAILED_WEBHOOK", {}, True),
        ("PAYMENT_USER_DROPPED_WEBHOOK", {}, True),
        ("REFUND_STATUS_WEBHOOK", {}, False),
        ("AUTO_REFUND_STATUS_WEBHOOK", {}, False),
        ("DISPUTE_CREATED", {}, False),
        ("SOMETHING_NEW", {}, False),
        ("PAYMENT_LINK_EVENT", {"link_status": "PARTIALLY_PAID"}, False),
        ("PAYMENT_LINK_EVENT", {}, False),
        ("PAYMENT_LINK_EVENT", {"link_status": "LOST"}, False),
        ("PAYMENT_LINK_EVENT", {"link_status": "PAID", "link_notes": {}}, True),
        ("PAYMENT_LINK_EVENT", {"link_status": "PAID", "link_notes": {"svc_invoice_id": "i"}}, False),
    ],
)
def test_events_without_effect(
    type: str,
    content: object,
    known: bool,
    http: HttpPaymentProviders,
    cashfree: CashfreeServer,
    main: PaymentConnection,
) -> None:
    outcome = understood(http, main, cashfree.event(type, content))
    assert isinstance(outcome, Unhandled)
    assert outcome.known is known


def test_a_notice_is_signed_over_its_time_and_its_very_bytes(
    http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    http.ask(main, link())
    notice = cashfree.link_event("page-1")
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    assert http.notices(main, notice.headers, notice.body, NOW) == (event,)
    older = {name.replace("webhook", "cashfree"): item for name, item in notice.headers.items()}
    assert http.notices(main, older, notice.body, NOW + timedelta(seconds=300)) == (event,)
    in_seconds = cashfree.signed(notice.body, str(int(NOW.timestamp())))
    assert http.notices(main, in_seconds.headers, notice.body, NOW) == (event,)
    signature = notice.headers["x-webhook-signature"]
    for headers, body, now in [
        ({}, notice.body, NOW),
        ({"x-webhook-signature": signature}, notice.body, NOW),
        ({"x-webhook-timestamp": "1", "x-webhook-signature": signature}, notice.body, NOW),
        ({**notice.headers, "x-webhook-signature": "ü"}, notice.body, NOW),
        (notice.headers, notice.forged().body, NOW),
        (notice.headers, notice.body, NOW + timedelta(seconds=301)),
        (notice.headers, notice.body, NOW - timedelta(seconds=301)),
        (cashfree.signed(b"[]", "1709640000").headers, b"[]", NOW),
        (cashfree.signed(notice.body, "noon").headers, notice.body, NOW),
        (cashfree.signed(notice.body, "9" * 5000).headers, notice.body, NOW),
    ]:
        with pytest.raises(NoticeRejected):
            http.notices(main, headers, body, now)


def test_an_account_may_sign_with_a_secret_for_notices_alone(
    http: HttpPaymentProviders, cashfree: CashfreeServer, main: PaymentConnection
) -> None:
    http.ask(main, link())
    body = cashfree.link_event("page-1").body
    signed = cashfree.signed(body, str(int(NOW.timestamp())), "whsec_own")
    with pytest.raises(NoticeRejected):
        http.notices(main, signed.headers, body, NOW)
    with_webhook_secret = replace(main, credentials={**main.credentials, "webhook_secret": "whsec_own"})
    assert len(http.notices(with_webhook_secret, signed.headers, body, NOW)) == 1
