"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# Before any try: seconds that double each time, and of which a random part is waited.
_FIRST, _LONGEST = 0.25, 8.0
# Answers that are worth another try, of the service or of what stands before it. A 503 is a 503 for a reason that
# passes; other 5xx come back.
_TEMPORARY: Final = frozenset({429, 502, 503, 504})
# The only temporary refusal after which a change may have been made.
UNKNOWN: Final = "outcome_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Up to `attempts` tries of a request. The service says with `Retry-After` when to come back: if that is later than
    `longest_wait` seconds, its refusal is raised at once.
    """

    attempts: int = 4
    longest_wait: float = 60.0

    def pause_after_answer(self, tried: int, status: int, headers: Mapping[str, str]) -> float | None:
        """The seconds to wait before the next try after an answer; None if it stands."""
        if status not in _TEMPORARY or tried >= self.attempts:
            return None
        asked = headers.get("retry-after", "")
        if not asked.isdecimal():
            return self._pause(tried)
        # Others wait as long: they should not all come back in one moment.
        seconds = float(asked) + random.uniform(0, _FIRST)
        return seconds if seconds <= self.longest_wait else None

    def pause_after_failure(self, tried: int) -> float | None:
        """The seconds to wait before the next try after no answer; None if there is none."""
        return None if tried >= self.attempts else self._pause(tried)

    def _pause(self, tried: int) -> float:
        most = min(_LONGEST, _FIRST * 2 ** (tried - 1))
        return random.uniform(most / 2, most)
