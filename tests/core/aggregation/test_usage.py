from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.aggregation import (
    Window,
    counts,
    event_values,
    in_scope,
    lacks_property,
    lower_bound,
    prorated_by_day,
    round_units,
    running_totals,
    usage,
)
from usagebill.core.days import stretches_of_days
from usagebill.core.events import Event, JsonValue
from usagebill.core.numbers import total

D = Decimal
MAY = datetime(2023, 5, 1, tzinfo=UTC)
DAYS = st.integers(-40, 30)
WINDOW = Window(start=MAY, end=datetime(2023, 5, 31, 23, 59, 59, 999_999, tzinfo=UTC), period_days=31, tz=UTC)


@dataclass(frozen=True)
class Metric:
    aggregation_type: str
    field_name: str | None = "value"
    recurring: bool = False
    rounding_function: str | None = None
    rounding_precision: int | None = None


def event(number: int, value: JsonValue, at: datetime = MAY, operation: str | None = None) -> Event:
    properties = {"value": value} if operation is None else {"value": value, "operation_type": operation}
    return stored_event(f"{number:04}", properties, at=at, created_at=MAY)


def dated(*values: JsonValue, first_day: int = 0) -> list[Event]:
    """One event a day, the first `first_day` days after (or before) the 1st of May."""
    return [event(number, value, MAY + timedelta(days=first_day + number)) for number, value in enumerate(values)]


class TestScope:
    HISTORY = (*dated(D("2.5"), D("2.5"), first_day=-40), *dated(12, 12, 12, 12, "foo_bar"))

    def test_a_metric_that_does_not_recur_sees_its_period(self) -> None:
        used = usage(Metric("sum_agg"), self.HISTORY, WINDOW)
        assert (used.units, used.events_count) == (48, 4)

    def test_a_recurring_sum_sees_all_history(self) -> None:
        used = usage(Metric("sum_agg", recurring=True), self.HISTORY, WINDOW)
        assert (used.units, used.events_count) == (53, 6)

    def test_a_recurring_unique_count_keeps_values_of_earlier_periods(self) -> None:
        values = [*dated("a", first_day=-30), *dated("b")]
        assert usage(Metric("unique_count_agg", recurring=True), values, WINDOW).units == 2
        assert usage(Metric("unique_count_agg"), values, WINDOW).units == 1

    def test_bounds_are_inclusive_and_the_start_is_cut_to_its_second(self) -> None:
        late_start = Window(start=MAY + timedelta(milliseconds=1600), end=WINDOW.end, period_days=31, tz=UTC)
        metric = Metric("count_agg")
        assert in_scope(metric, event(1, 1, MAY + timedelta(seconds=1)), late_start)
        assert not in_scope(metric, event(1, 1, MAY + timedelta(microseconds=999_999)), late_start)
        assert in_scope(metric, event(1, 1, WINDOW.end), WINDOW)
        assert not in_scope(metric, event(1, 1, WINDOW.end + timedelta(microseconds=1)), WINDOW)

    def test_only_recurring_sums_and_unique_counts_have_no_lower_bound(self) -> None:
        unbounded = {
            kind
            for kind in ("count_agg", "sum_agg", "max_agg", "latest_agg", "unique_count_agg", "weighted_sum_agg")
            if lower_bound(kind, recurring=True, start=MAY) is None
        }
        assert unbounded == {"sum_agg", "unique_count_agg"}
        assert lower_bound("sum_agg", recurring=False, start=MAY) == MAY


class TestRounding:
    @pytest.mark.parametrize(
        ("function", "precision", "expected"),
        [
            ("round", 2, "123.46"),
            ("round", None, "123"),
            ("round", -2, "100"),
            ("ceil", -2, "200"),
            ("floor", 2, "123.45"),
            ("ceil", 10**9, "123.456"),
            (None, 1, "123.456"),
        ],
    )
    def test_functions(self, function: str | None, precision: int | None, expected: str) -> None:
        metric = Metric("sum_agg", rounding_function=function, rounding_precision=precision)
        assert round_units(D("123.456"), metric) == D(expected)

    def test_it_follows_the_aggregation(self) -> None:
        metric = Metric("sum_agg", rounding_function="ceil", rounding_precision=2)
        assert usage(metric, dated(12, 12, 12, D("12.434")), WINDOW).units == D("48.44")

    @given(
        st.decimals(places=14, min_value=-(10**9), max_value=10**9),
        st.sampled_from(["round", "ceil", "floor"]),
        st.integers(-5, 12),
    )
    def test_it_moves_less_than_one_step_and_only_once(self, units: Decimal, function: str, precision: int) -> None:
        metric = Metric("sum_agg", rounding_function=function, rounding_precision=precision)
        rounded = round_units(units, metric)
        assert abs(rounded - units) < D(10) ** -precision
        assert round_units(rounded, metric) == rounded


class TestEventValues:
    def test_counts_give_ones(self) -> None:
        assert event_values(Metric("count_agg"), dated("x", None, 3), MAY) == (1, 1, 1)
        assert event_values(Metric("unique_count_agg"), dated("x", None, "x"), MAY) == (1, 1)

    def test_a_recurring_sum_gives_the_values_of_the_period_only(self) -> None:
        values = [*dated(7, first_day=-3), *dated(3, "foo", -2)]
        assert event_values(Metric("sum_agg", recurring=True), reversed(values), MAY) == (3, -2)

    def test_max_and_latest_give_their_value_once(self) -> None:
        assert event_values(Metric("max_agg"), dated(3, 9, 9, 1), MAY) == (0, 9, 0, 0)
        assert event_values(Metric("latest_agg"), dated(3, 9, 4), MAY) == (0, 0, 4)
        assert event_values(Metric("max_agg"), [], MAY) == ()

    @given(st.lists(st.integers(-9, 9), min_size=1, max_size=12))
    def test_they_add_up_to_the_units(self, values: list[int]) -> None:
        for kind in ("count_agg", "sum_agg", "max_agg", "latest_agg"):
            used = usage(Metric(kind), dated(*values), WINDOW, with_event_values=True)
            assert sum(used.event_values) == used.units


class TestRunningTotals:
    def test_of_a_sum(self) -> None:
        metric, values = Metric("sum_agg"), dated(12, 12, 12, 12)
        both = usage(metric, values, WINDOW, free_events=2, free_units=D(30))
        assert both.running_totals == (12, 24)
        assert usage(metric, values, WINDOW, free_units=D(30)).running_totals == (12, 24, 36)
        assert usage(metric, values, WINDOW, free_units=D(36)).running_totals == (12, 24, 36, 48)
        assert usage(metric, values, WINDOW).running_totals == ()

    def test_of_a_recurring_sum_start_in_history(self) -> None:
        values = [*dated(5, first_day=-3), *dated(3)]
        assert usage(Metric("sum_agg", recurring=True), values, WINDOW, free_events=9).running_totals == (5, 8)

    def test_of_a_count(self) -> None:
        assert usage(Metric("count_agg"), dated(*"abc"), WINDOW, free_events=5).running_totals == (1, 2, 3)

    def test_of_a_large_count_stop_where_nothing_can_be_free_any_more(self) -> None:
        totals = running_totals(Metric("count_agg"), [], D(10**12), free_events=2, free_units=D("3.5"))
        assert totals[-1] > D("3.5")
        assert len(totals) < 10


class TestProratedSum:
    METRIC = Metric("sum_agg", recurring=True)

    def prorated(self, *values: Event, window: Window = WINDOW) -> tuple[Decimal, Decimal]:
        used = usage(self.METRIC, values, window, is_prorated=True)
        return used.units, used.shown_units

    @given(
        st.lists(
            st.tuples(st.sampled_from(["1", "-2.5", "0.10", "9" * 40, "-" + "0." + "7" * 40]), st.integers(-400, 800))
        ),
        st.sampled_from(["UTC", "Asia/Kathmandu", "America/New_York"]),
        st.booleans(),
    )
    def test_it_follows_from_the_sums_of_local_days(
        self, numbers: list[tuple[str, int]], zone: str, ended_by_upgrade: bool
    ) -> None:
        start = MAY + timedelta(hours=7, microseconds=3)
        window = Window(
            start=start, end=WINDOW.end, period_days=31, tz=ZoneInfo(zone), ended_by_upgrade=ended_by_upgrade
        )
        history = [event(number, value, MAY + timedelta(hours=hour)) for number, (value, hour) in enumerate(numbers)]
        history = [event for event in history if event.timestamp <= window.end]
        counted = usage(self.METRIC, history, window, is_prorated=True)

        def sum_of(first: datetime, last: datetime) -> Decimal:
            return total(D(str(event.properties["value"])) for event in history if first <= event.timestamp <= last)

        begins = start.replace(microsecond=0)
        before = sum_of(datetime.min.replace(tzinfo=UTC), begins - timedelta(microseconds=1))
        days = [(first, sum_of(first, last)) for first, last in stretches_of_days(begins, window.end, window.tz)]
        assert prorated_by_day(before, days, window).units == counted.units

    def test_what_was_there_before_counts_in_full_and_events_from_their_day_on(self) -> None:
        history = (*dated(D("2.5"), D("2.5"), first_day=-20), *dated(12, first_day=25))
        late = event(90, 12, MAY + timedelta(days=25, hours=9))
        assert self.prorated(*history, late) == (D("9.64517"), 29)
        used = usage(self.METRIC, (*history, late), WINDOW, is_prorated=True)
        assert used.events_count == 4

    def test_metric_rounding_comes_last(self) -> None:
        metric = Metric("sum_agg", recurring=True, rounding_function="ceil", rounding_precision=2)
        history = (*dated(D("2.5"), D("2.5"), first_day=-20), *dated(12, first_day=25), *dated("12.434", first_day=25))
        used = usage(metric, history, WINDOW, is_prorated=True)
        assert (used.units, used.shown_units) == (D("9.73"), D("29.44"))

    def test_a_removal_is_refunded_from_its_day_on(self) -> None:
        june = Window(start=MAY, end=WINDOW.end - timedelta(days=1), period_days=30, tz=UTC)
        history = (*dated(10), *dated(-10, first_day=10))
        assert self.prorated(*history, window=june) == (D("3.33334"), 0)

    def test_units_are_rounded_up_after_adding_rounded_ratios(self) -> None:
        june = Window(start=MAY, end=WINDOW.end - timedelta(days=1), period_days=30, tz=UTC)
        three = [event(number, 1, MAY + timedelta(days=10)) for number in range(3)]
        assert self.prorated(*three, window=june)[0] == D("2.00001")

    def test_a_terminated_subscription_counts_the_days_it_lasted(self) -> None:
        december = Window(
            start=datetime(2023, 12, 1, tzinfo=UTC),
            end=datetime(2023, 12, 20, 6, tzinfo=UTC),
            period_days=31,
            tz=UTC,
        )
        added = event(1, 10, datetime(2023, 12, 16, 8, tzinfo=UTC))
        assert self.prorated(added, window=december) == (D("1.61291"), 10)

    def test_the_day_of_an_upgrade_belongs_to_the_new_plan(self) -> None:
        before, during = dated(31, first_day=-1), dated(31, first_day=9)
        ended = Window(start=MAY, end=MAY + timedelta(days=16, hours=9), period_days=31, tz=UTC, ended_by_upgrade=True)
        assert ended.days == 16
        assert self.prorated(*before, window=ended)[0] == 16
        # From 10 to 16 May: the 17th, the day of the upgrade, is not billed.
        assert self.prorated(*during, window=ended)[0] == pytest.approx(D(7), abs=D("0.00001"))

    def test_an_event_of_the_first_instant_lies_in_the_period(self) -> None:
        ended = Window(start=MAY, end=MAY + timedelta(days=16, hours=9), period_days=31, tz=UTC, ended_by_upgrade=True)
        used = usage(self.METRIC, dated(31), ended, is_prorated=True)
        assert used.units == pytest.approx(D(16), abs=D("0.00001"))

    def test_an_event_at_the_start_belongs_to_the_period(self) -> None:
        half = Window(start=MAY, end=MAY + timedelta(days=10), period_days=31, tz=UTC)
        used = usage(self.METRIC, dated(3), half, is_prorated=True)
        assert used.stretches is not None
        assert [stretch.full for stretch in used.stretches] == [3]

    def test_stretches_start_with_what_was_there_before(self) -> None:
        half = Window(
            start=datetime(2023, 10, 1, tzinfo=UTC),
            end=datetime(2023, 10, 18, 10, tzinfo=UTC),
            period_days=31,
            tz=UTC,
            ended_by_upgrade=True,
        )
        history = [event(1, 75, datetime(2023, 9, 1, tzinfo=UTC)), event(2, 20, datetime(2023, 10, 17, 5, tzinfo=UTC))]
        used = usage(self.METRIC, history, half, is_prorated=True)
        assert used.stretches is not None
        assert [(stretch.full, round(stretch.prorated, 6)) for stretch in used.stretches] == [
            (75, D("41.129032")),
            (20, D("0.645161")),
        ]

    @given(st.lists(st.tuples(st.integers(-40, 30), st.integers(0, 50)), max_size=10))
    def test_what_only_grows_is_billed_at_most_in_full(self, changes: list[tuple[int, int]]) -> None:
        history = [event(number, value, MAY + timedelta(days=day)) for number, (day, value) in enumerate(changes)]
        units, shown = self.prorated(*history)
        assert 0 <= units <= shown + D("0.00001")

    @given(st.lists(st.tuples(st.integers(-40, 30), st.integers(-50, 50)), max_size=10), st.integers(0, 99))
    def test_arrival_order_does_not_matter(self, changes: list[tuple[int, int]], seed: int) -> None:
        history = [event(number, value, MAY + timedelta(days=day)) for number, (day, value) in enumerate(changes)]
        shuffled = random.Random(seed).sample(history, len(history))
        whole = usage(self.METRIC, history, WINDOW, is_prorated=True)
        assert usage(self.METRIC, shuffled, WINDOW, is_prorated=True) == whole


class TestProratedUniqueCount:
    METRIC = Metric("unique_count_agg", recurring=True)

    def units(self, *history: Event, window: Window = WINDOW) -> Decimal:
        return usage(self.METRIC, history, window, is_prorated=True).units

    def at(self, number: int, day: int, value: str = "a", operation: str = "add", hour: int = 0) -> Event:
        return event(number, value, MAY + timedelta(days=day - 1, hours=hour), operation)

    def test_a_value_counts_from_the_day_it_was_added(self) -> None:
        used = usage(self.METRIC, [self.at(1, -5), self.at(2, 11, "b")], WINDOW, is_prorated=True)
        assert (used.units, used.shown_units, used.events_count) == (D("1.67742"), 2, 1)

    def test_the_days_of_adding_and_removal_are_both_counted(self) -> None:
        assert self.units(self.at(1, 2), self.at(2, 30, operation="remove")) == D("0.93549")

    def test_back_and_forth_within_a_day_is_one_day(self) -> None:
        def day(first: int, day: int) -> list[Event]:
            return [self.at(first + n, day, operation=op, hour=n) for n, op in enumerate(["add", "remove"] * 2)]

        assert self.units(*day(0, 4)) == D("0.03226")
        assert self.units(*day(0, 4), *day(10, 9), *day(20, 17)) == D("0.09678")

    def test_a_removal_undone_on_its_day_does_not_count_the_day_twice(self) -> None:
        history = [self.at(1, 2), self.at(2, 10, operation="remove", hour=8), self.at(3, 10, hour=9)]
        assert self.units(*history) == self.units(self.at(1, 2))

    def test_a_shortened_period(self) -> None:
        value = self.at(1, -5)
        ended = Window(start=MAY, end=MAY + timedelta(days=15, hours=7), period_days=31, tz=UTC)
        begun = Window(start=MAY + timedelta(days=23, hours=3), end=WINDOW.end, period_days=31, tz=UTC)
        assert self.units(value, window=ended) == D("0.51613")
        assert self.units(value, window=begun) == D("0.25807")

    def test_what_was_removed_before_the_period_is_nothing(self) -> None:
        used = usage(self.METRIC, [self.at(1, -9), self.at(2, -5, operation="remove")], WINDOW, is_prorated=True)
        assert (used.units, used.shown_units, used.stretches) == (0, 0, ())

    def test_what_is_removed_at_the_first_instant_was_there_for_a_day(self) -> None:
        assert self.units(self.at(1, -9), self.at(2, 1, operation="remove")) == D("0.03226")

    def test_stretches_of_adding_and_removal(self) -> None:
        september = datetime(2023, 9, 1, tzinfo=UTC)
        window = Window(start=september, end=september + timedelta(days=30, microseconds=-1), period_days=30, tz=UTC)
        steps = (
            (10, "a", "add"),
            (12, "a", "remove"),
            (14, "a", "add"),
            (15, "b", "add"),
            (16, "b", "add"),
            (20, "c", "add"),
        )
        history = [
            event(number, value, september + timedelta(days=day - 1), operation)
            for number, (day, value, operation) in enumerate(steps)
        ]
        used = usage(self.METRIC, history, window, is_prorated=True)
        assert used.stretches is not None
        assert [(stretch.full, stretch.prorated) for stretch in used.stretches] == [
            (1, D("0.1")),
            (-1, 0),
            (1, D("0.56667")),
            (1, D("0.53334")),
            (1, D("0.36667")),
        ]

    @given(
        st.lists(
            st.tuples(
                st.integers(-40, 30), st.sampled_from("abc"), st.sampled_from(["add", "remove"]), st.integers(0, 3)
            ),
            max_size=14,
        ),
        st.integers(0, 99),
    )
    def test_units_and_stretches_agree_whatever_the_order(
        self, changes: list[tuple[int, str, str, int]], seed: int
    ) -> None:
        history = [self.at(n, day + 1, value, op, hour) for n, (day, value, op, hour) in enumerate(changes)]
        used = usage(self.METRIC, history, WINDOW, is_prorated=True)
        shuffled = random.Random(seed).sample(history, len(history))
        assert usage(self.METRIC, shuffled, WINDOW, is_prorated=True) == used
        assert used.stretches is not None
        assert sum(stretch.full for stretch in used.stretches) == used.shown_units
        assert 0 <= sum(stretch.prorated for stretch in used.stretches) - used.units < D("0.001")
        assert used.units <= 3


class TestEventsThatCannotCount:
    @pytest.mark.parametrize(
        ("kind", "value", "lacks"),
        [
            ("count_agg", None, False),
            ("sum_agg", None, True),
            ("sum_agg", "1e3", True),
            ("sum_agg", "3", False),
            ("unique_count_agg", None, True),
            ("unique_count_agg", "x", False),
        ],
    )
    def test_lacking_property(self, kind: str, value: JsonValue, lacks: bool) -> None:
        assert lacks_property(Metric(kind), event(1, value)) is lacks

    @pytest.mark.parametrize(
        ("kind", "value", "is_counted"),
        [
            ("count_agg", None, True),
            ("sum_agg", "", False),
            ("sum_agg", False, False),
            ("sum_agg", 0, True),
            ("sum_agg", "abc", False),
            ("unique_count_agg", None, False),
            ("unique_count_agg", "", True),
            ("unique_count_agg", False, True),
            ("unique_count_agg", "x", True),
        ],
    )
    def test_what_counts(self, kind: str, value: JsonValue, is_counted: bool) -> None:
        assert counts(kind, "value", event(1, value)) is is_counted

    def test_an_unknown_operation_does_not_count(self) -> None:
        assert not counts("unique_count_agg", "value", event(1, "x", operation="replace"))
