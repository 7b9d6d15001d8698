"""A transaction on a connection: records by kind and condition, within one organization."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from usagebill.storage.conditions import Condition, Order
from usagebill.storage.ports import Duplicate
from usagebill.storage.record_sql import quoted
from usagebill.storage.sql.transaction import Memory, SqlTransaction
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.events import SqliteEvents
from usagebill.storage.sqlite.jobs import SqliteJobs
from usagebill.storage.sqlite.list_counts import SqliteListCounts
from usagebill.storage.sqlite.list_writes import ListWrites
from usagebill.storage.sqlite.listed import DIALECT
from usagebill.storage.sqlite.rows import codec_of, sql_value
from usagebill.storage.sqlite.undoing import TransactionLost
from usagebill.storage.tables import table_of

R = TypeVar("R")
V = TypeVar("V")
T = TypeVar("T")


@cache
def _select_sql(kind: type) -> str:
    return f"SELECT {codec_of(kind).names} FROM {quoted(table_of(kind).name)} t"


@cache
def _insert_sql(kind: type) -> str:
    return f"INSERT INTO {quoted(table_of(kind).name)} {codec_of(kind).insert}"


class _Memory(Memory):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.list_writes = ListWrites(connection)


class SqliteTransaction(SqlTransaction):
    """See `storage.ports.Transaction`."""

    _connection: sqlite3.Connection
    _memory: _Memory

    def __init__(
        self,
        connection: sqlite3.Connection,
        organization_id: str | None,
        memory: _Memory | None = None,
        *,
        missing_series: MissingSeries | None = None,
    ) -> None:
        super().__init__(organization_id, memory or _Memory(connection), DIALECT)
        self._connection = connection
        self._missing_series = missing_series
        self._list_writes = self._memory.list_writes
        self.jobs = SqliteJobs(connection, organization_id)
        self.events = SqliteEvents(connection, organization_id, missing_series)

    @property
    def _audit(self) -> SqliteListCounts:
        return SqliteListCounts(self._connection, self._ask, self._organization_id)

    def is_shared(self) -> bool:
        return len(self._connection.execute("SELECT 1 FROM organizations LIMIT 2").fetchall()) > 1

    def scoped(self, organization_id: str) -> SqliteTransaction:
        """The same transaction, within `organization_id`."""
        return SqliteTransaction(self._connection, organization_id, self._memory, missing_series=self._missing_series)

    def is_usage_behind(self) -> bool:
        """Whether events wait to be rolled up into running totals."""
        return self.events.is_behind()

    def roll_up_usage(self) -> None:
        """Do some of that work."""
        self.events.roll_up()

    def savepoint(self, change: Callable[[], T]) -> T:
        """Run `change`; if it raises, only its effects are undone, and the exception propagates."""
        memory = self._memory
        unwritten, entitling = self._list_writes.state(), set(memory.entitling)
        changes, redefined = dict(memory.changes), dict(memory.redefined)
        self._connection.execute("SAVEPOINT attempt")
        try:
            result = change()
        except BaseException as problem:
            memory.clear()
            self._list_writes.restore(unwritten)
            memory.entitling, memory.changes, memory.redefined = entitling, changes, redefined
            if not self._connection.in_transaction:
                raise problem if isinstance(problem, TransactionLost) else TransactionLost(problem) from problem
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            raise
        self._connection.execute("RELEASE attempt")
        return result

    def flush(self) -> None:
        """Write counts, documents and values of lists, and versions, before the commit."""
        self._list_writes.flush()
        versions = self._versions()
        if versions:
            self._connection.executemany(
                "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, 1)"
                " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + 1",
                versions,
            )

    # Reading

    def _rows(self, kind: type[R], clauses: str, values: Sequence[Any]) -> list[R]:
        codec = codec_of(kind)
        return [codec.record(row) for row in self._connection.execute(_select_sql(codec.kind) + clauses, values)]

    def _fetched(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def _ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._list_writes.flush()
        return self._connection.execute(sql, values).fetchall()

    def each(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> Iterator[R]:
        where, values = self._sql.where(kind, conditions, self._organization_id, deleted)
        codec = codec_of(kind)
        for row in self._connection.execute(_select_sql(codec.kind) + where + self._sql.order(kind, order), values):
            yield codec.record(row)

    # Writing

    def insert(self, *records: object) -> None:
        for kind, some in groupby(records, type):
            self._insert_all(kind, list(some))

    def _insert_all(self, kind: type, records: Sequence[Any]) -> None:
        codec, table = codec_of(kind), table_of(kind)
        for record in records:
            self._written(record)
        # Even if the insert fails: it may have stored the first of several.
        self._list_writes.inserted(kind, [record.id for record in records])
        rows = [codec.row(record) for record in records]
        if len(rows) == 1:
            self._execute(self._connection.execute, _insert_sql(kind), rows[0])
        else:
            self._execute(self._connection.executemany, _insert_sql(kind), rows)
        for record in records:
            self._inserted(record, table)

    def _changes(self, old: Any, new: Any) -> tuple[list[str], list[Any]]:
        return codec_of(type(new)).changes(old, new)

    def _update(self, record: Any, names: Sequence[str], values: Sequence[Any]) -> None:
        kind = type(record)
        assigned = ",".join(f'"{name}"=?' for name in names)
        statement = f"UPDATE {quoted(table_of(kind).name)} SET {assigned} WHERE id = ?"
        touched = self._list_writes.changes(kind, record.id, names)
        try:
            self._execute(self._connection.execute, statement, (*values, record.id))
        finally:
            # Even if the change failed: the record is counted as it is now.
            self._list_writes.changed(record.id, touched)

    def _delete(self, record: Any) -> bool:
        table, values = quoted(table_of(type(record)).name), (record.id, record.organization_id)
        where = "WHERE id = ? AND organization_id = ?"
        if self._connection.execute(f"SELECT 1 FROM {table} {where}", values).fetchone() is None:
            return False
        self._list_writes.goes(type(record), record.id)
        self._connection.execute(f"DELETE FROM {table} {where}", values)
        return True

    def _execute(self, execute: Callable[[str, V], object], statement: str, values: V) -> None:
        try:
            execute(statement, values)
        except sqlite3.IntegrityError as problem:
            text = str(problem)
            if not text.startswith("UNIQUE constraint failed: "):
                raise
            columns = (part.split(".")[-1] for part in text.split(": ", 1)[1].split(", "))
            raise Duplicate(tuple(column for column in columns if column != "organization_id")) from problem

    # Numbers and the clock

    def next_number(self, name: str, start: int = 1) -> int:
        row = self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + 1 RETURNING value",
            (self._organization_id or "", name, start),
        ).fetchone()
        return int(row[0])

    def last_numbers(self, *names: str) -> list[int]:
        tests = f"organization_id = ? AND name IN ({','.join('?' * len(names))})"
        values = self._organization_id or "", *names
        numbers = dict(self._connection.execute(f"SELECT name, value FROM sequences WHERE {tests}", values))
        return [numbers.get(name, 0) for name in names]

    def remove_organization(self) -> None:
        self._list_writes.flush()
        self._memory.clear()
        own = (self._organization_id,)
        # Sequence numbers of events are never given again: records of others refer to how far they have counted.
        last = self.events.stored()
        connection = self._connection
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute(
            "DELETE FROM usage_totals WHERE series IN (SELECT id FROM usage_series WHERE organization_id = ?)", own
        )
        tables = connection.execute(
            "SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c"
            " WHERE t.type = 'table' AND c.name = 'organization_id' ORDER BY t.name"
        ).fetchall()
        for (name,) in tables:
            connection.execute(f"DELETE FROM {quoted(name)} WHERE organization_id = ?", own)
        if self.events.stored() < last:
            connection.execute(
                "INSERT INTO events (sequence, id, organization_id, transaction_id, code, timestamp, properties,"
                " created_at) VALUES (?, '', '', '', '', 0, '{}', 0)",
                (last,),
            )
        other = connection.execute("SELECT id FROM organizations LIMIT 1").fetchone()
        if other is not None:
            # Deleted events end all running totals (`storage.sql.usage_totals`): they begin again when next asked for.
            self.scoped(other[0]).events.rebuild_states()

    def note_instant(self, instant: datetime, *, even_if_earlier: bool = False) -> None:
        later = "" if even_if_earlier else " WHERE excluded.newest > newest"
        self._connection.execute(
            "INSERT INTO clock (id, newest) VALUES (1, ?)"
            f" ON CONFLICT (id) DO UPDATE SET newest = excluded.newest{later}",
            (sql_value(instant),),
        )
