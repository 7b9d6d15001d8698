"""Whether this process can answer requests: what `/ready` says, from memory.

A thread of its own asks the database for a sign of life, so that the question never waits behind requests.
"""

from __future__ import annotations

import threading
import weakref
from time import monotonic
from typing import Final

from usagebill.core.errors import DatabaseFailed, DatabaseUnavailable
from usagebill.process.logs import Log, plain_traceback
from usagebill.storage.ports import Store

_EVERY_SECONDS: Final = 1.0
# How long one look may take before the database counts as silent.
_SILENT_SECONDS: Final = 5.0
# How long the first question waits for the first look.
_FIRST_SECONDS: Final = 3.0
_log = Log("usagebill.http")


class DatabaseWatch:
    """Looks at a database once a second, from the first question on, for as long as the watch is in use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looked = threading.Event()
        self._began = monotonic()
        self._problem: str | None = None

    def start(self) -> None:
        """Begin to look; again has no effect."""
        with self._guard:
            if self._thread is None:
                self._began = monotonic()
                self._thread = threading.Thread(
                    target=_keep_looking, args=(weakref.ref(self),), name="usagebill-readiness", daemon=True
                )
                self._thread.start()

    def problem(self) -> str | None:
        """Why requests would be refused now, as the code of their error; None if they are answered."""
        self.start()
        if not self._looked.wait(_FIRST_SECONDS) or monotonic() - self._began > _EVERY_SECONDS + _SILENT_SECONDS:
            return DatabaseUnavailable("").code
        return self._problem

    def look(self) -> None:
        """Look once."""
        self._began = monotonic()
        try:
            self._store.look()
            failure = self._store.reachability.failure
            self._problem = None if failure is None else failure.code
        except DatabaseFailed as failure:
            self._problem = failure.code
        except Exception as problem:
            if self._problem is None:
                _log.error("database_not_seen", exception=plain_traceback(problem))
            self._problem = DatabaseUnavailable("").code
        self._looked.set()


def _keep_looking(watch: weakref.ref[DatabaseWatch]) -> None:
    rest = threading.Event()
    while (seen := watch()) is not None:
        seen.look()
        # Or it would be kept in use.
        del seen
        rest.wait(_EVERY_SECONDS)
