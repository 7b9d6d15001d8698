"""Types of nested arguments of the library: `charge: ChargeFields = {...}`.

They follow from the input classes of operations, and are made when the first of them is asked for; type checkers and
editors know them from the stub of this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Required, TypeAlias, TypedDict, get_args

import attrs

from usagebill.core.pricing import MODELS
from usagebill.requests.reference import field_of, hints_of, is_price, required_inside, structures
from usagebill.requests.signatures import fields_name, type_text
from usagebill.resources import RESOURCES
from usagebill.resources.bindings import Operation

# A quantity, rate or price, exactly.
Number: TypeAlias = int | Decimal | str
# What the texts of types name.
_NAMED = (Any, Literal, Mapping, Required, Sequence, date)


class TypedFields(NamedTuple):
    """The meaning of a type of nested arguments, and the types of its fields as a `.pyi` file spells them."""

    about: str
    fields: Mapping[str, str]


def _nested(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and attrs.has(hint):
        yield hint
    for part in get_args(hint):
        yield from _nested(part)


def _nested_inputs() -> Mapping[str, type]:
    """The classes of values inside arguments, at any depth, by the names of their types."""
    operations = [
        value for resource in RESOURCES.values() for value in vars(resource).values() if isinstance(value, Operation)
    ]
    known: dict[str, type] = {"EventFields": structures.EventFields}
    pending = [*structures.MODEL_PROPERTIES.values()]
    pending += [kind for operation in operations for kind in operation.inputs.values()]
    for outer in pending:
        for kind in (kind for hint in hints_of(outer).values() if not is_price(hint) for kind in _nested(hint)):
            if fields_name(kind) not in known:
                known[fields_name(kind)] = kind
                pending.append(kind)
    return known


def _typed(kind: type) -> TypedFields:
    fields = {}
    for name, hint in hints_of(kind).items():
        text = type_text(hint, name, field_of(kind, name))
        is_required = name in required_inside(kind)
        text = f"{text} | None" if not is_required or name == "to_value" else text
        fields[name] = f"Required[{text}]" if is_required else text
    about = inspect.getdoc(kind) or ""
    return TypedFields("" if about.startswith("Method generated") else about, fields)


def _of_models(about: str, models: Sequence[str]) -> TypedFields:
    kinds = [structures.MODEL_PROPERTIES[model] for model in models]
    fields = {
        name: type_text(hint, name, field_of(kind, name)) for kind in kinds for name, hint in hints_of(kind).items()
    }
    return TypedFields(about, fields)


def typed_fields() -> Mapping[str, TypedFields]:
    """Every type by its name."""
    return {
        "ChargeProperties": _of_models(
            "The prices of a charge: the fields of its charge model.", tuple(structures.MODEL_PROPERTIES)
        ),
        "FixedChargeProperties": _of_models(
            "The prices of a fixed charge.", [name for name, model in MODELS.items() if model.of_fixed_charges]
        ),
        **{name: _typed(kind) for name, kind in _nested_inputs().items()},
    }


def __getattr__(name: str) -> Any:
    types = typed_fields()
    if name not in types:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update({known: TypedDict(known, row.fields, total=False) for known, row in types.items()})  # type: ignore[misc]
    return globals()[name]
