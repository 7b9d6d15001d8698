from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.aggregation import (
    AdvanceUsage,
    LedgerRow,
    Window,
    active_before,
    advance_usage,
    current_usage,
    event_units,
    event_values,
    fold,
    prorated,
)
from usagebill.core.events import Event, JsonValue
from usagebill.core.usage import Usage

D = Decimal
FEBRUARY = datetime(2024, 2, 1, tzinfo=UTC)
WINDOW = Window(start=FEBRUARY, end=datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC), period_days=29, tz=UTC)


@dataclass(frozen=True)
class Metric:
    aggregation_type: str
    recurring: bool = False
    field_name: str | None = "value"
    rounding_function: str | None = None
    rounding_precision: int | None = None


COUNT, SUM, UNIQUE = Metric("count_agg"), Metric("sum_agg"), Metric("unique_count_agg")
RECURRING_SUM, RECURRING_UNIQUE = Metric("sum_agg", recurring=True), Metric("unique_count_agg", recurring=True)


def event(number: int, value: JsonValue, operation: str = "add", *, day: int = 1, cents: str | None = None) -> Event:
    return stored_event(
        f"{number:04}",
        {"value": value, "operation_type": operation},
        at=FEBRUARY + timedelta(days=day - 1),
        precise_total_amount_cents=None if cents is None else D(cents),
        created_at=FEBRUARY,
    )


def bill(metric: Metric, events: list[Event], *, is_prorated: bool = False) -> list[tuple[AdvanceUsage, Usage]]:
    """Each event billed as it comes, with the current usage after it."""
    billed: list[tuple[AdvanceUsage, Usage]] = []
    row: LedgerRow | None = None
    for event in events:
        known = sorted((other for other in events if other.order <= event.order), key=lambda other: other.order)
        tally = fold(metric.aggregation_type, known, field_name="value")
        used = advance_usage(
            metric,
            event,
            tally,
            row,
            WINDOW,
            prorated=is_prorated,
            was_active=active_before(known, event, "value"),
            event_values=event_values(metric, known, FEBRUARY),
        )
        row = used.units.row
        quantity = prorated(metric, known, WINDOW) if is_prorated else None
        now = current_usage(metric, tally, row, WINDOW, prorated=None if quantity is None else quantity.units)
        billed.append((used, now))
    return billed


def priced(used: AdvanceUsage) -> Decimal:
    """What a price of 1 a unit makes of it."""
    return used.with_event.units - used.without_event.units


def test_each_event_of_a_count_is_one_unit() -> None:
    billed = [used for used, _ in bill(COUNT, [event(n, None) for n in range(3)])]
    assert [(used.with_event.units, used.without_event.units) for used in billed] == [(1, 0), (2, 1), (3, 2)]
    assert [used.units.row for used in billed] == [None] * 3
    assert billed[2].with_event.event_values == (1, 1, 1)
    assert billed[2].without_event.event_values == (1, 1)
    assert (billed[2].with_event.events_count, billed[2].without_event.events_count) == (3, 2)


def test_a_sum_bills_only_what_rises_above_what_was_billed() -> None:
    billed = [used for used, _ in bill(SUM, [event(1, 10), event(2, -4), event(3, 8)])]
    assert [priced(used) for used in billed] == [10, 0, 4]
    assert [used.units.shown for used in billed] == [10, 0, 4]


def test_units_within_what_was_billed_are_shown_but_free() -> None:
    used = event_units(SUM, event(1, 3), LedgerRow(current=D(4), maximum=D(10)), WINDOW)
    assert (used.billed, used.shown) == (0, 3)
    above = event_units(SUM, event(1, 10), LedgerRow(current=D(4), maximum=D(10)), WINDOW)
    assert (above.billed, above.shown) == (4, 4)


def test_removing_and_adding_again_what_the_renewal_covered_is_billed() -> None:
    first = event_units(SUM, event(1, -5), None, WINDOW)
    second = event_units(SUM, event(2, 5), first.row, WINDOW)
    assert (first.billed, first.shown, second.billed) == (0, 0, 5)
    assert second.row is not None
    assert (second.row.current, second.row.maximum) == (0, 5)


def test_unique_values_come_and_go() -> None:
    steps = [(1, "add"), (1, "remove"), (1, "add"), (2, "add"), (2, "add"), (3, "add"), (3, "remove")]
    billed = [used for used, _ in bill(UNIQUE, [event(n, value, op) for n, (value, op) in enumerate(steps)])]
    assert [priced(used) for used in billed] == [1, 0, 0, 1, 0, 1, 0]
    assert [used.units.shown for used in billed] == [1, 0, 1, 1, 0, 1, 0]


def test_prices_of_events_are_left_out_of_the_side_without_the_event() -> None:
    used, _ = bill(SUM, [event(1, 5, cents="1234.56"), event(2, 1, cents="2.1")])[1]
    assert used.with_event.amount_cents - used.without_event.amount_cents == D("2.1")


def test_a_prorated_event_is_priced_for_the_days_left() -> None:
    january = datetime(2024, 1, 1, tzinfo=UTC)
    window = Window(start=january, end=january + timedelta(days=31, microseconds=-1), period_days=31, tz=UTC)
    late = event(1, 10)._replace(timestamp=january + timedelta(days=29))
    tally = fold("sum_agg", [late], field_name="value")
    used = advance_usage(RECURRING_SUM, late, tally, None, window, prorated=True)
    assert priced(used) == D("0.64517")
    assert used.with_event.shown_units == 10
    assert used.units.row == LedgerRow(current=D(10), maximum=D(10), maximum_prorated=D("0.64517"))


def test_current_usage_of_a_prorated_sum_stays_at_what_was_billed() -> None:
    billed = bill(RECURRING_SUM, [event(1, 10, day=6), event(2, -5, day=6), event(3, 2, day=6)], is_prorated=True)
    assert [now.shown_units for _, now in billed] == [10, 5, 7]
    assert [now.units for _, now in billed] == [D("8.27587")] * 3
    assert [used.units.shown for used, _ in billed] == [10, 0, 2]


def test_current_usage_of_a_prorated_seat_that_is_removed() -> None:
    billed = bill(RECURRING_UNIQUE, [event(1, "seat", day=23), event(2, "seat", "remove", day=29)], is_prorated=True)
    assert [(now.units, now.shown_units) for _, now in billed] == [(D("0.24138"), 1), (D("0.24138"), 0)]


def test_current_usage_of_seats_prices_the_most_that_was_billed() -> None:
    steps = [event(1, "a", day=23), event(2, "a", "remove", day=26), event(3, "b", day=27)]
    billed = bill(RECURRING_UNIQUE, steps)
    assert [(now.units, now.shown_units) for _, now in billed] == [(1, 1), (1, 0), (1, 1)]


def test_what_a_recurring_metric_carries_over_is_priced_with_what_the_period_added() -> None:
    tally = fold("sum_agg", [event(1, 40, day=-9), event(2, 10)], field_name="value")
    row = LedgerRow(current=D(10), maximum=D(15), maximum_prorated=D("12.5"))
    whole = current_usage(RECURRING_SUM, tally, row, WINDOW)
    assert (whole.units, whole.shown_units) == (55, 50)
    assert current_usage(RECURRING_SUM, tally, row, WINDOW, prorated=D(45)).units == D("52.5")
    assert current_usage(RECURRING_SUM, tally, None, WINDOW, prorated=D(45)).units == 50
    half = Window(start=FEBRUARY, end=FEBRUARY + timedelta(days=14.5), period_days=30, tz=UTC)
    assert current_usage(RECURRING_SUM, tally, row, half, prorated=D(45)).units == D("32.5")
    assert current_usage(RECURRING_SUM, tally, None, half, prorated=D(25)).units == 25
    assert current_usage(SUM, fold("sum_agg", [event(1, -5)], field_name="value"), None, WINDOW).units == 0


@given(st.lists(st.integers(-20, 20), max_size=15))
def test_all_a_sum_bills_is_its_highest_level(values: list[int]) -> None:
    events = [event(0, 0), *(event(number, value) for number, value in enumerate(values, start=1))]
    billed = bill(SUM, events)
    level, highest = 0, 0
    for value in values:
        level += value
        highest = max(highest, level)
    assert sum(priced(used) for used, _ in billed) == highest
    assert billed[-1][1].units == highest
    assert billed[-1][1].shown_units == max(level, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove"])), max_size=15))
def test_all_a_unique_count_bills_is_the_most_that_was_active(steps: list[tuple[str, str]]) -> None:
    events = [event(number, value, operation) for number, (value, operation) in enumerate(steps)]
    active: set[str] = set()
    most = 0
    for value, operation in steps:
        if operation == "add":
            active.add(value)
        else:
            active.discard(value)
        most = max(most, len(active))
    assert sum(priced(used) for used, _ in bill(UNIQUE, events)) == most
