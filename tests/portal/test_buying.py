"""Customers buy credits and choose how they pay."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from tests.asgi import send
from tests.cases import each
from tests.payment_providers.test_lives import living
from tests.payment_servers.stripe import StripeServer
from tests.portal.test_pages import NARROW
from tests.scenarios import Scenario

from usagebill.core.documents.words import WORDS
from usagebill.http.app import create_app


class Portal:
    """The pages of acme, with a wallet whose credits cost 0.10 each."""

    def __init__(self, box: Scenario, **wallet: Any) -> None:
        self.box = box
        made = {"external_customer_id": "acme", "rate_amount": "0.1", "currency": "EUR", **wallet}
        self.wallet = str(box.post("/wallets", wallet=made)["wallet"]["svc_id"])

    def ask(self, path: str, method: str = "GET", customer: str = "acme", **rest: Any) -> httpx.Response:
        url = str(self.box.get(f"/customers/{customer}/portal_url")["customer"]["portal_url"])
        return send(create_app(self.box.billing), method, url.removeprefix("http://localhost:8000") + path, **rest)

    def shown(self, path: str) -> str:
        answer = self.ask(path)
        assert answer.status_code == 200
        return answer.text.replace(NARROW, " ")

    def order(self, credits: str) -> dict[str, str]:
        """The form of the page that shows their price."""
        page = self.shown(f"/wallets/{self.wallet}?credits={credits}")
        return dict(re.findall(r'name="(order|credits)" value="([^"]*)"', page))

    def buy(self, form: dict[str, str], **rest: Any) -> httpx.Response:
        return self.ask(f"/wallets/{self.wallet}", "POST", data=form, **rest)

    def transactions(self) -> Any:
        return self.box.get(f"/wallets/{self.wallet}/wallet_transactions")["wallet_transactions"]

    def credits(self) -> str:
        return str(self.box.get(f"/wallets/{self.wallet}")["wallet"]["credits_balance"])


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-03-05T12:00:00Z") as box:
        box.tax(19)
        for name in ("acme", "other"):
            box.customer(name)
        yield box


def test_credits_cost_what_the_page_says_and_are_there_once_they_are_paid(box: Scenario) -> None:
    portal = Portal(box)
    assert f"/wallets/{portal.wallet}" in portal.shown("")
    page = portal.shown(f"/wallets/{portal.wallet}?credits=50")
    assert "50.00 credits cost €5.00." in page
    assert "Buy for €5.00" in page
    assert portal.transactions() == []
    answer = portal.buy(portal.order("50"))
    assert (answer.status_code, answer.headers["location"].rpartition("?")[2]) == (303, "ordered")
    assert "Ordered." in portal.shown("?ordered")
    (invoice,) = box.invoices("acme")
    # Prepaid credits are taxed when they are used.
    assert (invoice["invoice_type"], invoice["total_amount_cents"]) == ("credit", 5_00)
    assert portal.credits() == "0.0"
    box.post("/payments", payment={"invoice_id": invoice["svc_id"], "amount_cents": 5_00, "reference": "bank"})
    box.run_due()
    assert portal.credits() == "50.0"


def test_a_form_that_is_sent_twice_buys_once(box: Scenario) -> None:
    portal = Portal(box)
    form = portal.order("50")
    for _ in range(3):
        assert portal.buy(form).status_code == 303
    assert len(portal.transactions()) == 1
    assert len(box.invoices("acme")) == 1
    # Another price under the same key is no order.
    assert portal.buy({**form, "credits": "5000"}).status_code == 422
    assert portal.buy(portal.order("50")).status_code == 303
    assert len(portal.transactions()) == 2


@each("credits", ["0", "-5", "0.01", "many", "1e400", "9.9", "1000.1", "<svg onload=top.owned=1>"], ids=str)
def test_what_cannot_be_bought_is_said_and_costs_nothing(box: Scenario, credits: str) -> None:
    portal = Portal(box, paid_top_up_min_amount_cents=1_00, paid_top_up_max_amount_cents=100_00)
    page = portal.ask(f"/wallets/{portal.wallet}", params={"credits": credits})
    assert page.status_code == 422
    assert "cannot be bought" in page.text
    assert "At least €1.00 · At most €100.00" in page.text.replace(NARROW, " ")
    assert "<svg onload" not in page.text
    assert portal.buy({"credits": credits, "order": "key"}).status_code == 422
    assert portal.transactions() == []
    box.delete(f"/wallets/{portal.wallet}")


def test_an_order_needs_the_key_of_its_page(box: Scenario) -> None:
    portal = Portal(box)
    for form in ({"credits": "50"}, {"credits": "50", "order": ""}, {"credits": "50", "order": "x" * 300}):
        assert portal.buy(form).status_code == 422
    assert portal.transactions() == []


def test_nobody_buys_for_another_customer(box: Scenario) -> None:
    portal = Portal(box)
    form = portal.order("50")
    assert portal.ask(f"/wallets/{portal.wallet}?credits=50", customer="other").status_code == 404
    assert portal.buy(form, customer="other").status_code == 404
    assert portal.transactions() == []
    box.delete(f"/wallets/{portal.wallet}")
    assert portal.buy(form).status_code == 404


def test_with_payment_pages_the_invoice_exists_once_it_is_paid(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        portal = Portal(box)
        answer = portal.buy(portal.order("50"))
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("https://checkout.stripe.test/")
        assert box.invoices("acme") == []
        assert portal.buy(portal.order("50")).headers["location"] != answer.headers["location"]
        first = answer.headers["location"].rpartition("/")[2]
        assert life.notice(stripe.page_paid(first)) == 200
        assert portal.credits() == "50.0"
        (invoice,) = box.invoices("acme")
        assert (invoice["total_amount_cents"], invoice["payment_status"]) == (5_00, "succeeded")


def test_payment_methods_are_chosen_and_removed(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        portal = Portal(box)
        assert "There is no payment method yet." in portal.shown("/payment-methods")
        for card in ("pm_1", "pm_2"):
            assert life.notice(stripe.card_added("cus_1", card)) == 200
        methods = {method["provider_method_id"]: method for method in methods_of(box)}
        assert [name for name, method in methods.items() if method["is_default"]] == ["pm_2"]
        page = portal.shown("/payment-methods")
        assert page.count("Used by default") == 1
        first = {"method": methods["pm_1"]["svc_id"]}
        assert portal.ask("/payment-methods", "POST", data=first | {"act": "default"}).status_code == 303
        assert [m["provider_method_id"] for m in methods_of(box) if m["is_default"]] == ["pm_1"]
        for act in ("default", "remove"):
            assert (
                portal.ask("/payment-methods", "POST", customer="other", data=first | {"act": act}).status_code == 404
            )
        assert portal.ask("/payment-methods", "POST", data=first | {"act": "steal"}).status_code == 404
        assert portal.ask("/payment-methods", "POST", data=first | {"act": "remove"}).status_code == 303
        assert [m["provider_method_id"] for m in methods_of(box)] == ["pm_2"]
        added = portal.ask("/payment-methods/new", "POST")
        assert added.status_code == 303
        assert added.headers["location"].startswith("https://checkout.stripe.test/")


def methods_of(box: Scenario) -> Any:
    return box.get("/customers/acme/payment_methods")["payment_methods"]


def test_without_a_provider_there_is_no_page_for_methods_to_add(box: Scenario) -> None:
    portal = Portal(box)
    assert "/payment-methods" not in portal.shown("")
    assert portal.ask("/payment-methods/new", "POST").status_code == 422


@pytest.mark.parametrize("locale", WORDS)
def test_buying_speaks_the_languages_of_documents(box: Scenario, locale: str) -> None:
    portal = Portal(box, paid_top_up_min_amount_cents=1_00)
    box.customer("acme", billing_configuration={"document_locale": locale})
    for path in (f"/wallets/{portal.wallet}", f"/wallets/{portal.wallet}?credits=50", "/payment-methods", "?ordered"):
        page = portal.shown(path)
        assert f'<html lang="{locale}">' in page
        assert "{" not in page
