"""The worker: threads that do what is due, by themselves, for as long as the process runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from usagebill.billing import Billing

__all__ = ["Worker"]

_log = structlog.get_logger("usagebill.worker")


class Worker:
    """Does the jobs of a billing system as they fall due: one thread bills, others talk to the outside.

        with Worker(billing):
            ...

    Each thread sleeps until the next job is due. A write of this process that leaves something to do at once wakes
    it; what other processes leave in the same file is seen within `poll_seconds`. Workers may be many, in one process
    or in several: no job is done twice.
    """

    def __init__(self, billing: Billing, *, outside_threads: int = 2, poll_seconds: float = 1.0) -> None:
        self._billing = billing
        self._poll_seconds = poll_seconds
        self._stopping = False
        self._deaf: Callable[[], None] = lambda: None
        self._roles = [self._role(billing.run_batch, leased=False, name="billing")]
        self._roles += [
            self._role(billing.reach_out, leased=True, name=f"outside-{number + 1}")
            for number in range(outside_threads)
        ]

    def _role(self, step: Callable[[], int], *, leased: bool, name: str) -> tuple[threading.Thread, threading.Event]:
        woken = threading.Event()
        thread = threading.Thread(target=self._keep_doing, args=(step, leased, woken), name=f"usagebill-{name}")
        thread.daemon = True
        return thread, woken

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; returns at once."""
        self._deaf = self._billing.on_immediate(self.wake)
        for thread, _ in self._roles:
            thread.start()

    def stop(self) -> None:
        """Finish the job at hand, begin no other, and return once that is so."""
        self._stopping = True
        self.wake()
        for thread, _ in self._roles:
            thread.join()
        self._deaf()

    def wake(self) -> None:
        """Look for due jobs now."""
        for _, woken in self._roles:
            woken.set()

    def _keep_doing(self, step: Callable[[], int], leased: bool, woken: threading.Event) -> None:
        while not self._stopping:
            try:
                if step():
                    continue
                pause = self._pause(leased)
            except Exception:
                # A full disk or a locked file passes; the jobs are still there, so this thread must be too.
                _log.exception("worker_step_failed", thread=threading.current_thread().name)
                pause = self._poll_seconds
            woken.wait(pause)
            woken.clear()

    def _pause(self, leased: bool) -> float:
        due = self._billing.next_due(leased=leased)
        if due is None:
            return self._poll_seconds
        return min(self._poll_seconds, max(0.0, (due - self._billing.clock.now()).total_seconds()))
