"""Rehearsals: what the next due jobs come to, computed on a snapshot while others write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import takewhile
from random import randrange
from time import monotonic

from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.operations.jobs import is_worked_out_ahead, perform
from usagebill.settings import Settings
from usagebill.storage.ports import Snapshot, Store, Transaction
from usagebill.work import Ahead, Rehearsal

__all__ = ["JobKey", "Rehearsals"]

# What names a job: its organization and its key.
JobKey = tuple[str, str]

# How many jobs are computed before the lock is taken; among how many of those that are due they are chosen while other
# workers take the first ones; and for how many batches that goes on.
_AHEAD = 20
_CONTENDED_WINDOW = 1000
_KEEPS_AWAY = 50
# How many seconds something is computed ahead for one batch.
_LONGEST_AHEAD = 0.1


class Rehearsals:
    """What a worker has computed for the next jobs of a store, and has not stored yet."""

    def __init__(
        self, store: Store, settings: Settings, organization_of: Callable[[Snapshot, str], Organization]
    ) -> None:
        self._store = store
        self._settings = settings
        self._organization_of = organization_of
        # For how many batches more this worker keeps away from the first jobs, since others take those.
        self._keeps_away = 0
        self._left: dict[JobKey, Ahead] = {}
        self._snapshot: Snapshot | None = None

    def covers(self, job: Job) -> bool:
        """Whether what the job comes to is computed ahead."""
        return self._store.reads_beside_writes and is_worked_out_ahead(job)

    def prepared(self, instant: datetime) -> dict[JobKey, Ahead]:
        """The results of the next jobs, those left from the last batch if there are any.

        They are the first due jobs or, if other workers have just taken those, some further on.
        """
        if not self._left and self._store.reads_beside_writes:
            self._left = self._store.read(None, partial(self._rehearsed, instant=instant))
        return self._left

    def recall(self, tx: Transaction) -> None:
        """Have the write of a batch take over what was read for it, as far as that is unchanged."""
        if self._left and self._snapshot is not None:
            tx.recall(self._snapshot)

    def keep(self, untouched: Iterator[JobKey], *, gone: int) -> None:
        """Keep the results that a batch did not come to; `gone` of the others had been taken by other workers."""
        self._left = {key: self._left[key] for key in untouched}
        if not self._left:
            self._snapshot = None
        self._keeps_away = _KEEPS_AWAY if gone else max(0, self._keeps_away - 1)

    def _rehearsed(self, tx: Snapshot, instant: datetime) -> dict[JobKey, Ahead]:
        jobs = tx.jobs.ready(instant, _CONTENDED_WINDOW if self._keeps_away else _AHEAD)
        covered = list(takewhile(self.covers, jobs))
        first = randrange(max(1, len(covered) - _AHEAD)) if self._keeps_away else 0
        start = monotonic()
        results: dict[JobKey, Ahead] = {}
        for job in covered[first : first + _AHEAD]:
            scoped = tx.scoped(job.organization_id)
            organization = self._organization_of(scoped, job.organization_id)
            rehearsal = Rehearsal(scoped, organization, job.due_at, self._settings, perform=perform)
            rehearsal.run(partial(perform, job=job))
            results[job.organization_id, job.key] = rehearsal.ahead
            if monotonic() - start > _LONGEST_AHEAD:
                break
        self._snapshot = tx
        return results
