"""Pay in advance: the amount that one event adds to the price of all events before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from usagebill.core.numbers import ZERO, decimal_text, subtract
from usagebill.core.pricing import MODELS, amount_details, price as model_price
from usagebill.core.pricing.custom import CustomProperties
from usagebill.core.pricing.dynamic import DynamicProperties
from usagebill.core.pricing.graduated import GraduatedProperties
from usagebill.core.pricing.graduated_percentage import GraduatedPercentageProperties
from usagebill.core.pricing.package import PackageProperties
from usagebill.core.pricing.percentage import PercentageProperties
from usagebill.core.pricing.standard import StandardProperties
from usagebill.core.pricing.volume import VolumeProperties
from usagebill.core.usage import Usage

if TYPE_CHECKING:
    from usagebill.core.pricing import Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancePrice:
    """The price of one event: `amount` in major units, unrounded and never negative, and its derivation.

    `basis` is for explanations: the two prices whose difference it is, or the prorated units, if neither the units
    nor the details show them.
    """

    amount: Decimal
    amount_details: dict[str, object]
    basis: dict[str, object]


def pay_in_advance_price(
    charge_model: str, properties: Properties, with_usage: Usage, without_usage: Usage
) -> AdvancePrice:
    """The price of the usage with the event, less the price of the usage without it.

    `with_usage` is everything up to and including the event; `without_usage` lacks the event's billed units, counts
    one event less, and leaves the event out of its `event_values` and `amount_cents`. On both sides, free units are
    those of the usage with the event. A graduated charge pays its first flat amount with the event that leaves zero.
    """
    before = replace(without_usage, running_totals=with_usage.running_totals)
    difference = subtract(_amount(charge_model, properties, with_usage), _amount(charge_model, properties, before))
    return AdvancePrice(
        amount=max(difference, ZERO),
        amount_details=_details(charge_model, properties, with_usage, before),
        basis=_basis(charge_model, properties, with_usage, before),
    )


def _basis(charge_model: str, properties: Properties, with_usage: Usage, before: Usage) -> dict[str, object]:
    match properties:
        case StandardProperties(amount=unit_amount):
            if with_usage.full_units is None:
                return {}
            return {"prorated_units": decimal_text(with_usage.units), "unit_amount": decimal_text(unit_amount)}
        case (
            GraduatedProperties()
            | GraduatedPercentageProperties()
            | PackageProperties()
            | PercentageProperties()
            | VolumeProperties()
            | DynamicProperties()
            | CustomProperties()
        ):
            if MODELS[charge_model].difference_details is not None:
                return {}
            return _two_prices(charge_model, properties, with_usage, before)
        case _:
            assert_never(properties)


def _two_prices(charge_model: str, properties: Properties, with_usage: Usage, before: Usage) -> dict[str, object]:
    return {
        name: {
            "units": decimal_text(usage.units),
            "amount": decimal_text(_amount(charge_model, properties, usage)),
            "details": {} if usage.units.is_zero() else amount_details(charge_model, properties, usage),
        }
        for name, usage in (("with_event", with_usage), ("without_event", before))
    }


def _amount(charge_model: str, properties: Properties, usage: Usage) -> Decimal:
    # Amounts due without usage in arrears are paid with the first unit in advance.
    if usage.units.is_zero() and MODELS[charge_model].costs_at_zero:
        return ZERO
    return model_price(charge_model, properties, usage).amount


def _details(charge_model: str, properties: Properties, with_usage: Usage, before: Usage) -> dict[str, object]:
    details = MODELS[charge_model].difference_details
    return {} if details is None else details(properties, with_usage, before)
