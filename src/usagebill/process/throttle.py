"""A throttle: what could be logged again and again is logged once in a while."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from threading import Lock


class Throttle:
    """Lets each name pass once per `every`.

    It remembers the `most` names that were last asked about, so callers who invent names do not fill the memory; one
    that is forgotten passes again.
    """

    def __init__(self, every: timedelta, most: int = 1000) -> None:
        self._every = every
        self._most = most
        # By the hash of the name, which may be as long as a request.
        self._passed_at: dict[int, datetime] = {}
        self._lock = Lock()

    def passes(self, name: Hashable, now: datetime) -> bool:
        """Whether the name passes at `now`."""
        with self._lock:
            passed_at = self._passed_at.pop(hash(name), None)
            is_new = passed_at is None or now - passed_at >= self._every
            self._passed_at[hash(name)] = now if passed_at is None or is_new else passed_at
            if len(self._passed_at) > self._most:
                del self._passed_at[next(iter(self._passed_at))]
        return is_new
