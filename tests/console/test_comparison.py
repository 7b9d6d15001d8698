"""What a month would have cost under another plan, as the console shows it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from tests.console.books import NAMES, SCRIPT, books
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

from usagebill.console.rendering import money


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with books() as box:
        requests = box.get("/billable_metrics/requests")["billable_metric"]["svc_id"]
        box.plan(charge_on(requests, amount="0.03"), code="flat", name="Flat", amount_cents=0)
        box.plan(code="dollars", amount_currency="USD")
        yield box


@pytest.fixture(scope="module")
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def test_the_last_month_is_compared_for_every_subscription(box: Scenario, admin: Visitor) -> None:
    rows = box.billing.plans.compare("basic", "flat")
    assert len(rows) == len(NAMES)
    old, new = sum(row.old_cents for row in rows), sum(row.new_cents for row in rows)
    assert 0 < old != new > 0
    page = admin.page("/plans/basic/compare?other=flat")
    assert f"<dt>Now</dt><dd>{money(old, 'EUR')}</dd>" in page
    assert f"<dt>Under flat</dt><dd>{money(new, 'EUR')}</dd>" in page
    more = sum(row.difference_cents > 0 for row in rows)
    less = sum(row.difference_cents < 0 for row in rows)
    assert f"{more} pay more, {less} less" in page
    assert SCRIPT not in page
    file = admin.ask("GET", "/plans/basic/compare.csv?other=flat")
    read = list(csv.DictReader(io.StringIO(file.text)))
    assert sum(int(line["new_cents"]) for line in read) == new
    assert {line["external_customer_id"] for line in read} == set(NAMES)


def test_one_customer_is_compared_alone(box: Scenario, admin: Visitor) -> None:
    (row,) = [row for row in box.billing.plans.compare("basic", "flat") if row.external_customer_id == "acme"]
    page = admin.page("/plans/basic/compare?other=flat&external_customer_id=acme")
    assert f"<dt>Under flat</dt><dd>{money(row.new_cents, 'EUR')}</dd>" in page
    assert "/console/customers/mueller" not in page


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("other=none-such", "none-such"),
        ("other=dollars", "currency"),
        ("other=flat&from=tomorrow", "from: “tomorrow” is no date"),
        ("other=flat&from=2024-02-01&to=2024-01-01", ""),
        ("other=flat&external_customer_id=nobody", ""),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(admin: Visitor, query: str, says: str) -> None:
    answer = admin.ask("GET", f"/plans/basic/compare?{query}")
    assert answer.status_code == 422
    assert says in answer.text.partition('role="alert">')[2].partition("</p>")[0] != ""


def test_days_before_anybody_subscribed_have_nothing_to_compare(admin: Visitor) -> None:
    page = admin.page("/plans/basic/compare?other=flat&from=2020-01-01&to=2020-01-31")
    assert "No subscription of the plan was active then" in page
