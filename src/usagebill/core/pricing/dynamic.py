"""Dynamic: every event carries its own price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import ZERO, divide
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicProperties:
    """`subunits` is the number of cents, as carried by events, in one major unit."""

    subunits: Decimal


def price(properties: DynamicProperties, usage: Usage) -> Price:
    """The sum of the events' own prices; zero if their units sum to zero."""
    amount = ZERO if usage.units.is_zero() else divide(usage.amount_cents, properties.subunits)
    return Price(amount=amount, divisor=usage.shown_units)


def amount_details(properties: DynamicProperties, usage: Usage) -> dict[str, object]:
    """Nothing to explain."""
    return {}


def validate(properties: Mapping[str, object]) -> list[str]:
    """Nothing to check: there are no properties."""
    return []


def parse(properties: Mapping[str, object], subunits: int) -> DynamicProperties:
    """Only the currency matters."""
    return DynamicProperties(subunits=Decimal(subunits))


DYNAMIC: Model[DynamicProperties] = Model(
    name="dynamic",
    keys=(),
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
    by_event_prices=True,
    by_program=False,
    needs_event_values=never,
)
