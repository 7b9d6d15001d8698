"""Rehearsals: what the next due jobs and a caller's change come to, computed on a snapshot while others write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, count, groupby, islice, takewhile
from random import random
from time import monotonic
from typing import Any, TypeVar

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import BillCustomer, MarkOverdue
from usagebill.counts import BillWanted, Counts, CountWanted
from usagebill.ids import Ids
from usagebill.job_batches import MOST_COUNTS, Batch, JobKey, JobRuns
from usagebill.operations.cohorts import AlikeInvoice, Cohort, cohort_of, makes_what_others_share, may_be_alike
from usagebill.operations.jobs import is_worked_out_ahead, perform
from usagebill.settings import Settings
from usagebill.storage.alike import NotedSnapshot, Notes
from usagebill.storage.plans import Planning, Writes
from usagebill.storage.ports import Encoded, Observation, Snapshot, Store, Transaction
from usagebill.work import Ahead, Answers, Reader, Rehearsal, Terms, Work

__all__ = ["FEWEST_ALIKE", "Prepared", "Rehearsals", "Runs", "Together"]

T = TypeVar("T")

# How many jobs are computed before the lock is taken; among how many of those that are due they are chosen while other
# workers take the first ones; and for how many batches that goes on.
_AHEAD = 48
_CONTENDED_WINDOW = 1000
_KEEPS_AWAY = 200
# The smallest cohort of customers who are billed together, and the smallest share of jobs that a worker computes while
# others take the first ones.
FEWEST_ALIKE = 4
_FEWEST_SHARED = 16
# So many cohorts of a run are kept from batch to batch: one for each plan.
_KEPT_COHORTS = 5
# How many seconds something is computed ahead for one batch.
_LONGEST_AHEAD = 0.5
# As of how many instants a change is run before it counts under the lock.
_MOST_INSTANTS = 4


# Records and jobs that show no number of an invoice.
_UNNUMBERED = frozenset({BillingPeriod, Fee})
_UNNUMBERED_TASKS = frozenset({BillCustomer.kind, MarkOverdue.kind})


class GoneToOthers(Exception):
    """Another worker has done some of the jobs."""


class NotTogether(Exception):
    """What was worked out together still stands, but cannot be stored."""


class _PlanFails(Exception):
    """What was planned cannot be stored as it is."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A job done on a snapshot: all that it has written, logs included, and what that was worked out from.

    `before_logs` is the same without logs. `work` has its messages.
    """

    work: Rehearsal
    observation: Observation
    before_logs: Writes
    writes: Writes

    def holds(self, work: Work, job: Job) -> bool:
        """Whether the job would do the same now. It may have been put off, or dropped and scheduled again."""
        observations = (self.observation, *(known.observation for known in self.work.ahead.values()))
        return (
            job == self.writes.job
            and work.organization == self.work.organization
            and all(map(work.tx.still_holds, observations))
        )

    def store(self, work: Work) -> None:
        """Write everything. Raises an exception if that cannot be."""
        tx, numberings = work.tx, self.work.numberings
        numbers = [tuple(map(tx.next_number, taken.series)) for taken in numberings]
        if numbers == [taken.numbers for taken in numberings]:
            self.writes.store(tx)
            # They are logged.
            tx.take_changes()
        else:
            self._renumbered(numbers).store(tx)

    def _renumbered(self, numbers: Sequence[Sequence[int]]) -> Writes:
        """The writes but for logs, with these numbers. Raises an exception if others of them may show some."""
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
class Together:
    """The invoices of customers who are billed alike, worked out together and stored in one go."""

    organization: Organization
    settings: Settings
    observation: Observation
    invoices: tuple[AlikeInvoice, ...]
    encoded: Encoded

    @property
    def keys(self) -> frozenset[JobKey]:
        """What names their jobs."""
        return frozenset((self.organization.id, planned.job.key) for planned in self.invoices)

    def is_stored(self, tx: Transaction, organization: Organization, instant: datetime, batch: Batch) -> bool:
        """Write all of them, if each job would do the same now; False if nothing was written.

        The batch gets their messages. Raises `GoneToOthers` or `NotTogether` if it cannot be; nothing is written then
        either.
        """
        jobs = [planned.job for planned in self.invoices]
        if not tx.jobs.are_claimable(instant, jobs):
            known = {job.key: job for job in tx.jobs.named([job.key for job in jobs])}
            if any(known.get(job.key) != job for job in jobs):
                raise GoneToOthers
            # Something else of a customer is due before.
            return False
        if organization != self.organization or not tx.still_holds(self.observation):
            return False
        try:
            stored = tx.savepoint(lambda: tx.unchecked(partial(self._store, tx)))
        except Exception as problem:
            # Nothing of it is left. Doing the jobs one by one shows whose fault it is.
            raise NotTogether from problem
        # They are logged.
        tx.take_changes()
        for planned in stored:
            batch.messages += planned.message.bodies
            batch.kinds |= {job.lane and job.kind for job in planned.jobs if job.immediate}
        return True

    def _store(self, tx: Transaction) -> list[AlikeInvoice]:
        reader = Reader(tx, self.organization, self.invoices[0].job.due_at, self.settings)
        taken = iter(tx.next_numbers([name for planned in self.invoices for name in planned.series]))
        encoded = dict(self.encoded)
        # Rows of one kind are written together, invoices before what belongs to them.
        kinds: dict[type, list[object]] = {}
        stored = []
        for planned in self.invoices:
            numbers = tuple(islice(taken, len(planned.series)))
            numbered = planned if numbers == planned.numbers else planned.numbered(reader, numbers)
            stored.append(numbered)
            for record, foreseen in zip(numbered.records, planned.records, strict=True):
                kinds.setdefault(type(record), []).append(record)
                if record is not foreseen:
                    del encoded[foreseen.id]
        tx.jobs.complete(*(planned.job for planned in self.invoices))
        tx.insert(*chain.from_iterable(kinds.values()), encoded=encoded)
        if not tx.jobs.add(*(job for numbered in stored for job in numbered.jobs)):
            raise _PlanFails
        return stored


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is computed for a job: some results that it will need, and all that it will write if that is known; or what
    is stored `together` with the jobs of others.
    """

    ahead: Ahead
    plan: _Plan | None = None
    together: Together | None = None

    def is_stored(self, work: Work, job: Job) -> bool:
        """Write what was planned for the job, if it would do the same now; False if it has to be done."""
        plan = self.plan
        if plan is None or not plan.holds(work, job):
            return False
        try:
            work.tx.savepoint(lambda: work.tx.unchecked(partial(plan.store, work)))
        except Exception:
            # Nothing of it is left. Doing the job shows whether anything is wrong with it.
            return False
        work.take_over(plan.work)
        return True


class Rehearsals:
    """What a worker has computed for the next jobs of a store, and has not stored yet."""

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
        # How many customers are billed together, and how many jobs are computed ahead.
        self._group_size = store.group_size
        self._ahead = max(_AHEAD, self._group_size)
        # Who can be followed, of which organization and instant.
        self._cohorts: list[tuple[tuple[Organization, datetime], Cohort]] = []
        # For how many batches more this worker keeps away from the first jobs, since others take those; and where it
        # begins instead, as a part of the jobs of their instant.
        self._keeps_away = 0
        self._place = 0.0
        # Whether processes can reserve jobs.
        self._reserves = False
        # Whether all that is computed now is due at one instant.
        self._is_one_instant = False
        # What was worked out together did not stand: next time it is not tried.
        self._is_stale = False
        self._left: dict[JobKey, Prepared] = {}
        self._counted: dict[JobKey, JobRuns] = {}
        self._snapshot: Snapshot | None = None

    def covers(self, job: Job) -> bool:
        """Whether what the job comes to is computed ahead."""
        return self._store.reads_beside_writes and is_worked_out_ahead(job)

    def prepared(self, instant: datetime) -> dict[JobKey, Prepared]:
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

    def claimed(
        self, tx: Transaction, instant: datetime, worked_out: Iterator[JobKey], batch: Batch, *, immediate: bool
    ) -> Job | None:
        """The next job of a batch: those computed ahead first, then any other; None if the batch ends here."""
        for organization_id, key in worked_out:
            if (organization_id, key) in batch.passed:
                continue
            job = tx.scoped(organization_id).jobs.claim(instant, key=key)
            if job is not None:
                return job
            batch.gone += 1
        job = tx.jobs.claim(instant, immediate=immediate)
        if job is None or immediate:
            return job
        # What is left of a group that others have done in part is computed again first.
        is_left = (job.organization_id, job.key) in batch.passed
        return None if is_left or (batch.done and self.covers(job)) else job

    def are_stored(self, tx: Transaction, prepared: Prepared, instant: datetime, batch: Batch) -> bool:
        """Write what was worked out together with a job, if it was and still stands; False if the job is to be done.

        What another worker has done in part is passed over.
        """
        together = prepared.together
        if together is None:
            return False
        scoped = tx.scoped(together.organization.id)
        organization = self._organization_of(scoped, together.organization.id)
        try:
            is_stored = together.is_stored(scoped, organization, instant, batch)
        except GoneToOthers:
            batch.gone += 1
            if self._is_one_instant:
                # The others of the group are worked out again; nothing that is left here is due later.
                batch.passed |= together.keys
                return True
            is_stored = False
        except NotTogether:
            is_stored, batch.is_faulty = False, True
        if not is_stored:
            batch.is_stale = True
            return False
        batch.done += len(together.invoices)
        batch.passed |= together.keys
        return True

    def keep(self, untouched: Iterator[JobKey], batch: Batch) -> None:
        """Keep the results that a batch did not come to, unless some of them were stale."""
        self._is_stale = batch.is_faulty
        self._left = {} if batch.is_stale else {key: self._left[key] for key in untouched if key not in batch.passed}
        if not self._left:
            self._snapshot = None
        if batch.gone:
            # Two workers begin at either end; where there are more, they move until nobody is met.
            self._keeps_away, self._place = _KEEPS_AWAY, random() if self._keeps_away else 1.0
        else:
            self._keeps_away = max(0, self._keeps_away - 1)

    def runs_of(self, job: Job) -> JobRuns | None:
        """What has been counted for a job, which runs now; None if it may count what it likes under the lock."""
        if not self._store.reads_beside_writes:
            return None
        runs = self._counted.pop((job.organization_id, job.key), None) or JobRuns()
        runs.begin()
        return runs

    def count(self, job: Job, runs: JobRuns, wanted: CountWanted) -> None:
        """Count on a snapshot what a job has wanted, for its next run."""
        self._store.read(job.organization_id, partial(runs.count, wanted=wanted))
        self._counted[job.organization_id, job.key] = runs

    def _rehearsed(self, tx: Snapshot, instant: datetime) -> dict[JobKey, Prepared]:
        covered = self._next_jobs(tx, instant)
        self._is_one_instant = len({job.due_at for job in covered}) <= 1
        start = monotonic()
        results: dict[JobKey, Prepared] = {}
        numbers = _Numbers()
        alone, self._is_stale = self._is_stale, False
        if alone:
            self._cohorts = []
        self._snapshot = tx
        for jobs in _in_turn(covered):
            if len(jobs) >= FEWEST_ALIKE and not alone:
                results |= self._alike_results(tx.scoped(jobs[0].organization_id), jobs, numbers)
                if any(
                    made.plan is not None and makes_what_others_share(made.plan.writes) for made in results.values()
                ):
                    # Nobody else is billed before that is stored.
                    return results
            for job in jobs:
                if (job.organization_id, job.key) in results:
                    continue
                if monotonic() - start > _LONGEST_AHEAD and results:
                    # What follows would be done before it.
                    return results
                scoped = tx.scoped(job.organization_id)
                made = self._prepared(scoped, scoped, job, partial(numbers.next, scoped))
                results[job.organization_id, job.key] = made
        return results

    def _next_jobs(self, tx: Snapshot, instant: datetime) -> list[Job]:
        """The jobs to compute: the first ones or, while other workers have those, some further on of the same instant,
        since what is due later is to come after all of these.

        Where processes cannot reserve jobs, each stays at a place of its own, which moves with the jobs that are left.
        """
        if not self._keeps_away:
            covered = list(takewhile(self.covers, tx.jobs.ready(instant, self._ahead)))
            free = self._store.reserved(covered, self._ahead)
            self._reserves = free is not None
            if free is None or len(free) == len(covered):
                return covered
            self._keeps_away = _KEEPS_AWAY
        count = tx.jobs.first_of_one_instant(instant, _CONTENDED_WINDOW)
        # Towards the end of a run what is left is shared in smaller parts.
        at_most = min(self._ahead, max(_FEWEST_SHARED, count // 3))
        if self._reserves:
            covered = list(takewhile(self.covers, tx.jobs.ready(instant, count)))
            if free := self._store.reserved(covered, at_most):
                return free
        first = int(self._place * max(0, count - at_most))
        return list(takewhile(self.covers, tx.jobs.ready(instant, min(at_most, count - first), first)))

    def _alike_results(self, tx: Snapshot, jobs: Sequence[Job], numbers: _Numbers) -> dict[JobKey, Prepared]:
        """The results of those of the jobs whose customers are billed alike: like one of an earlier batch, or like one
        that is billed now.
        """
        organization, left = self._organization_of(tx, jobs[0].organization_id), list(jobs)
        results: dict[JobKey, Prepared] = {}
        at = organization, jobs[0].due_at
        self._cohorts = [(known, cohort) for known, cohort in self._cohorts if known == at][-_KEPT_COHORTS:]
        for _, cohort in tuple(self._cohorts):
            made = self._together(tx, organization, cohort, left, numbers)
            results |= made
            left = [job for job in left if (job.organization_id, job.key) not in made]
        if len(left) >= FEWEST_ALIKE:
            job, notes = left[0], Notes()
            noted: Any = NotedSnapshot(tx, notes)
            prepared = self._prepared(tx, noted, job, partial(numbers.next, tx))
            results[job.organization_id, job.key] = prepared
            plan = prepared.plan
            if plan is not None and len(plan.work.numberings) == 1:
                taken = plan.work.numberings[0].numbers
                reader = Reader(noted, organization, job.due_at, self._settings)
                billed_together = cohort_of(
                    reader,
                    job,
                    plan.writes,
                    notes,
                    taken,
                    messages=plan.work.messages,
                    listening=self._terms()["listening"],
                )
                if billed_together is not None:
                    self._cohorts.append((at, billed_together))
                    results |= self._together(tx, organization, billed_together, left[1:], numbers)
        return results

    def _together(
        self, tx: Snapshot, organization: Organization, cohort: Cohort, jobs: Sequence[Job], numbers: _Numbers
    ) -> dict[JobKey, Prepared]:
        """What those of the jobs come to that are alike, group by group."""

        results: dict[JobKey, Prepared] = {}
        for start in range(0, len(jobs), self._group_size):
            some = jobs[start : start + self._group_size]

            def look(seen: Snapshot, some: Sequence[Job] = some) -> list[AlikeInvoice]:
                reader = Reader(seen, organization, some[0].due_at, self._settings)
                return cohort.invoices(reader, some, partial(numbers.next_of, tx), self._now())

            invoices, observation = tx.observed(look)
            encoded = tx.encoded([record for planned in invoices for record in planned.records])
            together = Together(organization, self._settings, observation, tuple(invoices), encoded)
            results |= {key: Prepared({}, together=together) for key in together.keys}
        return results

    def _prepared(self, tx: Snapshot, noted: Snapshot, job: Job, foreseen_number: Callable[[str], int]) -> Prepared:
        organization = self._organization_of(tx, job.organization_id)

        def rehearse(seen: Snapshot) -> tuple[Rehearsal, Writes | None, Writes | None]:
            planning = Planning(tx, seen, foreseen_number)
            rehearsal = Rehearsal(noted, organization, job.due_at, self._settings, planning=planning, **self._terms())
            is_done = rehearsal.run(partial(perform, job=job))
            before_logs = planning.writes() if is_done else None
            is_done = is_done and rehearsal.run(lambda work: work.log_changes())
            return rehearsal, before_logs, planning.writes() if is_done else None

        (rehearsal, before_logs, writes), observation = noted.observed(rehearse)
        if before_logs is None or writes is None:
            return Prepared(rehearsal.ahead)
        return Prepared(rehearsal.ahead, _Plan(rehearsal, observation, before_logs, writes))


def _in_turn(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """The jobs in their order: those that follow each other and may be billed alike together, any other by itself."""
    places = count()

    def group(job: Job) -> tuple[object, ...]:
        return (job.organization_id, job.due_at) if may_be_alike(job) else (next(places),)

    for _, some in groupby(jobs, group):
        yield list(some)


class _Numbers:
    """The numbers that jobs will take if nobody else takes any: of each organization and series, the last one."""

    def __init__(self) -> None:
        self._last: dict[tuple[str | None, str], int] = {}

    def next(self, tx: Snapshot, name: str) -> int:
        """The number after the last one."""
        key = tx.organization_id, name
        last = self._last.get(key)
        self._last[key] = (tx.last_number(name) if last is None else last) + 1
        return self._last[key]

    def next_of(self, tx: Snapshot, names: Sequence[str]) -> list[int]:
        """The number after the last one of each, in this order."""
        unknown = [name for name in dict.fromkeys(names) if (tx.organization_id, name) not in self._last]
        last = tx.last_numbers(unknown) if unknown else {}
        self._last |= {(tx.organization_id, name): last.get(name, 0) for name in unknown}
        return [self.next(tx, name) for name in names]


class Runs:
    """The runs of one change: it is rolled back if it needs many events counted or a bill of many subscriptions, and
    run again with the counts and the bill.

    Each run acts as of the instant of the first one, as a job that comes late acts as of when it was due; unless
    something that the change has read before its first write is not as it was. Then it starts over, as of now.
    """

    def __init__(self, store: Store, settings: Settings, organization: Organization) -> None:
        self._store = store
        self._settings = settings
        self._organization = organization
        # In memory nobody writes while somebody counts.
        self.counts = Counts() if store.reads_beside_writes else None
        self.ids = Ids()
        self.ahead: Ahead = {}
        self._at: datetime | None = None
        self._seen: Observation | None = None
        self._counted = 0
        self._instants = 0

    def begin(self, tx: Transaction, now: datetime) -> datetime:
        """The instant that the next run acts as of."""
        if self.counts is not None:
            self.counts.begin()
        self.ids.begin()
        if self._at is None or self._seen is None or not tx.still_holds(self._seen):
            self._at, self._seen, self.ahead = now, None, {}
            self._instants += 1
            if self.counts is not None:
                self.counts.forget()
                self.counts.bills_ahead = True
                self.counts.is_patient = self._instants <= _MOST_INSTANTS
        return self._at

    def repeated(self, run: Callable[[], T], change: Callable[[Work], object], answers: Answers) -> T:
        """The result of `run`, one run of the change, repeated with what it wants counted."""
        while True:
            try:
                return run()
            except (BillWanted, CountWanted) as wanted:
                # Outside of the transaction, which has been rolled back by now.
                self._count(wanted, change, answers)

    def _count(self, wanted: BillWanted | CountWanted, change: Callable[[Work], object], answers: Answers) -> None:
        """Count what the last run wanted; also whatever else the change needs before its first write."""
        counts, at = self.counts, self._at
        if counts is None or at is None:
            raise wanted

        def look(tx: Snapshot) -> None:
            if self._seen is None:
                _, self._seen = tx.observed(lambda seen: self._rehearse(change, tx, seen, at, counts, answers))
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
        seen: Snapshot,
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
            seen=seen,
            answers=answers,
            counts=counts,
            ids=self.ids,
        )
        rehearsal.run(change)
        self.ahead = rehearsal.ahead
