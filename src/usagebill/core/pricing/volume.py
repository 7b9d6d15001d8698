"""Volume: every unit has the price of the range that the whole quantity falls into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import ONE, ZERO, add, decimal_text, divide, multiply, round_to
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.pricing.ranges import UNIT_AMOUNTS, Range, Ranges, default_range, range_errors
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeProperties:
    """`ranges` of the whole quantity; the rate of each is the price of one unit in major units."""

    ranges: Ranges


def price(properties: VolumeProperties, usage: Usage) -> Price:
    """Units times the rate of the range chosen by the full units, plus its flat amount; zero for negative units."""
    full = usage.shown_units
    if full < ZERO:
        return Price(amount=ZERO, divisor=full)
    price_range = range_of(properties.ranges, full)
    return Price(amount=add(multiply(usage.units, price_range.rate), price_range.flat_amount), divisor=full)


def range_of(ranges: Ranges, full: Decimal) -> Range:
    """The range that prices all units if the full quantity is `full`."""
    for range_ in ranges.ranges[:-1]:
        if range_.to_value is not None and full <= range_.to_value:
            return range_
    return ranges.ranges[-1]


def amount_details(properties: VolumeProperties, usage: Usage) -> dict[str, object]:
    """The flat amount, and the units' own amount per unit and in total; the price of a prorated unit is prorated."""
    full = usage.shown_units
    if full < ZERO:
        return {"flat_unit_amount": "0.0", "per_unit_amount": "0.0", "per_unit_total_amount": "0.0"}
    price_range = range_of(properties.ranges, full)
    units_amount = multiply(usage.units, price_range.rate)
    return {
        "flat_unit_amount": decimal_text(price_range.flat_amount),
        "per_unit_amount": decimal_text(ZERO if full.is_zero() else round_to(divide(units_amount, full), 15)),
        "per_unit_total_amount": decimal_text(units_amount),
    }


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties; ranges count whole units (0-10, 11-20)."""
    return range_errors(
        properties.get("volume_ranges"),
        missing="missing_volume_ranges",
        invalid="invalid_volume_ranges",
        amounts=UNIT_AMOUNTS,
        gap=ONE,
    )


def parse(properties: Mapping[str, object], subunits: int) -> VolumeProperties:
    """The typed form of valid raw properties."""
    return VolumeProperties(ranges=Ranges.read(properties.get("volume_ranges"), rate_key="per_unit_amount"))


VOLUME: Model[VolumeProperties] = Model(
    name="volume",
    keys=("volume_ranges",),
    required=(),
    defaults={"volume_ranges": [default_range("per_unit_amount")]},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=False,
    prorated_in_arrears=True,
    prorated_in_advance=False,
    of_fixed_charges=True,
    by_units=True,
    by_quantity=True,
    is_linear=False,
    instant_price=None,
    difference_details=None,
    costs_at_zero=False,
    prorated_by_step=False,
    by_percentage=False,
    by_event_prices=False,
    by_program=False,
    needs_event_values=never,
)
