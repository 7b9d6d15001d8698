"""Queries: conditions and orders as SQL.

A condition on another record can be tested in two ways: `gathered`, by the set of matching ids, which is fast if few
records match; or record by record while a list is walked in its order, which is fast if many do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Has,
    Item,
    Like,
    Negate,
    NotEmpty,
    Null,
    Order,
    Related,
    SameText,
    Search,
    Within,
)
from usagebill.storage.record_sql import (
    alias_of,
    columns_sql,
    comparison_sql,
    has_sql,
    is_nullable,
    is_selective,
    null_sql,
    quoted,
    related_sql,
    scope_sql,
)
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.tables import table_of

# A statement takes some 32,000 values: longer lists are bound as one JSON value.
_MOST_VARIABLES = 500
_json = msgspec.json.Encoder()


def _many(
    kind: type, conditions: Sequence[Condition], table: str, values: list[Any], joint: str, nothing: str, gathered: bool
) -> str:
    parts = [condition_sql(kind, condition, table, values, gathered) for condition in conditions]
    return "(" + f" {joint} ".join(parts) + ")" if parts else nothing


def condition_sql(kind: type, condition: Condition, table: str, values: list[Any], gathered: bool) -> str:
    """The condition as SQL on `table`, which has records of `kind`; bound values are appended to `values`."""
    match condition:
        case Compare(column, operator, value):
            values.append(sql_value(value))
            return comparison_sql(table, column, operator)
        case Columns():
            return columns_sql(table, condition)
        case Within(column, options):
            if not options:
                return "0"
            if len(options) > _MOST_VARIABLES:
                values.append(_json.encode([sql_value(option) for option in options]).decode())
                return f"{table}.{quoted(column)} IN (SELECT value FROM json_each(?))"
            values.extend(sql_value(option) for option in options)
            return f"{table}.{quoted(column)} IN ({','.join('?' * len(options))})"
        case Null():
            return null_sql(table, condition)
        case Search(columns, text):
            parts = []
            for column in columns:
                values.append(text.casefold())
                parts.append(f"instr(casefold({table}.{quoted(column)}), ?) > 0")
            return "(" + " OR ".join(parts) + ")"
        case Like(column, pattern):
            values.append(re.sub(r"[?\[]", r"[\g<0>]", pattern))
            return f"{table}.{quoted(column)} GLOB ?"
        case SameText(column, text):
            values.append(text.casefold())
            return f"casefold({table}.{quoted(column)}) = ?"
        case Item(column, members):
            source = f"json_each(coalesce({table}.{quoted(column)}, '[]')) item"
            if isinstance(members, str):
                values.append(members)
                return f"EXISTS (SELECT 1 FROM {source} WHERE item.value = ?)"
            tests = []
            for key, value in members:
                values.append(sql_value(value))
                tests.append(f"json_extract(item.value, '$.{quoted(key)}') = ?")
            return f"EXISTS (SELECT 1 FROM {source} WHERE {' AND '.join(tests)})"
        case NotEmpty(column):
            # Lists are compact JSON: those of objects sort after the empty one, those of texts before it.
            name = f"{table}.{quoted(column)}"
            return f"({name} > '[]' OR {name} < '[]')"
        case AnyOf(conditions):
            return _many(kind, conditions, table, values, "OR", "0", gathered)
        case AllOf(conditions):
            return _many(kind, conditions, table, values, "AND", "1", gathered)
        case Negate(inner):
            return f"NOT coalesce({condition_sql(kind, inner, table, values, False)}, 0)"
        case Related(other_kind, column, conditions):
            alias = alias_of(table, other_kind)
            if gathered and is_selective(other_kind, conditions):
                inside = _many(other_kind, conditions, alias, values, "AND", "1", True)
                return (
                    f"{table}.{quoted(column)} IN (SELECT {alias}.id"
                    f" FROM {quoted(table_of(other_kind).name)} {alias}"
                    f" WHERE {alias}.organization_id = {table}.organization_id AND {inside})"
                )
            return related_sql(table, condition, _many(other_kind, conditions, alias, values, "AND", "1", False))
        case Has(other_kind, _, conditions):
            alias = alias_of(table, other_kind)
            return has_sql(table, condition, _many(other_kind, conditions, alias, values, "AND", "1", False))


def literal_sql(kind: type, condition: Condition, table: str) -> str:
    """The condition with its values written out, for a schema. Only texts and whole numbers."""
    values: list[Any] = []
    sql = condition_sql(kind, condition, table, values, False)
    for value in values:
        written = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
        sql = sql.replace("?", written, 1)
    return sql


def where_sql(
    kind: type,
    conditions: Sequence[Condition],
    organization_id: str | None,
    deleted: bool,
    *,
    gathered: bool = True,
) -> tuple[str, list[Any]]:
    """The WHERE clause for records of `kind` (its table aliased `t`), and the values it binds."""
    parts, values = scope_sql(kind, organization_id, deleted)
    for condition in conditions:
        # Nearly all conditions are of this kind.
        if type(condition) is Compare:
            values.append(sql_value(condition.value))
            parts.append(comparison_sql("t", condition.column, condition.operator))
        else:
            parts.append(condition_sql(kind, condition, "t", values, gathered))
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def order_terms(kind: type, order: Sequence[Order], prefix: str = "") -> list[str]:
    """The sort terms; the id comes last, which makes the order total. Nulls come last in both directions."""
    terms = []
    for item in order:
        column = prefix + quoted(item.column)
        if not item.descending and is_nullable(kind, item.column):
            # With `NULLS LAST` no index could give this order.
            terms.append(f"({column} IS NULL)")
        terms.append(f"{column} DESC" if item.descending else column)
    if not any(item.column == "id" for item in order):
        terms.append(f'{prefix}"id"')
    return terms


def order_sql(kind: type, order: Sequence[Order]) -> str:
    """The ORDER BY clause of records of `kind`, whose table is aliased `t`."""
    return _order_sql(kind, tuple(order))


@lru_cache(maxsize=1024)
def _order_sql(kind: type, order: tuple[Order, ...]) -> str:
    return " ORDER BY " + ", ".join(order_terms(kind, order, "t."))
