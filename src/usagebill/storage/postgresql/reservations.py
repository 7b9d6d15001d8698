"""Reservations of jobs, so that no two processes compute the same ones ahead.

They are advisory locks of a separate session, and end with it. A job is still claimed under its organization's lock,
whoever reserved it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import psycopg

from usagebill.core.jobs import Job
from usagebill.storage.postgresql.locks import lock_key

# Locks are tried in this order until there are enough.
_TAKE = (
    b"SELECT place FROM unnest(%s::bigint[]) WITH ORDINALITY AS k (key, place) WHERE pg_try_advisory_lock(key) LIMIT %s"
)


class Reservations:
    """The jobs that a process has reserved."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._guard = threading.Lock()
        self._session: psycopg.Connection[tuple[Any, ...]] | None = None

    def taken(self, jobs: Sequence[Job], at_most: int) -> list[Job] | None:
        """Reserve the first jobs that no other process has, and release earlier reservations; None if the server is
        unreachable.
        """
        keys = [lock_key(f"job {job.id}") for job in jobs]
        with self._guard:
            try:
                session = self._opened()
                with session.pipeline():
                    session.execute(b"SELECT pg_advisory_unlock_all()")
                    rows = session.execute(_TAKE, (keys, at_most))
                    return [jobs[place - 1] for (place,) in rows.fetchall()]
            except psycopg.OperationalError:
                # Without a reservation, a computation may be wasted, but nothing else.
                self._close()
                return None

    def _opened(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._session is None or self._session.closed:
            self._session = psycopg.connect(
                self._url, autocommit=True, application_name="usagebill", prepare_threshold=2
            )
        return self._session

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        """Release all reservations. The server ends a session only some time after it is closed, so they are first
        released by name.
        """
        with self._guard:
            if self._session is not None and not self._session.closed:
                with contextlib.suppress(psycopg.OperationalError):
                    self._session.execute(b"SELECT pg_advisory_unlock_all()")
            self._close()
