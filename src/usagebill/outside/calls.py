"""Calls: charges and errands, leased jobs that make a single request to a payment provider each.

Their requests are made in parallel, by a few threads, and many jobs share a commit. Webhook messages go through
`delivery` instead, which paces each endpoint by itself; other leased jobs run one at a time (`outside`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from usagebill.core.errors import ClockRefused
from usagebill.core.jobs import Job
from usagebill.core.tasks import Task
from usagebill.operations import organizations
from usagebill.outside.job_host import JobHost
from usagebill.runtime.work import Work
from usagebill.storage.jobs import task_of
from usagebill.storage.ports import Transaction

L = TypeVar("L", bound=Task)
P = TypeVar("P")
A = TypeVar("A")

# The seconds that answers wait for others, to be stored in one commit, while there are calls to make.
_GATHER_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Call(Generic[L, P, A]):
    """How tasks of a type are done: which request is made, who answers it, and what follows from the answer.

    `prepare` runs in the transaction that leases the job; if it returns None, it has completed the job. `ask` runs
    while no transaction is open, perhaps more than once for one job. `conclude` completes the job in a transaction.
    """

    task_type: type[L]
    prepare: Callable[[Work, Job, L], P | None]
    ask: Callable[[JobHost, P], A]
    conclude: Callable[[Work, Job, L, P, A], None]


@dataclass(slots=True, eq=False)
class _Inquiry:
    """A leased job with its request, and the answer once there is one."""

    job: Job
    task: Any
    prepared: Any
    ask_before: float
    answer: Any = None
    problem: Exception | None = None


class Calls:
    """Does the due jobs of one kind of call.

    Each takes two short transactions, shared with others: one leases the job and prepares the request, one acts on the
    answer. `at_once` calls are under way at a time, on threads of their own, and as many more are ready; with 0, the
    thread of `step` makes one call itself.

    `step` does what can be done now, `wait` returns when there may be more to do. `close` gives back leased jobs that
    were not called; after a crash they are called once their lease has expired.
    """

    def __init__(self, host: JobHost, call: Call[Any, Any, Any], *, at_once: int = 0) -> None:
        self._host = host
        self._call = call
        self._at_once = at_once
        self._kind = call.task_type.kind
        self._guard = threading.Lock()
        self._ready: deque[_Inquiry] = deque()
        self._waiting = threading.Semaphore(0)
        self._under_way = 0
        self._answered: list[_Inquiry] = []
        self._unasked: list[_Inquiry] = []
        self._threads: list[threading.Thread] = []
        self._news = threading.Event()
        self._hurry = threading.Event()
        self._closing = False
        self._next: datetime | None = None
        self.failures: list[tuple[Job, Exception]] = []
        self.tried = 0

    @property
    def is_busy(self) -> bool:
        """Whether calls are in flight, or answers are not stored yet."""
        with self._guard:
            return bool(self._under_way or self._ready or self._answered or self._unasked)

    def wake(self) -> None:
        """End a `wait`."""
        self._news.set()
        self._hurry.set()

    def wait(self, seconds: float | None) -> None:
        """Wait until there may be something to do, at most this many seconds (None: while calls are in flight)."""
        if seconds is None:
            if not self._under_way:
                return
        elif self._next is not None:
            seconds = min(seconds, max(0.0, (self._next - self._host.clock.now()).total_seconds()))
        self._news.wait(seconds)
        if self._under_way:
            self._hurry.wait(_GATHER_SECONDS)
        self._news.clear()
        self._hurry.clear()

    def step(self, now: datetime | None = None, *, immediate: bool = False) -> int:
        """Store answers and take jobs due at `now` (by default the clock's); returns the number of both.

        Raises `ClockRefused` if the machine's clock is behind the newest instant in the file, or far ahead of it.
        """
        instant = now or self._host.clock.now()
        with self._guard:
            answered, unasked = self._answered[:], self._unasked[:]
        if not answered and not unasked and not self._may_lease(instant):
            return 0
        leased = self._commit(answered, unasked, instant, immediate)
        tried = len(answered) + len(leased) + len(unasked)
        self.tried += len(leased)
        if self._at_once:
            self._hand_over(leased)
        else:
            for inquiry in leased:
                self._ask(inquiry)
                self._commit([inquiry], [], instant, immediate, room=0)
        return tried

    def close(self) -> None:
        """Wait for the calls in flight, store their answers, and give back the other jobs."""
        with self._guard:
            self._closing = True
            self._unasked += self._ready
            self._ready.clear()
        for _ in self._threads:
            self._waiting.release()
        while self.is_busy:
            self.step()
            self.wait(None)
        for thread in self._threads:
            thread.join()

    # Leasing and storing

    def _room(self) -> int:
        if not self._at_once:
            return 1
        with self._guard:
            return 0 if self._closing else max(0, 2 * self._at_once - self._under_way - len(self._ready))

    def _may_lease(self, instant: datetime) -> bool:
        self._look_ahead(self._host.ask(lambda tx: tx.jobs.earliest([self._kind])).get(self._kind))
        return self._next is not None and self._next <= instant

    def _look_ahead(self, first_due: datetime | None) -> None:
        self._next = first_due if self._room() else None

    def _commit(
        self,
        answered: Sequence[_Inquiry],
        unasked: Sequence[_Inquiry],
        instant: datetime,
        immediate: bool,
        room: int | None = None,
    ) -> list[_Inquiry]:
        """Store these answers, give back these jobs, and lease as many as there is room for, all in one commit."""

        def act(tx: Transaction, at: datetime) -> tuple[list[_Inquiry], list[Work]]:
            works = [self._noted(tx, inquiry, at) for inquiry in answered if inquiry.problem is None]
            for inquiry in answered:
                if inquiry.problem is not None:
                    self._host.postpone(tx, inquiry.job, instant, inquiry.problem)
            tx.jobs.give_back([inquiry.job for inquiry in unasked])
            leased, begun = self._lease(tx, instant, at, self._room() if room is None else room, immediate)
            self._look_ahead(tx.jobs.earliest([self._kind]).get(self._kind))
            return leased, works + begun

        before = len(self.failures)
        try:
            leased = self._host.share(act)
        except Exception as problem:
            del self.failures[before:]
            # Jobs that are due now are left until `wait` has waited.
            self._next = None
            if isinstance(problem, ClockRefused) or not answered:
                raise
            # One of them may have failed the commit: retry each by itself.
            self._note_each(answered, instant)
            return []
        self.failures += [(inquiry.job, inquiry.problem) for inquiry in answered if inquiry.problem is not None]
        self._drop(answered, unasked)
        return leased

    def _noted(self, tx: Transaction, inquiry: _Inquiry, at: datetime) -> Work:
        work = self._host.work_of(tx.scoped(inquiry.job.organization_id), inquiry.job.organization_id, at)
        self._call.conclude(work, inquiry.job, inquiry.task, inquiry.prepared, inquiry.answer)
        work.log_changes()
        return work

    def _note_each(self, answered: Sequence[_Inquiry], instant: datetime) -> None:
        for inquiry in answered:
            problem = inquiry.problem
            if problem is None:
                try:
                    self._host.share(partial(self._noted_alone, inquiry))
                except Exception as failure:
                    problem = failure
            if problem is not None:
                self._postpone(inquiry.job, instant, problem)
            self._drop([inquiry], [])

    def _noted_alone(self, inquiry: _Inquiry, tx: Transaction, at: datetime) -> tuple[None, list[Work]]:
        return None, [self._noted(tx, inquiry, at)]

    def _drop(self, answered: Sequence[_Inquiry], unasked: Sequence[_Inquiry]) -> None:
        with self._guard:
            self._answered = [inquiry for inquiry in self._answered if inquiry not in answered]
            self._unasked = [inquiry for inquiry in self._unasked if inquiry not in unasked]

    def _postpone(self, job: Job, instant: datetime, problem: Exception) -> None:
        self._host.transact(lambda tx: self._host.postpone(tx, job, instant, problem))
        self.failures.append((job, problem))

    def _lease(
        self, tx: Transaction, instant: datetime, at: datetime, room: int, immediate: bool
    ) -> tuple[list[_Inquiry], list[Work]]:
        # The instant may be the start of a long run of jobs.
        until = max(instant, at) + self._host.lease_of(self._kind)
        leased: list[_Inquiry] = []
        works: list[Work] = []
        jobs = tx.jobs.lease(self._kind, instant, until, at_most=room, immediate=immediate) if room else []
        for job in jobs:
            try:
                inquiry, work = tx.savepoint(partial(self._prepared, tx, job, at))
            except Exception as problem:
                self._host.postpone(tx, job, instant, problem)
                self.failures.append((job, problem))
                continue
            works.append(work)
            if inquiry is not None:
                leased.append(inquiry)
        return leased, works

    def _prepared(self, tx: Transaction, job: Job, at: datetime) -> tuple[_Inquiry | None, Work]:
        work = self._host.work_of(tx.scoped(job.organization_id), job.organization_id, at)
        organizations.check_enabled(work.organization)
        task = task_of(self._call.task_type, job)
        prepared = self._call.prepare(work, job, task)
        work.log_changes()
        if prepared is None:
            return None, work
        ask_before = time.monotonic() + self._host.lease_of(self._kind).total_seconds() / 2
        return _Inquiry(job, task, prepared, ask_before), work

    # Calling

    def _hand_over(self, leased: Sequence[_Inquiry]) -> None:
        with self._guard:
            if self._closing:
                self._unasked += leased
                return
            self._ready += leased
        if leased and not self._threads:
            for number in range(self._at_once):
                name = f"usagebill-{self._kind}-{number + 1}"
                self._threads.append(threading.Thread(target=self._keep_asking, name=name, daemon=True))
                self._threads[-1].start()
        for _ in leased:
            self._waiting.release()

    def _keep_asking(self) -> None:
        while True:
            self._waiting.acquire()
            with self._guard:
                if self._closing:
                    return
                inquiry = self._ready.popleft()
                if time.monotonic() > inquiry.ask_before:
                    # Its lease may expire before the answer comes, and another worker would make the same call.
                    self._unasked.append(inquiry)
                    self._news.set()
                    continue
                self._under_way += 1
                is_short = len(self._ready) < self._at_once
            if is_short:
                self._hurry.set()
            self._ask(inquiry)
            with self._guard:
                self._under_way -= 1
                self._answered.append(inquiry)
            self._news.set()

    def _ask(self, inquiry: _Inquiry) -> None:
        try:
            inquiry.answer = self._call.ask(self._host, inquiry.prepared)
        except Exception as problem:
            inquiry.problem = problem
