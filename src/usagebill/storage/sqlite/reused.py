"""Databases in memory that are opened by the hundred, one after another, and reuse one connection."""

from __future__ import annotations

import sqlite3
from collections import deque
from functools import cache

from usagebill.storage.sqlite.engine import SqliteStore

_MOST_IDLE = 4
# Connections to databases without rows, each in an open transaction.
_idle: deque[sqlite3.Connection] = deque()


@cache
def _closed() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.close()
    return connection


class ReusedMemory(SqliteStore):
    """A database in memory that begins empty, with the tables and compiled statements of an earlier one.

    SQLite parses the schema and compiles each statement once per connection: 3 ms to open it, and up to 1 ms for the
    first write of each kind of record. So all writes are savepoints in one transaction, which `close` rolls back before
    it passes the connection on. An error that ends the transaction (out of memory) loses the database: every later call
    raises.
    """

    def __init__(self) -> None:
        super().__init__(":memory:")

    def _connect(self) -> sqlite3.Connection:
        try:
            return _idle.popleft()
        except IndexError:
            return super()._connect()

    def _fill(self) -> None:
        if not self._writer.in_transaction:
            super()._fill()
            self._writer.execute("BEGIN")

    def _begin_read(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            raise sqlite3.OperationalError("the database in memory was lost with its transaction")
        connection.execute("SAVEPOINT change")

    def _begin_write(self) -> bool:
        self._begin_read(self._writer)
        return False

    def _keep(self) -> None:
        self._writer.execute("RELEASE change")

    def _undo(self, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")

    def close(self) -> None:
        with self._turn:
            connection, self._writer = self._writer, _closed()
        if connection is _closed():
            return
        if not connection.in_transaction or len(_idle) >= _MOST_IDLE:
            connection.close()
            return
        layout = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute("ROLLBACK")
        connection.set_trace_callback(None)
        connection.set_progress_handler(None, 0)
        if connection.execute("PRAGMA schema_version").fetchone() != layout:
            connection.close()
            return
        connection.execute("BEGIN")
        _idle.append(connection)
