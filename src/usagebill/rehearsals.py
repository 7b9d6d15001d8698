"""Rehearsals: the results of the next due jobs or of a caller's change, computed on a snapshot while others write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from random import random
from time import monotonic
from typing import TypeVar

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import BillCustomer, MarkOverdue
from usagebill.counts import BillWanted, Counts, CountWanted
from usagebill.ids import Ids
from usagebill.job_batches import MOST_COUNTS, Batch, JobKey, JobRuns
from usagebill.operations.jobs import is_worked_out_ahead, perform
from usagebill.settings import Settings
from usagebill.storage.plans import Planning, Writes
from usagebill.storage.ports import Observation, Snapshot, Store, Transaction
from usagebill.work import Ahead, Answers, Rehearsal, Terms, Work

T = TypeVar("T")

# The jobs computed before the lock is taken; the number of due jobs they are chosen from while other workers take the
# first ones; and the number of batches for which that continues.
_AHEAD = 48
_CONTENDED_WINDOW = 1000
_KEEPS_AWAY = 200
# The smallest share of jobs that a worker computes while others take the first ones.
_FEWEST_SHARED = 16
# The seconds spent on computing ahead for one batch.
_LONGEST_AHEAD = 0.5
# The number of instants at which a change is run before it counts under the lock.
_MOST_INSTANTS = 4


# Records and jobs that do not contain an invoice number.
_UNNUMBERED = frozenset({BillingPeriod, Fee})
_UNNUMBERED_TASKS = frozenset({BillCustomer.kind, MarkOverdue.kind})


class _PlanFails(Exception):
    """The planned writes cannot be stored as they are."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A job run on a snapshot: all its writes, including logs, and the observation they were computed from.

    `before_logs` is the same without logs. `work` has its messages.
    """

    work: Rehearsal
    observation: Observation
    before_logs: Writes
    writes: Writes

    def holds(self, work: Work, job: Job) -> bool:
        """Whether the job would do the same now. It may have been postponed, or dropped and rescheduled."""
        observations = (self.observation, *(known.observation for known in self.work.ahead.values()))
        return (
            job == self.writes.job
            and work.organization == self.work.organization
            and all(map(work.tx.still_holds, observations))
        )

    def store(self, work: Work) -> None:
        """Write everything. Raises an exception if that is impossible."""
        tx, numberings = work.tx, self.work.numberings
        numbers = [tuple(map(tx.next_number, taken.series)) for taken in numberings]
        if numbers == [taken.numbers for taken in numberings]:
            self.writes.store(tx)
            # They are logged.
            tx.take_changes()
        else:
            self._renumbered(numbers).store(tx)

    def _renumbered(self, numbers: Sequence[Sequence[int]]) -> Writes:
        """The writes except logs, with these numbers. Raises an exception if other writes may contain numbers."""
        records: dict[tuple[type, str], object] = {}
        writes = self.before_logs
        for record in (*writes.inserted, *writes.replaced):
            records[type(record), record.id] = record  # type: ignore[attr-defined]
        numbered = {(taken.kind, taken.id) for taken in self.work.numberings}
        if (
            self.work.messages
            or any(kind not in _UNNUMBERED and (kind, id) not in numbered for kind, id in records)
            or any(job.kind not in _UNNUMBERED_TASKS for job in writes.added)
        ):
            raise _PlanFails
        for taken, number in zip(self.work.numberings, numbers, strict=True):
            key = taken.kind, taken.id
            records[key] = taken.numbered(records[key], number)
        return replace(
            writes,
            inserted=tuple(records[type(record), record.id] for record in writes.inserted),  # type: ignore[attr-defined]
            replaced=tuple(records[type(record), record.id] for record in writes.replaced),  # type: ignore[attr-defined]
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """The precomputed part of a job: results that it will need, and all its writes if they are known."""

    ahead: Ahead
    plan: _Plan | None = None

    def is_stored(self, work: Work, job: Job) -> bool:
        """Store the job's planned writes if it would do the same now; False if it has to be run."""
        plan = self.plan
        if plan is None or not plan.holds(work, job):
            return False
        try:
            work.tx.savepoint(lambda: work.tx.unchecked(partial(plan.store, work)))
        except Exception:
            # Everything was rolled back. Running the job shows whether it is at fault.
            return False
        work.take_over(plan.work)
        return True


class Rehearsals:
    """A worker's computed and not yet stored results for the next jobs of a store."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        organization_of: Callable[[Snapshot, str], Organization],
        terms: Callable[[], Terms],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._settings = settings
        self._organization_of = organization_of
        self._terms = terms
        self._now = now
        # The number of customers billed together, and of jobs computed ahead.
        self._group_size = store.group_size
        self._ahead = max(_AHEAD, self._group_size)
        # For how many more batches this worker avoids the first jobs, because others take those; and its start instead,
        # as a fraction of the jobs of that instant.
        self._keeps_away = 0
        self._place = 0.0
        # Whether a batch has been stored and no other worker had done its jobs. Until then few are computed: workers
        # that begin together begin with the same.
        self._is_under_way = False
        # Whether processes can reserve jobs.
        self._reserves = False
        self._left: dict[JobKey, Prepared] = {}
        self._counted: dict[JobKey, JobRuns] = {}
        self._snapshot: Snapshot | None = None

    def covers(self, job: Job) -> bool:
        """Whether the job's results are computed ahead."""
        return self._store.reads_beside_writes and is_worked_out_ahead(job)

    def prepared(self, instant: datetime) -> dict[JobKey, Prepared]:
        """The results of the next jobs; those left over from the last batch, if there are any.

        These are the first due jobs or, if other workers have just taken those, later ones.
        """
        if not self._left and self._store.reads_beside_writes:
            self._left = self._store.read(None, partial(self._rehearsed, instant=instant))
        return self._left

    def recall(self, tx: Transaction) -> None:
        """Let the write of a batch reuse what was read for it, as far as it is unchanged."""
        if self._left and self._snapshot is not None:
            tx.recall(self._snapshot)

    def claimed(
        self, tx: Transaction, instant: datetime, worked_out: Iterator[JobKey], batch: Batch, *, immediate: bool
    ) -> Job | None:
        """The next job of a batch: first those computed ahead, then any other; None if the batch ends here."""
        for organization_id, key in worked_out:
            job = tx.scoped(organization_id).jobs.claim(instant, key=key)
            if job is not None:
                return job
            batch.gone += 1
        job = tx.jobs.claim(instant, immediate=immediate)
        if job is None or immediate:
            return job
        return None if batch.done and self.covers(job) else job

    def keep(self, untouched: Iterator[JobKey], batch: Batch) -> None:
        """Keep the results that a batch did not get to."""
        self._is_under_way = not batch.gone
        self._left = {key: self._left[key] for key in untouched}
        if not self._left:
            self._snapshot = None
        if batch.gone:
            # Two workers begin at opposite ends; more workers move until none of them collide.
            self._keeps_away, self._place = _KEEPS_AWAY, random() if self._keeps_away else 1.0
        else:
            self._keeps_away = max(0, self._keeps_away - 1)

    def runs_of(self, job: Job) -> JobRuns | None:
        """The counts made for a job that runs now; None if it may count freely under the lock."""
        if not self._store.reads_beside_writes:
            return None
        runs = self._counted.pop((job.organization_id, job.key), None) or JobRuns()
        runs.begin()
        return runs

    def count(self, job: Job, runs: JobRuns, wanted: CountWanted) -> None:
        """Make the counts that a job wanted on a snapshot, for its next run."""
        self._store.read(job.organization_id, partial(runs.count, wanted=wanted))
        self._counted[job.organization_id, job.key] = runs

    def _rehearsed(self, tx: Snapshot, instant: datetime) -> dict[JobKey, Prepared]:
        covered = self._next_jobs(tx, instant)
        start = monotonic()
        results: dict[JobKey, Prepared] = {}
        numbers = _Numbers()
        self._snapshot = tx
        for job in covered:
            if monotonic() - start > _LONGEST_AHEAD and results:
                # The following jobs would be done before it.
                return results
            scoped = tx.scoped(job.organization_id)
            results[job.organization_id, job.key] = self._prepared(scoped, job, partial(numbers.next, scoped))
        return results

    def _next_jobs(self, tx: Snapshot, instant: datetime) -> list[Job]:
        """The jobs to compute: the first ones or, while other workers have those, later ones of the same instant,
        because jobs due afterwards must come after all of these.

        If processes cannot reserve jobs, each keeps its own position, which moves with the remaining jobs.
        """
        if not self._keeps_away:
            at_most = self._ahead if self._is_under_way else self._group_size
            covered = list(takewhile(self.covers, tx.jobs.ready(instant, at_most)))
            free = self._store.reserved(covered, self._ahead)
            self._reserves = free is not None
            if free is None or len(free) == len(covered):
                return covered
            self._keeps_away = _KEEPS_AWAY
        count = tx.jobs.first_of_one_instant(instant, _CONTENDED_WINDOW)
        # Towards the end of a run, the remaining jobs are shared in smaller portions.
        at_most = min(self._ahead, max(_FEWEST_SHARED, count // 3))
        if self._reserves:
            covered = list(takewhile(self.covers, tx.jobs.ready(instant, count)))
            if free := self._store.reserved(covered, at_most):
                return free
        # The lock is taken for one group at a time. Of workers that store several in a row, each waits for all of the
        # other's, batch after batch.
        at_most = min(self._group_size, at_most)
        first = int(self._place * max(0, count - at_most))
        return list(takewhile(self.covers, tx.jobs.ready(instant, min(at_most, count - first), first)))

    def _prepared(self, tx: Snapshot, job: Job, foreseen_number: Callable[[str], int]) -> Prepared:
        organization = self._organization_of(tx, job.organization_id)

        def rehearse(observed: Snapshot) -> tuple[Rehearsal, Writes | None, Writes | None]:
            planning = Planning(tx, observed, foreseen_number)
            rehearsal = Rehearsal(tx, organization, job.due_at, self._settings, planning=planning, **self._terms())
            is_done = rehearsal.run(partial(perform, job=job))
            before_logs = planning.writes() if is_done else None
            is_done = is_done and rehearsal.run(lambda work: work.log_changes())
            return rehearsal, before_logs, planning.writes() if is_done else None

        (rehearsal, before_logs, writes), observation = tx.observed(rehearse)
        if before_logs is None or writes is None:
            return Prepared(rehearsal.ahead)
        return Prepared(rehearsal.ahead, _Plan(rehearsal, observation, before_logs, writes))


class _Numbers:
    """The last number of each organization and series, from which jobs take theirs if no other worker takes any."""

    def __init__(self) -> None:
        self._last: dict[tuple[str | None, str], int] = {}

    def next(self, tx: Snapshot, name: str) -> int:
        """The number after the last one."""
        key = tx.organization_id, name
        last = self._last.get(key)
        self._last[key] = (tx.last_number(name) if last is None else last) + 1
        return self._last[key]


class Runs:
    """The runs of one change: it is rolled back if it needs a count of many events or a bill of many subscriptions, and
    rerun with the count and the bill.

    Each run acts as of the instant of the first one, as a late job acts as of the instant it was due, unless a value
    that the change read before its first write has changed. Then it starts over, as of now.
    """

    def __init__(self, store: Store, settings: Settings, organization: Organization) -> None:
        self._store = store
        self._settings = settings
        self._organization = organization
        # In memory, nothing is written during a count.
        self.counts = Counts() if store.reads_beside_writes else None
        self.ids = Ids()
        self.ahead: Ahead = {}
        self._at: datetime | None = None
        self._observed: Observation | None = None
        self._counted = 0
        self._instants = 0

    def begin(self, tx: Transaction, now: datetime) -> datetime:
        """The instant that the next run acts as of."""
        if self.counts is not None:
            self.counts.begin()
        self.ids.begin()
        if self._at is None or self._observed is None or not tx.still_holds(self._observed):
            self._at, self._observed, self.ahead = now, None, {}
            self._instants += 1
            if self.counts is not None:
                self.counts.forget()
                self.counts.bills_ahead = True
                self.counts.is_patient = self._instants <= _MOST_INSTANTS
        return self._at

    def repeated(self, run: Callable[[], T], change: Callable[[Work], object], answers: Answers) -> T:
        """The result of `run`, one run of the change, repeated with the counts that it wants."""
        while True:
            try:
                return run()
            except (BillWanted, CountWanted) as wanted:
                # Outside the transaction, which has been rolled back by now.
                self._count(wanted, change, answers)

    def _count(self, wanted: BillWanted | CountWanted, change: Callable[[Work], object], answers: Answers) -> None:
        """Make the counts that the last run wanted, and all others that the change needs before its first write."""
        counts, at = self.counts, self._at
        if counts is None or at is None:
            raise wanted

        def look(tx: Snapshot) -> None:
            if self._observed is None:
                _, self._observed = tx.observed(
                    lambda observed: self._rehearse(change, tx, observed, at, counts, answers)
                )
                counts.bills_ahead = False
            if isinstance(wanted, CountWanted):
                counts.count(tx, wanted)

        self._store.read(self._organization.id, look)
        self._counted += 1
        counts.is_patient = counts.is_patient and self._counted < MOST_COUNTS

    def _rehearse(
        self,
        change: Callable[[Work], object],
        snapshot: Snapshot,
        observed: Snapshot,
        at: datetime,
        counts: Counts,
        answers: Answers,
    ) -> None:
        self.ids.begin()
        rehearsal = Rehearsal(
            snapshot,
            self._organization,
            at,
            self._settings,
            perform=perform,
            observed=observed,
            answers=answers,
            counts=counts,
            ids=self.ids,
        )
        rehearsal.run(change)
        self.ahead = rehearsal.ahead
