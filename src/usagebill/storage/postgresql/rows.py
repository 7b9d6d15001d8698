"""Conversion between records and rows. Texts are the same as in SQLite; cents are `numeric`.

Columns with case-insensitive search have a second column with the text case-folded by Python: case folding by the
server depends on its version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any

from usagebill.storage.every_engine import instant_text
from usagebill.storage.record_sql import quoted
from usagebill.storage.sqlite.rows import Codec, Column, codec_of as texts_codec_of, made_codec, whole_number
from usagebill.storage.tables import table_of

# Escapes NUL, which PostgreSQL's texts cannot contain: the first private-use character, and a digit.
_ESCAPE = "\ue000"


def escaped(text: str) -> str:
    """The text as it is stored."""
    if "\0" in text or _ESCAPE in text:
        return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")
    return text


def _unescaped(text: str) -> str:
    return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def folded_name(column: str) -> str:
    """The name of the column with the case-folded text of another."""
    return f"{column}__folded"


@cache
def searched_columns(kind: type) -> tuple[str, ...]:
    """The columns that have a case-folded copy."""
    listing = table_of(kind).listing
    if listing is None:
        return ()
    return tuple(column for column in dict.fromkeys((*listing.searched, *listing.folded)) if column != "id")


def folded(text: str | None) -> str | None:
    """The case-folded text that searches compare with."""
    return None if text is None else escaped(str(text).casefold())


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The rows of a kind of record: its columns, then the folded texts of `searched` ones.

    `selected` is the SQL of what `codec.record` reads, of a table aliased `t`. The driver turns numbers of the type
    `numeric` into decimals first; cents are read as texts, in a third of the time.
    """

    codec: Codec
    searched: tuple[str, ...]
    columns: tuple[str, ...]
    selected: str

    def row(self, record: object) -> tuple[Any, ...]:
        """The values of all columns."""
        return self.codec.row(record) + tuple(folded(getattr(record, name)) for name in self.searched)

    def changes(self, old: object, new: object) -> tuple[list[str], list[Any]]:
        """The columns in which `new` differs from `old`, and their values."""
        names, values = self.codec.changes(old, new)
        for name in self.searched:
            if name in names:
                names.append(folded_name(name))
                values.append(folded(getattr(new, name)))
        return names, values


def _column(column: Column) -> Column:
    if column.decode is whole_number:
        return replace(column, sql_type=Decimal, encode=None, decode=int)
    if column.sql_type is str and column.encode is None:
        return replace(column, encode=escaped, decode=_unescaped, escape=_ESCAPE)
    return column


_rows: dict[type, RecordRows] = {}


def rows_of(kind: type) -> RecordRows:
    """The row format of a kind of record; cached."""
    rows = _rows.get(kind)
    if rows is None:
        rows = _rows[kind] = _made(kind)
    return rows


def _made(kind: type) -> RecordRows:
    columns = tuple(_column(column) for column in texts_codec_of(kind).columns)
    searched = searched_columns(kind)
    names = (*(column.name for column in columns), *map(folded_name, searched))
    selected = ",".join(f't."{column.name}"{"::text" if column.sql_type is Decimal else ""}' for column in columns)
    return RecordRows(made_codec(kind, columns), searched, names, selected)


@cache
def select_sql(kind: type[Any]) -> str:
    """The query for all records of a kind (its table aliased `t`), without its clauses."""
    return f"SELECT {rows_of(kind).selected} FROM {quoted(table_of(kind).name)} t"


@cache
def insert_sql(kind: type) -> str:
    """The statement that adds a record."""
    columns = rows_of(kind).columns
    names = ",".join(f'"{name}"' for name in columns)
    return (
        f"INSERT INTO {quoted(table_of(kind).name)} ({names}) VALUES ({','.join('?' * len(columns))})"
        " ON CONFLICT DO NOTHING"
    )


def _plain(value: object) -> object:
    return value


_VALUES: dict[type, Callable[[Any], object]] = {
    str: escaped,
    bool: int,
    int: _plain,
    datetime: instant_text,
    date: date.isoformat,
    Decimal: str,
}


def sql_value(value: object) -> Any:
    """A condition's value in the form in which it is compared with a column."""
    if isinstance(value, Enum):
        value = value.value
    convert = _VALUES.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, datetime):
        return instant_text(value)
    return value
