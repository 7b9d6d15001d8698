"""Counts, texts and items, which make lists fast, written in the transaction of their records.

Counts, texts and items of a record are removed before it changes, and added in bulk: before the transaction commits, or
queries them. Triggers would do the same row by row, and make SQLite copy every page that a statement changes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from usagebill.storage.sqlite.counted_texts import note_change_sql
from usagebill.storage.sqlite.counts import add_counts_sql, counted_columns, move_counts_sql, referred_columns
from usagebill.storage.sqlite.items import add_items_sql, item_columns, remove_items_sql
from usagebill.storage.sqlite.text_index import add_texts_sql, remove_texts_sql, text_columns
from usagebill.storage.tables import TABLES, Table, table_of


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements for records of a kind: `remove` for an id, `forget` for a deleted id, `add` for a JSON list of ids.
    They depend on `columns`.
    """

    columns: frozenset[str]
    remove: tuple[str, ...]
    forget: tuple[str, ...]
    add: tuple[str, ...]


@cache
def _statements(kind: type) -> _Statements | None:
    table = table_of(kind)
    if table.listing is None:
        return None
    return _Statements(
        columns=frozenset((*counted_columns(table), *text_columns(table), *item_columns(table))),
        remove=(*move_counts_sql(table, "t.id = ?", "-"), *remove_items_sql(table), *note_change_sql(table)),
        forget=tuple(remove_texts_sql(table)),
        add=(*add_counts_sql(table), *add_texts_sql(table), *add_items_sql(table)),
    )


@dataclass(frozen=True, slots=True)
class _Referring:
    """Records of `table` counted by columns of another record; each statement takes that record's id."""

    table: Table
    columns: frozenset[str]
    remove: tuple[str, ...]
    add: tuple[str, ...]


@cache
def _referring(kind: type) -> tuple[_Referring, ...]:
    referring = []
    for table in TABLES:
        for (referred, column), inner in referred_columns(table).items():
            if referred is kind:
                join = f't."{column}" = o.id AND t.organization_id = o.organization_id'
                source = f'"{table_of(kind).name}" o CROSS JOIN'
                remove = move_counts_sql(table, f"o.id = ? AND {join}", "-", source)
                add = move_counts_sql(table, f"o.id = ? AND {join}", "", source)
                referring.append(_Referring(table, frozenset(inner), tuple(remove), tuple(add)))
    return tuple(referring)


class Kept:
    """The counts, texts and items that a transaction has yet to add."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pending: dict[type, dict[str, None]] = {}

    def state(self) -> dict[type, dict[str, None]]:
        """The state to `restore` if later changes are rolled back."""
        return {kind: dict(ids) for kind, ids in self._pending.items()}

    def restore(self, state: dict[type, dict[str, None]]) -> None:
        self._pending = state

    def inserted(self, kind: type, ids: Iterable[str]) -> None:
        """Records were inserted."""
        if _statements(kind) is not None:
            self._pending.setdefault(kind, {}).update(dict.fromkeys(ids))

    def changes(self, kind: type, id: str, columns: Iterable[str]) -> list[_Referring]:
        """A record is about to change in these columns; pass the result to `changed` afterwards."""
        columns = frozenset(columns)
        touched = [referring for referring in _referring(kind) if not referring.columns.isdisjoint(columns)]
        if touched:
            # Pending records would be removed without having been added.
            self.flush([referring.table.kind for referring in touched])
            for referring in touched:
                self._run(referring.remove, id)
        statements = _statements(kind)
        if statements is not None and not statements.columns.isdisjoint(columns):
            pending = self._pending.setdefault(kind, {})
            if id not in pending:
                self._run(statements.remove, id)
                pending[id] = None
        return touched

    def changed(self, id: str, touched: Iterable[_Referring]) -> None:
        """The record with this id was changed."""
        for referring in touched:
            self._run(referring.add, id)

    def goes(self, kind: type, id: str) -> None:
        """A record is about to be deleted."""
        statements = _statements(kind)
        if statements is None:
            return
        pending = self._pending.get(kind, {})
        if id in pending:
            del pending[id]
        else:
            self._run(statements.remove, id)
        self._run(statements.forget, id)

    def flush(self, kinds: Iterable[type] | None = None) -> None:
        """Add all pending ones (only of `kinds`, if given), so that lists see them."""
        for kind in list(self._pending if kinds is None else kinds):
            ids = self._pending.pop(kind, None)
            statements = _statements(kind)
            if ids and statements is not None:
                self._run(statements.add, json.dumps(list(ids)))

    def _run(self, statements: Iterable[str], value: str) -> None:
        for statement in statements:
            self._connection.execute(statement, (value,))
