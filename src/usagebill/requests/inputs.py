"""Inputs: the fields that a caller sends to an operation, as attrs classes; absent fields stay absent.

The same classes serve library callers (keyword arguments) and HTTP bodies. `read` turns parsed JSON into one: scalars
are converted where that is harmless (`"10"` for an integer, a number for a text), values of the wrong shape count as
absent, unknown keys are ignored, and null is a value. A list of more than `MOST_ENTRIES` entries is refused before any
of them is read (`described(most=...)`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import cattrs

from usagebill.core import limits
from usagebill.core.blank import is_blank
from usagebill.core.error_codes import CODES
from usagebill.core.errors import Invalid, joined_place
from usagebill.core.instants import parse_instant
from usagebill.core.limits import Range
from usagebill.core.numbers import is_bounded, parse_decimal, truncate_to

T = TypeVar("T")


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
Maybe: TypeAlias = Union[T, Literal[Absent.ABSENT], None]  # noqa: UP007


# Every input class by its name.
INPUTS: Final[dict[str, type]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def Input(kind: type[T]) -> type[T]:  # noqa: N802
    """Decorate an input class: keyword arguments only, each with ABSENT as its default."""
    decorated = INPUTS[kind.__name__] = attrs.frozen(kw_only=True)(kind)
    return decorated


@dataclass(frozen=True, slots=True)
class Field:
    """The meaning of a field. `unit` is that of its number, `default` the value if it is not sent, in words.

    `values` are all permitted values (of each item, in a list); `example` is a valid value.
    `nullable`: null is a value even if the field is required.
    """

    about: str
    values: Sequence[str] = ()
    default: str | None = None
    unit: str | None = None
    example: object = None
    nullable: bool = False


# When a field has to be sent. `create`: to the operation that creates what its class describes. `new`: to that one, and
# in a part of a request that creates what the part belongs to (elsewhere it may name an existing one by `id`).
Required: TypeAlias = Literal["always", "new", "create"]
_FIELD, _REQUIRED, _SHAPE, _MOST = "field", "required", "shape", "most"


def described(
    about: str = "",
    *,
    values: Sequence[str] = (),
    default: str | None = None,
    unit: str | None = None,
    example: object = None,
    required: Required | None = None,
    shape: Any = None,
    most: int | None = limits.MOST_ENTRIES,
    secret: bool = False,
) -> Any:
    """A field with its meaning (see `Field`), for OpenAPI, `help()` and stubs.

    Without `about` it means what its name means everywhere (`reference/fields.py`). `shape` is for a field that the
    operation reads itself: its class, or a list of them (`tuple[...]`). `most` is how many entries its lists may have
    (None: the operation checks it). A `secret` is not in the `repr` of its class.
    """
    meaning = Field(about, values=values, default=default, unit=unit, example=example) if about else None
    metadata = {_FIELD: meaning, _REQUIRED: required, _SHAPE: shape, _MOST: most}
    return attrs.field(default=ABSENT, repr=not secret, metadata=metadata)


def meaning_of(kind: type, name: str) -> Field | None:
    """The meaning of a field from `described`, if its class has such a field."""
    field = attrs.fields_dict(kind).get(name)
    meaning: Field | None = None if field is None else field.metadata.get(_FIELD)
    return meaning


def required_fields(kind: type, *when: Required) -> tuple[str, ...]:
    """The fields that `described` requires then, in the order of the class."""
    return tuple(field.name for field in attrs.fields(kind) if field.metadata.get(_REQUIRED) in when)


def shape_of(field: attrs.Attribute[Any]) -> Any:
    """The class of a field's values from `described`; None if its type says it."""
    return field.metadata.get(_SHAPE)


MOST_PER_PAGE = 1000


def _page_size(wanted: int) -> int:
    return min(wanted, MOST_PER_PAGE)


@attrs.frozen(kw_only=True)
class Paging:
    """The requested page of a list, from 1, and its size: at most 1,000 items, even if more are requested."""

    page: int = 1
    per_page: int = attrs.field(default=100, converter=_page_size)


class _Dropped(Exception):
    """The value is an empty text, list or object where another one belongs: the field counts as absent."""


class _Bad(Exception):
    def __init__(self, code: str) -> None:
        self.code = code


def _misshapen(value: object) -> _Dropped | _Bad:
    return _Dropped() if is_blank(value) else _Bad("invalid_type")


def is_given(value: object) -> bool:
    """Whether the caller sent the field, null included."""
    return value is not ABSENT


def value_or(value: T | Literal[Absent.ABSENT] | None, default: T) -> T:
    """The value sent, or `default` if it is absent or null."""
    return default if value is None or value is ABSENT else value


def changes(sent: Any, *names: str) -> dict[str, Any]:
    """The fields that the caller sent, by name (all fields of the input, or only `names`)."""
    wanted = names or tuple(item.name for item in attrs.fields(type(sent)))
    return {name: getattr(sent, name) for name in wanted if getattr(sent, name) is not ABSENT}


_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "off", "OFF"})


def _text(value: object, _: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise _misshapen(value)


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
        raise _Bad("is not a number")
    if isinstance(value, str):
        number = parse_decimal(value.strip())
        if number is None:
            raise _Bad("is not a number")
        return number
    if not is_bounded(value):
        raise _Bad("value_is_out_of_range")
    return Decimal(value)


def _unlimited(_: object, hint: Any) -> Any:
    raise TypeError(f"a number needs a range: Annotated[{hint.__name__}, limits...]")


def range_of(hint: Any) -> Range | None:
    """The range in a number's type, such as `Annotated[int, limits.PLAN_FEE]`; None without one."""
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Range)), None)


def _limited(hint: Any) -> Callable[[Any, Any], Any]:
    limit, kind = range_of(hint), get_args(hint)[0]

    def structure(value: Any, _: Any) -> Any:
        number = truncate_to(_number(value), 0) if kind is int else _number(value)
        if limit is not None and limit.is_beyond(number):
            raise _Bad("value_is_out_of_range")
        return kind(number)

    return structure


def _boolean(value: object, _: Any) -> bool | None:
    if value == "":
        return None
    if isinstance(value, str):
        return value not in _FALSE
    if isinstance(value, (int, Decimal)):
        return value != 0
    return True


def _instant(value: object, _: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    parsed = parse_instant(value) if isinstance(value, str) else None
    if parsed is None:
        raise _Bad("invalid_date")
    return parsed


def _object(value: object, _: Any) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _misshapen(value)
    return value


def _without_absent(hint: Any) -> Any:
    options = [o for o in get_args(hint) if o is not type(None) and o != Literal[Absent.ABSENT]]
    return options[0] if len(options) == 1 else Union[tuple(options)]  # noqa: UP007


def _is_maybe(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _maybe(hint: Any) -> Callable[[Any, Any], Any]:
    inner = _without_absent(hint)

    def structure(value: Any, _: Any) -> Any:
        return None if value is None else _converter.structure(value, inner)

    return structure


def _is_mapping(hint: Any) -> bool:
    return get_origin(hint) is Mapping


def _is_list(hint: Any) -> bool:
    return get_origin(hint) in (list, tuple)


def _list(hint: Any) -> Callable[[Any, Any], Any]:
    item = get_args(hint)[0]

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _misshapen(value)
        items = []
        for position, element in enumerate(value):
            if element is None:
                continue
            try:
                items.append(_converter.structure(element, item))
            except _Dropped:
                continue
            except Invalid as problem:
                problem.place = joined_place(f"[{position}]", problem.place)
                raise
        return tuple(items)

    return structure


def _is_read(hint: Any) -> bool:
    """Whether values of a type are read here to their end, and not by the operation."""
    inner = _inner(hint)
    return inner is not object and not _is_mapping(inner)


def _entries(value: object, *, is_read: bool) -> int:
    """The number of entries of a list, or of the longest one inside if nothing here reads what is inside."""
    if not is_read:
        return limits.longest_list(value)
    return len(value) if isinstance(value, (list, tuple)) else 0


def _class(kind: Any) -> Callable[[Any, Any], Any]:
    fields_of_kind = attrs.fields(attrs.resolve_types(kind))
    hints = {item.name: item.type for item in fields_of_kind}
    most = {item.name: item.metadata.get(_MOST, limits.MOST_ENTRIES) for item in fields_of_kind}

    def structure(value: Any, _: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise _misshapen(value)
        fields: dict[str, Any] = {}
        wrong: dict[str, object] = {}
        reasons: dict[str, str] = {}
        for name, hint in hints.items():
            if name in value:
                if most[name] is not None and (length := _entries(value[name], is_read=_is_read(hint))) > most[name]:
                    code = f"too_many_{name}"
                    wrong[name] = [code if code in CODES else "too_many_values"]
                    reasons[name] = f"has {length:,} values; send at most {most[name]:,}"
                    continue
                try:
                    fields[name] = _converter.structure(value[name], hint)
                except _Dropped:
                    continue
                except _Bad as problem:
                    wrong[name] = [problem.code]
                except Invalid as problem:
                    problem.place = joined_place(name, problem.place)
                    raise
        if wrong:
            raise Invalid(wrong, reasons=reasons)
        return kind(**fields)

    return structure


_converter = cattrs.Converter(detailed_validation=False)
_converter.register_structure_hook(str, _text)
_converter.register_structure_hook(int, _unlimited)
_converter.register_structure_hook(bool, _boolean)
_converter.register_structure_hook(Decimal, _unlimited)
_converter.register_structure_hook(datetime, _instant)
_converter.register_structure_hook_func(lambda hint: hint is object, lambda value, _: value)
_converter.register_structure_hook_func(_is_mapping, _object)
_converter.register_structure_hook_factory(_is_list, _list)
_converter.register_structure_hook_factory(attrs.has, _class)
_converter.register_structure_hook_factory(_is_maybe, _maybe)
_converter.register_structure_hook_factory(lambda hint: range_of(hint) is not None, _limited)


def read(kind: type[T], source: Mapping[str, object]) -> T:
    """`source` as an input of `kind`. Raises `Invalid`, naming each field whose value cannot be understood."""
    return _converter.structure(source, kind)


def read_query(kind: type[T], parameters: Mapping[str, object]) -> T:
    """The same for the parameters of a query: those of the wrong shape are ignored, as `currencies=EUR` for a list."""
    plain: type = kind
    hints = _hints(plain)
    return read(
        kind, {name: value for name, value in parameters.items() if name in hints and _fits(hints[name], value)}
    )


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return {name: _inner(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _fits(hint: Any, value: object) -> bool:
    if hint is object or value is None:
        return True
    if _is_list(hint):
        return isinstance(value, (list, tuple))
    return (
        isinstance(value, Mapping) if _is_mapping(hint) or attrs.has(hint) else not isinstance(value, (list, Mapping))
    )


def _inner(hint: Any) -> Any:
    return _without_absent(hint) if _is_maybe(hint) else hint
