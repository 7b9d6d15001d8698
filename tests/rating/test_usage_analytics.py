"""Usage by day, week and month adds up to what is billed of it, whatever the price and the time zone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario, charge_on, fees_of, price_ranges

from usagebill.rating.analytics import usage as analytics_usage

GRADUATED = {"graduated_ranges": price_ranges((0, 10, "1", "2"), (11, None, "0.37", "0.5"))}


def usage(box: Scenario, **wanted: Any) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    rows: list[dict[str, Any]] = box.get(f"/analytics/usage?{query}")["usages"]
    return rows


def days(rows: list[dict[str, Any]]) -> dict[str, tuple[Decimal, int]]:
    return {row["start_of_period_dt"]: (Decimal(row["units"]), row["amount_cents"]) for row in rows}


@pytest.mark.now("2024-01-01T00:00:00Z")
def test_the_days_of_a_billed_month_add_up_to_its_fee(box: Scenario) -> None:
    box.customer()
    box.plan(charge_on(box.metric("calls"), "graduated", **GRADUATED))
    box.subscribe()
    for day, value in ((3, 6), (3, 1), (10, 8), (31, 5)):
        box.jump_to(f"2024-01-{day:02}T23:59:00Z")
        box.event("calls", value=value)
    box.travel_to("2024-02-05T01:00:00Z")
    (invoice,) = box.invoices()
    (fee,) = fees_of(box.get(f"/invoices/{invoice['svc_id']}")["invoice"], "charge")
    rows = usage(box, from_date="2024-01-01", to_date="2024-01-31")
    # 7 units: 9.00; 15: 12.00 and 0.50 and 5 at 0.37; 20: 5 more at 0.37. Without any usage the first flat amount.
    assert days(rows) == {
        "2024-01-01": (0, 200),
        "2024-01-03": (7, 700),
        "2024-01-10": (8, 535),
        "2024-01-31": (5, 185),
    }
    assert sum(row["amount_cents"] for row in rows) == fee["amount_cents"]
    assert all(row["end_of_period_dt"] == row["start_of_period_dt"] for row in rows)
    weeks = days(usage(box, time_granularity="weekly", from_date="2024-01-01", to_date="2024-02-04"))
    assert weeks == {
        "2024-01-01": (7, 900),
        "2024-01-08": (8, 535),
        "2024-01-29": (5, 185 + 200),
    }
    (month,) = usage(box, time_granularity="monthly", from_date="2024-01-01", to_date="2024-01-31")
    assert (month["units"], month["amount_cents"]) == ("20.0", fee["amount_cents"])
    # The part of a month, and what is named by it.
    (part,) = usage(box, time_granularity="monthly", from_date="2024-01-04", to_date="2024-01-10")
    assert (part["start_of_period_dt"], part["end_of_period_dt"], part["amount_cents"]) == (
        "2024-01-04",
        "2024-01-10",
        535,
    )


@pytest.mark.now("2024-01-01T00:00:00Z")
def test_days_are_those_of_the_customer(box: Scenario) -> None:
    box.customer(timezone="Pacific/Auckland")
    box.plan(charge_on(box.metric("calls"), amount="1"))
    box.subscribe()
    box.jump_to("2024-01-10T12:00:00Z")  # the 11th in Auckland
    box.event("calls", value=3)
    box.travel_to("2024-02-02T00:00:00Z")
    assert days(usage(box, from_date="2024-01-01", to_date="2024-02-02")) == {"2024-01-11": (3, 300)}
    (month,) = usage(box, time_granularity="monthly", from_date="2024-01-01", to_date="2024-01-31")
    assert month["amount_cents"] == 300


@pytest.mark.now("2024-01-01T00:00:00Z")
def test_what_is_charged_in_advance_counts_on_its_day_and_once(box: Scenario) -> None:
    box.customer()
    for code, invoiceable in (("calls", False), ("mails", True)):
        box.plan(charge_on(box.metric(code), amount="1", pay_in_advance=True, invoiceable=invoiceable), code=code)
        box.subscribe(plan=code, external_id=code)
    box.jump_to("2024-01-10T12:00:00Z")
    for code in ("calls", "mails"):
        box.event(code, external_id=code, value=3)
    box.travel_to("2024-02-02T00:00:00Z")
    rows = usage(box, from_date="2024-01-01", to_date="2024-02-02")
    assert [(row["billable_metric_code"], row["start_of_period_dt"], row["amount_cents"]) for row in rows] == [
        ("calls", "2024-01-10", 3 * 100),
        ("mails", "2024-01-10", 3 * 100),
    ]


@pytest.mark.now("2024-01-01T00:00:00Z")
def test_progressive_billing_minimums_and_voids_count_nothing_twice(box: Scenario) -> None:
    box.customer()
    charge = charge_on(box.metric("calls"), amount="1", min_amount_cents=5000)
    box.plan(charge, usage_thresholds=[{"amount_cents": 1000}])
    box.subscribe()
    box.jump_to("2024-01-10T12:00:00Z")
    box.event("calls", value=12)
    box.travel_to("2024-02-02T00:00:00Z")
    assert Counter(invoice["invoice_type"] for invoice in box.invoices()) == {
        "subscription": 1,
        "progressive_billing": 1,
    }
    assert days(usage(box, from_date="2024-01-01", to_date="2024-01-31")) == {"2024-01-10": (12, 1200)}


@pytest.mark.now("2024-01-20T12:00:00Z")
def test_filters_narrow_usage(box: Scenario) -> None:
    box.customer(country="DE", customer_type="company")
    box.customer("other", currency="USD", country="FR", customer_type="individual")
    recurring = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(charge_on(box.metric("calls"), amount="1"), charge_on(recurring, amount="2"))
    box.plan(charge_on(box.metric("mails"), amount="3"), code="dollars", amount_currency="USD")
    box.subscribe()
    box.subscribe(plan="dollars", external_id="sub2", customer="other")
    box.event("calls", value=1)
    box.event("seats", value="a")
    box.event("mails", "sub2", value=1)
    expected = {
        "": {"calls", "seats", "mails"},
        "currency=usd": {"mails"},
        "external_customer_id=acme": {"calls", "seats"},
        "external_customer_id=nobody": set(),
        "external_subscription_id=sub2": {"mails"},
        "customer_type=individual": {"mails"},
        "customer_country=de": {"calls", "seats"},
        "is_billable_metric_recurring=true": {"seats"},
        "is_billable_metric_recurring=false": {"calls", "mails"},
        "plan_code=basic": {"calls", "seats"},
        "billable_metric_code=calls": {"calls"},
        "time_granularity=monthly&billable_metric_code=mails": {"mails"},
        "from_date=2024-01-01&to_date=2024-01-19": set(),
    }
    for when in ("running", "billed"):
        for query, codes in expected.items():
            extra = query if when == "running" else f"{query}&from_date=2024-01-01&to_date=2024-01-31"
            if when == "billed" and "from_date" in query:
                continue
            rows = box.get(f"/analytics/usage?{extra}")["usages"]
            assert {row["billable_metric_code"] for row in rows} == codes, (when, query)
        box.travel_to("2024-02-03T00:00:00Z")
    box.delete("/billable_metrics/mails")
    rows = usage(box, from_date="2024-01-01", to_date="2024-01-31", currency="USD")
    assert [(row["is_billable_metric_deleted"], row["amount_cents"]) for row in rows] == [(True, 300)]


@pytest.mark.now("2024-01-20T12:00:00Z")
def test_dates_that_make_no_sense_are_refused(box: Scenario) -> None:
    for query, field in (
        ("from_date=soon", "from_date"),
        ("to_date=2024-13-01", "to_date"),
        ("from_date=2024-02-01&to_date=2024-01-01", "to_date"),
        ("from_date=2020-01-01", "from_date"),
        ("from_date=1900-01-01&to_date=9000-12-31&time_granularity=monthly", "from_date"),
        ("from_date=0001-01-01&to_date=9999-12-31&time_granularity=monthly", "to_date"),
        ("time_granularity=hourly", "time_granularity"),
    ):
        assert list(box.get(f"/analytics/usage?{query}", status=422)["error_details"]) == [field]


MODELS: list[tuple[str, dict[str, Any]]] = [
    ("standard", {"amount": "0.333"}),
    ("graduated", GRADUATED),
    ("package", {"amount": "1.5", "package_size": 7, "free_units": 2}),
    ("percentage", {"rate": "3.3", "fixed_amount": "0.1"}),
    ("volume", {"volume_ranges": price_ranges((0, 20, "1", "0"), (21, None, "0.5", "1"))}),
]
METRICS = ["sum_agg", "count_agg", "max_agg", "unique_count_agg", "latest_agg"]


@examples(15, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(MODELS),
    aggregation=st.sampled_from(METRICS),
    zone=st.sampled_from(["UTC", "America/Los_Angeles", "Pacific/Auckland"]),
    events=st.lists(st.tuples(st.integers(0, 55 * 24), st.integers(0, 30)), max_size=8),
    granularity=st.sampled_from(["daily", "weekly", "monthly"]),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
)
def test_periods_add_up_to_the_fees_of_invoices_and_to_current_usage(
    model: tuple[str, dict[str, Any]],
    aggregation: str,
    zone: str,
    events: list[tuple[int, int]],
    granularity: str,
    billing_time: str,
) -> None:
    if aggregation == "latest_agg" and model[0] == "percentage":
        aggregation = "sum_agg"
    start = datetime(2024, 1, 9, tzinfo=UTC)
    with Scenario(now=start) as box:
        box.customer(timezone=zone)
        box.plan(charge_on(box.metric("calls", aggregation), model[0], **model[1]))
        box.subscribe(billing_time=billing_time)
        for hours, value in sorted(events):
            box.travel_to(start + timedelta(hours=hours, minutes=7))
            box.event("calls", value=value)
        box.travel_to(start + timedelta(days=57))
        billed = [
            fee
            for invoice in box.invoices()
            for fee in fees_of(box.get(f"/invoices/{invoice['svc_id']}")["invoice"], "charge")
        ]
        (current,) = box.get("/customers/acme/current_usage?external_subscription_id=sub")["customer_usage"][
            "charges_usage"
        ]
        rows = usage(box, time_granularity=granularity, from_date="2024-01-01", to_date="2024-03-31")
        assert sum(row["amount_cents"] for row in rows) == current["amount_cents"] + sum(
            fee["amount_cents"] for fee in billed
        )
        assert sum(Decimal(row["units"]) for row in rows) == Decimal(current["units"]) + sum(
            Decimal(fee["units"]) for fee in billed
        )


@pytest.mark.now("2024-01-01T00:00:00Z")
@pytest.mark.parametrize("kind", ["sum_agg", "max_agg", "unique_count_agg", "latest_agg", "weighted_sum_agg"])
def test_days_without_events_are_what_they_would_be_if_each_was_counted(
    box: Scenario, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.customer(timezone="America/New_York")
    weighted = {"weighted_interval": "seconds"} if kind == "weighted_sum_agg" else {}
    metric = box.metric("calls", aggregation_type=kind, **weighted)
    box.plan(charge_on(metric, "graduated", **GRADUATED), charge_on(box.metric("others"), "standard", amount="1"))
    box.subscribe()
    for time, code, value in (("02T03:00", "calls", 7), ("02T23:30", "calls", 9), ("14T04:59", "others", 1)):
        box.jump_to(f"2024-01-{time}:00Z")
        box.event(code, value=value)
    box.jump_to("2024-01-25T00:00:00Z")
    known = usage(box, from_date="2024-01-01", to_date="2024-01-25")
    assert sum(row["amount_cents"] for row in known) > 0
    monkeypatch.setattr(analytics_usage, "_MOST_COUNTED", 0)
    assert usage(box, from_date="2024-01-01", to_date="2024-01-25") == known
