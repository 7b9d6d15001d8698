from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import stored_event

from usagebill.core.events import (
    Event,
    JsonValue,
    numeric_value,
    parse_amount,
    parse_timestamp,
    property_text,
    repeated_positions,
)
from usagebill.core.subscriptions import active_subscription, subscription_at

START = datetime(2024, 3, 1, tzinfo=UTC)


def event(value: JsonValue = None, *, at: datetime = START, id: str = "1") -> Event:
    return stored_event(id, {"value": value}, at=at, code="calls")


class TestTimestamp:
    def test_decimal_seconds_are_kept_exactly(self) -> None:
        expected = datetime(2026, 6, 4, 15, 23, 54, 100_000, tzinfo=UTC)
        assert parse_timestamp("1780586634.1") == expected
        assert parse_timestamp(Decimal("1780586634.1")) == expected
        assert parse_timestamp(Decimal("1693842312.344")) == datetime(2023, 9, 4, 15, 45, 12, 344_000, tzinfo=UTC)

    def test_what_lies_below_microseconds_is_cut(self) -> None:
        assert parse_timestamp("0.9999999") == datetime(1970, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
        assert parse_timestamp("-0.0000001") == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

    def test_far_past_and_future_are_accepted(self) -> None:
        assert parse_timestamp(-62_000_000_000) is not None
        assert parse_timestamp("4102444800") == datetime(2100, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize(
        "value",
        ["", " ", "2023-09-04 10:00", "2023-09-04T10:00:00Z", "abc", True, [], {}, "NaN", "1_000", 1780586634000],
    )
    def test_what_is_no_number_of_seconds_is_refused(self, value: JsonValue) -> None:
        assert parse_timestamp(value) is None

    @given(st.integers(-62_000_000_000_000_000, 253_000_000_000_000_000))
    def test_every_microsecond_survives(self, microseconds: int) -> None:
        seconds = Decimal(microseconds).scaleb(-6)
        expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        assert parse_timestamp(seconds) == parse_timestamp(format(seconds, "f")) == expected

    @given(st.text(max_size=30) | st.integers() | st.decimals(allow_nan=True))
    def test_no_input_breaks_it(self, value: JsonValue) -> None:
        instant = parse_timestamp(value)
        assert instant is None or instant.tzinfo is UTC


class TestAmount:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (None, None),
            ("12.5", "12.5"),
            (3, "3"),
            ("abc", None),
            ("12,50", None),
            ("$1250", None),
            ("nan", None),
            (True, None),
            ([], None),
            (10**40, None),
            ("0.0000000000000005", "0.000000000000001"),
        ],
    )
    def test_parsing(self, value: JsonValue, expected: str | None) -> None:
        assert parse_amount(value) == (None if expected is None else Decimal(expected))

    @given(st.text(max_size=30) | st.integers() | st.decimals(allow_nan=True))
    def test_no_input_breaks_it(self, value: JsonValue) -> None:
        amount = parse_amount(value)
        assert amount is None or amount.is_finite()


class TestText:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, None),
            ("", ""),
            ("a b", "a b"),
            (12, "12"),
            (Decimal("1E+3"), "1000"),
            (Decimal("1E-7"), "0.0000001"),
            (Decimal("2.50"), "2.50"),
            (True, "true"),
            (False, "false"),
            ([1, "a", None], '[1, "a", null]'),
            ({"b": [], "a": {"c": Decimal("0.5")}}, '{"a": {"c": 0.5}, "b": []}'),
        ],
    )
    def test_text_forms(self, value: JsonValue, text: str | None) -> None:
        assert property_text(value) == text

    def test_deep_and_huge_values_have_a_text(self) -> None:
        nested: JsonValue = "x"
        for _ in range(50_000):
            nested = [nested]
        assert len(property_text(nested) or "") == 100_003
        assert len(property_text(Decimal("1E+999999")) or "") < 20

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=10,
        ).filter(lambda value: value is not None and not isinstance(value, str))
    )
    def test_the_text_of_anything_else_is_its_json(self, value: JsonValue) -> None:
        assert json.loads(property_text(value) or "") == value


class TestNumericRule:
    @pytest.mark.parametrize(
        "value", [12, Decimal("12.5"), Decimal("-0.5"), "12", "007", "-3.25", Decimal("1E3"), Decimal("1E-7"), "9" * 64]
    )
    def test_numbers_count(self, value: JsonValue) -> None:
        assert numeric_value(event(value), "value") == Decimal(str(value))

    @pytest.mark.parametrize(
        "value",
        ["1e3", "+5", ".5", "5.", " 5", "1,5", "", None, True, [1], "abc", "٣", "1\n", "9" * 65, Decimal("1E+900000")],
    )
    def test_anything_else_does_not(self, value: JsonValue) -> None:
        assert numeric_value(event(value), "value") is None

    def test_a_missing_property_is_no_number(self) -> None:
        assert numeric_value(event(1), "other") is None
        assert numeric_value(event(1), None) is None


def test_repeated_transaction_ids_are_reported_on_their_later_positions() -> None:
    assert repeated_positions(["a", "b", "a", "b", "a"]) == (2, 3, 4)
    assert repeated_positions(["a", "b"]) == ()


@dataclass(frozen=True)
class Subscription:
    started_at: datetime | None
    terminated_at: datetime | None = None
    status: str = "active"
    billed_from: datetime | None = None


class TestMatching:
    def test_bounds_are_inclusive_and_a_start_is_cut_to_its_second(self) -> None:
        end = START + timedelta(days=5, microseconds=900)
        ended = Subscription(START + timedelta(microseconds=600_900), end, "terminated")
        assert subscription_at([ended], START) is ended
        assert subscription_at([ended], end) is ended
        assert subscription_at([ended], end + timedelta(microseconds=1)) is None
        assert subscription_at([ended], START - timedelta(microseconds=1)) is None

    def test_the_second_of_a_change_is_divided_by_when_events_came(self) -> None:
        change = START + timedelta(milliseconds=600)
        old, new = Subscription(START - timedelta(days=1), change, "terminated"), Subscription(change)
        assert subscription_at([old, new], START, change - timedelta(milliseconds=100)) is old
        assert subscription_at([old, new], START, change + timedelta(milliseconds=100)) is new
        gone = Subscription(START - timedelta(days=1), START - timedelta(seconds=1), "terminated")
        assert subscription_at([gone, new], START, change - timedelta(milliseconds=100)) is new

    def test_what_waits_or_has_not_started_is_skipped(self) -> None:
        waiting = [Subscription(START, status="incomplete"), Subscription(None, status="pending")]
        assert subscription_at(waiting, START) is None

    def test_of_several_the_living_then_the_latest_wins(self) -> None:
        old = Subscription(START, START + timedelta(days=9), "terminated")
        older = Subscription(START, START + timedelta(days=8), "terminated")
        early, late = Subscription(START), Subscription(START + timedelta(hours=1))
        at = START + timedelta(days=2)
        assert subscription_at([older, old], at) is old
        assert subscription_at([early, late, old], at) is late

    def test_the_active_one_stands_in_for_events_before_any(self) -> None:
        ended = Subscription(START, START, "terminated")
        running = Subscription(START + timedelta(days=1))
        assert active_subscription([ended, running]) is running
        assert active_subscription([ended]) is None
