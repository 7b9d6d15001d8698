"""Spend limits, quotas and prepaid credits: what a check says before usage happens."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, filter_on, price_ranges

from usagebill import Billing
from usagebill.core.errors import Invalid, NotFound

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def limit(box: Scenario, owner: str = "/customers/acme", **fields: Any) -> Any:
    return box.post(f"{owner}/spend_limits", spend_limit={"code": "cap", **fields})["spend_limit"]


def asked(box: Scenario, external_id: str = "sub", code: str | None = "gb", **fields: Any) -> Any:
    return box.post("/checks", check={"external_subscription_id": external_id, "code": code, **fields})["check"]


def numbers(check: Any, position: int = 0) -> tuple[str, str, str]:
    """What one of the limits says: used, added, remaining."""
    standing = check["limits"][position]
    return standing["used"], standing["adds"], standing["remaining"]


@pytest.fixture
def metric(box: Scenario) -> str:
    """A subscription to a metric at 1.00 a unit."""
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.subscribe()
    return metric_id


@pytest.mark.usefixtures("metric")
def test_usage_beyond_a_limit_is_refused_and_up_to_it_is_not(box: Scenario) -> None:
    limit(box, amount_cents=500)
    box.event("gb", value=3)
    check = asked(box, units="2")
    assert check["allowed"]
    assert check["amount_cents"] == 200
    assert numbers(check) == ("300.0", "200.0", "200.0")
    refused = asked(box, properties={"value": "2.01"})
    assert (refused["allowed"], refused["refusal_code"]) == (False, "spend_limit_reached")
    assert refused["limits"][0]["resets_at"] == "2024-04-01T00:00:00Z"
    assert asked(box, code=None, amount_cents=200)["allowed"]
    assert not asked(box, code=None, amount_cents=201)["allowed"]


@pytest.mark.parametrize("in_advance", [False, True])
@pytest.mark.parametrize("kind", ["sum_agg", "count_agg"])
def test_a_check_says_what_the_event_then_adds(box: Scenario, kind: str, in_advance: bool) -> None:
    """With filters and groups, and values below zero, after which more usage may still cost nothing."""
    regions = [{"key": "region", "values": ["eu", "us"]}]
    metric_id = box.metric("gb", kind, filters=regions)
    charge = charge_in_advance_on if in_advance else charge_on
    filters = [filter_on({"region": ["eu"]}, amount="3"), filter_on({"region": ["us"]}, amount="0.015")]
    box.plan(charge(metric_id, amount="0.5", pricing_group_keys=["model"], filters=filters))
    box.subscribe()
    limit(box, amount_cents=100_000)
    for value, properties in [
        (2, {}),
        (-5, {"region": "eu"}),
        (3, {"region": "eu"}),
        (4, {"region": "eu"}),
        (0, {}),
        ("none", {}),
        ("0.1", {"region": "us", "model": "large"}),
        (-1, {"region": "us", "model": "large"}),
        (7, {"model": "small"}),
        (-9, {"model": "small"}),
    ]:
        before = box.usage()
        sent: dict[str, Any] = {"value": value, **properties}
        check = asked(box, properties=sent)
        assert box.usage() == before
        box.event("gb", **sent)
        used = int(box.usage()["amount_cents"]) - int(before["amount_cents"])
        assert abs(Decimal(check["limits"][0]["adds"]) - used) < 1


@pytest.mark.usefixtures("metric")
def test_a_check_stores_nothing(box: Scenario) -> None:
    limit(box, amount_cents=500)
    before = box.usage()
    for _ in range(3):
        assert numbers(asked(box, units="4")) == ("0.0", "400.0", "500.0")
    assert box.usage() == before
    assert box.get("/events")["events"] == []


@pytest.mark.usefixtures("metric")
def test_grace_lets_more_through_and_an_alert_refuses_nothing(box: Scenario) -> None:
    limit(box, amount_cents=500, grace_percent="10")
    assert asked(box, units="5.5")["allowed"]
    assert not asked(box, units="5.51")["allowed"]
    box.put("/customers/acme/spend_limits/cap", spend_limit={"on_reached": "alert"})
    assert asked(box, units="100")["allowed"]


MODELS: dict[str, dict[str, Any]] = {
    "standard": {"amount": "0.37"},
    "graduated": {"graduated_ranges": price_ranges((0, 5, "1", "2"), (6, None, "0.5", "0"))},
    "volume": {"volume_ranges": price_ranges((0, 5, "1", "2"), (6, None, "0.5", "0"))},
    "package": {"amount": "3", "package_size": 4, "free_units": 2},
    "percentage": {"rate": "7", "fixed_amount": "0.5", "free_units_per_events": 1},
}


@pytest.mark.parametrize("in_advance", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_what_a_check_adds_is_what_the_usage_then_adds(box: Scenario, model: str, in_advance: bool) -> None:
    """By every charge model, from an empty period on."""
    if in_advance and model == "volume":
        return  # There is none in advance.
    metric_id = box.metric("gb")
    box.plan((charge_in_advance_on if in_advance else charge_on)(metric_id, model, **MODELS[model]))
    box.subscribe()

    def spent() -> int:
        fees = box.usage_fees() if in_advance else [box.usage()]
        return sum(fee["amount_cents"] for fee in fees)

    for value in ("1", "3.5", "2", "0.25", "9"):
        before = spent()
        check = asked(box, properties={"value": value})
        box.event("gb", value=value)
        after = spent()
        assert abs(Decimal(check["precise_amount_cents"]) - (after - before)) < 1, value
        assert Decimal(check["units"]) == Decimal(value)


def test_filters_and_minimums_price_a_check(box: Scenario) -> None:
    """Within its minimum of 10.00, the first 10.00 of usage add nothing to the bill."""
    metric_id = box.metric("gb", filters=[{"key": "cloud", "values": ["a", "b"]}])
    dear = filter_on({"cloud": ["b"]}, amount="3")
    box.plan(charge_on(metric_id, amount="1", min_amount_cents=1000, filters=[dear]))
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    assert asked(box, properties={"value": 3, "cloud": "b"})["amount_cents"] == 0
    box.event("gb", value=3, cloud="b")
    assert asked(box, properties={"value": 1, "cloud": "b"})["amount_cents"] == 200
    assert asked(box, properties={"value": 1, "cloud": "a"})["amount_cents"] == 0


@pytest.mark.usefixtures("metric")
def test_a_limit_of_a_group_counts_its_values_alone(box: Scenario) -> None:
    limit(box, amount_cents=500, billable_metric_code="gb", group={"model": ["x", "y"]})
    box.event("gb", value=3, model="x")
    box.event("gb", value=50, model="z")
    assert numbers(asked(box, properties={"value": 1, "model": "y"})) == ("300.0", "100.0", "200.0")
    assert asked(box, properties={"value": 100, "model": "z"})["limits"] == []
    assert not asked(box, properties={"value": 3, "model": "x"})["allowed"]


def test_units_count_without_a_price(box: Scenario) -> None:
    """A free plan has a quota of what it has no charge for."""
    box.metric("gb")
    box.plan()
    box.subscribe()
    limit(box, "/plans/basic", units="10", billable_metric_code="gb")
    box.event("gb", value=8)
    assert numbers(asked(box, units="2")) == ("8.0", "2.0", "2.0")
    assert not asked(box, units="3")["allowed"]


def test_the_limit_of_a_subscription_replaces_its_plans_of_that_code(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    limit(box, "/plans/basic", amount_cents=100)
    assert not asked(box, units="2")["allowed"]
    limit(box, "/subscriptions/sub", amount_cents=300)
    assert asked(box, units="3")["allowed"]
    box.delete("/subscriptions/sub/spend_limits/cap")
    assert not asked(box, units="2")["allowed"]


@pytest.mark.usefixtures("metric")
def test_a_customers_limit_counts_all_its_subscriptions(box: Scenario) -> None:
    box.subscribe(external_id="second")
    limit(box, amount_cents=500)
    limit(box, "/subscriptions/sub", amount_cents=900)
    box.event("gb", value=4, external_id="second")
    check = asked(box, units="2")
    assert not check["allowed"]
    assert numbers(check) == ("400.0", "200.0", "100.0")
    assert numbers(check, 1) == ("0.0", "200.0", "900.0")


@pytest.mark.now("2024-02-10T00:00:00Z")
@pytest.mark.parametrize(
    ("interval", "used", "resets_at"),
    [
        ("day", "300.0", "2024-03-06T00:00:00Z"),
        ("month", "500.0", "2024-04-01T00:00:00Z"),
        ("billing_period", "500.0", "2024-04-01T00:00:00Z"),
        ("lifetime", "1200.0", None),
    ],
)
def test_each_interval_counts_its_own_time(box: Scenario, interval: str, used: str, resets_at: str | None) -> None:
    """7.00 in February, 2.00 on 4 March, 3.00 on 5 March."""
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe(subscription_at="2024-02-01T00:00:00Z")
    limit(box, amount_cents=10_000, interval=interval)
    box.event("gb", value=7)
    box.travel_to("2024-03-04T12:00:00Z")
    box.event("gb", value=2)
    box.travel_to("2024-03-05T10:00:00Z")
    box.event("gb", value=3)
    check = asked(box, units="1")
    assert numbers(check)[0] == used
    assert check["limits"][0]["resets_at"] == resets_at


@pytest.mark.now("2024-02-20T00:00:00Z")
def test_a_month_counts_the_periods_that_it_cuts(box: Scenario) -> None:
    """Periods from the 20th: of that until 19 March, only what came in March counts; tiers are those of the period."""
    ranges = price_ranges((0, 5, "1", "0"), (6, None, "0.5", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", graduated_ranges=ranges))
    box.subscribe(billing_time="anniversary", subscription_at="2024-02-20T00:00:00Z")
    limit(box, amount_cents=10_000, interval="month")
    box.event("gb", value=5)
    box.travel_to("2024-03-10T00:00:00Z")
    box.event("gb", value=2)
    box.travel_to("2024-03-25T00:00:00Z")
    box.event("gb", value=4)
    # 2 at 0.50 beyond the tier that February filled, and 4 at 1.00 in the next period.
    assert numbers(asked(box, units="1"))[0] == "500.0"


def test_a_change_of_plan_keeps_what_a_month_has_used(box: Scenario) -> None:
    metric_id = box.metric("gb")
    box.plan(charge_on(metric_id, amount="1"))
    box.plan(charge_on(metric_id, amount="2"), code="dear", amount_cents=100)
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    limit(box, "/subscriptions/sub", amount_cents=1_000, interval="month")
    box.event("gb", value=3)
    box.travel_to("2024-03-10T00:00:00Z")
    box.subscribe("dear")
    box.event("gb", value=1)
    assert numbers(asked(box, units="1")) == ("500.0", "200.0", "500.0")


def test_late_events_count_at_once(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    limit(box, amount_cents=500)
    box.events("gb", {"value": 4, "at": "1709294400"})
    assert numbers(asked(box, units="1")) == ("400.0", "100.0", "100.0")


def test_prepaid_credits_with_a_hard_stop_are_not_overdrawn(box: Scenario) -> None:
    """10.00 of credits, with 20 % of tax: 8.33 of usage."""
    box.tax(20)
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    made = box.post("/wallets", wallet={**wallet, "code": "prepaid"})["wallet"]
    assert made["hard_stop"] is False
    box.event("gb", value=5)
    assert asked(box, units="100")["allowed"]
    box.put(f"/wallets/{made['svc_id']}", wallet={"hard_stop": True})
    check = asked(box, units="3")
    assert check["allowed"]
    assert numbers(check) == ("600.0", "360.0", "400.0")
    refused = asked(box, units="4")
    assert refused["refusal_code"] == "insufficient_credits"
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": made["svc_id"], "granted_credits": "1"})
    assert asked(box, units="4")["allowed"]


def test_credits_pay_for_what_was_billed_in_advance_first(box: Scenario) -> None:
    box.plan(charge_in_advance_on(box.metric("gb"), amount="1", invoiceable=True))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    box.post("/wallets", wallet={**wallet, "hard_stop": True})
    box.event("gb", value=7)
    assert asked(box, units="3")["allowed"]
    assert asked(box, units="4")["refusal_code"] == "insufficient_credits"


def test_an_integer_privilege_that_names_a_metric_is_its_quota(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    quota = {"code": "most", "value_type": "integer", "billable_metric_code": "gb"}
    box.post("/features", feature={"code": "storage", "privileges": [quota]})
    assert asked(box, units="100")["allowed"]
    box.post("/plans/basic/entitlements", entitlements={"storage": {"most": 10}})
    box.event("gb", value=8)
    assert asked(box, units="2")["allowed"]
    refused = asked(box, units="3")
    assert refused["refusal_code"] == "quota_reached"
    assert refused["limits"][0]["code"] == "storage.most"
    wrong = {"code": "level", "value_type": "string", "billable_metric_code": "gb"}
    refusal = box.post("/features", 422, feature={"code": "other", "privileges": [wrong]})
    assert refusal["error_details"] == {"privilege.billable_metric_code": ["value_must_be_blank"]}


@pytest.mark.usefixtures("metric")
@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"code": "other"}, {"amount_cents": ["amount_or_units"]}),
        (
            {"code": "other", "amount_cents": 1, "units": "1", "billable_metric_code": "gb"},
            {"amount_cents": ["amount_or_units"]},
        ),
        ({"code": "", "amount_cents": 1}, {"code": ["value_is_mandatory"]}),
        ({"amount_cents": 1}, {"code": ["value_already_exist"]}),
        ({"code": "other", "units": "1"}, {"billable_metric_code": ["value_is_mandatory"]}),
        ({"code": "other", "amount_cents": 1, "interval": "week"}, {"interval": ["value_is_invalid"]}),
        ({"code": "other", "amount_cents": 1, "on_reached": "cry"}, {"on_reached": ["value_is_invalid"]}),
        ({"code": "other", "amount_cents": 1, "group": ["x"]}, {"group": ["invalid_format"]}),
        ({"code": "other", "amount_cents": 1, "grace_percent": "-1"}, {"grace_percent": ["value_is_out_of_range"]}),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(box: Scenario, fields: dict[str, Any], details: object) -> None:
    limit(box, amount_cents=500)
    refusal = box.post("/customers/acme/spend_limits", 422, spend_limit={"code": "cap", **fields})
    assert refusal["error_details"] == details
    assert len(box.get("/customers/acme/spend_limits")["spend_limits"]) == 1


@pytest.mark.usefixtures("metric")
def test_the_library_speaks_of_limits_too(box: Scenario) -> None:
    billing: Billing = box.billing
    made = billing.spend_limits.create_of_subscription("sub", code="cap", amount_cents=500, interval="day")
    assert made.interval == "day"
    check = billing.spend_limits.check(external_subscription_id="sub", code="gb", properties={"value": 6})
    assert not check.allowed
    billing.spend_limits.update_of_subscription("sub", "cap", amount_cents=600)
    assert billing.spend_limits.check(external_subscription_id="sub", code="gb", properties={"value": 6}).allowed
    with pytest.raises(NotFound, match="there is no billable metric"):
        billing.spend_limits.check(external_subscription_id="sub", code="nothing")
    with pytest.raises(Invalid):
        billing.spend_limits.check(external_subscription_id="sub")
    billing.spend_limits.delete_of_subscription("sub", "cap")
    assert list(billing.spend_limits.list_of_subscription("sub")) == []


# What is told


def told(box: Scenario) -> list[tuple[str, str, str | None]]:
    """Of each message: its type, the limit, and the subscription."""
    return [
        (str(one["webhook_type"]), one["reached_limit"]["code"], one["reached_limit"]["external_subscription_id"])
        for one in box.webhooks
        if str(one["webhook_type"]).startswith("limit.")
    ]


@pytest.mark.parametrize("on_reached", ["refuse", "alert"])
def test_a_limit_that_is_reached_is_told_once_and_again_when_it_starts_over(box: Scenario, on_reached: str) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    limit = {"code": "cap", "amount_cents": 500, "interval": "day", "on_reached": on_reached}
    box.post("/customers/acme/spend_limits", spend_limit=limit)
    box.event("gb", value="4.99")
    box.travel_to(box.now + timedelta(minutes=1))
    assert told(box) == []
    for value in ("0.01", "2"):
        box.event("gb", value=value)
        box.travel_to(box.now + timedelta(minutes=1))
    assert told(box) == [("limit.reached", "cap", None)]
    message = box.webhooks[-1]["reached_limit"]
    assert (message["limit"], message["used"], message["on_reached"]) == ("500.0", "500.0", on_reached)
    assert message["external_customer_id"] == "acme"
    box.travel_to(box.now + timedelta(days=1))
    box.event("gb", value=6)
    box.travel_to(box.now + timedelta(days=2))
    assert [name for name, *_ in told(box)] == ["limit.reached", "limit.reset"] * 2


def test_each_subscription_on_a_plan_reaches_its_limit_by_itself(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.post("/plans/basic/spend_limits", spend_limit={"code": "cap", "amount_cents": 500, "interval": "lifetime"})
    for name in ("one", "two", "three"):
        box.subscribe(external_id=name)
    for name in ("one", "two"):
        box.event("gb", name, value=5)
    box.travel_to(box.now + timedelta(minutes=1))
    box.event("gb", "one", value=5)
    box.travel_to(box.now + timedelta(days=90))
    assert sorted(told(box)) == [("limit.reached", "cap", "one"), ("limit.reached", "cap", "two")]


def test_a_changed_limit_is_told_of_anew_and_a_deleted_one_is_not(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.event("gb", value=5)
    path = "/customers/acme/spend_limits"
    box.post(path, spend_limit={"code": "cap", "amount_cents": 500, "interval": "day"})
    box.travel_to(box.now + timedelta(minutes=1))
    box.put(f"{path}/cap", spend_limit={"amount_cents": 600})
    box.event("gb", value=1)
    box.travel_to(box.now + timedelta(minutes=1))
    assert [name for name, *_ in told(box)] == ["limit.reached"] * 2
    box.delete(f"{path}/cap")
    box.travel_to(box.now + timedelta(days=2))
    assert len(told(box)) == 2
