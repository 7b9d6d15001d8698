"""Connections of a process to the server."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import generators
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from usagebill.core.errors import DatabaseUnavailable
from usagebill.storage.ports import Connections

Driver = psycopg.Connection[tuple[Any, ...]]

# How many seconds a thread waits for a connection while others use them all.
_WAIT_SECONDS = 60.0
# For how long nobody else tries to connect after one could not, so that each is refused at once.
_AWAY_SECONDS = 1.0
# After how long an idle connection is closed.
_IDLE_SECONDS = 600.0
# How long a look at the server waits for an answer, and a thread for a new connection.
_ANSWER_SECONDS = 3
# The limits on the silence of a server that does not even close its connections, unless the URL has its own.
_SILENCE: Mapping[str, int] = {
    "connect_timeout": _ANSWER_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


class Pool:
    """At most `most` connections, opened when they are needed, each of which belongs to one thread while it is in use.

    Those of reads come back before the server has rolled their transaction back: nobody waits for that. If the server
    cannot be reached, every thread is told so at once: `take` raises `psycopg.OperationalError`, or
    `DatabaseUnavailable` if another thread has just found out.
    """

    def __init__(self, url: str, most: int, configure: Callable[[Driver], None], look: str) -> None:
        self._url = make_conninfo(
            url, **{name: seconds for name, seconds in _SILENCE.items() if name not in conninfo_to_dict(url)}
        )
        self._most = most
        self._configure = configure
        self._look = look.encode()
        self._changed = threading.Condition()
        # With the instants since when they are idle; the last one is used first.
        self._idle: deque[tuple[float, Driver]] = deque()
        self._used: set[Driver] = set()
        # Connections that are open, or being opened.
        self._count = 0
        self._waiting = 0
        self._away: tuple[float, str] | None = None
        # When the server last gave a sign of life.
        self._seen_at = 0.0
        self._closed = False
        self._looking: Driver | None = None

    def take(self) -> Driver:
        """A connection without a transaction. Its server may have closed it."""
        while (driver := self._next()) is not None:
            if _is_rolled_back(driver):
                return driver
            self.give_back(driver)
        return self._connect()

    def _next(self) -> Driver | None:
        """An idle connection, or None where a new one may be opened."""
        with self._changed:
            self._waiting += 1
            try:
                may_go_on = self._changed.wait_for(self._may_go_on, _WAIT_SECONDS)
            finally:
                self._waiting -= 1
            if not may_go_on:
                raise DatabaseUnavailable(f"all {self._most} connections are in use")
            if self._closed:
                raise DatabaseUnavailable("the database was closed")
            if self._idle:
                driver = self._idle.pop()[1]
                self._used.add(driver)
                return driver
            if self._is_away():
                assert self._away is not None
                raise DatabaseUnavailable(self._away[1])
            self._count += 1
            return None

    def _may_go_on(self) -> bool:
        return bool(self._idle) or self._count < self._most or self._is_away() or self._closed

    def _is_away(self) -> bool:
        return self._away is not None and monotonic() < self._away[0]

    def _connect(self) -> Driver:
        began = monotonic()
        try:
            driver = self._opened()
            self._configure(driver)
        except BaseException as problem:
            with self._changed:
                self._count -= 1
                # Unless it has been seen since.
                if isinstance(problem, psycopg.OperationalError) and began > self._seen_at:
                    self._away = monotonic() + _AWAY_SECONDS, str(problem)
                self._changed.notify_all()
            raise
        self._seen()
        with self._changed:
            self._used.add(driver)
        return driver

    def _seen(self) -> None:
        with self._changed:
            self._away, self._seen_at = None, monotonic()

    def _opened(self) -> Driver:
        return psycopg.connect(self._url, autocommit=True, application_name="usagebill", prepare_threshold=2)

    def give_back(self, driver: Driver) -> None:
        """Return a connection, whose transaction has ended; one that is closed, or in a transaction, is replaced."""
        self._return(driver, is_usable=driver.pgconn.transaction_status == TransactionStatus.IDLE)

    def rest(self, driver: Driver) -> None:
        """Return a connection after a read, whose transaction is rolled back."""
        session = driver.pgconn
        is_usable = session.transaction_status != TransactionStatus.UNKNOWN
        if is_usable and session.transaction_status != TransactionStatus.IDLE:
            try:
                session.send_query(b"ROLLBACK")
                session.flush()
            except psycopg.OperationalError:
                is_usable = False
        self._return(driver, is_usable=is_usable)

    def _return(self, driver: Driver, *, is_usable: bool) -> None:
        now = monotonic()
        unused: list[Driver] = []
        with self._changed:
            self._used.discard(driver)
            if is_usable and not self._closed:
                self._idle.append((now, driver))
            else:
                unused.append(driver)
            while self._idle and now - self._idle[0][0] > _IDLE_SECONDS:
                unused.append(self._idle.popleft()[1])
            self._count -= len(unused)
            self._changed.notify()
        _close(unused)

    def refresh(self) -> None:
        """Close the idle connections: the server has closed one, so they are as stale."""
        with self._changed:
            idle = [driver for _, driver in self._idle]
            self._idle.clear()
            self._count -= len(idle)
            self._changed.notify_all()
        _close(idle)

    def look(self) -> tuple[Any, ...] | None:
        """Ask the server for a sign of life, on a connection that nobody else uses; for one thread at a time. Returns
        its answer to the statement `look`.

        Raises `DatabaseUnavailable` if there is none. Then threads that wait for its answers wait no longer.
        """
        for _ in range(2):
            try:
                if self._looking is None:
                    self._looking = self._opened()
                if (results := _answers(self._looking, self._look)) is not None:
                    self._seen()
                    return _row(results)
                reason = f"the database has not answered for {_ANSWER_SECONDS} seconds"
            except psycopg.OperationalError as problem:
                reason = str(problem)
            if self._looking is not None:
                self._looking.close()
                self._looking = None
        with self._changed:
            self._away = monotonic() + _AWAY_SECONDS, reason
            self._changed.notify_all()
            used = tuple(self._used)
        for driver in used:
            _interrupt(driver)
        self.refresh()
        raise DatabaseUnavailable(reason.split("\n")[0])

    def use(self) -> Connections:
        """How many connections are in use, idle, and waited for."""
        with self._changed:
            return Connections(used=len(self._used), idle=len(self._idle), most=self._most, waiting=self._waiting)

    def close(self) -> None:
        """Close every connection; those in use once they are returned."""
        with self._changed:
            self._closed = True
        self.refresh()
        if self._looking is not None:
            self._looking.close()


def roll_back(driver: Driver) -> None:
    """End the connection's transaction without its changes, if the server has not closed it."""
    _run(driver, b"ROLLBACK")


def roll_back_to(driver: Driver, savepoint: str) -> None:
    """Undo what the transaction did since the savepoint, if the server has not closed the connection."""
    _run(driver, f"ROLLBACK TO {savepoint}".encode())


def _run(driver: Driver, rollback: bytes) -> None:
    # After a rollback of its own, the driver would drop all prepared statements.
    if not driver.closed:
        driver.pgconn.send_query(rollback)
        driver.wait(generators.execute(driver.pgconn))


def _is_rolled_back(driver: Driver) -> bool:
    """Whether an idle connection can be used, once the server has answered."""
    if driver.pgconn.transaction_status != TransactionStatus.IDLE:
        with suppress(psycopg.OperationalError):
            driver.wait(generators.execute(driver.pgconn))
    return driver.pgconn.transaction_status == TransactionStatus.IDLE


def _answers(driver: Driver, statement: bytes) -> list[PGresult] | None:
    """What the server answers within the time; None if it does not."""
    session = driver.pgconn
    session.send_query(statement)
    session.flush()
    until = monotonic() + _ANSWER_SECONDS
    while session.is_busy():
        if not select.select([session.socket], [], [], max(0.0, until - monotonic()))[0]:
            return None
        session.consume_input()
    results: list[PGresult] = []
    while (result := session.get_result()) is not None:
        results.append(result)
    return results if session.status == ConnStatus.OK else None


def _row(results: Sequence[PGresult]) -> tuple[Any, ...] | None:
    """The first row of texts; None if there is none, as after an error."""
    first = results[0] if results else None
    if first is None or not first.ntuples:
        return None
    return tuple((first.get_value(0, column) or b"").decode() for column in range(first.nfields))


def _interrupt(driver: Driver) -> None:
    """End the wait of another thread for an answer on this connection, which can then no longer be used."""
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(driver.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)


def _close(drivers: list[Driver]) -> None:
    for driver in drivers:
        driver.close()
