"""Rolling back one of several writes that share a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def _latest_event(connection: sqlite3.Connection) -> int:
    """The sequence number of the last event stored, of any organization."""
    return int(connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0])


class TransactionLost(BaseException):
    """The engine rolled back the whole transaction because of `cause`, such as a full disk.

    Not an `Exception`: code that continues after errors must not run further statements, each its own transaction.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class UndoneAlone:
    """The connection of one of several writes in a transaction: `run` can undo this write alone.

    A savepoint costs a copy of every page that is changed, so it is only set before the first write of anything but
    events. Events are only ever appended, and can be deleted again.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_saved = False
        self._last_event: int | None = None

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not self._is_saved and not sql.startswith("SELECT "):
            self._save()
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        if not self._is_saved:
            if not sql.startswith("INSERT INTO events "):
                self._save()
            elif self._last_event is None:
                self._last_event = _latest_event(self._connection)
        return self._connection.executemany(sql, rows)

    def _save(self) -> None:
        self._connection.execute("SAVEPOINT alone")
        self._is_saved = True

    def run(self, change: Callable[[], T]) -> T:
        """Run `change`, which writes over this connection; if it raises, only its effects are undone."""
        try:
            result = change()
        except BaseException as problem:
            if not self._connection.in_transaction:
                raise problem if isinstance(problem, TransactionLost) else TransactionLost(problem) from problem
            if self._is_saved:
                self._connection.execute("ROLLBACK TO alone")
                self._connection.execute("RELEASE alone")
            if self._last_event is not None:
                # Later events belong to this write: no other has written since.
                self._connection.execute("DELETE FROM events WHERE sequence > ?", (self._last_event,))
            raise
        if self._is_saved:
            self._connection.execute("RELEASE alone")
        return result
