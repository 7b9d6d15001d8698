"""Rehearsals: the results of the next due jobs or of a caller's change, computed on a snapshot while others write."""

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

T = TypeVar("T")

# The jobs computed before the lock is taken; the number of due jobs they are chosen from while other workers take the
# first ones; and the number of batches for which that continues.
_AHEAD = 48
_CONTENDED_WINDOW = 1000
_KEEPS_AWAY = 200
# The smallest cohort of customers who are billed together, and the smallest share of jobs that a worker computes while
# others take the first ones.
FEWEST_ALIKE = 4
_FEWEST_SHARED = 16
# The cohorts of a run kept from batch to batch: one for each plan.
_KEPT_COHORTS = 5
# The seconds spent on computing ahead for one batch.
_LONGEST_AHEAD = 0.5
# The number of instants at which a change is run before it counts under the lock.
_MOST_INSTANTS = 4


# Records and jobs that do not contain an invoice number.
_UNNUMBERED = frozenset({BillingPeriod, Fee})
_UNNUMBERED_TASKS = frozenset({BillCustomer.kind, MarkOverdue.kind})


class GoneToOthers(Exception):
    """Another worker has done some of the jobs."""


class NotTogether(Exception):
    """Results computed together are still valid, but cannot be stored."""


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
class Together:
    """The invoices of customers who are billed alike, computed together and stored at once."""

    organization: Organization
    settings: Settings
    observation: Observation
    invoices: tuple[AlikeInvoice, ...]
    encoded: Encoded

    @property
    def keys(self) -> frozenset[JobKey]:
        """The identities of their jobs."""
        return frozenset((self.organization.id, planned.job.key) for planned in self.invoices)

    def is_stored(self, tx: Transaction, organization: Organization, instant: datetime, batch: Batch) -> bool:
        """Write all of them if each job would do the same now; False if nothing was written.

        The batch gets their messages. Raises `GoneToOthers` or `NotTogether` if that is impossible; then nothing is
        written either.
        """
        jobs = [planned.job for planned in self.invoices]
        if not tx.jobs.are_claimable(instant, jobs):
            known = {job.key: job for job in tx.jobs.named([job.key for job in jobs])}
            if any(known.get(job.key) != job for job in jobs):
                raise GoneToOthers
            # Another job of one of the customers is due before.
            return False
        if organization != self.organization or not tx.still_holds(self.observation):
            return False
        try:
            stored = tx.savepoint(lambda: tx.unchecked(partial(self._store, tx)))
        except Exception as problem:
            # Everything was rolled back. Running the jobs one by one shows which one is at fault.
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
        # Rows of one kind are written together, invoices before their dependents.
        kinds: dict[type, list[object]] = {}
        stored = []
        for planned in self.invoices:
            numbers = tuple(islice(taken, len(planned.series)))
            numbered = planned if numbers == planned.numbers else planned.numbered(reader, numbers)
            stored.append(numbered)
            for record, foreseen in zip(numbered.records, planned.records, strict=True):
                kinds.setdefault(type(record), []).append(record)
                if record is not foreseen:
                    encoded.pop(foreseen.id, None)
        tx.jobs.complete(*(planned.job for planned in self.invoices))
        tx.insert(*chain.from_iterable(kinds.values()), encoded=encoded)
        if not tx.jobs.add(*(job for numbered in stored for job in numbered.jobs)):
            raise _PlanFails
        return stored


@dataclass(frozen=True, slots=True)
class Prepared:
    """The precomputed part of a job: results that it will need, and all its writes if they are known; or the group with
    which it is stored `together`.
    """

    ahead: Ahead
    plan: _Plan | None = None
    together: Together | None = None

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
        # The cohorts that others can be billed like, with their organization and instant.
        self._cohorts: list[tuple[tuple[Organization, datetime], Cohort]] = []
        # For how many more batches this worker avoids the first jobs, because others take those; and its start instead,
        # as a fraction of the jobs of that instant.
        self._keeps_away = 0
        self._place = 0.0
        # Whether a batch has been stored and no other worker had done its jobs. Until then few are computed: workers
        # that begin together begin with the same.
        self._is_under_way = False
        # Whether processes can reserve jobs.
        self._reserves = False
        # Whether all jobs computed now are due at one instant.
        self._is_one_instant = False
        # Results computed together were no longer valid: next time this is not tried.
        self._is_stale = False
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
            if (organization_id, key) in batch.passed:
                continue
            job = tx.scoped(organization_id).jobs.claim(instant, key=key)
            if job is not None:
                return job
            batch.gone += 1
        job = tx.jobs.claim(instant, immediate=immediate)
        if job is None or immediate:
            return job
        # A group partly done by other workers is recomputed first.
        is_left = (job.organization_id, job.key) in batch.passed
        return None if is_left or (batch.done and self.covers(job)) else job

    def are_stored(self, tx: Transaction, prepared: Prepared, instant: datetime, batch: Batch) -> bool:
        """Store the group computed together with a job, if there is one and it is still valid; False if the job must be
        run.

        A group partly done by another worker is skipped.
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
                # The rest of the group is recomputed; nothing left here is due later.
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
        """Keep the results that a batch did not get to, unless some were stale."""
        self._is_stale = batch.is_faulty
        self._is_under_way = not batch.gone
        self._left = {} if batch.is_stale else {key: self._left[key] for key in untouched if key not in batch.passed}
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
                    # The following jobs would be done before it.
                    return results
                scoped = tx.scoped(job.organization_id)
                made = self._prepared(scoped, scoped, job, partial(numbers.next, scoped))
                results[job.organization_id, job.key] = made
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

    def _alike_results(self, tx: Snapshot, jobs: Sequence[Job], numbers: _Numbers) -> dict[JobKey, Prepared]:
        """The results of jobs with customers who are billed alike: like one of an earlier batch, or like one billed
        now.
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
        """The results of jobs that are alike, group by group."""

        results: dict[JobKey, Prepared] = {}
        for start in range(0, len(jobs), self._group_size):
            some = jobs[start : start + self._group_size]

            def look(observed: Snapshot, some: Sequence[Job] = some) -> list[AlikeInvoice]:
                reader = Reader(observed, organization, some[0].due_at, self._settings)
                return cohort.invoices(reader, some, partial(numbers.next_of, tx), self._now())

            invoices, observation = tx.observed(look)
            # While others take numbers too, each invoice gets another one than foreseen: it is encoded once, then.
            encoded = tx.encoded(
                [
                    record
                    for planned in invoices
                    for record in planned.records
                    if not (self._keeps_away and record is planned.invoice)
                ]
            )
            together = Together(organization, self._settings, observation, tuple(invoices), encoded)
            results |= {key: Prepared({}, together=together) for key in together.keys}
        return results

    def _prepared(self, tx: Snapshot, noted: Snapshot, job: Job, foreseen_number: Callable[[str], int]) -> Prepared:
        organization = self._organization_of(tx, job.organization_id)

        def rehearse(observed: Snapshot) -> tuple[Rehearsal, Writes | None, Writes | None]:
            planning = Planning(tx, observed, foreseen_number)
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
    """The jobs in order: consecutive ones that may be billed alike as a group, any other by itself."""
    places = count()

    def group(job: Job) -> tuple[object, ...]:
        return (job.organization_id, job.due_at) if may_be_alike(job) else (next(places),)

    for _, some in groupby(jobs, group):
        yield list(some)


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

    def next_of(self, tx: Snapshot, names: Sequence[str]) -> list[int]:
        """The number after the last one of each, in this order."""
        unknown = [name for name in dict.fromkeys(names) if (tx.organization_id, name) not in self._last]
        last = tx.last_numbers(unknown) if unknown else {}
        self._last |= {(tx.organization_id, name): last.get(name, 0) for name in unknown}
        return [self.next(tx, name) for name in names]


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
