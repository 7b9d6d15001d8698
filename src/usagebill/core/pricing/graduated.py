"""Graduated: each range prices the units that fall into it, and adds a flat amount once it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import ZERO, add, decimal_text
from usagebill.core.pricing import prorated_graduated
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.pricing.ranges import (
    UNIT_AMOUNTS,
    Ranges,
    Share,
    default_range,
    range_errors,
    shares,
    sum_over_ranges,
)
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class GraduatedProperties:
    """`ranges` from the first unit upwards; the rate of each is the price of one unit in major units."""

    ranges: Ranges


def price(properties: GraduatedProperties, usage: Usage) -> Price:
    """The sum over the ranges that the units reach; for prorated quantities, over their stretches."""
    if usage.stretches is not None:
        return prorated_graduated.price(properties.ranges, usage.units, usage.stretches)
    return Price(amount=sum_over_ranges(properties.ranges, usage.units), divisor=usage.shown_units)


def amount_details(properties: GraduatedProperties, usage: Usage) -> dict[str, object]:
    """One entry for each range that is reached; empty for prorated quantities."""
    if usage.stretches is not None:
        return {}
    return {"graduated_ranges": [_details(share) for share in shares(properties.ranges, usage.units)]}


def _details(share: Share) -> dict[str, object]:
    return {
        "from_value": bound(share.range.from_value),
        "to_value": None if share.range.to_value is None else bound(share.range.to_value),
        "units": decimal_text(share.units),
        "per_unit_amount": decimal_text(ZERO if share.units.is_zero() else share.range.rate),
        "per_unit_total_amount": decimal_text(share.amount),
        "flat_unit_amount": decimal_text(share.range.flat_amount),
        "total_with_flat_amount": decimal_text(add(share.amount, share.range.flat_amount)),
    }


def bound(value: Decimal) -> int | Decimal:
    """A range bound as a JSON number: an integer if it is whole."""
    whole = int(value)
    return whole if whole == value else value


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties. Ranges touch (0-10, 10-20) or count whole units (0-10, 11-20)."""
    return range_errors(
        properties.get("graduated_ranges"),
        missing="missing_graduated_ranges",
        invalid="invalid_graduated_ranges",
        amounts=UNIT_AMOUNTS,
        gap=ZERO,
    )


def parse(properties: Mapping[str, object], subunits: int) -> GraduatedProperties:
    """The typed form of valid raw properties."""
    return GraduatedProperties(ranges=Ranges.read(properties.get("graduated_ranges"), rate_key="per_unit_amount"))


GRADUATED: Model[GraduatedProperties] = Model(
    name="graduated",
    keys=("graduated_ranges",),
    required=(),
    defaults={"graduated_ranges": [default_range("per_unit_amount")]},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=True,
    prorated_in_advance=False,
    of_fixed_charges=True,
    by_units=True,
    by_quantity=True,
    is_linear=False,
    instant_price=None,
    difference_details=None,
    costs_at_zero=True,
    prorated_by_step=True,
    by_percentage=False,
    by_event_prices=False,
    by_program=False,
    needs_event_values=never,
)
