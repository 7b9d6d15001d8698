"""Conditions and orders in PostgreSQL's SQL; its planner chooses the indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from usagebill.storage.conditions import Related
from usagebill.storage.postgresql.rows import escaped, folded_name, searched_columns, sql_value
from usagebill.storage.record_sql import alias_of, quoted, related_sql
from usagebill.storage.sql.queries import RecordSql

# Up to this many values are bound one by one.
_FEW = 20
# Escapes for characters with a meaning in LIKE patterns: in a text, and in a pattern of ours.
_OF_TEXT = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})
_OF_PATTERN = {**_OF_TEXT, ord("*"): "%"}


def folded_column(kind: type, table: str, column: str) -> str:
    """The column with its case folded."""
    if column in searched_columns(kind):
        return f"{table}.{quoted(folded_name(column))}"
    if column == "id" or column.endswith("_id"):
        # Ids are ASCII, which every server folds alike.
        return f"lower({table}.{quoted(column)})"
    raise ValueError(f"{kind.__name__}.{column} is not searched: its listing does not name it")


def pattern_of(text: str) -> str:
    """The pattern of a text that contains this one, in any case."""
    return f"%{escaped(text.casefold()).translate(_OF_TEXT)}%"


class PostgresRecordSql(RecordSql):
    """See `storage.sql.queries.RecordSql`. What is gathered, the server may also look up record by record."""

    true = "TRUE"
    false = "FALSE"
    gathers_inside = True
    gathers_groups = True
    exact_sum = "coalesce(SUM({}::numeric), 0)"

    def value(self, value: object) -> Any:
        return sql_value(value)

    def within(self, name: str, options: Sequence[object], values: list[Any]) -> str:
        stored = [sql_value(option) for option in options]
        if all(type(option) is str for option in stored):
            values.append(stored)
            return f"{name} = ANY(?::text[])"
        if len(stored) > _FEW:
            values.append([option for option in stored if option is not None])
            return f"{name} = ANY(?::numeric[])"
        values += stored
        return f"{name} IN ({','.join('?' * len(stored))})"

    def contains(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        values.append(pattern_of(text))
        return f"{folded_column(kind, table, column)} LIKE ?"

    def same_text(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        values.append(escaped(text.casefold()))
        return f"{folded_column(kind, table, column)} = ?"

    def like(self, name: str, pattern: str, values: list[Any]) -> str:
        values.append(escaped(pattern).translate(_OF_PATTERN))
        return f"{name} LIKE ?"

    def item(self, name: str, members: str | Sequence[tuple[str, object]], values: list[Any]) -> str:
        listed = f"coalesce({name}, '[]')::json"
        if isinstance(members, str):
            values.append(members)
            return f"EXISTS (SELECT 1 FROM json_array_elements_text({listed}) item WHERE item = ?)"
        values += [_item_text(value) for _, value in members]
        tests = " AND ".join(f"item ->> '{quoted(key)[1:-1]}' = ?" for key, _ in members)
        return f"EXISTS (SELECT 1 FROM json_array_elements({listed}) item WHERE {tests})"

    def not_empty(self, name: str) -> str:
        return f"{name} <> '[]'"

    def negated(self, test: str) -> str:
        return f"({test}) IS NOT TRUE"

    def related(self, table: str, condition: Related, values: list[Any], gathered: bool) -> str:
        alias = alias_of(table, condition.kind)
        inside = self.every(condition.kind, condition.conditions, alias, values, gathered)
        return related_sql(table, condition, inside if gathered else f"{inside} OFFSET 0")

    def sort_keys(self, name: str, *, descending: bool, nullable: bool) -> list[str]:
        last = " NULLS LAST" if nullable else ""
        return [f"{name} DESC{last}" if descending else name]


def _item_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(sql_value(value))


RECORD_SQL: Final = PostgresRecordSql()
