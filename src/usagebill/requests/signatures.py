"""Signatures: the arguments of an operation as a Python function, with their types and meanings."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Union, get_args, get_origin

import attrs

from usagebill.requests.inputs import MOST_PER_PAGE, range_of
from usagebill.requests.reference import Field, field_of, hints_of, required_of

_INSTANTS = ("_at", "_date", "_from", "_to")
PAGING = {
    "page": Field("Which page, from 1 on.", default="1"),
    "per_page": Field(f"How many records a page holds, at most {MOST_PER_PAGE}.", default="100"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of an operation; `type` is as a `.pyi` file spells it."""

    name: str
    type: str
    required: bool
    # By position or by name; only by position if a field has the same name.
    positional: bool
    only_positional: bool = False
    field: Field


def arguments_of(path: Sequence[str], inputs: Mapping[str, type], *, paged: bool, operation: str) -> Iterator[Argument]:
    """The arguments of an operation (`plans.create`): path parameters, the fields of its inputs, and the page."""
    required = required_of(operation, inputs.values())
    fields = [(kind, name, hint) for kind in inputs.values() for name, hint in hints_of(kind).items()]
    clashing = {name for _, name, _ in fields}.intersection(path)
    for name in path:
        yield Argument(
            name=f"current_{name}" if name in clashing else name,
            type="str",
            required=True,
            positional=True,
            only_positional=bool(clashing),
            field=path_field(name),
        )
    known: set[str] = set()
    for kind, name, hint in sorted(fields, key=lambda row: row[1] not in required):
        if name not in known:
            known.add(name)
            field = field_of(kind, name)
            text = type_text(hint, name, field)
            needed = name in required
            text = text if needed else f"{text} | None"
            yield Argument(name=name, type=text, required=needed, positional=False, field=field)
    if paged:
        for name, field in PAGING.items():
            yield Argument(name=name, type="int", required=False, positional=False, field=field)


def path_field(name: str) -> Field:
    """The description of a path parameter."""
    known = {"external_id": "Your own id of it.", "id": "Its id.", "code": "Its code.", "key": "The key."}
    words = name.removesuffix("_id").removesuffix("_code").removeprefix("external_").replace("_", " ")
    by = "your own id" if name.startswith("external_") else "code" if name.endswith("_code") else "id"
    return Field(known.get(name, f"The {words}, by {by}."))


def type_text(hint: Any, name: str, field: Field | None = None) -> str:
    """A type as a `.pyi` file spells it: names of `usagebill.fields` for nested values, `Literal` for a set."""
    origin = get_origin(hint)
    values = tuple(str(value) for value in field.values) if field is not None else ()
    if hint is str:
        if values and name != "kind":  # a connection's kind often comes from configuration
            return f"Literal[{', '.join(_quoted(value) for value in values)}]"
        return "date | str" if name.endswith(_INSTANTS) else "str"
    if origin in (list, tuple):
        item = get_args(hint)[0]
        return f"Sequence[{type_text(item, '', None if item is str else field)}]"
    if origin is Mapping:
        return f"Mapping[str, {type_text(get_args(hint)[1], '')}]"
    if origin is Annotated and range_of(hint) is not None:
        return type_text(get_args(hint)[0], name)
    if origin in (Union, types.UnionType):
        return _either(get_args(hint))
    if isinstance(hint, type) and attrs.has(hint):
        return fields_name(hint)
    return {int: "int", bool: "bool", Decimal: "Number", datetime: "date | str"}.get(hint, "object")


def _either(options: Sequence[Any]) -> str:
    if all(isinstance(option, type) and attrs.has(option) for option in options):
        return "ChargeProperties" if len(options) > 3 else "FixedChargeProperties"
    if set(options) == {datetime, Decimal}:
        return "date | Number | float"
    return " | ".join(type_text(option, "") for option in options if option is not type(None)) + (
        " | None" if type(None) in options else ""
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


def fields_name(kind: type) -> str:
    """The name in `usagebill.fields` of a nested input class."""
    name = kind.__name__
    if name.endswith(("Input", "Targets")):
        return name.removesuffix("Input") + "Fields"
    return name


def signature_of(arguments: Sequence[Argument], returns: str) -> inspect.Signature:
    """The signature that `help()` and IDEs show, with the object itself as its first parameter."""
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    shown = [
        inspect.Parameter(
            argument.name,
            _kind(argument),
            default=inspect.Parameter.empty if argument.required else ...,
            annotation=argument.type,
        )
        for argument in arguments
    ]
    return inspect.Signature([itself, *shown], return_annotation=returns)


def _kind(argument: Argument) -> Any:
    if argument.only_positional:
        return inspect.Parameter.POSITIONAL_ONLY
    return inspect.Parameter.POSITIONAL_OR_KEYWORD if argument.positional else inspect.Parameter.KEYWORD_ONLY


def documentation(function: Callable[..., object], arguments: Sequence[Argument]) -> str:
    """The docstring of an operation for `help()`: its effect, then the meaning of each argument."""
    about = inspect.getdoc(function) or ""
    if not arguments:
        return about
    return "\n".join([about, "", *(f"{argument.name}: {_meaning(argument)}" for argument in arguments)]).strip()


def _meaning(argument: Argument) -> str:
    field = argument.field
    parts = [field.about]
    if field.unit:
        parts.append(f"In {field.unit}.")
    if field.values:
        parts.append(f"One of {', '.join(field.values)}.")
    if argument.required and not argument.positional:
        parts.append("Required.")
    elif field.default is not None:
        parts.append(f"Default: {field.default}.")
    return " ".join(parts)
