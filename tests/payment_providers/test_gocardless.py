"""GoCardless over HTTP: our requests, and the translation of its answers and events."""

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
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Fault, Notice
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    Cancel,
    Charge,
    Charged,
    CreateCustomer,
    FailureKind,
    ListCharges,
    ListMethods,
    MethodAdded,
    MethodDetails,
    MethodRemoved,
    NoticeRejected,
    Outcome,
    PayableType,
    PaymentMoved,
    ProviderFailed,
    RefundMoved,
    SetupUrl,
    Unhandled,
    UpdateCustomer,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.outside.payment_providers.kinds import HttpPaymentProviders


@pytest.fixture
def gocardless() -> Iterator[GoCardlessServer]:
    with GoCardlessServer() as server:
        server.knows("cus_acme", "MD1", "MD2")
        yield server


@pytest.fixture
def http() -> Iterator[HttpPaymentProviders]:
    with providers() as opened:
        yield opened


@pytest.fixture
def main(gocardless: GoCardlessServer) -> PaymentConnection:
    return connection_to(gocardless)


def debit(**fields: object) -> Charge:
    return charge("gocardless", **{"currency": "GBP", **fields})


def understood(http: HttpPaymentProviders, main: PaymentConnection, notice: Notice) -> Outcome:
    """The outcome of a message with one event."""
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    (outcome,) = http.outcomes(main, event, NOW)
    return outcome


# Customers and mandates


def test_a_customer_is_made_once(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    request = CreateCustomer(payer=payer(firstname="Ada", lastname=None), key="c-1")
    made = http.ask(main, request)
    call = gocardless.asked("POST /customers")[0]
    assert (call.headers["authorization"], call.key) == ("Bearer sandbox_0123456789", "c-1")
    assert call.headers["gocardless-version"] == "2015-07-06"
    fields = {"email": "pay@acme.example", "company_name": "Acme & Söhne", "given_name": "Ada"}
    assert call.fields == {"customers": fields}
    assert http.ask(main, request) == made
    assert len(gocardless.customers) == 2
    before = len(gocardless.calls)
    http.ask(main, UpdateCustomer(payer=payer()))
    assert len(gocardless.calls) == before


def test_a_refused_customer_says_which_field(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    failure = failure_of(http, main, CreateCustomer(payer=payer(email="nobody"), key="k"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "422")
    assert failure.message == "Validation failed (email is invalid)"


def test_a_wrong_token_is_reported_without_the_token(http: HttpPaymentProviders, gocardless: GoCardlessServer) -> None:
    wrong = connection_to(gocardless, credentials={"access_token": "live_wrong_token"})
    failure = failure_of(http, wrong, debit(provider_method_id="MD1"))
    assert (failure.kind, failure.code) == (FailureKind.UNAUTHORIZED, "401")
    assert "live_wrong_token" not in f"{failure!r} {wrong!r}"


@pytest.mark.parametrize(("currency", "scheme"), [("GBP", "bacs"), ("EUR", "sepa_core"), ("CHF", "bacs")])
def test_a_page_to_sign_a_mandate_on(
    currency: str, scheme: str, http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    page = http.ask(main, SetupUrl(payer=payer(currency=currency), key="s-1", at=NOW))
    assert page.url == "https://pay.gocardless.test/BRF2"
    wanted, flow = gocardless.asked("POST /billing_request")
    assert wanted.fields["billing_requests"] == {
        "mandate_request": {"scheme": scheme},
        "links": {"customer": "cus_acme"},
    }
    back = "https://shop.example/back"
    links = {"billing_request": "BRQ1"}
    assert flow.fields["billing_request_flows"] == {"redirect_uri": back, "exit_uri": back, "links": links}


def test_mandates_that_can_be_charged(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    gocardless.mandate_ended("MD1")
    listed = http.ask(main, ListMethods(payer=payer())).methods
    assert listed == (MethodDetails(provider_method_id="MD2", type="bacs"),)


def test_there_is_no_page_to_pay_on(http: HttpPaymentProviders, main: PaymentConnection) -> None:
    assert failure_of(http, main, checkout()).kind is FailureKind.NOT_SUPPORTED


# Debits


def test_a_debit_is_under_way_until_it_is_paid_out(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    assert http.ask(main, debit(provider_method_id="MD2")) == Charged(
        provider_payment_id="PM1",
        status="pending_submission",
        payment_status=ChargeStatus.PROCESSING,
        method=MethodDetails(provider_method_id="MD2"),
    )
    (call,) = gocardless.calls
    assert (call.line, call.key) == ("POST /payments", "payment-p-1")
    assert call.fields["payments"] == {
        "amount": 1050,
        "currency": "GBP",
        "retry_if_possible": False,
        "metadata": {"svc_invoice_id": "inv-1", "svc_customer_id": "c-1", "invoice_issuing_date": "2024-03-05"},
        "links": {"mandate": "MD2"},
    }


@pytest.mark.parametrize("faults", NO_ANSWER)
def test_whatever_becomes_of_the_answer_a_debit_is_made_once(
    faults: tuple[Fault, ...], http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    gocardless.befall(*faults, only="POST /payments")
    assert failure_of(http, main, debit()).kind is FailureKind.UNREACHABLE
    assert http.ask(main, debit()).provider_payment_id == "PM1"
    assert list(gocardless.payments) == ["PM1"]


def test_time_outs_and_throttling(gocardless: GoCardlessServer, main: PaymentConnection) -> None:
    gocardless.befall(Fault.SILENT, Fault.BUSY)
    with providers(timeout=0.3) as hasty:
        kinds = [failure_of(hasty, main, debit()).kind for _ in range(2)]
    assert kinds == [FailureKind.UNREACHABLE, FailureKind.THROTTLED]


def test_a_key_that_was_used_for_another_amount_is_a_conflict(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    failure = failure_of(http, main, debit(amount_cents=2000))
    assert (failure.kind, failure.code) == (FailureKind.CONFLICT, "idempotent_creation_conflict")
    assert [item["amount"] for item in gocardless.payments.values()] == [1050]


def test_a_debit_that_is_refused(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    gocardless.outcomes.append("invalid")
    failure = failure_of(http, main, debit())
    assert (failure.kind, failure.code, failure.message) == (FailureKind.REFUSED, "422", "Validation failed")


def test_a_mandate_that_has_ended_is_reported_and_another_is_debited(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    gocardless.mandate_ended("MD1")
    charged = http.ask(main, debit(provider_method_id="MD1"))
    assert charged.gone_method_ids == ("MD1",)
    assert charged.method == MethodDetails(provider_method_id="MD2")
    gocardless.mandate_ended("MD2")
    failure = failure_of(http, main, debit(provider_method_id="MD1", payment_id="p-2", key="payment-p-2"))
    assert (failure.code, failure.gone_method_ids) == ("no_mandate_error", ("MD1",))


def test_a_currency_without_direct_debit(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    failure = failure_of(http, main, debit(currency="JPY"))
    assert (failure.kind, failure.code) == (FailureKind.REFUSED, "currency_not_supported")
    assert gocardless.calls == []


def test_a_debit_is_cancelled_while_the_bank_does_not_know_it(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    cancel = Cancel(provider_payment_id="PM1", key="cancel-p-1")
    cancelled = http.ask(main, cancel)
    assert cancelled is not None
    assert (cancelled.status, cancelled.payment_status) == ("cancelled", ChargeStatus.FAILED)
    assert http.ask(main, cancel) is None
    assert failure_of(http, main, replace(cancel, provider_payment_id="PM?")).kind is FailureKind.REFUSED


# Refunds


def test_refunds_of_one_debit_add_up(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    first = http.ask(main, refund("PM1", currency="GBP"))
    second = http.ask(
        main, refund("PM1", currency="GBP", key="note-2", credit_note_id="note-2", refunded_before_cents=400)
    )
    assert (first.provider_refund_id, second.provider_refund_id) == ("RF2", "RF3")
    assert second.refund_status is PaymentStatus.PENDING
    sent = [call.fields["refunds"] for call in gocardless.asked("POST /refunds")]
    assert [(item["amount"], item["total_amount_confirmation"]) for item in sent] == [(400, 400), (400, 800)]
    metadata = {"svc_credit_note_id": "note-1", "svc_invoice_id": "inv-1", "reason": "duplicated_charge"}
    assert (sent[0]["metadata"], gocardless.asked("POST /refunds")[0].key) == (metadata, "note-1")
    too_much = refund("PM1", currency="GBP", key="note-3", credit_note_id="note-3", refunded_before_cents=800)
    failure = failure_of(http, main, too_much)
    assert (failure.kind, failure.message) == (FailureKind.REFUSED, "It is more than was paid")


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_refund_whose_answer_was_lost_is_found_again(
    is_forgotten: bool, http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    gocardless.befall(Fault.LOST, Fault.LOST, only="POST /refunds")
    assert failure_of(http, main, refund("PM1", currency="GBP")).kind is FailureKind.UNREACHABLE
    if is_forgotten:
        gocardless.forget_keys()
    assert http.ask(main, refund("PM1", currency="GBP")).provider_refund_id == "RF2"
    assert gocardless.payments["PM1"]["amount_refunded"] == 400


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("created", PaymentStatus.PENDING),
        ("refund_settled", PaymentStatus.PENDING),
        ("paid", PaymentStatus.SUCCEEDED),
        ("funds_returned", PaymentStatus.FAILED),
        ("bounced", PaymentStatus.FAILED),
        ("failed", PaymentStatus.FAILED),
    ],
)
def test_what_is_reported_of_refunds(
    action: str,
    status: PaymentStatus,
    http: HttpPaymentProviders,
    gocardless: GoCardlessServer,
    main: PaymentConnection,
) -> None:
    moved = understood(http, main, gocardless.refund_event("RF1", action))
    assert moved == RefundMoved(provider_refund_id="RF1", status=action, refund_status=status)


# Events


def test_a_message_is_signed_over_its_very_bytes(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    notice = gocardless.payment_event("PM1", "paid_out")
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    assert (event.type, event.id) == ("payments.paid_out", "EV2")
    assert http.notices(main, notice.headers, notice.body, NOW + timedelta(days=3)) == (event,)
    for headers, body, secret in [
        ({}, notice.body, "w" * 50),
        ({"webhook-signature": notice.headers["webhook-signature"].upper()}, notice.body, "w" * 50),
        ({"webhook-signature": "é"}, notice.body, "w" * 50),
        (notice.headers, notice.forged().body, "w" * 50),
        (notice.headers, notice.body, "other"),
        ({"webhook-signature": gocardless.signature(b"")}, b"", "w" * 50),
        ({"webhook-signature": gocardless.signature(b"{}")}, b"{}", "w" * 50),
    ]:
        checked = replace(main, credentials={**main.credentials, "webhook_secret": secret})
        with pytest.raises(NoticeRejected):
            http.notices(checked, headers, body, NOW)
    blank = gocardless.batch()
    unsigned = replace(main, credentials={"access_token": "t"})
    with pytest.raises(NoticeRejected):
        http.notices(unsigned, blank.headers, blank.body, NOW)


def test_each_event_of_a_message_stands_alone(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    for place in range(2):
        http.ask(main, debit(payment_id=f"p-{place}", key=f"payment-p-{place}"))
    paid = gocardless.event("payments", "paid_out", {"payment": "PM1"})
    lost = gocardless.event("payments", "failed", {"payment": "PM2"})
    notice = gocardless.batch(paid, lost)
    events = http.notices(main, notice.headers, notice.body, NOW)
    moves = [http.outcomes(main, event, NOW)[0] for event in events]
    assert [type(move) for move in moves] == [PaymentMoved, PaymentMoved]
    assert [move.provider_payment_id for move in moves if isinstance(move, PaymentMoved)] == ["PM1", "PM2"]


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("paid_out", ChargeStatus.SUCCEEDED),
        ("failed", ChargeStatus.FAILED),
        ("cancelled", ChargeStatus.FAILED),
        ("customer_approval_denied", ChargeStatus.FAILED),
        ("charged_back", ChargeStatus.FAILED),
    ],
)
def test_what_is_reported_of_debits(
    action: str,
    status: ChargeStatus,
    http: HttpPaymentProviders,
    gocardless: GoCardlessServer,
    main: PaymentConnection,
) -> None:
    http.ask(main, debit())
    moved = understood(http, main, gocardless.payment_event("PM1", action))
    has_failed = status is ChargeStatus.FAILED
    assert moved == PaymentMoved(
        provider_payment_id="PM1",
        status=action,
        payment_status=status,
        is_current=True,
        is_disputed=action == "charged_back",
        happened_at=NOW,
        payable_type=PayableType.INVOICE,
        payable_id="inv-1",
        error_code=f"payments_{action}" if has_failed else None,
        error_message=f"It was {action}." if has_failed else None,
    )


def test_an_event_that_comes_late_says_what_is_true_by_now(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    paid = gocardless.payment_event("PM1", "paid_out")
    gocardless.payment_event("PM1", "failed")
    moved = understood(http, main, paid)
    assert isinstance(moved, PaymentMoved)
    assert (moved.status, moved.payment_status, moved.error_code) == ("failed", ChargeStatus.FAILED, None)
    gocardless.befall(Fault.BROKEN)
    with pytest.raises(ProviderFailed):
        understood(http, main, paid)


def test_a_debit_of_a_request_names_it(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit(payable=request()))
    moved = understood(http, main, gocardless.payment_event("PM1", "paid_out"))
    assert isinstance(moved, PaymentMoved)
    assert (moved.payable_type, moved.payable_id) == (PayableType.PAYMENT_REQUEST, "req-1")


def test_a_mandate_that_was_signed_is_the_customer_s(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    details = MethodDetails(provider_method_id="MD9", type="bacs")
    added = understood(http, main, gocardless.mandate_signed("cus_acme", "MD9"))
    assert added == MethodAdded(method=details, provider_customer_id="cus_acme")


def test_a_mandate_that_is_gone_by_the_time_it_is_reported_is_not_added(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    signed = gocardless.mandate_signed("cus_acme", "MD9")
    gocardless.mandate_ended("MD9")
    assert understood(http, main, signed) == Unhandled(reason="the mandate has ended since")
    del gocardless.mandates["MD9"]
    assert isinstance(understood(http, main, signed), Unhandled)
    gocardless.befall(Fault.BROKEN)
    with pytest.raises(ProviderFailed):
        understood(http, main, signed)


@pytest.mark.parametrize("origin", ["api", "bank", "customer", "gocardless"])
@pytest.mark.parametrize("action", ["cancelled", "failed", "expired", "consumed"])
def test_a_mandate_ends_whoever_ends_it(
    action: str, origin: str, http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    ended = understood(http, main, gocardless.mandate_ended("MD1", action, origin))
    stays_listed = action == "cancelled" and origin != "api"
    assert ended == MethodRemoved(provider_method_id="MD1", stays_listed=stays_listed)


def test_a_mandate_that_is_replaced(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    notice = gocardless.batch(gocardless.event("mandates", "replaced", {"mandate": "MD1", "new_mandate": "MD2"}))
    (event,) = http.notices(main, notice.headers, notice.body, NOW)
    details = MethodDetails(provider_method_id="MD2", type="bacs")
    assert http.outcomes(main, event, NOW) == (
        MethodAdded(method=details, provider_customer_id="cus_acme"),
        MethodRemoved(provider_method_id="MD1"),
    )


@pytest.mark.parametrize(
    ("about", "action", "links", "known"),
    [
        ("payments", "created", {"payment": "PM1"}, True),
        ("payments", "submitted", {"payment": "PM1"}, True),
        ("payments", "confirmed", {"payment": "PM1"}, True),
        ("payments", "late_failure_settled", {"payment": "PM1"}, True),
        ("payments", "chargeback_settled", {"payment": "PM1"}, True),
        # About our debits, and for somebody to look at.
        ("payments", "something_new", {"payment": "PM1"}, False),
        ("payments", "paid_out", {"payment": "PM?"}, False),
        ("refunds", "something_new", {"refund": "RF1"}, False),
        ("mandates", "active", {"mandate": "MD1"}, True),
        ("payouts", "paid", {"payout": "PO1"}, True),
        ("umbrellas", "opened", {}, False),
        ("payments", "paid_out", {}, False),
        ("refunds", "paid", None, False),
    ],
)
def test_events_without_effect(
    about: str,
    action: str,
    links: object,
    known: bool,
    http: HttpPaymentProviders,
    gocardless: GoCardlessServer,
    main: PaymentConnection,
) -> None:
    outcome = understood(http, main, gocardless.batch(gocardless.event(about, action, links)))
    assert isinstance(outcome, Unhandled)
    assert outcome.known is known


# The books


def test_the_books_of_the_account(
    http: HttpPaymentProviders, gocardless: GoCardlessServer, main: PaymentConnection
) -> None:
    http.ask(main, debit())
    gocardless.payment_event("PM1", "paid_out")
    http.ask(main, refund("PM1", currency="GBP"))
    for place in range(520):
        gocardless.payments[f"PM-{place}"] = {**gocardless.payments["PM1"], "id": f"PM-{place}", "status": "failed"}
    times = ListCharges(since=NOW - timedelta(days=1), until=NOW + timedelta(days=1))
    listed = http.ask(main, times).charges
    assert len(listed) == 521
    assert (listed[0].amount_cents, listed[0].currency, listed[0].refunded_cents) == (1050, "GBP", 400)
    assert (listed[0].payment_status, listed[0].created_at) == (ChargeStatus.SUCCEEDED, NOW)
    assert listed[0].metadata["svc_invoice_id"] == "inv-1"
    assert http.ask(main, ListCharges(since=NOW - timedelta(days=1), until=NOW)).charges == ()
