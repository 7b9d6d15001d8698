"""A transaction on a connection: records by kind and condition, within one organization."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from usagebill.core.activity_logs import Change
from usagebill.storage.conditions import Condition, Order
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.listings import Total
from usagebill.storage.ports import NOT_ENCODED, Duplicate, Encoded
from usagebill.storage.record_sql import bounded, group_sql, kinds_among, quoted
from usagebill.storage.sql.lists import Lists
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.events import SqliteEvents
from usagebill.storage.sqlite.jobs import SqliteJobs
from usagebill.storage.sqlite.list_counts import SqliteListCounts
from usagebill.storage.sqlite.list_writes import ListWrites
from usagebill.storage.sqlite.listed import DIALECT
from usagebill.storage.sqlite.observing import (
    TRACKED,
    Observation,
    ObservedEvents,
    Observer,
    Rows,
    Statement,
    Version,
    latest_event,
    observation_holds,
)
from usagebill.storage.sqlite.queries import order_sql, where_sql
from usagebill.storage.sqlite.rows import codec_of, sql_value, whole_number
from usagebill.storage.sqlite.undoing import TransactionLost
from usagebill.storage.sums import GroupKey, Sums
from usagebill.storage.tables import TABLES, TOLD, Table, table_of

R = TypeVar("R")
V = TypeVar("V")
T = TypeVar("T")

# Rows that one statement reads by id.
_AT_ONCE = 500
# Most cached records: a transaction may read a whole file.
_KNOWN_AT_MOST = 10_000
# The sequence that counts changes to an organization's entitlements.
_ENTITLEMENTS = "entitlements"


@cache
def _select_sql(kind: type) -> str:
    return f"SELECT {codec_of(kind).names} FROM {quoted(table_of(kind).name)} t"


@cache
def _insert_sql(kind: type) -> str:
    return f"INSERT INTO {quoted(table_of(kind).name)} {codec_of(kind).insert}"


class _Memory:
    """A transaction's cache: records by id, and results of queries with the kinds of records that they read.

    A result is valid until `writes` counts another write of such a kind. `version` is the store's before the
    transaction.
    """

    def __init__(self, connection: sqlite3.Connection, version: Version | None = None) -> None:
        self.version = version
        self.records: dict[tuple[type, str], Any] = {}
        self.answers: dict[tuple[type, str, tuple[Any, ...]], tuple[int, list[Any], frozenset[type]]] = {}
        self.writes: Counter[type] = Counter()
        # Values of tracked columns in the rows written, before and after.
        self.touched: dict[type, set[tuple[str, object]]] = {}
        self.untracked: set[type] = set()
        # Answers of snapshots, shared by their observations, and answers that a writer has repeated.
        self.answered: dict[Statement, Rows] = {}
        self.shared: dict[tuple[type, str, tuple[Any, ...]], list[Any]] = {}
        self.decoded: dict[tuple[type, str, tuple[Any, ...]], list[Any]] | None = None
        self.repeated: dict[Statement, tuple[int, ...]] = {}
        self.list_writes = ListWrites(connection)
        # The organizations whose entitlements may have changed.
        self.entitling: set[str] = set()
        # Records of logged tables, before and after.
        self.changes: dict[tuple[type, str], tuple[Any, Any]] = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        self.repeated.clear()

    def is_unchanged(self, kind: type, since: Version | None) -> bool:
        """Whether records of the kind are known to be unchanged since an earlier version of the store."""
        if self.version is None or since is None or not self.version.is_free_of_foreign_writes(kind, since):
            return False
        return self.version.writes.get(kind, 0) + self.writes[kind] == since.writes.get(kind, 0)

    def touched_since(self, kind: type, since: Version | None) -> Set[tuple[str, object]] | None:
        """The values of tracked columns in records of the kind written since; None if others may have written some."""
        if (
            self.version is None
            or since is None
            or not self.version.is_free_of_foreign_writes(kind, since)
            or kind in self.untracked
        ):
            return None
        is_alone = self.version.writes.get(kind, 0) == since.writes.get(kind, 0)
        return self.touched.get(kind, set()) if is_alone else None

    def touch(self, kind: type, *records: object) -> None:
        """Note that records of the kind are written, as they are before and after."""
        touched = self.touched.setdefault(kind, set())
        for column in _tracked(kind):
            touched.update([(column, getattr(record, column)) for record in records])

    def recall(self, earlier: _Memory) -> None:
        """Reuse what an earlier transaction of the store has read and nobody has written since."""
        unchanged = {kind for kind in _kinds().values() if self.is_unchanged(kind, earlier.version)}
        for (kind, id), record in earlier.records.items():
            if kind in unchanged:
                self.records.setdefault((kind, id), record)
        for question, (_, records, other_kinds) in earlier.answers.items():
            if question[0] in unchanged and other_kinds <= unchanged:
                written = self.writes[question[0]] + sum(self.writes[kind] for kind in other_kinds)
                self.answers.setdefault(question, (written, records, other_kinds))


class _Written(Mapping[str, int]):
    """The number of writes of this transaction to each table."""

    def __init__(self, writes: Counter[type]) -> None:
        self._writes = writes

    def __getitem__(self, table: str) -> int:
        return self._writes[_kinds()[table]]

    def __contains__(self, table: object) -> bool:
        return table in _kinds()

    def __iter__(self) -> Iterator[str]:
        return iter(_kinds())

    def __len__(self) -> int:
        return len(_kinds())


@cache
def _tracked(kind: type) -> tuple[str, ...]:
    names = {item.name for item in fields(kind)}
    return tuple(column for column in TRACKED if column in names)


@cache
def _kinds() -> dict[str, type]:
    return {table.name: table.kind for table in TABLES}


class SqliteTransaction:
    """See `storage.ports.Transaction`.

    Records read by id are cached for the rest of the transaction, and results of queries until a record of their kinds
    is written: a billing run reads prices, taxes and periods over and over.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        organization_id: str | None,
        memory: _Memory | None = None,
        *,
        version: Version | None = None,
        missing_series: MissingSeries | None = None,
    ) -> None:
        self._connection = connection
        self._missing_series = missing_series
        self._organization_id = organization_id
        self._memory = memory or _Memory(connection, version)
        self._list_writes = self._memory.list_writes
        self._known = self._memory.records
        self._lists = None if organization_id is None else Lists(self._ask, DIALECT, organization_id)
        self.jobs = SqliteJobs(connection, organization_id)
        self.events = SqliteEvents(connection, organization_id, missing_series)
        self.list_counts = SqliteListCounts(connection, self._ask, organization_id)

    @property
    def organization_id(self) -> str | None:
        return self._organization_id

    def is_shared(self) -> bool:
        return len(self._connection.execute("SELECT 1 FROM organizations LIMIT 2").fetchall()) > 1

    def scoped(self, organization_id: str) -> SqliteTransaction:
        """The same transaction, within `organization_id`."""
        return SqliteTransaction(self._connection, organization_id, self._memory, missing_series=self._missing_series)

    def observed(self, question: Callable[[SqliteTransaction], T]) -> tuple[T, Observation]:
        """The result of the query, and the observation that it is based on."""
        observation = Observation(self._organization_id, latest_event(self._connection), self._memory.version)
        observer = Observer(self._connection, observation, self._memory.answered)
        # A snapshot uses only what an observer supports.
        tx = SqliteTransaction(observer, self._organization_id)  # type: ignore[arg-type]
        tx._memory.decoded = self._memory.shared
        tx.events = ObservedEvents(self._connection, observer, self._organization_id, observation, self._missing_series)
        return question(tx), observation

    def watching(self, questions: Sequence[EventQuery]) -> Observation:
        """An observation that holds until an event arrives that matches one of the queries."""
        observation = Observation(self._organization_id, latest_event(self._connection), self._memory.version)
        observation.questions += questions
        return observation

    def still_holds(self, observation: Observation) -> bool:
        """Whether all queries observed in an earlier snapshot still have the same results."""
        if observation.looks_at_lists:
            self._list_writes.flush()
        memory = self._memory

        @cache
        def is_unchanged(table: str) -> bool:
            return memory.is_unchanged(_kinds()[table], observation.version)

        def touched(table: str) -> Set[tuple[str, object]] | None:
            return memory.touched_since(_kinds()[table], observation.version)

        written = _Written(memory.writes)
        return observation_holds(self._connection, observation, written, memory.repeated, is_unchanged, touched)

    def recall(self, snapshot: SqliteTransaction) -> None:
        """Reuse what an earlier snapshot of the same store has read and is known to be unchanged."""
        self._memory.recall(snapshot._memory)

    @property
    def writes(self) -> Mapping[type, int]:
        """The number of writes of this transaction, by kind of record."""
        return self._memory.writes

    def is_usage_behind(self) -> bool:
        """Whether events wait to be rolled up into running totals."""
        return self.events.is_behind()

    def roll_up_usage(self) -> None:
        """Do some of that work."""
        self.events.roll_up()

    def savepoint(self, change: Callable[[], T]) -> T:
        """Run `change`; if it raises, only its effects are undone, and the exception propagates."""
        unwritten, entitling, changes = (
            self._list_writes.state(),
            set(self._memory.entitling),
            dict(self._memory.changes),
        )
        self._connection.execute("SAVEPOINT attempt")
        try:
            result = change()
        except BaseException as problem:
            self._memory.clear()
            self._list_writes.restore(unwritten)
            self._memory.entitling = entitling
            self._memory.changes = changes
            if not self._connection.in_transaction:
                raise problem if isinstance(problem, TransactionLost) else TransactionLost(problem) from problem
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            raise
        self._connection.execute("RELEASE attempt")
        return result

    def unchecked(self, change: Callable[[], T]) -> T:
        """Run `change`, whose writes break no rule."""
        return change()

    @property
    def unsent_seconds(self) -> float:
        """Always 0: nothing waits to be written."""
        return 0.0

    def flush(self) -> None:
        """Write counts, documents and values of lists, and entitlement versions, before the commit."""
        self._list_writes.flush()
        for organization_id in self._memory.entitling:
            self._next_number(organization_id, _ENTITLEMENTS, 1)

    @property
    def entitling(self) -> Set[str]:
        """The organizations whose entitlements may have changed in this transaction."""
        return self._memory.entitling

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        record: R | None = self._known.get((kind, id))
        if record is None:
            record = next(iter(self._select(kind, "t.id = ?", [id])), None)
            if record is None:
                return None
            self._known[kind, id] = record
        if self._organization_id is not None and getattr(record, "organization_id", None) != self._organization_id:
            return None
        if not deleted and getattr(record, "deleted_at", None) is not None:
            return None
        return record

    def get_each(self, *named: tuple[type, str]) -> list[Any]:
        return [self.get(kind, id) for kind, id in named]

    def first(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> R | None:
        return next(iter(self.find(kind, *conditions, order=order, limit=1, deleted=deleted)), None)

    def find(
        self,
        kind: type[R],
        *conditions: Condition,
        order: Sequence[Order] = (),
        limit: int | None = None,
        offset: int = 0,
        deleted: bool = False,
    ) -> list[R]:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        bounds = ""
        if limit is not None:
            bounds = " LIMIT ? OFFSET ?"
            values += [bounded(limit), bounded(offset)]
        clauses = where + order_sql(kind, order) + bounds
        memory, question = self._memory, (kind, clauses, tuple(values))
        other_kinds = kinds_among(conditions) - {kind}
        # Counts only grow, so every write changes their sum.
        written = memory.writes[kind] + sum(memory.writes[other] for other in other_kinds)
        cached = memory.answers.get(question)
        if cached is None or cached[0] != written:
            cached = (written, self._cached_rows(kind, clauses, values), other_kinds)
            memory.answers[question] = cached
        return list(cached[1])

    def _named(self, kind: type[R], ids: Sequence[str]) -> list[R]:
        """The records with these ids, in this order."""
        unread = [id for id in ids if (kind, id) not in self._known]
        records: dict[str, R] = {id: self._known[kind, id] for id in ids if (kind, id) in self._known}
        for start in range(0, len(unread), _AT_ONCE):
            some = unread[start : start + _AT_ONCE]
            for record in self._select(kind, f"t.id IN ({','.join('?' * len(some))})", some):
                records[record.id] = record  # type: ignore[attr-defined]
        return [records[id] for id in ids]

    def _cached_rows(self, kind: type[R], clauses: str, values: list[Any]) -> list[R]:
        records = self._rows(kind, clauses, values)
        if len(self._known) > _KNOWN_AT_MOST or len(self._memory.answers) > _KNOWN_AT_MOST:
            self._memory.clear()
        for record in records:
            self._known[kind, record.id] = record  # type: ignore[attr-defined]
        return records

    def page(
        self,
        kind: type[R],
        *conditions: Condition,
        order: Sequence[Order] = (),
        limit: int,
        offset: int = 0,
        deleted: bool = False,
    ) -> tuple[list[R], Total]:
        if self._lists is not None and not deleted:
            listed = self._lists.page(kind, conditions, order, limit, offset)
            if listed is not None:
                return self._named(kind, listed[0]), listed[1]
        total = self.count(kind, *conditions, deleted=deleted)
        if offset >= total:
            return [], Total(total)
        records = self.find(kind, *conditions, order=order, limit=limit, offset=offset, deleted=deleted)
        return records, Total(total)

    def each(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> Iterator[R]:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        codec = codec_of(kind)
        for row in self._connection.execute(_select_sql(codec.kind) + where + order_sql(kind, order), values):
            yield codec.record(row)

    def count(self, kind: type[Any], *conditions: Condition, deleted: bool = False) -> int:
        if self._lists is not None and not deleted:
            counted = self._lists.count(kind, conditions)
            if counted is not None:
                return counted
        return int(self._scalar(kind, "COUNT(*)", conditions, deleted))

    def total(self, kind: type[Any], column: str, *conditions: Condition, deleted: bool = False) -> int:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        name = quoted(column)
        # Summed in Python: SQLite's sums are limited to 64 bits.
        rows = self._connection.execute(f"SELECT t.{name} FROM {quoted(table_of(kind).name)} t{where}", values)
        return sum(whole_number(row[0]) for row in rows if row[0] is not None)

    def grouped(
        self, kind: type[Any], by: Sequence[GroupKey], columns: Sequence[str], *conditions: Condition
    ) -> list[Sums]:
        where, values = where_sql(kind, conditions, self._organization_id, False, gathered=False)
        names, joins = group_sql(by)
        sums = ",".join(f"stored_sum(t.{quoted(column)})" for column in columns)
        rows = self._connection.execute(
            f"SELECT {','.join((*names, 'COUNT(*)', sums))} FROM {quoted(table_of(kind).name)} t{joins}{where}"
            f" GROUP BY {','.join(map(str, range(1, len(names) + 1)))}",
            values,
        )
        width = len(names)
        return [
            Sums(key=tuple(row[:width]), count=row[width], sums=tuple(map(Decimal, row[width + 1 :])))
            for row in rows.fetchall()
        ]

    def maximum(self, kind: type[Any], column: str, *conditions: Condition, deleted: bool = False) -> int | None:
        value = self._scalar(kind, f"MAX(t.{quoted(column)})", conditions, deleted)
        return None if value is None else whole_number(value)

    def encoded(self, records: Sequence[object]) -> Encoded:
        return {record.id: codec_of(type(record)).row(record) for record in records}  # type: ignore[attr-defined]

    def insert(self, *records: object, encoded: Encoded = NOT_ENCODED) -> None:
        for kind, alike in groupby(records, type):
            self._insert_alike(kind, list(alike), encoded)

    def _insert_alike(self, kind: type, records: Sequence[Any], encoded: Encoded) -> None:
        codec, memory, table = codec_of(kind), self._memory, table_of(kind)
        for record in records:
            self._check_organization(record)
        memory.writes[kind] += len(records)
        memory.touch(kind, *records)
        # Even if the insert fails: it may have stored the first of several.
        self._list_writes.inserted(kind, [record.id for record in records])
        rows = [encoded.get(record.id) or codec.row(record) for record in records]
        if len(rows) == 1:
            self._execute(self._connection.execute, _insert_sql(kind), rows[0])
        else:
            self._execute(self._connection.executemany, _insert_sql(kind), rows)
        for record in records:
            self._known[kind, record.id] = record
            if table.entitles:
                memory.entitling.add(record.organization_id)
            if kind in TOLD:
                self._changed(kind, record.id, None, record)

    def replace(self, record: object, *, former: object | None = None) -> None:
        self._check_organization(record)
        table = self._written(type(record))
        id = record.id  # type: ignore[attr-defined]
        old = self._known.get((type(record), id)) or former
        old = old or next(iter(self._select(type(record), "t.id = ?", [id])), None)
        if old is None or getattr(old, "organization_id", None) != getattr(record, "organization_id", None):
            raise LookupError(f"no {type(record).__name__} {id} to replace")
        self._memory.touch(type(record), old, record)
        names, values = codec_of(type(record)).changes(old, record)
        if names:
            assigned = ",".join(f'"{name}"=?' for name in names)
            touched = self._list_writes.changes(type(record), id, names)
            try:
                self._execute(
                    self._connection.execute, f"UPDATE {quoted(table.name)} SET {assigned} WHERE id = ?", (*values, id)
                )
            finally:
                # Even if the change failed: the record is counted as it is now.
                self._list_writes.changed(id, touched)
            if not set(table.entitles).isdisjoint(names):
                self._memory.entitling.add(record.organization_id)  # type: ignore[attr-defined]
        self._known[type(record), id] = record
        if type(record) in TOLD:
            self._changed(type(record), id, old, record)

    def _changed(self, kind: type, id: str, old: object, new: object) -> None:
        earlier = self._memory.changes.get((kind, id))
        self._memory.changes[kind, id] = (old if earlier is None else earlier[0], new)

    def take_changes(self) -> list[Change]:
        taken, self._memory.changes = self._memory.changes, {}
        return [Change(old, new) for old, new in taken.values() if old is not new]

    def _written(self, kind: type) -> Table:
        """The table of a kind; called before every write to it."""
        self._memory.writes[kind] += 1
        return table_of(kind)

    def delete(self, *records: object) -> None:
        for record in records:
            self._check_organization(record)
            id = record.id  # type: ignore[attr-defined]
            owner = record.organization_id  # type: ignore[attr-defined]
            table = self._written(type(record))
            # The stored record may be a different version.
            self._memory.untracked.add(type(record))
            if self._connection.execute(
                f"SELECT 1 FROM {quoted(table_of(type(record)).name)} WHERE id = ? AND organization_id = ?", (id, owner)
            ).fetchone():
                self._list_writes.goes(type(record), id)
                if type(record) in TOLD:
                    self._changed(type(record), id, record, None)
            delete = f"DELETE FROM {quoted(table.name)} WHERE id = ? AND organization_id = ?"
            self._execute(self._connection.execute, delete, (id, owner))
            if table.entitles:
                self._memory.entitling.add(owner)
            self._known.pop((type(record), id), None)

    def next_number(self, name: str, start: int = 1) -> int:
        return self._next_number(self._organization_id or "", name, start)

    def _next_number(self, organization_id: str, name: str, start: int, count: int = 1) -> int:
        """The last of the next `count` numbers; a new sequence begins at `start`."""
        row = self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + ? RETURNING value",
            (organization_id, name, start, count),
        ).fetchone()
        return int(row[0])

    def entitlements_version(self) -> int:
        return self.last_number(_ENTITLEMENTS)

    def newest_instant(self) -> datetime | None:
        row = self._connection.execute("SELECT newest FROM clock").fetchone()
        return None if row is None else datetime.fromisoformat(row[0])

    def note_instant(self, instant: datetime, *, even_if_earlier: bool = False) -> None:
        later = "" if even_if_earlier else " WHERE excluded.newest > newest"
        self._connection.execute(
            "INSERT INTO clock (id, newest) VALUES (1, ?)"
            f" ON CONFLICT (id) DO UPDATE SET newest = excluded.newest{later}",
            (sql_value(instant),),
        )

    def next_numbers(self, names: Sequence[str]) -> list[int]:
        owner = self._organization_id or ""
        numbers = {}
        for name, count in Counter(names).items():
            last = self._next_number(owner, name, count, count)
            numbers[name] = iter(range(last - count + 1, last + 1))
        return [next(numbers[name]) for name in names]

    def last_number(self, name: str) -> int:
        return self.last_numbers([name]).get(name, 0)

    def last_numbers(self, names: Sequence[str]) -> dict[str, int]:
        tests = f"organization_id = ? AND name IN ({','.join('?' * len(names))})"
        values = self._organization_id or "", *names
        return dict(self._connection.execute(f"SELECT name, value FROM sequences WHERE {tests}", values))

    def _check_organization(self, record: object) -> None:
        owner = getattr(record, "organization_id", None)
        if self._organization_id is not None and owner != self._organization_id:
            raise PermissionError(f"a record of organization {owner} in a transaction of {self._organization_id}")

    def _execute(self, execute: Callable[[str, V], object], statement: str, values: V) -> None:
        try:
            execute(statement, values)
        except sqlite3.IntegrityError as problem:
            text = str(problem)
            if not text.startswith("UNIQUE constraint failed: "):
                raise
            columns = (part.split(".")[-1] for part in text.split(": ", 1)[1].split(", "))
            raise Duplicate(tuple(column for column in columns if column != "organization_id")) from problem

    def _scalar(self, kind: type, value_sql: str, conditions: Sequence[Condition], deleted: bool) -> Any:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        return self._connection.execute(
            f"SELECT {value_sql} FROM {quoted(table_of(kind).name)} t{where}", values
        ).fetchone()[0]

    def _ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query of lists, which have all that this transaction has changed."""
        self._list_writes.flush()
        return self._connection.execute(sql, values).fetchall()

    def _select(self, kind: type[R], where: str, values: list[Any]) -> list[R]:
        return self._rows(kind, " WHERE " + where, values)

    def _rows(self, kind: type[R], clauses: str, values: list[Any]) -> list[R]:
        codec = codec_of(kind)
        rows = self._connection.execute(_select_sql(codec.kind) + clauses, values).fetchall()
        decoded = self._memory.decoded
        if decoded is None:
            return [codec.record(row) for row in rows]
        question = kind, clauses, tuple(values)
        if question not in decoded:
            decoded[question] = [codec.record(row) for row in rows]
        return decoded[question]
