"""Whole lives of payments over HTTP, with each provider's server on the other side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.asgi import send
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.flutterwave import FlutterwaveServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.moneyhash import MoneyHashServer
from tests.payment_servers.server import Fault, Notice, PaymentServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario
from usagebill.http.app import create_app

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")
_WITHOUT_ANSWER = ((Fault.LOST, Fault.LOST), (Fault.BUSY,), (Fault.BROKEN,), (Fault.CUT,))


class Life:
    """A customer linked to a provider, and its invoices."""

    def __init__(self, box: Scenario, server: PaymentServer, currency: str) -> None:
        self.box, self.currency = box, currency
        self._app = create_app(box.billing)
        self.path = box.connect_payment_provider(server.kind, code="main", url=server.url, **server.credentials)
        self._ask("POST", "/webhook_endpoints", webhook_endpoint={"webhook_url": "https://hooks.example"})
        link = {"payment_provider": server.kind, "payment_provider_code": "main", "sync_with_provider": True}
        customer = {"external_id": "acme", "name": "Acme", "email": "pay@acme.example", "currency": currency}
        made = self._ask("POST", "/customers", customer={**customer, "billing_configuration": link})
        self.customer_id = made["customer"]["svc_id"]
        self._ask("POST", "/add_ons", add_on={"name": "Setup", "code": "setup", "amount_cents": 1050} | self._money)
        box.run_due()

    @property
    def _money(self) -> dict[str, str]:
        return {"amount_currency": self.currency}

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        status, answer = self.box.request(method, f"/api/v1{path}", json=body or None)
        assert 200 <= status < 300, (status, answer)
        return answer

    def notice(self, notice: Notice) -> int:
        """Have the provider send a notice over HTTP, and run the jobs that follow."""
        answer = send(self._app, "POST", self.path, content=notice.body, headers=dict(notice.headers))
        self.box.run_due()
        return answer.status_code

    def invoice(self, **fields: Any) -> Any:
        """Issue an invoice over 10.50, and run the jobs that follow."""
        request = {
            "external_customer_id": "acme",
            "currency": self.currency,
            "fees": [{"add_on_code": "setup"}],
            **fields,
        }
        made = self._ask("POST", "/invoices", invoice=request)["invoice"]
        self.box.run_due()
        return self.reread(made)

    def reread(self, invoice: Any) -> Any:
        return self._ask("GET", f"/invoices/{invoice['svc_id']}")["invoice"]

    def payments(self) -> list[Any]:
        payments: list[Any] = self._ask("GET", "/payments")["payments"]
        return payments

    def methods(self) -> list[str]:
        """The provider's ids of the customer's methods, the default first."""
        listed = self._ask("GET", "/customers/acme/payment_methods")["payment_methods"]
        return [item["provider_method_id"] for item in sorted(listed, key=lambda item: not item["is_default"])]

    def page(self, invoice: Any) -> str:
        """The address on which the invoice can be paid."""
        details = self._ask("POST", f"/invoices/{invoice['svc_id']}/payment_url")["invoice_payment_details"]
        url: str = details["payment_url"]
        return url

    def settle_by_hand(self, invoice: Any) -> None:
        self._ask("PUT", f"/invoices/{invoice['svc_id']}", invoice={"payment_status": "succeeded"})
        self.box.run_due()

    def credit_note(self, invoice: Any, cents: int) -> Any:
        """A credit note that refunds this many cents."""
        item = {"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": cents}
        note = {"invoice_id": invoice["svc_id"], "reason": "duplicated_charge", "refund_amount_cents": cents}
        made = self._ask("POST", "/credit_notes", credit_note={**note, "items": [item]})["credit_note"]
        self.box.run_due()
        return self.refund_status(made)

    def refund_status(self, note: Any) -> Any:
        return self._ask("GET", f"/credit_notes/{note['svc_id']}")["credit_note"]

    def unhandled(self) -> list[str]:
        """The types of the notices that somebody has to look at."""
        listed = self.box.billing.view(self.box.billing.payment_connections.notices(status="unhandled"))
        return [notice["type"] for notice in listed]

    def sent(self, *types: str) -> list[str]:
        """The webhooks of these types so far, in order."""
        return [message["webhook_type"] for message in self.box.webhooks if message["webhook_type"] in types]

    def assert_paid(self, invoice: Any, cents: int = 1050) -> None:
        paid = self.reread(invoice)
        assert (paid["payment_status"], paid["total_paid_amount_cents"]) == ("succeeded", cents)


@contextmanager
def living(box: Scenario, server: PaymentServer, currency: str = "EUR") -> Iterator[Life]:
    with server:
        yield Life(box, server, currency)


def test_a_life_with_stripe(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        assert life.sent("customer.payment_provider_created", "customer.checkout_url_generated") == [
            "customer.payment_provider_created",
            "customer.checkout_url_generated",
        ]
        assert life.notice(stripe.card_added("cus_1", "pm_1")) == 200
        assert life.methods() == ["pm_1"]

        invoice = life.invoice()
        life.assert_paid(invoice)
        assert stripe.charged() == {"eur": 1050}
        (intent,) = stripe.intents
        late = stripe.payment_event(intent, "succeeded")
        for _ in range(2):
            assert life.notice(late) == 200
        assert life.notice(late.forged()) == 400
        (payment,) = life.payments()
        assert (payment["provider_payment_id"], payment["amount_cents"]) == (intent, 1050)
        assert stripe.intents[intent]["metadata"]["svc_payment_id"] == payment["svc_id"]

        note = life.credit_note(invoice, 400)
        assert (note["refund_status"], stripe.intents[intent]["refunded"]) == ("succeeded", 400)
        assert life.notice(stripe.dispute_closed(intent)) == 200
        assert life.reread(invoice)["payment_dispute_lost_at"] == "2024-03-05T12:00:00.000Z"

        stripe.outcomes.append("declined")
        declined = life.invoice()
        assert declined["payment_status"] == "failed"
        assert life.sent("invoice.payment_failure") == ["invoice.payment_failure"]
        page = life.page(declined)
        session = page.rpartition("/")[2]
        assert life.notice(stripe.page_paid(session)) == 200
        life.assert_paid(declined)
        assert stripe.charged() == {"eur": 2100}

        assert life.notice(stripe.card_removed("pm_1")) == 200
        assert life.methods() == []
        assert life.invoice()["payment_status"] == "pending"


def test_a_refund_that_stripe_refuses_is_told_whatever_the_reason(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        invoice = life.invoice()
        stripe.outcomes.append("not_refundable")
        note = life.credit_note(invoice, 400)
        assert note["refund_status"] == "failed"
        (message,) = [item for item in box.webhooks if "refund_failure" in item["webhook_type"]]
        told = message["credit_note_payment_provider_refund_error"]
        assert (message["webhook_type"], told["svc_credit_note_id"]) == (
            "credit_note.provider_refund_failure",
            note["svc_id"],
        )
        assert told["provider_error"] == {
            "message": "This charge cannot be refunded",
            "error_code": "charge_not_refundable",
        }


def test_no_log_of_requests_keeps_a_link_with_which_one_pays_or_looks_in(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        links = [life.page(life.invoice())]
        links.append(box.post("/customers/acme/checkout_url")["customer"]["checkout_url"])
        (message,) = box.get("/webhooks?event_types[]=customer.checkout_url_generated")["webhooks"]
        links.append(json.loads(message["payload"])["payment_provider_customer_checkout_url"]["checkout_url"])
        box.post(f"/webhooks/{message['svc_id']}/resend")
        links.append(box.get("/customers/acme/portal_url")["customer"]["portal_url"])
        logs = str(box.get("/api_logs?per_page=100"))
    assert [path for path in ("payment_url", "checkout_url", "resend") if path in logs] == [
        "payment_url",
        "checkout_url",
        "resend",
    ]
    assert [link for link in links if link in logs] == []


@pytest.mark.parametrize("path", ["/invoices/{}/payment_url", "/customers/acme/checkout_url"])
def test_who_refuses_a_page_is_named_as_people_know_it(box: Scenario, path: str) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        invoice = life.invoice()
        stripe.customers.clear()
        status, body = box.send("POST", path.format(invoice["svc_id"]))
        assert (status, body["code"], body["error_details"]["third_party"]) == (422, "third_party_error", "Stripe")
        assert body["message"].startswith("Stripe refused it")


def test_a_card_that_wants_its_owner(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        box.billing.payment_connections.update("main", supports_3ds=True)
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.extend(["needs_action", "needs_action"])
        invoice = life.invoice()
        box.travel_to("2024-03-05T13:00:00Z")
        waiting = next(item for item in life.payments() if item["payment_status"] == "processing")
        assert waiting["next_action"]["redirect_to_url"]["url"].startswith("https://hooks.stripe.test/")
        assert life.sent("payment.requires_action") == ["payment.requires_action"]
        assert life.notice(stripe.payment_event(waiting["provider_payment_id"], "succeeded")) == 200
        life.assert_paid(invoice)
        assert stripe.charged() == {"eur": 1050}


def test_a_life_with_gocardless(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        assert life.sent("customer.checkout_url_generated") == ["customer.checkout_url_generated"]
        customer = next(iter(gocardless.customers))
        assert life.notice(gocardless.mandate_signed(customer, "MD1")) == 200
        assert life.methods() == ["MD1"]

        invoice = life.invoice()
        assert invoice["payment_status"] == "pending"
        (debit,) = gocardless.payments
        assert life.notice(gocardless.payment_event(debit, "confirmed")) == 200
        assert life.reread(invoice)["payment_status"] == "pending"
        paid = gocardless.payment_event(debit, "paid_out")
        assert life.notice(paid.forged()) == 400
        assert life.reread(invoice)["payment_status"] == "pending"
        for _ in range(2):
            assert life.notice(paid) == 200
        life.assert_paid(invoice)
        assert gocardless.paid_out() == {"GBP": 1050}
        assert life.sent("payment.succeeded") == ["payment.succeeded"]

        notes = [life.credit_note(invoice, 400), life.credit_note(invoice, 300)]
        assert [note["refund_status"] for note in notes] == ["pending", "pending"]
        assert gocardless.payments[debit]["amount_refunded"] == 400 + 300
        first, second = gocardless.refunds
        life.notice(gocardless.batch(gocardless.event("refunds", "paid", {"refund": first})))
        life.notice(gocardless.refund_event(second, "failed"))
        assert [life.refund_status(note)["refund_status"] for note in notes] == ["succeeded", "failed"]
        assert life.sent("credit_note.provider_refund_failure") == ["credit_note.provider_refund_failure"]

        assert life.notice(gocardless.payment_event(debit, "charged_back")) == 200
        assert life.reread(invoice)["payment_dispute_lost_at"] == "2024-03-05T12:00:00.000Z"
        life.assert_paid(invoice)

        failing = life.invoice()
        life.notice(gocardless.payment_event(list(gocardless.payments)[-1], "failed"))
        assert life.reread(failing)["payment_status"] == "failed"


def test_a_life_with_adyen(box: Scenario) -> None:
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        assert life.sent("customer.checkout_url_generated") == ["customer.checkout_url_generated"]
        assert life.notice(adyen.card_left("acme", "8415")) == 200
        assert (life.methods(), life.sent("customer.payment_provider_created")) == (
            ["8415"],
            ["customer.payment_provider_created"],
        )
        invoice = life.invoice()
        life.assert_paid(invoice)
        (charge,) = adyen.payments
        assert life.notice(adyen.about(charge, "AUTHORISATION")) == 200
        assert len(life.payments()) == 1

        note = life.credit_note(invoice, 400)
        (refund,) = adyen.refunds
        assert (note["refund_status"], adyen.payments[charge]["refunded"]) == ("pending", 400)
        life.notice(adyen.about(charge, "REFUND", pspReference=refund))
        assert life.refund_status(note)["refund_status"] == "succeeded"
        lost = {"additionalData": {"disputeStatus": "Lost"}, "reason": "Fraud"}
        assert life.notice(adyen.about(charge, "CHARGEBACK", **lost)) == 200
        assert life.reread(invoice)["payment_dispute_lost_at"] == "2024-03-05T12:00:00.000Z"

        adyen.outcomes.append("Refused")
        refused = life.invoice()
        assert refused["payment_status"] == "failed"
        link = life.page(refused).rpartition("/")[2]
        genuine = adyen.link_paid(link)
        forged = Notice(genuine.body.replace(b'"value": 1050', b'"value": 1051'))
        assert (life.notice(forged), life.notice(genuine)) == (400, 200)
        life.assert_paid(refused)

        adyen.outcomes.append("Received")
        under_way = life.invoice()
        # Since there are pages, customers are given ten minutes to pay on one.
        box.travel_to("2024-03-05T12:15:00Z")
        assert under_way["payment_status"] == "pending"
        charge = list(adyen.payments)[-1]
        adyen.payments[charge]["result"] = "Authorised"
        assert life.notice(adyen.about(charge, "AUTHORISATION")) == 200
        life.assert_paid(under_way)
        assert adyen.authorised() == {"EUR": 3150}


def test_a_life_with_cashfree(box: Scenario) -> None:
    cashfree = CashfreeServer(now=lambda: box.now)
    with living(box, cashfree, "INR") as life:
        invoice = life.invoice()
        assert invoice["payment_status"] == "pending"
        url = life.page(invoice)
        assert life.page(invoice) == url
        (link,) = cashfree.links
        assert life.notice(cashfree.link_event(link, "EXPIRED")) == 200
        assert life.reread(invoice)["payment_status"] == "pending"
        paid = cashfree.link_event(link)
        assert life.notice(paid.forged()) == 400
        for _ in range(2):
            assert life.notice(paid) == 200
        life.assert_paid(invoice)
        (payment,) = life.payments()
        assert (payment["amount_cents"], payment["amount_currency"]) == (1050, "INR")

        settled = life.invoice()
        life.page(settled)
        life.box.request(
            "PUT", f"/api/v1/invoices/{settled['svc_id']}", json={"invoice": {"payment_status": "succeeded"}}
        )
        box.run_due()
        assert cashfree.links[list(cashfree.links)[-1]]["link_status"] == "CANCELLED"


def test_a_life_with_flutterwave(box: Scenario) -> None:
    flutterwave = FlutterwaveServer(now=lambda: box.now)
    with living(box, flutterwave, "NGN") as life:
        invoice, other = life.invoice(), life.invoice()
        for due in (invoice, other):
            assert life.page(due).startswith("https://checkout.flutterwave.test/")
        first, second = flutterwave.pages
        lie = flutterwave.page_paid(first, verified="failed")
        assert life.notice(lie) == 200
        assert life.reread(invoice)["payment_status"] == "pending"
        wrong = Notice(lie.body, {"verif-hash": "guessed"})
        assert life.notice(wrong) == 400
        assert life.notice(flutterwave.page_paid(first)) == 200
        life.assert_paid(invoice)
        flutterwave.repeats_meta = False
        assert life.notice(flutterwave.page_paid(second)) == 200
        life.assert_paid(other)
        assert [payment["amount_cents"] for payment in life.payments()] == [1050, 1050]


def test_a_life_with_moneyhash(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        assert life.sent("customer.checkout_url_generated") == ["customer.checkout_url_generated"]
        fields = moneyhash.customers["mh-cus-1"]["custom_fields"]
        assert fields["svc_customer_id"] == life.customer_id
        assert life.notice(moneyhash.token_event("created", "tok_1", fields)) == 200
        assert life.methods() == ["tok_1"]

        invoice = life.invoice()
        assert invoice["payment_status"] == "pending"
        intent = list(moneyhash.intents)[-1]
        assert moneyhash.intents[intent]["webhook_url"].endswith(life.path)
        assert life.notice(moneyhash.purchase_event(intent, "pending_authentication")) == 200
        assert life.reread(invoice)["payment_status"] == "pending"
        paid = moneyhash.purchase_event(intent, "successful")
        forged = Notice(paid.body.replace(b"10.5", b"10.4"), paid.headers)
        assert (life.notice(forged), life.notice(paid)) == (400, 200)
        life.assert_paid(invoice)

        failing = life.invoice()
        life.notice(moneyhash.purchase_event(list(moneyhash.intents)[-1], "failed"))
        assert life.reread(failing)["payment_status"] == "failed"
        assert "svc_request=generate_payment_url" in life.page(failing)
        page = list(moneyhash.intents)[-1]
        assert life.notice(moneyhash.page_event(page, "intent.time_expired")) == 200
        assert life.reread(failing)["payment_status"] == "failed"
        assert life.notice(moneyhash.page_event(page)) == 200
        life.assert_paid(failing)
        life.notice(moneyhash.token_event("deleted", "tok_1", fields))
        assert life.methods() == []


@pytest.mark.parametrize("faults", _WITHOUT_ANSWER)
@pytest.mark.parametrize("kind", ["stripe", "gocardless", "adyen", "moneyhash"])
@pytest.mark.slow
def test_whatever_becomes_of_an_answer_an_invoice_is_charged_once(
    kind: str, faults: tuple[Fault, ...], box: Scenario
) -> None:
    server, charge, method = _account(kind, box)
    with living(box, server, "GBP" if kind == "gocardless" else "EUR") as life:
        life.notice(method())
        server.befall(*faults, only=charge)
        invoice = life.invoice()
        assert invoice["payment_status"] == "pending"
        # What a customer does meanwhile makes no second charge.
        life.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/retry_payment")
        box.travel_to("2024-03-05T14:00:00Z")
        (payment,) = life.payments()
        assert payment["payment_status"] in ("succeeded", "processing")
        assert len(_charges(server)) == 1
        assert not server.faults


def test_an_answer_lost_before_days_of_downtime_is_no_second_charge(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/payment_intents")
        invoice = life.invoice()
        assert invoice["payment_status"] == "pending"
        box.jump_to("2024-03-08T12:00:00Z")
        stripe.forget_keys()
        box.run_due()
        life.assert_paid(invoice)
        assert stripe.charged() == {"eur": 1050}


def test_an_outcome_that_nobody_can_find_out_is_left_to_a_person(box: Scenario) -> None:
    moneyhash = MoneyHashServer(now=lambda: box.now)
    with living(box, moneyhash) as life:
        life.notice(_first_token(moneyhash))
        moneyhash.befall(Fault.LOST, Fault.LOST, only="POST /api/v1.1/payments/intent/")
        invoice = life.invoice()
        box.jump_to("2024-03-08T12:00:00Z")
        moneyhash.forget_keys()
        with capture_logs() as logs:
            box.run_due()
        assert [entry["reason"] for entry in logs if entry["event"] == "outcome_unknown"] == [
            "it may have been done days ago: look at the provider before you try again"
        ]
        assert life.reread(invoice)["payment_status"] == "failed"
        failure = next(item for item in box.webhooks if item["webhook_type"] == "invoice.payment_failure")
        error = failure["payment_provider_invoice_payment_error"]["provider_error"]
        assert error["error_code"] == "outcome_unknown"
        assert len(_charges(moneyhash)) == 1
        # The notice says after all what became of it.
        assert life.notice(moneyhash.purchase_event(_charges(moneyhash)[0], "successful")) == 200
        life.assert_paid(invoice)


@contextmanager
def key_revoked(server: PaymentServer) -> Iterator[None]:
    """The provider does not accept our credentials meanwhile."""
    allowed = server.is_allowed
    server.is_allowed = lambda headers: False  # type: ignore[method-assign]
    yield
    server.is_allowed = allowed  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", ["stripe", "gocardless", "adyen", "moneyhash"])
def test_a_revoked_key_says_nothing_about_a_charge_whose_answer_was_lost(kind: str, box: Scenario) -> None:
    server, charge, method = _account(kind, box)
    with living(box, server, "GBP" if kind == "gocardless" else "EUR") as life:
        life.notice(method())
        server.befall(Fault.LOST, Fault.LOST, only=charge)
        invoice = life.invoice()
        if not _charges(server):
            # Where there are pages, customers are given ten minutes to pay on one.
            box.travel_to("2024-03-05T12:10:00Z")
        assert len(_charges(server)) == 1
        with key_revoked(server):
            box.travel_to("2024-03-05T14:00:00Z")
            life.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/retry_payment")
            box.travel_to("2024-03-05T15:00:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        assert life.sent("invoice.payment_failure") == []
        assert life.reread(invoice)["error_details"][0]["error_code"] == "payment_error"
        box.travel_to("2024-03-05T17:00:00Z")
        (payment,) = life.payments()
        assert payment["payment_status"] in ("succeeded", "processing")
        assert len(_charges(server)) == 1


@pytest.mark.parametrize("kind", ["stripe", "gocardless"])
def test_a_charge_that_nobody_has_answered_for_a_month_is_left_to_a_person(kind: str, box: Scenario) -> None:
    server, charge, method = _account(kind, box)
    with living(box, server, "GBP" if kind == "gocardless" else "EUR") as life:
        life.notice(method())
        server.befall(Fault.LOST, Fault.LOST, only=charge)
        invoice = life.invoice()
        with key_revoked(server):
            box.travel_to("2024-04-04T11:00:00Z")
            assert life.reread(invoice)["payment_status"] == "pending"
            box.travel_to("2024-04-04T14:00:00Z")
        shown = life.reread(invoice)
        assert shown["payment_status"] == "failed"
        (error,) = [detail["details"] for detail in shown["error_details"]]
        assert error["payment_error"] == "outcome_unknown"
        assert error["payment_error_message"].startswith("the provider has not answered for 30 days (")
        status, answer = box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/retry_payment")
        assert (status, answer["code"]) == (405, "payment_outcome_unknown")
        assert len(_charges(server)) == 1


def test_a_refund_that_nobody_has_answered_for_a_month_is_left_to_a_person(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        invoice = life.invoice()
        stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/refunds")
        note = life.credit_note(invoice, 400)
        with key_revoked(stripe):
            box.travel_to("2024-04-04T11:00:00Z")
            assert life.refund_status(note)["refund_status"] == "pending"
            box.travel_to("2024-04-04T14:00:00Z")
        assert life.refund_status(note)["refund_status"] == "failed"
        status, answer = box.request("POST", f"/api/v1/credit_notes/{note['svc_id']}/retry_refund")
        assert (status, answer["code"], len(stripe.refunds)) == (405, "refund_outcome_unknown", 1)


def test_a_revoked_key_fails_a_charge_that_was_not_sent_before(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        with key_revoked(stripe):
            invoice = life.invoice()
        assert life.reread(invoice)["payment_status"] == "failed"
        assert life.sent("invoice.payment_failure") == ["invoice.payment_failure"]


def test_a_notice_of_money_waits_while_the_key_is_revoked(box: Scenario) -> None:
    """Flutterwave has to be asked about it."""
    flutterwave = FlutterwaveServer(now=lambda: box.now)
    with living(box, flutterwave, "NGN") as life:
        invoice = life.invoice()
        life.page(invoice)
        with key_revoked(flutterwave):
            assert life.notice(flutterwave.page_paid(next(iter(flutterwave.pages)))) == 200
            box.travel_to("2024-03-05T12:30:00Z")
        assert life.reread(invoice)["payment_status"] == "pending"
        box.travel_to("2024-03-05T14:00:00Z")
        life.assert_paid(invoice)


def test_a_page_and_a_charge_are_ended_once_the_key_is_mended(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.extend(["processing", "declined"])
        charged, paged = life.invoice(), life.invoice()
        life.page(paged)
        session = list(stripe.sessions)[-1]
        with key_revoked(stripe):
            for invoice in (paged, charged):
                life.settle_by_hand(invoice)
            box.travel_to("2024-03-05T12:30:00Z")
        box.travel_to("2024-03-05T14:00:00Z")
        assert stripe.sessions[session]["status"] == "expired"
        assert [item["status"] for item in stripe.intents.values()] == ["canceled", "requires_payment_method"]


def test_a_charge_whose_answer_was_lost_is_found_though_its_customer_is_gone(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/payment_intents")
        invoice = life.invoice()
        del stripe.customers["cus_1"]
        box.travel_to("2024-03-05T12:10:00Z")
        life.assert_paid(invoice)


def test_a_revoked_key_says_nothing_about_a_refund_whose_answer_was_lost(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        invoice = life.invoice()
        stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/refunds")
        note = life.credit_note(invoice, 400)
        with key_revoked(stripe):
            box.travel_to("2024-03-05T14:00:00Z")
        assert life.refund_status(note)["refund_status"] == "pending"
        assert life.sent("credit_note.provider_refund_failure") == []
        box.travel_to("2024-03-05T16:00:00Z")
        assert life.refund_status(note)["refund_status"] == "succeeded"
        assert len(stripe.refunds) == 1


def test_a_wrong_key_is_reported_as_a_webhook(box: Scenario) -> None:
    with StripeServer() as stripe:
        box.connect_payment_provider("stripe", code="main", url=stripe.url, secret_key="sk_live_wrong_key")
    (message,) = [item for item in box.webhooks if item["webhook_type"] == "payment_provider.error"]
    error = message["payment_provider_error"]
    assert (error["payment_provider_code"], error["source"]) == ("main", "stripe")
    assert error["provider_error"]["message"] == "The key is not valid"
    assert "sk_live_wrong_key" not in str(message)


def test_a_customer_that_the_provider_refuses_is_reported_as_a_webhook(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless) as life:
        gocardless.error_once(422, "validation_failed", "email is invalid")
        link = {"payment_provider": "gocardless", "payment_provider_code": "main", "sync_with_provider": True}
        made = box.customer("globex", email="ap@globex.example", billing_configuration=link)
        (message,) = [item for item in box.webhooks if item["webhook_type"] == "customer.payment_provider_error"]
        assert message["payment_provider_customer_error"] == {
            "svc_customer_id": made["svc_id"],
            "external_customer_id": "globex",
            "payment_provider": "gocardless",
            "payment_provider_code": "main",
            "provider_error": {"message": "email is invalid", "error_code": "422"},
        }
        assert life.sent("customer.payment_provider_created") == ["customer.payment_provider_created"]


def _account(kind: str, box: Scenario) -> tuple[PaymentServer, str, Callable[[], Notice]]:
    """A server, what its charges are posted to, and the notice that gives the customer a method."""
    if kind == "stripe":
        stripe = StripeServer(now=lambda: box.now)
        return stripe, "POST /v1/payment_intents", lambda: stripe.card_added("cus_1", "pm_1")
    if kind == "gocardless":
        gocardless = GoCardlessServer(now=lambda: box.now)
        return gocardless, "POST /payments", lambda: gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1")
    if kind == "adyen":
        adyen = AdyenServer(now=lambda: box.now)
        return adyen, "POST /v70/payments", lambda: adyen.card_left("acme", "8415")
    moneyhash = MoneyHashServer(now=lambda: box.now)
    return moneyhash, "POST /api/v1.1/payments/intent/", lambda: _first_token(moneyhash)


def _first_token(moneyhash: MoneyHashServer) -> Notice:
    return moneyhash.token_event("created", "tok_1", moneyhash.customers["mh-cus-1"]["custom_fields"])


def _charges(server: PaymentServer) -> list[str]:
    match server:
        case StripeServer():
            return list(server.intents)
        case GoCardlessServer() | AdyenServer():
            return list(server.payments)
        case MoneyHashServer():
            return [id for id, intent in server.intents.items() if intent["merchant_initiated"]]
    raise AssertionError(server)
