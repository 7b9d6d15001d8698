"""Counts of each value of a column with many values, such as the path of a request: in total, and by day.

Patterns are resolved to the values that match, so that no list tests its records one by one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from usagebill.storage.conditions import AnyOf, Compare, Condition, Like, Within
from usagebill.storage.record_sql import quoted
from usagebill.storage.sqlite.queries import condition_sql
from usagebill.storage.sqlite.slots import Span
from usagebill.storage.tables import Table, table_of

_DAY = 10
# Up to this many values replace a pattern.
_VALUES = 20_000
# The day at the end of a slot. Bytes, since SQLite's functions of texts stop at a zero byte.
_DAY_OF_SLOT = f"CAST(substr(CAST(c.slot AS BLOB), -{_DAY}) AS TEXT)"


def by_day(column: str) -> str:
    """The key under which the values of a column are counted by day."""
    return f"{column} by day"


def is_by_day(table: Table, ranged: str) -> bool:
    """Whether the key is that of the values of a column by day."""
    assert table.listing is not None
    return any(ranged == by_day(column) for column in table.listing.valued)


def value_slot_sql(table: Table, ranged: str, row: str) -> str:
    """The slot of a value and day, as SQL: the value, a space and the day."""
    assert table.listing is not None
    column = next(column for column in table.listing.valued if by_day(column) == ranged)
    return f"{row}.{quoted(column)} || ' ' || substr({row}.{quoted(table.listing.order[0].column)}, 1, {_DAY})"


def is_counted_value(table: Table, condition: Compare | Within) -> bool:
    """Whether the condition names values of a column that are counted one by one."""
    assert table.listing is not None
    if condition.column not in table.listing.valued:
        return False
    # SQLite cuts off JSON texts at a zero byte.
    if isinstance(condition, Compare):
        return condition.operator == "=" and "\0" not in str(condition.value)
    return not any("\0" in str(value) for value in condition.values)


# Counting


def _source(table: Table, condition: Compare | Within, organization_id: str) -> tuple[str, list[Any]]:
    """The values, as `item`, to join with the counts, as `c`, and what the join binds first."""
    values = condition.values if isinstance(condition, Within) else (condition.value,)
    source = f'json_each(?) item CROSS JOIN "{table.name}_counts" c ON c.organization_id = ? AND c.ranged = ?'
    return source, [json.dumps(list(dict.fromkeys(values))), organization_id]


def _by_day(
    table: Table, condition: Compare | Within, span: Span | None, organization_id: str
) -> tuple[str, list[Any]]:
    """The counts, as `c`, of the values on the whole days of the span, and the values bound."""
    source, bound = _source(table, condition, organization_id)
    tests = [
        "c.slot >= item.value || ' '",
        "c.slot <= item.value || ' ~'",
        f"c.slot = item.value || ' ' || {_DAY_OF_SLOT}",
    ]
    bound.append(by_day(condition.column))
    for test, value in () if span is None else span.slots:
        operator = test.removeprefix("slot ").removesuffix(" ?")
        tests.append(f"c.slot {operator} item.value || ' ' || ?")
        bound.append(value)
    return f"{source} AND {' AND '.join(tests)}", bound


def count_value(
    connection: sqlite3.Connection,
    table: Table,
    condition: Compare | Within,
    span: Span | None,
    facets: tuple[str, Sequence[Any]],
    organization_id: str,
) -> int:
    """The number of listed records with the values and facets, on the whole days of the span, if any."""
    if span is None:
        source, bound = _source(table, condition, organization_id)
        source += " AND c.slot = item.value"
        bound.append(condition.column)
    else:
        source, bound = _by_day(table, condition, span, organization_id)
    sql = f"SELECT coalesce(SUM(c.n), 0) FROM {source} WHERE {facets[0]}"
    return int(connection.execute(sql, (*bound, *facets[1])).fetchone()[0])


def days_of_value(
    connection: sqlite3.Connection,
    table: Table,
    condition: Compare | Within,
    span: Span | None,
    facets: tuple[str, Sequence[Any]],
    organization_id: str,
) -> list[tuple[str, int]]:
    """The whole days of the span that have records with the values and facets, newest first, and their numbers."""
    source, bound = _by_day(table, condition, span, organization_id)
    sql = f"SELECT {_DAY_OF_SLOT} AS day, SUM(c.n) FROM {source} WHERE {facets[0]} GROUP BY day HAVING SUM(c.n) > 0"
    return connection.execute(f"{sql} ORDER BY day DESC", (*bound, *facets[1])).fetchall()


# Patterns


def has_pattern(kind: type, conditions: Sequence[Condition]) -> bool:
    """Whether a condition has a pattern or alternatives that `with_values` resolves."""
    return any(_pattern_column(kind, condition) is not None for condition in conditions)


def _pattern_column(kind: type, condition: Condition) -> str | None:
    listing = table_of(kind).listing
    parts = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    if listing is None or not all(
        isinstance(part, Like) or (isinstance(part, Compare) and part.operator == "=") for part in parts
    ):
        return None
    columns = {part.column for part in parts if isinstance(part, (Like, Compare))}
    if isinstance(condition, Compare) or len(columns) != 1:
        return None
    column = columns.pop()
    return column if column in listing.valued else None


def with_values(
    connection: sqlite3.Connection, kind: type, conditions: Sequence[Condition], organization_id: str
) -> list[Condition]:
    """The conditions, with patterns of valued columns replaced by the values that match, unless these are too many.
    Those that match every value are left out.
    """
    resolved: list[Condition] = []
    for condition in conditions:
        column = _pattern_column(kind, condition)
        if column is None:
            resolved.append(condition)
            continue
        if _matches_all(connection, kind, column, condition, organization_id):
            continue
        values = _values(connection, kind, column, condition, organization_id)
        is_short = len(values) <= _VALUES and not any("\0" in value for value in values)
        resolved.append(Within(column, tuple(values)) if is_short else condition)
    return resolved


def _matches_all(
    connection: sqlite3.Connection, kind: type, column: str, condition: Condition, organization_id: str
) -> bool:
    """Whether every value of listed records matches the pattern."""
    source, bound = _counted_values(kind, column, organization_id)
    test = condition_sql(kind, condition, "t", bound, False)
    return (
        connection.execute(f"SELECT 1 FROM {source} t WHERE t.n > 0 AND NOT {test} LIMIT 1", bound).fetchone() is None
    )


def _counted_values(kind: type, column: str, organization_id: str, tests: str = "") -> tuple[str, list[Any]]:
    source = f'SELECT c.slot AS {quoted(column)}, c.n AS n FROM "{table_of(kind).name}_counts" c'
    return f"({source} WHERE c.organization_id = ? AND c.ranged = ?{tests})", [organization_id, column]


def _values(
    connection: sqlite3.Connection, kind: type, column: str, condition: Condition, organization_id: str
) -> list[str]:
    """The values of listed records that match the pattern, at most one more than may replace it."""
    parts = condition.conditions if isinstance(condition, AnyOf) else (condition,)
    values: list[str] = []
    for part in parts:
        if isinstance(part, Compare):
            values.append(str(part.value))
            continue
        assert isinstance(part, Like)
        # The beginning of the pattern leads to the values by the index.
        start = part.pattern.partition("*")[0]
        source, bound = _counted_values(kind, column, organization_id, " AND c.slot >= ? AND c.slot < ?")
        bound += [start, start + "\U0010ffff"]
        test = condition_sql(kind, part, "t", bound, False)
        rows = connection.execute(
            f"SELECT DISTINCT t.{quoted(column)} FROM {source} t WHERE t.n > 0 AND {test} LIMIT ?",
            (*bound, _VALUES + 1),
        )
        values += [value for (value,) in rows]
    return list(dict.fromkeys(values))
