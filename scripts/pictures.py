"""The pictures of the README: the console on the year of flights that `./scripts/demo` bills.

    python -m scripts.pictures demo.db docs/pictures

Needs Chromium, and the packages of `pip install '.[dev]'`.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from usagebill import Billing
from usagebill.http.app import create_app
from usagebill.operations import users
from usagebill.operations.users import UserInput
from usagebill.runtime.clock import ManualClock

# The year is over, and its last invoices have just been made.
_NOW = datetime(2014, 1, 2, 9, tzinfo=UTC)
_SIZE = {"width": 1280, "height": 860}


def main() -> None:
    """Take the pictures."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("file", type=Path)
    reader.add_argument("folder", type=Path)
    asked = reader.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        reader.error("there is no Chromium")
    asked.folder.mkdir(parents=True, exist_ok=True)
    with Billing(str(asked.file), clock=ManualClock(_NOW)) as billing:
        billing.run_due()
        link = billing.writing(lambda work: users.add(work, UserInput(email="ada@example.com", role="admin")))
        invoice = billing.invoices.list(external_customer_id="UA", per_page=1).items[0]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(uvicorn.Config(create_app(billing), log_config=None, lifespan="off"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                address = f"http://127.0.0.1:{listener.getsockname()[1]}/console"
                _take(browser, address, link.url.partition("?")[2], f"/invoices/{invoice.id}", asked.folder)
            finally:
                server.should_exit = True
                thread.join()


def _take(browser: str, address: str, link: str, invoice: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport=_SIZE)  # type: ignore[arg-type]
        page.goto(f"{address}/sign-in?{link}")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{address}/")
        page.screenshot(path=folder / "home.png")
        page.goto(address + invoice)
        page.locator("details.line summary").nth(1).click()
        # A browser without a screen draws no PDF.
        page.locator(".columns").evaluate(
            "columns => { columns.className = 'stack'; columns.lastElementChild.remove() }"
        )
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=folder / "invoice.png")
        chromium.close()


if __name__ == "__main__":
    main()
