"""Custom: the amount is the one accumulated by the metric's own program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.limits import MOST_ENTRIES, longest_list
from usagebill.core.numbers import divide
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProperties:
    """`subunits` is the number of the program's cents in one major unit."""

    subunits: Decimal


def price(properties: CustomProperties, usage: Usage) -> Price:
    """The accumulated amount."""
    return Price(amount=divide(usage.amount_cents, properties.subunits), divisor=usage.shown_units)


def amount_details(properties: CustomProperties, usage: Usage) -> dict[str, object]:
    """Nothing to explain."""
    return {}


def validate(properties: Mapping[str, object]) -> list[str]:
    """`custom_properties` belong to the program; only the length of their lists is checked."""
    return ["too_many_values"] if longest_list(properties) > MOST_ENTRIES else []


def parse(properties: Mapping[str, object], subunits: int) -> CustomProperties:
    """Only the currency matters."""
    return CustomProperties(subunits=Decimal(subunits))


CUSTOM: Model[CustomProperties] = Model(
    name="custom",
    keys=("custom_properties",),
    required=(),
    defaults={},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=False,
    prorated_in_advance=False,
    of_fixed_charges=False,
    by_units=False,
    by_quantity=False,
    is_linear=False,
    instant_price=None,
    difference_details=None,
    costs_at_zero=False,
    prorated_by_step=False,
    by_percentage=False,
    by_event_prices=False,
    by_program=True,
    needs_event_values=never,
)
