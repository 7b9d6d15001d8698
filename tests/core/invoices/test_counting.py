"""How events become units, told step by step: the last step is what was billed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from usagebill.core.aggregation import Metric, Window, usage
from usagebill.core.events import Event
from usagebill.core.invoices.counting import MOST_TERMS, counting, pricing
from usagebill.core.pricing import parse_properties, price

START = datetime(2024, 1, 10, 8, tzinfo=UTC)
END = datetime(2024, 1, 31, 23, 59, 59, 999999, tzinfo=UTC)
WINDOW = Window(start=START, end=END, period_days=31, tz=UTC)


def metric(aggregation_type: str, **fields: Any) -> Metric:
    shown = {"field_name": "v", "recurring": False, "rounding_function": None, "rounding_precision": None, **fields}
    return SimpleNamespace(aggregation_type=aggregation_type, **shown)


def event(name: str, day: float, value: str | int, **properties: str) -> Event:
    at = START + timedelta(days=day)
    return Event(
        id=name,
        organization_id="o",
        transaction_id=name,
        external_subscription_id="s",
        code="c",
        timestamp=at,
        created_at=at,
        precise_total_amount_cents=None,
        properties={"v": value, **properties},
    )


THREE = [event("a", 1, "3"), event("b", 2, "4.5"), event("c", 10, "6")]


@pytest.mark.parametrize(
    ("aggregation_type", "fields", "prorated", "lines"),
    [
        ("count_agg", {}, False, ["number of events: 3"]),
        ("sum_agg", {}, False, ["sum of v: 3.0 + 4.5 + 6.0 = 13.5"]),
        (
            "sum_agg",
            {"rounding_function": "ceil"},
            False,
            ["sum of v: 3.0 + 4.5 + 6.0 = 13.5", "ceil to 0 decimals"],
        ),
        ("max_agg", {}, False, ["largest v of 3 events: 6.0"]),
        ("latest_agg", {}, False, ["latest v of 3 events, that of c: 6.0"]),
        ("unique_count_agg", {}, False, ["distinct values of v: 3, 4.5, 6", "number of them: 3"]),
        (
            "sum_agg",
            {"recurring": True},
            True,
            [
                "from before the period: 0.0 x 22 / 31 days",
                "3.0 x 21 / 31 days",
                "4.5 x 20 / 31 days",
                "6.0 x 12 / 31 days",
                "sum, rounded up to 5 decimals: 7.25807 prorated units",
            ],
        ),
        (
            "unique_count_agg",
            {"recurring": True},
            True,
            [
                "3: 21 / 31 days",
                "4.5: 20 / 31 days",
                "6: 12 / 31 days",
                "sum, rounded up to 5 decimals: 1.70968 prorated units",
            ],
        ),
    ],
)
def test_each_aggregation(aggregation_type: str, fields: dict[str, Any], prorated: bool, lines: list[str]) -> None:
    assert list(counting(metric(aggregation_type, **fields), THREE, WINDOW, is_prorated=prorated)) == lines


def test_what_was_carried_over_is_told_apart() -> None:
    recurring = metric("sum_agg", recurring=True)
    lines = counting(recurring, [event("before", -5, "10"), *THREE], WINDOW, is_prorated=False)
    assert lines == ("sum of all events: from before the period 10.0 + 3.0 + 4.5 + 6.0 = 23.5",)


def test_a_level_is_held_for_seconds() -> None:
    weighted = metric("weighted_sum_agg", recurring=True)
    lines = counting(weighted, [event("a", 1, "3")], WINDOW, is_prorated=False, initial_level=Decimal(2))
    assert lines == (
        "level of 2.0 from 2024-01-10T08:00:00+00:00 on: x 86400.0 seconds",
        "level of 5.0 from 2024-01-11T08:00:00+00:00 on: x 1785600.0 seconds",
        "sum 9100800.0 / (31 x 86400 seconds), the period, rounded up",
    )
    counted = usage(weighted, [event("a", 1, "3")], WINDOW, initial_level=Decimal(2))
    assert round(counted.units, 10) == round(Decimal(9100800) / (31 * 86400), 10)


def test_a_removed_value_is_not_counted() -> None:
    events = [*THREE, event("d", 11, "6", operation_type="remove")]
    lines = counting(metric("unique_count_agg"), events, WINDOW, is_prorated=False)
    assert lines == ("distinct values of v: 3, 4.5", "number of them: 2")


def test_of_many_events_the_rest_is_added_up() -> None:
    events = [event(f"e{place:04d}", place / 100, 1) for place in range(MOST_TERMS + 20)]
    (line,) = counting(metric("sum_agg"), events, WINDOW, is_prorated=False)
    assert line.endswith(f"+ 20.0 (20 more) = {MOST_TERMS + 20}.0")


RANGES = [
    {"from_value": 0, "to_value": 10, "per_unit_amount": "1", "flat_amount": "2"},
    {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "1"},
]


@pytest.mark.parametrize(
    ("model", "properties", "last"),
    [
        ("standard", {"amount": "5"}, "7.25807 prorated units x 5.0 = 36.29035"),
        (
            "graduated",
            {"graduated_ranges": RANGES},
            "sum 6.580645161290323 + flat amounts of the ranges reached 3.0",
        ),
        (
            "volume",
            {"volume_ranges": RANGES},
            "13.5 full units choose the range: 7.25807 prorated units x 0.5 + flat amount of 1.0",
        ),
    ],
)
def test_a_prorated_quantity_is_priced(model: str, properties: dict[str, Any], last: str) -> None:
    counted = usage(metric("sum_agg", recurring=True), THREE, WINDOW, is_prorated=True)
    assert pricing(parse_properties(model, properties, subunits=100), counted)[-1] == last


def test_events_with_bounds_are_priced_by_themselves() -> None:
    terms = {"rate": "10", "fixed_amount": "0.2", "per_transaction_min_amount": "0.6"}
    counted = usage(metric("sum_agg"), THREE, WINDOW, with_event_values=True)
    lines = pricing(parse_properties("percentage", terms, subunits=100), counted)
    assert lines[0] == "event of 3.0: 3.0 x 10.0 % + 0.2, at least of 0.6: 0.6"
    assert lines[-1] == "events that are not free, each by itself: 2.05"


_STEPS = st.lists(
    st.tuples(st.integers(-40, 21), st.decimals("-20", "50", places=2)),
    min_size=1,
    max_size=8,
    unique_by=lambda e: e[0],
)


@given(_STEPS)
def test_the_prorated_terms_add_up_to_the_units(steps: list[tuple[int, Decimal]]) -> None:
    recurring = metric("sum_agg", recurring=True)
    events = [event(f"e{day}", day, str(value)) for day, value in steps]
    *terms, last = counting(recurring, events, WINDOW, is_prorated=True)
    numbers = [re.search(r"(-?[\d.]+) x (\d+) / (\d+) days", term) for term in terms]
    whole = sum(Decimal(number[1]) * int(number[2]) / int(number[3]) for number in numbers if number is not None)
    units = usage(recurring, events, WINDOW, is_prorated=True).units
    assert f"{units.normalize():f}" in last
    assert 0 <= units - whole + Decimal("1e-15") < Decimal("0.00002")


@given(_STEPS)
def test_slices_and_flat_amounts_make_the_price(steps: list[tuple[int, Decimal]]) -> None:
    events = [event(f"e{day}", day, str(value)) for day, value in steps]
    counted = usage(metric("sum_agg", recurring=True), events, WINDOW, is_prorated=True)
    properties = parse_properties("graduated", {"graduated_ranges": RANGES}, subunits=100)
    amount = price("graduated", properties, counted).amount
    shown = re.search(r"sum (-?[\d.]+) \+ .* (-?[\d.]+)$", pricing(properties, counted)[-1])
    if shown is not None and amount > 0 and not counted.units.is_zero():
        assert abs(max(Decimal(shown[1]), Decimal(0)) + Decimal(shown[2]) - amount) < Decimal("1e-12")
