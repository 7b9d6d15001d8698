"""Charges paid in advance: every event pays what it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.money import percent

from usagebill.core.pricing import Properties, parse_properties, price
from usagebill.core.pricing.advance import AdvancePrice, pay_in_advance_price
from usagebill.core.pricing.fees import advance_fee_amounts
from usagebill.core.usage import Usage

D = Decimal


def ranges(*rows: tuple[int, int | None, str, str], rate: str = "per_unit_amount") -> list[dict[str, object]]:
    return [{"from_value": a, "to_value": b, rate: unit, "flat_amount": flat} for a, b, unit, flat in rows]


def summed(values: Sequence[Decimal], properties: Mapping[str, object]) -> Usage:
    """The usage of a sum over `values`, with the lists that the free units and bounds in `properties` need."""
    running = list(accumulate(values))
    free_events, free_total = (
        properties.get("free_units_per_events"),
        properties.get("free_units_per_total_aggregation"),
    )
    totals: list[Decimal] = []
    if isinstance(free_events, int):
        totals = running[:free_events]
    elif free_total is not None:
        for total in running:
            totals.append(total)
            if total > D(str(free_total)):
                break
    return Usage(
        units=sum(values, D(0)),
        events_count=len(values),
        running_totals=tuple(totals),
        event_values=tuple(values),
    )


def prices(model: str, properties: Mapping[str, object], values: Sequence[Decimal]) -> list[AdvancePrice]:
    parsed = parse_properties(model, properties, subunits=100)
    return [
        pay_in_advance_price(model, parsed, summed(values[:count], properties), summed(values[: count - 1], properties))
        for count in range(1, len(values) + 1)
    ]


def cents(model: str, properties: Mapping[str, object], *values: str) -> list[int]:
    event_prices = prices(model, properties, [D(value) for value in values])
    return [
        advance_fee_amounts(event_price.amount, D(value), "EUR").amount_cents
        for event_price, value in zip(event_prices, values, strict=True)
    ]


def test_the_events_of_one_batch_have_prices_of_their_own() -> None:
    graduated = {"graduated_ranges": ranges((0, 2, "0", "0"), (3, None, "2", "0"))}
    assert cents("graduated", graduated, "1", "1", "1") == [0, 0, 200]


def test_a_removal_is_free_and_adding_it_again_pays_only_what_is_new() -> None:
    """10, -4, 8 at 1.00: the second event bills 0 units, the third the 4 units above what was paid."""
    standard = parse_properties("standard", {"amount": "1"}, subunits=100)
    steps = [("10", "10"), ("6", "0"), ("14", "4")]
    amounts = []
    for count, (units, billed) in enumerate(steps, start=1):
        with_event = Usage(units=D(units), events_count=count)
        without = Usage(units=D(units) - D(billed), events_count=count - 1)
        amounts.append(pay_in_advance_price("standard", standard, with_event, without).amount)
    assert amounts == [10, 0, 4]


def test_packages() -> None:
    package = {"amount": "100", "free_units": 3, "package_size": 2}
    assert cents("package", package, "3", "1", "2") == [0, 10000, 10000]


def test_flat_amounts_are_paid_on_entering_a_range() -> None:
    graduated = {"graduated_ranges": ranges((0, 5, "0.02", "0.01"), (6, None, "0.01", "0.01"))}
    assert cents("graduated", graduated, "3", "1", "2") == [7, 2, 4]


@pytest.mark.parametrize(
    ("free", "values", "expected"),
    [
        ({"free_units_per_events": 2}, ("8", "5", "3"), [0, 0, 115]),
        ({"free_units_per_total_aggregation": "120"}, ("100", "10", "20", "20"), [0, 0, 150, 200]),
        ({"free_units_per_total_aggregation": "3"}, ("5", "1"), [110, 105]),
    ],
)
def test_percentages_with_free_units(free: dict[str, object], values: tuple[str, ...], expected: list[int]) -> None:
    assert cents("percentage", {"rate": "5", "fixed_amount": "1", **free}, *values) == expected


def test_percentages_with_bounds() -> None:
    bounds = {
        "rate": "1",
        "fixed_amount": "0.5",
        "per_transaction_min_amount": "1.75",
        "per_transaction_max_amount": "2",
    }
    assert cents("percentage", bounds, "100", "1000", "10000") == [175, 200, 200]


def test_percentage_details_are_what_the_event_adds() -> None:
    terms = {"rate": "5", "fixed_amount": "1", "free_units_per_total_aggregation": "120"}
    values = [D(100), D(10), D(20), D(20)]
    assert prices("percentage", terms, values)[2].amount_details == {
        "units": "20.0",
        "free_units": "10.0",
        "free_events": 0,
        "paid_units": "10.0",
        "rate": "5.0",
        "per_unit_total_amount": "0.5",
        "paid_events": 1,
        "fixed_fee_unit_amount": "1.0",
        "fixed_fee_total_amount": "1.0",
        "min_max_adjustment_total_amount": "0.0",
    }


def test_an_event_without_units_still_pays_the_fixed_amount() -> None:
    assert cents("percentage", {"rate": "5", "fixed_amount": "1"}, "10", "0") == [percent(10_00, 5) + 1_00, 1_00]


def test_events_that_bring_their_price() -> None:
    dynamic = parse_properties("dynamic", {}, subunits=100)
    first = Usage(units=D(5), events_count=1, amount_cents=D("1234.56"))
    second = Usage(units=D(6), events_count=2, amount_cents=D("1236.66"))
    event_price = pay_in_advance_price("dynamic", dynamic, first, Usage(units=D(0)))
    second_price = pay_in_advance_price("dynamic", dynamic, second, first)
    # 1234.56 rounded
    assert advance_fee_amounts(event_price.amount, D(5), "EUR").amount_cents == 1235
    assert advance_fee_amounts(second_price.amount, D(1), "EUR").amount_cents == 2


def test_graduated_percentages_and_their_details() -> None:
    terms = {
        "graduated_percentage_ranges": ranges(
            (0, 100, "20", "10"), (101, 200, "30", "7"), (201, None, "40", "5"), rate="rate"
        )
    }
    values = [D(50), D(100), D(300)]
    event_prices = prices("graduated_percentage", terms, values)
    assert [event_price.amount for event_price in event_prices] == [
        percent(50, 20) + 10,
        percent(50, 20) + percent(50, 30) + 7,
        percent(50, 30) + percent(250, 40) + 5,
    ]
    details: Any = event_prices[1].amount_details["graduated_percentage_ranges"]
    shown = [
        (entry["units"], entry["flat_unit_amount"], entry["per_unit_total_amount"], entry["total_with_flat_amount"])
        for entry in details
    ]
    assert shown == [("50.0", "0.0", "0.2", "10.0"), ("50.0", "7.0", "0.44", "22.0")]
    assert [entry["rate"] for entry in details] == ["20.0", "30.0"]


def test_other_models_have_no_details() -> None:
    (event_price,) = prices("standard", {"amount": "1"}, [D(3)])
    assert event_price.amount_details == {}


def test_taking_the_only_unit_away_does_not_pay_the_flat_amount_again() -> None:
    graduated = parse_properties("graduated", {"graduated_ranges": ranges((0, None, "1", "2"))}, subunits=100)
    removal = pay_in_advance_price(
        "graduated", graduated, Usage(units=D(0), events_count=2), Usage(units=D(0), events_count=1)
    )
    assert removal.amount == 0


UNITS = st.lists(st.decimals(min_value="0.001", max_value=500, places=3), min_size=1, max_size=8)
AMOUNT = st.decimals(min_value=0, max_value=100, places=4).map(str)


@given(values=UNITS, first=AMOUNT, second=AMOUNT, flat=AMOUNT)
def test_graduated_fees_add_up_to_the_price_of_the_whole(
    values: list[Decimal], first: str, second: str, flat: str
) -> None:
    for model, key, rate in (
        ("graduated", "graduated_ranges", "per_unit_amount"),
        ("graduated_percentage", "graduated_percentage_ranges", "rate"),
    ):
        terms = {key: ranges((0, 100, first, flat), (101, None, second, flat), rate=rate)}
        parsed: Properties = parse_properties(model, terms, subunits=100)
        whole = price(model, parsed, Usage(units=sum(values, D(0)))).amount
        assert sum((event_price.amount for event_price in prices(model, terms, values)), D(0)) == whole


@given(values=UNITS, rate=AMOUNT, fixed=AMOUNT, size=st.integers(1, 50), free=st.integers(0, 100))
def test_other_fees_add_up_to_the_price_of_the_whole(
    values: list[Decimal], rate: str, fixed: str, size: int, free: int
) -> None:
    cases: list[tuple[str, dict[str, object]]] = [
        ("standard", {"amount": rate}),
        ("package", {"amount": rate, "package_size": size, "free_units": free}),
        ("percentage", {"rate": rate, "fixed_amount": fixed}),
        ("percentage", {"rate": rate, "fixed_amount": fixed, "per_transaction_min_amount": "1"}),
    ]
    for model, terms in cases:
        parsed = parse_properties(model, terms, subunits=100)
        whole = price(model, parsed, summed(values, terms)).amount
        assert sum((event_price.amount for event_price in prices(model, terms, values)), D(0)) == whole
