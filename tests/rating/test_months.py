"""Usage that lasts over months, from the first event to the invoice of a plan that was left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.money import share
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
    first_flat, second_flat = 100_00, 50_00
    assert box.usage()["amount_cents"] == first_flat
    changes = (("10", 2), ("16", 5), ("20", -6), ("25", 10), ("26", 4), ("30", 60))
    after = [used(box, f"09-{day}", "disk", value=value) for day, value in changes]
    # Units cost what their place in the level costs (the first five 10.00, up to fifteen 5.00, then 2.00), for the
    # days of September that were left: 21 of 30 on the 10th, and so on.
    tenth = first_flat + share(2 * 10_00, 21, 30)
    sixteenth = tenth + second_flat + share(3 * 10_00 + 2 * 5_00, 15, 30)
    twentieth = sixteenth - share(4 * 10_00 + 2 * 5_00, 11, 30)
    twenty_fifth = twentieth + share(4 * 10_00 + 6 * 5_00, 6, 30)
    twenty_sixth = twenty_fifth + share(4 * 5_00, 5, 30)
    thirtieth = twenty_sixth + share(60 * 2_00, 1, 30)
    assert after == [tenth, sixteenth, twentieth, twenty_fifth, twenty_sixth, thirtieth]
    whole_october = first_flat + 5 * 10_00 + second_flat + 10 * 5_00 + 60 * 2_00
    assert cost(box, "10-05") == whole_october
    assert used(box, "10-17", "disk", value=20) == whole_october + share(20 * 2_00, 15, 31)
    box.travel_to("2023-10-18T10:00:00Z")
    box.subscribe("larger")
    # The old plan bills 75 units for 17 days and 20 more for the last of them, the new one all 95 for the other 14.
    flat, of_75, of_20 = first_flat + second_flat, 5 * 10_00 + 10 * 5_00 + 60 * 2_00, 20 * 2_00
    old_plan = flat + share(of_75 * 17 + of_20, 1, 31)
    assert billed(box) == [thirtieth, old_plan]
    box.travel_to("2023-11-01T05:00:00Z")
    assert billed(box) == [thirtieth, old_plan, flat + share(of_75 + of_20, 14, 31)]


def test_prorated_seats_that_come_and_go_are_billed_for_their_days_by_range(box: Scenario) -> None:
    seats = box.metric("seats", "unique_count_agg", recurring=True)
    tiers = price_ranges((0, 1, "10", "100"), (2, None, "5", "50"))
    box.plan(charge_on(seats, "graduated", prorated=True, graduated_ranges=tiers))
    box.subscribe()
    history = [("10", "A", "add"), ("12", "A", "remove"), ("14", "A", "add")]
    history += [("15", "B", "add"), ("16", "B", "add"), ("20", "C", "add")]
    after = [used(box, f"09-{day}", "seats", value=seat, operation_type=kind) for day, seat, kind in history]
    # The first seat of a day opens a range of 100.00 and costs 10.00, the others one of 50.00 and cost 5.00 each.
    assert after == [
        100_00 + share(10_00, 21, 30),
        100_00 + share(10_00, 3, 30),
        100_00 + share(10_00, 3 + 17, 30),
        100_00 + 50_00 + share(10_00 * (3 + 17) + 5_00 * 16, 1, 30),
        100_00 + 50_00 + share(10_00 * (3 + 17) + 5_00 * 16, 1, 30),
        100_00 + 50_00 + share(10_00 * (3 + 17) + 5_00 * (16 + 11), 1, 30),
    ]
    assert cost(box, "10-05") == 100_00 + 10_00 + 50_00 + 2 * 5_00


def test_a_level_is_weighed_by_its_time_in_each_month(box: Scenario) -> None:
    level = box.metric("level", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    box.plan(charge_on(level, amount="1"))
    box.travel_to("2023-10-05T00:00:00Z")
    box.subscribe()
    box.event("level", value=2500)
    box.travel_to("2023-11-01T05:00:00Z")
    october = share(2500_00, 27, 31)
    assert billed(box) == [october]
    used(box, "11-04", "level", value=-2000)
    used(box, "11-06", "level", value=-200)
    assert box.usage()["charges_usage"][0]["total_aggregated_units"] == "300.0"
    box.travel_to("2023-12-01T05:00:00Z")
    # 2,500 for three days, 500 for two and 300 for the rest of November.
    assert billed(box) == [october, share(2500_00 * 3 + 500_00 * 2 + 300_00 * 25, 1, 30)]


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
    assert invoice["fees_amount_cents"] == 3 * 12_000 + 10_000
