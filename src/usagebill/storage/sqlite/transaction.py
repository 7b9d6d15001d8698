"""A transaction on a connection: records by kind and condition, within one organization."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from usagebill.core.activity_logs import Change
from usagebill.core.events import Event
from usagebill.storage.conditions import Condition, Order, within
from usagebill.storage.event_rows import COLUMNS, event_of
from usagebill.storage.listings import Total
from usagebill.storage.ports import Duplicate, Versions
from usagebill.storage.preloaded import Preloaded
from usagebill.storage.record_sql import bounded, group_sql, kinds_among, quoted
from usagebill.storage.sql.lists import Lists
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.events import SqliteEvents
from usagebill.storage.sqlite.jobs import SqliteJobs
from usagebill.storage.sqlite.list_counts import SqliteListCounts
from usagebill.storage.sqlite.list_writes import ListWrites
from usagebill.storage.sqlite.listed import DIALECT
from usagebill.storage.sqlite.queries import order_sql, where_sql
from usagebill.storage.sqlite.rows import codec_of, sql_value, whole_number
from usagebill.storage.sqlite.undoing import TransactionLost
from usagebill.storage.sums import GroupKey, Sums
from usagebill.storage.tables import TOLD, Table, table_of
from usagebill.storage.versions import SHARED, raised_by, series_of

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

    A result is valid until `writes` counts another write of such a kind.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.records: dict[tuple[type, str], Any] = {}
        self.answers: dict[tuple[type, str, tuple[Any, ...]], tuple[int, list[Any], frozenset[type]]] = {}
        self.writes: Counter[type] = Counter()
        # By organization.
        self.preloaded: dict[str | None, Preloaded] = {}
        self.list_writes = ListWrites(connection)
        # The versions to raise, by organization and sequence.
        self.raised: set[tuple[str, str]] = set()
        # The organizations whose entitlements may have changed.
        self.entitling: set[str] = set()
        # Records of logged tables, before and after.
        self.changes: dict[tuple[type, str], tuple[Any, Any]] = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        for preloaded in self.preloaded.values():
            preloaded.clear()


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
        missing_series: MissingSeries | None = None,
    ) -> None:
        self._connection = connection
        self._missing_series = missing_series
        self._organization_id = organization_id
        self._memory = memory or _Memory(connection)
        self._list_writes = self._memory.list_writes
        self._known = self._memory.records
        self._preloaded = self._memory.preloaded.setdefault(organization_id, Preloaded())
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

    def versions_of(self, customer_id: str) -> Versions:
        series = series_of(customer_id)
        numbers = self.last_numbers([series, SHARED])
        return numbers.get(series, 0), numbers.get(SHARED, 0)

    def has_written_for(self, customer_id: str) -> bool:
        owner = self._organization_id or ""
        return not self._memory.raised.isdisjoint({(owner, series_of(customer_id)), (owner, SHARED)})

    def _raise_version(self, record: Any) -> None:
        series = raised_by(record, self._owner)
        if series is not None:
            self._memory.raised.add((record.organization_id, series))

    def _owner(self, kind: type, id: str) -> Any:
        return self._known.get((kind, id)) or self.get(kind, id, deleted=True)

    def _preloaded_of(self, record: Any) -> Preloaded:
        owner = record.organization_id
        if owner == self._organization_id:
            return self._preloaded
        return self._memory.preloaded.setdefault(owner, Preloaded())

    def events_since(self, sequence: int, external_ids: Sequence[str]) -> list[Event]:
        # The plus keeps SQLite from walking all events of a subscription instead of the few new ones.
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE sequence > ? AND +organization_id = ?"
            " AND +external_subscription_id IN (SELECT value FROM json_each(?))",
            (sequence, self._organization_id, json.dumps(list(external_ids))),
        )
        return [event_of(row) for row in rows]

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
        """Write counts, documents and values of lists, and versions, before the commit."""
        self._list_writes.flush()
        entitling = {(organization_id, _ENTITLEMENTS) for organization_id in self._memory.entitling}
        versions = sorted(entitling | self._memory.raised)
        if versions:
            self._connection.executemany(
                "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, 1)"
                " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + 1",
                versions,
            )

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

    def preload(
        self,
        kind: type[Any],
        column: str,
        values: Sequence[object],
        *conditions: Condition,
        at_most: int | None = None,
    ) -> None:
        limit = None if at_most is None else at_most * len(values) + 1
        records = self.find(kind, within(column, values), *conditions, limit=limit, deleted=True) if values else []
        if limit is None or len(records) < limit:
            self._preloaded.add(kind, column, values, conditions, records)

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
        preloaded = self._preloaded.find(kind, conditions, order, limit, offset, deleted=deleted)
        if preloaded is not None:
            return preloaded
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
        preloaded = self._preloaded.find(kind, conditions, deleted=deleted)
        if preloaded is not None:
            return len(preloaded)
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

    def insert(self, *records: object) -> None:
        for kind, some in groupby(records, type):
            self._insert_all(kind, list(some))

    def _insert_all(self, kind: type, records: Sequence[Any]) -> None:
        codec, memory, table = codec_of(kind), self._memory, table_of(kind)
        for record in records:
            self._check_organization(record)
        memory.writes[kind] += len(records)
        # Even if the insert fails: it may have stored the first of several.
        self._list_writes.inserted(kind, [record.id for record in records])
        rows = [codec.row(record) for record in records]
        if len(rows) == 1:
            self._execute(self._connection.execute, _insert_sql(kind), rows[0])
        else:
            self._execute(self._connection.executemany, _insert_sql(kind), rows)
        for record in records:
            self._known[kind, record.id] = record
            self._preloaded_of(record).wrote(record, is_new=True)
            self._raise_version(record)
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
        self._raise_version(record)
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
        self._preloaded_of(record).wrote(record)
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
            self._raise_version(record)
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
            self._preloaded_of(record).deleted(record)

    def next_number(self, name: str, start: int = 1) -> int:
        row = self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (organization_id, name) DO UPDATE SET value = value + 1 RETURNING value",
            (self._organization_id or "", name, start),
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
        return [codec.record(row) for row in self._connection.execute(_select_sql(codec.kind) + clauses, values)]
