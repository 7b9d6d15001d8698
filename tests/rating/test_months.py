"""Usage that lasts over months, from the first event to the invoice of a plan that was left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList
from tests.scenarios import invoices_of

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2023-09-01T00:00:00Z") as box:
        yield PriceList(box)


def charge(metric: str, model: str = "standard", prorated: bool = False, **properties: Any) -> dict[str, Any]:
    return {"billable_metric_id": metric, "charge_model": model, "prorated": prorated, "properties": properties}


def ranges(*rows: tuple[int, int | None, str, str]) -> list[dict[str, Any]]:
    return [
        {"from_value": start, "to_value": end, "per_unit_amount": unit, "flat_amount": flat}
        for start, end, unit, flat in rows
    ]


def used(list_: PriceList, day: str, code: str, **properties: Any) -> int:
    """What the usage so far costs right after an event of this day."""
    list_.box.travel_to(f"2023-{day}T00:00:00Z")
    list_.event(code, **properties)
    return int(list_.usage()["amount_cents"])


def cost(list_: PriceList, day: str) -> int:
    list_.box.travel_to(f"2023-{day}T00:00:00Z")
    return int(list_.usage()["amount_cents"])


def billed(list_: PriceList) -> list[int]:
    """The usage fees of all invoices, oldest first."""
    return [
        fee["amount_cents"]
        for invoice in invoices_of(list_.box)
        for fee in invoice["fees"]
        if fee["item"]["type"] == "charge"
    ]


def test_a_prorated_level_that_rises_and_falls_is_billed_by_range_until_the_plan_is_left(list_: PriceList) -> None:
    disk = list_.metric("disk", recurring=True)
    tiers = ranges((0, 5, "10", "100"), (6, 15, "5", "50"), (16, None, "2", "0"))
    for code, amount in (("plan", 0), ("larger", 100)):
        list_.plan(charge(disk, "graduated", prorated=True, graduated_ranges=tiers), code=code, amount_cents=amount)
    list_.subscribe()
    assert list_.usage()["amount_cents"] == 10_000
    changes = (("10", 2), ("16", 5), ("20", -6), ("25", 10), ("26", 4), ("30", 60))
    after = [used(list_, f"09-{day}", "disk", value=value) for day, value in changes]
    assert after == [11_400, 18_400, 16_567, 17_967, 18_300, 18_700]
    assert cost(list_, "10-05") == 37_000
    assert used(list_, "10-17", "disk", value=20) == 38_935
    list_.box.travel_to("2023-10-18T10:00:00Z")
    list_.subscribe("larger")
    assert billed(list_) == [18_700, 27_323]
    list_.box.travel_to("2023-11-01T05:00:00Z")
    assert billed(list_) == [18_700, 27_323, 26_742]


def test_prorated_seats_that_come_and_go_are_billed_for_their_days_by_range(list_: PriceList) -> None:
    seats = list_.metric("seats", "unique_count_agg", recurring=True)
    tiers = ranges((0, 1, "10", "100"), (2, None, "5", "50"))
    list_.plan(charge(seats, "graduated", prorated=True, graduated_ranges=tiers))
    list_.subscribe()
    history = [("10", "A", "add"), ("12", "A", "remove"), ("14", "A", "add")]
    history += [("15", "B", "add"), ("16", "B", "add"), ("20", "C", "add")]
    after = [used(list_, f"09-{day}", "seats", value=seat, operation_type=kind) for day, seat, kind in history]
    assert after == [10_700, 10_100, 10_667, 15_933, 15_933, 16_117]
    assert cost(list_, "10-05") == 17_000


def test_a_level_is_weighed_by_its_time_in_each_month(list_: PriceList) -> None:
    level = list_.metric("level", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    list_.plan(charge(level, amount="1"))
    list_.box.travel_to("2023-10-05T00:00:00Z")
    list_.subscribe()
    list_.event("level", value=2500)
    list_.box.travel_to("2023-11-01T05:00:00Z")
    assert billed(list_) == [217_742]
    used(list_, "11-04", "level", value=-2000)
    used(list_, "11-06", "level", value=-200)
    assert list_.usage()["charges_usage"][0]["total_aggregated_units"] == "300.0"
    list_.box.travel_to("2023-12-01T05:00:00Z")
    assert billed(list_) == [217_742, 53_333]


def test_a_filter_by_country_and_what_no_filter_takes_add_up(list_: PriceList) -> None:
    filters = [{"key": "cloud", "values": ["aws", "gcp"]}, {"key": "region", "values": ["us", "europe", "asia"]}]
    calls = list_.metric("calls", filters=filters)
    anywhere = {
        "values": {"cloud": ["aws"], "region": ["__ALL_FILTER_VALUES__"]},
        "properties": {"amount": "12", "pricing_group_keys": ["country"]},
    }
    list_.plan({**charge(calls, amount="10"), "filters": [anywhere]})
    list_.subscribe()
    list_.event("calls", value=10, cloud="aws", region="us", country="us")
    list_.event("calls", value=10, cloud="aws", region="europe", country="france")
    list_.event("calls", value=10, cloud="aws", region="asia")
    list_.event("calls", value=10, cloud="gcp", region="asia", country="china")
    list_.box.travel_to("2023-10-01T05:00:00Z")
    (invoice,) = invoices_of(list_.box)
    fees = [fee for fee in invoice["fees"] if fee["item"]["type"] == "charge"]
    shown = {(fee["item"]["grouped_by"].get("country", "default"), fee["amount_cents"]) for fee in fees}
    assert len(fees) == 4
    assert shown == {("us", 12_000), ("france", 12_000), (None, 12_000), ("default", 10_000)}
    assert invoice["fees_amount_cents"] == 46_000
