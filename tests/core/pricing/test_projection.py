"""Projected usage."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.money import percent

from usagebill.core.pricing import parse_properties
from usagebill.core.pricing.projection import Projection, project, projected_units
from usagebill.core.usage import Usage

D = Decimal


def projection(
    model: str,
    properties: dict[str, object],
    usage: Usage,
    currency: str = "EUR",
    *,
    days: int = 3,
    period_days: int = 31,
    recurring: bool = False,
    rate: Decimal | None = None,
) -> Projection:
    parsed = parse_properties(model, properties, subunits=100)
    return project(
        model, parsed, usage, currency, days=days, period_days=period_days, recurring=recurring, conversion_rate=rate
    )


def test_units_are_extended_and_rounded_before_they_are_priced() -> None:
    first = projection("standard", {"amount": "10"}, Usage(units=D(3)))
    assert [first.units, first.amount_cents] == [31, 31 * 10_00]
    second = projection("standard", {"amount": "20"}, Usage(units=D(1)))
    assert (second.units, second.amount_cents) == (D("10.33"), D("10.33") * 20_00)


def test_presentation_units_round_to_the_currency() -> None:
    assert projected_units(D("60.33642"), 5, 10, decimals=2) == D("120.67")


@pytest.mark.parametrize(("currency", "cents"), [("EUR", 10050), ("KWD", 100500), ("JPY", 101)])
def test_cents_are_those_of_the_currency(currency: str, cents: int) -> None:
    assert projection("standard", {"amount": "100.5"}, Usage(units=D(1)), currency, days=31).amount_cents == cents


def test_recurring_usage_stays_as_it_is() -> None:
    assert projection("standard", {"amount": "10"}, Usage(units=D(3)), recurring=True) == Projection(
        units=D(3), amount_cents=3 * 10_00, pricing_unit_amount_cents=None
    )


def test_nothing_before_the_period_and_everything_after_it() -> None:
    assert projection("standard", {"amount": "10"}, Usage(units=D(3)), days=0).amount_cents == 0
    assert projection("standard", {"amount": "10"}, Usage(units=D(3)), days=40).amount_cents == 3 * 10_00


def test_negative_usage_projects_to_nothing() -> None:
    for model, properties in (("standard", {"amount": "10"}), ("percentage", {"rate": "10"})):
        projected = projection(model, dict[str, object](properties), Usage(units=D(-3)))
        assert [projected.units, projected.amount_cents] == [0, 0]


def test_ranges_and_packages_are_those_of_the_projected_units() -> None:
    ranges = [
        {"from_value": 0, "to_value": 10, "per_unit_amount": "1", "flat_amount": "0"},
        {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "2"},
    ]
    usage = Usage(units=D(2))
    assert (
        projection("graduated", {"graduated_ranges": ranges}, usage, days=1, period_days=10).amount_cents
        == 10 * 1_00 + 10 * 50 + 2_00
    )
    assert projection("volume", {"volume_ranges": ranges}, usage, days=1, period_days=10).amount_cents == 20 * 50 + 2_00
    package: dict[str, object] = {"amount": "3", "package_size": 15, "free_units": 4}
    assert projection("package", package, usage, days=1, period_days=10).amount_cents == 2 * 3_00
    assert projection("package", {**package, "free_units": 20}, usage, days=1, period_days=10).amount_cents == 0


def test_the_amount_of_other_models_is_extended() -> None:
    usage = Usage(units=D(100), events_count=2, running_totals=(D(60), D(100)), amount_cents=D(500))
    terms: dict[str, object] = {"rate": "1", "fixed_amount": "1", "free_units_per_events": 1}
    assert projection("percentage", terms, usage, days=1, period_days=10).amount_cents == 10 * (
        percent(100_00, 1) + 1_00
    )
    assert projection("dynamic", {}, usage, days=1, period_days=10).amount_cents == 10 * 500


def test_pricing_units_are_converted() -> None:
    projected = projection("standard", {"amount": "10"}, Usage(units=D(3)), rate=D("0.5"))
    assert (projected.amount_cents, projected.pricing_unit_amount_cents) == (31 * 10_00 // 2, 31 * 10_00)
