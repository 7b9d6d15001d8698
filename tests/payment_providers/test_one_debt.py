"""One debt, many doors: what is offered and what is being charged never comes to more than is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Fault
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


class Doors(Life):
    """A customer at Stripe, with everything that the provider could take of it by now."""

    stripe: StripeServer

    def pages(self) -> dict[str, Any]:
        """All payment pages at the provider, oldest first."""
        return {id: page for id, page in self.stripe.sessions.items() if page["mode"] == "payment"}

    def open_cents(self) -> int:
        """What open pages and charges under way would take if all of them went through."""
        pages = [page for page in self.pages().values() if page["status"] == "open"]
        under_way = ("processing", "requires_action")
        charges = [item for item in self.stripe.intents.values() if item["status"] in under_way]
        on_pages = sum(int(line["price_data"]["unit_amount"]) for page in pages for line in page["line_items"])
        return on_pages + sum(int(item["amount"]) for item in charges)

    def due_cents(self) -> int:
        return sum(invoice["total_due_amount_cents"] for invoice in self.box.invoices())

    def check(self) -> None:
        assert self.open_cents() <= self.due_cents()

    def watch(self, seen: Callable[[], None]) -> None:
        """Have `seen` called whenever a page has opened, before its answer is sent."""
        route = self.stripe.route

        def watched(call: Any) -> Any:
            answer = route(call)
            if call.line == "POST /v1/checkout/sessions" and call.fields["mode"] == "payment":
                seen()
            return answer

        self.stripe.route = watched  # type: ignore[method-assign]

    def debit(self) -> Any:
        """An invoice whose charge the provider is processing."""
        self.notice(self.stripe.card_added("cus_1", "pm_1"))
        self.stripe.outcomes.append("processing")
        invoice = self.invoice()
        assert self.open_cents() == 1050
        return invoice

    def pay(self, invoice: Any, cents: int) -> None:
        payment = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "bank"}
        self._ask("POST", "/payments", payment=payment)
        self.box.run_due()

    def offset(self, invoice: Any, cents: int) -> None:
        items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": cents}]
        note = {"invoice_id": invoice["svc_id"], "reason": "other", "offset_amount_cents": cents, "items": items}
        self._ask("POST", "/credit_notes", credit_note=note)
        self.box.run_due()

    def void(self, invoice: Any) -> None:
        self._ask("POST", f"/invoices/{invoice['svc_id']}/void")
        self.box.run_due()

    def request_page(self, *invoices: Any) -> str:
        """The page that the e-mail of a payment request over these invoices leads to."""
        ids = [invoice["svc_id"] for invoice in invoices]
        self._ask("POST", "/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": ids})
        self.box.run_due()
        return list(self.pages())[-1]


@pytest.fixture
def doors(box: Scenario) -> Iterator[Doors]:
    stripe = StripeServer(now=lambda: box.now)
    with stripe:
        box.entity(name="Lumen", email="billing@lumen.example")
        doors = Doors(box, stripe, "EUR")
        doors.stripe = stripe
        yield doors


Change = Callable[[Doors, Any], None]
PARTS: dict[str, Change] = {
    "by hand": lambda doors, invoice: doors.pay(invoice, 300),
    "by offset": lambda doors, invoice: doors.offset(invoice, 300),
}
ENDS: dict[str, Change] = {
    "by hand": lambda doors, invoice: doors.pay(invoice, 1050),
    "by offset": lambda doors, invoice: doors.offset(invoice, 1050),
    "by status": lambda doors, invoice: doors.settle_by_hand(invoice),
    "by void": lambda doors, invoice: doors.void(invoice),
}


def test_no_page_is_handed_out_while_a_charge_is_under_way(doors: Doors) -> None:
    invoice = doors.debit()
    status, answer = doors.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/payment_url")
    assert (status, answer["code"]) == (405, "payment_processor_is_currently_handling_payment")
    assert doors.pages() == {}
    (intent,) = doors.stripe.intents
    doors.notice(doors.stripe.payment_event(intent, "payment_failed"))
    doors.page(invoice)
    doors.check()


@pytest.mark.parametrize("part", PARTS)
def test_a_page_follows_what_is_due(doors: Doors, part: str) -> None:
    invoice = doors.invoice()
    old = doors.page(invoice)
    assert doors.page(invoice) == old
    PARTS[part](doors, invoice)
    assert doors.open_cents() == 0
    assert doors.page(invoice) != old
    assert doors.open_cents() == doors.due_cents() == 750
    doors.notice(doors.stripe.page_paid(list(doors.pages())[-1]))
    assert doors.stripe.charged() == {"eur": 750}
    assert (doors.due_cents(), doors.reread(invoice)["payment_status"]) == (0, "succeeded")


@pytest.mark.parametrize("end", ENDS)
def test_a_page_ends_with_its_debt(doors: Doors, end: str) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    ENDS[end](doors, invoice)
    assert doors.open_cents() == 0


@pytest.mark.parametrize("end", ENDS)
def test_a_charge_under_way_is_canceled_once_its_debt_is_gone(doors: Doors, end: str) -> None:
    invoice = doors.debit()
    ENDS[end](doors, invoice)
    assert doors.open_cents() == 0
    assert doors.stripe.charged() == {}
    assert doors.reread(invoice)["payment_status"] == ("failed" if end == "by void" else "succeeded")


@pytest.mark.parametrize("part", PARTS)
def test_a_charge_under_way_never_takes_more_than_is_left(doors: Doors, part: str) -> None:
    invoice = doors.debit()
    PARTS[part](doors, invoice)
    doors.check()
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
    doors.box.run_due()
    assert doors.stripe.charged() == {"eur": 750}
    assert doors.reread(invoice)["payment_status"] == "succeeded"


def overdue(doors: Doors, *invoices: Any) -> None:
    doors.box.travel_to("2024-03-07T12:00:00Z")
    assert all(doors.reread(invoice)["payment_overdue"] for invoice in invoices)


@pytest.mark.parametrize(("part", "left"), [("by hand", 1800), ("by offset", 1800)])
def test_the_link_of_a_request_follows_what_is_due(doors: Doors, part: str, left: int) -> None:
    first, second = doors.invoice(), doors.invoice()
    overdue(doors, first, second)
    doors.request_page(first, second)
    assert doors.open_cents() == 2100
    PARTS[part](doors, first)
    assert (doors.open_cents(), doors.due_cents()) == (0, left)


def test_an_invoice_said_to_be_paid_is_not_charged_with_a_request(doors: Doors) -> None:
    first, second = doors.invoice(), doors.invoice()
    overdue(doors, first, second)
    session = doors.request_page(first, second)
    doors.settle_by_hand(first)
    assert doors.stripe.sessions[session]["status"] == "expired"
    # What is left is charged as soon as there is a card.
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    assert doors.stripe.charged() == {"eur": 1050}


def test_the_page_of_an_invoice_ends_that_of_its_request(doors: Doors) -> None:
    """And the other way round: the same money is asked for on one page at a time."""
    invoice = doors.invoice()
    overdue(doors, invoice)
    of_request = doors.request_page(invoice)
    doors.page(invoice)
    doors.box.run_due()
    assert doors.stripe.sessions[of_request]["status"] == "expired"
    doors.check()
    doors.request_page(invoice)
    doors.check()


def test_a_charge_waits_until_pages_have_ended(doors: Doors) -> None:
    """A customer leaves a card while a page is open, so that the invoice is charged."""
    invoice = doors.invoice()
    doors.page(invoice)
    session = next(iter(doors.pages()))
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    assert doors.stripe.sessions[session]["status"] == "expired"
    assert doors.stripe.charged() == {}
    doors.box.travel_to("2024-03-05T12:01:00Z")
    doors.assert_paid(invoice)
    assert doors.stripe.charged() == {"eur": 1050}


def test_a_charge_whose_answer_was_lost_is_canceled_once_the_provider_knows_it(doors: Doors) -> None:
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.append("processing")
    doors.stripe.befall(Fault.LOST, Fault.LOST, only="POST /v1/payment_intents")
    invoice = doors.invoice()
    doors.pay(invoice, 1050)
    doors.box.travel_to("2024-03-05T12:10:00Z")
    assert [item["status"] for item in doors.stripe.intents.values()] == ["canceled"]
    doors.assert_paid(invoice)
    (charged, _) = sorted(doors.payments(), key=lambda payment: payment["payment_status"])
    assert charged["payment_status"] == "failed"


# The status follows the sum


def test_a_page_that_was_paid_in_part_leaves_the_rest_due(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages())), amount=400))
    paid = doors.reread(invoice)
    assert (paid["payment_status"], paid["total_paid_amount_cents"], paid["total_due_amount_cents"]) == (
        "pending",
        400,
        650,
    )
    assert doors.sent("payment.succeeded", "invoice.payment_status_updated") == ["payment.succeeded"]
    overdue(doors, invoice)
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(list(doors.pages())[-1]))
    doors.assert_paid(invoice)
    assert not doors.reread(invoice)["payment_overdue"]
    assert doors.sent("invoice.payment_status_updated") == ["invoice.payment_status_updated"]


def test_a_charge_that_took_less_leaves_the_rest_due(doors: Doors) -> None:
    invoice = doors.debit()
    (intent,) = doors.stripe.intents
    doors.stripe.intents[intent]["amount"] = 400
    doors.notice(doors.stripe.payment_event(intent, "succeeded"))
    assert doors.due_cents() == 650
    (payment,) = doors.payments()
    assert (payment["payment_status"], payment["amount_cents"]) == ("succeeded", 400)
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
    doors.box.run_due()
    doors.assert_paid(invoice)
    assert doors.stripe.charged() == {"eur": 1050}


def test_the_page_of_a_request_that_was_paid_in_part_leaves_the_rest_due(doors: Doors) -> None:
    first, second = doors.invoice(), doors.invoice()
    overdue(doors, first, second)
    session = doors.request_page(first, second)
    doors.notice(doors.stripe.page_paid(session, amount=1500))
    assert [doors.reread(invoice)["payment_status"] for invoice in (first, second)] == ["succeeded", "pending"]
    assert (doors.due_cents(), doors.reread(second)["payment_overdue"]) == (600, True)
    (request,) = doors._ask("GET", "/payment_requests")["payment_requests"]
    assert request["payment_status"] == "pending"


def test_a_part_of_one_page_ends_the_page_over_the_whole(doors: Doors) -> None:
    """The customer paid on the page of the request before it could be ended for that of the invoice."""
    invoice = doors.invoice()
    overdue(doors, invoice)
    of_request = doors.request_page(invoice)
    doors.page(invoice)
    of_invoice = list(doors.pages())[-1]
    doors.notice(doors.stripe.page_paid(of_request, amount=400))
    assert doors.stripe.sessions[of_invoice]["status"] == "expired"
    doors.page(invoice)
    assert (doors.open_cents(), doors.due_cents()) == (650, 650)


def test_a_part_buys_no_credits(doors: Doors) -> None:
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": "Prepaid"}
    made = doors._ask("POST", "/wallets", wallet=wallet)["wallet"]
    top_up = {"wallet_id": made["svc_id"], "paid_credits": "100"}
    doors._ask("POST", "/wallet_transactions", wallet_transaction=top_up)
    doors.box.run_due()
    (bought,) = doors._ask("GET", f"/wallets/{made['svc_id']}/wallet_transactions")["wallet_transactions"]
    invoice = {"svc_id": bought["svc_invoice_id"]}

    def credits() -> str:
        balance: str = doors._ask("GET", f"/wallets/{made['svc_id']}")["wallet"]["credits_balance"]
        return balance

    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages())), amount=100))
    assert credits() == "0.0"
    doors.page(invoice)
    doors.notice(doors.stripe.page_paid(list(doors.pages())[-1]))
    assert doors.stripe.charged() == {"eur": 10_000}
    assert credits() == "100.0"


def test_a_debit_that_fails_days_later_says_why(doors: Doors) -> None:
    invoice = doors.debit()
    (intent,) = doors.stripe.intents
    doors.notice(doors.stripe.payment_event(intent, "payment_failed", code="debit_not_authorized"))
    assert doors.reread(invoice)["payment_status"] == "failed"
    (message,) = [item for item in doors.box.webhooks if item["webhook_type"] == "invoice.payment_failure"]
    error = message["payment_provider_invoice_payment_error"]["provider_error"]
    assert error == {"message": "declined", "error_code": "debit_not_authorized"}


def test_a_link_that_a_provider_keeps_for_weeks_is_ended_with_its_debt(box: Scenario) -> None:
    """The page of a payment request at Adyen can be used for 70 days."""
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        box.entity(name="Lumen", email="billing@lumen.example")
        life.notice(adyen.card_left("acme", "8415"))
        adyen.outcomes.extend(["Refused", "Refused"])
        invoice = life.invoice()
        box.travel_to("2024-03-07T12:00:00Z")
        ids = {"external_customer_id": "acme", "svc_invoice_ids": [invoice["svc_id"]]}
        life._ask("POST", "/payment_requests", payment_request=ids)
        box.run_due()
        (link,) = (id for id, page in adyen.links.items() if page["amount"]["value"])
        box.travel_to("2024-03-20T12:00:00Z")
        assert adyen.links[link]["status"] == "active"
        life.settle_by_hand(invoice)
        assert adyen.links[link]["status"] == "expired"


def test_a_failed_invoice_that_is_charged_again_is_said_to_be_pending(doors: Doors) -> None:
    invoice = doors.debit()
    (intent,) = doors.stripe.intents
    doors.notice(doors.stripe.payment_event(intent, "payment_failed"))
    doors.stripe.outcomes.append("processing")
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
    doors.box.run_due()
    told = [item["invoice"] for item in doors.box.webhooks if item["webhook_type"] == "invoice.payment_status_updated"]
    assert [item["payment_status"] for item in told] == ["failed", "pending"]


def test_a_charge_of_a_request_never_takes_more_than_is_left(doors: Doors) -> None:
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.extend(["declined", "declined"])
    first, second = doors.invoice(), doors.invoice()
    overdue(doors, first, second)
    doors.stripe.outcomes.append("processing")
    ids = [first["svc_id"], second["svc_id"]]
    doors._ask("POST", "/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": ids})
    doors.box.run_due()
    assert (doors.open_cents(), doors.due_cents()) == (2100, 2100)
    doors.pay(first, 400)
    assert list(doors.stripe.intents.values())[-1]["status"] == "canceled"
    # The rest is asked for by e-mail, or charged, although no notice of the cancellation has come.
    assert (doors.open_cents(), doors.due_cents()) == (1700, 1700)
    doors._ask("POST", f"/invoices/{second['svc_id']}/retry_payment")
    doors.box.travel_to(doors.box.now + timedelta(minutes=1))
    doors.assert_paid(second)
    assert (doors.open_cents(), doors.due_cents()) == (0, 650)


def test_a_charge_waits_until_its_provider_has_ended_the_pages(doors: Doors) -> None:
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.append("declined")
    invoice = doors.invoice()
    doors.page(invoice)
    # The page cannot be ended for a while.
    doors.stripe.befall(*[Fault.BUSY] * 3, only="POST /v1/checkout/sessions/")
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
    intents = len(doors.stripe.intents)
    for _ in range(4):
        doors.box.travel_to(doors.box.now + timedelta(seconds=20))
        doors.check()
        (page,) = doors.pages().values()
        assert page["status"] == "expired" or len(doors.stripe.intents) == intents
    doors.box.travel_to(doors.box.now + timedelta(minutes=20))
    doors.assert_paid(invoice)
    assert next(iter(doors.pages().values()))["status"] == "expired"


def test_a_page_opens_once_the_one_that_it_replaces_has_ended(doors: Doors) -> None:
    invoice = doors.invoice()
    overdue(doors, invoice)
    offered: list[int] = []
    doors.watch(lambda: offered.append(doors.open_cents()))
    doors.request_page(invoice)
    doors.page(invoice)
    doors.request_page(invoice)
    # Its e-mail comes once it is known that there is no card to charge.
    doors.box.travel_to(doors.box.now + timedelta(minutes=1))
    assert offered == [1050, 1050, 1050]


def test_there_is_no_new_page_while_the_old_one_cannot_be_ended(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    doors.stripe.befall(*[Fault.BUSY] * 2, only="GET /v1/checkout/sessions/")
    doors.pay(invoice, 300)
    assert doors.open_cents() == 1050
    status, answer = doors.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/payment_url")
    assert (status, answer["code"], answer["error_details"]["third_party"]) == (422, "third_party_error", "Stripe")
    assert len(doors.pages()) == 1
    doors.page(invoice)
    assert (doors.open_cents(), doors.due_cents()) == (750, 750)


def test_a_charge_that_waits_for_its_customer_ends_before_a_page_opens(doors: Doors) -> None:
    doors.box.billing.payment_connections.update("main", supports_3ds=True)
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.extend(["needs_action", "needs_action"])
    invoice = doors.invoice()
    doors.box.travel_to("2024-03-05T12:10:00Z")
    assert doors.open_cents() == 1050
    offered: list[int] = []
    doors.watch(lambda: offered.append(doors.open_cents()))
    doors.page(invoice)
    assert offered == [1050]
    assert [payment["payment_status"] for payment in doors.payments()] == ["failed", "failed"]
    doors.notice(doors.stripe.page_paid(next(iter(doors.pages()))))
    doors.assert_paid(invoice)


def test_a_charge_that_was_confirmed_meanwhile_leaves_no_room_for_a_page(doors: Doors) -> None:
    doors.box.billing.payment_connections.update("main", supports_3ds=True)
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.extend(["needs_action", "needs_action"])
    invoice = doors.invoice()
    doors.box.travel_to("2024-03-05T12:10:00Z")
    confirmed = next(id for id, item in doors.stripe.intents.items() if item["status"] == "requires_action")
    late = doors.stripe.payment_event(confirmed, "succeeded")
    status, answer = doors.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/payment_url")
    assert (status, answer["code"]) == (405, "payment_processor_is_currently_handling_payment")
    assert doors.pages() == {}
    doors.notice(late)
    doors.assert_paid(invoice)


def test_a_page_is_over_what_is_due_when_it_is_handed_out(doors: Doors) -> None:
    """A payment is recorded while the provider is asked for the page."""
    invoice = doors.invoice()
    paid: list[int] = []

    def pay() -> None:
        if not paid:
            paid.append(300)
            doors.box.billing.payments.create(invoice_id=invoice["svc_id"], amount_cents=300, reference="bank")

    doors.watch(pay)
    url = doors.page(invoice)
    handed_out = doors.pages()[url.rpartition("/")[2]]
    assert [line["price_data"]["unit_amount"] for line in handed_out["line_items"]] == ["750"]


# A charge whose answer was lost, and less is due since


def lose(doors: Doors, *, is_made: bool, outcome: str = "succeeded") -> Any:
    """An invoice whose charge has no answer; the provider has made it, or has not."""
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.append(outcome)
    doors.stripe.befall(*[Fault.LOST if is_made else Fault.CLOSED] * 2, only="POST /v1/payment_intents")
    return doors.invoice()


@pytest.mark.parametrize("part", PARTS)
def test_a_charge_without_an_answer_is_not_sent_again_once_less_is_due(doors: Doors, part: str) -> None:
    invoice = lose(doors, is_made=False)
    PARTS[part](doors, invoice)
    doors.box.travel_to("2024-03-05T13:00:00Z")
    assert doors.stripe.charged() == {"eur": 750}
    assert (doors.reread(invoice)["payment_status"], doors.due_cents()) == ("succeeded", 0)
    assert sorted((item["payment_status"], item["amount_cents"]) for item in doors.payments())[0] == ("failed", 1050)
    # Nothing has failed that anybody should hear of.
    assert doors.sent("invoice.payment_failure") == []


@pytest.mark.parametrize("end", ENDS)
def test_a_charge_without_an_answer_is_not_sent_again_once_its_debt_is_gone(doors: Doors, end: str) -> None:
    invoice = lose(doors, is_made=False)
    ENDS[end](doors, invoice)
    doors.box.travel_to("2024-03-06T12:00:00Z")
    assert doors.stripe.intents == {}
    assert [item["payment_status"] for item in doors.payments() if item["payment_provider_code"]] == ["failed"]
    assert doors.sent("invoice.payment_failure") == []


def test_a_charge_whose_answer_was_lost_is_known_without_being_sent_again(doors: Doors) -> None:
    """The provider has taken 10.50 before 3.00 came by hand: both are in the books, and what is too much is seen."""
    invoice = lose(doors, is_made=True)
    doors.pay(invoice, 300)
    doors.box.travel_to("2024-03-05T13:00:00Z")
    assert len(doors.stripe.asked("POST /v1/payment_intents")) == 2
    assert doors.stripe.charged() == {"eur": 1050}
    paid = doors.reread(invoice)
    assert (paid["payment_status"], paid["total_paid_amount_cents"]) == ("succeeded", 1350)
    assert doors.sent("invoice.overpaid") == ["invoice.overpaid"]


def test_a_debit_whose_answer_was_lost_is_canceled_once_it_is_looked_up(doors: Doors) -> None:
    invoice = lose(doors, is_made=True, outcome="processing")
    doors.pay(invoice, 300)
    doors.box.travel_to("2024-03-05T13:00:00Z")
    assert [item["status"] for item in doors.stripe.intents.values()] == ["canceled"]
    doors.check()


def test_the_request_of_a_charge_that_was_never_made_is_charged_for_what_is_left(doors: Doors) -> None:
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.extend(["declined", "declined"])
    first, second = doors.invoice(), doors.invoice()
    overdue(doors, first, second)
    doors.stripe.befall(*[Fault.CLOSED] * 2, only="POST /v1/payment_intents")
    ids = [first["svc_id"], second["svc_id"]]
    doors._ask("POST", "/payment_requests", payment_request={"external_customer_id": "acme", "svc_invoice_ids": ids})
    doors.box.run_due()
    doors.pay(first, 400)
    doors.box.travel_to(doors.box.now + timedelta(hours=1))
    assert doors.stripe.charged() == {"eur": 1700}
    for invoice in (first, second):
        doors.assert_paid(invoice)


def test_a_notice_that_overtakes_its_answer_cancels_a_debit_over_too_much(box: Scenario) -> None:
    gocardless = GoCardlessServer(now=lambda: box.now)
    with living(box, gocardless, "GBP") as life:
        life.notice(gocardless.mandate_signed(next(iter(gocardless.customers)), "MD1"))
        gocardless.befall(*[Fault.LOST] * 2, only="POST /payments")
        invoice = life.invoice()
        payment = {"invoice_id": invoice["svc_id"], "amount_cents": 300, "reference": "bank"}
        life._ask("POST", "/payments", payment=payment)
        (debit,) = gocardless.payments
        life.notice(gocardless.event_now(debit, "failed", "pending_submission"))
        assert gocardless.payments[debit]["status"] == "cancelled"


@pytest.mark.parametrize("outcome", ["needs_action", "amount_too_small"])
def test_a_request_that_its_customer_has_to_confirm_or_that_is_too_small_closes_no_invoice(
    doors: Doors, outcome: str
) -> None:
    doors.box.billing.payment_connections.update("main", supports_3ds=True)
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.stripe.outcomes.append("declined")
    invoice = doors.invoice()
    overdue(doors, invoice)
    if outcome == "needs_action":
        doors.stripe.outcomes.extend([outcome, outcome])
    else:
        doors.stripe.error_once(400, outcome, "Amount must be at least 0.50 EUR")
    ids = {"external_customer_id": "acme", "svc_invoice_ids": [invoice["svc_id"]]}
    doors._ask("POST", "/payment_requests", payment_request=ids)
    doors.box.run_due()
    doors.box.travel_to(doors.box.now + timedelta(minutes=1))
    if outcome == "needs_action":
        assert doors.open_cents() == 1050
    doors._ask("POST", f"/invoices/{invoice['svc_id']}/payment_url")
    assert doors.open_cents() == 1050


# A page that was paid, and whose notice has not come


def test_a_page_that_was_paid_leaves_nothing_to_charge_though_its_notice_is_late(doors: Doors) -> None:
    invoice = doors.invoice()
    doors.page(invoice)
    late = doors.stripe.page_paid(next(iter(doors.pages())))
    # It would be charged now.
    doors.notice(doors.stripe.card_added("cus_1", "pm_1"))
    doors.box.travel_to("2024-03-05T12:10:00Z")
    assert doors.stripe.charged() == {"eur": 1050}
    doors.assert_paid(invoice)
    doors.notice(late)
    doors.assert_paid(invoice)


def test_a_page_that_was_paid_leaves_no_room_for_another(doors: Doors) -> None:
    invoice = doors.invoice()
    overdue(doors, invoice)
    of_request = doors.request_page(invoice)
    doors.stripe.page_paid(of_request)
    status, answer = doors.box.request("POST", f"/api/v1/invoices/{invoice['svc_id']}/payment_url")
    assert (status, answer["code"]) == (405, "payment_processor_is_currently_handling_payment")
    assert list(doors.pages()) == [of_request]
    # The provider has said so: nobody waits for the notice.
    doors.box.run_due()
    doors.assert_paid(invoice)


def test_a_link_at_adyen_that_was_paid_is_not_charged_before_its_notice_comes(box: Scenario) -> None:
    """Adyen says that a link is paid, but not by which payment."""
    adyen = AdyenServer(now=lambda: box.now)
    with living(box, adyen) as life:
        life.notice(adyen.card_left("acme", "8415"))
        adyen.outcomes.append("Refused")
        invoice = life.invoice()
        life.page(invoice)
        (link,) = (id for id, page in adyen.links.items() if page["amount"]["value"])
        late = adyen.link_paid(link, 1050)
        life._ask("POST", f"/invoices/{invoice['svc_id']}/retry_payment")
        box.travel_to(box.now + timedelta(hours=5))
        assert adyen.authorised() == {"EUR": 1050}
        life.notice(late)
        box.travel_to(box.now + timedelta(hours=2))
        life.assert_paid(invoice)
        assert adyen.authorised() == {"EUR": 1050}


def test_a_dispute_that_is_told_before_its_charge_is_known_counts(doors: Doors) -> None:
    """The charge is looked up, as less is due by now, when its notice has been given up."""
    invoice = lose(doors, is_made=True)
    doors.pay(invoice, 300)
    (intent,) = doors.stripe.intents
    doors.notice(doors.stripe.dispute_closed(intent))
    doors.box.travel_to("2024-03-05T12:08:00Z")
    assert doors.unhandled() == ["charge.dispute.closed"]
    doors.box.travel_to("2024-03-05T16:00:00Z")
    assert doors.unhandled() == []
    assert doors.reread(invoice)["payment_dispute_lost_at"] is not None


def test_a_dispute_that_is_told_before_the_success_of_its_charge_counts(doors: Doors) -> None:
    """The notice of the success is lost: it is known by a look-up, hours later."""
    invoice = doors.debit()
    (intent,) = doors.stripe.intents
    doors.stripe.payment_event(intent, "succeeded")
    doors.notice(doors.stripe.dispute_closed(intent))
    doors.box.travel_to("2024-03-05T12:08:00Z")
    assert doors.unhandled() == ["charge.dispute.closed"]
    doors.box.travel_to("2024-03-05T16:00:00Z")
    assert doors.unhandled() == []
    assert doors.reread(invoice)["payment_dispute_lost_at"] is not None
