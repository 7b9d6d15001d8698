"""Unique rules of records, checked before a record is written."""

from __future__ import annotations

from typing import Any

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.rows import sql_value
from usagebill.storage.record_sql import can_be_deleted, quoted
from usagebill.storage.tables import table_of


def broken_rule(
    connection: Connection, record: object, changed: frozenset[str] | None = None
) -> tuple[str, ...] | None:
    """The first unique rule that the record would break, among those with `changed` columns.

    Nobody else writes to the organization meanwhile, so the check still holds when the record is written.
    """
    kind: Any = type(record)
    table = table_of(kind)
    is_live = getattr(record, "deleted_at", None) is None
    rules = [(rule, can_be_deleted(kind)) for rule in table.unique if is_live]
    rules += [(rule, False) for rule in table.always_unique]
    for rule, among_live in rules:
        if changed is not None and changed.isdisjoint((*rule, "deleted_at") if among_live else rule):
            continue
        values = [sql_value(getattr(record, column)) for column in rule]
        if any(value is None for value in values):
            continue
        tests = "".join(f" AND {quoted(column)} = ?" for column in rule)
        live = " AND deleted_at IS NULL" if among_live else ""
        if connection.execute(
            f"SELECT 1 FROM {quoted(table.name)} WHERE organization_id = ?{tests}{live} AND id <> ? LIMIT 1",
            (record.organization_id, *values, record.id),  # type: ignore[attr-defined]
        ).fetchone():
            return rule
    return None
