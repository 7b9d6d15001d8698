"""The prices of a charge as a form: each charge model's properties as fields, and ranges as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from usagebill.console.fields import Field, Kind, Row, in_row, rows_of, text_of, value_of, values_of
from usagebill.core.numbers import ONE, add, decimal_text, parse_decimal
from usagebill.core.pricing import MODELS

_NO_LIMIT = Field("to_value", "To, including", Kind.NUMBER)
_RANGE_FIELDS: Mapping[str, Sequence[Field]] = {
    "graduated_ranges": (
        Field("per_unit_amount", "A unit", Kind.NUMBER),
        Field("flat_amount", "Flat, once reached", Kind.NUMBER),
    ),
    "graduated_percentage_ranges": (
        Field("rate", "Percent", Kind.NUMBER),
        Field("flat_amount", "Flat, once reached", Kind.NUMBER),
    ),
    "volume_ranges": (
        Field("per_unit_amount", "A unit, of all", Kind.NUMBER),
        Field("flat_amount", "Flat", Kind.NUMBER),
    ),
}
_PROPERTY_FIELDS: Mapping[str, Field] = {
    "amount": Field("amount", "Price", Kind.NUMBER, required=True),
    "package_size": Field("package_size", "Units in a package", Kind.WHOLE, required=True),
    "free_units": Field("free_units", "Free units", Kind.WHOLE, required=True),
    "rate": Field("rate", "Percent", Kind.NUMBER, required=True),
    "fixed_amount": Field("fixed_amount", "Fixed amount for each event", Kind.NUMBER),
    "free_units_per_events": Field("free_units_per_events", "Free events", Kind.WHOLE),
    "free_units_per_total_aggregation": Field("free_units_per_total_aggregation", "Free units", Kind.NUMBER),
    "per_transaction_min_amount": Field("per_transaction_min_amount", "At least, for each event", Kind.NUMBER),
    "per_transaction_max_amount": Field("per_transaction_max_amount", "At most, for each event", Kind.NUMBER),
}
# Prices of a program cannot be sent, and so not typed.
TYPED_MODELS: Sequence[str] = tuple(name for name, model in MODELS.items() if not model.by_program)
_GROUPS = Field("pricing_group_keys", "Priced apart by", Kind.LIST, hint="Properties of events, apart by commas")


def ranges_key(model: str) -> str | None:
    """The property with the model's ranges; None if it has none."""
    return next((key for key in MODELS[model].keys if key in _RANGE_FIELDS), None)


def range_fields(model: str) -> Sequence[Field]:
    """The fields of a row of the model's ranges."""
    key = ranges_key(model)
    return () if key is None else (_NO_LIMIT, *_RANGE_FIELDS[key])


def property_fields(model: str, *, by_group: bool = True) -> Sequence[Field]:
    """The fields of the model's other properties; `by_group`, also of the groups that are priced apart."""
    own = tuple(_PROPERTY_FIELDS[key] for key in MODELS[model].keys if key in _PROPERTY_FIELDS)
    return (*own, _GROUPS) if by_group else own


def ranges_of(model: str, form: Mapping[str, str]) -> Sequence[Row]:
    """The rows of the model's ranges as they were typed, and empty ones for more."""
    return rows_of(range_fields(model), form)


def untyped(model: str, properties: Mapping[str, object]) -> dict[str, object]:
    """Those of a charge's properties that no form has, and a change keeps."""
    typed = {field.name for field in property_fields(model)} | {ranges_key(model), "grouped_by"}
    return {name: value for name, value in properties.items() if name not in typed}


def properties_of(model: str, form: Mapping[str, str]) -> dict[str, object]:
    """The properties that somebody typed, as a charge of this model takes them. Raises `Invalid`."""
    # A required one that is empty is refused, where a charge without any properties would be free.
    required = {field.name: None for field in property_fields(model) if field.required}
    properties = required | values_of(property_fields(model), form)
    key = ranges_key(model)
    if key is not None:
        properties[key] = _ranges(key, [row for row in ranges_of(model, form) if any(row.texts.values())])
    return properties


def _ranges(key: str, rows: Sequence[Row]) -> list[dict[str, object]]:
    """Each range begins where the one before ends; empty amounts are free."""
    made: list[dict[str, object]] = []
    begin = parse_decimal("0")
    for row in rows:
        sent = value_of(_NO_LIMIT, row.texts[_NO_LIMIT.name])
        end = None if sent is None else parse_decimal(str(sent))
        amounts = {field.name: value_of(field, row.texts[field.name]) or "0" for field in _RANGE_FIELDS[key]}
        made.append({"from_value": begin, "to_value": end, **amounts})
        begin = None if end is None else add(end, ONE) if key == "volume_ranges" else end
    return made


def form_of(model: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a charge as the texts of its form."""
    texts = {field.name: text_of(field, properties.get(field.name)) for field in property_fields(model)}
    key = ranges_key(model)
    for place, item in enumerate(properties.get(key) or () if key else ()):
        for field in range_fields(model):
            texts[in_row(place, field.name)] = text_of(field, item.get(field.name))
    return texts


def furthest_of(properties: Mapping[str, Any]) -> str:
    """The units that a price sheet shows at first: half as many again as the last bound of the ranges, or 100."""
    bounds = [
        item["to_value"]
        for value in properties.values()
        if isinstance(value, list)
        for item in value
        if isinstance(item, Mapping) and item.get("to_value") is not None
    ]
    last = parse_decimal(str(bounds[-1])) if bounds else None
    return "100" if last is None else decimal_text(last + last / 2)
