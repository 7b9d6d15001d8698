"""Prices without a database: one call, and property tests of a price list in five lines."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, charge_on
from usagebill.core.errors import Invalid
from usagebill.pricing import price, price_cents, price_steps
from usagebill.testing import PriceList, amounts, price_lists, quantities

D = Decimal
TIERS = {
    "graduated_ranges": [
        {"from_value": 0, "to_value": 10, "per_unit_amount": 2, "flat_amount": 0},
        {"from_value": 11, "to_value": None, "per_unit_amount": D("0.5"), "flat_amount": "5"},
    ]
}


@pytest.mark.parametrize(
    ("model", "properties", "units", "amount"),
    [
        ("standard", {"amount": D("0.25")}, 46, D("11.50")),
        ("standard", {"amount": 3}, "0.5", D("1.5")),
        ("graduated", TIERS, 12, D(26)),
        ("package", {"amount": "5", "package_size": 100, "free_units": 0}, 101, D(10)),
        ("percentage", {"rate": "1.2", "fixed_amount": "0.5"}, 100, D("1.70")),
        ("percentage", {"rate": "1.2", "fixed_amount": "0.5"}, 0, D(0)),
    ],
)
def test_a_price_is_one_call(model: str, properties: dict[str, Any], units: Any, amount: Decimal) -> None:
    assert price(model, properties, units) == amount


@pytest.mark.parametrize(
    ("model", "properties", "units", "steps"),
    [
        ("standard", {"amount": D("0.25")}, 46, ["46.0 units x 0.25 each"]),
        (
            "graduated",
            TIERS,
            12,
            [
                "10.0 units from 0 to 10 x 2.0 = 20.0, with the flat amount of 0.0: 20.0",
                "2.0 units from 11 and above x 0.5 = 1.0, with the flat amount of 5.0: 6.0",
            ],
        ),
        ("percentage", {"rate": "1.2"}, 100, ["100.0 units x 1.2 % = 1.2"]),
    ],
)
def test_the_steps_to_a_price_are_told(model: str, properties: dict[str, Any], units: Any, steps: list[str]) -> None:
    assert list(price_steps(model, properties, units)) == steps


def test_events_decide_where_a_percentage_asks_for_them() -> None:
    terms = {"rate": "2", "fixed_amount": "1", "free_units_per_events": 1, "per_transaction_max_amount": "3"}
    assert price("percentage", terms, events=[100, 50, 1000]) == D(2 + 3)
    assert price("dynamic", {}, 2, amount_cents=1250, currency="EUR") == D("12.5")
    with pytest.raises(TypeError, match="units or events are missing"):
        price("standard", {"amount": "1"})


def test_cents_are_those_of_a_fee() -> None:
    assert price_cents("standard", {"amount": "0.005"}, 1, currency="EUR") == 1
    assert price_cents("standard", {"amount": "0.5"}, 1, currency="JPY") == 1
    assert price_cents("standard", {"amount": "1"}, -3) == 0


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"amount": 0.25}, "properties.amount is the float 0.25"),
        ({"amont": "1"}, "standard has no property amont; did you mean amount"),
    ],
)
def test_floats_and_typos_are_refused_by_name(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        price("standard", properties, 1)


def test_a_float_in_a_range_is_named_with_its_place() -> None:
    ranges = [{"from_value": 0, "to_value": None, "per_unit_amount": 0.1, "flat_amount": "0"}]
    with pytest.raises(TypeError, match=r"properties\.graduated_ranges\[0\]\.per_unit_amount is the float 0\.1"):
        price("graduated", {"graduated_ranges": ranges}, 1)


def test_what_no_charge_could_have_is_refused_with_its_codes() -> None:
    with pytest.raises(Invalid) as refused:
        price("graduated", {"graduated_ranges": []}, 1)
    assert refused.value.details == {"properties": ["missing_graduated_ranges"]}
    with pytest.raises(Invalid):
        price("gradual", {}, 1)
    with pytest.raises(TypeError, match="units is the float"):
        price("standard", {"amount": "1"}, 1.5)  # type: ignore[arg-type]


@given(price_lists(), quantities())
def test_every_price_list_that_is_drawn_is_valid(offer: PriceList, units: Decimal) -> None:
    assert price(*offer, units) >= 0


@given(price_lists("graduated", "package", "percentage", "standard"), quantities(), quantities())
def test_more_is_never_cheaper(offer: PriceList, units: Decimal, more: Decimal) -> None:
    assert price(*offer, units) <= price(*offer, units + more)


@given(amounts(5, decimals=2))
def test_amounts_are_texts_within_their_bounds(amount: str) -> None:
    assert 0 <= D(amount) <= 5


def test_there_are_no_price_lists_of_prices_that_events_bring() -> None:
    with pytest.raises(ValueError, match="no price lists of dynamic"):
        price_lists("dynamic")


@examples(25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(offer=price_lists(), units=st.integers(0, 20_000))
def test_an_invoice_says_the_same(offer: PriceList, units: int) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.plan(charge_on(box.metric("calls"), offer.charge_model, **offer.properties))
        box.subscribe()
        box.event("calls", value=units)
        (usage,) = box.usage()["charges_usage"]
        assert usage["amount_cents"] == price_cents(*offer, units, currency="EUR")
