"""An application's outbox: its events are stored, then removed there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from usagebill.billing import Billing
from usagebill.core.errors import DatabaseFailed
from usagebill.outbox import Outbox
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.payloads import arrival_of
from usagebill.sources.retries import Retries

T = TypeVar("T")
_BATCH: Final = 500


class OutboxFailed(OSError):
    """The application's database is away, or has no such table."""


def _reason(problem: Exception) -> str:
    """The driver's words, without what SQLAlchemy adds of the statement."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]


class OutboxDrain:
    """Takes the events of an outbox into usagebill, each once, whenever it dies: they are removed from the outbox after
    they are durable, and one that is met again is known by its transaction id.

    `connect` gives a new connection to the application's database: `engine.connect` of SQLAlchemy, or a function that
    calls `connect` of a driver. As a context manager it drains in a thread, every so many seconds. Events that cannot
    be stored leave the outbox too, and are listed (`usagebill events refused`).
    """

    def __init__(
        self, billing: Billing, connect: Callable[[], Any], outbox: Outbox | None = None, *, every: float = 1.0
    ) -> None:
        self._billing = billing
        self._connect = connect
        self._outbox = outbox or Outbox()
        self._every = every
        self.source = f"outbox:{self._outbox.table}"
        self._intake = Intake(billing, self.source)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_draining, name="usagebill-outbox", daemon=True)

    def drain(self) -> Outcome:
        """Take what is in the outbox now. Raises `OutboxFailed`, or `DatabaseFailed`, and leaves there what it did not
        take.
        """
        total = Outcome()
        while True:
            outcome, count = self._batch()
            total.add(outcome)
            if count < _BATCH:
                return total

    def waiting(self) -> int:
        """The number of events in the outbox. Raises `OutboxFailed`."""
        connection = self._opened()
        try:
            return self._run(lambda: self._outbox.count(connection))
        finally:
            connection.close()

    def _batch(self) -> tuple[Outcome, int]:
        """Take the first events, and say how many there were."""
        connection = self._opened()
        try:
            rows = self._run(lambda: self._outbox.oldest(connection, _BATCH))
            # What is removed below is what was read here, whatever is added meanwhile; the database need not wait.
            self._run(connection.rollback)
            if not rows:
                return Outcome(), 0
            noted = self._intake.noted()
            first = 0 if noted is None else noted.position
            arrivals = [arrival_of(first + number, text.encode()) for number, (_, text) in enumerate(rows)]
            outcome = self._intake.take(arrivals, position=first + len(rows))
            self._run(lambda: self._outbox.remove(connection, [id for id, _ in rows]))
            self._run(connection.commit)
        finally:
            connection.close()
        return outcome, len(rows)

    def _opened(self) -> Any:
        try:
            return self._connect()
        except Exception as problem:
            raise OutboxFailed(f"the application's database cannot be opened: {_reason(problem)}") from problem

    def _run(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except Exception as problem:
            raise OutboxFailed(f"{self._outbox.table}: {_reason(problem)}") from problem

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop after the current batch; what is left is taken after the next start."""
        self._stopping.set()
        self._thread.join()

    def _keep_draining(self) -> None:
        retries = Retries(self._billing, self.source, lasts=False)
        while True:
            pause = self._every
            try:
                self.drain()
            except (DatabaseFailed, OutboxFailed) as problem:
                pause = max(pause, retries.failed(problem))
            else:
                retries.worked()
            if self._stopping.wait(pause):
                return
