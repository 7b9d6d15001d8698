"""Queries: conditions and orders as SQL.

What a condition says of another record can be asked in two ways: `gathered`, as a set of ids, which is quick where few
records match, or of one record after another while a list is walked in its order, which is quick where many do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cache, lru_cache
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
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.sqlite.texts import (
    found_sql,
    holds_items_sql,
    holds_text_sql,
    items_sql,
    same_text_sql,
    searched_together,
    text_sql,
    together_sql,
)
from usagebill.storage.sums import GroupKey
from usagebill.storage.tables import table_of

__all__ = [
    "can_be_deleted",
    "condition_sql",
    "group_sql",
    "implies",
    "is_narrowed",
    "is_nullable",
    "is_selective",
    "kinds_among",
    "kinds_in",
    "literal_sql",
    "looks_up",
    "order_sql",
    "order_terms",
    "quoted",
    "where_sql",
]

# A statement takes some 32,000 values: longer lists are bound as one JSON value.
_MOST_VARIABLES = 500
_json = msgspec.json.Encoder()
# Conditions on the record's own columns.
_PLAIN = (Compare, Columns, Within, Null, NotEmpty)
_NOTHING: frozenset[type] = frozenset()
_OPERATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def implies(conditions: Sequence[Condition], wanted: Condition | None) -> bool:
    """Whether every record that satisfies `conditions` satisfies `wanted`, one value of a column or one of several."""
    if wanted is None:
        return True
    options = _options(wanted)
    for condition in conditions:
        if isinstance(condition, AllOf) and implies(condition.conditions, wanted):
            return True
        asked = _options(condition)
        if options is not None and asked is not None and asked[0] == options[0] and asked[1] <= options[1]:
            return True
    return False


def _options(condition: Condition) -> tuple[str, frozenset[object]] | None:
    match condition:
        case Compare(column, "=", value):
            return column, frozenset((value,))
        case Within(column, values):
            return column, frozenset(values)
    return None


@cache
def quoted(name: str) -> str:
    """The name of a column, quoted for SQL. ValueError for an invalid name."""
    if not name.replace("_", "").isalnum():
        raise ValueError(f"not a column: {name!r}")
    return f'"{name}"'


@cache
def can_be_deleted(kind: type) -> bool:
    """Whether the kind has `deleted_at`."""
    return any(item.name == "deleted_at" for item in fields(kind))


def kinds_in(condition: Condition) -> frozenset[type]:
    """The other kinds of records that the condition reads."""
    if type(condition) in _PLAIN:
        return _NOTHING
    match condition:
        case Related(kind, _, conditions) | Has(kind, _, conditions):
            return frozenset((kind,)).union(*(kinds_in(condition) for condition in conditions))
        case AnyOf(conditions) | AllOf(conditions):
            return frozenset().union(*(kinds_in(condition) for condition in conditions))
        case Negate(inner):
            return kinds_in(inner)
    return _NOTHING


def kinds_among(conditions: Sequence[Condition]) -> frozenset[type]:
    """The other kinds of records that the conditions read."""
    kinds = _NOTHING
    for condition in conditions:
        if type(condition) not in _PLAIN:
            kinds |= kinds_in(condition)
    return kinds


@cache
def is_nullable(kind: type, column: str) -> bool:
    """Whether the column may be null in records of this kind."""
    return any(item.name == column and "None" in str(item.type) for item in fields(kind))


@cache
def _narrowing(kind: type) -> frozenset[str]:
    """The indexed columns whose values are shared by few records each."""
    table = table_of(kind)
    listing = table.listing
    wide = {facet for facet in listing.facets if isinstance(facet, str)} if listing else set()
    leading = {rule[0].split(" ")[0] for rule in (*table.indexes, *table.unique, *table.always_unique)}
    return frozenset({"id", *leading} - wide)


def looks_up(conditions: Sequence[Condition]) -> bool:
    """Whether the conditions search texts or items, which are written after their records."""
    for condition in conditions:
        if type(condition) in _PLAIN:
            continue
        match condition:
            case Search() | SameText() | Item():
                return True
            case AnyOf(inner) | AllOf(inner) | Related(_, _, inner) | Has(_, _, inner):
                if looks_up(inner):
                    return True
            case Negate(negated):
                if looks_up((negated,)):
                    return True
    return False


def is_narrowed(kind: type, conditions: Sequence[Condition]) -> bool:
    """Whether columns of the records themselves lead to few, which are better looked at one by one."""
    return any(
        (isinstance(condition, Within) or (isinstance(condition, Compare) and condition.operator == "="))
        and condition.column in _narrowing(kind)
        for condition in conditions
    )


def is_selective(kind: type, conditions: Sequence[Condition]) -> bool:
    """Whether an index leads to the few records of `kind` for which all conditions hold."""
    for condition in conditions:
        match condition:
            case Compare(column, "=", _) | Within(column, _):
                if column in _narrowing(kind):
                    return True
            case Search(columns, text):
                if text_sql(kind, columns, text, "t", []) is not None:
                    return True
            case Related(other, _, inner):
                if is_selective(other, inner):
                    return True
    return False


def _many(
    kind: type, conditions: Sequence[Condition], table: str, values: list[Any], joint: str, nothing: str, gathered: bool
) -> str:
    parts = [condition_sql(kind, condition, table, values, gathered) for condition in conditions]
    return "(" + f" {joint} ".join(parts) + ")" if parts else nothing


@cache
def _comparison(table: str, column: str, operator: str) -> str:
    if operator not in _OPERATORS:
        raise ValueError(f"not an operator: {operator!r}")
    return f"{table}.{quoted(column)} {operator} ?"


def condition_sql(kind: type, condition: Condition, table: str, values: list[Any], gathered: bool) -> str:
    """The condition as SQL on `table`, which has records of `kind`; bound values are appended to `values`."""
    match condition:
        case Compare(column, operator, value):
            values.append(sql_value(value))
            return _comparison(table, column, operator)
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
            ask = text_sql if gathered else holds_text_sql
            indexed = ask(kind, columns, text, table, values)
            if indexed is not None:
                return indexed
            parts = []
            for column in columns:
                values.append(text.casefold())
                parts.append(f"instr(casefold({table}.{quoted(column)}), ?) > 0")
            return "(" + " OR ".join(parts) + ")"
        case Like(column, pattern):
            values.append(re.sub(r"[?\[]", r"[\g<0>]", pattern))
            return f"{table}.{quoted(column)} GLOB ?"
        case SameText(column, text):
            indexed = same_text_sql(kind, column, text, table, values, gathered)
            if indexed is not None:
                return indexed
            values.append(text.casefold())
            return f"casefold({table}.{quoted(column)}) = ?"
        case Item(column, members):
            indexed = (items_sql if gathered else holds_items_sql)(kind, column, members, table, values)
            if indexed is not None:
                return indexed
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
            together = searched_together(kind, condition)
            joint = None if together is None else together_sql(kind, together, table, values, gathered)
            return joint or _many(kind, conditions, table, values, "OR", "0", gathered)
        case AllOf(conditions):
            return _many(kind, conditions, table, values, "AND", "1", gathered)
        case Negate(inner):
            return f"NOT coalesce({condition_sql(kind, inner, table, values, False)}, 0)"
        case Related(other_kind, column, conditions):
            other = table_of(other_kind).name
            alias = f"{table}_{other}"
            if gathered and len(conditions) == 1 and isinstance(conditions[0], Search):
                ids = found_sql(other_kind, conditions[0].columns, conditions[0].text, table, values)
                if ids is not None:
                    return f"{table}.{quoted(column)} IN ({ids})"
            if gathered and is_selective(other_kind, conditions):
                inside = _many(other_kind, conditions, alias, values, "AND", "1", True)
                return (
                    f"{table}.{quoted(column)} IN (SELECT {alias}.id FROM {quoted(other)} {alias}"
                    f" WHERE {alias}.organization_id = {table}.organization_id AND {inside})"
                )
            inside = _many(other_kind, conditions, alias, values, "AND", "1", False)
            return (
                f"EXISTS (SELECT 1 FROM {quoted(other)} {alias} WHERE {alias}.id = {table}.{quoted(column)}"
                f" AND {alias}.organization_id = {table}.organization_id AND {inside})"
            )
        case Has(other_kind, column, conditions):
            other = table_of(other_kind).name
            alias = f"{table}_{other}"
            inside = _many(other_kind, conditions, alias, values, "AND", "1", False)
            live = f" AND {alias}.deleted_at IS NULL" if can_be_deleted(other_kind) else ""
            return (
                f"EXISTS (SELECT 1 FROM {quoted(other)} {alias} WHERE {alias}.{quoted(column)} = {table}.id"
                f" AND {alias}.organization_id = {table}.organization_id{live} AND {inside})"
            )


def literal_sql(kind: type, condition: Condition, table: str) -> str:
    """The condition with its values written out, for what a schema says. Texts and whole numbers only."""
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
    values: list[Any] = []
    parts = []
    if organization_id is not None:
        parts.append("t.organization_id = ?")
        values.append(organization_id)
    if not deleted and can_be_deleted(kind):
        parts.append("t.deleted_at IS NULL")
    for condition in conditions:
        # Nearly all conditions are of this kind.
        if type(condition) is Compare:
            values.append(sql_value(condition.value))
            parts.append(_comparison("t", condition.column, condition.operator))
        else:
            parts.append(condition_sql(kind, condition, "t", values, gathered))
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def group_sql(by: Sequence[GroupKey]) -> tuple[list[str], str]:
    """The SQL of a group key of records (aliased `t`), with its joins."""
    aliases: dict[tuple[tuple[type, str], ...], str] = {(): "t"}
    names: list[str] = []
    joins: list[str] = []
    for key in by:
        for length in range(1, len(key.via) + 1):
            way = key.via[:length]
            if way in aliases:
                continue
            (kind, column), before = way[-1], aliases[way[:-1]]
            alias = aliases[way] = f"g{len(aliases)}"
            joins.append(
                f" LEFT JOIN {quoted(table_of(kind).name)} {alias} ON {alias}.id = {before}.{quoted(column)}"
                f" AND {alias}.organization_id = t.organization_id"
            )
        name = f"{aliases[key.via]}.{quoted(key.column)}"
        names.append(f"substr({name}, 1, 7)" if key.month else name)
    return names, "".join(joins)


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
