"""A transaction: records by kind and condition, within one organization."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from usagebill.core.activity_logs import Change
from usagebill.core.events import Event
from usagebill.storage.conditions import Condition, Order, within
from usagebill.storage.event_rows import COLUMNS, event_of
from usagebill.storage.listings import Total
from usagebill.storage.ports import Duplicate, Versions
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events import PostgresEvents
from usagebill.storage.postgresql.jobs import PostgresJobs
from usagebill.storage.postgresql.listed import DIALECT, PostgresListCounts
from usagebill.storage.postgresql.locks import Locked, Locks
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.pending import Pending
from usagebill.storage.postgresql.queries import order_sql, where_sql
from usagebill.storage.postgresql.rows import insert_sql, rows_of, select_sql, sql_value
from usagebill.storage.postgresql.sequences import Sequences
from usagebill.storage.postgresql.unique_rules import broken_rule
from usagebill.storage.preloaded import Preloaded
from usagebill.storage.record_sql import bounded, group_sql, kinds_among, quoted
from usagebill.storage.sql.lists import Lists
from usagebill.storage.sums import GroupKey, Sums
from usagebill.storage.tables import TOLD, Table, table_of
from usagebill.storage.versions import SHARED, raised_by, series_of

R = TypeVar("R")
T = TypeVar("T")

# Most cached records: a transaction may read a whole database.
_KNOWN_AT_MOST = 10_000
# The sequence that counts changes of an organization's entitlements.
_ENTITLEMENTS = "entitlements"


def _hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    """The bound values of a statement as part of a key."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


class PostgresTransaction:
    """See `storage.ports.Transaction`; a snapshot has no `locks`.

    Records read by id are cached for the rest of the transaction. So are results of queries (a billing run reads
    prices, taxes and periods over and over), until a record is written that they may depend on, or a lock is taken.
    """

    def __init__(
        self,
        connection: Connection,
        organization_id: str | None,
        memory: Memory | None = None,
        *,
        locks: Locks | None = None,
        pending: Pending | None = None,
    ) -> None:
        self._connection = connection
        self._organization_id = organization_id
        self._locks = locks
        self._pending = pending
        self._memory = memory or Memory()
        self._known = self._memory.records
        self._preloaded = self._memory.preloaded.setdefault(organization_id, Preloaded())
        if locks is not None:
            locks.when_taken = self._memory.clear
        self.jobs = PostgresJobs(connection, organization_id, locks, pending)
        self.events = PostgresEvents(connection, organization_id, self._memory.states)
        self._sequences = Sequences(connection, locks, pending)
        self._lists = None if organization_id is None else Lists(self._ask, DIALECT, organization_id)
        self.list_counts = PostgresListCounts(connection, self._ask, organization_id)

    @property
    def organization_id(self) -> str | None:
        return self._organization_id

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

    # Versions

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
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND sequence > ?"
            " AND external_subscription_id = ANY(?::text[])",
            (self._organization_id, sequence, list(external_ids)),
        )
        return [event_of(row) for row in rows]

    def savepoint(self, change: Callable[[], T]) -> T:
        """Run `change`; if it raises, only its own effects are undone, and the exception propagates."""
        memory, pending = self._memory, self._pending
        assert pending is not None, "a snapshot has no savepoints"
        entitling, changes = set(memory.entitling), dict(memory.changes)
        held = set() if self._locks is None else set(self._locks.held)
        savepoint = pending.savepoint()
        try:
            result = change()
        except BaseException:
            memory.clear()
            memory.entitling, memory.changes = entitling, changes
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
        entitling = {(organization_id, _ENTITLEMENTS) for organization_id in self._memory.entitling}
        self._sequences.raise_all(sorted(entitling | self._memory.raised))
        if self._pending is not None:
            self._pending.send()

    @property
    def entitling(self) -> set[str]:
        """The organizations whose entitlements may have changed in this transaction."""
        return self._memory.entitling

    # Reading

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        record: R | None = self._known.get((kind, id))
        if record is None:
            record = self._with_siblings(kind, id) or self._by_id(kind, id)
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
        unread = [(kind, id) for kind, id in named if (kind, id) not in self._known]
        queries = [(select_sql(kind) + " WHERE t.id = ?", [id]) for kind, id in unread]
        for (kind, id), rows in zip(unread, self._connection.execute_all(queries), strict=True):
            for row in rows:
                self._known[kind, id] = rows_of(kind).codec.record(row)
        return [self.get(kind, id) for kind, id in named]

    def _by_id(self, kind: type[R], id: str) -> R | None:
        return next(iter(self._rows(kind, " WHERE t.id = ?", [id])), None)

    @property
    def _reads_ahead(self) -> bool:
        """Whether this is a snapshot, which stays as it is."""
        return self._locks is None

    def _with_siblings(self, kind: type[R], id: str) -> R | None:
        """The record with this id, prefetching those that its siblings refer to."""
        ids = self._memory.siblings.of(id) if self._reads_ahead else []
        unread = [sibling for sibling in ids if (kind, sibling) not in self._known]
        if not self._memory.siblings.are_worth_asking_for(kind, id, unread):
            return None
        records = self._rows(kind, ' WHERE t."id" = ANY(?::text[]) ORDER BY t."id"', [unread])
        self._keep(kind, records)
        self._memory.siblings.note(records)
        return self._known.get((kind, id))

    def _keep(self, kind: type, records: Sequence[Any]) -> None:
        if len(self._known) > _KNOWN_AT_MOST or len(self._memory.answers) > _KNOWN_AT_MOST:
            self._memory.clear()
        for record in records:
            self._known[kind, record.id] = record

    def _found_with_siblings(
        self,
        kind: type[R],
        conditions: Sequence[Condition],
        order: Sequence[Order],
        bounds: str,
        limit: int | None,
        deleted: bool,
    ) -> bool:
        """Whether the query was run for this record and its siblings at once."""
        siblings = self._memory.siblings
        where, bound = where_sql(kind, conditions, self._organization_id, deleted)
        corresponding = siblings.corresponding(bound)
        if corresponding is None:
            return False
        first, *_ = rows = corresponding.rows
        question = kind, where, corresponding.places, tuple(order), bounds
        if not siblings.are_worth_asking_for(question, first, rows):
            return False
        codec, ordered = rows_of(kind).codec, order_sql(kind, order)
        answers: list[list[R]] = [[] for _ in rows]
        for row in self._connection.execute(
            corresponding.sql(select_sql(codec.kind), where, ordered + bounds), corresponding.values(bound)
        ):
            answers[row[0] - 1].append(codec.record(row[1:]))
        self._keep(kind, [record for records in answers for record in records])
        clauses = where + ordered + ("" if limit is None else " LIMIT ? OFFSET ?")
        for row, records in zip(rows, answers, strict=True):
            values = corresponding.of_row(row, bound) + ([] if limit is None else [bounded(limit), 0])
            self._memory.answers[kind, clauses, _hashable(values)] = (0, records)
        siblings.note([record for records in answers for record in records])
        return True

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
        clauses = where + order_sql(kind, order)
        if limit is not None:
            clauses += " LIMIT ? OFFSET ?"
            values += [bounded(limit), bounded(offset)]
        memory, question = self._memory, (kind, clauses, _hashable(values))
        # Counts only grow, so every write changes their sum.
        written = memory.writes[kind] + sum(memory.writes[other] for other in kinds_among(conditions) - {kind})
        cached = memory.answers.get(question)
        if cached is None and offset == 0 and self._reads_ahead:
            at_most = "" if limit is None else f" LIMIT {bounded(limit)}"
            if self._found_with_siblings(kind, conditions, order, at_most, limit, deleted):
                cached = memory.answers.get(question)
        if cached is None or cached[0] != written:
            records = self._rows(kind, clauses, values)
            self._keep(kind, records)
            memory.siblings.note(records)
            cached = memory.answers[question] = (written, records)
        return list(cached[1])

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

    def _named(self, kind: type[R], ids: Sequence[str]) -> list[R]:
        """The records with these ids, in this order."""
        records: dict[str, R] = {id: self._known[kind, id] for id in ids if (kind, id) in self._known}
        unread = [id for id in ids if id not in records]
        read = self._rows(kind, " WHERE t.id = ANY(?::text[])", [unread]) if unread else []
        self._keep(kind, read)
        records.update((record.id, record) for record in read)  # type: ignore[attr-defined]
        named = [records[id] for id in ids]
        self._memory.siblings.note(named)
        return named

    def _ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query of lists, which is planned for its values: many records have one value, few another."""
        return self._connection.execute(sql, values, anew=True).fetchall()

    def each(
        self, kind: type[R], *conditions: Condition, order: Sequence[Order] = (), deleted: bool = False
    ) -> Iterator[R]:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        codec = rows_of(kind).codec
        for row in self._connection.stream(select_sql(codec.kind) + where + order_sql(kind, order), values):
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
        return int(self._scalar(kind, f"SUM(t.{quoted(column)})", conditions, deleted) or 0)

    def maximum(self, kind: type[Any], column: str, *conditions: Condition, deleted: bool = False) -> int | None:
        value = self._scalar(kind, f"MAX(t.{quoted(column)})", conditions, deleted)
        return None if value is None else int(value)

    def _scalar(self, kind: type, value_sql: str, conditions: Sequence[Condition], deleted: bool) -> Any:
        where, values = where_sql(kind, conditions, self._organization_id, deleted)
        statement = f"SELECT {value_sql} FROM {quoted(table_of(kind).name)} t{where}"
        return self._connection.execute(statement, values, anew=bool(conditions)).fetchall()[0][0]

    def grouped(
        self, kind: type[Any], by: Sequence[GroupKey], columns: Sequence[str], *conditions: Condition
    ) -> list[Sums]:
        where, values = where_sql(kind, conditions, self._organization_id, False)
        names, joins = group_sql(by)
        sums = ",".join(f"coalesce(SUM(t.{quoted(column)}::numeric), 0)" for column in columns)
        rows = self._connection.execute(
            f"SELECT {','.join((*names, 'COUNT(*)', sums))} FROM {quoted(table_of(kind).name)} t{joins}{where}"
            f" GROUP BY {','.join(map(str, range(1, len(names) + 1)))}",
            values,
        )
        width = len(names)
        return [
            Sums(key=tuple(row[:width]), count=row[width], sums=tuple(map(Decimal, row[width + 1 :]))) for row in rows
        ]

    def _rows(self, kind: type[R], clauses: str, values: Sequence[Any]) -> list[R]:
        codec = rows_of(kind).codec
        rows = self._connection.execute(select_sql(codec.kind) + clauses, values).fetchall()
        return [codec.record(row) for row in rows]

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
            self._known[kind, record.id] = record  # type: ignore[attr-defined]
            self._preloaded_of(record).wrote(record, is_new=True)
            self._raise_version(record)
            if table.entitles:
                self._memory.entitling.add(record.organization_id)  # type: ignore[attr-defined]
            if kind in TOLD:
                self._changed(kind, record.id, None, record)  # type: ignore[attr-defined]

    def replace(self, record: object, *, former: object | None = None) -> None:
        table = self._written(record)
        kind: Any = type(record)
        id: str = record.id  # type: ignore[attr-defined]
        old: Any = self._known.get((kind, id)) or former or self._by_id(kind, id)
        if old is None or getattr(old, "organization_id", None) != getattr(record, "organization_id", None):
            raise LookupError(f"no {kind.__name__} {id} to replace")
        self._raise_version(record)
        names, values = rows_of(kind).changes(old, record)
        if names:
            assigned = ",".join(f'"{name}"=?' for name in names)
            statement = f"UPDATE {quoted(table.name)} SET {assigned} WHERE id = ?"
            if self._pending is not None and self._pending.is_buffering:
                self._pending.update(statement, (*values, id))
            else:
                broken = broken_rule(self._connection, record, frozenset(names))
                if broken is not None:
                    raise Duplicate(broken)
                self._connection.execute(statement, (*values, id))
            if not set(table.entitles).isdisjoint(names):
                self._memory.entitling.add(record.organization_id)  # type: ignore[attr-defined]
        self._known[kind, id] = record
        self._preloaded_of(record).wrote(record)
        if kind in TOLD:
            self._changed(kind, id, old, record)

    def _changed(self, kind: type, id: str, old: object, new: object) -> None:
        changes = self._memory.changes
        earlier = changes.get((kind, id))
        changes[kind, id] = (old if earlier is None else earlier[0], new)

    def take_changes(self) -> list[Change]:
        taken, self._memory.changes = self._memory.changes, {}
        return [Change(old, new) for old, new in taken.values() if old is not new]

    def _written(self, record: object) -> Table:
        """Take the lock of the record's organization before it is written, and return its table."""
        owner = getattr(record, "organization_id", None)
        if self._organization_id is not None and owner != self._organization_id:
            raise PermissionError(f"a record of organization {owner} in a transaction of {self._organization_id}")
        if self._locks is not None and owner is not None:
            self._locks.take(owner)
        self._memory.writes[type(record)] += 1
        return table_of(type(record))

    def delete(self, *records: object) -> None:
        for record in records:
            table = self._written(record)
            id, owner = record.id, record.organization_id  # type: ignore[attr-defined]
            self._raise_version(record)
            kind: Any = type(record)
            gone = self._connection.execute(
                f"DELETE FROM {quoted(table.name)} WHERE id = ? AND organization_id = ?", (id, owner)
            ).rowcount
            if gone and kind in TOLD:
                self._changed(kind, id, record, None)
            if table.entitles:
                self._memory.entitling.add(owner)
            self._known.pop((type(record), id), None)
            self._preloaded_of(record).deleted(record)

    # Numbers

    def next_number(self, name: str, start: int = 1) -> int:
        return self._sequences.next_number(self._organization_id or "", name, start)

    def last_number(self, name: str) -> int:
        return self.last_numbers([name]).get(name, 0)

    def last_numbers(self, names: Sequence[str]) -> dict[str, int]:
        return self._sequences.last_numbers(self._organization_id or "", names)

    def entitlements_version(self) -> int:
        return self.last_number(_ENTITLEMENTS)

    # The clock: a row per session, so that nobody waits to note an instant

    def newest_instant(self) -> datetime | None:
        row = self._connection.execute("SELECT MAX(newest) FROM clock").fetchone()
        return None if row is None or row[0] is None else datetime.fromisoformat(row[0])

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
