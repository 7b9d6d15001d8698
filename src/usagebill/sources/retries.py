"""What a consumer does while its broker or its database is away: it says so, and tries again, less and less often."""

from __future__ import annotations

from time import monotonic
from typing import Final

from usagebill.billing import Billing
from usagebill.core.processes import ProcessKind
from usagebill.process.logs import Log

_FIRST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 60.0
_log = Log("usagebill.sources")


class Retries:
    """The attempts of one consumer of `source`.

    If it `lasts`, its process is registered in the database as a consumer, with what waits in the source and why it
    fails: `usagebill status` and `/metrics` have it.
    """

    def __init__(self, billing: Billing, source: str, *, lasts: bool) -> None:
        self._billing = billing
        self._source = source
        self._pause = _FIRST_SECONDS
        self._began: float | None = None
        self._waits = False
        self._lasts = lasts
        if lasts:
            billing._system.presence.say(consumes=source)
            billing._system.presence.begin(ProcessKind.CONSUMER)

    def failed(self, problem: BaseException) -> float:
        """Log a failure; returns the seconds to wait before the next attempt."""
        if self._began is None:
            self._began = monotonic()
        pause, self._pause = self._pause, min(2 * self._pause, _MOST_SECONDS)
        reason = f"{type(problem).__name__}: {problem}".strip().removesuffix(":")
        _log.error("source_failing", source=self._source, reason=reason, retried_after_seconds=pause)
        self._say(failing=reason)
        return pause

    def worked(self, waiting: int | None = None) -> None:
        """Note that it works, with so many messages left in the source (None: unknown); log it if it had failed."""
        if self._began is not None:
            _log.info("source_works_again", source=self._source, seconds=round(monotonic() - self._began, 1))
            self._began, self._pause = None, _FIRST_SECONDS
            self._say(failing=None)
        presence, waits = self._billing._system.presence, bool(waiting)
        if waits != self._waits:
            self._waits = waits
            presence.say(waits_since=self._billing.clock.now() if waits else None)
        presence.say(waiting=waiting)

    def _say(self, **changes: object) -> None:
        """Say it now, and not in some seconds."""
        self._billing._system.presence.say(**changes)
        if self._lasts:
            self._billing._system.presence.note()
