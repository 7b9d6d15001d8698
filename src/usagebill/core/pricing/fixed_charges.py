"""Fixed charges: agreed units of an add-on, priced for a period or for the rest of a period that is already paid."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.numbers import ZERO, divide, multiply, round_cents, subtract
from usagebill.core.pricing import MODELS, Properties, price
from usagebill.core.pricing.fees import FeeAmounts, fee_amounts
from usagebill.core.pricing.model import NOTHING
from usagebill.core.usage import ProrationStep, Usage


def fixed_charge_amounts(
    charge_model: str, properties: Properties, currency: str, *, units: Decimal, full_units: Decimal | None = None
) -> FeeAmounts:
    """The fee of a fixed charge for one period. Its `events_count` is meaningless (always 0).

    `units` are prorated if `full_units`, the units at the end of the period, are given. The fee shows the full units,
    which also choose the ranges.
    """
    usage = fixed_charge_usage(charge_model, units=units, full_units=full_units)
    return fee_amounts(price(charge_model, properties, usage), usage, currency)


def fixed_charge_usage(charge_model: str, *, units: Decimal, full_units: Decimal | None) -> Usage:
    """The units of a fixed charge as its charge model prices them; see `fixed_charge_amounts`."""
    stretches = None
    if full_units is not None and MODELS[charge_model].prorated_by_step:
        stretches = (ProrationStep(full=full_units, prorated=units),)
    return Usage(units=units, full_units=full_units, stretches=stretches)


def units_change_amounts(
    charge_model: str,
    properties: Properties,
    currency: str,
    *,
    new_units: Decimal,
    paid_units: Decimal,
    days: int,
    period_days: int,
) -> FeeAmounts:
    """The fee for units added to a fixed charge during a period that is paid in advance.

    `paid_units` is the sum over the fees already issued for the period. `days` are the remaining days, the day of the
    change and the last day included, out of `period_days`; pass the same number twice if the charge is not prorated.
    The added units are priced from the first range on. Fewer units than paid give an empty fee.
    """
    added = max(subtract(new_units, paid_units), ZERO)
    usage = Usage(units=divide(multiply(added, Decimal(days)), Decimal(period_days)), full_units=added)
    due = NOTHING if added.is_zero() else price(charge_model, properties, usage)
    fee = fee_amounts(due, usage, currency)
    unit_cents = 0 if added.is_zero() else round_cents(divide(Decimal(fee.amount_cents), added))
    return fee._replace(unit_amount_cents=unit_cents)


def unused_cents(paid_cents: int, *, days: int, paid_days: int) -> int:
    """The unused cents of a fee in advance, which an upgrade deducts from the new plan's fee for the same add-on.

    `paid_cents` covers `paid_days` days, from the issue of the fee to the end of its period, of which `days` are left.
    """
    if paid_days <= 0:
        return 0
    return round_cents(divide(multiply(Decimal(paid_cents), Decimal(days)), Decimal(paid_days)))
