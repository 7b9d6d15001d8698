"""Instant estimates of one event."""

from __future__ import annotations

from decimal import Decimal

import pytest

from usagebill.core.pricing import parse_properties
from usagebill.core.pricing.estimates import InstantEstimate, instant_estimate

D = Decimal


def estimate(model: str, properties: dict[str, object], units: str, currency: str = "EUR") -> InstantEstimate:
    estimated = instant_estimate(model, parse_properties(model, properties, subunits=100), D(units), currency)
    assert estimated is not None
    return estimated


@pytest.mark.parametrize(
    ("model", "properties", "units", "cents"),
    [
        ("percentage", {"rate": "0.1"}, "400", "40"),
        ("percentage", {"rate": "10"}, "1", "10"),
        ("standard", {"amount": "10"}, "500", "500000"),
        ("standard", {"amount": "10"}, "-2", "0"),
        ("percentage", {"rate": "10", "fixed_amount": "1"}, "0", "100"),
        ("percentage", {"rate": "1", "fixed_amount": "1", "per_transaction_max_amount": "1.5"}, "100", "150"),
        ("percentage", {"rate": "1", "per_transaction_min_amount": "12"}, "4", "1200"),
        ("percentage", {"rate": "1", "per_transaction_min_amount": "12"}, "-4", "0"),
        ("percentage", {"rate": "50", "free_units_per_events": 1}, "4", "200"),
    ],
)
def test_each_event_alone(model: str, properties: dict[str, object], units: str, cents: str) -> None:
    assert estimate(model, properties, units).amount_cents == D(cents)


def test_unrounded_and_unit_amounts() -> None:
    estimated = estimate("standard", {"amount": "0.3333"}, "3")
    assert [estimated.amount, estimated.amount_cents] == [D("0.9999"), 100]
    assert estimated.unit_amount_cents == D("33.333333333333333")
    assert estimate("percentage", {"rate": "1", "fixed_amount": "1"}, "0").unit_amount_cents == 0


def test_currencies_without_cents() -> None:
    assert estimate("standard", {"amount": "10.5"}, "1", "JPY").amount_cents == 11


def test_other_models_have_no_instant_price() -> None:
    package = parse_properties("package", {"amount": "1", "free_units": 0, "package_size": 1}, subunits=100)
    assert instant_estimate("package", package, D(1), "EUR") is None
