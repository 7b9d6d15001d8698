"""SQL of conditions that is the same in every engine, and facts about conditions and kinds that engines need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Columns,
    Compare,
    Condition,
    Has,
    Negate,
    NotEmpty,
    Null,
    Related,
    Within,
)
from usagebill.storage.sums import GroupKey
from usagebill.storage.tables import table_of

# Conditions on the record's own columns.
OWN_COLUMNS = (Compare, Columns, Within, Null, NotEmpty)
# The largest number that a statement takes: more rows than any table has.
MAX_ROWS = 2**63 - 1
_OPERATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_NO_KINDS: frozenset[type] = frozenset()


def bounded(count: int) -> int:
    """`count`, limited to the largest number that a statement takes."""
    return min(count, MAX_ROWS)


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


@cache
def is_nullable(kind: type, column: str) -> bool:
    """Whether the column may be null in records of this kind."""
    return any(item.name == column and "None" in str(item.type) for item in fields(kind))


def implies(conditions: Sequence[Condition], implied: Condition | None) -> bool:
    """Whether every record that satisfies `conditions` satisfies `implied`, which limits a column to some values."""
    if implied is None:
        return True
    options = _options(implied)
    for condition in conditions:
        if isinstance(condition, AllOf) and implies(condition.conditions, implied):
            return True
        narrower = _options(condition)
        if options is not None and narrower is not None and narrower[0] == options[0] and narrower[1] <= options[1]:
            return True
    return False


def _options(condition: Condition) -> tuple[str, frozenset[object]] | None:
    """The column and the values to which the condition limits it."""
    match condition:
        case Compare(column, "=", value):
            return column, frozenset((value,))
        case Within(column, values):
            return column, frozenset(values)
    return None


@cache
def _narrowing(kind: type) -> frozenset[str]:
    """The indexed columns with few records per value."""
    table = table_of(kind)
    listing = table.listing
    wide = {facet for facet in listing.facets if isinstance(facet, str)} if listing else set()
    leading = {rule[0].split(" ")[0] for rule in (*table.indexes, *table.unique, *table.always_unique)}
    return frozenset({"id", *leading} - wide)


def is_narrowed(kind: type, conditions: Sequence[Condition]) -> bool:
    """Whether the records' own columns lead to few records, which are best tested one by one."""
    return any(
        (isinstance(condition, Within) or (isinstance(condition, Compare) and condition.operator == "="))
        and condition.column in _narrowing(kind)
        for condition in conditions
    )


def is_selective(kind: type, conditions: Sequence[Condition]) -> bool:
    """Whether an index leads to few records of `kind` that meet all conditions."""
    for condition in conditions:
        match condition:
            case Compare(column, "=", _) | Within(column, _):
                if column in _narrowing(kind):
                    return True
            case Related(other, _, inner):
                if is_selective(other, inner):
                    return True
    return False


def kinds_in(condition: Condition) -> frozenset[type]:
    """The other kinds of records that the condition reads."""
    if type(condition) in OWN_COLUMNS:
        return _NO_KINDS
    match condition:
        case Related(kind, _, conditions) | Has(kind, _, conditions):
            return frozenset((kind,)).union(*(kinds_in(condition) for condition in conditions))
        case AnyOf(conditions) | AllOf(conditions):
            return frozenset().union(*(kinds_in(condition) for condition in conditions))
        case Negate(inner):
            return kinds_in(inner)
    return _NO_KINDS


def kinds_among(conditions: Sequence[Condition]) -> frozenset[type]:
    """The other kinds of records that the conditions read."""
    kinds = _NO_KINDS
    for condition in conditions:
        if type(condition) not in OWN_COLUMNS:
            kinds |= kinds_in(condition)
    return kinds


def scope_sql(kind: type, organization_id: str | None, deleted: bool) -> tuple[list[str], list[Any]]:
    """The tests that every query of `kind` (its table aliased `t`) starts with, and their values.

    They keep it within the organization, and exclude deleted records unless `deleted`.
    """
    tests: list[str] = []
    values: list[Any] = []
    if organization_id is not None:
        tests.append("t.organization_id = ?")
        values.append(organization_id)
    if not deleted and can_be_deleted(kind):
        tests.append("t.deleted_at IS NULL")
    return tests, values


@cache
def comparison_sql(table: str, column: str, operator: str) -> str:
    """The comparison of a column with a value to be bound. ValueError for an unknown operator."""
    _check(operator)
    return f"{table}.{quoted(column)} {operator} ?"


def columns_sql(table: str, condition: Columns) -> str:
    """The comparison of columns of a record. ValueError for an unknown operator."""
    _check(condition.operator)
    right = " + ".join(f"{table}.{quoted(column)}" for column in condition.right)
    return f"{table}.{quoted(condition.left)} {condition.operator} {right}"


def _check(operator: str) -> None:
    if operator not in _OPERATORS:
        raise ValueError(f"not an operator: {operator!r}")


def null_sql(table: str, condition: Null) -> str:
    """The test whether a column is absent or present."""
    return f"{table}.{quoted(condition.column)} IS {'NOT ' if condition.present else ''}NULL"


def alias_of(table: str, kind: type) -> str:
    """The alias of the table of `kind` in a subquery of `table`."""
    return f"{table}_{table_of(kind).name}"


def related_sql(table: str, condition: Related, inside: str) -> str:
    """Whether the record whose id is in a column of `table` passes the test `inside`, which uses `alias_of`."""
    alias = alias_of(table, condition.kind)
    return (
        f"EXISTS (SELECT 1 FROM {quoted(table_of(condition.kind).name)} {alias}"
        f" WHERE {alias}.id = {table}.{quoted(condition.column)}"
        f" AND {alias}.organization_id = {table}.organization_id AND {inside})"
    )


def has_sql(table: str, condition: Has, inside: str) -> str:
    """Whether a live record that names this one passes the test `inside`, which uses `alias_of`."""
    alias = alias_of(table, condition.kind)
    live = f" AND {alias}.deleted_at IS NULL" if can_be_deleted(condition.kind) else ""
    return (
        f"EXISTS (SELECT 1 FROM {quoted(table_of(condition.kind).name)} {alias}"
        f" WHERE {alias}.{quoted(condition.column)} = {table}.id"
        f" AND {alias}.organization_id = {table}.organization_id{live} AND {inside})"
    )


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
