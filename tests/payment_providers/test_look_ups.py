"""Charges and refunds of which no notice comes: the provider is asked, and no wait is for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.flutterwave import FlutterwaveServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.moneyhash import MoneyHashServer
from tests.payment_servers.server import Fault
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


def statuses(life: Life) -> list[tuple[str, str]]:
    """The provider's state of each payment, and ours, oldest first."""
    payments = sorted(life.payments(), key=lambda payment: payment["created_at"])
    return [(payment["status"], payment["payment_status"]) for payment in payments]


def retry(life: Life, invoice: Any) -> None:
    life._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
    life.box.run_due()


def failures(life: Life) -> list[tuple[str, str]]:
    """The code and the message of each failure that was told."""
    messages = [item for item in life.box.webhooks if item["webhook_type"] == "invoice.payment_failure"]
    errors = [message["payment_provider_invoice_payment_error"]["provider_error"] for message in messages]
    return [(error["error_code"], error["message"]) for error in errors]


@pytest.mark.parametrize(
    ("word", "outcome"), [("succeeded", "succeeded"), ("canceled", "failed"), ("requires_payment_method", "failed")]
)
def test_a_charge_at_stripe_whose_notice_was_lost_is_settled_within_the_hour(
    word: str, outcome: str, box: Scenario
) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.append("processing")
        invoice = life.invoice()
        (intent,) = stripe.intents
        stripe.intents[intent]["status"] = word
        box.travel_to("2024-03-05T12:59:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        box.travel_to("2024-03-05T13:01:00Z")
        assert life.reread(invoice)["payment_status"] == outcome
        # The notice comes after all.
        life.notice(stripe.payment_event(intent, "succeeded" if outcome == "succeeded" else "payment_failed"))
        assert len(life.payments()) == 1
        assert life.reread(invoice)["total_paid_amount_cents"] == (1050 if outcome == "succeeded" else 0)
        assert life.sent("payment.succeeded", "invoice.payment_failure") == [
            "payment.succeeded" if outcome == "succeeded" else "invoice.payment_failure"
        ]


def test_a_confirmation_that_never_comes_ends_after_a_day_and_the_invoice_can_be_charged(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        box.billing.payment_connections.update("main", supports_3ds=True)
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.extend(["needs_action", "needs_action"])
        invoice = life.invoice()
        box.travel_to("2024-03-06T11:00:00Z")
        assert statuses(life)[-1] == ("requires_action", "processing")
        box.travel_to("2024-03-06T12:10:00Z")
        assert statuses(life)[-1] == ("canceled", "failed")
        assert list(stripe.intents.values())[-1]["status"] == "canceled"
        assert life.reread(invoice)["payment_status"] == "failed"
        assert failures(life)[-1] == ("confirmation_expired", "the customer has not confirmed it in time")
        retry(life, invoice)
        life.assert_paid(invoice)
        assert stripe.charged() == {"eur": 1050}


def test_a_charge_that_the_provider_is_processing_is_asked_about_as_long_as_it_says_so(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
        gocardless.outcomes.append("submitted")
        invoice = life.invoice()
        (debit,) = gocardless.payments
        box.travel_to("2024-04-20T12:00:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        status, answer = life.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/retry_payment")
        assert (status, answer["code"]) == (405, "payment_processor_is_currently_handling_payment")
        gocardless.payments[debit]["status"] = "paid_out"
        box.travel_to("2024-04-21T13:00:00Z")
        life.assert_paid(invoice)


def test_a_debit_whose_notice_was_lost_is_asked_about_after_four_days(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
        paid, returned = life.invoice(), life.invoice()
        first, second = gocardless.payments
        gocardless.payments[first]["status"] = "paid_out"
        gocardless.payments[second]["status"] = "failed"
        box.travel_to("2024-03-09T11:00:00Z")
        assert [life.reread(item)["payment_status"] for item in (paid, returned)] == ["pending", "pending"]
        box.travel_to("2024-03-09T12:01:00Z")
        assert [life.reread(item)["payment_status"] for item in (paid, returned)] == ["succeeded", "failed"]


def test_adyen_tells_nothing_so_the_charge_ends_by_rule_and_a_late_notice_is_followed(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        adyen.outcomes.append("Received")
        invoice = life.invoice()
        (charge,) = adyen.payments
        box.travel_to("2024-03-12T11:00:00Z")
        assert statuses(life) == [("Received", "processing")]
        box.travel_to("2024-03-12T18:30:00Z")
        cancelled = [call.path for call in adyen.calls if call.path.endswith("/cancels")]
        assert cancelled == [f"/v70/payments/{charge}/cancels"]
        assert statuses(life) == [("failed", "failed")]
        shown = life.reread(invoice)
        assert shown["payment_status"] == "failed"
        assert "outcome_unknown" in str(shown["error_details"])
        assert [code for code, _ in failures(life)] == ["outcome_unknown"]
        adyen.payments[charge]["result"] = "Authorised"
        assert life.notice(adyen.about(charge, "AUTHORISATION")) == 200
        life.assert_paid(invoice)


def unknown_at_adyen(life: Life, adyen: AdyenServer) -> Any:
    """An invoice with a charge of which Adyen has said nothing for a week."""
    life.notice(adyen.card_left("acme", "8415"))
    adyen.outcomes.append("Received")
    invoice = life.invoice()
    life.box.travel_to("2024-03-12T18:30:00Z")
    assert failures(life)[-1][0] == "outcome_unknown"
    return invoice


def doors(life: Life, invoice: Any) -> list[Any]:
    """What each way to ask for the money of an invoice is answered: done, or the code of the refusal."""
    request = {"external_customer_id": "acme", "svc_invoice_ids": [invoice["svc_id"]]}
    asked = [
        life.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/retry_payment"),
        life.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/payment_url"),
        life.box.request("POST", "/api/v1/payment_requests", json={"payment_request": request}),
    ]
    life.box.run_due()
    return [answer["code"] if status == 405 else status for status, answer in asked]


CLOSED = ["payment_outcome_unknown", "payment_outcome_unknown", "invoices_not_ready_for_payment_processing"]


def say(life: Life, invoice: Any, status: str) -> None:
    life._ask("PUT", f"/invoices/{invoice['svc_id']}", invoice={"payment_status": status})
    life.box.run_due()


def test_nothing_asks_for_money_that_a_charge_of_unknown_outcome_may_have_taken(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        invoice = unknown_at_adyen(life, adyen)
        box.travel_to("2024-04-12T12:00:00Z")
        assert life.reread(invoice)["payment_overdue"]
        assert doors(life, invoice) == CLOSED
        assert (len(adyen.payments), len(adyen.links)) == (1, 1)
        # The owner has looked there: nothing was taken.
        say(life, invoice, "failed")
        retry(life, invoice)
        life.assert_paid(invoice)
        assert len(adyen.payments) == 2
        # It had taken the money all the same.
        charge = next(iter(adyen.payments))
        adyen.payments[charge]["result"] = "Authorised"
        life.notice(adyen.about(charge, "AUTHORISATION"))
        assert life.reread(invoice)["total_paid_amount_cents"] == 2100
        assert life.sent("invoice.overpaid") == ["invoice.overpaid"]


def test_the_payment_that_the_owner_found_at_the_provider_settles_the_invoice(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        invoice = unknown_at_adyen(life, adyen)
        payment = {"invoice_id": invoice["svc_id"], "amount_cents": 1050, "reference": "PSP of 5 March"}
        life._ask("POST", "/payments", payment=payment)
        life.assert_paid(invoice)
        box.travel_to("2024-04-12T12:00:00Z")
        assert len(adyen.payments) == 1


def test_a_late_word_that_a_charge_has_failed_opens_its_debt_again(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        invoice = unknown_at_adyen(life, adyen)
        (charge,) = adyen.payments
        life.notice(adyen.about(charge, "AUTHORISATION", success="false", reason="Not enough balance"))
        assert "Not enough balance" in str(life.reread(invoice)["error_details"])
        retry(life, invoice)
        life.assert_paid(invoice)


def test_the_charge_of_a_request_of_unknown_outcome_closes_all_its_invoices(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        invoices = [life.invoice(), life.invoice()]
        fields = moneyhash.customers["mh-cus-1"]["custom_fields"]
        life.notice(moneyhash.token_event("created", "tok_1", fields))
        box.travel_to("2024-04-12T12:00:00Z")
        moneyhash.befall(Fault.LOST, Fault.LOST, only="POST /api/v1.1/payments/intent/")
        ids = [invoice["svc_id"] for invoice in invoices]
        asked = {"external_customer_id": "acme", "svc_invoice_ids": ids}
        life._ask("POST", "/payment_requests", payment_request=asked)
        box.run_due()
        box.jump_to("2024-04-14T12:00:00Z")
        moneyhash.forget_keys()
        box.run_due()
        assert [doors(life, invoice) for invoice in invoices] == [CLOSED, CLOSED]
        assert [life.reread(invoice)["payment_status"] for invoice in invoices] == ["failed", "failed"]
        assert life.sent("payment_request.payment_failure") == ["payment_request.payment_failure"]
        (charged,) = [intent for intent in moneyhash.intents.values() if intent.get("merchant_initiated")]
        assert charged["amount"] == 21
        say(life, invoices[0], "failed")
        assert doors(life, invoices[0])[0] == 200
        assert doors(life, invoices[1]) == CLOSED


def test_a_charge_that_the_provider_says_it_never_got_can_be_made_again(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.error_once(400, "idempotency_error", "the key was used with other parameters")
        invoice = life.invoice()
        assert statuses(life) == [("failed", "pending")]
        box.travel_to("2024-03-05T13:01:00Z")
        assert failures(life) == [("charge_not_found", "the provider has no such charge")]
        retry(life, invoice)
        life.assert_paid(invoice)


def test_a_refund_that_may_have_been_made_is_not_ordered_again_before_somebody_has_looked(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        note = life.credit_note(life.invoice(), 400)
        box.travel_to("2024-04-05T13:00:00Z")
        path = f"/credit_notes/{note['svc_id']}"
        status, answer = box.request("POST", f"/api/v1{path}/retry_refund")
        assert (status, answer["code"], len(adyen.refunds)) == (405, "refund_outcome_unknown", 1)
        life._ask("PUT", path, credit_note={"refund_status": "failed"})
        life._ask("POST", f"{path}/retry_refund")
        box.run_due()
        assert len(adyen.refunds) == 2
        # The first was made all the same.
        ((charge, first),) = zip(adyen.payments, list(adyen.refunds)[:1], strict=True)
        life.notice(adyen.about(charge, "REFUND", pspReference=first))
        assert life.refund_status(note)["refund_status"] == "succeeded"


def test_a_late_word_that_a_refund_has_failed_lets_it_be_ordered_again(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        note = life.credit_note(life.invoice(), 400)
        box.travel_to("2024-04-05T13:00:00Z")
        ((charge, refund),) = zip(adyen.payments, adyen.refunds, strict=True)
        life.notice(adyen.about(charge, "REFUND", pspReference=refund, success="false"))
        life._ask("POST", f"/credit_notes/{note['svc_id']}/retry_refund")
        box.run_due()
        assert len(adyen.refunds) == 2


def test_what_was_paid_too_much_and_may_have_gone_back_goes_back_once_somebody_has_looked(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        invoice = unknown_at_adyen(life, adyen)
        say(life, invoice, "failed")
        retry(life, invoice)
        (charge, _) = adyen.payments
        adyen.payments[charge]["result"] = "Authorised"
        life.notice(adyen.about(charge, "AUTHORISATION"))
        path = f"/payments/{life.payments()[0]['svc_id']}/refund"
        life._ask("POST", path, amount_cents=400)
        box.run_due()
        box.travel_to("2024-05-12T18:30:00Z")
        status, answer = box.request("POST", f"/api/v1{path}", json={"amount_cents": 400})
        assert (status, answer["code"], len(adyen.refunds)) == (405, "refund_outcome_unknown", 1)
        life._ask("POST", path, amount_cents=400, by_hand=False)
        box.run_due()
        assert [refund["amount"]["value"] for refund in adyen.refunds.values()] == [400, 400]


def test_what_moneyhash_says_of_an_intent_settles_its_charge(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        fields = moneyhash.customers["mh-cus-1"]["custom_fields"]
        life.notice(moneyhash.token_event("created", "tok_1", fields))
        invoices = [life.invoice() for _ in range(3)]
        intents = list(moneyhash.intents)[-3:]
        moneyhash.intents[intents[0]]["status"] = "PROCESSED"
        moneyhash.intents[intents[1]]["more"] = {"active_transaction": {"status": "purchase.failed"}}
        box.travel_to("2024-03-05T13:01:00Z")
        assert [life.reread(invoice)["payment_status"] for invoice in invoices] == ["succeeded", "failed", "pending"]
        # It is still unprocessed: nobody works on it.
        box.travel_to("2024-03-12T19:00:00Z")
        assert life.reread(invoices[2])["payment_status"] == "failed"
        assert failures(life)[-1][0] == "outcome_unknown"


def test_a_provider_that_refuses_the_credentials_is_asked_again_once_it_accepts_them(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.append("processing")
        invoice = life.invoice()
        (intent,) = stripe.intents
        stripe.intents[intent]["status"] = "succeeded"
        box.billing.payment_connections.update("main", secret_key="sk_test_revoked")
        box.travel_to("2024-03-20T12:00:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        box.billing.payment_connections.update("main", secret_key=stripe.credentials["secret_key"])
        box.travel_to("2024-03-20T19:00:00Z")
        life.assert_paid(invoice)


def test_a_refund_whose_notice_was_lost_is_asked_about_after_a_day(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        invoice = life.invoice()
        stripe.outcomes.extend(["pending", "pending"])
        notes = [life.credit_note(invoice, 400), life.credit_note(invoice, 300)]
        first, second = stripe.refunds
        stripe.refunds[first]["status"] = "succeeded"
        stripe.refunds[second]["status"] = "failed"
        box.travel_to("2024-03-06T11:00:00Z")
        assert [life.refund_status(note)["refund_status"] for note in notes] == ["pending", "pending"]
        box.travel_to("2024-03-06T12:01:00Z")
        assert [life.refund_status(note)["refund_status"] for note in notes] == ["succeeded", "failed"]
        assert life.sent("credit_note.provider_refund_failure") == ["credit_note.provider_refund_failure"]


def test_a_refund_of_which_adyen_never_tells_ends_after_a_month_and_a_late_notice_is_followed(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        note = life.credit_note(life.invoice(), 400)
        ((charge, refund),) = zip(adyen.payments, adyen.refunds, strict=True)
        box.travel_to("2024-04-04T11:00:00Z")
        assert life.refund_status(note)["refund_status"] == "pending"
        box.travel_to("2024-04-05T13:00:00Z")
        assert life.refund_status(note)["refund_status"] == "failed"
        (message,) = [item for item in box.webhooks if "refund_failure" in item["webhook_type"]]
        error = message["credit_note_payment_provider_refund_error"]["provider_error"]
        assert error["error_code"] == "outcome_unknown"
        life.notice(adyen.about(charge, "REFUND", pspReference=refund))
        assert life.refund_status(note)["refund_status"] == "succeeded"


def test_a_page_at_stripe_that_was_paid_without_a_notice_is_found_after_its_end(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        invoice = life.invoice()
        session = life.page(invoice).rpartition("/")[2]
        late = stripe.page_paid(session)
        box.travel_to("2024-03-06T13:05:00Z")
        life.assert_paid(invoice)
        life.notice(late)
        assert len(life.payments()) == 1


def test_a_page_that_was_ended_and_paid_all_the_same_is_found(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        invoice = life.invoice()
        session = life.page(invoice).rpartition("/")[2]
        stripe.page_paid(session)
        life.settle_by_hand(invoice)
        box.travel_to("2024-03-05T13:05:00Z")
        (payment,) = life.payments()
        assert payment["amount_cents"] == 1050


def test_a_link_at_cashfree_that_was_paid_without_a_notice_is_found_and_its_late_notice_known(box: Scenario) -> None:
    cashfree = CashfreeServer(now=lambda: box.now)
    with living(box, cashfree, "INR") as life:
        invoices = [life.invoice(), life.invoice()]
        for invoice in invoices:
            life.page(invoice)
        first, second = cashfree.links
        late = cashfree.link_event(first)
        life.notice(cashfree.link_event(second))
        box.travel_to("2024-03-06T13:05:00Z")
        for invoice in invoices:
            life.assert_paid(invoice)
        late = cashfree.link_event(first)
        life.notice(late)
        assert len(life.payments()) == 2


def test_a_page_at_flutterwave_that_was_paid_without_a_notice_is_found_by_its_reference(box: Scenario) -> None:
    flutterwave = FlutterwaveServer(now=lambda: box.now)
    with living(box, flutterwave, "NGN") as life:
        paid, failed, left = life.invoice(), life.invoice(), life.invoice()
        for invoice in (paid, failed, left):
            life.page(invoice)
        first, second, _ = flutterwave.pages
        late = flutterwave.page_paid(first)
        flutterwave.page_paid(second, verified="failed")
        box.travel_to("2024-03-06T13:05:00Z")
        life.assert_paid(paid)
        assert [life.reread(invoice)["payment_status"] for invoice in (failed, left)] == ["pending", "pending"]
        life.notice(late)
        assert len(life.payments()) == 1


def test_a_page_at_moneyhash_that_was_paid_without_a_notice_is_found(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        invoice = life.invoice()
        life.page(invoice)
        late = moneyhash.page_event(list(moneyhash.intents)[-1])
        box.travel_to("2024-03-06T13:05:00Z")
        life.assert_paid(invoice)
        life.notice(late)
        assert len(life.payments()) == 1


def test_a_page_at_moneyhash_ends_there_and_here_together(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        invoice = life.invoice()
        first = life.page(invoice)
        assert moneyhash.intents[list(moneyhash.intents)[-1]]["expires_after_seconds"] == 24 * 3600 - 60
        box.travel_to("2024-03-06T11:58:59Z")
        assert life.page(invoice) == first
        box.travel_to("2024-03-06T11:59:00Z")
        assert life.page(invoice) != first


def test_adyen_does_not_say_which_payment_paid_a_link_so_the_invoice_shows_that_one_is_missing(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        adyen.outcomes.extend(["Refused", "Refused"])
        known, missing = life.invoice(), life.invoice()
        links = [life.page(invoice).rpartition("/")[2] for invoice in (known, missing)]
        life.notice(adyen.link_paid(links[0]))
        for link in links:
            adyen.links[link]["status"] = "completed"
        box.travel_to("2024-03-06T13:05:00Z")
        life.assert_paid(known)
        shown = [life.reread(invoice)["error_details"] for invoice in (known, missing)]
        assert "paid_without_notice" not in str(shown[0])
        assert "paid_without_notice" in str(shown[1])


def test_a_refund_that_succeeds_after_a_lost_dispute_leaves_the_payment_lost(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        invoice = unknown_at_adyen(life, adyen)
        say(life, invoice, "failed")
        retry(life, invoice)
        (charge, _) = adyen.payments
        adyen.payments[charge]["result"] = "Authorised"
        life.notice(adyen.about(charge, "AUTHORISATION"))
        (overpaid,) = [item for item in life.payments() if item["provider_payment_id"] == charge]
        life._ask("POST", f"/payments/{overpaid['svc_id']}/refund")
        box.run_due()
        life.notice(adyen.about(charge, "CHARGEBACK", additionalData={"disputeStatus": "Lost"}))
        (refund,) = adyen.refunds
        life.notice(adyen.about(charge, "REFUND", pspReference=refund))
        shown = life._ask("GET", f"/payments/{overpaid['svc_id']}")["payment"]
        assert shown["status"] == "dispute_lost"
