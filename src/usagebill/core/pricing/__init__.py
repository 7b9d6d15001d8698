"""Pricing: the cost of usage. One module for each charge model; `MODELS` maps the wire value to it.

Properties are checked (`validate_properties`) and converted to their stored form (`normalized_properties`) when a
charge is written; they are then parsed into a typed record (`parse_properties`), which prices any number of usages
(`price`, `amount_details`). All prices are unrounded amounts in major units of the charge's currency, or of its pricing
unit; `usagebill.core.pricing.fees` turns them into cents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from usagebill.core.pricing.custom import CUSTOM, CustomProperties
from usagebill.core.pricing.dynamic import DYNAMIC, DynamicProperties
from usagebill.core.pricing.graduated import GRADUATED, GraduatedProperties
from usagebill.core.pricing.graduated_percentage import GRADUATED_PERCENTAGE, GraduatedPercentageProperties
from usagebill.core.pricing.model import (
    Model as Model,
    Price as Price,
)
from usagebill.core.pricing.package import PACKAGE, PackageProperties
from usagebill.core.pricing.percentage import PERCENTAGE, PercentageProperties
from usagebill.core.pricing.properties import grouping_errors, normalized_grouping
from usagebill.core.pricing.standard import STANDARD, StandardProperties
from usagebill.core.pricing.volume import VOLUME, VolumeProperties
from usagebill.core.usage import Usage

Properties: TypeAlias = (
    StandardProperties
    | GraduatedProperties
    | GraduatedPercentageProperties
    | PackageProperties
    | PercentageProperties
    | VolumeProperties
    | DynamicProperties
    | CustomProperties
)

# Each model only receives properties that it parsed itself, which the type of one mapping cannot express.
MODELS: Mapping[str, Model[Any]] = {
    model.name: model
    for model in (STANDARD, GRADUATED, GRADUATED_PERCENTAGE, PACKAGE, PERCENTAGE, VOLUME, DYNAMIC, CUSTOM)
}

# A pricing unit always has a hundred subunits.
PRICING_UNIT_SUBUNITS = 100


class PropertiesError(ValueError):
    """Properties that their charge model cannot price; `codes` are the reasons, in order."""

    def __init__(self, codes: tuple[str, ...]) -> None:
        super().__init__(", ".join(codes))
        self.codes = codes


def validate_properties(charge_model: str, properties: Mapping[str, object]) -> tuple[str, ...]:
    """The error codes of raw `properties`, in order and with repeats, all of the field `properties`.

    Amounts must be JSON strings of decimals of at least zero; whole numbers must be JSON integers. KeyError for a
    charge model that does not exist.
    """
    return (*MODELS[charge_model].validate(properties), *grouping_errors(properties))


def normalized_properties(
    charge_model: str, properties: Mapping[str, object] | None, *, of_filter: bool = False
) -> dict[str, object]:
    """Raw `properties` in the form in which they are stored, which may still be invalid.

    Missing or empty properties become the model's defaults; keys of other models are dropped; grouping keys are
    stored under `pricing_group_keys`. Properties of a charge filter (`of_filter`) have no defaults and no
    presentation keys.
    """
    model = MODELS[charge_model]
    if not properties:
        return {} if of_filter else dict(model.defaults)
    kept = {key: properties[key] for key in model.keys if key in properties}
    return {**kept, **normalized_grouping(properties, presentation=not of_filter)}


def displayed_properties(properties: Mapping[str, object]) -> dict[str, object]:
    """Stored `properties` as responses show them: the pricing group keys also under their former name, and the bound
    of an open range as null, even if it was sent without one.
    """
    shown = {name: _with_open_ends(value) if name.endswith("_ranges") else value for name, value in properties.items()}
    if "pricing_group_keys" in properties:
        shown["grouped_by"] = properties["pricing_group_keys"]
    return shown


def _with_open_ends(ranges: object) -> object:
    if not isinstance(ranges, list | tuple):
        return ranges
    return [{**item, "to_value": item.get("to_value")} if isinstance(item, Mapping) else item for item in ranges]


def grouping_keys(properties: Mapping[str, object]) -> tuple[str, ...]:
    """The event properties that stored `properties` group usage by, in order; none if usage is not grouped."""
    keys = properties.get("pricing_group_keys")
    return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, list | tuple) else ()


def parse_properties(charge_model: str, properties: Mapping[str, object], *, subunits: int) -> Properties:
    """Stored `properties` as the typed record that `price` takes: parse once, price many times.

    `subunits` is the number of cents in one major unit of the currency that the charge is priced in: the plan's
    (`currencies.subunits`), or `PRICING_UNIT_SUBUNITS`. Raises `PropertiesError` for properties that do not validate.
    """
    codes = validate_properties(charge_model, properties)
    if codes:
        raise PropertiesError(codes)
    parsed: Properties = MODELS[charge_model].parse(properties, subunits)
    return parsed


def price(charge_model: str, properties: Properties, usage: Usage) -> Price:
    """The price of `usage` under `properties`; never fails for properties of this model, whatever the units."""
    return MODELS[charge_model].price(properties, usage)


def amount_details(charge_model: str, properties: Properties, usage: Usage) -> dict[str, object]:
    """The steps to the amount of `usage`, ready for JSON: decimals as text, counts and whole bounds as integers.

    A range bound with a fraction stays a `Decimal`, to be written as a JSON number. `{}` for models without details.
    """
    return MODELS[charge_model].amount_details(properties, usage)
