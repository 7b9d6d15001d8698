"""Which thresholds a value crosses on its way, in the worked examples and for values in any order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, strategies as st

from usagebill.core.alerts import (
    MOST_STEPS_LISTED,
    Alert,
    AlertThreshold,
    AlertType,
    Direction,
    UsageLine,
    clashes,
    crossed_thresholds,
    definition_errors,
    evaluated,
    has_started_again,
    threshold_errors,
    usage_value,
)

UP, DOWN = Direction.INCREASING, Direction.DECREASING
NOW = datetime(2024, 3, 5, tzinfo=UTC)


def thresholds(*once: int | str, every: int | str | None = None) -> tuple[AlertThreshold, ...]:
    steps = () if every is None else (AlertThreshold(value=Decimal(every), recurring=True),)
    return (*(AlertThreshold(value=Decimal(value)) for value in once), *steps)


def crossed(watched: tuple[AlertThreshold, ...], direction: Direction, p: object, c: object) -> list[int]:
    crossing = crossed_thresholds(watched, direction, Decimal(str(p)), Decimal(str(c)))
    return [int(threshold.value) for threshold in crossing]


@pytest.mark.parametrize(
    ("watched", "p", "c", "expected"),
    [
        (thresholds(10, 30, 50, every=100), 33, 351, [50, 150, 250, 350]),
        (thresholds(10, 30, 50, every=100), 8, 30, [10, 30]),
        (thresholds(10, 30, 50, every=100), 31, 60, [50]),
        (thresholds(10, 30, 50, every=100), 30, 29, []),
        (thresholds(10, 20, every=35), 4, 22, [10, 20]),
        (thresholds(10, 20, every=35), 4, 161, [10, 20, 55, 90, 125, 160]),
        (thresholds(10, 20, every=35), 4, 5, []),
        (thresholds(1500, 3000, every=1000), 0, 3500, [1500, 3000]),
        (thresholds(1500, 3000, every=1000), 3500, 5500, [4000, 5000]),
        (thresholds(every=1000), 0, 3500, [1000, 2000, 3000]),
        (thresholds(every=1000), 3500, 5500, [4000, 5000]),
        (thresholds(90), 89, 89, []),
        (thresholds(90), 89, 94, [90]),
    ],
)
def test_what_a_rise_crosses(watched: tuple[AlertThreshold, ...], p: int, c: int, expected: list[int]) -> None:
    assert crossed(watched, UP, p, c) == expected


@pytest.mark.parametrize(
    ("watched", "p", "c", "expected"),
    [
        (thresholds(200, 500, 800, every=100), 600, -100, [200, 500, -100, 0, 100]),
        (thresholds(200, 500, 800, every=100), 450, 100, [200, 100]),
        (thresholds(200, 500, 800, every=100), 1000, 500, [500, 800]),
        (thresholds(200, 500, 800, every=100), 700, 600, []),
        (thresholds(90, every=10), 95, 70, [90, 70, 80]),
        # 70 was reached before.
        (thresholds(90, every=10), 70, 50, [50, 60]),
        (thresholds(15, every=10), 20, 10, [15]),
        (thresholds(15, every=10), 10, 0, [5]),
        (thresholds(15, every=10), 0, -10, [-5]),
        (thresholds(every=100), 50, -150, [-100]),
        (thresholds(every=100), 1000, 250, []),
        (thresholds(8000, 5000, 2000), 9000, 7000, [8000]),
    ],
)
def test_what_a_fall_crosses(watched: tuple[AlertThreshold, ...], p: int, c: int, expected: list[int]) -> None:
    assert crossed(watched, DOWN, p, c) == expected


def test_a_threshold_says_which_it_is_however_often_it_recurs() -> None:
    watched = (
        AlertThreshold(value=Decimal(100), code="first"),
        AlertThreshold(value=Decimal(50), code="again", recurring=True),
    )
    crossing = crossed_thresholds(watched, UP, Decimal(0), Decimal(201))
    assert [(threshold.code, threshold.value, threshold.recurring) for threshold in crossing] == [
        ("first", 100, False),
        ("again", 150, True),
        ("again", 200, True),
    ]


def test_a_leap_past_countless_steps_lists_the_last_ones() -> None:
    crossing = crossed(thresholds(every="0.001"), UP, 0, 10**30)
    assert len(crossing) == MOST_STEPS_LISTED
    assert crossing[-1] == 10**30


def test_steps_of_many_digits_are_counted_exactly() -> None:
    tiny, before = Decimal("1e-30"), Decimal("6." + "9" * 30)
    (step,) = crossed_thresholds((AlertThreshold(value=tiny, recurring=True),), UP, before, Decimal(7))
    assert step.value == 7


def decimals(least: int, most: int) -> st.SearchStrategy[Decimal]:
    return st.decimals(least, most, places=1, allow_nan=False)


SETS = st.builds(
    lambda once, every: (
        *(AlertThreshold(value=value) for value in once),
        *([] if every is None else [AlertThreshold(value=every, recurring=True)]),
    ),
    st.lists(decimals(-60, 60), max_size=5, unique=True),
    st.none() | decimals(1, 40),
)


@given(SETS, st.sampled_from(Direction), st.lists(decimals(-200, 200), min_size=2, max_size=8))
def test_on_a_way_that_never_turns_each_threshold_rings_once_wherever_one_looks(
    watched: tuple[AlertThreshold, ...], direction: Direction, values: list[Decimal]
) -> None:
    way = sorted(values, reverse=direction is DOWN)
    rung = Counter(threshold for p, c in pairwise(way) for threshold in crossed_thresholds(watched, direction, p, c))
    assert rung == Counter(crossed_thresholds(watched, direction, way[0], way[-1]))
    assert max(rung.values(), default=1) == 1


@given(SETS, st.sampled_from(Direction), decimals(-200, 200), decimals(-200, 200), st.randoms())
def test_neither_the_order_of_thresholds_nor_the_way_back_matters(
    watched: tuple[AlertThreshold, ...], direction: Direction, p: Decimal, c: Decimal, random: Any
) -> None:
    shuffled = list(watched)
    random.shuffle(shuffled)
    crossing = crossed_thresholds(watched, direction, p, c)
    assert set(crossing) == set(crossed_thresholds(shuffled, direction, p, c))
    back = crossed_thresholds(watched, direction, c, p)
    assert not (crossing and back)


@given(SETS, decimals(-200, 200), decimals(-200, 200))
@example((AlertThreshold(value=Decimal(10), recurring=True),), Decimal(10), Decimal(20))
def test_a_rise_crosses_what_lies_between_and_nothing_else(
    watched: tuple[AlertThreshold, ...], p: Decimal, c: Decimal
) -> None:
    assume(p <= c)
    once = [threshold for threshold in watched if not threshold.recurring]
    every = next((threshold for threshold in watched if threshold.recurring), None)
    expected = [threshold.value for threshold in once]
    if every is not None:
        base = max((threshold.value for threshold in once), default=Decimal(0))
        expected += [base + number * every.value for number in range(1, 500)]
    values = [threshold.value for threshold in crossed_thresholds(watched, UP, p, c)]
    assert values == [value for value in expected if p < value <= c]


@given(SETS, decimals(-200, 200), decimals(-200, 200))
def test_a_fall_is_a_rise_seen_from_the_other_side(watched: tuple[AlertThreshold, ...], p: Decimal, c: Decimal) -> None:
    mirrored = tuple(
        threshold if threshold.recurring else AlertThreshold(value=-threshold.value, code=threshold.code)
        for threshold in watched
    )
    up = crossed_thresholds(mirrored, UP, -p, -c)
    assert {-threshold.value for threshold in up} == {
        threshold.value for threshold in crossed_thresholds(watched, DOWN, p, c)
    }


def alert(**fields: Any) -> Alert:
    identity = {"id": "a", "organization_id": "o", "customer_id": "c", "created_at": NOW, "updated_at": NOW}
    known = {"alert_type": AlertType.CURRENT_USAGE_AMOUNT, "code": "usage", "thresholds": thresholds(10, 20, 40)}
    return Alert(**{**identity, **known, **fields})


@pytest.mark.parametrize(
    ("opening", "value", "rung"),
    [
        # Usage goes on, starts again from nothing, starts again from what was carried over.
        (None, 25, []),
        (0, 25, [10, 20]),
        (0, 15, [10]),
        (12, 25, [20]),
        (25, 25, []),
        # What starts higher than it ended has crossed what lies between.
        (60, 60, [40]),
    ],
)
def test_what_starts_again_rings_for_what_lies_beyond_its_start(
    opening: int | None, value: int, rung: list[int]
) -> None:
    seen, crossing = evaluated(
        alert(previous_value=Decimal(25)),
        Decimal(value),
        NOW,
        crossing_id="x",
        opening=None if opening is None else Decimal(opening),
    )
    assert (seen.previous_value, seen.last_processed_at) == (value, NOW)
    assert [threshold.value for threshold in crossing.thresholds] == rung if crossing else rung == []


def line(metric: str, cents: int, units: str) -> UsageLine:
    return UsageLine(billable_metric_id=metric, amount_cents=cents, units=Decimal(units))


def test_usage_of_a_metric_is_that_of_all_its_charges_together() -> None:
    lines = [line("api", 100, "1.5"), line("ops", 700, "7"), line("api", 250, "2")]
    metric = {"billable_metric_id": "api"}
    assert usage_value(alert(), lines) == 1050
    assert usage_value(alert(alert_type=AlertType.METRIC_CURRENT_USAGE_AMOUNT, **metric), lines) == 350
    assert usage_value(alert(alert_type=AlertType.METRIC_CURRENT_USAGE_UNITS, **metric), lines) == Decimal("3.5")
    assert usage_value(alert(alert_type=AlertType.METRIC_CURRENT_USAGE_UNITS, **metric), lines[1:2]) is None


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        ([{"value": number} for number in range(21)], {"thresholds": ["too_many_thresholds"]}),
        ([{"value": number} for number in range(20)], {}),
        ([{"value": 5}, {"value": "5.0"}], {"thresholds": ["duplicate_threshold_values"]}),
        ([{"value": 5}, {"value": 5, "recurring": True}], {}),
        ([{"value": 5}, {"code": "x"}], {"thresholds:value": ["value_is_mandatory"]}),
        ([{"value": "abc"}], {"thresholds:value": ["value_is_invalid"]}),
        ([{"value": True}], {"thresholds:value": ["value_is_invalid"]}),
        ([{"value": [5]}], {"thresholds:value": ["value_is_invalid"]}),
        ([{"value": 10**31}], {"thresholds:value": ["value_is_out_of_range"]}),
        ([{"value": "1e-31"}], {"thresholds:value": ["value_is_out_of_range"]}),
        ([{"value": 0, "recurring": True}], {"thresholds:value": ["recurring_value_is_negative"]}),
        ([{"value": -1}], {}),
        (
            [{"value": 1, "recurring": True}, {"value": 2, "recurring": True}],
            {"thresholds": ["multiple_recurring_thresholds"]},
        ),
    ],
)
def test_thresholds_that_make_no_sense(sent: list[dict[str, object]], errors: dict[str, list[str]]) -> None:
    assert threshold_errors(sent) == errors


@pytest.mark.parametrize(
    ("other", "errors"),
    [
        ({"code": "other", "alert_type": AlertType.LIFETIME_USAGE_AMOUNT}, {}),
        ({"code": "mine", "alert_type": AlertType.LIFETIME_USAGE_AMOUNT}, {"code": ["value_already_exist"]}),
        ({"code": "other"}, {"base": ["alert_already_exists"]}),
        # Of each metric there may be one.
        ({"code": "other", "billable_metric_id": "storage"}, {}),
        ({"code": "mine"}, {"code": ["value_already_exist"], "base": ["alert_already_exists"]}),
    ],
)
def test_which_alerts_of_one_owner_exclude_each_other(other: dict[str, Any], errors: dict[str, list[str]]) -> None:
    watched = {"alert_type": AlertType.METRIC_CURRENT_USAGE_UNITS, "billable_metric_id": "api"}
    mine = alert(code="mine", **watched)
    assert clashes(mine, [alert(**{**watched, **other})]) == errors


def test_an_alert_needs_a_code_and_the_metric_that_its_type_watches() -> None:
    assert definition_errors(alert(code="", billable_metric_id="api")) == {
        "code": ["value_is_mandatory"],
        "billable_metric": ["value_must_be_blank"],
    }
    assert definition_errors(alert(alert_type=AlertType.METRIC_CURRENT_USAGE_UNITS)) == {
        "billable_metric": ["value_is_mandatory"]
    }


@pytest.mark.parametrize(
    ("alert_type", "checked", "measured_from", "subscription_id", "has_started"),
    [
        ("current_usage_amount", False, NOW, "other", False),
        ("current_usage_amount", True, NOW, "same", False),
        ("current_usage_amount", True, NOW - timedelta(days=31), "same", True),
        # A plan that changes minutes after midnight takes over the period that began with the day.
        ("current_usage_amount", True, NOW, "other", False),
        ("lifetime_usage_amount", True, NOW - timedelta(days=31), "other", False),
        ("billable_metric_lifetime_usage_units", True, NOW - timedelta(days=31), "same", False),
        ("billable_metric_lifetime_usage_units", True, NOW, "other", True),
    ],
)
def test_usage_starts_again_with_a_period_and_carried_usage_with_a_subscription(
    alert_type: str, checked: bool, measured_from: datetime, subscription_id: str, has_started: bool
) -> None:
    watching = alert(
        alert_type=alert_type,
        last_processed_at=NOW if checked else None,
        measured_from=measured_from,
        measured_subscription_id="same",
    )
    assert has_started_again(watching, subscription_id, NOW) is has_started
