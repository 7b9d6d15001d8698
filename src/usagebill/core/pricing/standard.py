"""Standard: every unit costs the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import multiply
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.pricing.properties import amount, amount_or_zero
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardProperties:
    """`amount` is the price of one unit, in major units."""

    amount: Decimal


def price(properties: StandardProperties, usage: Usage) -> Price:
    """Units times the price of one."""
    return Price(amount=multiply(usage.units, properties.amount), divisor=usage.shown_units)


def amount_details(properties: StandardProperties, usage: Usage) -> dict[str, object]:
    """Nothing to explain."""
    return {}


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties."""
    return ["invalid_amount"] if amount(properties.get("amount")) is None else []


def instant_price(properties: StandardProperties, units: Decimal) -> Decimal:
    """The price of one event with these units."""
    return multiply(units, properties.amount)


def parse(properties: Mapping[str, object], subunits: int) -> StandardProperties:
    """The typed form of valid raw properties."""
    return StandardProperties(amount=amount_or_zero(properties.get("amount")))


STANDARD: Model[StandardProperties] = Model(
    name="standard",
    keys=("amount",),
    required=("amount",),
    defaults={"amount": "0"},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=True,
    prorated_in_advance=True,
    of_fixed_charges=True,
    by_units=True,
    by_quantity=True,
    is_linear=True,
    instant_price=instant_price,
    difference_details=None,
    costs_at_zero=False,
    prorated_by_step=False,
    by_percentage=False,
    by_event_prices=False,
    by_program=False,
    needs_event_values=never,
)
