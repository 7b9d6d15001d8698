"""The valid combinations of charge model, metric and payment terms, and the error codes of all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, AggregationType
from usagebill.core.limits import CHARGE_MINIMUM, CONVERSION_RATE, FIXED_UNITS
from usagebill.core.numbers import parse_decimal
from usagebill.core.pricing import MODELS, validate_properties
from usagebill.core.pricing.model import Model
from usagebill.core.pricing.properties import is_blank, number

# The invoicing of a charge whose fees are paid one by one: the paid ones together, at the end of the period.
REGROUPED = "invoice"

Errors = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeTerms:
    """A usage charge as sent, with the two relevant facts about its metric."""

    charge_model: str | None
    aggregation_type: str
    recurring: bool
    properties: Mapping[str, object]
    pay_in_advance: bool = False
    prorated: bool = False
    invoiceable: bool = True
    min_amount_cents: int = 0
    regroup_paid_fees: str | None = None


def charge_errors(terms: ChargeTerms) -> Errors:
    """Every error of a usage charge, by field; empty if it may be saved. `properties` are normalized ones."""
    name, aggregation = terms.charge_model, AGGREGATIONS[terms.aggregation_type]
    if name is None or name not in MODELS:
        return {"charge_model": ("value_is_mandatory" if is_blank(name) else "value_is_invalid",)}
    errors: Errors = {}
    model = MODELS[name]
    property_errors = validate_properties(name, terms.properties)
    if model.by_percentage and not aggregation.by_percentage:
        property_errors = (*property_errors, "invalid_value")
    if aggregation.event_values is None and model.needs_event_values(terms.properties):
        property_errors = (*property_errors, "invalid_value")
    if property_errors:
        errors["properties"] = property_errors
    if terms.pay_in_advance and not (model.in_advance and aggregation.in_advance):
        errors["pay_in_advance"] = ("invalid_aggregation_type_or_charge_model",)
    if terms.prorated and not _may_be_prorated(terms, model, aggregation):
        errors["prorated"] = ("invalid_billable_metric_or_charge_model",)
    if (model.by_event_prices and not aggregation.sums_event_prices) or (
        model.by_program and not aggregation.is_program
    ):
        errors["charge_model"] = ("invalid_aggregation_type_or_charge_model",)
    if not CHARGE_MINIMUM.holds(terms.min_amount_cents):
        errors["min_amount_cents"] = ("value_is_out_of_range",)
    elif terms.min_amount_cents > 0 and terms.pay_in_advance:
        errors["min_amount_cents"] = ("not_compatible_with_pay_in_advance",)
    if not terms.invoiceable and not terms.pay_in_advance:
        errors["invoiceable"] = ("must_be_true_unless_pay_in_advance",)
    errors.update(_regrouping_errors(terms))
    return errors


def _may_be_prorated(terms: ChargeTerms, model: Model[Any], aggregation: AggregationType) -> bool:
    if not terms.recurring or aggregation.accumulation is Accumulation.LEVEL:
        return False
    return model.prorated_in_advance if terms.pay_in_advance else model.prorated_in_arrears


def _regrouping_errors(terms: ChargeTerms) -> Errors:
    if is_blank(terms.regroup_paid_fees):
        return {}
    if terms.regroup_paid_fees != REGROUPED:
        return {"regroup_paid_fees": ("value_is_invalid",)}
    if terms.pay_in_advance and not terms.invoiceable:
        return {}
    return {"regroup_paid_fees": ("only_compatible_with_pay_in_advance_and_non_invoiceable",)}


def pricing_unit_errors(conversion_rate: object, *, is_known: bool) -> Errors:
    """The errors of an applied pricing unit: its raw conversion rate, and whether a unit of its code exists."""
    errors: Errors = {}
    rate = _decimal(conversion_rate)
    if is_blank(conversion_rate):
        errors["conversion_rate"] = ("value_is_mandatory", "is not a number")
    elif rate is None:
        errors["conversion_rate"] = ("is not a number",)
    elif not CONVERSION_RATE.holds(rate):
        errors["conversion_rate"] = ("value_is_out_of_range",)
    if not is_known:
        errors["pricing_unit"] = ("relation_must_exist",)
    return errors


def fixed_charge_errors(
    charge_model: str | None,
    properties: Mapping[str, object],
    *,
    units: object,
    pay_in_advance: bool = False,
    prorated: bool = False,
) -> Errors:
    """Every error of a fixed charge, by field; `units` as sent, a number or its text."""
    model = MODELS.get(charge_model or "")
    if charge_model is None or model is None or not model.of_fixed_charges:
        return {"charge_model": ("value_is_mandatory" if is_blank(charge_model) else "value_is_invalid",)}
    errors: Errors = {}
    property_errors = validate_properties(charge_model, properties)
    if property_errors:
        errors["properties"] = property_errors
    quantity = _decimal(units)
    if quantity is None:
        errors["units"] = ("is not a number",)
    elif not FIXED_UNITS.holds(quantity):
        errors["units"] = ("value_is_out_of_range",)
    if pay_in_advance and not model.in_advance:
        errors["pay_in_advance"] = ("invalid_charge_model",)
    if model.prorated_by_step and pay_in_advance and prorated:
        errors["prorated"] = ("invalid_charge_model",)
    return errors


def _decimal(value: object) -> Decimal | None:
    return parse_decimal(value) if isinstance(value, str) else number(value)
