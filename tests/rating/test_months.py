"""Usage that lasts over months, from the first event to the invoice of a plan that was left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fees_of, price_ranges

pytestmark = [pytest.mark.now("2023-09-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def used(box: Scenario, day: str, code: str, **properties: Any) -> int:
    """What the usage so far costs right after an event of this day."""
    box.travel_to(f"2023-{day}T00:00:00Z")
    box.event(code, **properties)
    return int(box.usage()["amount_cents"])


def cost(box: Scenario, day: str) -> int:
    box.travel_to(f"2023-{day}T00:00:00Z")
    return int(box.usage()["amount_cents"])


def billed(box: Scenario) -> list[int]:
    """The usage fees of all invoices, oldest first."""
    return [fee["amount_cents"] for invoice in box.invoices() for fee in fees_of(invoice, "charge")]


def test_a_prorated_level_that_rises_and_falls_is_billed_by_range_until_the_plan_is_left(box: Scenario) -> None:
    disk = box.metric("disk", recurring=True)
    tiers = price_ranges((0, 5, "10", "100"), (6, 15, "5", "50"), (16, None, "2", "0"))
    for code, amount in (("basic", 0), ("larger", 100)):
        box.plan(charge_on(disk, "graduated", prorated=True, graduated_ranges=tiers), code=code, amount_cents=amount)
    box.subscribe()
    assert box.usage()["amount_cents"] == 10_000
    changes = (("10", 2), ("16", 5), ("20", -6), ("25", 10), ("26", 4), ("30", 60))
    after = [used(box, f"09-{day}", "disk", value=value) for day, value in changes]
    assert after == [11_400, 18_400, 16_567, 17_967, 18_300, 18_700]
    assert cost(box, "10-05") == 37_000
    assert used(box, "10-17", "disk", value=20) == 38_935
    box.travel_to("2023-10-18T10:00:00Z")
    box.subscribe("larger")
    assert billed(box) == [18_700, 27_323]
    box.travel_to("2023-11-01T05:00:00Z")
    assert billed(box) == [18_700, 27_323, 26_742]


def test_prorated_seats_that_come_and_go_are_billed_for_their_days_by_range(box: Scenario) -> None:
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    tiers = price_ranges((0, 1, "10", "100"), (2, None, "5", "50"))
    box.plan(charge_on(seats, "graduated", prorated=True, graduated_ranges=tiers))
    box.subscribe()
    history = [("10", "A", "add"), ("12", "A", "remove"), ("14", "A", "add")]
    history += [("15", "B", "add"), ("16", "B", "add"), ("20", "C", "add")]
    after = [used(box, f"09-{day}", "seats", value=seat, operation_type=kind) for day, seat, kind in history]
    assert after == [10_700, 10_100, 10_667, 15_933, 15_933, 16_117]
    assert cost(box, "10-05") == 17_000


def test_a_level_is_weighed_by_its_time_in_each_month(box: Scenario) -> None:
    level = box.metric("level", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    box.plan(charge_on(level, amount="1"))
    box.travel_to("2023-10-05T00:00:00Z")
    box.subscribe()
    box.event("level", value=2500)
    box.travel_to("2023-11-01T05:00:00Z")
    assert billed(box) == [217_742]
    used(box, "11-04", "level", value=-2000)
    used(box, "11-06", "level", value=-200)
    assert box.usage()["charges_usage"][0]["total_aggregated_units"] == "300.0"
    box.travel_to("2023-12-01T05:00:00Z")
    assert billed(box) == [217_742, 53_333]


def test_a_filter_by_country_and_what_no_filter_takes_add_up(box: Scenario) -> None:
    filters = [{"key": "cloud", "values": ["aws", "gcp"]}, {"key": "region", "values": ["us", "europe", "asia"]}]
    calls = box.metric("calls", filters=filters)
    anywhere = {
        "values": {"cloud": ["aws"], "region": ["__ALL_FILTER_VALUES__"]},
        "properties": {"amount": "12", "pricing_group_keys": ["country"]},
    }
    box.plan(charge_on(calls, amount="10", filters=[anywhere]))
    box.subscribe()
    box.event("calls", value=10, cloud="aws", region="us", country="us")
    box.event("calls", value=10, cloud="aws", region="europe", country="france")
    box.event("calls", value=10, cloud="aws", region="asia")
    box.event("calls", value=10, cloud="gcp", region="asia", country="china")
    box.travel_to("2023-10-01T05:00:00Z")
    (invoice,) = box.invoices()
    fees = fees_of(invoice, "charge")
    shown = {(fee["item"]["grouped_by"].get("country", "default"), fee["amount_cents"]) for fee in fees}
    assert len(fees) == 4
    assert shown == {("us", 12_000), ("france", 12_000), (None, 12_000), ("default", 10_000)}
    assert invoice["fees_amount_cents"] == 46_000
