"""The store: connections, transactions and the locks of organizations."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from math import ceil
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from usagebill.core.errors import OutcomeUnknown
from usagebill.process.logs import Log
from usagebill.storage import deadline
from usagebill.storage.addresses import shown
from usagebill.storage.every_engine import EntitlingCommits, OneTransaction
from usagebill.storage.failures import Reachability
from usagebill.storage.ports import AS_NEEDED, Connections, Opening, UnusableServer, UnusableTransaction
from usagebill.storage.postgresql import row_security
from usagebill.storage.postgresql.connection import Beginning, Connection
from usagebill.storage.postgresql.events.dialect import behind
from usagebill.storage.postgresql.locks import Locks, is_held_by
from usagebill.storage.postgresql.memory import Memory
from usagebill.storage.postgresql.pending import Pending, WriteSpeed, WritesRefused
from usagebill.storage.postgresql.pool import Driver, Pool, roll_back
from usagebill.storage.postgresql.poolers import check_sessions
from usagebill.storage.postgresql.row_scope import RowScope
from usagebill.storage.postgresql.schema import (
    CURRENT,
    EXCLUDING_UPGRADES,
    bring_forward,
    check_current,
    check_version,
    identity_of,
    make_schema,
    search_path,
)
from usagebill.storage.postgresql.statistics import Statistics
from usagebill.storage.postgresql.transaction import PostgresTransaction
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.schema import VERSION as RECORDS

T = TypeVar("T")

_log = Log("usagebill.storage")
OLDEST_SERVER = 15
# Connections of one process.
_CONNECTIONS = 20
# Statements that a connection has prepared.
_PREPARED = 1_000
# What the server assumes a page out of order to cost, as a multiple of one in order. At its default for turning disks,
# 4, it reads all events rather than those of some tens of subscriptions, and on all cores.
_RANDOM_PAGE_COST = "1.1"
# The weight of the latest write in the moving average of lock contention.
_LAST_WRITE = 1 / 8
# Most attempts of a write: the server aborts one of two that deadlock.
_MOST_RUNS = 5

_TIME = CURRENT.replace("SELECT ", "SELECT clock_timestamp(), ").encode()
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


def with_text_json(driver: Driver) -> None:
    """Make the connection return JSON as text."""
    driver.adapters.register_loader("json", TextLoader)


# States of a connection in which it can run a statement.
_ABLE = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


class _NotBegun(Exception):
    """A read failed before the server answered its first statement."""

    def __init__(self, reason: psycopg.OperationalError) -> None:
        super().__init__(reason)
        self.reason = reason


# By the identity of the database: a process may open it more than once.
_entitling_commits: dict[str, EntitlingCommits] = {}


def _within_deadline() -> str:
    """What makes the server end the statements of a transaction, waits for locks among them, once the deadline has
    passed.
    """
    seconds = deadline.seconds_left()
    return "" if seconds is None else f"; SET LOCAL statement_timeout = {max(1, ceil(1000 * seconds))}"


def _commit(driver: Driver) -> None:
    try:
        driver.execute("COMMIT")
    except psycopg.OperationalError as problem:
        if driver.closed:
            raise OutcomeUnknown(str(problem)) from problem
        raise


class PostgresStore:
    """A database of a PostgreSQL server. Safe to use from many threads, processes and machines.

    Once `write` returns, its changes are on the server's disk. Reads run concurrently with writes, each on a separate
    snapshot; writes to different organizations run concurrently.
    """

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        connections: int = _CONNECTIONS,
        migrating: bool = False,
        opening: Opening = AS_NEEDED,
    ) -> None:
        self.url = url
        self._read_only = read_only
        self._migrating = migrating
        # The open transaction of each thread.
        self._transactions = OneTransaction()
        self._own = threading.local()
        # Threads of this process that want to write, by organization: only one at a time waits for the server's lock.
        self._guard = threading.Lock()
        self._turns: dict[str | None, threading.Lock] = {}
        self._awaiting = 0
        self._contention = 0.0
        self._write_speed = WriteSpeed()
        self._statistics = Statistics()
        # Series of running totals that queries of this process lacked.
        self.missing_series = MissingSeries()
        self._pool = Pool(url, connections, self._configure, CURRENT)
        self.reachability = Reachability(shown(url))
        self.identity = self._prepared(opening)
        self._entitling_commits = _entitling_commits.setdefault(self.identity, EntitlingCommits())

    @staticmethod
    def _configure(driver: Driver) -> None:
        driver.prepared_max = _PREPARED
        # From the second time on.
        driver.prepare_threshold = 1
        with_text_json(driver)
        # Acknowledged means on disk, whatever the server's default.
        driver.execute(
            "SELECT set_config('synchronous_commit', 'on', FALSE) WHERE current_setting('synchronous_commit') = 'off'"
        )
        # Unless the server's owner has chosen.
        driver.execute(
            "SELECT set_config(name, %s, FALSE) FROM pg_settings"
            " WHERE name = 'random_page_cost' AND source = 'default'",
            (_RANDOM_PAGE_COST,),
        )

    def _prepared(self, opening: Opening) -> str:
        began, former = monotonic(), None
        with psycopg.connect(self.url, autocommit=True) as driver:
            if driver.info.server_version < OLDEST_SERVER * 10_000:
                version = driver.info.server_version // 10_000
                raise UnusableServer(f"usagebill needs PostgreSQL {OLDEST_SERVER} or later; this is {version}")
            encoding = driver.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise UnusableServer(f"usagebill needs a database in UTF8; this one uses {encoding}")
            check_sessions(driver, partial(psycopg.connect, self.url, autocommit=True))
            connection = Connection(driver, scope=RowScope(None))
            # Closing the connection undoes what was not committed.
            driver.execute((_READ if self._read_only else _WRITE).encode())
            if self._read_only:
                check_version(connection)
            else:
                make_schema(connection, opening)
                former = bring_forward(connection, opening)
            self.search_path = search_path(connection)
            identity = identity_of(connection)
            self._has_row_security = row_security.is_on(connection)
            if self._migrating and self._has_row_security and row_security.is_subject(connection):
                raise UnusableServer("rows cannot be copied while row security is on: turn it off for the migration")
            unfinished = connection.execute("SELECT source FROM migration WHERE NOT finished").fetchone()
            if unfinished is not None and not self._migrating:
                raise UnusableServer(
                    "a migration into this database is not finished: run `usagebill move-to-postgresql` again"
                )
            driver.execute("COMMIT")
        if former is not None:
            seconds = round(monotonic() - began, 1)
            _log.info("schema_upgraded", database=shown(self.url), former=former, schema=RECORDS, seconds=seconds)
        return identity

    def _connection(self, driver: Driver, organization_id: str | None) -> Connection:
        """A connection for a transaction within this organization (None: across all)."""
        return Connection(driver, scope=RowScope(organization_id) if self._has_row_security else None)

    def _writing(self, driver: Driver, organization_id: str | None, *, may_buffer: bool) -> tuple[Connection, Pending]:
        scope = RowScope(organization_id) if self._has_row_security else None
        pending = Pending(driver, self._write_speed, may_buffer=may_buffer, scope=scope)
        return Connection(driver, pending, scope), pending

    def memory(self) -> Memory:
        """The cache of a new transaction."""
        return Memory(self.missing_series)

    @contextmanager
    def _connected(self) -> Iterator[Driver]:
        driver = self._pool.take()
        try:
            yield driver
        finally:
            self._pool.give_back(driver)

    @contextmanager
    def _begun(self, statement: str) -> Iterator[Driver]:
        """A connection with an open transaction; a connection that the server has closed is replaced."""
        driver = self._pool.take()
        try:
            try:
                self._begin(driver, statement)
            except psycopg.OperationalError:
                self._pool.give_back(driver)
                # The idle ones are as stale.
                self._pool.refresh()
                driver = self._pool.take()
                self._begin(driver, statement)
            self._own.driver = driver
            yield driver
        finally:
            self._own.driver = None
            self._pool.give_back(driver)

    @staticmethod
    def _begin(driver: Driver, statement: str) -> None:
        results = driver.execute(f"{statement}; {CURRENT}".encode(), prepare=False)
        while results.nextset():
            pass
        check_current(results.fetchone())

    def now(self) -> datetime:
        """The server's time, which all writers to the database share, whatever their machines' clocks show."""
        driver = getattr(self._own, "driver", None)
        if driver is not None and driver.info.transaction_status in _ABLE:
            return self._server_time(driver)
        with self.reachability.told(writes=False):
            try:
                with self._connected() as connection:
                    return self._server_time(connection)
            except psycopg.OperationalError:
                # The idle ones are as stale.
                self._pool.refresh()
            with self._connected() as connection:
                return self._server_time(connection)

    @staticmethod
    def _server_time(driver: Driver) -> datetime:
        row = driver.execute(_TIME).fetchone()
        assert row is not None
        check_current(row[1:])
        instant: datetime = row[0]
        return instant.astimezone(UTC)

    def look(self) -> None:
        with self.reachability.told(writes=False):
            check_current(self._pool.look())

    @property
    def schema(self) -> int:
        return RECORDS

    @property
    def connections(self) -> Connections:
        return self._pool.use()

    @property
    def free_bytes(self) -> None:
        """The server's disk is not ours to ask."""
        return None

    def read(self, organization_id: str | None, question: Callable[[PostgresTransaction], T]) -> T:
        with self.reachability.told(writes=False), self._transactions.opened():
            try:
                return self._read(organization_id, question)
            except _NotBegun:
                # The server has closed this connection, and the idle ones are as stale.
                self._pool.refresh()
            try:
                return self._read(organization_id, question)
            except _NotBegun as problem:
                raise problem.reason from None

    def _read(self, organization_id: str | None, question: Callable[[PostgresTransaction], T]) -> T:
        driver = self._own.driver = self._pool.take()
        beginning = Beginning(*(_READ + _within_deadline()).split("; "), CURRENT, check=check_current)
        try:
            scope = RowScope(organization_id) if self._has_row_security else None
            connection = Connection(driver, scope=scope, beginning=beginning)
            return question(PostgresTransaction(connection, organization_id, self.memory()))
        except psycopg.errors.QueryCanceled:
            deadline.check()
            raise
        except psycopg.OperationalError as problem:
            if beginning.is_over:
                raise
            raise _NotBegun(problem) from problem
        finally:
            self._own.driver = None
            self._pool.rest(driver)

    def write(self, organization_id: str | None, change: Callable[[PostgresTransaction], T]) -> T:
        with self.reachability.told(writes=True), self._transactions.opened():
            if organization_id is None:
                return self._repeated(None, change)
            with self._guard:
                turn = self._turns.setdefault(organization_id, threading.Lock())
                self._awaiting += 1
            with turn:
                with self._guard:
                    self._awaiting -= 1
                return self._repeated(organization_id, change)

    def _repeated(self, organization_id: str | None, change: Callable[[PostgresTransaction], T]) -> T:
        may_buffer = True
        for _ in range(_MOST_RUNS - 1):
            try:
                return self._written(organization_id, change, may_buffer=may_buffer)
            except psycopg.errors.DeadlockDetected:
                # All of it is rolled back, so the writes it waited for can continue.
                continue
            except WritesRefused:
                # This is rolled back too. The next attempt writes one by one, and undoes only what breaks a rule.
                may_buffer = False
        return self._written(organization_id, change, may_buffer=False)

    def _written(
        self, organization_id: str | None, change: Callable[[PostgresTransaction], T], *, may_buffer: bool
    ) -> T:
        with self._begun(f"{_WRITE}{_within_deadline()}; {EXCLUDING_UPGRADES}") as driver:
            connection, pending = self._writing(driver, organization_id, may_buffer=may_buffer)
            locks = Locks(Connection(driver), self._refuse_to_wait_for_itself)
            tx = PostgresTransaction(connection, organization_id, self.memory(), locks=locks, pending=pending)
            try:
                if organization_id is not None:
                    is_free = locks.take_if_free(organization_id)
                    self._contention += ((not is_free) - self._contention) * _LAST_WRITE
                    locks.take(organization_id)
                result = change(tx)
                tx.flush()
                _commit(driver)
            except BaseException as problem:
                roll_back(driver)
                if isinstance(problem, psycopg.errors.QueryCanceled):
                    deadline.check()
                raise
            finally:
                # Even if the commit failed: an extra count only costs a read.
                self._entitling_commits.count(tx.entitling)
            return result

    @contextmanager
    def joined(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], driver: Driver, organization_id: str
    ) -> Iterator[tuple[Connection, Pending]]:
        """Work in a transaction that the caller began on `connection`, and will end; `driver` reads from it."""
        with self._transactions.opened():
            self._own.driver = driver
            self._own.joined = weakref.ref(connection)
            try:
                yield self._writing(driver, organization_id, may_buffer=False)
            finally:
                self._own.driver = None

    def _refuse_to_wait_for_itself(self, waiting: Connection, organization_id: str) -> None:
        """Raises `UnusableTransaction` if this thread would wait for a lock that it holds itself, in a caller's
        transaction that it has joined.
        """
        reference = getattr(self._own, "joined", None)
        connection = None if reference is None else reference()
        if connection is None or connection.closed or connection.info.transaction_status == TransactionStatus.IDLE:
            self._own.joined = None
        elif is_held_by(waiting, connection.info.backend_pid, organization_id):
            raise UnusableTransaction(
                "the transaction that this thread works within has not ended, and it alone may write to the"
                " organization: go on within it, or end it first"
            )

    # For migrations: rows as they are, of all organizations

    def transact(self, change: Callable[[Connection], T]) -> T:
        """Run `change` on rows, in a separate transaction."""
        begin = f"{_WRITE}; {EXCLUDING_UPGRADES}"
        with self.reachability.told(writes=True), self._transactions.opened(), self._begun(begin) as driver:
            try:
                result = change(self._connection(driver, None))
                _commit(driver)
            except BaseException:
                roll_back(driver)
                raise
            return result

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Run a read-only query on rows."""
        with self.reachability.told(writes=False), self._transactions.opened(), self._begun(_READ) as driver:
            try:
                return question(self._connection(driver, None))
            finally:
                roll_back(driver)

    def each_row(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, streamed in batches."""
        with self._begun(_READ) as driver:
            try:
                yield from self._connection(driver, None).stream(sql, values)
            finally:
                roll_back(driver)

    @property
    def reads_beside_writes(self) -> bool:
        return True

    def is_awaited(self) -> bool:
        return self._awaiting > 0

    def entitling_commits(self, organization_id: str) -> int:
        return self._entitling_commits.of(organization_id)

    @property
    def contention(self) -> float:
        return self._contention

    def turn_row_security(self, *, on: bool | None = None) -> tuple[list[str], bool, bool]:
        """Turn row security on or off, unless `on` is None.

        Returns the tables changed, whether it is on now, and whether it applies to this user.
        """

        def change(connection: Connection) -> tuple[list[str], bool, bool]:
            changed = [] if on is None else row_security.turn(connection, on=on)
            return changed, row_security.is_on(connection), row_security.is_subject(connection)

        changed, self._has_row_security, holds = self.transact(change)
        return changed, self._has_row_security, holds

    def roll_up_usage(self) -> bool:
        """Do one slice of the work on running totals, for the organization that is furthest behind.

        The server's statistics are also renewed if they miss an organization with many events or most rows of a table.
        """
        if self._read_only:
            return False
        if self._statistics.is_time and (stale := self.ask(self._statistics.stale_tables)):
            self.transact(partial(self._statistics.renew, tables=stale))
        organization_id = self.ask(lambda connection: behind(connection, self.missing_series))
        if organization_id is None:
            return False
        self.write(organization_id, lambda tx: tx.events.roll_up())
        return True

    def ship_events(self) -> bool:
        """There is no separate event store."""
        return False

    def close(self) -> None:
        """Close every connection. The store cannot be used afterwards."""
        self._pool.close()
