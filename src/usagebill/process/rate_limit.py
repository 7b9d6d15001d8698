"""A limit on the requests of a caller in a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from threading import Lock

_WINDOW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a key after a request: `remaining` below zero means that this one was too many."""

    limit: int
    remaining: int
    resets_in: timedelta

    @property
    def headers(self) -> Mapping[str, str]:
        """The rate limit headers, as integers; the last is the seconds until the client may retry."""
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(max(0, self.remaining)),
            "x-ratelimit-reset": str(ceil(self.resets_in.total_seconds())),
        }


class RateLimit:
    """Counts the requests of each caller in windows of a minute; a window opens with the first request.

    The counts live in this process only.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._windows: dict[str, tuple[datetime, int]] = {}
        self._lock = Lock()

    def count(self, key_id: str, now: datetime) -> Standing:
        """Count a request of this key at `now`."""
        with self._lock:
            # The windows are in the order they were opened.
            while self._windows and not _is_open(next(iter(self._windows.values()))[0], now):
                del self._windows[next(iter(self._windows))]
            opened, made = self._windows.get(key_id, (now, 0))
            if not _is_open(opened, now):
                del self._windows[key_id]
                opened, made = now, 0
            self._windows[key_id] = (opened, made + 1)
        return Standing(limit=self._per_minute, remaining=self._per_minute - made - 1, resets_in=opened + _WINDOW - now)


def _is_open(opened: datetime, now: datetime) -> bool:
    return opened <= now < opened + _WINDOW
