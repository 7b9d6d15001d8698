"""The numbers that docs/differences.md gives for usage, each as a customer would see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2025-06-01T00:00:00Z") as box:
        yield PriceList(box)


def charge(metric: str, model: str, properties: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"billable_metric_id": metric, "charge_model": model, "properties": properties, **fields}


def graduated(*ranges: tuple[int, int | None, str, str]) -> dict[str, Any]:
    return {
        "graduated_ranges": [
            {"from_value": start, "to_value": end, "per_unit_amount": unit, "flat_amount": flat}
            for start, end, unit, flat in ranges
        ]
    }


def fees(list_: PriceList) -> list[int]:
    return [fee["amount_cents"] for fee in list_.get("/fees")["fees"]]


IN_ADVANCE = {"pay_in_advance": True, "invoiceable": False}


def groups(list_: PriceList) -> list[str | None]:
    return [group["grouped_by"]["agent"] for group in list_.usage()["charges_usage"][0]["grouped_usage"]]


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
    list_: PriceList, aggregation_type: str, fields: dict[str, Any], amount_cents: int
) -> None:
    metric = list_.metric("gb", aggregation_type, **fields)
    list_.plan(charge(metric, "graduated", {**graduated((0, None, "1", "5")), "pricing_group_keys": ["agent"]}))
    list_.subscribe()
    list_.event("gb", value=1, agent="x")
    list_.event("gb", value="abc", agent="y")
    assert groups(list_) == ["x"]
    assert list_.usage()["amount_cents"] == amount_cents
    list_.box.travel_to("2025-07-02T00:00:00Z")
    assert [invoice["total_amount_cents"] for invoice in list_.get("/invoices")["invoices"]] == [amount_cents]


def test_a_group_of_removals_alone_pays_no_flat_amount_where_seats_are_prorated(list_: PriceList) -> None:
    metric = list_.metric("seats", "unique_count_agg", recurring=True)
    properties = {**graduated((0, None, "1", "5")), "pricing_group_keys": ["agent"]}
    list_.plan(charge(metric, "graduated", properties, prorated=True))
    list_.subscribe()
    list_.event("seats", value="a", agent="x")
    list_.event("seats", value="a", agent="y", operation_type="remove")
    assert groups(list_) == ["x"]
    assert list_.usage()["amount_cents"] == 600


def test_aggregated_units_are_never_below_zero(list_: PriceList) -> None:
    list_.plan(charge(list_.metric("gb"), "standard", {"amount": "1"}))
    list_.subscribe()
    list_.event("gb", value=-14)
    shown = list_.usage()["charges_usage"][0]
    assert (shown["units"], shown["total_aggregated_units"]) == ("0.0", "0.0")


def test_current_usage_of_a_prorated_sum_below_zero_is_what_was_billed(list_: PriceList) -> None:
    metric = list_.metric("seats", recurring=True)
    list_.plan(charge(metric, "standard", {"amount": "3"}, prorated=True, **IN_ADVANCE))
    list_.subscribe()
    list_.box.travel_to("2025-06-16T00:00:00Z")
    list_.event("seats", value=-10)
    list_.event("seats", value=4)
    assert sum(fees(list_)) == list_.usage()["amount_cents"] == 600


def test_current_usage_shows_the_fixed_amounts_that_removals_paid_in_advance(list_: PriceList) -> None:
    metric = list_.metric("users", "unique_count_agg")
    list_.plan(charge(metric, "percentage", {"rate": "0", "fixed_amount": "1"}, **IN_ADVANCE))
    list_.subscribe()
    list_.event("users", value="a")
    list_.event("users", value="b")
    list_.event("users", value="b", operation_type="remove")
    assert sum(fees(list_)) == list_.usage()["amount_cents"] == 300
    assert list_.usage()["charges_usage"][0]["units"] == "1.0"


@pytest.mark.parametrize("second", [1, 2])
def test_prorated_graduated_prices_each_unit_that_goes_in_its_own_range(list_: PriceList, second: int) -> None:
    metric = list_.metric("seats", recurring=True)
    properties = graduated((0, 1, "10", "0"), (second, None, "5", "0"))
    list_.plan(charge(metric, "graduated", properties, prorated=True))
    list_.subscribe()
    list_.event("seats", value=2)
    for day in ("16", "28"):
        list_.box.travel_to(f"2025-06-{day}T00:00:00Z")
        list_.event("seats", value=-1)
    assert list_.usage()["amount_cents"] == 1150


def test_a_seat_removed_before_the_period_is_in_no_range(list_: PriceList) -> None:
    metric = list_.metric("seats", "unique_count_agg", recurring=True)
    list_.plan(charge(metric, "graduated", graduated((0, 1, "10", "1"), (2, None, "10", "9")), prorated=True))
    list_.subscribe()
    list_.event("seats", value="a")
    list_.event("seats", value="a", operation_type="remove")
    list_.event("seats", value="b")
    list_.box.travel_to("2025-07-05T00:00:00Z")
    assert list_.usage()["amount_cents"] == 1100


def test_a_period_that_ends_the_day_before_clocks_go_forward_has_its_own_days() -> None:
    with Sandbox(now="2024-01-31T00:00:00Z") as box:
        list_ = PriceList(box, timezone="Europe/Berlin")
        metric = list_.metric("seats", "unique_count_agg", recurring=True)
        list_.plan(charge(metric, "standard", {"amount": "31"}, prorated=True))
        list_.subscribe(billing_time="anniversary")
        box.travel_to("2024-03-02T12:00:00Z")
        list_.event("seats", value="a")
        assert list_.usage()["to_datetime"] == "2024-03-30T22:59:59Z"
        assert list_.usage()["amount_cents"] == 2900


def test_what_a_filter_was_billed_for_is_not_what_no_filter_takes(list_: PriceList) -> None:
    metric = list_.metric("gb", filters=[{"key": "cloud", "values": ["aws"]}])
    filters = [{"values": {"cloud": ["aws"]}, "properties": {"amount": "1"}}]
    list_.plan(charge(metric, "standard", {"amount": "1"}, filters=filters, **IN_ADVANCE))
    list_.subscribe()
    list_.event("gb", value=4, cloud="aws")
    list_.event("gb", value=-4, cloud="aws")
    list_.event("gb", value=6)
    assert sorted(fees(list_)) == [0, 400, 600]


def test_a_value_that_comes_twice_at_one_instant_is_paid_once(list_: PriceList) -> None:
    metric = list_.metric("users", "unique_count_agg")
    list_.plan(charge(metric, "standard", {"amount": "1"}, **IN_ADVANCE))
    list_.subscribe()
    sent = {"code": "users", "external_subscription_id": "sub", "properties": {"value": "a"}}
    now = list_.box.now.timestamp()
    list_.post("/events/batch", events=[{**sent, "transaction_id": f"t{n}", "timestamp": now} for n in (1, 2)])
    assert sorted(fees(list_)) == [0, 100]


def test_a_single_event_is_prorated_without_binary_fractions(list_: PriceList) -> None:
    metric = list_.metric("seats", recurring=True)
    list_.plan(charge(metric, "standard", {"amount": "1000"}, prorated=True, **IN_ADVANCE))
    list_.subscribe()
    list_.box.travel_to("2025-06-06T00:00:00Z")
    list_.event("seats", value=6)
    assert fees(list_) == [500_000]


def test_no_usage_is_projected_at_what_it_will_be_billed(list_: PriceList) -> None:
    list_.plan(charge(list_.metric("gb"), "graduated", graduated((0, None, "1", "2"))))
    list_.subscribe()
    list_.box.travel_to("2025-06-10T12:00:00Z")
    path = "/customers/acme/projected_usage?external_subscription_id=sub"
    projected = list_.get(path)["customer_projected_usage"]["charges_usage"][0]
    assert (projected["amount_cents"], projected["projected_amount_cents"]) == (200, 200)


def test_a_package_that_has_hardly_been_started_counts(list_: PriceList) -> None:
    list_.plan(charge(list_.metric("gb"), "package", {"amount": "7", "package_size": 10, "free_units": 0}))
    list_.subscribe()
    list_.event("gb", value="10.00000000000000001")
    assert list_.usage()["amount_cents"] == 1400
