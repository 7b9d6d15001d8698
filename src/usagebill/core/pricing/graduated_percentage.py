"""Graduated percentage: each range charges a percentage of the units that fall into it, and adds a flat amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.limits import CHARGE_AMOUNT, CHARGE_RATE
from usagebill.core.numbers import ZERO, add, decimal_text, divide, multiply, round_to, subtract
from usagebill.core.pricing.graduated import bound
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.pricing.ranges import Ranges, Share, default_range, range_errors, shares, sum_over_ranges
from usagebill.core.usage import Usage

_PERCENT = Decimal("0.01")
_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraduatedPercentageProperties:
    """`ranges` from the first unit upwards; the rate of each is a fraction (0.01 for one percent)."""

    ranges: Ranges


def price(properties: GraduatedPercentageProperties, usage: Usage) -> Price:
    """The sum over the ranges that the units reach."""
    return Price(amount=sum_over_ranges(properties.ranges, usage.units), divisor=usage.shown_units)


def amount_details(properties: GraduatedPercentageProperties, usage: Usage) -> dict[str, object]:
    """One entry for each range that is reached."""
    return {
        "graduated_percentage_ranges": [
            _details(share, units=share.units, per_unit_total=share.amount, flat=share.range.flat_amount)
            for share in shares(properties.ranges, usage.units)
        ]
    }


def difference_details(
    properties: GraduatedPercentageProperties, with_usage: Usage, without_usage: Usage
) -> dict[str, object]:
    """The addition of one event to each range that the usage with it reaches.

    `per_unit_total_amount` is a price for one unit here: the range's addition over its added units, at two decimals.
    """
    before = [] if without_usage.units.is_zero() else shares(properties.ranges, without_usage.units)
    entries = []
    for position, share in enumerate(shares(properties.ranges, with_usage.units)):
        units, amount, flat = share.units, share.amount, share.range.flat_amount
        if position < len(before):
            units = subtract(units, before[position].units)
            amount = subtract(amount, before[position].amount)
            flat = ZERO
        per_unit = round_to(divide(add(amount, flat), units), 2) if units > ZERO else ZERO
        entries.append(_details(share, units=units, per_unit_total=per_unit, flat=flat, total=add(amount, flat)))
    return {"graduated_percentage_ranges": entries}


def _details(
    share: Share, *, units: Decimal, per_unit_total: Decimal, flat: Decimal, total: Decimal | None = None
) -> dict[str, object]:
    return {
        "from_value": bound(share.range.from_value),
        "to_value": None if share.range.to_value is None else bound(share.range.to_value),
        "units": decimal_text(units),
        "rate": decimal_text(multiply(share.range.rate, _HUNDRED)),
        "per_unit_total_amount": decimal_text(per_unit_total),
        "flat_unit_amount": decimal_text(flat),
        "total_with_flat_amount": decimal_text(add(per_unit_total, flat) if total is None else total),
    }


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties; ranges touch or count whole units, as in graduated pricing."""
    return range_errors(
        properties.get("graduated_percentage_ranges"),
        missing="missing_graduated_percentage_ranges",
        invalid="invalid_graduated_percentage_ranges",
        amounts=(("flat_amount", CHARGE_AMOUNT, "invalid_amount"), ("rate", CHARGE_RATE, "invalid_rate")),
        gap=ZERO,
    )


def parse(properties: Mapping[str, object], subunits: int) -> GraduatedPercentageProperties:
    """The typed form of valid raw properties."""
    raw = properties.get("graduated_percentage_ranges")
    return GraduatedPercentageProperties(ranges=Ranges.read(raw, rate_key="rate", scale=_PERCENT))


GRADUATED_PERCENTAGE: Model[GraduatedPercentageProperties] = Model(
    name="graduated_percentage",
    keys=("graduated_percentage_ranges",),
    required=(),
    defaults={"graduated_percentage_ranges": [default_range("rate")]},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=False,
    prorated_in_advance=False,
    of_fixed_charges=False,
    by_units=False,
    by_quantity=True,
    is_linear=False,
    instant_price=None,
    difference_details=difference_details,
    costs_at_zero=True,
    prorated_by_step=False,
    by_percentage=True,
    by_event_prices=False,
    by_program=False,
    needs_event_values=never,
)
