"""When usage is invoiced before its period ends."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usagebill.core.plans import UsageThreshold
from usagebill.core.progressive_billing import completions, passed_thresholds

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def thresholds(*fixed: int, recurring: int | None = None) -> list[UsageThreshold]:
    amounts = [(amount, False) for amount in fixed] + ([(recurring, True)] if recurring else [])
    return [
        UsageThreshold(id=str(amount), amount_cents=amount, recurring=again, created_at=NOW, updated_at=NOW)
        for amount, again in amounts
    ]


FIXED = (10, 20, 31, 40)


@pytest.mark.parametrize(
    ("recurring", "invoiced", "current", "billed", "passed"),
    [
        (None, 0, 31, 0, [10, 20, 31]),
        (None, 9, 2, 0, [10]),
        (None, 21, 20, 0, [31, 40]),
        (None, 40, 2, 0, []),
        (5, 0, 45, 0, [10, 20, 31, 40, 5]),
        (5, 41, 4, 0, [5]),
        (5, 50, 0, 0, []),
        (None, 0, 31, 10, [20, 31]),
        (None, 11, 20, 10, [31]),
        (None, 0, 7, 10, []),
    ],
)
def test_thresholds_are_passed_once(
    recurring: int | None, invoiced: int, current: int, billed: int, passed: list[int]
) -> None:
    found = passed_thresholds(
        thresholds(*FIXED, recurring=recurring), invoiced_cents=invoiced, current_cents=current, billed_cents=billed
    )
    assert [one.amount_cents for one in found] == passed


@pytest.mark.parametrize(("invoiced", "current", "passed"), [(11, 8, []), (11, 9, [10]), (202, 8, [10])])
def test_a_recurring_threshold_goes_on_from_what_was_invoiced(invoiced: int, current: int, passed: list[int]) -> None:
    found = passed_thresholds(thresholds(recurring=10), invoiced_cents=invoiced, current_cents=current, billed_cents=0)
    assert [one.amount_cents for one in found] == passed


def shown(total: int, *fixed: int, recurring: int | None = None) -> list[tuple[int, Decimal]]:
    return [
        (one.amount_cents, one.ratio) for one in completions(thresholds(*fixed, recurring=recurring), total, {}, NOW)
    ]


def test_completion_is_counted_from_the_threshold_before() -> None:
    assert shown(23, 100) == [(100, Decimal("0.23"))]
    assert shown(120, 100, 200) == [(100, Decimal(1)), (200, Decimal("0.2"))]
    assert shown(120, 100, recurring=200) == [(100, Decimal(1)), (300, Decimal("0.1"))]
    assert shown(723, 100, recurring=200) == [
        (100, Decimal(1)),
        (300, Decimal(1)),
        (500, Decimal(1)),
        (700, Decimal(1)),
        (900, Decimal("0.115")),
    ]


@given(
    st.lists(st.integers(1, 500), max_size=4, unique=True),
    st.one_of(st.none(), st.integers(1, 300)),
    st.lists(st.integers(0, 400), min_size=1, max_size=12),
)
def test_growing_usage_passes_each_fixed_threshold_once(
    fixed: list[int], recurring: int | None, steps: list[int]
) -> None:
    listed = thresholds(*fixed, recurring=recurring)
    seen: list[int] = []
    usage = billed = 0
    for step in steps:
        usage += step
        passed = passed_thresholds(listed, invoiced_cents=0, current_cents=usage, billed_cents=billed)
        if passed:
            billed = usage
        seen += [one.amount_cents for one in passed if not one.recurring]
    assert seen == sorted(amount for amount in fixed if amount <= usage)


@given(
    st.lists(st.integers(1, 500), max_size=4, unique=True),
    st.one_of(st.none(), st.integers(1, 300)),
    st.integers(0, 3000),
)
def test_completion_ratios_fall_from_one_to_nothing(fixed: list[int], recurring: int | None, total: int) -> None:
    ratios = [ratio for _, ratio in shown(total, *fixed, recurring=recurring)]
    assert ratios == sorted(ratios, reverse=True)
    assert all(0 <= ratio <= 1 for ratio in ratios)
