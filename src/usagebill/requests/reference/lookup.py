"""Look-ups in the reference: by input class and field."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from usagebill.requests.inputs import INPUTS, Absent, Field, meaning_of, range_of, required_fields, shape_of
from usagebill.requests.reference.answers import SHOWN
from usagebill.requests.reference.fields import FIELDS
from usagebill.requests.reference.forms import FORMS
from usagebill.requests.reference.required import REQUIRED
from usagebill.requests.reference.structures import MODEL_PROPERTIES, SHAPES

T = TypeVar("T")


def bare(hint: Any) -> Any:
    """A type without null, `ABSENT` and marks; a number keeps its range."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [part for part in get_args(hint) if part is not type(None) and part != Literal[Absent.ABSENT]]
        return bare(options[0]) if len(options) == 1 else Union[tuple(options)]  # noqa: UP007
    if get_origin(hint) is Annotated and range_of(hint) is None:
        return get_args(hint)[1]
    return hint


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Field of an input class -> its type; also if the class accepts anything and the operation checks it."""
    fields = attrs.fields(attrs.resolve_types(kind))
    return {item.name: shape_of(item) or _shape(kind, item.name, bare(item.type)) for item in fields}


def _shape(kind: type, name: str, hint: Any) -> Any:
    known = _inherited(SHAPES, kind, name)
    if known is None and (hint in (object, str) or get_origin(hint) is Mapping):
        known = SHAPES.get(name)
        if hint is str and not (known is not None and name.endswith("_at")):
            return hint
    return hint if known is None else known


def is_price(hint: Any) -> bool:
    """Whether a type is that of a charge's properties."""
    options = get_args(hint)
    return bool(options) and all(option in MODEL_PROPERTIES.values() for option in options)


def hint_of(kind: type, name: str) -> Any:
    """The type of a field of an input class."""
    return hints_of(kind)[name]


def field_of(kind: type, name: str) -> Field:
    """The description of a field. Raises `LookupError` if there is none."""
    known = meaning_of(kind, name) or _inherited(FIELDS, kind, name) or FIELDS.get(name)
    if known is None:
        raise LookupError(
            f"{kind.__name__}.{name} is not `described`, and its name is not in usagebill.requests.reference.fields"
        )
    return known


def _inherited(known: Mapping[str, T], kind: type, name: str) -> T | None:
    """What is known of a field of an input class, or of the class that it extends."""
    places = (f"{parent.__name__}.{name}" for parent in kind.__mro__)
    return next((known[place] for place in places if place in known), None)


def _field_at(place: str) -> Field | None:
    """The description of a field of a request: `CouponInput.frequency`."""
    kind, _, name = place.partition(".")
    known = meaning_of(INPUTS[kind], name) if kind in INPUTS else None
    return known or FIELDS.get(place)


def shown_field(name: str, field: str) -> Field:
    """The description of a field of the answer object `name`. Raises `LookupError` if there is none.

    Descriptions are shared with requests for the same object: `PlanInput.interval` also describes the field of a
    `Plan`.
    """
    names = [name] if name not in FORMS else [name, FORMS[name]]
    for object_name in names:
        known = SHOWN.get(f"{object_name}.{field}") or _field_at(f"{object_name}Input.{field}")
        known = _field_at(known) if isinstance(known, str) else known
        if known is not None:
            return known
    known = SHOWN.get(field) or FIELDS.get(field)
    known = _field_at(known) if isinstance(known, str) else known
    if known is None:
        raise LookupError(f"{name}.{field} has no description in usagebill.requests.reference.answers")
    return known


def required_of(operation: str, kinds: Iterable[type]) -> tuple[str, ...]:
    """The required fields of an operation (`plans.create`) with these inputs."""
    if operation.partition(".")[2].startswith(("update", "preview_change")):
        return ()
    marked = tuple(name for kind in kinds for name in required_fields(kind, "new", "create"))
    return REQUIRED.get(operation) or marked


def required_inside(kind: type, *, new: bool = False) -> tuple[str, ...]:
    """The required fields of a part of a request; `new`: in a request that creates the record that it belongs to."""
    return required_fields(kind, "always", "new") if new else required_fields(kind, "always")
