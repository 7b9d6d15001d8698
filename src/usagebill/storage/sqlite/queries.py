"""Queries: conditions and orders as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
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
    Negate,
    NotEmpty,
    Null,
    Order,
    Related,
    SameText,
    Search,
    Within,
)
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.tables import table_of

__all__ = ["can_be_deleted", "kinds_in", "order_sql", "quoted", "where_sql"]

# A statement takes some 32,000 values in all: longer lists come as one.
_MOST_VARIABLES = 500
_json = msgspec.json.Encoder()
_OPERATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})


@cache
def quoted(name: str) -> str:
    """The name of a column, safe inside SQL. ValueError for what cannot be one."""
    if not name.replace("_", "").isalnum():
        raise ValueError(f"not a column: {name!r}")
    return f'"{name}"'


@cache
def can_be_deleted(kind: type) -> bool:
    """Whether records of this kind have `deleted_at`."""
    return any(item.name == "deleted_at" for item in fields(kind))


def kinds_in(condition: Condition) -> frozenset[type]:
    """The other kinds of records that the condition looks at."""
    match condition:
        case Related(kind, _, conditions) | Has(kind, _, conditions):
            return frozenset((kind,)).union(*(kinds_in(one) for one in conditions))
        case AnyOf(conditions) | AllOf(conditions):
            return frozenset().union(*(kinds_in(one) for one in conditions))
        case Negate(inner):
            return kinds_in(inner)
    return frozenset()


def _many(conditions: Sequence[Condition], table: str, values: list[Any], joint: str, nothing: str) -> str:
    parts = [_one(condition, table, values) for condition in conditions]
    return "(" + f" {joint} ".join(parts) + ")" if parts else nothing


def _one(condition: Condition, table: str, values: list[Any]) -> str:
    match condition:
        case Compare(column, operator, value):
            if operator not in _OPERATORS:
                raise ValueError(f"not an operator: {operator!r}")
            values.append(sql_value(value))
            return f"{table}.{quoted(column)} {operator} ?"
        case Columns(left, operator, right):
            if operator not in _OPERATORS:
                raise ValueError(f"not an operator: {operator!r}")
            return f"{table}.{quoted(left)} {operator} {table}.{quoted(right)}"
        case Within(column, options):
            if not options:
                return "0"
            if len(options) > _MOST_VARIABLES:
                values.append(_json.encode([sql_value(option) for option in options]).decode())
                return f"{table}.{quoted(column)} IN (SELECT value FROM json_each(?))"
            values.extend(sql_value(option) for option in options)
            return f"{table}.{quoted(column)} IN ({','.join('?' * len(options))})"
        case Null(column, present):
            return f"{table}.{quoted(column)} IS {'NOT ' if present else ''}NULL"
        case Search(columns, text):
            parts = []
            for column in columns:
                values.append(text.casefold())
                parts.append(f"instr(casefold({table}.{quoted(column)}), ?) > 0")
            return "(" + " OR ".join(parts) + ")"
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
            return _many(conditions, table, values, "OR", "0")
        case AllOf(conditions):
            return _many(conditions, table, values, "AND", "1")
        case Negate(inner):
            return f"NOT coalesce({_one(inner, table, values)}, 0)"
        case Related(kind, column, conditions):
            other = table_of(kind).name
            alias = f"{table}_{other}"
            inside = _many(conditions, alias, values, "AND", "1")
            return (
                f"EXISTS (SELECT 1 FROM {quoted(other)} {alias} WHERE {alias}.id = {table}.{quoted(column)}"
                f" AND {alias}.organization_id = {table}.organization_id AND {inside})"
            )
        case Has(kind, column, conditions):
            other = table_of(kind).name
            alias = f"{table}_{other}"
            inside = _many(conditions, alias, values, "AND", "1")
            live = f" AND {alias}.deleted_at IS NULL" if can_be_deleted(kind) else ""
            return (
                f"EXISTS (SELECT 1 FROM {quoted(other)} {alias} WHERE {alias}.{quoted(column)} = {table}.id"
                f" AND {alias}.organization_id = {table}.organization_id{live} AND {inside})"
            )


def where_sql(
    kind: type, conditions: Sequence[Condition], organization_id: str | None, deleted: bool
) -> tuple[str, list[Any]]:
    """The WHERE clause for records of `kind` (its table aliased `t`), and the values it binds."""
    values: list[Any] = []
    parts = []
    if organization_id is not None:
        parts.append("t.organization_id = ?")
        values.append(organization_id)
    if not deleted and can_be_deleted(kind):
        parts.append("t.deleted_at IS NULL")
    parts.extend(_one(condition, "t", values) for condition in conditions)
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def order_sql(order: Sequence[Order]) -> str:
    """The ORDER BY clause, which ends with the id so that it leaves nothing open."""
    parts = [f"t.{quoted(item.column)} {'DESC' if item.descending else 'ASC'} NULLS LAST" for item in order]
    if not any(item.column == "id" for item in order):
        parts.append("t.id ASC")
    return " ORDER BY " + ", ".join(parts)
