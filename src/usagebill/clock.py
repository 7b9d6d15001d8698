"""The clock: the only thing that knows what time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Where the time of day comes from."""

    def now(self) -> datetime:
        """The present instant, in UTC."""


class SystemClock:
    """The time of day of this machine."""

    def now(self) -> datetime:
        """The machine's time, in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        """The instant that was set last."""
        return self._now

    def set(self, now: datetime) -> None:
        """From now on it is `instant`."""
        self._now = now
