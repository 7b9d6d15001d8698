"""Decimals: how they are read, rounded and printed."""

from __future__ import annotations

from decimal import Decimal, DivisionByZero
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from usagebill.core.events import LONGEST_VALUE
from usagebill.core.numbers import (
    add,
    ceil_to,
    decimal_text,
    divide,
    floor_to,
    multiply,
    multiply_add,
    parse_decimal,
    parse_json_fraction,
    ratio,
    round_cents,
    round_to,
    subtract,
    total,
    truncate_cents,
    truncate_to,
)

D = Decimal
FINITE = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40)
# As long as numbers in event properties may be, with as many decimals as amounts are stored with.
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=15)
PLACES = st.integers(-5, 15)


@pytest.mark.parametrize(
    ("value", "places", "rounded", "up", "down", "cut"),
    [
        ("123.456", 2, "123.46", "123.46", "123.45", "123.45"),
        ("123.456", 0, "123", "124", "123", "123"),
        ("123.456", -2, "100", "200", "100", "100"),
        ("0.5", 0, "1", "1", "0", "0"),
        ("-0.5", 0, "-1", "0", "-1", "0"),
        ("-2.5", 0, "-3", "-2", "-3", "-2"),
        ("-1.2", 0, "-1", "-1", "-2", "-1"),
        ("0", 5, "0", "0", "0", "0"),
        ("50", -2, "100", "100", "0", "0"),
    ],
)
def test_rounding(value: str, places: int, rounded: str, up: str, down: str, cut: str) -> None:
    assert round_to(D(value), places) == D(rounded)
    assert ceil_to(D(value), places) == D(up)
    assert floor_to(D(value), places) == D(down)
    assert truncate_to(D(value), places) == D(cut)


def test_numbers_of_any_length_are_rounded() -> None:
    long = "9" * 500
    assert round_to(D(long + ".5"), 0) == D("1" + "0" * 500)
    assert floor_to(D(long + ".5"), 0) == D(long)
    assert round_to(D("1E+9999"), 2) == D("1E+9999")
    assert round_to(D("1E-9999"), 15) == 0
    assert round_cents(D(long)) == int(long)


@given(value=FINITE, places=PLACES)
def test_rounding_moves_no_further_than_it_must(value: Decimal, places: int) -> None:
    step = D(1).scaleb(-places)
    low, high = floor_to(value, places), ceil_to(value, places)
    assert low <= value <= high
    assert subtract(high, low) in (0, step)
    assert round_to(value, places) in (low, high)
    assert abs(subtract(round_to(value, places), value)) * 2 <= step
    assert abs(truncate_to(value, places)) == min(abs(low), abs(high))


@given(value=FINITE, places=PLACES)
def test_rounding_twice_changes_nothing_and_is_symmetric(value: Decimal, places: int) -> None:
    once = round_to(value, places)
    assert round_to(once, places) == once
    assert round_to(value.copy_negate(), places) == once.copy_negate()


def test_cents() -> None:
    assert [round_cents(D(value)) for value in ("0.5", "-0.5", "1.49", "99999.986")] == [1, -1, 1, 100000]
    assert [truncate_cents(D(value)) for value in ("9999.9986", "-1.9", "0.99")] == [9999, -1, 0]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(20, 30, "0.66666666666666666667"), (21, 31, "0.67741935483870967742"), (1, 1, "1.0"), (0, 30, "0.0")],
)
def test_day_ratios_have_twenty_decimals(part: int, whole: int, text: str) -> None:
    assert decimal_text(ratio(part, whole)) == text


@given(left=AMOUNTS, right=AMOUNTS, addend=AMOUNTS)
def test_sums_and_products_are_exact(left: Decimal, right: Decimal, addend: Decimal) -> None:
    assert Fraction(add(left, right)) == Fraction(left) + Fraction(right)
    assert Fraction(subtract(left, right)) == Fraction(left) - Fraction(right)
    assert Fraction(multiply(left, right)) == Fraction(left) * Fraction(right)
    assert multiply_add(left, right, addend) == add(multiply(left, right), addend)


@given(values=st.lists(AMOUNTS, max_size=6))
def test_totals_do_not_depend_on_the_order(values: list[Decimal]) -> None:
    assert total(values) == total(reversed(values)) == total(sorted(values))


def test_the_longest_values_of_events_add_up_exactly() -> None:
    large, small = D("9" * LONGEST_VALUE), D("0." + "0" * (LONGEST_VALUE - 3) + "1")
    below = large.copy_negate()
    assert total([large, small, below]) == total([large, below, small]) == small


def test_totals() -> None:
    assert total([]) == 0
    assert total([D("0.1")] * 10) == 1


def test_division() -> None:
    assert divide(D(1), D(8)) == D("0.125")
    assert len(decimal_text(divide(D(2), D(3)))) == 102
    with pytest.raises(DivisionByZero):
        divide(D(1), D(0))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", "12"),
        ("-0.5", "-0.5"),
        ("+3", "3"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("2E-2", "0.02"),
        ("007", "7"),
        ("1e400", "1e400"),
        ("9" * 400, "9" * 400),
        ("-1e-400", "-1e-400"),
    ],
)
def test_texts_that_are_numbers(text: str, value: str) -> None:
    assert parse_decimal(text) == D(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " 1",
        "1 ",
        "1,5",
        "1_000",
        "abc",
        "NaN",
        "Infinity",
        "-",
        ".",
        "1e",
        "0x1",
        "1e10000",
        "1e401",
        "-1e-401",
        "٣",
        "9" * 401,
        "0" * 1001,
    ],
)
def test_texts_that_are_not(text: str) -> None:
    assert parse_decimal(text) is None


@pytest.mark.parametrize("text", ["1.5", "1e400", "-2E-400", "0." + "7" * 400, "9" * 399 + ".5"])
def test_fractions_of_json_keep_their_digits(text: str) -> None:
    assert parse_json_fraction(text) == D(text)


@pytest.mark.parametrize("text", ["1e401", "1e-401", "1e9999999", "-1e99999999999999999999", "0e999", "0." + "7" * 401])
def test_fractions_of_json_that_cannot_be_computed_with(text: str) -> None:
    with pytest.raises(ValueError, match="400 digits"):
        parse_json_fraction(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("10", "10.0"),
        ("10.00", "10.0"),
        ("0.3310", "0.331"),
        ("1E+3", "1000.0"),
        ("1E-7", "0.0000001"),
        ("-0", "0.0"),
        ("-0.00", "0.0"),
        ("-2.50", "-2.5"),
        ("2177.4193548387096774", "2177.4193548387096774"),
        ("100", "100.0"),
    ],
)
def test_decimals_are_printed_plainly(value: str, text: str) -> None:
    assert decimal_text(D(value)) == text


@given(FINITE)
def test_what_is_printed_reads_back_the_same(value: Decimal) -> None:
    text = decimal_text(value)
    assert parse_decimal(text) == value
    assert "E" not in text
    assert "." in text
