"""The console in a real browser: what people see, at the widths of a desk and of a phone, and by keyboard.

`USAGEBILL_BROWSER=required` fails where there is none; `USAGEBILL_SCREENSHOTS` is the folder that pictures are kept in.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from starlette.types import ASGIApp
from tests.console.books import SCRIPT, books
from tests.console.visitor import invited
from tests.scenarios import Scenario

from usagebill.console.lists import LISTS
from usagebill.http.app import create_app

pytestmark = pytest.mark.slow

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WIDTHS = (1280, 390)
# The most that a first visit to a page loads, in bytes.
_MOST_BYTES = 150 * 1024


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with books() as box:
        yield box


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Where the console of an app is served."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/console"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address(box: Scenario) -> Iterator[str]:
    """Where the console is served."""
    with served(create_app(box.billing)) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("USAGEBILL_BROWSER") == "required":
            pytest.fail("there is no Chromium")
        pytest.skip("there is no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield browser
        browser.close()


class Watched:
    """A window, with what went wrong in it and what it loaded."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self._address = address
        # The last is Chromium's own viewer of PDFs.
        own = urlsplit(address)
        known = (f"{own.scheme}://{own.netloc}/", "data:", "chrome-extension:", "chrome:")
        self.page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        self.page.on("console", lambda entry: self.problems.append(f"{entry.type}: {entry.text}"))
        self.page.on(
            "request",
            lambda sent: None if sent.url.startswith(known) else self.problems.append(f"foreign: {sent.url}"),
        )

    def open(self, path: str) -> Page:
        self._settle()
        answer = self.page.goto(self._address + path)
        assert answer is not None
        assert answer.status == 200, (path, answer.status)
        self._settle()
        return self.page

    def _settle(self) -> None:
        """Wait for the parts that are asked for after the page: one who leaves it ends its requests, and says so."""
        self.page.locator("[aria-busy=true]").first.wait_for(state="detached")


@pytest.fixture(scope="module")
def session(box: Scenario, browser: Browser, address: str) -> Iterator[Any]:
    """The cookies of an administrator who has signed in with a link."""
    link = invited(box.billing, "admin").url.partition("?")[2]
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/sign-in?{link}")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{address}/")
        yield context.storage_state()


@pytest.fixture(params=_WIDTHS, ids=str)
def window(request: pytest.FixtureRequest, browser: Browser, session: Any, address: str) -> Iterator[Watched]:
    scheme: Any = "light" if request.param == _WIDTHS[0] else "dark"
    size: Any = {"width": request.param, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme, storage_state=session) as context:
        yield Watched(context, address)


def paths(box: Scenario, width: int) -> list[str]:
    invoice = box.invoices("acme")[1]["svc_id"]
    full = box.get("/plans/full")["plan"]
    charge, fixed = full["charges"][0], full["fixed_charges"][0]["code"]
    own = [
        "/",
        "/analytics",
        "/arriving",
        "/audit",
        "/limits/subscriptions?of=sub-2",
        "/limits/customers?of=long",
        "/new/payment-connections?kind=stripe",
        "/new/dunning-campaigns",
        "/live",
        "/customers/nakheel",
        "/customers/long",
        "/subscriptions/sub-2",
        "/next-invoice/sub-2",
        "/plans/basic",
        "/plans/basic/compare?other=basic",
        f"/invoices/{invoice}",
        f"/invoices/{invoice}/void",
        f"/invoices/{invoice}/pay",
        f"/invoices/{invoice}/credit",
        f"/change/charges/{box.get('/plans/basic')['plan']['charges'][0]['code']}?plan=basic",
        f"/change/filters/{charge['filters'][0]['svc_id']}?plan=full&charge={charge['code']}",
        f"/new/filters?plan=full&charge={charge['code']}",
        f"/change/fixed-charges/{fixed}?plan=full",
        "/plans/full",
        "/plans/full/terms",
        "/plans/full/features/seats",
        "/new/plans",
        "/new/metrics",
        "/change/entities/default",
        "/entities/default/emails",
        "/entities/default/emails/payment_request/de",
    ]
    records = [
        "/invoices",
        "/users",
        "/metrics/requests",
        "/taxes/vat",
        "/events/t1",
        "/activity",
        "/customers?search_term=nobody",
    ]
    # Lists are of one make: on a phone a few of them are enough.
    return [*own, *records, *(f"/{listed.path}" for listed in LISTS if width == _WIDTHS[0])]


def test_every_page_is_sound_in_a_browser(window: Watched, box: Scenario, tmp_path: Path) -> None:
    axe, page = Axe(), window.page
    width = page.viewport_size["width"] if page.viewport_size else 0
    pictures = Path(os.environ.get("USAGEBILL_SCREENSHOTS", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    harmful = []
    for path in paths(box, width):
        window.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate("window.owned") is None, path
        assert page.locator(".owned").count() == 0, path
        harmful += [
            (path, violation["id"], [node["html"][:200] for node in violation["nodes"]][:3])
            for violation in axe.run(page).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
        name = re.sub(r"\W+", "-", path.strip("/")) or "home"
        page.screenshot(path=pictures / f"{name}-{width}.png", full_page=True)
    assert harmful == []
    assert window.problems == []


def test_a_first_visit_loads_little(window: Watched, box: Scenario) -> None:
    page = window.open("/customers")
    sizes: list[int] = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".map(entry => entry.encodedBodySize)"
    )
    assert len(sizes) >= 3
    assert 0 < sum(sizes) <= _MOST_BYTES


def test_a_list_is_searched_as_one_types(window: Watched) -> None:
    page = window.open("/customers")
    page.get_by_label("Search").press_sequentially("müller")
    page.wait_for_url(re.compile("search_term=m"))
    page.get_by_text("1 in all").wait_for()
    assert page.get_by_role("link", name=re.compile("Straßenbau")).count() == 1
    assert page.get_by_label("Search").input_value() == "müller"
    assert window.problems == []


def test_lists_and_forms_work_without_scripts(browser: Browser, session: Any, address: str, box: Scenario) -> None:
    with browser.new_context(java_script_enabled=False, storage_state=session) as context:
        page = context.new_page()
        page.goto(f"{address}/invoices")
        page.get_by_label("Overdue").select_option("true")
        page.get_by_role("button", name="Filter").click()
        page.get_by_text("29 in all").wait_for()
        page.goto(f"{address}/users")
        page.get_by_label("E-mail address").fill("plain@example.com")
        page.get_by_label("Role").select_option("support")
        page.get_by_role("button", name="Add, and make a link").click()
        page.get_by_text("This link signs in").wait_for()
        page.goto(f"{address}/new/charges?plan=basic")
        page.get_by_label("Price", exact=True).fill("0.25")
        page.get_by_label("Units", exact=True).fill("10")
        page.get_by_role("button", name="Compute", exact=True).last.click()
        page.get_by_text("€2.50").first.wait_for()
    assert "plain@example.com" in [user.email for user in box.billing.users.list().items]


def test_a_line_is_credited_after_its_effect_was_shown(window: Watched, box: Scenario) -> None:
    invoice = box.invoices("acme")[2]
    page = window.open(f"/invoices/{invoice['svc_id']}")
    page.get_by_role("link", name="Credit", exact=True).click()
    field = page.get_by_label("API requests")
    field.fill("1.00")
    # Enter shows the effect, and does nothing else.
    field.press("Enter")
    page.get_by_role("button", name=re.compile("^Credit €1")).wait_for()
    before = len(box.get("/credit_notes")["credit_notes"])
    page.get_by_label("Description").fill("Half a day")
    page.get_by_role("button", name=re.compile("^Credit €1")).click()
    page.get_by_role("heading", name="Credit notes").wait_for()
    assert len(box.get("/credit_notes")["credit_notes"]) == before + 1
    assert window.problems == []


def test_events_are_shown_as_they_arrive(window: Watched, box: Scenario) -> None:
    page = window.open("/live")
    sent = box.event("requests", "sub-1", value="1")["transaction_id"]
    page.get_by_role("link", name=sent, exact=True).wait_for()
    assert window.problems == []


def test_the_price_sheet_computes_as_one_types(window: Watched, box: Scenario) -> None:
    page = window.open("/plans/basic")
    page.get_by_role("link", name="New charge").click()
    # A browser that leaves a page ends its requests, and says so: this one has to have been read to its end.
    with page.expect_event("requestfinished", lambda sent: sent.method == "POST"):
        page.get_by_label("Charge model").select_option("graduated")
    # What is typed before the script of the page runs is not seen by it.
    with page.expect_event("load"):
        page.get_by_role("button", name="Use this model").click()
    page.get_by_label("To, including, range 1").fill("100")
    page.get_by_label("A unit, range 1").fill("0.10")
    page.get_by_label("A unit, range 2").fill("0.05")
    page.get_by_label("Units", exact=True).press_sequentially("150")
    # 100 at 0.10 and 50 at 0.05.
    page.locator("#sheet .amount", has_text="€12.50").wait_for()
    page.get_by_label("A unit, range 2").fill("0.5x")
    page.locator("#sheet", has_text="is no number").wait_for()
    assert page.get_by_label("Units", exact=True).input_value() == "150"
    assert len(box.get("/plans/basic")["plan"]["charges"]) == 2
    assert window.problems == []


def test_the_audit_is_run_on_its_page(window: Watched) -> None:
    page = window.open("/audit")
    page.get_by_role("button", name="Run it").click()
    page.get_by_role("status").filter(has_text="Everything agrees").wait_for()
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    harmful = Axe().run(page).response["violations"]
    assert [found["id"] for found in harmful if found["impact"] in ("serious", "critical")] == []
    assert window.problems == []


def test_the_next_invoice_opens_on_the_page_of_its_customer(window: Watched) -> None:
    page = window.open("/customers/acme")
    page.locator("summary", has_text="The next invoice, as it stands").click()
    line = page.locator(".line .line summary", has_text="API requests")
    line.click()
    page.locator(".line .line[open] a[href*='/events/']").first.wait_for()
    page.locator("dt.total", has_text="Total").wait_for()
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert window.problems == []


def test_the_parts_of_a_plan_are_made_and_removed(window: Watched, box: Scenario) -> None:
    before = box.get("/plans/full")["plan"]
    page = window.open("/plans/full")
    page.locator("summary", has_text="Standard").click()
    page.get_by_role("link", name="New filter").click()
    page.get_by_label("tier").fill("hot")
    page.get_by_label("Price", exact=True).fill("0.75")
    page.get_by_label("Units", exact=True).press_sequentially("4")
    page.locator("#sheet .amount", has_text="€3.00").wait_for()
    page.get_by_role("button", name="Add the filter").click()
    page.locator("summary", has_text="Standard").click()
    page.get_by_role("heading", name="tier: hot").get_by_role("link").click()
    page.get_by_text("Remove it").click()
    page.get_by_role("button", name="Remove the filter").click()
    page.get_by_role("link", name="Change commitment and thresholds").click()
    page.get_by_label("At least, each period").press("Enter")
    page.get_by_role("heading", name="Full", exact=True).wait_for()
    page.get_by_role("link", name=SCRIPT).first.click()
    page.get_by_label("most").fill("5")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Full", exact=True).wait_for()
    after = box.get("/plans/full")["plan"]
    for part in ("charges", "fixed_charges", "minimum_commitment", "entitlements"):
        assert [*map(named, listed(after[part]))] == [*map(named, listed(before[part]))]
    assert window.problems == []


def listed(part: Any) -> list[Any]:
    return part if isinstance(part, list) else [part]


def named(part: Any) -> Any:
    return {name: value for name, value in part.items() if name not in ("updated_at", "created_at")}


@pytest.mark.parametrize("width", _WIDTHS)
def test_the_time_of_a_sandbox_is_moved_on_its_pages(browser: Browser, width: int, tmp_path: Path) -> None:
    size: Any = {"width": width, "height": 800}
    with Scenario(now="2024-03-05T10:00:00Z") as box, served(create_app(box.billing, sandbox=box)) as address:
        box.plan(amount_cents=3100)
        box.customer()
        box.subscribe()
        link = invited(box.billing, "admin").url.partition("?")[2]
        with browser.new_context(viewport=size) as context:
            window = Watched(context, address)
            page = window.open(f"/sign-in?{link}")
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{address}/")
            window.open("/invoices")
            page.get_by_text("Nothing here yet").wait_for()
            page.get_by_role("button", name="+1 month").click()
            page.get_by_text("1 in all").wait_for()
            page.get_by_text("Apr 5, 2024, 10:00 UTC").wait_for()
            assert page.url == f"{address}/invoices"
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            harmful = Axe().run(page).response["violations"]
            assert [found["id"] for found in harmful if found["impact"] in ("serious", "critical")] == []
            folder = Path(os.environ.get("USAGEBILL_SCREENSHOTS", tmp_path))
            page.screenshot(path=folder / f"sandbox-{width}.png", full_page=True)
            assert window.problems == []


def test_the_menu_opens_on_a_phone(browser: Browser, session: Any, address: str) -> None:
    size: Any = {"width": 390, "height": 800}
    with browser.new_context(viewport=size, storage_state=session) as context:
        page = context.new_page()
        page.goto(f"{address}/")
        link = page.get_by_role("navigation", name="Console").get_by_role("link", name="Customers")
        assert not link.is_visible()
        page.get_by_role("link", name="Menu").click()
        link.click()
        page.get_by_role("heading", name="Customers").wait_for()
        assert not link.is_visible()


def test_a_customer_whose_name_is_a_script_has_a_page(window: Watched) -> None:
    page = window.open("/customers")
    page.get_by_role("link", name=SCRIPT).first.click()
    page.get_by_role("heading", name=SCRIPT).wait_for()
    assert page.evaluate("window.owned") is None
    assert window.problems == []
