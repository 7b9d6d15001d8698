"""Rows: how a record becomes a row of a table and comes back, field by field."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["Codec", "codec_of", "sql_value"]

_json = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    sql_type: type
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Codec:
    """The columns of a kind of record, in order."""

    kind: type
    columns: tuple[Column, ...]

    def row(self, record: object) -> tuple[Any, ...]:
        return tuple(
            value if column.encode is None or value is None else column.encode(value)
            for column, value in ((column, getattr(record, column.name)) for column in self.columns)
        )

    def record(self, row: tuple[Any, ...]) -> Any:
        return self.kind(
            **{
                column.name: value if column.decode is None or value is None else column.decode(value)
                for column, value in zip(self.columns, row, strict=True)
            }
        )


def _instant_text(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"an instant without a zone: {value}")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def _column(name: str, hint: Any) -> Column:
    options = [option for option in get_args(hint) if option is not type(None)]
    inner = options[0] if get_origin(hint) in (Union, types.UnionType) and len(options) == 1 else hint
    if inner is bool:
        return Column(name, int, int, bool)
    if inner is int:
        return Column(name, int, None, None)
    if inner is str:
        return Column(name, str, None, None)
    if inner is Decimal:
        return Column(name, str, str, Decimal)
    if inner is datetime:
        return Column(name, str, _instant_text, datetime.fromisoformat)
    if inner is date:
        return Column(name, str, date.isoformat, date.fromisoformat)
    if isinstance(inner, type) and issubclass(inner, Enum):
        return Column(name, str, lambda member: member.value, inner)
    decoder = msgspec.json.Decoder(hint, strict=False, float_hook=Decimal)
    return Column(name, str, lambda value: _json.encode(value).decode(), decoder.decode)


_codecs: dict[type, Codec] = {}


def codec_of(kind: type) -> Codec:
    """The codec of a kind of record, made once."""
    codec = _codecs.get(kind)
    if codec is None:
        codec = _codecs[kind] = _made(kind)
    return codec


def _made(kind: type) -> Codec:
    hints = get_type_hints(kind)
    return Codec(kind, tuple(_column(item.name, hints[item.name]) for item in fields(kind)))


def sql_value(value: object) -> object:
    """A value of a condition as SQLite compares it with a column."""
    if isinstance(value, datetime):
        return _instant_text(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    return value
