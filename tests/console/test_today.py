"""What comes in and what waits: events by hour, the groups of a subscription's usage, the jobs to come."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

pytestmark = pytest.mark.now("2024-03-05T10:30:00Z")


def visitor(box: Scenario, role: str = "admin") -> Visitor:
    return Visitor(box.billing, invited(box.billing, role))


def unix(at: str) -> float:
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def bars(page: str) -> dict[str, str]:
    """The bars of a chart, by their labels."""
    return dict(re.findall(r"<tr><td>(.*?)</td><td class=\"number\">(.*?)</td></tr>", page))


def test_home_draws_the_events_of_the_last_day_by_hour(box: Scenario, acme: None) -> None:
    box.metric("requests")
    for at in ("2024-03-04T11:00:00Z", "2024-03-05T09:59:59Z", "2024-03-05T10:00:00Z", "2024-03-05T10:29:00Z"):
        box.event("requests", "sub", at=unix(at))
    # Before the day.
    box.event("requests", "sub", at=unix("2024-03-04T10:59:59Z"))
    admin = visitor(box)
    assert 'hx-get="/console/arriving"' in admin.page("/")
    page = admin.page("/arriving")
    assert '<span class="amount">4</span>' in page
    hours = bars(page)
    assert len(hours) == 24
    assert {label: text for label, text in hours.items() if text != "0 events"} == {
        "11:00 UTC": "1 event",
        "09:00 UTC": "1 event",
        "10:00 UTC": "2 events",
    }
    box.event("requests", "sub", at=unix("2024-03-05T10:29:30Z"))
    assert bars(admin.page("/arriving"))["10:00 UTC"] == "3 events"


def test_a_subscription_draws_what_each_group_costs_and_the_rest_as_one(box: Scenario, acme: None) -> None:
    metric = box.metric("requests", aggregation_type="sum_agg", field_name="value")
    box.plan(charge_on(metric, amount="2", pricing_group_keys=["region"]), amount_cents=0)
    box.subscribe()
    for place in range(15):
        box.event("requests", "sub", value=str(place + 1), region=f"r{place:02}")
    page = visitor(box).page("/subscriptions/sub")
    rows = re.findall(r'<th scope="row"><span dir="auto">(.*?)</span>.*?width="(.*?)".*?</th>(.*?)</tr>', page)
    table = [(label, float(width), re.findall(r">([^<]+)</td>", rest)) for label, width, rest in rows]
    assert len(table) == 13
    assert table[0] == ("region: r14", 100.0, ["15", "€30.00"])
    assert table[1] == ("region: r13", 93.33, ["14", "€28.00"])
    # 1, 2 and 3 units.
    assert table[-1] == ("3 others", 40.0, ["6", "€12.00"])
    assert sum(float(texts[1].removeprefix("€")) for _, _, texts in table) == 240


def test_waiting_jobs_are_listed_in_the_order_they_are_due(box: Scenario, acme: None) -> None:
    box.plan(amount_cents=3000)
    box.subscribe()
    box.customer("other", name="Other")
    box.subscribe(external_id="sub-2", customer="other")
    admin = visitor(box)
    page = admin.page("/waiting-jobs")
    due = re.findall(r'data-label="Due">(.*?)</td>', page)
    assert due
    assert "/customers/acme" in page
    assert "/customers/other" in page
    of_one = admin.page("/waiting-jobs?external_customer_id=other")
    found = of_one.partition('id="found"')[2]
    assert "/customers/other" in found
    assert "/customers/acme" not in found
    assert admin.ask("GET", "/waiting-jobs?external_customer_id=nobody").status_code == 422
    every = box.billing.jobs.list_waiting(per_page=1)
    assert every.total_count == len(re.findall(r"<tr><td", page.partition('id="found"')[2]))
    first, second = (box.billing.jobs.list_waiting(per_page=1, page=number).items[0] for number in (1, 2))
    assert first.id != second.id
    assert first.due_at <= second.due_at
    assert visitor(box, "read_only").ask("GET", "/waiting-jobs").status_code in (200, 403)
