"""The API reference in a real browser: it shows every operation, tries one, and asks no other host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.console.test_browser import Watched, browser as browser, served
from tests.scenarios import Scenario

from usagebill.http.app import create_app

pytestmark = pytest.mark.slow


def test_an_operation_is_tried_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box, served(create_app(box.billing)) as console:
        box.customer("acme", name="Acme & Söhne")
        key = box.post("/api_keys", api_key={"name": "page"})["api_key"]["value"]
        with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
            window = Watched(context, console.removesuffix("/console"))
            page = window.open("/docs")
            page.get_by_role("button", name="Authorize").first.click()
            bearer = page.locator("form", has_text="Bearer")
            bearer.locator("input").fill(key)
            bearer.get_by_role("button", name="Apply credentials").click()
            page.get_by_role("button", name="Close").first.click()
            page.locator("#operations-tag-customers").click()
            operation = page.locator("#operations-customers-customer_lists_list_all")
            operation.get_by_role("button").first.click()
            folder = Path(os.environ.get("USAGEBILL_SCREENSHOTS", tmp_path))
            page.screenshot(path=folder / "reference.png")
            operation.get_by_role("button", name="Execute").click()
            operation.get_by_text("Acme & Söhne").first.wait_for()
            # Chromium wishes for a name beside a secret.
            assert [found for found in window.problems if "autocomplete" not in found] == []
