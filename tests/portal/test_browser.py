"""The pages of a customer in a real browser, at the widths of a desk and of a phone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser
from tests.console.test_browser import Watched, browser as browser, served
from tests.portal.test_pages import box as box, use
from tests.scenarios import Scenario

from usagebill.http.app import create_app

pytestmark = pytest.mark.slow


@pytest.fixture
def address(box: Scenario) -> Iterator[str]:
    """Where a link leads to."""
    with served(create_app(box.billing)) as console:
        link = str(box.get("/customers/acme/portal_url")["customer"]["portal_url"])
        yield console.removesuffix("/console") + link.removeprefix("http://localhost:8000")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_is_sound_in_a_browser(
    browser: Browser, box: Scenario, address: str, width: int, scheme: Any, tmp_path: Path
) -> None:
    use(box)
    box.customer("acme", name="株式会社さくらソフトウェア開発" * 4, billing_configuration={"document_locale": "de"})
    wallet = box.post(
        "/wallets",
        wallet={"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "120"},
    )["wallet"]["svc_id"]
    box.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example"})
    box.customer("acme", email="pay@acme.example")
    box.put("/billing_entities/default", billing_entity={"portal_spend_limits": True})
    for code, fields in (
        ("all", {"amount_cents": 100_000}),
        ("tokens", {"units": "1000", "billable_metric_code": "tokens", "group": {"model": ["big", "x" * 60]}}),
    ):
        box.post("/customers/acme/spend_limits", spend_limit={"code": code, **fields})
    box.put("/plans/basic", plan={"offered_in_portal": True})
    box.plan(code="max", name="Max " * 20, amount_cents=99_00, offered_in_portal=True)
    box.put("/billing_entities/default", billing_entity={"portal_color": "#ffd400"})
    box.travel_to("2024-04-01T08:00:00Z")
    box.event("tokens", "acme/1", value="3", model="small", note="x" * 300)
    held = {"external_subscription_id": "acme/1", "code": "tokens", "properties": {"value": "7", "model": "big"}}
    box.post("/holds", hold=held | {"expires_in": 86400})
    address = address.rpartition("/")[0] + "/" + link(box)
    invoice = box.invoices("acme")[0]
    pictures = Path(os.environ.get("USAGEBILL_SCREENSHOTS", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    size: Any = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        window = Watched(context, address)
        harmful = []
        for path in (
            "",
            "/usage/acme%2F1",
            f"/invoices/{invoice['svc_id']}",
            "/limits/acme%2F1",
            "/documents",
            "/details",
            "/plans/acme%2F1",
            "/plans/acme%2F1?plan=max",
            "/payment-methods",
            f"/wallets/{wallet}",
            f"/wallets/{wallet}?credits=50",
        ):
            page = window.open(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            harmful += [
                (path, found["id"], [node["html"][:200] for node in found["nodes"]][:3])
                for found in Axe().run(page).response["violations"]
                if found["impact"] in ("serious", "critical")
            ]
            name = re.sub(r"[^a-z]+", "-", re.sub(f"{invoice['svc_id']}|{wallet}", "", path)).strip("-") or "overview"
            page.screenshot(path=pictures / f"portal-{name}-{width}.png", full_page=True)
        page = window.open("/details")
        page.get_by_role("textbox", name="Ort").fill("Köln")
        page.get_by_role("button", name="Speichern").click()
        page.get_by_text("Gespeichert.").wait_for()
        assert box.get("/customers/acme")["customer"]["city"] == "Köln"
        page = window.open("/usage/acme%2F1")
        page.get_by_role("spinbutton", name="Betrag in EUR").fill("12.5")
        page.get_by_role("button", name="Hinzufügen").click()
        page.get_by_role("button", name="Entfernen 12,50 €").click()
        page.get_by_role("button", name="Entfernen 12,50 €").wait_for(state="detached")
        page = window.open("/limits/acme%2F1")
        page.get_by_role("combobox", name="Beginnt neu").select_option("month")
        page.get_by_role("spinbutton", name="Betrag in EUR").fill("12.5")
        page.get_by_role("button", name="Hinzufügen").click()
        page.get_by_role("spinbutton", name="Monat (EUR)").fill("20")
        page.get_by_role("button", name="Speichern Monat").click()
        page.get_by_text("Von Ihnen gesetzt").wait_for()
        page.screenshot(path=pictures / f"portal-own-limits-{width}.png", full_page=True)
        page.get_by_role("button", name="Entfernen Monat").click()
        page.get_by_text("Von Ihnen gesetzt").wait_for(state="detached")
        page = window.open(f"/wallets/{wallet}")
        page.get_by_role("spinbutton", name="Anzahl der Credits").fill("50")
        page.get_by_role("button", name="Preis anzeigen").click()
        page.get_by_role("button", name="Für 50,00 € kaufen").click()
        page.get_by_text("Bestellt.").wait_for()
        page = window.open("/plans/acme%2F1")
        page.get_by_role("link", name="Ansehen, was sich ändert").click()
        page.get_by_role("button", name="wechseln").click()
        page.get_by_text("Ihr Tarif wurde gewechselt.").wait_for()
        assert box.get("/subscriptions/acme%2F1")["subscription"]["plan_code"] == "max"
    assert harmful == []
    assert window.problems == []


def link(box: Scenario) -> str:
    """The token of a new link: one of a month ago has expired."""
    return str(box.get("/customers/acme/portal_url")["customer"]["portal_url"]).rpartition("/")[2]
