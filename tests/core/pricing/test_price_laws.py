"""Laws that hold for every price list and every usage."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from usagebill.core.numbers import add, ceil_to, divide, multiply, subtract
from usagebill.core.pricing import amount_details, parse_properties, price, validate_properties
from usagebill.core.pricing.advance import pay_in_advance_price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.usage import ProrationStep, Usage

D = Decimal
AMOUNTS = st.decimals(min_value=0, max_value=10**6, places=6).map(str)
ANY_UNITS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
UNITS = st.decimals(min_value=0, max_value=10**6, places=4)


@st.composite
def range_lists(draw: st.DrawFn, rate: str = "per_unit_amount", touching: bool | None = None) -> list[dict[str, Any]]:
    ends = sorted(draw(st.sets(st.integers(1, 1000), max_size=4)))
    gap = 0 if (draw(st.booleans()) if touching is None else touching) else 1
    ranges: list[dict[str, Any]] = []
    for position, end in enumerate([*ends, None]):
        start = 0 if position == 0 else ends[position - 1] + gap
        if end is not None and end <= start:
            continue
        ranges.append({"from_value": start, "to_value": end, rate: draw(AMOUNTS), "flat_amount": draw(AMOUNTS)})
    for before, after in pairwise(ranges):
        after["from_value"] = before["to_value"] + gap
    return ranges


@st.composite
def charges(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    bounds = sorted([draw(st.integers(0, 100)), draw(st.integers(0, 100))])
    models: list[tuple[str, dict[str, object]]] = [
        ("standard", {"amount": draw(AMOUNTS)}),
        ("graduated", {"graduated_ranges": draw(range_lists())}),
        ("graduated_percentage", {"graduated_percentage_ranges": draw(range_lists("rate"))}),
        ("volume", {"volume_ranges": draw(range_lists(touching=False))}),
        (
            "package",
            {
                "amount": draw(AMOUNTS),
                "free_units": draw(st.integers(0, 100)),
                "package_size": draw(st.integers(1, 100)),
            },
        ),
        (
            "percentage",
            {
                "rate": draw(AMOUNTS),
                "fixed_amount": draw(AMOUNTS),
                "free_units_per_events": draw(st.none() | st.integers(1, 5)),
                "free_units_per_total_aggregation": draw(st.none() | AMOUNTS),
            },
        ),
        (
            "percentage",
            {
                "rate": draw(AMOUNTS),
                "free_units_per_events": draw(st.none() | st.integers(1, 5)),
                "per_transaction_min_amount": str(bounds[0]),
                "per_transaction_max_amount": str(bounds[1]),
            },
        ),
        ("dynamic", {}),
    ]
    return draw(st.sampled_from(models))


def usages(units: st.SearchStrategy[Decimal]) -> st.SearchStrategy[Usage]:
    values = st.lists(units, max_size=4).map(tuple)
    stretch = st.builds(ProrationStep, full=units, prorated=units)
    return st.builds(
        Usage,
        units=units,
        full_units=st.none() | units,
        events_count=st.integers(0, 10),
        amount_cents=units,
        running_totals=values,
        event_values=values,
        stretches=st.none() | st.lists(stretch, max_size=4).map(tuple),
    )


@given(charge=charges(), usage=usages(ANY_UNITS), other=usages(ANY_UNITS), currency=st.sampled_from(["EUR", "JPY"]))
def test_any_usage_has_a_price_a_fee_and_an_explanation(
    charge: tuple[str, dict[str, object]], usage: Usage, other: Usage, currency: str
) -> None:
    model, properties = charge
    assert validate_properties(model, properties) == ()
    parsed = parse_properties(model, properties, subunits=100)
    priced = price(model, parsed, usage)
    assert priced.unit_amount.is_finite()
    for rate in (None, D("0.3")):
        fee = fee_amounts(priced, usage, currency, conversion_rate=rate)
        assert fee.amount_cents >= 0
        assert fee.units >= 0
    assert isinstance(amount_details(model, parsed, usage), dict)
    assert pay_in_advance_price(model, parsed, usage, other).amount >= 0


@given(charge=charges(), units=UNITS, more=UNITS)
def test_more_units_never_cost_less(charge: tuple[str, dict[str, object]], units: Decimal, more: Decimal) -> None:
    model, properties = charge
    if model in {"volume", "dynamic"} or "per_transaction_min_amount" in properties:
        return
    parsed = parse_properties(model, properties, subunits=100)
    low, high = Usage(units=units, events_count=3), Usage(units=units + more, events_count=3)
    assert price(model, parsed, low).amount <= price(model, parsed, high).amount


@pytest.mark.parametrize(
    ("model", "rate"),
    [("graduated", "per_unit_amount"), ("graduated_percentage", "rate"), ("volume", "per_unit_amount")],
)
@given(units=UNITS, data=st.data())
def test_cutting_a_range_in_two_changes_no_price(model: str, rate: str, units: Decimal, data: st.DataObject) -> None:
    """And so putting the two together again does not. The flat amount of volume is due in both, else in the first."""
    key, is_volume = f"{model}_ranges", model == "volume"
    ranges = data.draw(range_lists(rate, touching=False if is_volume else None))
    position = data.draw(st.integers(0, len(ranges) - 1))
    cut_range = ranges[position]
    floor = 0 if position == 0 else ranges[position - 1]["to_value"]
    top = floor + 1000 if cut_range["to_value"] is None else cut_range["to_value"]
    assume(top - floor > 1)
    cut = data.draw(st.integers(floor + 1, top - 1))
    gap = 0 if position and cut_range["from_value"] == floor else 1
    second = {**cut_range, "from_value": cut + gap, "flat_amount": cut_range["flat_amount"] if is_volume else "0"}
    after = [*ranges[:position], {**cut_range, "to_value": cut}, second, *ranges[position + 1 :]]
    assume(validate_properties(model, {key: after}) == ())

    def cost(listed: list[dict[str, Any]]) -> Decimal:
        return price(model, parse_properties(model, {key: listed}, subunits=100), Usage(units=units)).amount

    assert cost(ranges) == cost(after)


@given(ranges=range_lists(), units=UNITS)
def test_details_of_ranges_account_for_every_unit_and_the_whole_amount(
    ranges: list[dict[str, Any]], units: Decimal
) -> None:
    for model, key, rate in (
        ("graduated", "graduated_ranges", "per_unit_amount"),
        ("graduated_percentage", "graduated_percentage_ranges", "rate"),
    ):
        listed = [{**range_, rate: range_["per_unit_amount"]} for range_ in ranges]
        parsed = parse_properties(model, {key: listed}, subunits=100)
        entries: Any = amount_details(model, parsed, Usage(units=units))[key]
        assert sum((D(entry["units"]) for entry in entries), D(0)) == units
        whole = D(0)
        for entry in entries:
            whole = add(whole, D(entry["total_with_flat_amount"]))
        assert whole == price(model, parsed, Usage(units=units)).amount


@given(ranges=range_lists(), values=st.lists(st.decimals(min_value="0.01", max_value=100, places=2), max_size=6))
def test_stretches_of_a_whole_period_cost_what_the_units_cost(
    ranges: list[dict[str, Any]], values: list[Decimal]
) -> None:
    """However the units arrive, when each counts for the whole period nothing is prorated."""
    parsed = parse_properties("graduated", {"graduated_ranges": ranges}, subunits=100)
    stretches = tuple(ProrationStep(full=value, prorated=value) for value in values)
    units = sum(values, D(0))
    split = price("graduated", parsed, Usage(units=units, stretches=stretches)).amount
    assert abs(split - price("graduated", parsed, Usage(units=units)).amount) < D("1e-60")


def test_stretches_of_more_digits_than_the_usual_decimals_keep_every_one() -> None:
    ranges = [{"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "0"}]
    units = D("-0.000000000000000000000000000001"), D("123456789012345678901234567890.123456789012345678901234567891")
    stretches = tuple(ProrationStep(full=value, prorated=value) for value in reversed(units))
    parsed = parse_properties("graduated", {"graduated_ranges": ranges}, subunits=100)
    priced = price("graduated", parsed, Usage(units=add(*units), stretches=stretches))
    assert priced.amount == add(*units) == D("123456789012345678901234567890.12345678901234567890123456789")


@given(ranges=range_lists(touching=False), units=UNITS)
def test_volume_prices_all_units_alike(ranges: list[dict[str, Any]], units: Decimal) -> None:
    parsed = parse_properties("volume", {"volume_ranges": ranges}, subunits=100)
    holding = next(range_ for range_ in ranges if range_["to_value"] is None or units <= range_["to_value"])
    expected = add(multiply(units, D(holding["per_unit_amount"])), D(holding["flat_amount"]))
    assert price("volume", parsed, Usage(units=units)).amount == expected


@given(units=UNITS, amount=AMOUNTS, size=st.integers(1, 1000), free=st.integers(0, 1000))
def test_packages_are_bought_whole(units: Decimal, amount: str, size: int, free: int) -> None:
    properties: Mapping[str, object] = {"amount": amount, "package_size": size, "free_units": free}
    parsed = parse_properties("package", properties, subunits=100)
    amount_billed = price("package", parsed, Usage(units=units)).amount
    paid = max(subtract(units, D(free)), D(0))
    assert amount_billed == multiply(ceil_to(divide(paid, D(size)), 0), D(amount))
    assert amount_billed >= multiply(divide(paid, D(size)), D(amount))


@given(amount=AMOUNTS, left=UNITS, right=UNITS)
def test_standard_prices_add_up(amount: str, left: Decimal, right: Decimal) -> None:
    parsed = parse_properties("standard", {"amount": amount}, subunits=100)

    def cost(units: Decimal) -> Decimal:
        return price("standard", parsed, Usage(units=units)).amount

    assert cost(left) + cost(right) == cost(left + right)


@given(
    values=st.lists(st.decimals(min_value=0, max_value=10**6, places=2), min_size=1, max_size=6),
    rate=AMOUNTS,
    bounds=st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted),
)
def test_bounded_transactions_stay_within_their_bounds(values: list[Decimal], rate: str, bounds: list[int]) -> None:
    properties = {
        "rate": rate,
        "per_transaction_min_amount": str(bounds[0]),
        "per_transaction_max_amount": str(bounds[1]),
    }
    parsed = parse_properties("percentage", properties, subunits=100)
    usage = Usage(units=sum(values, D(0)), events_count=len(values), event_values=tuple(values))
    amount = price("percentage", parsed, usage).amount
    assert bounds[0] * len(values) <= amount <= bounds[1] * len(values)
