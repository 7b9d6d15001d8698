"""A rehearsal: an operation run on a snapshot up to its first write, to compute beforehand what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, TypeVar

from usagebill.core.jobs import Job
from usagebill.storage.ports import Snapshot, Transaction

T = TypeVar("T")


class RunEnds(Exception):
    """The run ends here and the operation is run again: this is not a failure."""


class RehearsalEnds(RunEnds):
    """The operation is about to write."""


def _end(*_: object, **__: object) -> Any:
    raise RehearsalEnds


class _Jobs:
    """The waiting jobs. The first to be completed is the rehearsed job itself, so completing it is not written."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._jobs = snapshot.jobs
        self._completed: Job | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def complete(self, job: Job) -> None:
        if self._completed is not None:
            raise RehearsalEnds
        self._completed = job

    def overdue(
        self, subject_ids: Collection[str] | None, now: datetime, *, but_of: Collection[str] = ()
    ) -> Job | None:
        # The rehearsed job is no longer there.
        done = None if self._completed is None else self._completed.id
        return self._jobs.overdue(subject_ids, now, apart_from=done, but_of=but_of)

    add = claim = lease = give_back = cancel = postpone = retry = _end


class _Events:
    def __init__(self, snapshot: Snapshot) -> None:
        self._events = snapshot.events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._events, name)

    append = _end


class _Rehearsal:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.jobs = _Jobs(snapshot)
        self.events = _Events(snapshot)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)

    def savepoint(self, change: Callable[[], T]) -> T:
        return change()

    insert = replace = delete = next_number = still_holds = _end


def rehearsed(snapshot: Snapshot) -> Transaction:
    """The snapshot as a transaction whose first write raises `RehearsalEnds`."""
    tx: Any = _Rehearsal(snapshot)
    transaction: Transaction = tx
    return transaction
