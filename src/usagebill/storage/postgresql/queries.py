"""Conditions and orders as PostgreSQL's SQL; its planner chooses the indexes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

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
from usagebill.storage.postgresql.rows import escaped, folded_name, searched_columns, sql_value
from usagebill.storage.record_sql import (
    alias_of,
    columns_sql,
    comparison_sql,
    has_sql,
    is_nullable,
    null_sql,
    quoted,
    related_sql,
    scope_sql,
)

# Up to this many values are bound one by one.
_FEW = 20
# Escapes for characters with a meaning in LIKE patterns.
_PATTERN = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_", "*": "%"})


def folded_column(kind: type, table: str, column: str) -> str:
    """The column with its case folded."""
    if column in searched_columns(kind):
        return f"{table}.{quoted(folded_name(column))}"
    if column == "id" or column.endswith("_id"):
        # Ids are ASCII, which every server folds alike.
        return f"lower({table}.{quoted(column)})"
    raise ValueError(f"{kind.__name__}.{column} is not searched: its listing does not name it")


def _many(
    kind: type, conditions: Sequence[Condition], table: str, values: list[Any], joint: str, nothing: str, gathered: bool
) -> str:
    parts = [condition_sql(kind, condition, table, values, gathered) for condition in conditions]
    return "(" + f" {joint} ".join(parts) + ")" if parts else nothing


def _listed_sql(name: str, options: Sequence[object], values: list[Any]) -> str:
    stored = [sql_value(option) for option in options]
    if not stored:
        return "FALSE"
    if all(type(option) is str for option in stored):
        values.append(stored)
        return f"{name} = ANY(?::text[])"
    if len(stored) > _FEW:
        values.append([option for option in stored if option is not None])
        return f"{name} = ANY(?::numeric[])"
    values.extend(stored)
    return f"{name} IN ({','.join('?' * len(stored))})"


def _item_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(sql_value(value))


def condition_sql(kind: type, condition: Condition, table: str, values: list[Any], gathered: bool = True) -> str:
    """The condition on the record of `kind` in `table`; its values are appended to `values`.

    Records that this one refers to may be `gathered`: the server may look all of them up first. Otherwise that of each
    record is looked up when it is read.
    """
    match condition:
        case Compare(column, operator, value):
            values.append(sql_value(value))
            return comparison_sql(table, column, operator)
        case Columns():
            return columns_sql(table, condition)
        case Within(column, options):
            return _listed_sql(f"{table}.{quoted(column)}", options, values)
        case Null():
            return null_sql(table, condition)
        case Search(columns, text):
            parts = []
            for column in columns:
                values.append(pattern_of(text))
                parts.append(f"{folded_column(kind, table, column)} LIKE ?")
            return "(" + " OR ".join(parts) + ")"
        case Like(column, pattern):
            values.append(escaped(pattern).translate(_PATTERN))
            return f"{table}.{quoted(column)} LIKE ?"
        case SameText(column, text):
            values.append(escaped(text.casefold()))
            return f"{folded_column(kind, table, column)} = ?"
        case Item(column, members):
            listed = f"coalesce({table}.{quoted(column)}, '[]')::json"
            if isinstance(members, str):
                values.append(members)
                return f"EXISTS (SELECT 1 FROM json_array_elements_text({listed}) item WHERE item = ?)"
            tests = []
            for key, value in members:
                values.append(_item_text(value))
                tests.append(f"item ->> '{quoted(key)[1:-1]}' = ?")
            return f"EXISTS (SELECT 1 FROM json_array_elements({listed}) item WHERE {' AND '.join(tests)})"
        case NotEmpty(column):
            return f"{table}.{quoted(column)} <> '[]'"
        case AnyOf(conditions):
            return _many(kind, conditions, table, values, "OR", "FALSE", gathered)
        case AllOf(conditions):
            return _many(kind, conditions, table, values, "AND", "TRUE", gathered)
        case Negate(inner):
            return f"({condition_sql(kind, inner, table, values, gathered)}) IS NOT TRUE"
        case Related(other_kind, _, conditions):
            alias = alias_of(table, other_kind)
            inside = _many(other_kind, conditions, alias, values, "AND", "TRUE", gathered)
            return related_sql(table, condition, inside if gathered else f"{inside} OFFSET 0")
        case Has(other_kind, _, conditions):
            alias = alias_of(table, other_kind)
            return has_sql(table, condition, _many(other_kind, conditions, alias, values, "AND", "TRUE", gathered))


def pattern_of(text: str) -> str:
    """The pattern of a text that contains this one, in any case."""
    return f"%{escaped(text.casefold()).translate(_PATTERN_OF_TEXT)}%"


_PATTERN_OF_TEXT = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def where_sql(
    kind: type, conditions: Sequence[Condition], organization_id: str | None, deleted: bool, *, gathered: bool = True
) -> tuple[str, list[Any]]:
    """The WHERE clause for records of `kind` (its table aliased `t`), and the values it binds; see `condition_sql`."""
    parts, values = scope_sql(kind, organization_id, deleted)
    for condition in conditions:
        # Nearly all are of this kind.
        if type(condition) is Compare:
            values.append(sql_value(condition.value))
            parts.append(comparison_sql("t", condition.column, condition.operator))
        else:
            parts.append(condition_sql(kind, condition, "t", values, gathered))
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def order_terms(kind: type, order: Sequence[Order], prefix: str = "") -> list[str]:
    """The sort keys, with the id last so that the order is total. Absent values come last in either direction."""
    terms = []
    for item in order:
        column = prefix + quoted(item.column)
        last = " NULLS LAST" if is_nullable(kind, item.column) else ""
        terms.append(f"{column} DESC{last}" if item.descending else column)
    if not any(item.column == "id" for item in order):
        terms.append(f'{prefix}"id"')
    return terms


def order_sql(kind: type, order: Sequence[Order]) -> str:
    """The ORDER BY clause of records of `kind`, whose table is aliased `t`."""
    return _order_sql(kind, tuple(order))


@lru_cache(maxsize=1024)
def _order_sql(kind: type, order: tuple[Order, ...]) -> str:
    return " ORDER BY " + ", ".join(order_terms(kind, order, "t."))
