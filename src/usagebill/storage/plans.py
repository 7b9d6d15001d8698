"""Planned writes: an operation runs on a snapshot, and its writes are kept, to be stored under the write lock.

The operation sees its own writes. Rare queries end the run early (`RehearsalEnds`), which keeps this module small: the
operation then runs under the lock, as if nothing had been planned.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, TypeVar

from usagebill.core.activity_logs import Change
from usagebill.core.jobs import Job
from usagebill.storage.conditions import AllOf, AnyOf, Compare, Condition, Has, Negate, Null, Order, Related, Within
from usagebill.storage.ports import NOT_ENCODED, Encoded, Snapshot, Transaction
from usagebill.storage.rehearsal import RehearsalEnds
from usagebill.storage.tables import TOLD

R = TypeVar("R")
T = TypeVar("T")

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Engines compare columns of these types as Python does.
_COMPARABLE = (str, int, datetime, date, Enum)
_Key = tuple[type, str]
_OTHER_READS = frozenset(
    {"count", "each", "entitlements_version", "grouped", "last_number", "maximum", "newest_instant", "total"}
)
_OTHER_JOBS = frozenset({"failures", "first_of_one_instant", "lanes", "next_due", "ready", "state", "waiting"})


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes of an operation, each record in its final state.

    `job` is the completed one. `added` jobs have new keys, and `cancelled` are keys. `former` are the records that the
    `replaced` ones replace, as read: the caller has checked that they are unchanged.
    """

    job: Job
    inserted: tuple[object, ...]
    replaced: tuple[object, ...]
    former: tuple[object, ...]
    added: tuple[Job, ...]
    cancelled: tuple[str, ...]

    @property
    def kinds(self) -> frozenset[type]:
        """The kinds of the records."""
        return frozenset(map(type, (*self.inserted, *self.replaced)))

    def store(self, tx: Transaction) -> None:
        """Write everything. Raises `LookupError` if the key of an added job has been taken since, and the errors of
        `tx`.
        """
        tx.jobs.complete(self.job)
        # One statement per kind, in the order in which kinds were first written.
        kinds = list(dict.fromkeys(map(type, self.inserted)))
        tx.insert(*sorted(self.inserted, key=lambda record: kinds.index(type(record))))
        for record, former in zip(self.replaced, self.former, strict=True):
            tx.replace(record, former=former)
        for key in self.cancelled:
            tx.jobs.cancel(key)
        if not tx.jobs.add(*self.added):
            raise LookupError("another job has the key of one that was planned")


class _Jobs:
    """The queue without the planned job, and with the jobs it adds."""

    def __init__(
        self, snapshot: Snapshot, seen: Snapshot, spoil: Callable[[], None], check_spoilt: Callable[[], None]
    ) -> None:
        self._snapshot = snapshot.jobs
        self._seen = seen.jobs
        self._spoil = spoil
        self._check_spoilt = check_spoilt
        self.done: Job | None = None
        self.added: dict[str, Job] = {}
        self.cancelled: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in _OTHER_JOBS:
            raise RehearsalEnds
        # These queries see the running job, but nothing it adds.
        self._spoil()
        return getattr(self._snapshot, name)

    def complete(self, *jobs: Job) -> None:
        if self.done is not None or len(jobs) != 1:
            raise RehearsalEnds
        (self.done,) = jobs

    def overdue(
        self, subject_ids: Collection[str] | None, now: datetime, *, but_of: Collection[str] = ()
    ) -> Job | None:
        # The running job is no longer in the queue.
        done = None if self.done is None else self.done.id
        job = self._seen.overdue(subject_ids, now, apart_from=done, but_of=but_of)
        if job is not None or self.added or self.cancelled:
            # That job, or a planned one, would have to run first, so planning ends here.
            self._spoil()
        return job

    def get(self, key: str) -> Job | None:
        if key in self.added:
            return self.added[key]
        return None if self._is_gone(key) else self._seen.get(key)

    def add(self, *jobs: Job) -> bool:
        added = [self._add(job) for job in jobs]
        return all(added)

    def _add(self, job: Job) -> bool:
        self._check_spoilt()
        if job.key in self.added:
            return False
        # If there is none, adding the job under the lock checks that again.
        if not self._is_gone(job.key) and self._snapshot.get(job.key) is not None and self._seen.get(job.key):
            return False
        self.added[job.key] = job
        return True

    def cancel(self, key: str) -> None:
        self._check_spoilt()
        if key in self.added:
            raise RehearsalEnds
        self.cancelled[key] = None

    def _is_gone(self, key: str) -> bool:
        return key in self.cancelled or (self.done is not None and self.done.key == key)


class _Events:
    def __init__(self, seen: Snapshot) -> None:
        self._events = seen.events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._events, name)

    def _ends(self, *_: object, **__: object) -> Any:
        raise RehearsalEnds

    append = mark = rebuild_states = _ends


class Planning:
    """A snapshot as a transaction that keeps its writes. `seen` is the same snapshot, observed."""

    def __init__(self, snapshot: Snapshot, seen: Snapshot, foreseen_number: Callable[[str], int]) -> None:
        self._seen = seen
        self._foreseen_number = foreseen_number
        self.jobs = _Jobs(snapshot, seen, self._spoil, self._check_spoilt)
        self.events = _Events(seen)
        self._records: dict[_Key, Any] = {}
        # Merged with stored records.
        self._replaced: dict[_Key, object] = {}
        self._kinds: set[type] = set()
        self._changes: dict[_Key, tuple[Any, Any]] = {}
        self._is_spoilt = False

    @property
    def organization_id(self) -> str | None:
        return self._seen.organization_id

    @property
    def has_written(self) -> bool:
        """Whether there is anything to store, besides the completed job."""
        return bool(self._records or self.jobs.added or self.jobs.cancelled)

    def writes(self) -> Writes | None:
        """The writes of the finished operation; None if planning cannot tell."""
        if self._is_spoilt or self.jobs.done is None:
            return None
        return Writes(
            job=self.jobs.done,
            inserted=tuple(record for key, record in self._records.items() if key not in self._replaced),
            replaced=tuple(self._records[key] for key in self._replaced),
            former=tuple(self._replaced.values()),
            added=tuple(self.jobs.added.values()),
            cancelled=tuple(self.jobs.cancelled),
        )

    def is_shared(self) -> bool:
        return self._seen.is_shared()

    def get(self, kind: type[R], id: str, *, deleted: bool = False) -> R | None:
        record = self._records.get((kind, id))
        if record is None:
            return self._seen.get(kind, id, deleted=deleted)
        return record if deleted or getattr(record, "deleted_at", None) is None else None

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
        if self._kinds:
            self._check_related(conditions)
        if kind not in self._kinds:
            return self._seen.find(kind, *conditions, order=order, limit=limit, offset=offset, deleted=deleted)
        superseded = {id for replaced_kind, id in self._replaced if replaced_kind is kind}
        at_most = None if limit is None else limit + offset + len(superseded)
        stored = self._seen.find(kind, *conditions, order=order, limit=at_most, deleted=deleted)
        records = [record for record in stored if record.id not in superseded]  # type: ignore[attr-defined]
        for (written_kind, _), record in self._records.items():
            if (
                written_kind is kind
                and (deleted or getattr(record, "deleted_at", None) is None)
                and all(_holds(condition, record) for condition in conditions)
            ):
                records.append(record)
        records = _sorted(records, order)
        return records[offset:] if limit is None else records[offset : offset + limit]

    def _check_related(self, conditions: Sequence[Condition]) -> None:
        for condition in conditions:
            if isinstance(condition, Related | Has | AnyOf | AllOf | Negate):
                raise RehearsalEnds

    def insert(self, *records: object, encoded: Encoded = NOT_ENCODED) -> None:
        self._check_spoilt()
        for record in records:
            kind, id = self._checked(record)
            if (kind, id) in self._records:
                raise RehearsalEnds
            self._records[kind, id] = record
            self._kinds.add(kind)
            if kind in TOLD:
                self._changes[kind, id] = (None, record)

    def replace(self, record: object, *, former: object | None = None) -> None:
        self._check_spoilt()
        key = self._checked(record)
        old = self._records.get(key)
        if old is None:
            old = self._seen.get(*key, deleted=True)
            if old is None:
                raise RehearsalEnds
            self._replaced[key] = old
        self._records[key] = record
        self._kinds.add(key[0])
        if key[0] in TOLD:
            first = self._changes[key][0] if key in self._changes else old
            self._changes[key] = (first, record)

    def delete(self, *records: object) -> None:
        if records:
            raise RehearsalEnds

    def foreseen_number(self, name: str) -> int:
        """The next number of the sequence if nobody else takes one. It is taken when the writes are stored."""
        self._check_spoilt()
        return self._foreseen_number(name)

    def take_changes(self) -> list[Change]:
        taken, self._changes = self._changes, {}
        return [Change(old, new) for old, new in taken.values() if old is not new]

    def savepoint(self, change: Callable[[], T]) -> T:
        if self.has_written:
            raise RehearsalEnds
        try:
            return change()
        except RehearsalEnds:
            raise
        except BaseException:
            if self.has_written:
                raise RehearsalEnds from None
            raise

    def _checked(self, record: object) -> _Key:
        if getattr(record, "organization_id", None) != self.organization_id:
            raise RehearsalEnds
        return type(record), record.id  # type: ignore[attr-defined]

    def _spoil(self) -> None:
        if self.has_written:
            raise RehearsalEnds
        self._is_spoilt = True

    def _check_spoilt(self) -> None:
        if self._is_spoilt:
            raise RehearsalEnds

    def __getattr__(self, name: str) -> Any:
        # Answered until something is written that they might include. Taking a number ends the rehearsal too, because
        # storing the writes would not take it again.
        if name not in _OTHER_READS or self.has_written:
            raise RehearsalEnds
        return getattr(self._seen, name)


def _holds(condition: Condition, record: object) -> bool:
    """Whether the record meets the condition, as an engine would decide. Ends the rehearsal if that is uncertain."""
    match condition:
        case Compare(column, comparison, value):
            actual = _value(record, column)
            if actual is None or value is None:
                return False
            _check_comparable(actual, value)
            return _OPERATORS[comparison](actual, value)
        case Within(column, values):
            actual = _value(record, column)
            if actual is None:
                return False
            for value in values:
                _check_comparable(actual, value)
            return actual in values
        case Null(column, present):
            return (_value(record, column) is not None) is present
    raise RehearsalEnds


def _value(record: object, column: str) -> Any:
    return getattr(record, column)


def _check_comparable(actual: object, value: object) -> None:
    if not isinstance(actual, _COMPARABLE) or not isinstance(value, _COMPARABLE):
        raise RehearsalEnds


def _sorted(records: list[R], order: Sequence[Order]) -> list[R]:
    """In this order and then by id, absent values last."""
    records = sorted(records, key=operator.attrgetter("id"))
    for item in reversed(order):
        values = [_value(record, item.column) for record in records]
        for value in values:
            if value is not None:
                _check_comparable(value, value)
        present = [record for record, value in zip(records, values, strict=True) if value is not None]
        absent = [record for record, value in zip(records, values, strict=True) if value is None]
        # A stable sort keeps the order of equals either way.
        present.sort(key=operator.attrgetter(item.column), reverse=item.descending)
        records = [*present, *absent]
    return records


def as_transaction(planning: Planning) -> Transaction:
    """The same as a transaction; missing methods end the rehearsal."""
    tx: Any = planning
    transaction: Transaction = tx
    return transaction
