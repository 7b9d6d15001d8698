"""Buffered writes: those of a batch of billing runs are sent to the server many rows at a time.

The buffer is sent before the transaction's next statement, so buffering is invisible; savepoints are buffered too,
until something happens within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from time import monotonic
from typing import Any

import psycopg

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.pool import roll_back_to
from usagebill.storage.postgresql.row_scope import RowScope
from usagebill.storage.postgresql.rows import rows_of
from usagebill.storage.record_sql import quoted
from usagebill.storage.sql.jobs import JOB_COLUMNS
from usagebill.storage.tables import table_of, tables_in_order

_NUMBERS = (
    "INSERT INTO sequences (organization_id, name, value) SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[])"
    " ON CONFLICT (organization_id, name) DO UPDATE SET value = excluded.value"
)
# Fewer rows than this are not worth a COPY.
_COPIED = 3
# Weight of the latest write in the moving average of the time per write.
_LAST_WRITES = 1 / 4

Row = tuple[Any, ...]
Number = tuple[str, str]


class WritesRefused(BaseException):
    """Buffered writes broke a unique rule: the whole transaction is rolled back and run again without buffering.

    Not an `Exception`, so that error handlers do not catch it: an earlier write may have caused it.
    """


class WriteSpeed:
    """The measured time of sending a write, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def measured(self, seconds: float, writes: int) -> None:
        self.seconds += (seconds / writes - self.seconds) * _LAST_WRITES


@dataclass(slots=True, eq=False)
class Savepoint:
    """A savepoint before the write at `place`, with the sequence numbers at that point."""

    place: int
    numbers: dict[Number, int]
    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class _Inserted:
    kind: type
    row: Row


@dataclass(frozen=True, slots=True)
class _Updated:
    sql: str
    values: Row


@dataclass(frozen=True, slots=True)
class _JobDone:
    id: str


@dataclass(frozen=True, slots=True)
class _JobCancelled:
    organization_id: str
    key: str


@dataclass(frozen=True, slots=True)
class _JobAdded:
    organization_id: str
    key: str
    row: Row

    @property
    def names(self) -> tuple[str, str]:
        return self.organization_id, self.key


@dataclass(frozen=True, slots=True)
class _NumberTaken:
    number: Number
    value: int


_Write = _Inserted | _Updated | _JobDone | _JobCancelled | _JobAdded | _NumberTaken


class Pending:
    """The unsent writes of a transaction. Writes are buffered only within `buffered`; numbers always are."""

    def __init__(
        self, driver: psycopg.Connection[Row], speed: WriteSpeed, *, may_buffer: bool, scope: RowScope | None = None
    ) -> None:
        # Never buffered: writes to several organizations, and statements without rows.
        self._connection = Connection(driver, scope=None if scope is None else scope.of(None))
        self._session = Connection(driver)
        self._speed = speed
        self._may_buffer = may_buffer
        self._writes: list[_Write] = []
        self._savepoints: list[Savepoint] = []
        # The current numbers of sequences that this transaction has used.
        self.numbers: dict[Number, int] = {}
        self.is_buffering = False

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Buffer writes, if that is allowed."""
        before, self.is_buffering = self.is_buffering, self._may_buffer
        try:
            yield
        finally:
            self.is_buffering = before

    @property
    def seconds(self) -> float:
        """The estimated time to send the buffer."""
        return len(self._writes) * self._speed.seconds

    # Writes

    def insert(self, kind: type, row: Row) -> None:
        self._writes.append(_Inserted(kind, row))

    def update(self, sql: str, values: Row) -> None:
        self._writes.append(_Updated(sql, values))

    def complete(self, id: str) -> None:
        self._writes.append(_JobDone(id))

    def cancel(self, organization_id: str, key: str) -> None:
        if any(type(write) is _JobAdded and write.key == key for write in self._writes):
            self.send()
        self._writes.append(_JobCancelled(organization_id, key))

    def add(self, organization_id: str, key: str, row: Row) -> bool:
        """Add a job; False if one with its key is buffered already."""
        added = _JobAdded(organization_id, key, row)
        if any(type(write) is _JobAdded and write.names == added.names for write in self._writes):
            return False
        self._writes.append(added)
        return True

    def take_number(self, number: Number, value: int) -> None:
        self.numbers[number] = value
        self._writes.append(_NumberTaken(number, value))

    # Savepoints

    def savepoint(self) -> Savepoint:
        """Set a savepoint."""
        savepoint = Savepoint(len(self._writes), dict(self.numbers))
        self._savepoints.append(savepoint)
        return savepoint

    def release(self, savepoint: Savepoint) -> None:
        """Keep everything since the savepoint."""
        self._savepoints.remove(savepoint)
        if savepoint.is_sent:
            self._session.execute("RELEASE attempt")

    def roll_back(self, savepoint: Savepoint) -> None:
        """Roll back to the savepoint."""
        self._savepoints.remove(savepoint)
        self.numbers = savepoint.numbers
        if not savepoint.is_sent:
            del self._writes[savepoint.place :]
            return
        self._writes.clear()
        if not self._connection.driver.closed:
            roll_back_to(self._connection.driver, "attempt")
            self._session.execute("RELEASE attempt")
            if self._connection.scope is not None:
                self._connection.scope.forget()

    # Sending

    def send(self) -> None:
        """Send everything. Raises `WritesRefused` if the server refuses a write."""
        if not self._writes and all(savepoint.is_sent for savepoint in self._savepoints):
            return
        writes, self._writes = self._writes, []
        sent = 0
        for savepoint in self._savepoints:
            if not savepoint.is_sent:
                self._send(writes[sent : savepoint.place])
                sent = savepoint.place
                self._session.execute("SAVEPOINT attempt")
                savepoint.is_sent = True
        self._send(writes[sent:])

    def _send(self, writes: Sequence[_Write]) -> None:
        if not writes:
            return
        start = monotonic()
        try:
            self._send_all(writes)
        except psycopg.IntegrityError as problem:
            raise WritesRefused from problem
        self._speed.measured(monotonic() - start, len(writes))

    def _send_all(self, writes: Sequence[_Write]) -> None:
        connection = self._connection
        done = [write.id for write in writes if type(write) is _JobDone]
        if done:
            connection.execute("DELETE FROM jobs WHERE id = ANY(?::text[])", (done,))
        cancelled = [write for write in writes if type(write) is _JobCancelled]
        for organization_id, some in groupby(cancelled, lambda write: write.organization_id):
            connection.execute(
                "DELETE FROM jobs WHERE organization_id = ? AND key = ANY(?::text[])",
                (organization_id, [write.key for write in some]),
            )
        rows: dict[type, list[Row]] = {}
        for write in writes:
            if type(write) is _Inserted:
                rows.setdefault(write.kind, []).append(write.row)
        for kind in sorted(rows, key=_order().__getitem__):
            names = ",".join(map(quoted, rows_of(kind).columns))
            self._append(f"{quoted(table_of(kind).name)} ({names})", rows[kind])
        connection.change_all([(write.sql, write.values) for write in writes if type(write) is _Updated])
        added = [write.row for write in writes if type(write) is _JobAdded]
        if added:
            self._append(f"jobs ({JOB_COLUMNS})", added)
        numbers = {write.number: write.value for write in writes if type(write) is _NumberTaken}
        if numbers:
            owners, series = zip(*numbers, strict=True)
            connection.execute(_NUMBERS, (list(owners), list(series), list(numbers.values())))

    def _append(self, target: str, rows: Sequence[Row]) -> None:
        # COPY does not work with row security.
        if len(rows) >= _COPIED and self._connection.scope is None:
            self._connection.copy(target, rows)
            return
        statement = f"INSERT INTO {target} VALUES ({','.join('?' * len(rows[0]))})"
        self._connection.change_all([(statement, row) for row in rows])


@cache
@cache
def _order() -> dict[type, int]:
    return {kind: place for place, kind in enumerate(tables_in_order())}
