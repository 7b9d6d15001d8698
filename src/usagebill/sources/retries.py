"""What a consumer does while its broker or its database is away: it says so, and tries again, less and less often."""

from __future__ import annotations

from time import monotonic
from typing import Final

from usagebill.process.logs import Log

_FIRST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 60.0
_log = Log("usagebill.sources")


class Retries:
    """The attempts of one consumer."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._pause = _FIRST_SECONDS
        self._began: float | None = None

    def failed(self, problem: BaseException) -> float:
        """Log a failure; returns the seconds to wait before the next attempt."""
        if self._began is None:
            self._began = monotonic()
        pause, self._pause = self._pause, min(2 * self._pause, _MOST_SECONDS)
        reason = f"{type(problem).__name__}: {problem}".strip().removesuffix(":")
        _log.error("source_failing", source=self._source, reason=reason, retried_after_seconds=pause)
        return pause

    def worked(self) -> None:
        """Log that it works again, if it had failed."""
        if self._began is not None:
            _log.info("source_works_again", source=self._source, seconds=round(monotonic() - self._began, 1))
            self._began, self._pause = None, _FIRST_SECONDS
