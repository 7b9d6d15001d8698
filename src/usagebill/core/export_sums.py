"""Sums of exports: the amounts of rows that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from usagebill.core.export_rows import Row, Value
from usagebill.core.numbers import total

_CENTS = "_cents"
# Amounts of different currencies do not add up.
_CURRENCIES = ("currency", "amount_currency", "base_currency")


def columns_of_sums(columns: Mapping[str, type], by: Sequence[str]) -> Mapping[str, type]:
    """The columns of sums `by` some of a table's `columns`: these, the currency, `rows`, and the amounts, which are
    columns that end in `_cents` and the same in major units.
    """
    return {
        **{name: columns[name] for name in _keys(columns, by)},
        "rows": int,
        **{name: columns[name] for name in _amounts(columns)},
    }


def sums(rows: Iterable[Row], columns: Mapping[str, type], by: Sequence[str]) -> Iterator[Row]:
    """The sums of the rows' amounts, and how many `rows` they are of, in order of the columns `by`."""
    keys, alike = _keys(columns, by), dict[tuple[Value, ...], list[Row]]()
    for row in rows:
        alike.setdefault(tuple(row[name] for name in keys), []).append(row)
    for key in sorted(alike, key=_order):
        found = alike[key]
        amounts = {name: _sum(row[name] for row in found) for name in _amounts(columns)}
        yield {**dict(zip(keys, key, strict=True)), "rows": len(found), **amounts}


def _order(key: Sequence[Value]) -> Any:
    """A key to sort by; what is missing comes first. Values of a column are of one type."""
    return [(value is not None, value) for value in key]


def _sum(values: Iterable[Value]) -> int | Decimal | None:
    """The exact sum of a column's amounts, all of one type; missing ones add nothing. None if all are missing."""
    amounts = [value for value in values if value is not None]
    if not amounts:
        return None
    decimals = [value for value in amounts if isinstance(value, Decimal)]
    return total(decimals) if decimals else sum(value for value in amounts if isinstance(value, int))


def _keys(columns: Mapping[str, type], by: Sequence[str]) -> list[str]:
    return [*by, *(name for name in _CURRENCIES if name in columns and name not in by)]


def _amounts(columns: Mapping[str, type]) -> list[str]:
    cents = [name for name in columns if name.endswith(_CENTS)]
    return [name for name in columns if name in cents or f"{name}{_CENTS}" in cents]
