"""Pay in advance: what one event adds to the price of everything before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from usagebill.core.numbers import ZERO, decimal_text, subtract
from usagebill.core.pricing import MODELS, amount_details, standard
from usagebill.core.pricing import price as model_price
from usagebill.core.usage import Usage

if TYPE_CHECKING:
    from usagebill.core.pricing import Properties

__all__ = ["AdvancePrice", "pay_in_advance_price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancePrice:
    """The price of one event: `amount` in major units, unrounded and never negative, and how it came about.

    `basis` is for explanations: the two prices whose difference it is, or the prorated units, where neither the units
    nor the details say so.
    """

    amount: Decimal
    amount_details: dict[str, object]
    basis: dict[str, object]


def pay_in_advance_price(
    charge_model: str, properties: Properties, with_usage: Usage, without_usage: Usage
) -> AdvancePrice:
    """The price of the usage with the event, less the price of the usage without it.

    `with_usage` is everything up to and including the event; `without_usage` has the event's billed units taken off,
    one event less, and the event left out of its `event_values` and `amount_cents`. Free units are those of the usage
    with the event on both sides. A graduated charge pays its first flat amount with the event that leaves zero.
    """
    before = replace(without_usage, running_totals=with_usage.running_totals)
    difference = subtract(_amount(charge_model, properties, with_usage), _amount(charge_model, properties, before))
    return AdvancePrice(
        amount=max(difference, ZERO),
        amount_details=_details(charge_model, properties, with_usage, before),
        basis=_basis(charge_model, properties, with_usage, before),
    )


def _basis(charge_model: str, properties: Properties, with_usage: Usage, before: Usage) -> dict[str, object]:
    if isinstance(properties, standard.StandardProperties):
        if with_usage.full_units is None:
            return {}
        return {"prorated_units": decimal_text(with_usage.units), "unit_amount": decimal_text(properties.amount)}
    if MODELS[charge_model].difference_details is not None:
        return {}
    return {
        name: {
            "units": decimal_text(usage.units),
            "amount": decimal_text(_amount(charge_model, properties, usage)),
            "details": {} if usage.units.is_zero() else amount_details(charge_model, properties, usage),
        }
        for name, usage in (("with_event", with_usage), ("without_event", before))
    }


def _amount(charge_model: str, properties: Properties, usage: Usage) -> Decimal:
    # What is due at no usage in arrears, the first unit pays in advance.
    if usage.units.is_zero() and MODELS[charge_model].costs_at_zero:
        return ZERO
    return model_price(charge_model, properties, usage).amount


def _details(charge_model: str, properties: Properties, with_usage: Usage, before: Usage) -> dict[str, object]:
    details = MODELS[charge_model].difference_details
    return {} if details is None else details(properties, with_usage, before)
