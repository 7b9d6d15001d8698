"""Standard: every unit costs the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import multiply
from usagebill.core.pricing.model import Model, Price
from usagebill.core.pricing.properties import amount, amount_or_zero
from usagebill.core.usage import Usage

__all__ = ["STANDARD", "StandardProperties", "price"]


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


def parse(properties: Mapping[str, object], subunits: int) -> StandardProperties:
    """Valid raw properties, read."""
    return StandardProperties(amount=amount_or_zero(properties.get("amount")))


STANDARD: Model[StandardProperties] = Model(
    name="standard",
    keys=("amount",),
    defaults={"amount": "0"},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
)
