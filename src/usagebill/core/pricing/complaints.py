"""Errors in the prices of a charge, for people: the place within its properties, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from usagebill.core.limits import CHARGE_AMOUNT, CHARGE_RATE, FREE_EVENTS, FREE_UNITS, MOST_RANGES, PACKAGE_SIZE, Range
from usagebill.core.numbers import ONE, add, parse_decimal
from usagebill.core.pricing.model import Model
from usagebill.core.pricing.properties import amount, is_blank, is_whole, number

_RATES = frozenset({"rate"})
_AMOUNTS: Mapping[str, tuple[str, Range, str]] = {
    # key -> code, range, an example
    "amount": ("invalid_amount", CHARGE_AMOUNT, "0.25"),
    "rate": ("invalid_rate", CHARGE_RATE, "2.5"),
    "fixed_amount": ("invalid_fixed_amount", CHARGE_AMOUNT, "0.25"),
    "free_units_per_total_aggregation": ("invalid_free_units_per_total_aggregation", FREE_UNITS, "100"),
    "per_transaction_min_amount": ("invalid_amount", CHARGE_AMOUNT, "0.25"),
    "per_transaction_max_amount": ("invalid_amount", CHARGE_AMOUNT, "0.25"),
}
_WHOLES: Mapping[str, tuple[str, Range]] = {
    "free_units": ("invalid_free_units", FREE_UNITS),
    "package_size": ("invalid_package_size", PACKAGE_SIZE),
    "free_units_per_events": ("invalid_free_units_per_events", FREE_EVENTS),
}
# Key of a list of ranges -> its amounts, and whether a range begins one above the end of the previous one.
_RANGES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "graduated_ranges": (("per_unit_amount", "flat_amount"), False),
    "graduated_percentage_ranges": (("flat_amount", "rate"), False),
    "volume_ranges": (("per_unit_amount", "flat_amount"), True),
}


class Complaint(NamedTuple):
    """`code` is as in `validate_properties`, `place` within the properties; `text` continues a sentence that starts
    with the place.
    """

    code: str
    place: str
    text: str


def complaints(model: Model[Any], properties: Mapping[str, object]) -> Iterator[Complaint]:
    """Errors in the prices in raw properties of this model."""
    for key in model.keys:
        value = properties.get(key)
        if key in _RANGES:
            yield from _of_ranges(key, value)
        elif is_blank(value) and key not in model.required:
            continue
        elif key in _AMOUNTS:
            code, limit, example = _AMOUNTS[key]
            if amount(value, limit) is None:
                yield Complaint(code, key, _no_amount(value, limit, example, percent=key in _RATES))
        elif key in _WHOLES:
            code, limit = _WHOLES[key]
            if not is_whole(value, limit):
                yield Complaint(code, key, _no_whole(value, limit))


def _no_amount(value: object, limit: Range, example: str, *, percent: bool = False) -> str:
    kind = "rate in percent" if percent else "amount"
    if value is None:
        return f'is missing; send the {kind} as text, for instance "{example}"'
    if number(value) is not None:
        return f'is a number; send text, which keeps every digit: "{value}"'
    parsed = parse_decimal(value) if isinstance(value, str) else None
    if parsed is not None and parsed >= 0:
        return f"is beyond the range of the {kind}, {limit.least} to {limit.most}"
    return f'is no {kind}; send a decimal of at least 0 as text, for instance "{example}"'


def _no_whole(value: object, limit: Range) -> str:
    if value is None:
        return f"is missing; send an integer of at least {limit.least}"
    if isinstance(value, str):
        return f"is text; send an integer of at least {limit.least}, without quotes"
    return f"is no integer from {limit.least} to {limit.most}"


def _of_ranges(key: str, raw: object) -> Iterator[Complaint]:
    if not isinstance(raw, list | tuple) or not raw:
        yield Complaint(
            f"missing_{key}", key, "has no ranges; send a list of at least one, from 0 on, the last one open"
        )
        return
    if len(raw) > MOST_RANGES:
        yield Complaint(f"invalid_{key}", key, f"has {len(raw)} ranges; there may be {MOST_RANGES}")
        return
    amounts, counts_on = _RANGES[key]
    before: object = None
    for position, item in enumerate(raw):
        place = f"{key}[{position}]"
        fields: Mapping[str, object] = item if isinstance(item, Mapping) else {}
        for name in amounts:
            code, limit = ("invalid_rate", CHARGE_RATE) if name in _RATES else ("invalid_amount", CHARGE_AMOUNT)
            value = fields.get(name)
            if amount(value, limit) is None:
                text = _no_amount(value, limit, "0.25", percent=name in _RATES)
                yield Complaint(code, f"{place}.{name}", text)
        bounds = _bounds_text(fields, before, first=position == 0, last=position == len(raw) - 1, counts_on=counts_on)
        if bounds is not None:
            yield Complaint(f"invalid_{key}", place, bounds)
        before = fields.get("to_value")


def _bounds_text(
    fields: Mapping[str, object], before: object, *, first: bool, last: bool, counts_on: bool
) -> str | None:
    """The error in the bounds of a range; None if there is none. `before` is the end of the previous range."""
    start, end, previous = number(fields.get("from_value")), fields.get("to_value"), number(before)
    if start is None:
        shown = fields.get("from_value")
        return "has no `from_value`" if shown is None else f"`from_value` is {shown!r}; send a number, without quotes"
    if first and start not in (Decimal(0), ONE):
        return f"starts at {start}; the first range starts at 0"
    if not first and previous is None:
        return None  # reported for the previous range
    if not first and previous is not None and start not in (*(() if counts_on else (previous,)), add(previous, ONE)):
        begin = add(previous, ONE) if counts_on else previous
        return f"starts at {start}, the range before ends at {previous}; start it at {begin}"
    if last:
        return None if end is None else f"ends at {end}; the last range is open: `to_value: null`"
    if number(end) is None:
        return "is open, and other ranges follow it; only the last range has `to_value: null`"
    return None if _is_above(end, start) else f"ends at {end}, where it starts or before; end it above {start}"


def _is_above(end: object, start: Decimal) -> bool:
    bound = number(end)
    return bound is not None and bound > start
