"""Sent fields: the values in a caller's input that would be ignored or truncated, at any depth.

Inputs are read leniently (`inputs.read`), as existing clients of the API expect. Strict callers check here: the library
always, the API on request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import attrs

from usagebill.core.near_names import near_name
from usagebill.core.numbers import parse_decimal
from usagebill.core.pricing import MODELS
from usagebill.requests.reference import hints_of, is_price
from usagebill.requests.reference.structures import MODEL_PROPERTIES, PresentationKey

UNKNOWN = "unknown_field"
FRACTIONAL = "value_is_not_an_integer"
_GROUPING = frozenset({"pricing_group_keys", "presentation_group_keys", "grouped_by"})
_RANGES = frozenset({"graduated_ranges", "volume_ranges", "graduated_percentage_ranges"})
_OF_RANGES = frozenset({"from_value", "to_value", "per_unit_amount", "flat_amount", "rate"})
# Classes that may have other fields too: CloudEvents may have any extensions.
_OPEN = frozenset({"CloudEventFields"})


class Slip(NamedTuple):
    """A field that would not have the intended effect."""

    path: str
    code: str
    find_near: Callable[[], str | None] = lambda: None

    @property
    def near(self) -> str | None:
        """A name that may have been meant, which is looked for only now."""
        return self.find_near()


def field_names(kind: type) -> frozenset[str]:
    """The names of the fields of an input."""
    return frozenset(_hints(kind))


def near_field(name: str, kind: type) -> str | None:
    """The field that an unknown name may have meant: a nested one of that name, or one spelled alike."""
    inside = [f"{outer}.{name}" for outer, field in _hints(kind).items() if field.inner and name in _hints(field.inner)]
    return inside[0] if len(inside) == 1 else near_name(name, _hints(kind))


def slips(kind: type, source: Mapping[str, object], path: str = "") -> Iterator[Slip]:
    """The values in `source` that an input of `kind` would ignore or truncate to an integer; `path` is the place of
    `source`.
    """
    hints = _hints(kind)
    model = source.get("charge_model")
    for name, value in source.items():
        if name not in hints:
            yield Slip(path + name, UNKNOWN, partial(near_field, name, kind))
        elif value is not None:
            yield from _within(hints[name], value, name, path + name, model if isinstance(model, str) else None)


class _Field(NamedTuple):
    """The type of a field: an integer, properties of a charge model, or one or several of an input class."""

    is_integer: bool
    inner: type | None
    is_list: bool
    is_price: bool


@cache
def _hints(kind: type) -> Mapping[str, _Field]:
    # The charge model reports errors in ranges.
    counts = kind not in MODEL_PROPERTIES.values()
    return {name: _field(hint, counts) for name, hint in hints_of(kind).items()}


def _field(hint: Any, counts: bool) -> _Field:
    is_list = get_origin(hint) in (list, tuple)
    inner = get_args(hint)[0] if is_list else hint
    return _Field(
        is_integer=counts and (hint is int or (get_origin(hint) is Annotated and get_args(hint)[0] is int)),
        inner=inner if isinstance(inner, type) and attrs.has(inner) and inner.__name__ not in _OPEN else None,
        is_list=is_list,
        is_price=is_price(hint),
    )


def _within(field: _Field, value: object, name: str, path: str, model: str | None) -> Iterator[Slip]:
    if field.is_integer:
        if _is_fractional(value):
            yield Slip(path, FRACTIONAL)
    elif field.inner is not None:
        if field.is_list and _is_flat(field.inner) and _are_known(_hints(field.inner).keys(), _listed(value)):
            return
        items = [(path, value)]
        if field.is_list:
            items = [(f"{path}[{place}]", item) for place, item in enumerate(_listed(value))]
        for place, item in items:
            if isinstance(item, Mapping):
                known = {**item, "charge_model": model} if name == "filters" and model is not None else item
                yield from _without(slips(field.inner, known, f"{place}."), f"{place}.charge_model")
    elif field.is_price and isinstance(value, Mapping):
        yield from _properties(value, path, model)


@cache
def _is_flat(kind: type) -> bool:
    """Whether only the names of an input's fields can be wrong."""
    return not any(field.is_integer or field.inner or field.is_price for field in _hints(kind).values())


def _are_known(names: Set[str], items: Sequence[object]) -> bool:
    # Batches of events pass through here, event by event.
    return all(isinstance(item, dict) and names >= item.keys() for item in items)


def _without(slips: Iterator[Slip], path: str) -> Iterator[Slip]:
    """The slips except those at `path`: filters are priced by the model of their charge, which they do not name."""
    return (slip for slip in slips if slip.path != path)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _is_fractional(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal, float)):
        return False
    number = parse_decimal(value.strip()) if isinstance(value, str) else Decimal(str(value))
    return number is not None and number.is_finite() and number != number.to_integral_value()


def _properties(properties: Mapping[str, object], path: str, model: str | None) -> Iterator[Slip]:
    """Properties that no charge model has, or not the one named. Nulls are ignored."""
    known = MODELS.get(model or "")
    keys = {*(known.keys if known is not None else _all_keys()), *_GROUPING}
    if known is not None and known.by_program:
        return
    for name, value in properties.items():
        if name not in keys and value is not None:
            yield Slip(f"{path}.{name}", UNKNOWN, partial(near_name, name, keys))
        elif name == "presentation_group_keys":
            for place, item in enumerate(_listed(value)):
                if isinstance(item, Mapping):
                    yield from slips(PresentationKey, item, f"{path}.{name}[{place}].")
        elif name in _RANGES:
            for place, item in enumerate(_listed(value)):
                if isinstance(item, Mapping):
                    yield from _unknown(item, _OF_RANGES, f"{path}.{name}[{place}]")


@cache
def _all_keys() -> frozenset[str]:
    return frozenset(key for model in MODELS.values() for key in model.keys)


def _unknown(value: Mapping[str, object], known: Collection[str], path: str) -> Iterator[Slip]:
    for name in value:
        if name not in known:
            yield Slip(f"{path}.{name}", UNKNOWN, partial(near_name, name, known))
