"""Whoever has no link, an old or altered one, or another customer's, gets nothing of any page, and changes nothing."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from tests.asgi import send
from tests.console.books import SCRIPT
from tests.payment_providers.test_lives import living
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario, charge_on

from usagebill.core.payments import PaymentMethod
from usagebill.http.app import create_app
from usagebill.portal.pages import PAGES, Page
from usagebill.storage.tables import TABLES

OWN_DOCUMENTS = ("/credit-notes/{id}/pdf", "/receipts/{id}/pdf")


class Books:
    """A customer with something behind every page, its texts all scripts, and another one."""

    def __init__(self, box: Scenario, stripe: StripeServer, life: Any) -> None:
        self.box = box
        self._app = create_app(box.billing)
        tokens = box.metric("tokens", name=SCRIPT, description=SCRIPT)
        box.tax(19, name=SCRIPT, description=SCRIPT)
        for code, cents in (("basic", 10_00), ("max", 20_00)):
            box.plan(
                charge_on(tokens, amount="1", invoice_display_name=SCRIPT),
                code=code,
                name=SCRIPT,
                invoice_display_name=SCRIPT,
                description=SCRIPT,
                amount_cents=cents,
                pay_in_advance=True,
                offered_in_portal=True,
            )
        box.put(
            "/billing_entities/default",
            billing_entity={
                **dict.fromkeys(("name", "legal_name", "city", "address_line1"), SCRIPT),
                "billing_configuration": {"invoice_footer": SCRIPT},
            },
        )
        box.customer("other")
        box.customer(
            "acme", **dict.fromkeys(("name", "legal_name", "city", "state", "address_line1", "zipcode"), SCRIPT)
        )
        assert life.notice(stripe.card_added("cus_1", "pm_1")) == 200
        box.subscribe(plan="basic", external_id=SCRIPT, customer="acme", name=SCRIPT)
        box.coupon(1_00, "acme", name=SCRIPT)
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": SCRIPT}
        self.wallet = box.post("/wallets", wallet=wallet)["wallet"]["svc_id"]
        box.event("tokens", SCRIPT, value="3", **{"note": SCRIPT, SCRIPT: SCRIPT})
        self.invoice = life.invoice()
        (method,) = box.billing.reading(lambda reader: reader.tx.find(PaymentMethod))
        self.form = {
            "plan": "max",
            "credits": "50",
            "order": "key",
            "method": method.id,
            "act": "remove",
            "name": "Eve",
            "city": "Elsewhere",
        }

    def link(self, customer: str = "acme") -> str:
        url = str(self.box.get(f"/customers/{customer}/portal_url")["customer"]["portal_url"])
        return url.removeprefix("http://localhost:8000")

    def path(self, page: Page) -> str:
        """Where the page is for the first customer's own records."""
        ids = {
            "invoice_id": self.invoice["svc_id"],
            "id": self.wallet if page.path.startswith("/wallets") else "none",
            "external_id": "%3Csvg%20class%3Downed%20onload%3Dtop.owned%3D1%3E",
        }
        return re.sub(r"\{(\w+)(?::path)?\}", lambda match: ids[match[1]], page.path)

    def ask(self, link: str, page: Page) -> httpx.Response:
        form = {"data": self.form} if page.method == "POST" else {}
        return send(self._app, page.method, link + self.path(page), **form)

    def rows(self) -> dict[str, str]:
        """Every record, as a text."""

        def read(reader: Any) -> dict[str, str]:
            kinds: list[Any] = [table.kind for table in TABLES]
            return {kind.__name__: repr(sorted(map(repr, reader.tx.each(kind, deleted=True)))) for kind in kinds}

        return self.box.billing.reading(read)


@pytest.fixture
def books() -> Any:
    with Scenario(now="2024-03-05T12:00:00Z") as box:
        stripe = StripeServer(now=lambda: box.now)
        with living(box, stripe) as life:
            yield Books(box, stripe, life)


def test_every_page_is_there_for_its_customer(books: Books) -> None:
    for page in PAGES:
        if page.method == "GET" and page.path not in OWN_DOCUMENTS:
            assert books.ask(books.link(), page).status_code == 200, page.path


def test_no_page_opens_without_a_link_of_now(books: Books) -> None:
    link = books.link()
    altered = link[:-1] + ("0" if link[-1] != "0" else "1")
    later = re.sub(r"\.(\d+)\.", lambda match: f".{int(match[1]) + 60}.", link)
    forged = re.sub(r"/[0-9a-f-]{36}\.", f"/{books.box.get('/customers/other')['customer']['svc_id']}.", link)
    strangers = (altered, later, forged, link.rpartition(".")[0], "/customer-portal/x")
    before = books.rows()
    for page in PAGES:
        for stranger in strangers:
            answer = books.ask(stranger, page)
            assert answer.status_code == 401, (page, stranger)
            assert "owned" not in answer.text
    assert books.rows() == before
    books.box.travel_to("2024-03-06T00:00:00Z")
    before = books.rows()
    for page in PAGES:
        assert books.ask(link, page).status_code == 401, page
    assert books.rows() == before


def test_another_customers_link_opens_no_page_of_somebody_elses_records(books: Books) -> None:
    other, before = books.link("other"), books.rows()
    named = [page for page in PAGES if "{" in page.path]
    assert len(named) > 10
    for page in (*named, *(page for page in PAGES if page.path == "/payment-methods" and page.method == "POST")):
        answer = books.ask(other, page)
        assert answer.status_code == 404, page
        assert "owned" not in answer.text
    assert books.rows() == before


def test_looking_at_a_form_sends_none(books: Books) -> None:
    link, before = books.link(), books.rows()
    gets = {page.path for page in PAGES if page.method == "GET"}
    for page in PAGES:
        if page.method == "POST":
            answer = send(create_app(books.box.billing), "GET", link + books.path(page), params=books.form)
            assert answer.status_code in ((200, 404) if page.path in gets else (405,)), page
    assert books.rows() == before


def test_no_text_of_anybody_is_a_script(books: Books) -> None:
    link, seen = books.link(), 0
    for page in PAGES:
        if page.method == "GET" and page.path not in OWN_DOCUMENTS:
            answer = books.ask(link, page)
            if answer.headers["content-type"].startswith("text/html"):
                assert "<svg class=owned" not in answer.text, page.path
                assert "script-src" not in answer.headers["content-security-policy"]
                assert "default-src 'none'" in answer.headers["content-security-policy"]
                seen += answer.text.count("&lt;svg class=owned")
    assert seen > 20
