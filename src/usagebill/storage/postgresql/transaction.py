"""A transaction: records by kind and condition, within one organization."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from usagebill.storage.conditions import Condition, Order
from usagebill.storage.ports import Duplicate
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events import PostgresEvents
from usagebill.storage.postgresql.jobs import PostgresJobs
from usagebill.storage.postgresql.listed import DIALECT, PostgresListCounts
from usagebill.storage.postgresql.locks import Locked, Locks
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.pending import Pending
from usagebill.storage.postgresql.rows import insert_sql, rows_of, select_sql, sql_value
from usagebill.storage.postgresql.sequences import Sequences
from usagebill.storage.postgresql.unique_rules import broken_rule
from usagebill.storage.record_sql import bounded, quoted
from usagebill.storage.sql.transaction import SqlTransaction, hashable
from usagebill.storage.tables import Table, table_of, tables_in_order

R = TypeVar("R")
T = TypeVar("T")


class PostgresTransaction(SqlTransaction):
    """See `storage.ports.Transaction`; a snapshot has no `locks`. What is cached is forgotten when a lock is taken."""

    _connection: Connection
    _memory: Memory

    def __init__(
        self,
        connection: Connection,
        organization_id: str | None,
        memory: Memory | None = None,
        *,
        locks: Locks | None = None,
        pending: Pending | None = None,
    ) -> None:
        super().__init__(organization_id, memory or Memory(), DIALECT)
        self._connection = connection
        self._locks = locks
        self._pending = pending
        if locks is not None:
            locks.when_taken = self._memory.clear
        self.jobs = PostgresJobs(connection, organization_id, locks, pending)
        self.events = PostgresEvents(connection, organization_id, self._memory.states)
        self._sequences = Sequences(connection, locks, pending)

    @property
    def _audit(self) -> PostgresListCounts:
        return PostgresListCounts(self._connection, self._ask, self._organization_id)

    def is_shared(self) -> bool:
        return len(self._connection.of(None).execute("SELECT 1 FROM organizations LIMIT 2").fetchall()) > 1

    def scoped(self, organization_id: str) -> PostgresTransaction:
        """The same transaction, within `organization_id`, once it has the lock of that."""
        connection = self._connection.of(organization_id)
        if self._locks is not None and organization_id not in self._locks.held:
            # Taken with the first query: a job may be left to the process that holds it.
            self._memory.clear()
            connection = Locked(connection, self._locks, organization_id)
        return PostgresTransaction(connection, organization_id, self._memory, locks=self._locks, pending=self._pending)

    def savepoint(self, change: Callable[[], T]) -> T:
        """Run `change`; if it raises, only its own effects are undone, and the exception propagates."""
        memory, pending = self._memory, self._pending
        assert pending is not None, "a snapshot has no savepoints"
        entitling, changes, redefined = set(memory.entitling), dict(memory.changes), dict(memory.redefined)
        held = set() if self._locks is None else set(self._locks.held)
        savepoint = pending.savepoint()
        try:
            result = change()
        except BaseException:
            memory.clear()
            memory.entitling, memory.changes, memory.redefined = entitling, changes, redefined
            if self._locks is not None:
                # Locks taken within it are released too.
                self._locks.held &= held
            pending.roll_back(savepoint)
            raise
        pending.release(savepoint)
        return result

    def unchecked(self, change: Callable[[], T]) -> T:
        """Run `change`, whose writes break no unique rule and may be buffered until the next query."""
        if self._pending is None:
            return change()
        with self._pending.buffered():
            return change()

    @property
    def unsent_seconds(self) -> float:
        """The estimated time to send the buffered writes."""
        return 0.0 if self._pending is None else self._pending.seconds

    def flush(self) -> None:
        """Write versions, before the transaction commits."""
        self._sequences.raise_all(self._versions())
        if self._pending is not None:
            self._pending.send()

    # Reading

    def _rows(self, kind: type[R], clauses: str, values: Sequence[Any]) -> list[R]:
        codec = rows_of(kind).codec
        rows = self._connection.execute(select_sql(codec.kind) + clauses, values).fetchall()
        return [codec.record(row) for row in rows]

    def _fetched(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values, anew=True).fetchall()

    def _ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        # Planned for its values: many records have one value, few another.
        return self._connection.execute(sql, values, anew=True).fetchall()

    def each(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> Iterator[R]:
        where, values = self._sql.where(kind, conditions, self._organization_id, deleted)
        codec = rows_of(kind).codec
        for row in self._connection.stream(select_sql(codec.kind) + where + self._sql.order(kind, order), values):
            yield codec.record(row)

    # Siblings: what is asked of one record is read for those that follow it in a list

    @property
    def _reads_ahead(self) -> bool:
        """Whether this is a snapshot, which stays as it is."""
        return self._locks is None

    def _listed(self, records: Sequence[Any]) -> None:
        self._memory.siblings.note(records)

    def _read(self, kind: type[R], id: str) -> R | None:
        siblings = self._memory.siblings
        unread = [other for other in siblings.of(id) if (kind, other) not in self._known] if self._reads_ahead else []
        if siblings.are_worth_asking_for(kind, id, unread):
            records = self._rows(kind, ' WHERE t."id" = ANY(?::text[]) ORDER BY t."id"', [unread])
            self._keep(kind, records)
            siblings.note(records)
            if (kind, id) in self._known:
                record: R = self._known[kind, id]
                return record
        return super()._read(kind, id)

    def _foresee(
        self, kind: type, conditions: Sequence[Condition], order: Sequence[Order], limit: int | None, deleted: bool
    ) -> None:
        if not self._reads_ahead:
            return
        siblings = self._memory.siblings
        where, bound = self._sql.where(kind, conditions, self._organization_id, deleted)
        corresponding = siblings.corresponding(bound)
        if corresponding is None:
            return
        first, *_ = rows = corresponding.rows
        question = kind, where, corresponding.places, tuple(order), limit
        if not siblings.are_worth_asking_for(question, first, rows):
            return
        codec, ordered = rows_of(kind).codec, self._sql.order(kind, order)
        bounds = "" if limit is None else f" LIMIT {bounded(limit)}"
        answers: list[list[Any]] = [[] for _ in rows]
        for row in self._connection.execute(
            corresponding.sql(select_sql(codec.kind), where, ordered + bounds), corresponding.values(bound)
        ):
            answers[row[0] - 1].append(codec.record(row[1:]))
        self._keep(kind, [record for records in answers for record in records])
        clauses = where + ordered + ("" if limit is None else " LIMIT ? OFFSET ?")
        for row, records in zip(rows, answers, strict=True):
            values = corresponding.of_row(row, bound) + ([] if limit is None else [bounded(limit), 0])
            self._memory.answers[kind, clauses, hashable(values)] = (0, records)
        siblings.note([record for records in answers for record in records])

    # Writing

    def insert(self, *records: object) -> None:
        for record in records:
            table = self._written(record)
            kind: Any = type(record)
            row = rows_of(kind).row(record)
            if self._pending is not None and self._pending.is_buffering:
                self._pending.insert(kind, row)
            elif self._connection.execute(insert_sql(kind), row).rowcount != 1:
                raise Duplicate(broken_rule(self._connection, record) or ("id",))
            self._inserted(record, table)

    def _changes(self, old: Any, new: Any) -> tuple[list[str], list[Any]]:
        return rows_of(type(new)).changes(old, new)

    def _update(self, record: Any, names: Sequence[str], values: Sequence[Any]) -> None:
        assigned = ",".join(f'"{name}"=?' for name in names)
        statement = f"UPDATE {quoted(table_of(type(record)).name)} SET {assigned} WHERE id = ?"
        if self._pending is not None and self._pending.is_buffering:
            self._pending.update(statement, (*values, record.id))
            return
        broken = broken_rule(self._connection, record, frozenset(names))
        if broken is not None:
            raise Duplicate(broken)
        self._connection.execute(statement, (*values, record.id))

    def _delete(self, record: Any) -> bool:
        deleted = self._connection.execute(
            f"DELETE FROM {quoted(table_of(type(record)).name)} WHERE id = ? AND organization_id = ?",
            (record.id, record.organization_id),
        )
        return deleted.rowcount > 0

    def _written(self, record: Any) -> Table:
        """Take the lock of the record's organization too."""
        table = super()._written(record)
        owner = getattr(record, "organization_id", None)
        if self._locks is not None and owner is not None:
            self._locks.take(owner)
        return table

    # Numbers

    def next_number(self, name: str, start: int = 1) -> int:
        return self._sequences.next_number(self._organization_id or "", name, start)

    def last_numbers(self, *names: str) -> list[int]:
        numbers = self._sequences.last_numbers(self._organization_id or "", names)
        return [numbers.get(name, 0) for name in names]

    def remove_organization(self) -> None:
        self._memory.clear()
        tables = self._connection.execute(
            "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t"
            " USING (table_schema, table_name) WHERE c.table_schema = current_schema()"
            " AND c.column_name = 'organization_id' AND t.table_type = 'BASE TABLE'"
        ).fetchall()
        # Records that refer to others go before them, and last the counts that triggers keep of them.
        order = [table_of(kind).name for kind in reversed(tables_in_order())]
        names = sorted((row[0] for row in tables), key=lambda name: order.index(name) if name in order else len(order))
        for name in names:
            self._connection.execute(f"DELETE FROM {quoted(name)} WHERE organization_id = ?", (self._organization_id,))

    # The clock: a row per session, so that nobody waits to note an instant

    def note_instant(self, instant: datetime, *, even_if_earlier: bool = False) -> None:
        later = " WHERE excluded.newest > clock.newest"
        if even_if_earlier:
            later = ""
            self._connection.execute("DELETE FROM clock WHERE newest > ?", (sql_value(instant),))
        self._connection.execute(
            "INSERT INTO clock (session, newest) VALUES (pg_backend_pid(), ?)"
            f" ON CONFLICT (session) DO UPDATE SET newest = excluded.newest{later}",
            (sql_value(instant),),
        )
