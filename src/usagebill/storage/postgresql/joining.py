"""Work inside the caller's transaction, on the caller's connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from usagebill.storage.ports import UnusableTransaction
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.engine import PostgresStore, with_text_json
from usagebill.storage.postgresql.locks import Locks
from usagebill.storage.postgresql.schema import CURRENT, EXCLUDING_UPGRADES, check_current, identity_of, search_path
from usagebill.storage.postgresql.transaction import PostgresTransaction

T = TypeVar("T")
_Driver = psycopg.Connection[tuple[Any, ...]]
_Joined = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
_DRIVERS = psycopg.Connection, psycopg.AsyncConnection


class JoinedTransaction:
    """The open transaction of a psycopg connection, or of a connection of SQLAlchemy or Django over psycopg.

    Changes commit and roll back with the rest of it. From the first call until its end, it holds the organization's
    write lock.
    """

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        self._store = store
        self._connection = connection

    def is_open(self) -> bool:
        """Whether the connection is in a transaction."""
        if hasattr(self._connection, "in_transaction"):
            return bool(self._connection.in_transaction())
        connection = _of_django(self._connection)
        if not isinstance(connection, _DRIVERS) or connection.closed:
            return False
        return connection.info.transaction_status != TransactionStatus.IDLE

    def run(self, organization_id: str, change: Callable[[PostgresTransaction], T]) -> T:
        """Run `change`; if it raises, only its own effects are undone, and the caller's transaction continues.

        Raises `UnusableTransaction`.
        """
        joined = self._driver()
        with (
            _with_own_settings(joined) as driver,
            _searching(driver, self._store.search_path),
            self._store.joined(joined, driver, organization_id) as (connection, pending),
        ):
            plain = Connection(driver)
            self._check(plain)
            locks = Locks(plain)
            memory = self._store.memory()
            tx = PostgresTransaction(connection, organization_id, memory, locks=locks, pending=pending)

            def act() -> T:
                locks.take(organization_id)
                # Once the caller's commit is acknowledged, the changes are on the server's disk.
                plain.execute(
                    "SELECT set_config('synchronous_commit', 'on', TRUE)"
                    " WHERE current_setting('synchronous_commit') = 'off'"
                )
                result = change(tx)
                tx.flush()
                return result

            return tx.savepoint(act)

    def _driver(self) -> _Joined:
        connection = _of_django(self._connection)
        for wrapped in ("sync_session", "sync_connection"):
            if hasattr(connection, wrapped):
                raise UnusableTransaction(
                    f"SQLAlchemy gives what it has of an {type(connection).__name__} to its `run_sync`:"
                    " await connection.run_sync(lambda open: billing.within(open).events.create(...))"
                )
        if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
            connection = connection.connection()  # a session of SQLAlchemy's ORM
        if hasattr(connection, "exec_driver_sql"):
            # It begins its transaction with the first statement that it sends, and would not commit ours by itself.
            connection.exec_driver_sql("SELECT 1")
            connection = connection.connection.driver_connection
        if not isinstance(connection, _DRIVERS):
            name = f"{type(connection).__module__}.{type(connection).__qualname__}"
            raise UnusableTransaction(
                f"a connection of psycopg 3, or of SQLAlchemy or Django over it, is needed, not {name}"
            )
        if connection.closed:
            raise UnusableTransaction("the connection is closed")
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:
            raise UnusableTransaction("the connection is in pipeline mode: leave the pipeline first")
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise UnusableTransaction("the transaction has failed: roll it back first")
        if connection.autocommit and status == TransactionStatus.IDLE:
            raise UnusableTransaction(
                "no transaction is open, and the connection commits each statement: call it inside"
                " `with connection.transaction():`"
            )
        if status == TransactionStatus.IDLE:
            if isinstance(connection, psycopg.AsyncConnection):
                raise UnusableTransaction(
                    "no transaction is open, and an asynchronous connection begins one with your first statement: send"
                    " one before"
                )
            # With its owner's settings.
            connection.execute("SELECT 1")
        joined: _Joined = connection
        return joined

    def _check(self, connection: Connection) -> None:
        row = connection.execute(
            "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
        ).fetchone()
        assert row is not None
        isolation, read_only = row
        if isolation != "read committed":
            # Its snapshot is older than the lock, so it would miss later commits of others.
            raise UnusableTransaction(
                f"the transaction must be READ COMMITTED, PostgreSQL's default; it is {isolation}"
            )
        if read_only == "on":
            raise UnusableTransaction("the transaction is read-only")
        if identity_of(connection) != self._store.identity:
            raise UnusableTransaction("the connection is to another database or schema than the billing system's")
        connection.execute(EXCLUDING_UPGRADES)
        check_current(connection.execute(CURRENT).fetchone())


def _of_django(connection: Any) -> Any:
    """The driver's connection below Django's; any other connection as it is."""
    if hasattr(connection, "ensure_connection"):
        connection.ensure_connection()
        return connection.connection
    return connection


@contextmanager
def _searching(driver: _Driver, path: str) -> Iterator[None]:
    """Find our tables in these schemas, whatever the caller's search path, and put that back."""
    connection = Connection(driver)
    former = search_path(connection)
    if former == path:
        yield
        return
    setting = "SELECT set_config('search_path', ?, TRUE)"
    connection.execute(setting, (path,))
    try:
        yield
    finally:
        if driver.info.transaction_status == TransactionStatus.INTRANS:
            connection.execute(setting, (former,))


@contextmanager
def _with_own_settings(joined: _Joined) -> Iterator[_Driver]:
    """The caller's connection with our settings: without the caller's row factories, adapters and prepared statements,
    and leaving none of ours behind.
    """
    session: PGconn = joined.pgconn
    handlers = session.notice_handler, session.notify_handler
    driver: _Driver = psycopg.Connection(session)
    # A stand-in for a pool: the connection is not ours to close, and psycopg should not warn about that.
    driver._pool = None
    driver.prepare_threshold = None
    with_text_json(driver)
    try:
        yield driver
    finally:
        session.notice_handler, session.notify_handler = handlers
