"""A connection: statements with `?` for each value, which the server prepares once they are repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import count
from typing import Any, Protocol

import psycopg

from usagebill.storage.postgresql.row_scope import RowScope

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


class Beginning:
    """How a read begins its transaction: with its first statement, in the same round trip. The row of the last of
    these statements is given to `check`.
    """

    def __init__(self, *statements: str, check: Callable[[Sequence[Any] | None], None]) -> None:
        self._statements = statements
        self._check = check
        self._last: psycopg.Cursor[tuple[Any, ...]] | None = None
        # Until the server has answered, the read can start again on another connection.
        self.is_over = False

    def begin(self, driver: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Send the statements."""
        for statement in self._statements:
            self._last = driver.execute(statement.encode(), prepare=False)

    def end(self) -> None:
        """The server has answered."""
        self.is_over = True
        if self._last is not None and self._last.pgresult is not None:
            self._check(self._last.fetchone())


class Connection:
    """A connection of the driver within a transaction. Every `?` in a statement stands for a value. `unsent` writes are
    sent before each statement. `scope` is the organization for row security; None if that is off, or if the statements
    touch no rows that it covers. `beginning` is that of a read.
    """

    def __init__(
        self,
        driver: psycopg.Connection[tuple[Any, ...]],
        unsent: Unsent | None = None,
        scope: RowScope | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        self.driver = driver
        self.unsent = unsent
        self.scope = scope
        self.beginning = beginning

    def of(self, organization_id: str | None) -> Connection:
        """The same, for statements about rows of this organization (of all, if None)."""
        scope = None if self.scope is None else self.scope.of(organization_id)
        return Connection(self.driver, self.unsent, scope, self.beginning)

    def _prepare(self) -> None:
        if self.beginning is not None and not self.beginning.is_over:
            self.beginning.begin(self.driver)
        if self.unsent is not None:
            self.unsent.send()
        if self.scope is not None:
            self.scope.apply(self.driver)

    def execute(self, sql: str, values: Sequence[Any] = (), *, anew: bool = False) -> Rows:
        """Run a statement; its rows are all read at once. It may be planned `anew`, for these values, rather than
        prepared, for all.
        """
        beginning = None if self.beginning is None or self.beginning.is_over else self.beginning
        try:
            with nullcontext() if beginning is None else self.driver.pipeline():
                self._prepare()
                rows = self.driver.execute(_in_driver_style(sql), values, prepare=False if anew else None)
        except psycopg.ProgrammingError:
            # An upgrade may have taken away what it asks for.
            if beginning is not None:
                beginning.end()
            raise
        if beginning is not None:
            beginning.end()
        return rows

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
        if self.beginning is not None and not self.beginning.is_over:
            self.beginning.end()
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
