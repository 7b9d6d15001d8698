"""Connections of a process to the server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import generators
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

Driver = psycopg.Connection[tuple[Any, ...]]

# How many seconds a thread waits for a connection.
_WAIT_SECONDS = 60.0
# Most connections whose transaction is being rolled back.
_MOST_RESTING = 4


class Pool:
    """A pool of connections, in which those of reads rest until the server has rolled their transaction back: nobody
    waits for that. A connection in use belongs to one thread.
    """

    def __init__(self, url: str, most: int, configure: Callable[[Driver], None]) -> None:
        self._pool: ConnectionPool[Driver] = ConnectionPool(
            url,
            min_size=0,
            max_size=most,
            timeout=_WAIT_SECONDS,
            kwargs={"autocommit": True, "application_name": "usagebill", "prepare_threshold": 2},
            configure=configure,
            open=False,
        )
        self._guard = threading.Lock()
        self._resting: deque[Driver] = deque()
        # Threads that wait for a connection, to which none may be withheld.
        self._awaiting = 0

    def open(self) -> None:
        self._pool.open()

    def take(self) -> Driver:
        """A connection without a transaction. Its server may have closed it."""
        while True:
            with self._guard:
                driver = self._resting.pop() if self._resting else None
                self._awaiting += driver is None
            if driver is None:
                try:
                    return self._pool.getconn()
                finally:
                    with self._guard:
                        self._awaiting -= 1
            if _is_rolled_back(driver):
                return driver
            self.give_back(driver)

    def give_back(self, driver: Driver) -> None:
        """Return a connection, whose transaction has ended; one that is closed is replaced."""
        self._pool.putconn(driver)

    def rest(self, driver: Driver) -> None:
        """Return a connection after a read, whose transaction is rolled back."""
        session = driver.pgconn
        if session.transaction_status == TransactionStatus.UNKNOWN:
            self.give_back(driver)
            return
        is_open = session.transaction_status != TransactionStatus.IDLE
        with self._guard:
            rests = not self._awaiting and len(self._resting) < _MOST_RESTING and not self._pool.closed
            if rests:
                if is_open:
                    session.send_query(b"ROLLBACK")
                    session.flush()
                self._resting.append(driver)
        if not rests:
            if is_open:
                roll_back(driver)
            self.give_back(driver)

    def refresh(self) -> None:
        """Replace idle connections that the server has closed."""
        self._wake()
        self._pool.check()

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        self._wake()

    def _wake(self) -> None:
        with self._guard:
            resting, self._resting = self._resting, deque()
        for driver in resting:
            _is_rolled_back(driver)
            self.give_back(driver)


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
    """Whether a resting connection can be used, once the server has answered; otherwise it is closed."""
    with suppress(psycopg.OperationalError):
        driver.wait(generators.execute(driver.pgconn))
    if driver.pgconn.transaction_status == TransactionStatus.IDLE:
        return True
    driver.close()
    return False
