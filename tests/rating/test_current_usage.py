"""What current and projected usage show."""

from __future__ import annotations

from typing import Any

import pytest
from tests.money import percent
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, price_ranges

pytestmark = [pytest.mark.now("2025-07-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def picked(items: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(item[key] for key in keys) for item in items]


CLOUD = [{"key": "cloud", "values": ["aws", "gcp"]}]


def test_usage_shows_every_charge_before_any_event(box: Scenario) -> None:
    metric = box.metric("calls", "count_agg")
    box.plan(charge_on(metric, amount="5"))
    box.subscribe()
    usage = box.usage()
    assert usage["amount_cents"] == 0
    assert usage["from_datetime"] == "2025-07-01T00:00:00Z"
    assert usage["to_datetime"] == "2025-07-31T23:59:59Z"
    assert usage["issuing_date"] == "2025-07-31"
    assert picked(usage["charges_usage"], "units", "events_count", "amount_cents") == [("0.0", 0, 0)]
    assert usage["charges_usage"][0]["filters"] == []
    assert usage["charges_usage"][0]["grouped_usage"] == []


def test_decimals_of_events_are_exact(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    for value in ("0.1", "0.2", "1000000000000000.000000000000001"):
        box.event("gb", value=value)
    assert box.usage()["charges_usage"][0]["units"] == "1000000000000000.300000000000001"


def test_the_narrower_filter_takes_its_events(box: Scenario) -> None:
    metric = box.metric("gb", filters=CLOUD)
    filters = [
        {"values": {"cloud": ["aws", "gcp"]}, "properties": {"amount": "5"}, "invoice_display_name": "All clouds"},
        {"values": {"cloud": ["aws"]}, "properties": {"amount": "3"}},
    ]
    box.plan(charge_on(metric, amount="10", filters=filters))
    box.subscribe()
    box.event("gb", value=10, cloud="aws")
    box.event("gb", value=7, cloud="gcp")
    charge = box.usage()["charges_usage"][0]
    assert picked(charge["filters"], "invoice_display_name", "units", "amount_cents") == [
        ("All clouds", "7.0", 7 * 500),
        (None, "10.0", 10 * 300),
        (None, "0.0", 0),
    ]
    assert picked(charge["filters"], "values")[1:] == [({"cloud": ["aws"]},), (None,)]
    assert (charge["units"], charge["amount_cents"], charge["events_count"]) == ("17.0", 7 * 500 + 10 * 300, 2)


def test_of_equal_filters_the_oldest_takes_all(box: Scenario) -> None:
    metric = box.metric("gb", filters=CLOUD)
    filters = [{"values": {"cloud": ["aws"]}, "properties": {"amount": amount}} for amount in ("5", "3")]
    box.plan(charge_on(metric, amount="10", filters=filters))
    box.subscribe()
    box.event("gb", value=10, cloud="aws")
    assert picked(box.usage()["charges_usage"][0]["filters"], "units", "amount_cents") == [
        ("10.0", 10 * 500),
        ("0.0", 0),
        ("0.0", 0),
    ]


def test_groups_are_priced_apart_and_add_up(box: Scenario) -> None:
    metric = box.metric("gb")
    box.plan(charge_on(metric, amount="20", properties={"pricing_group_keys": ["region"]}))
    box.subscribe()
    empty = box.usage()["charges_usage"][0]["grouped_usage"]
    assert [group["grouped_by"] for group in empty] == [{"region": None}]
    box.event("gb", value=1, region="europe")
    box.event("gb", value=2)
    box.event("gb", value=3, region="")
    charge = box.usage()["charges_usage"][0]
    assert picked(charge["grouped_usage"], "grouped_by", "units", "amount_cents") == [
        ({"region": "europe"}, "1.0", 2000),
        ({"region": None}, "5.0", (2 + 3) * 2000),
    ]
    assert charge["amount_cents"] == (1 + 2 + 3) * 2000


def test_one_charge_one_metric_or_one_group_can_be_asked_for(box: Scenario) -> None:
    calls, gb = box.metric("calls"), box.metric("gb")
    plan = box.plan(
        charge_on(calls, amount="10", code="a", properties={"pricing_group_keys": ["cloud"]}),
        charge_on(gb, amount="20", code="b"),
        charge_on(calls, amount="5", code="c"),
    )
    box.subscribe()
    for value, cloud in ((4, "aws"), (4, "aws"), (6, "gcp")):
        box.event("calls", value=value, cloud=cloud)
    amounts = {
        "charge_code=a": [14000],
        "group[cloud]=aws&charge_code=a": [8000],
        "group[cloud][]=aws&group[cloud][]=gcp&charge_code=a": [14000],
        'filter_by_group={"cloud": ["aws"]}&charge_code=a': [8000],
        "billable_metric_code=calls": [14000, 7000],
    }
    for query, expected in amounts.items():
        assert [charge["amount_cents"] for charge in box.usage(f"&{query}")["charges_usage"]] == expected
    by_id = box.usage(f"&charge_id={plan['charges'][1]['svc_id']}")
    assert [charge["charge"]["code"] for charge in by_id["charges_usage"]] == ["b"]
    status, answer = box.send("GET", "/customers/acme/current_usage?external_subscription_id=sub&charge_code=none")
    assert (status, answer["code"]) == (404, "charge_not_found")
    status, answer = box.send("GET", "/customers/acme/current_usage?external_subscription_id=sub&full_usage=true")
    assert (status, answer["code"]) == (405, "full_usage_not_allowed")


def test_full_usage_reaches_back_to_the_start(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1", code="gb"))
    box.subscribe()
    box.event("gb", value=5)
    box.travel_to("2025-08-10T00:00:00Z")
    box.event("gb", value=7)
    assert box.usage("&charge_code=gb")["amount_cents"] == 7 * 100
    full = box.usage("&charge_code=gb&full_usage=true")
    assert (full["amount_cents"], full["from_datetime"]) == ((5 + 7) * 100, "2025-07-01T00:00:00Z")


RANGES = {"graduated_ranges": price_ranges((0, 1, "3", "0"), (2, None, "1", "0"))}
# The fee of 4 units (or one seat) of 8 July, and what is renewed in August with the 3 units of before.
EARLY: dict[str, tuple[str, str, dict[str, Any], int, int]] = {
    "count": ("count_agg", "standard", {"amount": "1"}, 1_00, 0),
    "sum": ("sum_agg", "standard", {"amount": "1"}, 4_00, 0),
    "ranges": ("sum_agg", "graduated", {"properties": RANGES}, 3_00 + 3 * 1_00, 0),
    "seats": ("unique_count_agg", "standard", {"amount": "1"}, 1_00, 2_00),
    "stock": ("sum_agg", "standard", {"amount": "1"}, 4_00, 7_00),
    # 4 units for 24 of 31 days: 3.09678.
    "prorated stock": ("sum_agg", "standard", {"amount": "1", "prorated": True}, 3_10, 7_00),
}


@pytest.mark.parametrize(("aggregation", "model", "fields", "billed", "renewed"), EARLY.values(), ids=EARLY)
def test_usage_of_a_charge_in_advance_leaves_out_what_came_before_it(
    box: Scenario, aggregation: str, model: str, fields: dict[str, Any], billed: int, renewed: int
) -> None:
    metric = box.metric("gb", aggregation, recurring=renewed > 0)
    box.plan()
    box.subscribe()
    box.event("gb", value=3)
    box.travel_to("2025-07-08T12:00:00Z")
    box.post("/plans/basic/charges", charge=charge_in_advance_on(metric, model, code="gb", **fields))
    assert box.usage()["amount_cents"] == 0
    box.travel_to("2025-07-08T18:00:00Z")
    box.event("gb", value=4)
    (fee,) = box.usage_fees()
    assert fee["amount_cents"] == box.usage()["amount_cents"] == billed
    box.travel_to("2025-08-02T12:00:00Z")
    assert sum(fee["amount_cents"] for fee in box.usage_fees()) - billed == box.usage()["amount_cents"] == renewed


@pytest.mark.parametrize(("bill_from", "calls", "seats"), [("now", 1, 0), ("current_period", 2, 1), ("start", 2, 2)])
def test_usage_in_advance_of_a_start_in_the_past_is_what_was_billed_of_it(
    box: Scenario, bill_from: str, calls: int, seats: int
) -> None:
    box.plan(
        charge_in_advance_on(box.metric("calls", "count_agg"), amount="1"),
        charge_in_advance_on(box.metric("seats", "unique_count_agg", recurring=True), amount="1"),
    )
    box.event("seats", value="of the first month")
    box.travel_to("2025-08-20T00:00:00Z")
    box.event("seats", value="of this month")
    box.event("calls")
    box.travel_to("2025-08-21T00:00:00Z")
    box.subscribe(subscription_at="2025-07-01T00:00:00Z", bill_from=bill_from)
    box.travel_to("2025-08-22T00:00:00Z")
    box.event("calls")
    shown = {usage["billable_metric"]["code"]: usage["units"] for usage in box.usage()["charges_usage"]}
    assert shown == {"calls": f"{calls}.0", "seats": f"{seats}.0"}
    in_july = 1 if bill_from == "start" else 0
    assert sum(fee["amount_cents"] for fee in box.usage_fees()) == 100 * (calls + seats + in_july)


def test_usage_is_taxed_unless_taxes_are_left_out(box: Scenario) -> None:
    box.tax()
    box.plan(charge_on(box.metric("gb"), amount="0.01"))
    box.subscribe()
    box.event("gb", value=2532)
    usage = box.usage()
    taxes = percent(2532, 20)
    assert (usage["amount_cents"], usage["taxes_amount_cents"]) == (2532, taxes)
    assert usage["total_amount_cents"] == 2532 + taxes
    assert box.usage("&apply_taxes=")["taxes_amount_cents"] == taxes
    assert box.usage("&apply_taxes=false")["taxes_amount_cents"] == 0


def test_dynamic_prices_come_with_the_events(box: Scenario) -> None:
    metric = box.metric("gb")
    box.plan(charge_on(metric, "dynamic", pricing_group_keys=["g"]))
    box.subscribe()
    box.event("gb", value=10, g=1, cents="10.1")
    box.event("gb", value=10, g=2, cents="901.9")
    charge = box.usage()["charges_usage"][0]
    assert picked(charge["grouped_usage"], "grouped_by", "amount_cents") == [
        ({"g": "1"}, round(10.1)),
        ({"g": "2"}, round(901.9)),
    ]
    assert charge["units"] == "20.0"


def test_a_recurring_unique_count_stays_until_removed(box: Scenario) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(metric, amount="20"))
    box.subscribe()
    box.event("seats", value="a")
    box.travel_to("2025-08-10T00:00:00Z")
    assert box.usage()["amount_cents"] == 2000
    box.event("seats", value="a", operation_type="remove")
    assert box.usage()["amount_cents"] == 0


def test_a_recurring_weighted_sum_carries_its_level_over(box: Scenario) -> None:
    metric = box.metric("storage", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    box.plan(charge_on(metric, amount="1"))
    box.subscribe()
    box.travel_to("2025-07-05T00:00:00Z")
    box.event("storage", value=2500)
    july = box.usage()["charges_usage"][0]
    # 2500 from the 5th to the end of July.
    assert (july["units"], july["amount_cents"]) == ("2177.4193548387096774", round(2500_00 * 27 / 31))
    assert july["total_aggregated_units"] == "2500.0"
    box.travel_to("2025-09-04T00:00:00Z")
    box.event("storage", value=-2000)
    box.travel_to("2025-09-06T00:00:00Z")
    box.event("storage", value=-200)
    september = box.usage()["charges_usage"][0]
    # Three days at 2500, two at 500, the rest of the 30 at 300.
    whole = 2500_00 * 3 + 500_00 * 2 + 300_00 * 25
    assert (september["units"], september["amount_cents"]) == ("533.3333333333333333", round(whole / 30))
    assert september["total_aggregated_units"] == "300.0"


def weighted(box: Scenario) -> dict[str, Any]:
    """A charge of 2.00 and 1.00 a unit of a level, by team."""
    metric = box.metric("storage", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    ranges = price_ranges((0, None, "1", "2"))
    properties = {"graduated_ranges": ranges, "pricing_group_keys": ["team"]}
    return charge_on(metric, "graduated", **properties, code="storage")


def by_team(box: Scenario, query: str = "") -> list[tuple[Any, ...]]:
    charge = box.usage(query)["charges_usage"][0]
    return [(group["grouped_by"]["team"], group["units"], group["amount_cents"]) for group in charge["grouped_usage"]]


def test_levels_of_groups_go_on_without_an_event(box: Scenario) -> None:
    box.plan(weighted(box))
    box.subscribe()
    assert by_team(box) == [(None, "0.0", 200)]
    box.event("storage", value=10, team="a")
    box.event("storage", value=20, team="b")
    box.travel_to("2025-08-02T00:00:00Z")
    assert by_team(box) == [("a", "10.0", 1200), ("b", "20.0", 2200)]
    assert box.usage("&group[team]=b")["amount_cents"] == 2200
    assert box.usage("&skip_grouping=true")["amount_cents"] == (10 + 20) * 100 + 200
    box.travel_to("2025-09-02T00:00:00Z")
    fees = box.get("/fees?fee_type=charge")["fees"]
    assert [fee["amount_cents"] for fee in fees] == [1200, 2200] * 2


def test_a_level_survives_an_override_of_its_charge(box: Scenario) -> None:
    box.plan(weighted(box))
    box.subscribe()
    box.event("storage", value=10, team="a")
    box.travel_to("2025-08-02T00:00:00Z")
    name = {"charge": {"invoice_display_name": "Disks"}}
    box.ask("PUT", "/subscriptions/sub/charges/storage", name)
    assert by_team(box) == [("a", "10.0", 1200)]
    box.travel_to("2025-10-02T00:00:00Z")
    fees = box.get("/fees?fee_type=charge")["fees"]
    assert [fee["amount_cents"] for fee in fees] == [1200] * 3


def test_an_upgrade_bills_a_level_for_the_days_before_it(box: Scenario) -> None:
    charge = weighted(box)
    box.plan(charge)
    box.plan(charge, code="larger", amount_cents=100)
    box.subscribe()
    box.event("storage", value=31, team="a")
    box.travel_to("2025-07-10T23:59:59.500Z")
    box.event("storage", value=31, team="a")
    box.travel_to("2025-07-11T00:00:00Z")
    box.subscribe("larger")
    box.travel_to("2025-08-02T00:00:00Z")
    fees = box.get("/fees?fee_type=charge")["fees"]
    assert [fee["amount_cents"] for fee in fees] == [200 + 1000, 200 + 4200]


def test_without_an_active_subscription_there_is_no_usage(box: Scenario) -> None:
    for query in ("", "?external_subscription_id=none"):
        status, answer = box.send("GET", f"/customers/acme/current_usage{query}")
        assert (status, answer["code"]) == (405, "no_active_subscription")
    status, answer = box.send("GET", "/customers/none/current_usage?external_subscription_id=sub")
    assert (status, answer["code"]) == (404, "customer_not_found")


def test_projection_extends_the_days_so_far(box: Scenario) -> None:
    metric = box.metric("gb", filters=[{"key": "cloud", "values": ["aws", "gcp"]}])
    filters = [
        {"values": {"cloud": ["aws"]}, "properties": {"amount": "10"}},
        {"values": {"cloud": ["gcp"]}, "properties": {"amount": "20"}},
    ]
    box.plan(charge_on(metric, amount="0", filters=filters))
    box.subscribe()
    box.travel_to("2025-07-03T10:00:00Z")
    box.event("gb", value=3, cloud="aws")
    box.event("gb", value=1, cloud="gcp")
    box.event("gb", value=1, cloud="azure")
    path = "/customers/acme/projected_usage?external_subscription_id=sub"
    usage = box.get(path)["customer_projected_usage"]
    charge = usage["charges_usage"][0]
    assert picked(charge["filters"], "projected_units", "projected_amount_cents") == [
        ("31.0", 31 * 1000),
        ("10.33", 1033 * 2000 // 100),
        ("0.0", 0),
    ]
    assert usage["projected_amount_cents"] == charge["projected_amount_cents"] == 31 * 1000 + 1033 * 2000 // 100
    assert charge["filters"][-1]["values"] == {}


def test_presentation_keys_split_units_without_pricing_them(box: Scenario) -> None:
    keys = [{"value": "team"}, {"value": "user", "options": {"display_in_invoice": True}}]
    box.plan(charge_on(box.metric("gb"), amount="1", properties={"presentation_group_keys": keys}))
    box.subscribe()
    box.travel_to("2025-07-03T10:00:00Z")
    box.event("gb", value=3, team="a", user="x")
    box.event("gb", value=1, team="a", user="y")
    box.event("gb", value=2)
    query = "?external_subscription_id=sub"

    def rows(path: str, key: str = "presentation_breakdowns") -> list[tuple[Any, ...]]:
        usage = next(iter(box.get(f"/customers/acme/{path}").values()))
        assert len(usage["charges_usage"]) == 1
        return [(*row["presentation_by"].values(), row["units"]) for row in usage["charges_usage"][0][key]]

    assert rows(f"current_usage{query}") == [("a", "x", "3.0"), ("a", "y", "1.0"), (None, None, "2.0")]
    assert rows(f'current_usage{query}&filter_by_presentation=["team"]') == [("a", "4.0"), (None, "2.0")]
    assert rows(f"current_usage{query}&filter_by_presentation=[]") == []
    status, answer = box.send("GET", f"/customers/acme/current_usage{query}&filter_by_presentation=[")
    assert (status, answer["error_details"]) == (422, {"filter_by_presentation": ["invalid_format"]})
    assert rows(f"projected_usage{query}", "projected_presentation_breakdowns") == [
        ("a", "x", "31.0"),
        ("a", "y", "10.33"),
        (None, None, "20.67"),
    ]


def test_past_usage_is_what_was_invoiced(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=1000)
    box.subscribe()
    box.event("gb", value=5)
    box.travel_to("2025-08-15T00:00:00Z")
    box.event("gb", value=7)
    box.travel_to("2025-09-02T00:00:00Z")
    answer = box.get("/customers/acme/past_usage?external_subscription_id=sub")
    usages = [period["customer_usage"] for period in answer["usage_periods"]]
    assert picked(usages, "from_datetime", "amount_cents") == [
        ("2025-08-01T00:00:00Z", 1000 + 7 * 100),
        ("2025-07-01T00:00:00Z", 1000 + 5 * 100),
    ]
    assert [usage["charges_usage"][0]["units"] for usage in usages] == ["7.0", "5.0"]
    for period in answer["usage_periods"]:
        assert {**period["customer_usage"], "customer_usage": period["customer_usage"]} == period
    latest = box.get("/customers/acme/past_usage?external_subscription_id=sub&periods_count=1")
    assert (len(latest["usage_periods"]), latest["meta"]["total_count"]) == (1, 2)
    status, answer = box.send("GET", "/customers/acme/past_usage")
    assert (status, answer["error_details"]) == (422, {"external_subscription_id": ["value_is_mandatory"]})
    status, answer = box.send(
        "GET", "/customers/acme/past_usage?external_subscription_id=sub&billable_metric_code=none"
    )
    assert (status, answer["code"]) == (404, "billable_metric_not_found")


@pytest.mark.parametrize("filtered", [True, False])
def test_a_price_that_was_just_changed_counts_at_once(filtered: bool) -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls", "count_agg", filters=[{"key": "region", "values": ["eu"]}])
        for code, advance in (("ahead", True), ("after", False)):
            filters = [{"values": {"region": ["eu"]}, "properties": {"amount": "1"}}] if filtered else []
            terms = {"charge_model": "standard", "properties": {"amount": "1"}, "filters": filters, "code": code}
            box.plan({"billable_metric_id": metric, "pay_in_advance": advance, **terms}, code=code)
            box.subscribe(code, code)
            box.event("calls", code, region="eu")
            assert box.usage(external_id=code)["amount_cents"] == 100
            path = f"/plans/{code}/charges/{code}"
            body: dict[str, Any] = {"charge": {"properties": {"amount": "5"}}}
            if filtered:
                (charge_filter,) = box.get(f"{path}/filters")["filters"]
                path, body = f"{path}/filters/{charge_filter['svc_id']}", {"filter": {"properties": {"amount": "5"}}}
            box.ask("PUT", path, body)
            box.event("calls", code, region="eu")
            assert box.usage(external_id=code)["amount_cents"] == 2 * 500
        fees = box.get("/fees?fee_type=charge")["fees"]
        assert sorted(fee["amount_cents"] for fee in fees) == [100, 500]
