"""The clock, the only source of time, and the watch over the machine's clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Protocol

from usagebill.core.errors import ClockRefused, Invalid
from usagebill.core.instants import MICROSECOND
from usagebill.process.logs import Log
from usagebill.storage.ports import Store, Transaction

# Time synchronisation moves a clock by less.
_TOLERANCE = timedelta(minutes=5)
# How much newer the time must be before it is recorded: by a transaction that writes anyway, and by an idle worker.
_NOTED_EVERY = timedelta(minutes=1)
_KEPT_EVERY = timedelta(hours=1)
_TOLD_EVERY_SECONDS = 60.0
_MOST_MOVED = timedelta(days=2 * 366)
_log = Log("usagebill.clock")


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime:
        """The present instant, in UTC."""


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The machine's time, in UTC."""
        return datetime.now(UTC)


class ServerClock(SystemClock):
    """The time of the database server, which all machines that use it share.

    With several clocks, an event could be stamped before the end of a period that another machine has already billed.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def now(self) -> datetime:
        """The server's time, in UTC."""
        return self._now()


class ManualClock:
    """A clock that only moves when it is set, and by a microsecond when usage has been billed, or a charge in advance
    added or removed.

    So nothing that is received after either has its instant, as on a clock that runs.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.last_set = now

    def now(self) -> datetime:
        """The instant last set, and a microsecond more for each bill or change of charges since."""
        return self._now

    def tick(self) -> None:
        """Move the clock by a microsecond."""
        self._now += MICROSECOND

    def set(self, now: datetime) -> None:
        """Set the clock to `instant`."""
        self._now = self.last_set = now


class MovedByHand(Protocol):
    """A system whose time stands still until it is moved."""

    @property
    def now(self) -> datetime:
        """The present instant, in UTC."""

    def travel_to(self, now: datetime) -> None:
        """Move the time on, and do what falls due on the way, each as of its own instant. ValueError for the past."""


def move(sandbox: MovedByHand, to: datetime | None) -> None:
    """Move the time of a sandbox. Raises `Invalid` without an instant, for the past, and for more than two years at
    once.
    """
    if to is None:
        raise Invalid(now="invalid_date")
    if to < sandbox.now:
        raise Invalid(now="cannot_be_in_past")
    if to - sandbox.now > _MOST_MOVED:
        raise Invalid(now="value_is_out_of_range")
    sandbox.travel_to(to)


class ClockWatch:
    """Compares the machine's clock with the newest instant in the file before anything is billed.

    A clock that is more than five minutes behind, or more than `most_ahead` ahead, is refused for due jobs and for
    every write (which may bill a customer's backlog) until it is right again or an operator confirms it: a mistyped
    year would bill all of that year at once. Only the machine's clock is watched.
    """

    def __init__(self, store: Store, clock: Clock, most_ahead: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._most_ahead = most_ahead
        self._is_watched = isinstance(clock, SystemClock)
        self._newest: datetime | None = None
        self._told_at = -_TOLD_EVERY_SECONDS

    def newest(self) -> datetime | None:
        """The newest instant recorded in the file; None if there is none."""
        self._newest = self._store.read(None, lambda tx: tx.newest_instant())
        return self._newest

    def problem(self) -> ClockRefused | None:
        """The problem with the clock now; logged once a minute."""
        if not self._is_watched:
            return None
        disagreement = self._disagreement()
        # Another process may have recorded a newer instant, or an operator confirmed the clock.
        if disagreement is not None or self._newest is None:
            self.newest()
            disagreement = self._disagreement()
        if disagreement is not None and monotonic() - self._told_at >= _TOLD_EVERY_SECONDS:
            self._told_at = monotonic()
            _log.error(disagreement.code, reason=str(disagreement))
        return disagreement

    def _disagreement(self) -> ClockRefused | None:
        now, newest = self._clock.now(), self._newest
        if newest is None or newest - _TOLERANCE <= now <= newest + self._most_ahead:
            return None
        code, where = ("clock_is_behind", "behind") if now < newest else ("clock_is_ahead", "ahead of")
        text = (
            f"the clock shows {now.isoformat(timespec='seconds')}, {abs(now - newest)} {where} the newest instant in"
            f" the database ({newest.isoformat(timespec='seconds')}). Nothing is billed by it: put it right, or"
            " confirm it with `usagebill clock --confirm`"
        )
        return ClockRefused(code, text)

    def check(self) -> None:
        """Raises `ClockRefused` if the clock disagrees with the file."""
        problem = self.problem()
        if problem is not None:
            raise problem

    def note(self, tx: Transaction, now: datetime) -> None:
        """Record the time every minute, in a transaction that writes anyway."""
        if self._is_due(_NOTED_EVERY, now) and self._disagreement() is None:
            tx.note_instant(now)
            self._newest = now

    def keep(self) -> None:
        """Record the time every hour even if nothing else is written, so that an idle process does not look switched
        off.
        """
        now = self._clock.now()
        if self._is_due(_KEPT_EVERY, now) and self.problem() is None:
            self._store.write(None, lambda tx: tx.note_instant(now))
            self._newest = now

    def confirm(self) -> None:
        """Confirm the clock: its time becomes the newest instant of the file."""
        now = self._clock.now()
        self._store.write(None, lambda tx: tx.note_instant(now, even_if_earlier=True))
        self._newest = now

    def _is_due(self, every: timedelta, now: datetime) -> bool:
        return self._is_watched and (self._newest is None or now - self._newest >= every)
