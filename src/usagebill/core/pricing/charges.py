"""Which combinations of charge model, metric and payment terms a charge may have, and with which code others fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.limits import CHARGE_MINIMUM, CONVERSION_RATE, FIXED_UNITS
from usagebill.core.numbers import parse_decimal
from usagebill.core.pricing import MODELS, validate_properties
from usagebill.core.pricing.properties import is_blank, number

__all__ = ["ChargeTerms", "Errors", "charge_errors", "fixed_charge_errors", "pricing_unit_errors"]

Errors = dict[str, tuple[str, ...]]

_ADVANCE_AGGREGATIONS = frozenset({"count_agg", "sum_agg", "unique_count_agg", "custom_agg"})
_PRORATED_IN_ARREARS = frozenset({"standard", "volume", "graduated"})
_PERCENTAGES = frozenset({"percentage", "graduated_percentage"})
_FIXED_CHARGE_MODELS = frozenset({"standard", "graduated", "volume"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeTerms:
    """A usage charge as it is sent, with the two facts about its metric that matter here."""

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
    """Every error of a usage charge, by field; empty where it may be saved. `properties` are normalized ones."""
    model, aggregation = terms.charge_model, terms.aggregation_type
    if model is None or model not in MODELS:
        return {"charge_model": ("value_is_mandatory" if is_blank(model) else "value_is_invalid",)}
    errors: Errors = {}
    property_errors = validate_properties(model, terms.properties)
    if model in _PERCENTAGES and aggregation == "latest_agg":
        property_errors = (*property_errors, "invalid_value")
    if property_errors:
        errors["properties"] = property_errors
    if terms.pay_in_advance and (model == "volume" or aggregation not in _ADVANCE_AGGREGATIONS):
        errors["pay_in_advance"] = ("invalid_aggregation_type_or_charge_model",)
    if terms.prorated and not _may_be_prorated(terms, model):
        errors["prorated"] = ("invalid_billable_metric_or_charge_model",)
    if (model == "dynamic" and aggregation != "sum_agg") or (model == "custom" and aggregation != "custom_agg"):
        errors["charge_model"] = ("invalid_aggregation_type_or_charge_model",)
    if not CHARGE_MINIMUM.holds(terms.min_amount_cents):
        errors["min_amount_cents"] = ("value_is_out_of_range",)
    elif terms.min_amount_cents > 0 and terms.pay_in_advance:
        errors["min_amount_cents"] = ("not_compatible_with_pay_in_advance",)
    if not terms.invoiceable and not terms.pay_in_advance:
        errors["invoiceable"] = ("must_be_true_unless_pay_in_advance",)
    errors.update(_regrouping_errors(terms))
    return errors


def _may_be_prorated(terms: ChargeTerms, model: str) -> bool:
    if not terms.recurring or terms.aggregation_type == "weighted_sum_agg":
        return False
    return model == "standard" if terms.pay_in_advance else model in _PRORATED_IN_ARREARS


def _regrouping_errors(terms: ChargeTerms) -> Errors:
    if is_blank(terms.regroup_paid_fees):
        return {}
    if terms.regroup_paid_fees != "invoice":
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
    """Every error of a fixed charge, by field; `units` as they were sent, a number or its text."""
    if charge_model is None or charge_model not in _FIXED_CHARGE_MODELS:
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
    if charge_model == "volume" and pay_in_advance:
        errors["pay_in_advance"] = ("invalid_charge_model",)
    if charge_model == "graduated" and pay_in_advance and prorated:
        errors["prorated"] = ("invalid_charge_model",)
    return errors


def _decimal(value: object) -> Decimal | None:
    return parse_decimal(value) if isinstance(value, str) else number(value)
