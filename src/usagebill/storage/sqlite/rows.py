"""Rows: the conversion between records and rows of tables, field by field."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from usagebill.core.copies import maker
from usagebill.storage.every_engine import instant_text

_json = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with the functions that write and read its values (None: unchanged).

    `is_plain` says whether equal values are written alike; decimals, also within JSON, may be written in several ways.
    With an `escape`, only texts that contain it are decoded.
    """

    name: str
    sql_type: type
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None
    is_plain: bool = True
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class Codec:
    """The columns of a kind of record in order, and the SQL that names them all.

    `record` makes a record from a row of all columns; `row` makes the row of a record.
    """

    kind: type
    columns: tuple[Column, ...]
    names: str
    insert: str
    record: Callable[[tuple[Any, ...]], Any]
    row: Callable[[Any], tuple[Any, ...]]
    fields: Callable[[Any], tuple[Any, ...]]

    def changes(self, old: object, new: object) -> tuple[list[str], list[Any]]:
        """The columns in which `new` differs from `old`, and their values."""
        names: list[str] = []
        values: list[Any] = []
        for column, value, before in zip(self.columns, self.fields(new), self.fields(old), strict=True):
            # A record that was read by another transaction is equal without being the same object.
            if value is before or (value == before and column.is_plain):
                continue
            encode = column.encode
            stored = value if encode is None or value is None else encode(value)
            if value == before and encode is not None and stored == encode(before):
                continue
            names.append(column.name)
            values.append(stored)
        return names, values


def _reader(kind: type, columns: tuple[Column, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """`record` of a kind, generated as code: billing runs spend most of their time reading rows."""
    names: dict[str, Any] = {"make": maker(kind)}
    arguments = []
    for position, column in enumerate(columns):
        if column.decode is None:
            arguments.append(f"row[{position}]")
            continue
        names[f"decode_{position}"] = column.decode
        if column.escape is not None:
            names["escape"] = column.escape
            test = f"row[{position}] is None or escape not in row[{position}]"
            arguments.append(f"row[{position}] if {test} else decode_{position}(row[{position}])")
            continue
        arguments.append(f"None if row[{position}] is None else decode_{position}(row[{position}])")
    return _written_out(f"lambda row: make({', '.join(arguments)})", names)


def _writer(columns: tuple[Column, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """`row` of a kind, generated as code."""
    names: dict[str, Any] = {}
    values = []
    for position, column in enumerate(columns):
        if column.encode is None:
            values.append(f"record.{column.name}")
            continue
        names[f"encode_{position}"] = column.encode
        values.append(f"None if record.{column.name} is None else encode_{position}(record.{column.name})")
    return _written_out(f"lambda record: ({', '.join(values)},)", names)


def _written_out(text: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    # The text contains only names of record fields.
    made: Callable[[Any], Any] = eval(text, names)
    return made


# The largest integer of SQLite. A larger amount is stored as text, which sorts after every number: digits, padded so
# that they sort as the amounts do, after a letter so that SQLite does not convert them to floats.
_LARGEST = 2**63 - 1
_DIGITS = 80


def _whole(value: int) -> int | str:
    return value if -_LARGEST <= value <= _LARGEST else f"n{value:0{_DIGITS}d}"


def whole_number(stored: int | str) -> int:
    """The amount in a column of cents."""
    return stored if isinstance(stored, int) else int(stored[1:])


def _column(name: str, hint: Any) -> Column:
    options = [option for option in get_args(hint) if option is not type(None)]
    inner = options[0] if get_origin(hint) in (Union, types.UnionType) and len(options) == 1 else hint
    if inner is bool:
        return Column(name, int, int, bool)
    if inner is int and name.endswith("_cents"):
        return Column(name, int, _whole, whole_number)
    if inner is int:
        return Column(name, int, None, None)
    if inner is str or inner is bytes:
        return Column(name, inner, None, None)
    if inner is Decimal:
        return Column(name, str, str, Decimal, is_plain=False)
    if inner is datetime:
        return Column(name, str, instant_text, datetime.fromisoformat)
    if inner is date:
        return Column(name, str, date.isoformat, date.fromisoformat)
    if len(options) > 1 and all(is_dataclass(option) for option in options):
        return _column_of_kinds(name, options)
    if isinstance(inner, type) and issubclass(inner, Enum):
        members = {member.value: member for member in inner}
        return Column(name, str, str if issubclass(inner, str) else lambda member: member.value, members.__getitem__)
    decoder = msgspec.json.Decoder(hint, strict=False, float_hook=Decimal)
    return Column(name, str, lambda value: _json.encode(value).decode(), decoder.decode, is_plain=False)


class _Named(msgspec.Struct):
    """A record with the name of its kind."""

    kind: str
    record: msgspec.Raw


def _column_of_kinds(name: str, kinds: Sequence[type]) -> Column:
    """A column of records of several kinds."""
    decoders: dict[str, msgspec.json.Decoder[Any]] = {
        kind.__name__: msgspec.json.Decoder(kind, strict=False, float_hook=Decimal) for kind in kinds
    }
    named = msgspec.json.Decoder(_Named)

    def encode(record: Any) -> str:
        return _json.encode(_Named(type(record).__name__, msgspec.Raw(_json.encode(record)))).decode()

    def decode(text: str) -> Any:
        stored = named.decode(text)
        return decoders[stored.kind].decode(stored.record)

    return Column(name, str, encode, decode, is_plain=False)


_codecs: dict[type, Codec] = {}


def codec_of(kind: type) -> Codec:
    """The codec of a kind of record (cached)."""
    codec = _codecs.get(kind)
    if codec is None:
        hints = get_type_hints(kind)
        codec = _codecs[kind] = made_codec(kind, tuple(_column(item.name, hints[item.name]) for item in fields(kind)))
    return codec


def made_codec(kind: type, columns: tuple[Column, ...]) -> Codec:
    """A codec of records whose fields are these columns, in this order."""
    names = ",".join(f'"{column.name}"' for column in columns)
    return Codec(
        kind,
        columns,
        names=",".join(f't."{column.name}"' for column in columns),
        insert=f"({names}) VALUES ({','.join('?' * len(columns))})",
        record=_reader(kind, columns),
        row=_writer(columns),
        fields=attrgetter(*(column.name for column in columns)),
    )


def sql_value(value: object) -> object:
    """A value of a condition as it is stored in a column."""
    if type(value) is str or value is None:
        return value
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    return value
