"""Money that the bank takes back: what was returned is due again, a lost dispute is something else and can be won."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_providers.test_received_on import succeeded, under_way
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Notice
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


def paid_at_stripe(life: Life, stripe: StripeServer) -> str:
    life.notice(stripe.card_added("cus_1", "pm_1"))
    life.invoice()
    return next(iter(stripe.intents))


def paid_at_gocardless(life: Life, gocardless: GoCardlessServer) -> str:
    life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
    life.invoice()
    (debit,) = gocardless.payments
    life.notice(gocardless.payment_event(debit, "paid_out"))
    return debit


def paid_at_adyen(life: Life, adyen: AdyenServer) -> str:
    life.notice(adyen.card_left("acme", "8415"))
    life.invoice()
    return list(adyen.payments)[-1]


def about(code: str, reason: str = "AM04", status: str = "Lost") -> Callable[[AdyenServer, str], Notice]:
    details = {"chargebackReasonCode": reason, "disputeStatus": status}
    return lambda adyen, charge: adyen.about(charge, code, additionalData=details)


@dataclass(frozen=True)
class Case:
    """What a provider says of a charge that succeeded, `again` to say so a second time in other words."""

    server: type[Any]
    currency: str
    pay: Callable[[Any, Any], str]
    say: Callable[[Any, str], Notice]
    reason: str | None = None


STRIPE = (StripeServer, "EUR", paid_at_stripe)
GOCARDLESS = (GoCardlessServer, "GBP", paid_at_gocardless)
ADYEN = (AdyenServer, "EUR", paid_at_adyen)
RETURNED = {
    "stripe debit": Case(
        *STRIPE, lambda server, id: server.dispute_closed(id, "lost", "insufficient_funds"), "insufficient_funds"
    ),
    "gocardless late failure": Case(
        *GOCARDLESS, lambda server, id: server.payment_event(id, "failed"), "payments_failed"
    ),
    "adyen debit": Case(*ADYEN, about("CHARGEBACK"), "AM04"),
    "adyen capture": Case(*ADYEN, lambda server, id: server.about(id, "CAPTURE_FAILED"), "CaptureFailed"),
    "adyen capture refused": Case(
        *ADYEN, lambda server, id: server.about(id, "CAPTURE", success="false"), "CaptureFailed"
    ),
    "adyen cancellation": Case(*ADYEN, lambda server, id: server.about(id, "CANCELLATION"), "Cancelled"),
}
DISPUTED = {
    "stripe": Case(*STRIPE, lambda server, id: server.dispute_closed(id)),
    "gocardless": Case(*GOCARDLESS, lambda server, id: server.payment_event(id, "charged_back")),
    "adyen": Case(*ADYEN, about("CHARGEBACK", "MD06")),
    "adyen accepted": Case(*ADYEN, about("CHARGEBACK", "10.4", "Accepted")),
    "adyen undefended": Case(*ADYEN, about("DISPUTE_DEFENSE_PERIOD_ENDED", "10.4", "Expired")),
    "adyen second": Case(*ADYEN, about("SECOND_CHARGEBACK", "10.4", "")),
}
WON: dict[type[Any], list[Callable[[Any, str], Notice]]] = {
    StripeServer: [
        lambda server, id: server.dispute_closed(id, "won"),
        lambda server, id: server.dispute_event("funds_reinstated", id, "won"),
    ],
    GoCardlessServer: [lambda server, id: server.event_now(id, "chargeback_cancelled", "paid_out")],
    AdyenServer: [about("CHARGEBACK_REVERSED", "10.4", "Won"), about("PREARBITRATION_WON", "10.4", "Won")],
}


def ledger(life: Life) -> dict[str, int]:
    """The balances of the books, in cents by account, without zeros."""
    balances: dict[str, int] = {}
    for row in life._ask("GET", "/ledger?per_page=100")["movements"]:
        balances[row["account"]] = balances.get(row["account"], 0) + row["amount_cents"]
    return {account: cents for account, cents in balances.items() if cents}


def the_payment(life: Life) -> Any:
    return life.payments()[-1]


def the_invoice(life: Life) -> Any:
    (invoice,) = life.box.invoices()
    return life.reread(invoice)


@pytest.mark.parametrize("case", RETURNED.values(), ids=RETURNED)
def test_a_payment_that_was_returned_leaves_the_debt(case: Case, box: Scenario) -> None:
    server = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        charge = case.pay(life, server)
        life.assert_paid(the_invoice(life))
        assert ledger(life) == {"cash": 1050, "revenue": -1050}
        for _ in range(2):
            assert life.notice(case.say(server, charge)) == 200

        payment, invoice = the_payment(life), the_invoice(life)
        assert (payment["payment_status"], payment["status"]) == ("failed", "returned")
        assert payment["error_code"] == case.reason
        due = [invoice[name] for name in ("payment_status", "total_paid_amount_cents", "total_due_amount_cents")]
        assert (due, invoice["payment_dispute_lost_at"]) == (["failed", 0, 1050], None)
        assert invoice["error_details"][0]["details"]["payment_error"] == case.reason
        assert ledger(life) == {"receivable": 1050, "revenue": -1050}
        told = life.sent("payment.returned", "invoice.payment_status_updated", "invoice.payment_failure")
        assert told[-3:] == ["payment.returned", "invoice.payment_status_updated", "invoice.payment_failure"]
        assert told.count("payment.returned") == 1
        assert box.billing.audit().findings == ()

        # It can be collected again, and is overdue in time.
        box.travel_to("2024-03-07T12:00:00Z")
        assert the_invoice(life)["payment_overdue"]
        life._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
        box.run_due()
        assert len(life.payments()) == 2


@pytest.mark.parametrize("case", DISPUTED.values(), ids=DISPUTED)
def test_a_lost_dispute_is_something_else_and_can_be_won(case: Case, box: Scenario) -> None:
    server = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        charge = case.pay(life, server)
        for _ in range(2):
            assert life.notice(case.say(server, charge)) == 200
        life.assert_paid(the_invoice(life))
        assert the_invoice(life)["payment_dispute_lost_at"] == "2024-03-05T12:00:00.000Z"
        assert the_payment(life)["status"] == "dispute_lost"
        assert ledger(life) == {"lost_disputes": 1050, "revenue": -1050}
        assert box.billing.audit().findings == ()

        for say in WON[case.server]:
            assert life.notice(say(server, charge)) == 200
        life.assert_paid(the_invoice(life))
        assert the_invoice(life)["payment_dispute_lost_at"] is None
        assert the_payment(life)["status"] == "dispute_won"
        assert ledger(life) == {"cash": 1050, "revenue": -1050}
        assert life.sent("invoice.payment_dispute_lost", "invoice.payment_dispute_won") == [
            "invoice.payment_dispute_lost",
            "invoice.payment_dispute_won",
        ]
        assert box.billing.audit().findings == ()


@pytest.mark.parametrize("case", [DISPUTED["stripe"], DISPUTED["gocardless"], DISPUTED["adyen"]])
def test_a_dispute_that_was_not_lost_cannot_be_won(case: Case, box: Scenario) -> None:
    server = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        charge = case.pay(life, server)
        for say in WON[case.server]:
            assert life.notice(say(server, charge)) == 200
        life.assert_paid(the_invoice(life))
        assert life.sent("invoice.payment_dispute_won") == []
        assert life.unhandled() == []


def test_events_about_a_debit_come_in_any_order(box: Scenario) -> None:
    """Paid out, then returned; told of the return first."""
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
        life.invoice()
        (debit,) = gocardless.payments
        paid = gocardless.payment_event(debit, "paid_out")
        life.notice(gocardless.payment_event(debit, "failed"))
        life.notice(paid)
        assert the_invoice(life)["payment_status"] == "failed"
        assert ledger(life) == {"receivable": 1050, "revenue": -1050}


def test_a_debit_that_is_taken_after_all_is_paid(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        debit = paid_at_gocardless(life, gocardless)
        life.notice(gocardless.payment_event(debit, "failed"))
        life.notice(gocardless.event_now(debit, "resubmission_requested", "pending_submission"))
        assert the_invoice(life)["payment_status"] == "failed"
        life.notice(gocardless.payment_event(debit, "paid_out"))
        life.assert_paid(the_invoice(life))
        assert ledger(life) == {"cash": 1050, "revenue": -1050}


def test_a_payment_that_was_not_needed_is_returned_and_the_invoice_stays_paid(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        invoice = life.invoice()
        life.page(invoice)
        payment = {"invoice_id": invoice["svc_id"], "amount_cents": 1050, "reference": "bank"}
        life._ask("POST", "/payments", payment=payment)
        life.notice(stripe.page_paid(list(stripe.sessions)[-1]))
        assert life.reread(invoice)["total_paid_amount_cents"] == 2100
        (intent,) = stripe.intents
        life.notice(stripe.dispute_closed(intent, "lost", "insufficient_funds"))
        life.assert_paid(invoice)
        assert life.sent("payment.returned", "invoice.payment_failure") == ["payment.returned"]
        assert box.billing.audit().findings == ()


def test_the_payment_of_a_request_that_was_returned_leaves_its_debts(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        box.entity(name="Lumen", email="billing@lumen.example")
        first, second = life.invoice(), life.invoice()
        box.travel_to("2024-03-07T12:00:00Z")
        ids = [first["svc_id"], second["svc_id"]]
        life._ask("POST", "/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": ids})
        box.run_due()
        life.notice(stripe.page_paid(list(stripe.sessions)[-1]))
        for invoice in (first, second):
            life.assert_paid(invoice)
        (intent,) = (id for id, item in stripe.intents.items() if item["status"] == "succeeded")
        assert life.sent("payment_request.payment_failure") == ["payment_request.payment_failure"]
        life.notice(stripe.dispute_closed(intent, "lost", "insufficient_funds"))
        assert [life.reread(item)["total_due_amount_cents"] for item in (first, second)] == [1050, 1050]
        assert [life.reread(item)["payment_status"] for item in (first, second)] == ["failed", "failed"]
        (request,) = life._ask("GET", "/payment_requests")["payment_requests"]
        assert request["payment_status"] == "failed"
        assert life.sent("payment_request.payment_failure") == ["payment_request.payment_failure"] * 2
        assert ledger(life) == {"receivable": 2100, "revenue": -2100}
        box.travel_to("2024-03-08T12:00:00Z")
        assert [life.reread(item)["payment_overdue"] for item in (first, second)] == [True, True]
        assert box.billing.audit().findings == ()


def test_only_the_payment_in_dispute_is_lost(box: Scenario) -> None:
    """400 and 650 cents on two pages; the second is disputed, then the first too, then the second is won."""
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        invoice = life.invoice()
        for cents in (400, 650):
            life.page(invoice)
            life.notice(stripe.page_paid(list(stripe.sessions)[-1], amount=cents))
        first, second = stripe.intents
        for intent, lost in ((second, 650), (first, 1050)):
            life.notice(stripe.dispute_closed(intent))
            assert ledger(life).get("lost_disputes") == lost
        life.notice(stripe.dispute_closed(second, "won"))
        assert ledger(life) == {"cash": 650, "lost_disputes": 400, "revenue": -1050}
        assert life.reread(invoice)["payment_dispute_lost_at"] is not None
        assert box.billing.audit().findings == ()


def test_credits_of_a_top_up_that_was_returned_stay_and_are_owed(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "paid_credits": "100"}
        made = life._ask("POST", "/wallets", wallet=wallet)["wallet"]
        box.run_due()
        box.travel_to("2024-03-05T13:00:00Z")

        def credits() -> str:
            balance: str = life._ask("GET", f"/wallets/{made['svc_id']}")["wallet"]["credits_balance"]
            return balance

        assert credits() == "100.0"
        (intent,) = stripe.intents
        life.notice(stripe.dispute_closed(intent, "lost", "insufficient_funds"))
        assert (credits(), the_invoice(life)["total_due_amount_cents"]) == ("100.0", 10_000)
        life._ask("POST", f"/invoices/{the_invoice(life)['svc_id']}/retry_payment")
        box.run_due()
        assert (credits(), the_invoice(life)["payment_status"]) == ("100.0", "succeeded")
        assert box.billing.audit().findings == ()


def test_a_loss_that_is_told_after_the_win_is_old_news(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        intent = paid_at_stripe(life, stripe)
        lost = stripe.dispute_closed(intent)
        box.travel_to("2024-03-05T12:03:00Z")
        life.notice(stripe.dispute_event("funds_reinstated", intent, "won"))
        life.notice(lost)
        life.assert_paid(the_invoice(life))
        assert the_invoice(life)["payment_dispute_lost_at"] is None
        assert ledger(life) == {"cash": 1050, "revenue": -1050}
        # A new dispute is another matter.
        box.travel_to("2024-03-06T12:00:00Z")
        life.notice(stripe.dispute_closed(intent))
        assert the_payment(life)["status"] == "dispute_lost"
        assert ledger(life) == {"lost_disputes": 1050, "revenue": -1050}


def test_a_capture_that_failed_long_before_its_payment_is_told(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        adyen.outcomes.append("Refused")
        invoice = life.invoice()
        link = life.page(invoice).rpartition("/")[2]
        paid = adyen.link_paid(link)
        life.notice(adyen.about(list(adyen.payments)[-1], "CAPTURE_FAILED"))
        box.travel_to("2024-03-05T13:00:00Z")
        assert life.unhandled() == ["CAPTURE_FAILED"]
        life.notice(paid)
        assert (life.reread(invoice)["total_due_amount_cents"], life.unhandled()) == (1050, [])
        assert ledger(life) == {"receivable": 1050, "revenue": -1050}


@pytest.mark.parametrize("server", [StripeServer, AdyenServer])
@pytest.mark.parametrize("second_first", [True, False])
def test_a_second_dispute_and_the_end_of_the_first_one_are_told_in_any_order(
    box: Scenario, server: type[Any], second_first: bool
) -> None:
    case = DISPUTED["stripe" if server is StripeServer else "adyen"]
    provider = server(now=lambda: box.now)
    with living(box, provider) as life:
        charge = case.pay(life, provider)
        told = []
        for minute, say in enumerate((case.say, WON[server][0], case.say), 1):
            box.travel_to(f"2024-03-05T12:0{minute}:00Z")
            told.append(say(provider, charge))
        box.travel_to("2024-03-05T12:04:00Z")
        first, won, second = told
        for notice in (first, second, won) if second_first else (first, won, second):
            life.notice(notice)
        assert the_payment(life)["status"] == "dispute_lost"
        assert the_invoice(life)["payment_dispute_lost_at"] is not None
        assert ledger(life) == {"lost_disputes": 1050, "revenue": -1050}
        assert box.billing.audit().findings == ()
        # The end of the second one is news.
        box.travel_to("2024-03-06T12:00:00Z")
        life.notice(WON[server][0](provider, charge))
        assert ledger(life) == {"cash": 1050, "revenue": -1050}


@pytest.mark.parametrize("case", RETURNED.values(), ids=RETURNED)
def test_a_return_that_is_told_before_the_success_of_its_charge_counts(case: Case, box: Scenario) -> None:
    server = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        under_way(life, server)
        invoice = life.invoice()
        paid = succeeded(server)
        charge = list(getattr(server, "intents", None) or server.payments)[-1]
        life.notice(case.say(server, charge))
        assert life.reread(invoice)["payment_status"] == "failed"
        for _ in range(2):
            life.notice(paid)
        assert (the_payment(life)["payment_status"], life.unhandled()) == ("failed", [])
        assert life.reread(invoice)["total_due_amount_cents"] == 1050
        assert ledger(life) == {"receivable": 1050, "revenue": -1050}
        assert box.billing.audit().findings == ()
