"""Instant estimates: what one event costs on its own, whatever was used before it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.currencies import cents_from_major, exponent
from usagebill.core.numbers import ZERO, divide, multiply, round_to
from usagebill.core.pricing import Properties, percentage, standard

__all__ = ["InstantEstimate", "instant_estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantEstimate:
    """The price of one event: `amount` in major units and unrounded, everything else in cents of the currency.

    `amount_cents` is whole; `unit_amount_cents` is not.
    """

    units: Decimal
    amount: Decimal
    amount_cents: Decimal
    unit_amount_cents: Decimal


def instant_estimate(properties: Properties, units: Decimal, currency: str) -> InstantEstimate | None:
    """What an event of `units` (after the metric's rounding) costs; None for a model that is not instant.

    No free units and no earlier usage. A percentage is held between its bounds, the fixed amount included. Negative
    units cost nothing.
    """
    match properties:
        case standard.StandardProperties():
            amount = multiply(units, properties.amount)
        case percentage.PercentageProperties():
            amount = percentage.bounded(properties, units)
        case _:
            return None
    if units < ZERO:
        amount = ZERO
    rounded = cents_from_major(round_to(amount, exponent(currency)), currency)
    return InstantEstimate(
        units=units,
        amount=amount,
        amount_cents=rounded,
        unit_amount_cents=ZERO if rounded.is_zero() or units.is_zero() else round_to(divide(rounded, units), 15),
    )
