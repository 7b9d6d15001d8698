"""The numbers that docs/differences.md gives for usage, each as a customer would see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.core.fees import Fee
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        box.customer()
        yield box


def graduated(*ranges: tuple[int, int | None, str, str]) -> dict[str, Any]:
    return {"graduated_ranges": price_ranges(*ranges)}


def fees(box: Scenario) -> list[int]:
    return [fee["amount_cents"] for fee in box.get("/fees")["fees"]]


IN_ADVANCE = {"pay_in_advance": True, "invoiceable": False}


def groups(box: Scenario) -> list[str | None]:
    return [group["grouped_by"]["agent"] for group in box.usage()["charges_usage"][0]["grouped_usage"]]


@pytest.mark.parametrize(
    ("aggregation_type", "fields", "amount_cents"),
    [
        ("sum_agg", {}, 600),
        ("max_agg", {}, 600),
        ("latest_agg", {}, 600),
        # All of June at level 1.
        ("weighted_sum_agg", {"weighted_interval": "seconds"}, 600),
        ("weighted_sum_agg", {"weighted_interval": "seconds", "recurring": True}, 600),
    ],
)
def test_an_event_that_does_not_count_pays_no_flat_amount_for_its_group(
    box: Scenario, aggregation_type: str, fields: dict[str, Any], amount_cents: int
) -> None:
    metric = box.metric("gb", aggregation_type, **fields)
    box.plan(charge_on(metric, "graduated", **graduated((0, None, "1", "5")), pricing_group_keys=["agent"]))
    box.subscribe()
    box.event("gb", value=1, agent="x")
    box.event("gb", value="abc", agent="y")
    assert groups(box) == ["x"]
    assert box.usage()["amount_cents"] == amount_cents
    box.travel_to("2025-07-02T00:00:00Z")
    assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [amount_cents]


def test_a_group_of_removals_alone_pays_no_flat_amount_where_seats_are_prorated(box: Scenario) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    priced = graduated((0, None, "1", "5"))
    box.plan(charge_on(metric, "graduated", **priced, pricing_group_keys=["agent"], prorated=True))
    box.subscribe()
    box.event("seats", value="a", agent="x")
    box.event("seats", value="a", agent="y", operation_type="remove")
    assert groups(box) == ["x"]
    assert box.usage()["amount_cents"] == 1_00 + 5_00


def test_aggregated_units_are_never_below_zero(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), "standard", amount="1"))
    box.subscribe()
    box.event("gb", value=-14)
    shown = box.usage()["charges_usage"][0]
    assert (shown["units"], shown["total_aggregated_units"]) == ("0.0", "0.0")


def test_the_audit_takes_aggregated_units_that_an_older_version_kept_below_zero(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.event("gb", value=-14)
    box.travel_to("2025-07-02T00:00:00Z")

    def as_kept_before(work: Work) -> None:
        (fee,) = work.tx.find(Fee, eq("fee_type", "charge"))
        assert fee.total_aggregated_units == 0
        work.tx.replace(replace(fee, total_aggregated_units=Decimal(-14)))

    box.billing.writing(as_kept_before)
    assert [str(finding) for finding in box.billing.audit().findings] == []


def test_current_usage_of_a_prorated_sum_below_zero_is_what_was_billed(box: Scenario) -> None:
    metric = box.metric("seats", recurring=True)
    box.plan(charge_on(metric, "standard", amount="3", prorated=True, **IN_ADVANCE))
    box.subscribe()
    box.travel_to("2025-06-16T00:00:00Z")
    box.event("seats", value=-10)
    box.event("seats", value=4)
    assert sum(fees(box)) == box.usage()["amount_cents"] == 600


def test_current_usage_shows_the_fixed_amounts_that_removals_paid_in_advance(box: Scenario) -> None:
    metric = box.metric("users", "unique_count_agg")
    box.plan(charge_on(metric, "percentage", rate="0", fixed_amount="1", **IN_ADVANCE))
    box.subscribe()
    box.event("users", value="a")
    box.event("users", value="b")
    box.event("users", value="b", operation_type="remove")
    assert sum(fees(box)) == box.usage()["amount_cents"] == 300
    assert box.usage()["charges_usage"][0]["units"] == "1.0"


@pytest.mark.parametrize("second", [1, 2])
def test_prorated_graduated_prices_each_unit_that_goes_in_its_own_range(box: Scenario, second: int) -> None:
    metric = box.metric("seats", recurring=True)
    priced = graduated((0, 1, "10", "0"), (second, None, "5", "0"))
    box.plan(charge_on(metric, "graduated", **priced, prorated=True))
    box.subscribe()
    box.event("seats", value=2)
    for day in ("16", "28"):
        box.travel_to(f"2025-06-{day}T00:00:00Z")
        box.event("seats", value=-1)
    assert box.usage()["amount_cents"] == share(500, 15, 30) + share(1000, 27, 30)


def test_a_seat_removed_before_the_period_is_in_no_range(box: Scenario) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(metric, "graduated", **graduated((0, 1, "10", "1"), (2, None, "10", "9")), prorated=True))
    box.subscribe()
    box.event("seats", value="a")
    box.event("seats", value="a", operation_type="remove")
    box.event("seats", value="b")
    box.travel_to("2025-07-05T00:00:00Z")
    assert box.usage()["amount_cents"] == 10_00 + 1_00


def test_a_period_that_ends_the_day_before_clocks_go_forward_has_its_own_days() -> None:
    with Scenario(now="2024-01-31T00:00:00Z") as box:
        box.customer(timezone="Europe/Berlin")
        metric = box.metric("seats", "unique_count_agg", recurring=True)
        box.plan(charge_on(metric, "standard", amount="31", prorated=True))
        box.subscribe(billing_time="anniversary")
        box.travel_to("2024-03-02T12:00:00Z")
        box.event("seats", value="a")
        assert box.usage()["to_datetime"] == "2024-03-30T22:59:59Z"
        assert box.usage()["amount_cents"] == share(31_00, 29, 31)


def test_what_a_filter_was_billed_for_is_not_what_no_filter_takes(box: Scenario) -> None:
    metric = box.metric("gb", filters=[{"key": "cloud", "values": ["aws"]}])
    filters = [{"values": {"cloud": ["aws"]}, "properties": {"amount": "1"}}]
    box.plan(charge_on(metric, "standard", amount="1", filters=filters, **IN_ADVANCE))
    box.subscribe()
    box.event("gb", value=4, cloud="aws")
    box.event("gb", value=-4, cloud="aws")
    box.event("gb", value=6)
    assert sorted(fees(box)) == [0, 4 * 100, 6 * 100]


def test_a_value_that_comes_twice_at_one_instant_is_paid_once(box: Scenario) -> None:
    metric = box.metric("users", "unique_count_agg")
    box.plan(charge_on(metric, "standard", amount="1", **IN_ADVANCE))
    box.subscribe()
    box.events("users", {"value": "a"}, {"value": "a"})
    assert sorted(fees(box)) == [0, 100]


def test_a_single_event_is_prorated_without_binary_fractions(box: Scenario) -> None:
    metric = box.metric("seats", recurring=True)
    box.plan(charge_on(metric, "standard", amount="1000", prorated=True, **IN_ADVANCE))
    box.subscribe()
    box.travel_to("2025-06-06T00:00:00Z")
    box.event("seats", value=6)
    assert fees(box) == [share(6 * 1000_00, 25, 30)]


def test_no_usage_is_projected_at_what_it_will_be_billed(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), "graduated", **graduated((0, None, "1", "2"))))
    box.subscribe()
    box.travel_to("2025-06-10T12:00:00Z")
    path = "/customers/acme/projected_usage?external_subscription_id=sub"
    projected = box.get(path)["customer_projected_usage"]["charges_usage"][0]
    assert (projected["amount_cents"], projected["projected_amount_cents"]) == (200, 200)


def test_a_package_that_has_hardly_been_started_counts(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), "package", amount="7", package_size=10, free_units=0))
    box.subscribe()
    box.event("gb", value="10.00000000000000001")
    assert box.usage()["amount_cents"] == 2 * 7_00
