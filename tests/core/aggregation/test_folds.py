from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.aggregation import AGGREGATIONS, AggregateResult, Aggregation, Running, Window, fold, fold_events
from usagebill.core.aggregation.count import Count
from usagebill.core.aggregation.custom import Custom
from usagebill.core.aggregation.latest import Latest
from usagebill.core.aggregation.max import Max
from usagebill.core.aggregation.sum import Sum
from usagebill.core.aggregation.unique_count import UniqueCount
from usagebill.core.aggregation.weighted_sum import Changes, WeightedSum, quotient, weighed
from usagebill.core.events import Event, JsonValue

D = Decimal
AUGUST = datetime(2023, 8, 1, tzinfo=UTC)
WINDOW = Window(start=AUGUST, end=datetime(2023, 8, 31, 23, 59, 59, 999_999, tzinfo=UTC), period_days=31, tz=UTC)


def event(
    number: int,
    value: JsonValue = None,
    *,
    at: datetime = AUGUST,
    operation: JsonValue = None,
    cents: str | None = None,
) -> Event:
    return stored_event(
        f"{number:04}",
        {"value": value, "operation_type": operation},
        at=at,
        precise_total_amount_cents=None if cents is None else D(cents),
        created_at=AUGUST,
    )


def events(*values: JsonValue) -> list[Event]:
    return [event(number, value, at=AUGUST + timedelta(hours=number)) for number, value in enumerate(values)]


def tally(aggregation_type: str, of: Iterable[Event]) -> AggregateResult:
    return fold(aggregation_type, of, field_name="value", window=WINDOW)


class TestNoEvents:
    @pytest.mark.parametrize("aggregation_type", AGGREGATIONS)
    def test_no_event_is_no_usage(self, aggregation_type: str) -> None:
        nothing = tally(aggregation_type, [])
        assert (nothing.units, nothing.events_count, nothing.amount_cents) == (0, 0, 0)


class TestCount:
    def test_every_event_counts_whatever_it_holds(self) -> None:
        assert tally("count_agg", events("12", "foo", None)) == AggregateResult(units=D(3), events_count=3)


class TestSum:
    def test_events_without_a_number_do_not_count(self) -> None:
        assert tally("sum_agg", events(12, 12, "12", 12, "foo_bar", None)) == AggregateResult(
            units=D(48), events_count=4
        )

    def test_prices_of_counted_events_add_up(self) -> None:
        priced = [event(1, 10, cents="10.1"), event(2, 10, cents="901.9"), event(3, "foo", cents="5"), event(4, 0)]
        assert tally("sum_agg", priced).amount_cents == D("912.0")

    @given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=15, min_value=-(10**9), max_value=10**9)))
    def test_it_is_exact(self, values: list[Decimal]) -> None:
        scale = 10**15
        assert tally("sum_agg", events(*values)).units * scale == sum(int(value * scale) for value in values)


class TestMax:
    def test_the_largest_may_be_negative(self) -> None:
        assert tally("max_agg", events(-5, "-3", "foo", -9)) == AggregateResult(units=D(-3), events_count=3)


class TestLatest:
    def test_a_negative_last_value_is_zero(self) -> None:
        assert tally("latest_agg", events(4, 7, -5)).units == 0

    def test_of_one_timestamp_the_last_received_wins(self) -> None:
        assert tally("latest_agg", [event(2, 7), event(1, 4), event(0, "foo")]) == AggregateResult(
            units=D(7), events_count=2
        )


class TestUniqueCount:
    def test_values_stay_until_removed(self) -> None:
        at = AUGUST
        history = [
            event(1, "a", at=at),
            event(2, "b", at=at + timedelta(days=1), operation="add"),
            event(3, "a", at=at + timedelta(days=2), operation="remove"),
            event(4, "b", at=at + timedelta(days=3)),
        ]
        assert tally("unique_count_agg", history) == AggregateResult(units=D(1), events_count=1)

    def test_a_removal_of_what_is_not_there_changes_nothing(self) -> None:
        assert tally("unique_count_agg", [event(1, "a", operation="remove")]).units == 0

    def test_numbers_and_texts_of_one_form_are_one_value(self) -> None:
        assert tally("unique_count_agg", events(1, "1", D(1))).units == 1

    def test_events_without_the_property_or_with_another_operation_are_ignored(self) -> None:
        ignored = [event(1), event(2, "a", operation="replace"), event(3, "b", operation="")]
        assert tally("unique_count_agg", ignored).units == 0


class TestWeightedSum:
    def test_a_level_counts_for_the_time_it_is_held(self) -> None:
        minutes = ((0, 2), (60, 3), (90, 1), (120, -4), (240, -2), (300, 10), (330, -10))
        changes = [
            event(number, value, at=AUGUST + timedelta(minutes=minute))
            for number, (minute, value) in enumerate(minutes)
        ]
        weighted = tally("weighted_sum_agg", changes)
        assert round(weighted.units, 5) == D("0.02218")
        assert (weighted.events_count, weighted.level) == (7, 0)
        assert weighted.last_at == AUGUST + timedelta(hours=5, minutes=30)
        carried = fold("weighted_sum_agg", changes, field_name="value", window=WINDOW, initial_level=D(1000))
        assert round(carried.units, 5) == D("1000.02218")
        assert carried.level == 1000

    def test_a_level_set_during_the_month_and_lowered_in_the_next(self) -> None:
        march = Window(
            start=datetime(2023, 3, 5, tzinfo=UTC),
            end=datetime(2023, 3, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            period_days=31,
            tz=UTC,
        )
        april = Window(
            start=datetime(2023, 4, 1, tzinfo=UTC),
            end=datetime(2023, 4, 30, 23, 59, 59, 999_000, tzinfo=UTC),
            period_days=30,
            tz=UTC,
        )
        first = fold("weighted_sum_agg", [event(1, 2500, at=march.start)], field_name="value", window=march)
        assert (first.units, first.level) == (D("2177.4193548387096774"), 2500)
        lowered = [
            event(2, -2000, at=datetime(2023, 4, 4, tzinfo=UTC)),
            event(3, -200, at=datetime(2023, 4, 6, tzinfo=UTC)),
        ]
        assert first.level is not None
        second = fold("weighted_sum_agg", lowered, field_name="value", window=april, initial_level=first.level)
        assert (second.units, second.level) == (D("533.3333333333333333"), 300)

    def test_changes_of_one_instant_add_up(self) -> None:
        assert tally("weighted_sum_agg", [event(1, 3), event(2, 3)]) == AggregateResult(
            units=D(6), events_count=2, level=D(6), last_at=AUGUST
        )

    def test_a_level_below_zero(self) -> None:
        below = tally("weighted_sum_agg", [event(1, -10, at=datetime(2023, 8, 16, tzinfo=UTC))])
        assert (below.units, below.level) == (D("-5.1612903225806452"), -10)

    def test_a_change_at_the_very_end_counts_in_the_level_only(self) -> None:
        late = tally("weighted_sum_agg", [event(1, 5, at=WINDOW.end)])
        assert late.level == 5
        assert 0 < late.units < D("0.00001")

    def test_the_window_is_needed(self) -> None:
        with pytest.raises(ValueError, match="window"):
            fold("weighted_sum_agg", [], field_name="value")

    @pytest.mark.parametrize(
        ("month", "hours", "days"), [(9, 720, 30), (10, 31 * 24 + 1, 31), (3, 31 * 24 - 1, 31)], ids=str
    )
    def test_a_day_has_86_400_seconds_also_where_clocks_change(self, month: int, hours: int, days: int) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        start = datetime(2023, month, 1, tzinfo=berlin).astimezone(UTC)
        end = datetime(2023, month + 1, 1, tzinfo=berlin).astimezone(UTC) - timedelta(microseconds=1)
        window = Window(start=start, end=end, period_days=days, tz=berlin)
        held = fold("weighted_sum_agg", [], field_name="value", window=window, initial_level=D(50))
        # 50.07 in October and 49.93 in March.
        assert round(held.units, 10) == round(D(50) * hours / (days * 24), 10)

    @given(st.lists(st.integers(0, 31 * 86400), max_size=6), st.integers(-1000, 1000))
    def test_changes_that_cancel_at_once_leave_the_level(self, seconds: list[int], level: int) -> None:
        pairs = [
            event(2 * number + half, sign * 7, at=min(AUGUST + timedelta(seconds=second), WINDOW.end))
            for number, second in enumerate(seconds)
            for half, sign in enumerate((1, -1))
        ]
        weighted = fold("weighted_sum_agg", pairs, field_name="value", window=WINDOW, initial_level=D(level))
        assert (weighted.units, weighted.level) == (level, level)

    @given(numbers=st.lists(st.tuples(st.sampled_from(["1", "-2.50", "0.000", "9" * 20, "x"]), st.integers(0, 40))))
    def test_it_follows_from_the_changes_and_their_moments(self, numbers: list[tuple[str, int]]) -> None:
        """Engines tally these, with as many decimals as were sent."""
        changes = [
            event(number, value, at=AUGUST + timedelta(seconds=day * 66_666, microseconds=day))
            for number, (value, day) in enumerate(numbers)
        ]
        window = replace(WINDOW, start=AUGUST + timedelta(seconds=66_666, microseconds=1))
        tallied = Changes(field_name="value", start=window.start)
        tally = tallied.result(fold_events(tallied, changes))
        for level in (D(0), D("1.250")):
            result = weighed(tally, window, level)
            expected = fold("weighted_sum_agg", changes, field_name="value", window=window, initial_level=level)
            assert (result, str(result.units), str(result.level)) == (
                expected,
                str(expected.units),
                str(expected.level),
            )


class TestQuotient:
    @pytest.mark.parametrize(
        ("numerator", "denominator", "expected"),
        [
            (21, 31, "0.67741935483870967742"),
            (20, 30, "0.66666666666666666667"),
            (31, 21, "1.4761904761904762"),
            (1, 3, "0.33333333333333333333"),
            (0, 7, "0"),
            (-2, 3, "-0.66666666666666666667"),
        ],
    )
    def test_digits(self, numerator: int, denominator: int, expected: str) -> None:
        assert quotient(D(numerator), D(denominator)) == D(expected)


class TestCustom:
    def test_the_program_runs_in_order_of_time(self) -> None:
        def program(running: Running, event: Event) -> Running:
            return Running(units=running.units * 10 + int(event.id), amount_cents=running.amount_cents + 5)

        shuffled = [event(number, at=AUGUST + timedelta(hours=number)) for number in (3, 1, 2)]
        assert fold("custom_agg", shuffled, program=program) == AggregateResult(
            units=D(123), events_count=3, amount_cents=D(15)
        )


MINUTES = st.integers(0, 31 * 24 * 60 - 1)
HISTORIES = st.lists(
    st.tuples(
        MINUTES,
        st.one_of(st.integers(-5, 5), st.sampled_from(["1", "2.50", "a", "", "1e3", None, D("0.1")])),
        st.sampled_from([None, "add", "remove", "other"]),
        st.sampled_from([None, "0.5", "12"]),
    ),
    max_size=25,
).map(
    lambda rows: [
        event(number, value, at=AUGUST + timedelta(minutes=minute), operation=operation, cents=cents)
        for number, (minute, value, operation, cents) in enumerate(rows)
    ]
)
FOLDS: list[Aggregation[Any]] = [
    Count(),
    Sum(field_name="value"),
    Max(field_name="value"),
    Latest(field_name="value"),
    UniqueCount(field_name="value"),
    WeightedSum(field_name="value", start=WINDOW.start, end=WINDOW.end, period_days=31, initial=D(3)),
    Custom(program=lambda running, event: Running(units=running.units * 2 + len(event.id), amount_cents=running.units)),
]


@pytest.mark.parametrize("aggregation", FOLDS, ids=lambda aggregation: type(aggregation).__name__)
class TestEveryFold:
    @given(history=HISTORIES, seed=st.integers(0, 10**6))
    def test_the_order_of_arrival_does_not_matter(
        self, aggregation: Aggregation[Any], history: list[Event], seed: int
    ) -> None:
        shuffled = random.Random(seed).sample(history, len(history))
        whole = aggregation.result(fold_events(aggregation, history))
        assert aggregation.result(fold_events(aggregation, shuffled)) == whole

    @given(history=HISTORIES, cut=st.integers(0, 25), other=st.integers(0, 25))
    def test_parts_merge_to_the_whole(
        self, aggregation: Aggregation[Any], history: list[Event], cut: int, other: int
    ) -> None:
        first, second = sorted((cut, other))
        parts = [fold_events(aggregation, part) for part in (history[:first], history[first:second], history[second:])]
        whole = aggregation.result(fold_events(aggregation, history))
        left = aggregation.merge(aggregation.merge(parts[0], parts[1]), parts[2])
        right = aggregation.merge(parts[2], aggregation.merge(parts[1], parts[0]))
        assert aggregation.result(left) == aggregation.result(right) == whole

    @given(history=HISTORIES)
    def test_one_by_one_is_the_same_as_all_at_once(self, aggregation: Aggregation[Any], history: list[Event]) -> None:
        state = aggregation.empty()
        for event in history:
            state = aggregation.add(state, event)
        assert aggregation.result(state) == aggregation.result(fold_events(aggregation, history))


@given(HISTORIES)
def test_unique_values_are_those_whose_operations_alternate_to_added(history: list[Event]) -> None:
    active: set[str] = set()
    for event in sorted(history, key=lambda event: event.order):
        value, operation = event.properties["value"], event.properties["operation_type"]
        if value is None or operation == "other":
            continue
        if operation == "remove":
            active.discard(str(value))
        else:
            active.add(str(value))
    assert tally("unique_count_agg", history).units == len(active)


@given(HISTORIES)
def test_a_weighted_sum_is_the_area_under_its_level(history: list[Event]) -> None:
    numbers = [
        (event.timestamp, D(str(v)))
        for event in history
        if (v := event.properties["value"]) not in ("a", "", "1e3", None)
    ]
    seconds = D(0)
    for at, value in numbers:
        seconds += value * D((datetime(2023, 9, 1, tzinfo=UTC) - at) // timedelta(seconds=1))
    difference = tally("weighted_sum_agg", history).units - seconds / (31 * 86400)
    assert abs(difference) < D("1e-15")
