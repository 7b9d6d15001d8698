"""The worker: threads that run due jobs while the process lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from usagebill.billing import Billing
from usagebill.core.errors import ClockRefused, DatabaseFailed
from usagebill.core.tasks import DeliverWebhook
from usagebill.operations import log_cleaning, organizations, provider_audits, unbilled_events
from usagebill.outside.calls import Calls
from usagebill.outside.delivery import Deliveries
from usagebill.outside.handlers import CALLS, OUTSIDE
from usagebill.process.logs import Log, plain_traceback

_log = Log("usagebill.worker")

# How often a worker records its work in the log.
_LINE_EVERY_SECONDS = 10.0


class _Line:
    """A thread's log line about its work: at once, then every ten seconds while it continues."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._written = -_LINE_EVERY_SECONDS
        self.count = 0

    def write_if_time(self) -> None:
        if time.monotonic() - self._written >= _LINE_EVERY_SECONDS:
            self.write()

    def write(self) -> None:
        if self.count:
            _log.info("jobs_done", kind=self._kind, jobs=self.count)
            self.count, self._written = 0, time.monotonic()


class Worker:
    """Does the jobs of a billing system as they fall due.

        with Worker(billing):
            ...

    One thread bills, one delivers webhooks, one rolls events up into running totals of usage, one ships them to the
    event store if there is one, and each other kind of outside job has its own `outside_threads`, so that none waits
    for another. A thread sleeps until the next of its jobs is due. A write of this process that schedules an immediate
    job wakes it; jobs from other processes are seen within `poll_seconds`. There may be many workers, in one process or
    in several: no job is done twice.
    """

    def __init__(self, billing: Billing, *, outside_threads: int = 2, poll_seconds: float = 1.0) -> None:
        self._billing = billing
        self._poll_seconds = poll_seconds
        self._stopping = False
        self._listen: list[Callable[[], Callable[[], None]]] = []
        self._deaf: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []
        self._wakes: list[Callable[[], None]] = []
        self._add(self._keep_doing, billing._system.run_batch, "", name="billing")
        for kind in OUTSIDE:
            for number in range(outside_threads):
                step = partial(billing._system.reach_out, kinds=(kind,))
                self._add(self._keep_doing, step, kind, name=f"{kind}-{number + 1}")
        for name, catch_up in (("usage", billing._system.roll_up_usage), ("shipping", billing._system.ship_events)):
            woken = threading.Event()
            thread = threading.Thread(
                target=self._keep_catching_up, args=(catch_up, woken), name=f"usagebill-{name}", daemon=True
            )
            self._threads.append(thread)
            self._wakes.append(woken.set)
        deliveries = billing._system.deliveries()
        arguments = (deliveries, DeliverWebhook.kind)
        self._thread(self._keep_stepping, arguments, deliveries.wake, DeliverWebhook.kind, "webhooks")
        for kind in CALLS:
            calls = billing._system.calls(kind, outside_threads)
            self._thread(self._keep_stepping, (calls, kind), calls.wake, kind, kind)

    def _add(self, run: Callable[..., None], step: Callable[[], int], kind: str, *, name: str) -> None:
        woken = threading.Event()
        self._thread(run, (step, kind, woken), woken.set, kind, name)

    def _thread(
        self, run: Callable[..., None], arguments: tuple[Any, ...], wake: Callable[[], None], kind: str, name: str
    ) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments, name=f"usagebill-{name}", daemon=True))
        self._wakes.append(wake)
        self._listen.append(partial(self._billing.on_immediate, wake, kind=kind))

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; returns at once."""
        self._deaf = [listen() for listen in self._listen]
        self._schedule_cleaning()
        self._billing._system.presence.add_workers(1)
        self._billing._system.presence.begin()
        for thread in self._threads:
            thread.start()

    def _schedule_cleaning(self) -> None:
        """Schedule the cleaning of logs by this installation's settings, which may differ from those of the last
        server.
        """
        try:
            for organization in self._billing.store.read(None, organizations.find_all):
                self._billing.writing(log_cleaning.schedule, organization)
                self._billing.writing(unbilled_events.schedule, organization)
                self._billing.writing(provider_audits.schedule, organization)
        except ClockRefused:
            return
        except Exception as problem:
            self._log_failure(problem)

    def stop(self) -> None:
        """Finish the running jobs, start no others, and return when they are done."""
        self._stopping = True
        self.wake()
        for thread in self._threads:
            thread.join()
        self._billing._system.presence.add_workers(-1)
        self._billing._system.presence.note()
        while self._deaf:
            self._deaf.pop()()

    def wake(self) -> None:
        """Look for due jobs now."""
        for wake in self._wakes:
            wake()

    def _note_done(self) -> None:
        self._billing._system.presence.say(last_done_at=self._billing.clock.now())

    def _keep_doing(self, step: Callable[[], int], kind: str, woken: threading.Event) -> None:
        line = _Line(kind or "billing")
        while not self._stopping:
            line.write_if_time()
            try:
                if done := step():
                    line.count += done
                    self._note_done()
                    continue
                pause = self._pause(kind)
            except ClockRefused:
                # The watch logs it once a minute. Work resumes as soon as the clock is right again.
                pause = self._poll_seconds
            except Exception as problem:
                self._log_failure(problem)
                pause = self._poll_seconds
            woken.wait(pause)
            woken.clear()
        line.write()

    def _keep_catching_up(self, catch_up: Callable[[], bool], woken: threading.Event) -> None:
        while not self._stopping:
            try:
                while catch_up() and not self._stopping:
                    pass
            except Exception as problem:
                self._log_failure(problem)
            woken.wait(self._poll_seconds)
            woken.clear()

    def _keep_stepping(self, stepwise: Deliveries | Calls, kind: str) -> None:
        line = _Line(kind)
        tried = 0
        while not self._stopping:
            line.write_if_time()
            try:
                stepwise.step()
                if stepwise.tried > tried:
                    line.count += stepwise.tried - tried
                    tried = stepwise.tried
                    self._note_done()
            except ClockRefused:
                # The watch logs it. Work resumes as soon as the clock is right again.
                pass
            except Exception as problem:
                self._log_failure(problem)
            stepwise.wait(self._poll_seconds)
        try:
            stepwise.close()
        except Exception as problem:
            self._log_failure(problem)
        line.write()

    def _log_failure(self, problem: Exception) -> None:
        if isinstance(problem, DatabaseFailed):
            # The database's own lines say when this began and ended (`storage.failures`).
            return
        # A full disk or a locked file is temporary; the jobs are still there, so this thread must keep running.
        thread = threading.current_thread().name
        _log.error("worker_step_failed", thread=thread, exception=plain_traceback(problem))

    def _pause(self, kind: str) -> float:
        due = self._billing.next_due(kind=kind) if kind else self._billing.next_due(leased=False)
        if due is None:
            return self._poll_seconds
        return min(self._poll_seconds, max(0.0, (due - self._billing.clock.now()).total_seconds()))
