"""Counts, documents and values of lists, written in the transaction of their records.

What a record has of these is removed before it changes, and added in bulk: before the transaction commits, or a list is
read. Triggers would do the same row by row, and make SQLite copy every page that a statement changes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from usagebill.storage.record_sql import quoted
from usagebill.storage.sql.listed import joined_columns
from usagebill.storage.sqlite.listed import (
    add_documents_sql,
    add_sql,
    counts_sql,
    forget_sql,
    subtract_sql,
    written_columns,
)
from usagebill.storage.tables import TABLES, Table, table_of


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements for records of a kind: `subtract` and `forget` for an id, `add` for a JSON list of ids. They depend on
    `columns`.
    """

    columns: frozenset[str]
    subtract: list[str]
    forget: list[str]
    add: list[str]


@cache
def _statements(kind: type) -> _Statements | None:
    table = table_of(kind)
    if table.listing is None:
        return None
    return _Statements(written_columns(table), subtract_sql(table), forget_sql(table), add_sql(table))


@dataclass(frozen=True, slots=True)
class _Referring:
    """Records of `table` counted by columns of another record; both statements take that record's id."""

    table: Table
    columns: frozenset[str]
    subtract: str
    add: str


@cache
def _referring(kind: type) -> tuple[_Referring, ...]:
    referring = []
    for table in TABLES:
        for (referred, column), inner in joined_columns(table).items():
            if referred is kind:
                tests = f't."{column}" = o.id AND t.organization_id = o.organization_id AND o.id = ?'
                source = f"{quoted(table_of(kind).name)} o CROSS JOIN {quoted(table.name)} t"
                subtract, add = (
                    counts_sql(table, tests, number=number, source=source) for number in ("-COUNT(*)", "COUNT(*)")
                )
                referring.append(_Referring(table, frozenset(inner), subtract, add))
    return tuple(referring)


@cache
def _searched_with(kind: type) -> tuple[tuple[str, frozenset[str]], ...]:
    """The statements that write the documents of records that are searched with the record with an id, and the columns
    of that record which these contain.
    """
    statements = []
    for table in TABLES:
        party = None if table.listing is None else table.listing.searched_with
        if party is not None and party.kind is kind:
            tests = f"t.{quoted(party.column)} = ?"
            statements.append((add_documents_sql(table, tests), frozenset(party.columns)))
    return tuple(statements)


@dataclass(slots=True)
class Unwritten:
    """What a transaction has yet to write: records by kind, and statements with the id of a renamed record."""

    records: dict[type, dict[str, None]] = field(default_factory=dict)
    renamed: dict[tuple[str, str], None] = field(default_factory=dict)

    def copy(self) -> Unwritten:
        return Unwritten({kind: dict(ids) for kind, ids in self.records.items()}, dict(self.renamed))


class ListWrites:
    """The counts, documents and values that a transaction writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._unwritten = Unwritten()

    def state(self) -> Unwritten:
        """The state to `restore` if later changes are rolled back."""
        return self._unwritten.copy()

    def restore(self, state: Unwritten) -> None:
        self._unwritten = state

    def inserted(self, kind: type, ids: Iterable[str]) -> None:
        """Records were inserted."""
        if _statements(kind) is not None:
            self._unwritten.records.setdefault(kind, {}).update(dict.fromkeys(ids))

    def changes(self, kind: type, id: str, columns: Iterable[str]) -> list[_Referring]:
        """A record is about to change in these columns; pass the result to `changed` afterwards."""
        columns = frozenset(columns)
        touched = [referring for referring in _referring(kind) if not referring.columns.isdisjoint(columns)]
        if touched:
            # Records that are not counted yet would be subtracted.
            self.flush()
            for referring in touched:
                self._connection.execute(referring.subtract, (id,))
        for statement, contained in _searched_with(kind):
            if not contained.isdisjoint(columns):
                self._unwritten.renamed[statement, id] = None
        statements = _statements(kind)
        if statements is not None and not statements.columns.isdisjoint(columns):
            unwritten = self._unwritten.records.setdefault(kind, {})
            if id not in unwritten:
                self._run(statements.subtract, id)
                unwritten[id] = None
        return touched

    def changed(self, id: str, touched: Iterable[_Referring]) -> None:
        """The record with this id was changed."""
        for referring in touched:
            self._connection.execute(referring.add, (id,))

    def goes(self, kind: type, id: str) -> None:
        """A record is about to be deleted."""
        statements = _statements(kind)
        if statements is None:
            return
        unwritten = self._unwritten.records.get(kind, {})
        if id in unwritten:
            del unwritten[id]
        else:
            self._run(statements.subtract, id)
        self._run(statements.forget, id)

    def flush(self) -> None:
        """Write all of it, so that lists see it."""
        unwritten, self._unwritten = self._unwritten, Unwritten()
        for kind, ids in unwritten.records.items():
            statements = _statements(kind)
            if ids and statements is not None:
                self._run(statements.add, json.dumps(list(ids)))
        for statement, id in unwritten.renamed:
            self._connection.execute(statement, (id,))

    def _run(self, statements: Iterable[str], value: str) -> None:
        for statement in statements:
            self._connection.execute(statement, (value,))
