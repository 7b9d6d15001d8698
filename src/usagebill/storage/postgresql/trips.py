"""Round trips to the server: a read begins its transaction with its first statement, and its statements are prepared
once they are repeated.

Most reads are small, and waiting for the server takes longer than its work. The driver's cursors would take a trip to
begin, and as long again as the trip for themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.abc import PQGen, Transformer as Adapted
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from usagebill.storage.postgresql.pool import Driver, roll_back
from usagebill.storage.postgresql.row_scope import RowScope

# Statements of a connection that are counted, and prepared from the second time.
_MOST = 1_000
_names = count(1)

_Rows = list[tuple[Any, ...]]
# A statement and the types of its values.
_Key = tuple[bytes, tuple[int, ...]]


@lru_cache(maxsize=4096)
def _numbered(sql: str) -> bytes:
    """The statement with its values numbered as the server's protocol has it."""
    first, *rest = sql.split("?")
    return (first + "".join(f"${place}{part}" for place, part in enumerate(rest, 1))).encode()


class _Prepared:
    """The statements that a connection has prepared, by name; those not used for longest are forgotten."""

    def __init__(self) -> None:
        # None: was run once.
        self.names: OrderedDict[_Key, bytes | None] = OrderedDict()
        self.surplus: list[bytes] = []

    def note(self, key: _Key, name: bytes | None) -> None:
        self.names[key] = name
        self.names.move_to_end(key)
        while len(self.names) > _MOST:
            _, old = self.names.popitem(last=False)
            if old is not None:
                self.surplus.append(old)


_prepared: WeakKeyDictionary[Driver, _Prepared] = WeakKeyDictionary()


def forget_statements(driver: Driver) -> None:
    """Prepare the connection's statements anew: after ALTER and DROP, the driver drops all that are prepared."""
    _prepared.pop(driver, None)


class _Batch:
    """Messages to the server that are sent together, each with one result."""

    def __init__(self, driver: Driver, prepared: _Prepared) -> None:
        self._driver = driver
        self._prepared = prepared
        self._sends: list[Callable[[], None]] = []
        self._names: list[tuple[_Key, bytes | None]] = []

    def add(self, sql: bytes) -> None:
        """Add a statement without values, which is not prepared."""
        self._sends.append(lambda: self._driver.pgconn.send_query_params(sql, None))

    def query(self, sql: bytes, values: Sequence[Any], *, anew: bool) -> tuple[int, Adapted]:
        """Add a query; returns the place of its result, and what reads that."""
        session = self._driver.pgconn
        adapted: Adapted = Transformer(self._driver)
        sent = adapted.dump_sequence(values, [PyFormat.AUTO] * len(values)) if values else None
        types, formats = (adapted.types, adapted.formats) if values else (None, None)
        key = sql, types or ()
        name = None if anew else self._prepared.names.get(key)
        if not anew:
            if name is None and key in self._prepared.names:
                new = name = f"usagebill_{next(_names)}".encode()
                self._sends.append(lambda: session.send_prepare(new, sql, types))
            self._names.append((key, name))
        if name is None:
            self._sends.append(lambda: session.send_query_params(sql, sent, types, formats))
        else:
            prepared = name
            self._sends.append(lambda: session.send_query_prepared(prepared, sent, formats))
        return len(self._sends) - 1, adapted

    def run(self) -> list[PGresult]:
        """The results in order. Raises the error of the first statement that fails; the server skips the rest."""
        while self._prepared.surplus:
            self.add(b"DEALLOCATE " + self._prepared.surplus.pop())
        results = self._alone() if len(self._sends) == 1 else self._together()
        failed = next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None)
        for key, name in self._names:
            if failed is None:
                self._prepared.note(key, name)
            else:
                self._prepared.names.pop(key, None)
        if failed is not None:
            raise error_from_result(failed, self._driver.info.encoding)
        return results

    def _alone(self) -> list[PGresult]:
        self._sends[0]()
        try:
            return self._driver.wait(generators.execute(self._driver.pgconn))
        except psycopg.OperationalError:
            self._driver.close()
            raise

    def _together(self) -> list[PGresult]:
        session = self._driver.pgconn
        session.enter_pipeline_mode()
        try:
            for send in self._sends:
                send()
            session.pipeline_sync()
            results = self._driver.wait(_results(session))
            session.exit_pipeline_mode()
        except BaseException:
            # Answers to this would be taken for those to the next statement.
            self._driver.close()
            raise
        return results


def _results(session: PGconn) -> PQGen[list[PGresult]]:
    """The results of a pipeline, up to its end."""
    yield from generators.send(session)
    results: list[PGresult] = []
    while True:
        result = yield from generators.fetch(session)
        if result is None:
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _loaded(result: PGresult, adapted: Adapted) -> _Rows:
    adapted.set_pgresult(result)
    return adapted.load_rows(0, result.ntuples, tuple)


class Trips:
    """The statements of one read, whose transaction `begin` starts: one statement, or several with `; ` in between."""

    def __init__(self, driver: Driver, begin: str) -> None:
        self._driver = driver
        self._begin = begin
        self._prepared = _prepared.setdefault(driver, _Prepared())
        # Whether the server has answered: until then, the read can start again on another connection.
        self.has_begun = False

    def begin(self, scope: RowScope | None) -> None:
        """Begin the transaction, for statements that the driver runs itself."""
        if not self.has_begun:
            self._driver.execute(self._begin.encode())
            self.has_begun = True
        if scope is not None:
            scope.apply(self._driver)

    def rows(self, sql: str, values: Sequence[Any], scope: RowScope | None, *, anew: bool = False) -> _Rows:
        """The rows of a query; it may be planned `anew`, for its values, rather than prepared."""
        try:
            return self._rows(sql, values, scope, anew)
        except psycopg.errors.InvalidSqlStatementName:
            # Something else has dropped all prepared statements: ALTER, or a connection pooler.
            self._prepared.names.clear()
            self._prepared.surplus.clear()
            if self.has_begun:
                raise
            roll_back(self._driver)
            return self._rows(sql, values, scope, anew)

    def _rows(self, sql: str, values: Sequence[Any], scope: RowScope | None, anew: bool) -> _Rows:
        batch = _Batch(self._driver, self._prepared)
        if not self.has_begun:
            for statement in self._begin.split("; "):
                batch.add(statement.encode())
        setting = None if scope is None else scope.unapplied()
        if setting is not None:
            batch.query(_numbered(setting[0]), setting[1], anew=False)
        place, adapted = batch.query(_numbered(sql), values, anew=anew)
        results = batch.run()
        self.has_begun = True
        if scope is not None:
            scope.is_applied()
        return _loaded(results[place], adapted)
