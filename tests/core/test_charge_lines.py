"""The lines of usage charges: what a minimum adds, which lines stand, and what the plan after an upgrade bills."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, fee

from usagebill.core.aggregation import Window
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_lines import billed_by_next_plan, true_up_fee, with_true_up
from usagebill.core.fees import Fee
from usagebill.core.plans import AppliedPricingUnit, Charge, Plan, PlanDefinition


def charge(min_amount_cents: int = 0, **fields: Any) -> Charge:
    values: dict[str, Any] = {
        "id": "charge",
        "organization_id": "organization",
        "plan_id": "plan",
        "billable_metric_id": "metric",
        "code": "calls",
        "charge_model": "standard",
        "properties": {"amount": "1"},
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Charge(min_amount_cents=min_amount_cents, **values)


def days(used: int, of: int = 31) -> Window:
    """A window of so many days of a period of 31."""
    start = datetime(2024, 5, 1, tzinfo=UTC)
    return Window(start=start, end=start + timedelta(days=used, seconds=-1), period_days=of, tz=UTC)


def line(cents: int, id: str = "line", **fields: Any) -> Fee:
    return fee(cents, id=id, events_count=1, **fields)


def true_up(minimum: int, lines: list[Fee], used_days: int = 31, **fields: Any) -> Fee | None:
    return true_up_fee(charge(minimum, **fields), days(used_days), lines, id="added")


@pytest.mark.parametrize(
    ("minimum", "used", "used_days", "added"),
    [
        (3100, 1000, 31, 3100 - 1000),
        (3100, 0, 31, 3100),
        (3100, 3100, 31, None),
        (3100, 5000, 31, None),
        (0, 0, 31, None),
        (3100, 1000, 20, 3100 * 20 // 31 - 1000),
        (3100, 2000, 20, None),
    ],
)
def test_a_minimum_is_reached_for_the_days_billed(minimum: int, used: int, used_days: int, added: int | None) -> None:
    fee = true_up(minimum, [line(used)], used_days)
    assert (None if fee is None else fee.amount_cents) == added


def test_what_reaches_the_minimum_hangs_on_the_first_line_without_a_filter_and_counts_all_lines() -> None:
    lines = [line(300, "filtered", charge_filter_id="f"), line(200, "first"), line(100, "second")]
    added = true_up(1000, lines)
    assert added is not None
    assert (added.true_up_parent_fee_id, added.amount_cents, added.units) == ("first", 1000 - 600, 1)
    assert added.basis == {"minimum_cents": 1000, "days": 31, "period_days": 31, "used_cents": 600}
    assert (added.grouped_by, added.amount_details, added.events_count) == ({}, {}, 0)


def test_a_minimum_in_a_pricing_unit_counts_lines_in_that_unit_and_adds_what_is_missing_at_its_rate() -> None:
    unit = AppliedPricingUnit(pricing_unit_id="u", code="credits", short_name="CR", conversion_rate=Decimal("0.5"))
    # 4.00 credits of usage, and 1.00 that was set by hand in euros, which is 2.00 credits.
    priced = line(200, "priced", pricing_unit_details={"amount_cents": 400, "precise_amount_cents": "400"})
    by_hand = line(100, "by-hand")
    added = true_up(1000, [priced, by_hand], applied_pricing_unit=unit)
    assert added is not None
    assert added.amount_cents == (1000 - 400 - 200) // 2
    assert added.pricing_unit_details is not None
    assert added.pricing_unit_details["amount_cents"] == 1000 - 400 - 200


@given(st.integers(1, 10**9), st.lists(st.integers(0, 10**8), min_size=1, max_size=5), st.integers(1, 31))
def test_lines_and_what_is_added_come_to_the_minimum_or_more(minimum: int, cents: list[int], used_days: int) -> None:
    lines = [line(amount, f"l{place}") for place, amount in enumerate(cents)]
    added = true_up(minimum, lines, used_days)
    whole = sum(cents) + (0 if added is None else added.amount_cents)
    least = Decimal(minimum * used_days) / 31
    assert whole >= least - 1
    assert added is None or whole <= least + 1


def test_lines_of_nothing_are_left_out_but_for_the_one_that_reaches_the_minimum() -> None:
    used = line(500, "used")
    empty = replace(line(0, "empty"), units=Decimal(0), events_count=0)
    events_only = replace(line(0, "events"), units=Decimal(0), events_count=2)
    units_only = replace(line(0, "units"), units=Decimal(3), events_count=0)
    assert [line.id for line in with_true_up([empty, used, events_only, units_only], None)] == [
        "used",
        "events",
        "units",
    ]
    added = true_up(1000, [empty])
    parent, last = with_true_up([empty], added)
    assert (parent.id, parent.true_up_fee_id, last.true_up_parent_fee_id) == ("empty", "added", "empty")


METRIC = BillableMetric(
    id="metric",
    organization_id="organization",
    name="Seats",
    code="seats",
    aggregation_type="unique_count_agg",
    recurring=True,
    created_at=NOW,
    updated_at=NOW,
)


def plan(*metric_ids: str) -> PlanDefinition:
    owner = Plan(
        id="next",
        organization_id="organization",
        name="Next",
        code="next",
        interval="monthly",
        amount_cents=0,
        amount_currency="EUR",
        pay_in_advance=False,
        created_at=NOW,
        updated_at=NOW,
    )
    charges = tuple(charge(id=f"c-{id}", billable_metric_id=id) for id in metric_ids)
    return PlanDefinition(plan=owner, charges=charges, fixed_charges=(), metrics={}, add_ons={})


@pytest.mark.parametrize(
    ("metric", "fields", "upgraded", "next_plan", "expected"),
    [
        ({}, {}, True, plan("other", "metric"), True),
        ({}, {}, True, plan("other"), False),
        ({}, {}, True, None, False),
        ({}, {}, False, plan("metric"), False),
        ({"recurring": False}, {}, True, plan("metric"), False),
        ({"aggregation_type": "weighted_sum_agg"}, {}, True, plan("metric"), False),
        ({}, {"prorated": True}, True, plan("metric"), False),
    ],
)
def test_what_is_carried_over_whole_is_billed_by_the_plan_after_an_upgrade(
    metric: dict[str, Any], fields: dict[str, Any], upgraded: bool, next_plan: PlanDefinition | None, expected: bool
) -> None:
    window = replace(days(10), ended_by_upgrade=upgraded)
    assert billed_by_next_plan(charge(**fields), replace(METRIC, **metric), window, next_plan) is expected
