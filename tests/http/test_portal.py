"""The customer portal: a link for one customer, and the pages behind it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import structlog.testing
from tests.asgi import send
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.core.documents.words import WORDS
from usagebill.core.portal import portal_token
from usagebill.http.app import create_app

pytestmark = [pytest.mark.now("2024-03-05T09:00:00Z"), pytest.mark.usefixtures("acme")]


def link(box: Scenario, customer: str = "acme") -> str:
    """The path of a new link."""
    url = str(box.get(f"/customers/{customer}/portal_url")["customer"]["portal_url"])
    assert url.startswith("http://localhost:8000/customer-portal/")
    return url.removeprefix("http://localhost:8000")


def visit(box: Scenario, path: str, method: str = "GET") -> httpx.Response:
    return send(create_app(box.billing), method, path)


def one_off(box: Scenario, cents: int = 100_00, **fields: Any) -> Any:
    invoice = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup", **fields}]}
    if box.send("GET", "/add_ons/setup")[0] == 404:
        box.add_on("setup", cents)
    return box.post("/invoices", invoice=invoice)["invoice"]


def test_it_shows_invoices_what_is_due_and_wallets(box: Scenario) -> None:
    box.customer(name="Acme & Söhne <GmbH>", billing_configuration={"document_locale": "de"})
    paid, unpaid = one_off(box), one_off(box, unit_amount_cents=2_345_67)
    box.post("/payments", payment={"invoice_id": paid["svc_id"], "amount_cents": 100_00, "reference": "bank"})
    box.post(
        "/wallets",
        wallet={
            "external_customer_id": "acme",
            "name": "Vorrat",
            "rate_amount": "0.5",
            "currency": "EUR",
            "granted_credits": "20",
            "expiration_at": "2024-12-31T23:00:00Z",
        },
    )
    page = visit(box, link(box))
    assert page.status_code == 200
    assert "Acme &amp; Söhne &lt;GmbH&gt;" in page.text
    assert '<html lang="de">' in page.text
    for text in ("Zu zahlen", "2.345,67", paid["number"], unpaid["number"], "Bezahlt", "Unbezahlt", "Vorrat", "10,00"):
        assert text in page.text
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text


def test_nothing_to_show_is_said(box: Scenario) -> None:
    page = visit(box, link(box)).text
    assert "There is nothing to pay." in page
    assert "There are no invoices yet." in page


@pytest.mark.parametrize("locale", WORDS)
def test_it_speaks_the_languages_of_documents(box: Scenario, locale: str) -> None:
    box.customer(billing_configuration={"document_locale": locale})
    one_off(box)
    page = visit(box, link(box))
    assert f'<html lang="{locale}">' in page.text


def test_documents_are_those_of_the_customer_alone(box: Scenario) -> None:
    mine = one_off(box)
    box.customer("other")
    path = link(box)
    document = visit(box, f"{path}/invoices/{mine['svc_id']}/pdf")
    assert (document.status_code, document.content[:5]) == (200, b"%PDF-")
    assert visit(box, f"{link(box, 'other')}/invoices/{mine['svc_id']}/pdf").status_code == 404
    assert visit(box, f"{path}/invoices/none/pdf").status_code == 404


def test_a_link_opens_nothing_elsewhere(box: Scenario) -> None:
    with Billing(":memory:") as elsewhere:
        assert send(create_app(elsewhere), "GET", link(box)).status_code == 401


def test_a_link_expires_and_cannot_be_altered(box: Scenario) -> None:
    path = link(box)
    assert visit(box, path[:-1] + ("0" if path[-1] != "0" else "1")).status_code == 401
    assert visit(box, "/customer-portal/x").status_code == 401
    box.travel_to("2024-03-05T20:59:59Z")
    assert visit(box, path).status_code == 200
    box.travel_to("2024-03-05T21:00:00Z")
    for page in (path, path + "/invoices/x/pdf"):
        assert visit(box, page).status_code == 401
    assert visit(box, path + "/invoices/x/pay", "POST").status_code == 401
    assert box.get("/customers/none/portal_url", status=404)["code"] == "customer_not_found"


def test_a_link_signed_with_the_key_that_webhook_receivers_know_is_refused(box: Scenario) -> None:
    customer, _, _ = link(box).removeprefix("/customer-portal/").split(".")
    forged = portal_token(box.billing.organization.hmac_key, customer, datetime(2024, 3, 5, 9, tzinfo=UTC))
    assert visit(box, f"/customer-portal/{forged}").status_code == 401


def test_a_deleted_customer_has_no_pages(box: Scenario) -> None:
    path = link(box)
    box.delete("/customers/acme")
    assert visit(box, path).status_code == 401


def test_pages_of_invoices(box: Scenario) -> None:
    for _ in range(21):
        one_off(box)
    path = link(box)
    first, second = visit(box, path).text, visit(box, path + "?page=2").text
    assert (first.count("/pdf"), second.count("/pdf")) == (20, 1)
    assert "Older" in first
    assert "Newer" not in first
    assert "Newer" in second
    for odd in ("0", "-1", "x", "9" * 30, "٣"):
        assert visit(box, f"{path}?page={odd}").status_code == 200


def test_without_a_provider_there_is_nothing_to_press(box: Scenario) -> None:
    invoice = one_off(box)
    path = link(box)
    assert "<button" not in visit(box, path).text
    refused = visit(box, f"{path}/invoices/{invoice['svc_id']}/pay", "POST")
    assert refused.status_code == 422
    assert "cannot be opened now" in refused.text
    assert visit(box, f"{path}/invoices/{invoice['svc_id']}/pay").status_code == 405


def test_the_log_does_not_have_what_opens_the_pages(box: Scenario) -> None:
    invoice = one_off(box)
    path = link(box)
    app = create_app(box.billing, log_requests=True)
    with structlog.testing.capture_logs() as lines:
        for page in (path, f"{path}/invoices/{invoice['svc_id']}/pdf", "/documents/a.b"):
            send(app, "GET", page)
    customer = path.partition(".")[0]
    assert [line["path"] for line in lines if line["event"] == "request"] == [
        customer,
        f"{customer}/invoices/{invoice['svc_id']}/pdf",
        "/documents/a",
    ]
