"""Instant estimates: the price of one event on its own, whatever was used before it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.currencies import cents_from_major, exponent
from usagebill.core.numbers import ZERO, divide, round_to
from usagebill.core.pricing import MODELS, Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantEstimate:
    """The price of one event: `amount` in major units and unrounded, everything else in cents of the currency.

    `amount_cents` is whole; `unit_amount_cents` is not.
    """

    units: Decimal
    amount: Decimal
    amount_cents: Decimal
    unit_amount_cents: Decimal


def instant_estimate(
    charge_model: str, properties: Properties, units: Decimal, currency: str
) -> InstantEstimate | None:
    """The price of an event of `units` (after the metric's rounding); None for a model that is not instant.

    No free units and no earlier usage. A percentage is held between its bounds, the fixed amount included. Negative
    units cost nothing.
    """
    instant_price = MODELS[charge_model].instant_price
    if instant_price is None:
        return None
    amount = instant_price(properties, units) if units >= ZERO else ZERO
    rounded = cents_from_major(round_to(amount, exponent(currency)), currency)
    return InstantEstimate(
        units=units,
        amount=amount,
        amount_cents=rounded,
        unit_amount_cents=ZERO if rounded.is_zero() or units.is_zero() else round_to(divide(rounded, units), 15),
    )
