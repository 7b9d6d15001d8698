"""The pages of a customer: usage and what it costs, invoices line by line, other documents, billing details."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import pytest
from tests.asgi import send
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.core.documents.locales import money_text
from usagebill.core.documents.words import WORDS
from usagebill.http.app import create_app

SCRIPT = "<svg onload=top.owned=1>"
NARROW = "\N{NO-BREAK SPACE}"


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-03-01T09:00:00Z") as box:
        box.tax(19)
        tokens = box.metric("tokens", name="Tokens", filters=[{"key": "model", "values": ["big", "small"]}])
        ranges = price_ranges((0, 100, "0.10", "0"), (101, None, "0.05", "2"))
        box.plan(
            charge_on(
                tokens,
                "graduated",
                graduated_ranges=ranges,
                filters=[{"values": {"model": ["big"]}, "properties": {"graduated_ranges": ranges}}],
            ),
            amount_cents=4900,
            name="Pro",
        )
        for name in ("acme", "other"):
            box.customer(name, timezone="Europe/Berlin")
            box.subscribe(external_id=f"{name}/1", customer=name)
        yield box


def visit(box: Scenario, path: str = "", method: str = "GET", customer: str = "acme", **rest: Any) -> httpx.Response:
    url = str(box.get(f"/customers/{customer}/portal_url")["customer"]["portal_url"])
    return send(create_app(box.billing), method, url.removeprefix("http://localhost:8000") + path, **rest)


def shown(box: Scenario, path: str) -> str:
    """A page, with spaces at which lines may break."""
    return visit(box, path).text.replace(NARROW, " ")


def use(box: Scenario) -> None:
    for day, value in ((3, "60"), (5, "90")):
        box.travel_to(f"2024-03-{day:02}T12:00:00Z")
        box.event("tokens", "acme/1", value=value, model="big", user=SCRIPT)


def test_usage_is_told_line_by_line_as_it_will_be_on_the_invoice(box: Scenario) -> None:
    use(box)
    box.customer("acme", billing_configuration={"document_locale": "de"})
    assert '/usage/acme%2F1"' in visit(box).text
    page = shown(box, "/usage/acme%2F1")
    # 100 at 0.10, 50 at 0.05 and a flat 2.00 are 14.50; with 19 % 17.26 (17.255).
    for text in ("14,50 €", "17,26 €", "Gebühr pro Einheit für die ersten 100", "10,00 €", "2,50 €", "2,00 €"):
        assert text in page, text
    assert "Wird am 01.04.2024 berechnet" in page
    assert page.count("user: &lt;svg onload=top.owned=1&gt;") == 2
    box.travel_to("2024-04-01T00:00:00Z")
    (invoice,) = [found for found in box.invoices("acme") if found["issuing_date"] == "2024-04-01"]
    lines = shown(box, f"/invoices/{invoice['svc_id']}")
    for text in ("Gebühr pro Einheit für die ersten 100", "10,00 €", "2,50 €", "2,00 €", "14,50 €"):
        assert text in lines, text
    assert money_text(invoice["total_amount_cents"], "EUR", "de").replace(NARROW, " ") in lines


def test_what_is_held_stands_beside_the_usage_and_the_balance(box: Scenario) -> None:
    use(box)
    box.customer("acme", billing_configuration={"document_locale": "de"})
    wallet = {"external_customer_id": "acme", "currency": "EUR", "rate_amount": "1", "granted_credits": "50"}
    box.post("/wallets", wallet=wallet)
    words = "Für laufende Nutzung reserviert:"
    assert words not in shown(box, "/usage/acme%2F1") + shown(box, "")
    with box.billing.holds.hold("acme/1", "tokens", {"model": "big"}, units=100):
        # 100 more at 0.05, and with 19 % of taxes.
        assert f"{words} 5,00 €" in shown(box, "/usage/acme%2F1")
        assert f"{words} 5,95 €" in shown(box, "")


def test_the_cost_of_each_day_adds_up_and_is_a_file_too(box: Scenario) -> None:
    use(box)
    rows = list(csv.DictReader(io.StringIO(visit(box, "/usage.csv/acme%2F1").text)))
    assert [(row["date"], row["metric"], row["units"]) for row in rows] == [
        ("2024-03-03", "tokens", "60.0"),
        ("2024-03-05", "tokens", "90.0"),
    ]
    # 60 at 0.10 and a flat 0; then 40 at 0.10, 50 at 0.05 and a flat 2.00.
    assert [row["amount"] for row in rows] == ["6.00", "8.50"]
    page = visit(box, "/usage/acme%2F1").text
    assert "<title>Mar 3, 2024: €6.00</title>" in page
    assert "<title>Mar 4, 2024: €0.00</title>" in page


def test_nobody_elses_pages_open(box: Scenario) -> None:
    use(box)
    box.travel_to("2024-04-01T00:00:00Z")
    invoice = box.invoices("acme")[0]
    note = box.post(
        "/credit_notes",
        credit_note={
            "invoice_id": invoice["svc_id"],
            "credit_amount_cents": 100,
            "items": [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 84}],
        },
    )["credit_note"]
    for path in (
        "/usage/acme%2F1",
        "/usage.csv/acme%2F1",
        f"/invoices/{invoice['svc_id']}",
        f"/credit-notes/{note['svc_id']}/pdf",
    ):
        assert visit(box, path).status_code == 200, path
        assert visit(box, path, customer="other").status_code == 404, path
    assert note["number"] in visit(box, "/documents").text
    assert note["number"] not in visit(box, "/documents", customer="other").text


def test_receipts_have_their_documents(box: Scenario) -> None:
    assert "no credit notes or receipts" in visit(box, "/documents").text
    box.travel_to("2024-04-01T00:00:00Z")
    invoice = box.invoices("acme")[0]
    paid = {"invoice_id": invoice["svc_id"], "amount_cents": invoice["total_amount_cents"], "reference": "bank"}
    box.post("/payments", payment=paid)
    (receipt,) = box.get("/payment_receipts")["payment_receipts"]
    assert receipt["number"] in visit(box, "/documents").text
    path = f"/receipts/{receipt['svc_id']}/pdf"
    assert visit(box, path).content.startswith(b"%PDF")
    assert visit(box, path, customer="other").status_code == 404


def test_a_customer_corrects_its_billing_details(box: Scenario) -> None:
    page = visit(box, "/details")
    assert '<option value="DE">Germany</option>' in page.text
    form = {
        "legal_name": f"Acme {SCRIPT}",
        "city": "Köln",
        "zipcode": "50667",
        "country": "DE",
        "email": "a@acme.example",
    }
    saved = visit(box, "/details", "POST", data=form)
    assert saved.status_code == 303
    customer = box.get("/customers/acme")["customer"]
    assert {name: customer[name] for name in form} == form
    assert customer["timezone"] == "Europe/Berlin"
    page = visit(box, "/details?saved")
    assert "Saved." in page.text
    assert SCRIPT not in page.text
    (logged,) = [
        log
        for log in box.get("/activity_logs?activity_types[]=customer.updated")["activity_logs"]
        if log["activity_source"] == "front"
    ]
    assert logged["external_customer_id"] == "acme"


@pytest.mark.parametrize(("name", "value"), [("email", "not an address"), ("country", "XX")])
def test_details_that_make_no_sense_are_refused_and_change_nothing(box: Scenario, name: str, value: str) -> None:
    before = box.get("/customers/acme")["customer"]
    refused = visit(box, "/details", "POST", data={"city": "Köln", name: value})
    assert refused.status_code == 422
    assert "This was not saved." in refused.text
    assert 'value="Köln"' in refused.text
    assert box.get("/customers/acme")["customer"] == before


@pytest.mark.parametrize("locale", WORDS)
def test_every_page_speaks_the_languages_of_documents(box: Scenario, locale: str) -> None:
    use(box)
    box.customer("acme", billing_configuration={"document_locale": locale})
    for path in ("", "/usage/acme%2F1", "/documents", "/details"):
        page = visit(box, path)
        assert page.status_code == 200
        assert f'<html lang="{locale}">' in page.text
        assert "style-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"


def test_a_large_form_is_taken_for_an_empty_one(box: Scenario) -> None:
    before = box.get("/customers/acme")["customer"]
    visit(box, "/details", "POST", data={"city": "x" * 100_000})
    assert box.get("/customers/acme")["customer"]["city"] == before["city"]
