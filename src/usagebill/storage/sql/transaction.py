"""A transaction: records by kind and condition, within one organization, as far as it is the same for every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol, Self, TypeVar, cast

from usagebill.core.activity_logs import Change
from usagebill.core.price_versions import VERSIONED, PriceChange
from usagebill.core.processes import Process
from usagebill.storage.conditions import Condition, Order, asc, desc, eq, more, within
from usagebill.storage.every_engine import instant_text
from usagebill.storage.listings import CountFault, Total
from usagebill.storage.preloaded import Preloaded
from usagebill.storage.record_sql import bounded, group_sql, kinds_among, quoted
from usagebill.storage.sql import processes
from usagebill.storage.sql.list_counts import CounterAudit
from usagebill.storage.sql.listed import ListsDialect
from usagebill.storage.sql.lists import Lists
from usagebill.storage.sums import GroupKey, Sums
from usagebill.storage.tables import TOLD, Table, table_of
from usagebill.storage.versions import ENTITLEMENTS, SHARED, raised_by, series_of

R = TypeVar("R")
T = TypeVar("T")

_COUNT_UP = (
    "INSERT INTO window_counts (organization_id, name, began, n) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (organization_id, name) DO UPDATE SET began = excluded.began, n = excluded.n"
    " + CASE WHEN window_counts.began = excluded.began THEN window_counts.n ELSE 0 END RETURNING n"
)
# Most cached records: a transaction may read a whole database.
_KNOWN_AT_MOST = 10_000
# Records read by id with one statement.
_AT_ONCE = 500


class Statements(Protocol):
    """A connection of an engine, as far as statements are the same in each."""

    def execute(self, sql: str, values: Sequence[Any], /) -> Any: ...
    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Any: ...


# What has changed: a record by its kind and its id, before and after.
_Changed = dict[tuple[type, str], tuple[Any, Any]]


def _note(changes: _Changed, kind: type, id: str, old: object, new: object) -> None:
    earlier = changes.get((kind, id))
    changes[kind, id] = (old if earlier is None else earlier[0], new)


def _as_changes(taken: _Changed) -> list[Change]:
    return [Change(old, new) for old, new in taken.values() if old is not new]


class Memory:
    """A transaction's cache: records by id, and results of queries.

    A result is valid until a record of a kind that it depends on is written: `writes` counts these, and each result is
    stored with the count.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[type, str], Any] = {}
        self.answers: dict[tuple[type, str, tuple[Any, ...]], tuple[int, list[Any]]] = {}
        self.writes: Counter[type] = Counter()
        # By organization.
        self.preloaded: dict[str | None, Preloaded] = {}
        # The versions to raise, by organization and sequence.
        self.raised: set[tuple[str, str]] = set()
        # The organizations whose entitlements may have changed.
        self.entitling: set[str] = set()
        # Records of logged tables, before and after.
        self.changes: _Changed = {}
        # Definitions, before and after, that have no price version yet.
        self.redefined: _Changed = {}

    def clear(self) -> None:
        self.records.clear()
        self.answers.clear()
        for preloaded in self.preloaded.values():
            preloaded.clear()


def hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    """The bound values of a statement as part of a key."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


class SqlTransaction(ABC):
    """See `storage.ports.Transaction`.

    Records read by id are cached for the rest of the transaction, and results of queries until a record of their kinds
    is written: a billing run reads prices, taxes and periods over and over.
    """

    _connection: Statements

    def __init__(self, organization_id: str | None, memory: Memory, dialect: ListsDialect) -> None:
        self._sql = dialect.records
        self._organization_id = organization_id
        self._known = memory.records
        self._memory = memory
        self._preloaded = memory.preloaded.setdefault(organization_id, Preloaded())
        self._lists = None if organization_id is None else Lists(self._ask, dialect, organization_id)

    # The price version whose definitions are read; None: as they are now.
    _price_version: int | None = None

    @property
    def organization_id(self) -> str | None:
        return self._organization_id

    @property
    def price_version(self) -> int:
        if self._price_version is not None:
            return self._price_version
        newest = self.first(PriceChange, order=[desc("version")])
        return 0 if newest is None else newest.version

    def as_of(self, price_version: int) -> Self:
        if price_version >= self.price_version:
            return self
        former = copy(self)
        former._price_version = price_version
        return former

    def _former(self, kind: type[R], id: str, current: R | None) -> R | None:
        """The record as it stood in the price version that is read; `current` is the record as it is."""
        if self._price_version is None or kind not in VERSIONED:
            return current
        since = eq("record_id", id), more("version", self._price_version)
        change = self.first(PriceChange, *since, order=[asc("version")])
        return current if change is None else cast(R | None, change.before)

    # What engines do in their own way

    @property
    @abstractmethod
    def _audit(self) -> CounterAudit:
        """The audit of the counters of lists."""

    @abstractmethod
    def _rows(self, kind: type[R], clauses: str, values: Sequence[Any]) -> list[R]:
        """The records that meet the clauses, not cached."""

    @abstractmethod
    def _fetched(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query that depends on what its values are."""

    @abstractmethod
    def _ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query of lists, which have all that this transaction has changed."""

    def _read(self, kind: type[R], id: str) -> R | None:
        """The record with this id, of any organization, not cached."""
        return next(iter(self._rows(kind, " WHERE t.id = ?", [id])), None)

    def _foresee(  # noqa: B027
        self, kind: type, conditions: Sequence[Condition], order: Sequence[Order], limit: int | None, deleted: bool
    ) -> None:
        """A query is about to be run; its result may be cached, with those of similar ones."""

    def _listed(self, records: Sequence[Any]) -> None:  # noqa: B027
        """Records of one kind were read together."""

    @abstractmethod
    def _update(self, record: Any, names: Sequence[str], values: Sequence[Any]) -> None:
        """Store the values of columns of a record. Raises `Duplicate`."""

    @abstractmethod
    def _changes(self, old: Any, new: Any) -> tuple[list[str], list[Any]]:
        """The columns in which a record differs, and their values."""

    @abstractmethod
    def _delete(self, record: Any) -> bool:
        """Remove a row; whether there was one."""

    # Reading

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        record: R | None = self._known.get((kind, id))
        if record is None:
            record = self._read(kind, id)
            if record is None:
                return None
            self._known[kind, id] = record
        if self._organization_id is not None and getattr(record, "organization_id", None) != self._organization_id:
            return None
        # What was made later is read as it is by whoever knows its id.
        record = self._former(kind, id, record) or record
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
        if self._price_version is not None and kind in VERSIONED:
            return self._find_former(kind, conditions, order, deleted=deleted)[offset:][:limit]
        return self._find(kind, conditions, order, limit, offset, deleted=deleted)

    def _find_former(
        self, kind: type[R], conditions: Sequence[Condition], order: Sequence[Order], *, deleted: bool
    ) -> list[R]:
        """`conditions` and `order` are about fields that do not change, such as the plan of a charge."""
        named = self._find(kind, conditions, order, None, 0, deleted=True)
        former = [self._former(kind, record.id, record) for record in named]  # type: ignore[attr-defined]
        return [
            record
            for record in former
            if record is not None and (deleted or getattr(record, "deleted_at", None) is None)
        ]

    def _find(
        self,
        kind: type[R],
        conditions: Sequence[Condition],
        order: Sequence[Order],
        limit: int | None,
        offset: int,
        *,
        deleted: bool,
    ) -> list[R]:
        preloaded = self._preloaded.find(kind, conditions, order, limit, offset, deleted=deleted)
        if preloaded is not None:
            return preloaded
        where, values = self._sql.where(kind, conditions, self._organization_id, deleted)
        clauses = where + self._sql.order(kind, order)
        if limit is not None:
            clauses += " LIMIT ? OFFSET ?"
            values += [bounded(limit), bounded(offset)]
        memory, question = self._memory, (kind, clauses, hashable(values))
        # Counts only grow, so every write changes their sum.
        written = memory.writes[kind] + sum(memory.writes[other] for other in kinds_among(conditions) - {kind})
        if question not in memory.answers and offset == 0:
            self._foresee(kind, conditions, order, limit, deleted)
        cached = memory.answers.get(question)
        if cached is None or cached[0] != written:
            records = self._rows(kind, clauses, values)
            self._keep(kind, records)
            self._listed(records)
            cached = memory.answers[question] = (written, records)
        return list(cached[1])

    def _keep(self, kind: type, records: Sequence[Any]) -> None:
        if len(self._known) > _KNOWN_AT_MOST or len(self._memory.answers) > _KNOWN_AT_MOST:
            self._memory.clear()
        for record in records:
            self._known[kind, record.id] = record

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
        for start in range(0, len(unread), _AT_ONCE):
            where, values = self._sql.where(kind, [within("id", unread[start : start + _AT_ONCE])], None, True)
            read = self._rows(kind, where, values)
            self._keep(kind, read)
            records.update((record.id, record) for record in read)  # type: ignore[attr-defined]
        named = [records[id] for id in ids]
        self._listed(named)
        return named

    def count(self, kind: type[Any], *conditions: Condition, deleted: bool = False) -> int:
        preloaded = self._preloaded.find(kind, conditions, deleted=deleted)
        if preloaded is not None:
            return len(preloaded)
        if self._lists is not None and not deleted:
            counted = self._lists.count(kind, conditions)
            if counted is not None:
                return counted
        return int(self._aggregate(kind, "COUNT(*)", conditions, deleted))

    def total(self, kind: type[Any], column: str, *conditions: Condition, deleted: bool = False) -> int:
        return int(self._aggregate(kind, self._sql.exact_sum.format(f"t.{quoted(column)}"), conditions, deleted) or 0)

    def _aggregate(self, kind: type, sql: str, conditions: Sequence[Condition], deleted: bool) -> Any:
        where, values = self._sql.where(kind, conditions, self._organization_id, deleted)
        return self._fetched(f"SELECT {sql} FROM {quoted(table_of(kind).name)} t{where}", values)[0][0]

    def grouped(
        self, kind: type[Any], by: Sequence[GroupKey], columns: Sequence[str], *conditions: Condition
    ) -> list[Sums]:
        where, values = self._sql.where(
            kind, conditions, self._organization_id, False, gathered=self._sql.gathers_groups
        )
        names, joins = group_sql(by)
        sums = (self._sql.exact_sum.format(f"t.{quoted(column)}") for column in columns)
        rows = self._fetched(
            f"SELECT {','.join((*names, 'COUNT(*)', *sums))} FROM {quoted(table_of(kind).name)} t{joins}{where}"
            f" GROUP BY {','.join(map(str, range(1, len(names) + 1)))}",
            values,
        )
        width = len(names)
        return [
            Sums(key=tuple(row[:width]), count=row[width], sums=tuple(map(Decimal, row[width + 1 :]))) for row in rows
        ]

    def list_faults(self) -> Iterator[CountFault]:
        return self._audit.faults()

    def recount_lists(self) -> list[str]:
        return self._audit.recount()

    # Writing

    def unchecked(self, change: Callable[[], T]) -> T:
        """Run `change`, whose writes break no rule."""
        return change()

    @property
    def unsent_seconds(self) -> float:
        """Nothing waits to be written."""
        return 0.0

    def _written(self, record: Any) -> Table:
        """The table of a record of the organization, which is about to be written."""
        owner = getattr(record, "organization_id", None)
        if self._organization_id is not None and owner != self._organization_id:
            raise PermissionError(f"a record of organization {owner} in a transaction of {self._organization_id}")
        self._memory.writes[type(record)] += 1
        return table_of(type(record))

    def _inserted(self, record: Any, table: Table) -> None:
        """Know a record whose row is written."""
        kind = type(record)
        self._known[kind, record.id] = record
        self._preloaded_of(record).wrote(record, is_new=True)
        self._raise_version(record)
        if table.entitles:
            self._memory.entitling.add(record.organization_id)
        self._changed(kind, record.id, None, record)

    def replace(self, record: object, *, former: object | None = None) -> None:
        table = self._written(record)
        kind: Any = type(record)
        id: str = record.id  # type: ignore[attr-defined]
        old: Any = self._known.get((kind, id)) or former
        if old is None:
            (old,) = self._rows(kind, " WHERE t.id = ?", [id]) or [None]
        if old is None or getattr(old, "organization_id", None) != getattr(record, "organization_id", None):
            raise LookupError(f"no {kind.__name__} {id} to replace")
        self._raise_version(record)
        names, values = self._changes(old, record)
        if names:
            self._update(record, names, values)
            if not set(table.entitles).isdisjoint(names):
                self._memory.entitling.add(record.organization_id)  # type: ignore[attr-defined]
        self._known[kind, id] = record
        self._preloaded_of(record).wrote(record)
        self._changed(kind, id, old, record)

    def delete(self, *records: object) -> None:
        for record in records:
            table = self._written(record)
            kind: Any = type(record)
            id: str = record.id  # type: ignore[attr-defined]
            self._raise_version(record)
            if self._delete(record):
                self._changed(kind, id, record, None)
            if table.entitles:
                self._memory.entitling.add(record.organization_id)  # type: ignore[attr-defined]
            self._known.pop((kind, id), None)
            self._preloaded_of(record).deleted(record)

    def _preloaded_of(self, record: Any) -> Preloaded:
        owner = record.organization_id
        if owner == self._organization_id:
            return self._preloaded
        return self._memory.preloaded.setdefault(owner, Preloaded())

    def _changed(self, kind: type, id: str, old: object, new: object) -> None:
        if kind in TOLD:
            _note(self._memory.changes, kind, id, old, new)
        if kind in VERSIONED:
            _note(self._memory.redefined, kind, id, old, new)

    def take_changes(self) -> list[Change]:
        taken, self._memory.changes = self._memory.changes, {}
        return _as_changes(taken)

    def take_redefined(self) -> list[Change]:
        taken, self._memory.redefined = self._memory.redefined, {}
        return _as_changes(taken)

    # Versions

    def has_written_for(self, customer_id: str) -> bool:
        owner = self._organization_id or ""
        return not self._memory.raised.isdisjoint({(owner, series_of(customer_id)), (owner, SHARED)})

    def _raise_version(self, record: Any) -> None:
        series = raised_by(record, self._owner)
        if series is not None:
            self._memory.raised.add((record.organization_id, series))

    def _owner(self, kind: type, id: str) -> Any:
        return self._known.get((kind, id)) or self.get(kind, id, deleted=True)

    def _versions(self) -> list[tuple[str, str]]:
        """The sequences to raise before the commit, by organization and name."""
        return sorted({(organization_id, ENTITLEMENTS) for organization_id in self.entitling} | self._memory.raised)

    @property
    def entitling(self) -> set[str]:
        """The organizations whose entitlements may have changed in this transaction."""
        return self._memory.entitling

    # Counts

    def count_up(self, organization_id: str, name: str, window: datetime, by: int = 1) -> int:
        number: int = self._fetched(_COUNT_UP, (organization_id, name, instant_text(window), by))[0][0]
        return number

    # Clock

    def newest_instant(self) -> datetime | None:
        newest = self._fetched("SELECT MAX(newest) FROM clock", ())[0][0]
        return None if newest is None else datetime.fromisoformat(newest)

    def last_backup(self) -> datetime | None:
        made_at = self._fetched("SELECT MAX(made_at) FROM backups", ())[0][0]
        return None if made_at is None else datetime.fromisoformat(made_at)

    def note_backup(self, made_at: datetime) -> None:
        self._connection.execute(
            "INSERT INTO backups (id, made_at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET made_at = excluded.made_at",
            (instant_text(made_at),),
        )

    # Numbers, to take along to another database

    def numbers(self) -> dict[str, int]:
        # PostgreSQL numbers events in the same table, and they are numbered anew.
        sql = "SELECT name, value FROM sequences WHERE organization_id = ? AND name <> 'events'"
        return dict(self._fetched(sql, (self._organization_id,)))

    def restore_numbers(self, numbers: Mapping[str, int]) -> None:
        self._connection.executemany(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?)",
            [(self._organization_id, name, value) for name, value in numbers.items()],
        )

    # Processes

    def note_process(self, process: Process) -> None:
        processes.note(self._connection.execute, process)

    def forget_process(self, id: str) -> None:
        self._connection.execute("DELETE FROM processes WHERE id = ?", (id,))

    def processes(self) -> tuple[Process, ...]:
        return tuple(map(processes.process_of, self._fetched(processes.ALL, ())))
