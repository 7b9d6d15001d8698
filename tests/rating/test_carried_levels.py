"""The level that a recurring weighted sum starts a period from: all events before it that are known by then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fees_of, filter_on

pytestmark = pytest.mark.beyond_reference

DISK: dict[str, Any] = {"aggregation_type": "weighted_sum_agg", "recurring": True, "weighted_interval": "seconds"}


@pytest.fixture
def box() -> Iterator[Scenario]:
    """One euro a month for each unit of a level."""
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("disk", filters=[{"key": "region", "values": ["eu", "us"]}], **DISK)
        box.plan(charge_on(metric, amount="1"))
        box.subscribe()
        yield box


def billed(box: Scenario) -> list[tuple[str, int]]:
    """The total of each invoice that bills the level, by the month that it bills."""
    return [
        (invoice["billing_periods"][0]["charges_from_datetime"][:7], invoice["fees_amount_cents"])
        for invoice in box.invoices()
        if fees_of(invoice, "charge")
    ]


def send(box: Scenario, at: str, value: int, **properties: str) -> None:
    """Send a change of the level, dated `at`."""
    box.events("disk", {"at": datetime.fromisoformat(at).timestamp(), "value": value, **properties})


def test_a_level_that_comes_four_hours_late_counts_from_the_next_month_on(box: Scenario) -> None:
    box.travel_to("2024-02-01T03:00:00Z")
    send(box, "2024-01-31T23:00:00Z", 50)
    assert box.usage()["amount_cents"] == 5000
    box.travel_to("2024-05-02T00:00:00Z")
    assert billed(box) == [("2024-02", 5000), ("2024-03", 5000), ("2024-04", 5000)]
    assert box.billing.audit().findings == ()


def test_a_change_that_comes_late_moves_a_level_that_was_billed(box: Scenario) -> None:
    send(box, "2024-01-01T00:00:00Z", 50)
    box.travel_to("2024-02-10T00:00:00Z")
    send(box, "2024-01-16T00:00:00Z", -20)
    box.travel_to("2024-04-02T00:00:00Z")
    # January was billed before the change was known: 50 all month; from February on 30 are left.
    assert billed(box) == [("2024-01", 5000), ("2024-02", 3000), ("2024-03", 3000)]
    assert box.billing.audit().findings == ()


def test_a_level_of_before_its_charge_is_billed_from_the_charge_on(box: Scenario) -> None:
    box.metric("late", **DISK)
    box.post(
        "/events",
        event={"transaction_id": "l", "code": "late", "external_subscription_id": "sub", "properties": {"value": 7}},
    )
    box.travel_to("2024-02-10T00:00:00Z")
    metric = box.get("/billable_metrics/late")["billable_metric"]["svc_id"]
    box.post("/plans/basic/charges", charge=charge_on(metric, amount="1", code="late"))
    box.travel_to("2024-04-02T00:00:00Z")
    assert billed(box) == [("2024-02", 700), ("2024-03", 700)]
    assert box.get("/events?unbilled=true")["events"] == []


def test_a_filter_that_is_added_prices_the_level_of_its_events(box: Scenario) -> None:
    send(box, "2024-01-01T00:00:00Z", 10, region="eu")
    send(box, "2024-01-01T00:00:00Z", 5, region="us")
    box.travel_to("2024-02-01T12:00:00Z")
    charge = box.get("/plans/basic")["plan"]["charges"][0]
    box.put(
        f"/plans/basic/charges/{charge['code']}",
        charge={"properties": {"amount": "1"}, "filters": [filter_on({"region": ["eu"]}, amount="3")]},
    )
    box.travel_to("2024-03-02T00:00:00Z")
    # 10 at 3.00 and 5 at 1.00.
    assert billed(box) == [("2024-01", 1500), ("2024-02", 3500)]
