"""Projection: the expected cost of a period's usage at its present pace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.numbers import ZERO, divide, multiply, round_to
from usagebill.core.pricing import MODELS, Properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.model import Price
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Units and amount of one fee at the end of its period; `pricing_unit_amount_cents` if it has a pricing unit."""

    units: Decimal
    amount_cents: int
    pricing_unit_amount_cents: int | None


def projected_units(units: Decimal, days: int, period_days: int, *, decimals: int = 2) -> Decimal:
    """`units` used on the first `days` days of `period_days`, extended to all of them and rounded to `decimals`.

    Zero before the first day and for negative units.
    """
    if days <= 0 or period_days <= 0 or units <= ZERO:
        return ZERO
    return round_to(_extended(units, days, period_days), decimals)


def _extended(value: Decimal, days: int, period_days: int) -> Decimal:
    if days >= period_days:
        return value
    return divide(multiply(value, Decimal(period_days)), Decimal(days))


def project(
    charge_model: str,
    properties: Properties,
    usage: Usage,
    currency: str,
    *,
    days: int,
    period_days: int,
    recurring: bool,
    conversion_rate: Decimal | None = None,
) -> Projection:
    """The projection of one fee (a charge, one of its filters, one group).

    `days` are the days of the period so far, today included, out of `period_days`. The usage of a `recurring` metric is
    not extended. Free units do not lower the projected percentage of a percentage charge.
    """
    if recurring:
        ahead, units = usage, usage.shown_units
        due = price(charge_model, properties, usage)
    elif days <= 0 or period_days <= 0:
        return Projection(units=ZERO, amount_cents=0, pricing_unit_amount_cents=None if conversion_rate is None else 0)
    elif MODELS[charge_model].by_units:
        # If units alone decide the price, the projected units are priced; otherwise the amount so far is extended.
        units = projected_units(usage.units, days, period_days)
        ahead = Usage(units=units)
        due = price(charge_model, properties, ahead)
    else:
        ahead, units = usage, projected_units(usage.units, days, period_days)
        so_far = price(charge_model, properties, replace(usage, running_totals=()))
        due = Price(amount=_extended(so_far.amount, days, period_days), divisor=units)
    fee = fee_amounts(due, ahead, currency, conversion_rate=conversion_rate)
    return Projection(
        units=max(units, ZERO),
        amount_cents=fee.amount_cents,
        pricing_unit_amount_cents=None if fee.pricing_unit is None else fee.pricing_unit.amount_cents,
    )
