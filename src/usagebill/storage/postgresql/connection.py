"""A connection: statements with `?` for each value, which the server prepares once they are repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Protocol

import psycopg

from usagebill.storage.every_engine import RecordedRows
from usagebill.storage.postgresql.row_scope import RowScope
from usagebill.storage.postgresql.trips import Trips

_STREAMED_AT_ONCE = 2_000
_names = count(1)


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


@lru_cache(maxsize=4096)
def _in_driver_style(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


class Unsent(Protocol):
    """Buffered writes, which are sent before any other statement."""

    def send(self) -> None: ...


class Connection:
    """A connection of the driver within a transaction. Every `?` in a statement stands for a value. `unsent` writes are
    sent before each statement. `scope` is the organization for row security; None if that is off, or if the statements
    touch no rows that it covers. A read has `trips`, which begin its transaction.
    """

    def __init__(
        self,
        driver: psycopg.Connection[tuple[Any, ...]],
        unsent: Unsent | None = None,
        scope: RowScope | None = None,
        trips: Trips | None = None,
    ) -> None:
        self.driver = driver
        self.unsent = unsent
        self.scope = scope
        self.trips = trips

    def of(self, organization_id: str | None) -> Connection:
        """The same, for statements about rows of this organization (of all, if None)."""
        scope = None if self.scope is None else self.scope.of(organization_id)
        return Connection(self.driver, self.unsent, scope, self.trips)

    def _prepare(self) -> None:
        if self.trips is not None:
            self.trips.begin(self.scope)
            return
        if self.unsent is not None:
            self.unsent.send()
        if self.scope is not None:
            self.scope.apply(self.driver)

    def execute(self, sql: str, values: Sequence[Any] = (), *, anew: bool = False) -> Rows:
        """Run a statement; its rows are all read at once. In a read, it may be planned `anew`, for these values, rather
        than prepared, for all.
        """
        if self.trips is not None:
            return RecordedRows(self.trips.rows(sql, values, self.scope, anew=anew))
        self._prepare()
        return self.driver.execute(_in_driver_style(sql), values)

    def change_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Run statements without results, all in one batch."""
        if not statements:
            return
        self._prepare()
        with self.driver.pipeline():
            for sql, values in statements:
                self.driver.execute(_in_driver_style(sql), values)

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, streamed in chunks."""
        self._prepare()
        with self.driver.cursor(f"rows_{next(_names)}") as cursor:
            cursor.itersize = _STREAMED_AT_ONCE
            cursor.execute(_in_driver_style(sql), values)
            yield from cursor

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self._prepare()
        with self.driver.cursor() as cursor:
            cursor.executemany(_in_driver_style(sql), rows)

    def copy(self, target: str, rows: Iterable[Sequence[Any]]) -> None:
        """Append rows to a table by COPY, the fastest way for many. PostgreSQL refuses it under row security."""
        self._prepare()
        with self.driver.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
