"""Analytics in the console: charts and files say what the API does."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from tests.console.books import books
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.console.pages.analytics import REPORTS
from usagebill.console.rendering import money


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with books() as box:
        yield box


@pytest.fixture(scope="module")
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def test_the_page_shows_sums_of_what_the_api_reports(box: Scenario, admin: Visitor) -> None:
    every = admin.page("/analytics")
    for name in REPORTS:
        # Each report is asked for after the page.
        assert f'hx-get="/console/analytics/{name}?months=12"' in every
    for name in ("gross_revenue", "invoiced_usage", "invoice_collection", "overdue_balance"):
        rows = box.get(f"/analytics/{name}?months=12")[f"{name}s"]
        cents = sum(row["amount_cents"] for row in rows)
        assert cents > 0, name
        section = admin.page(f"/analytics/{name}").partition(f'id="{name}"')[2].partition("</section>")[0]
        assert f'<span class="amount">{money(cents, "EUR")}</span>' in section, name
    latest = box.get("/analytics/mrr?months=12")["mrrs"][-1]
    section = admin.page("/analytics/mrr").partition('id="mrr"')[2].partition("</section>")[0]
    assert f'<span class="amount">{money(latest["amount_cents"], "EUR")}</span>' in section


@pytest.mark.parametrize("name", REPORTS)
def test_a_file_holds_the_rows_of_its_report(box: Scenario, admin: Visitor, name: str) -> None:
    answer = admin.ask("GET", f"/analytics/{name}.csv?months=6")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = box.get(f"/analytics/{name}?months=6")[f"{name}s"]
    read = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(read) == len(rows) > 0
    for shown, row in zip(read, rows, strict=True):
        assert shown["amount_cents"] == ("" if row["amount_cents"] is None else str(row["amount_cents"]))
        assert shown["month"] == row["month"]


def test_filters_narrow_every_report(admin: Visitor) -> None:
    for name in REPORTS:
        assert "Nothing in these months" in admin.page(f"/analytics/{name}?currency=JPY")
    page = admin.page("/analytics?currency=EUR&months=24")
    assert "<option selected>24</option>" in page
    assert 'value="EUR"' in page
    assert 'hx-get="/console/analytics/mrr?months=24&amp;currency=EUR"' in page


def test_a_report_that_does_not_exist_is_not_found(admin: Visitor) -> None:
    assert admin.ask("GET", "/analytics/usage.csv").status_code == 404
    assert admin.ask("GET", "/analytics/usage").status_code == 404
