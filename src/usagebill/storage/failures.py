"""What the drivers' errors say about the database itself, in the words of every engine, and whether it works now."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from usagebill.core.errors import DatabaseFailed, DatabaseMoved, DatabaseUnavailable, SchemaIsNewer, StorageFull
from usagebill.process.logs import Log

_SQLITE_UNAVAILABLE: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
# Classes of SQLSTATE: connection exception, insufficient resources, operator intervention, system error. And what a
# server says that has become read-only, such as a standby after a failover.
_POSTGRESQL_UNAVAILABLE: Final = ("08", "53", "57", "58", "25006")
_POSTGRESQL_FULL: Final = "53100"
# A statement that was cancelled says nothing about the server.
_POSTGRESQL_CANCELLED: Final = "57014"
# For how long a full disk is expected to be full still.
_FULL_SECONDS: Final = 30.0
_log = Log("usagebill.storage")


def failure_of(problem: BaseException) -> DatabaseFailed | None:
    """What an error says about the database; None if it is about the statement, or not from a database."""
    if isinstance(problem, DatabaseFailed):
        return problem
    if isinstance(problem, sqlite3.Error):
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return StorageFull(_text(problem))
        return DatabaseUnavailable(_text(problem)) if code in _SQLITE_UNAVAILABLE else None
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(problem, psycopg.Error):
        return None
    state = problem.sqlstate
    if state == _POSTGRESQL_FULL:
        return StorageFull(_text(problem))
    # Without a state it is the connection's: refused, closed, or not answered in time.
    is_gone = state is None and isinstance(problem, psycopg.OperationalError)
    is_unable = state is not None and state.startswith(_POSTGRESQL_UNAVAILABLE) and state != _POSTGRESQL_CANCELLED
    return DatabaseUnavailable(_text(problem)) if is_gone or is_unable else None


def _text(problem: BaseException) -> str:
    lines = str(problem).split("\n")
    return lines[0].strip()


def _events(failure: DatabaseFailed) -> tuple[str, str]:
    """The lines of the log when a failure begins, and when it has ended."""
    match failure:
        case StorageFull():
            return "storage_full", "storage_has_room_again"
        case SchemaIsNewer():
            return "schema_is_newer", "schema_is_known_again"
        case DatabaseMoved():
            return "database_moved", "database_taken_back"
        case _:
            return "database_unreachable", "database_reachable_again"


class Reachability:
    """Whether a database answers, as far as this process knows, and one log line whenever that changes."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._failure: DatabaseFailed | None = None
        self._began = self._latest = self._worked_at = 0.0

    @property
    def database(self) -> str:
        """Where the database is, without user and password."""
        return self._database

    @property
    def failure(self) -> DatabaseFailed | None:
        """What failed last; None if the database has worked since. A disk may have room again after half a minute."""
        failure = self._failure
        return None if isinstance(failure, StorageFull) and self._may_have_room() else failure

    def _may_have_room(self) -> bool:
        """Whether nothing has failed for a while: a full disk still stores what fits into the pages that are there."""
        return monotonic() - self._latest > _FULL_SECONDS

    def failed(self, failure: DatabaseFailed, began: float) -> None:
        """Note that something failed which began at this instant of the monotonic clock."""
        with self._guard:
            if began < self._worked_at:
                # Then the database has answered since.
                return
            before, self._failure, self._latest = self._failure, failure, monotonic()
            if before is not None and _events(before) == _events(failure):
                return
            self._began = self._latest
        event, _ = _events(failure)
        _log.error(event, database=self._database, reason=failure.reason)

    def worked(self, *, wrote: bool) -> None:
        """Note that the database has answered, or stored something, which a full one hardly can."""
        if self._failure is None:
            return
        with self._guard:
            failure = self._failure
            if failure is None or (isinstance(failure, StorageFull) and not (wrote and self._may_have_room())):
                return
            self._failure, self._worked_at = None, monotonic()
            seconds = round(monotonic() - self._began, 1)
        _, event = _events(failure)
        _log.info(event, database=self._database, seconds=seconds)

    @contextmanager
    def told(self, *, writes: bool) -> Iterator[None]:
        """What is done inside uses the database. Its errors are raised as what they say about it (`failure_of`)."""
        began = monotonic()
        try:
            yield
        except Exception as problem:
            failure = failure_of(problem)
            if failure is None:
                raise
            self.failed(failure, began)
            if failure is problem:
                raise
            raise failure from problem
        self.worked(wrote=writes)
