"""Conditions and orders in SQLite's SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from usagebill.storage.conditions import Related
from usagebill.storage.record_sql import alias_of, is_selective, quoted, related_sql
from usagebill.storage.sql.queries import RecordSql
from usagebill.storage.sqlite.rows import sql_value
from usagebill.storage.tables import table_of

# A statement takes some 32,000 values: longer lists are bound as one JSON value.
_MOST_VARIABLES = 500
_json = msgspec.json.Encoder()


class SqliteRecordSql(RecordSql):
    """See `storage.sql.queries.RecordSql`."""

    true = "1"
    false = "0"
    gathers_inside = False
    gathers_groups = False
    exact_sum = "stored_sum({})"

    def value(self, value: object) -> Any:
        return sql_value(value)

    def within(self, name: str, options: Sequence[object], values: list[Any]) -> str:
        stored = [sql_value(option) for option in options]
        if len(stored) > _MOST_VARIABLES:
            values.append(_json.encode(stored).decode())
            return f"{name} IN (SELECT value FROM json_each(?))"
        values += stored
        return f"{name} IN ({','.join('?' * len(stored))})"

    def contains(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        values.append(text.casefold())
        return f"instr(casefold({table}.{quoted(column)}), ?) > 0"

    def same_text(self, kind: type, table: str, column: str, text: str, values: list[Any]) -> str:
        values.append(text.casefold())
        return f"casefold({table}.{quoted(column)}) = ?"

    def like(self, name: str, pattern: str, values: list[Any]) -> str:
        values.append(re.sub(r"[?\[]", r"[\g<0>]", pattern))
        return f"{name} GLOB ?"

    def item(self, name: str, members: str | Sequence[tuple[str, object]], values: list[Any]) -> str:
        tests = []
        for place, value in [("item.value", members)] if isinstance(members, str) else _places(members):
            values.append(sql_value(value))
            tests.append(f"{place} = ?")
        return f"EXISTS (SELECT 1 FROM json_each(coalesce({name}, '[]')) item WHERE {' AND '.join(tests)})"

    def not_empty(self, name: str) -> str:
        # Lists are compact JSON: those of objects sort after the empty one, those of texts before it.
        return f"({name} > '[]' OR {name} < '[]')"

    def negated(self, test: str) -> str:
        return f"NOT coalesce({test}, 0)"

    def related(self, table: str, condition: Related, values: list[Any], gathered: bool) -> str:
        kind, alias = condition.kind, alias_of(table, condition.kind)
        gathered = gathered and is_selective(kind, condition.conditions)
        inside = self.every(kind, condition.conditions, alias, values, gathered)
        if not gathered:
            return related_sql(table, condition, inside)
        return (
            f"{table}.{quoted(condition.column)} IN (SELECT {alias}.id FROM {quoted(table_of(kind).name)} {alias}"
            f" WHERE {alias}.organization_id = {table}.organization_id AND {inside})"
        )

    def sort_keys(self, name: str, *, descending: bool, nullable: bool) -> list[str]:
        if descending:
            return [f"{name} DESC"]
        # With `NULLS LAST` no index could give this order.
        return [f"({name} IS NULL)", name] if nullable else [name]


def _places(members: Sequence[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(f"json_extract(item.value, '$.{quoted(key)}')", value) for key, value in members]


RECORD_SQL: Final = SqliteRecordSql()
