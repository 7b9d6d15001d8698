"""Choice of the engine: SQLite for files and memory, PostgreSQL for `postgresql://` URLs."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from usagebill.core.errors import DatabaseFailed
from usagebill.storage.addresses import in_schema, is_url
from usagebill.storage.ports import AS_NEEDED, CallersTransaction, Opening, Store, UnusableServer, UnusableTransaction
from usagebill.storage.sqlite import SqliteStore

_NO_CLICKHOUSE = "ClickHouse needs a driver: pip install 'usagebill[clickhouse]'"
_MISSING = "PostgreSQL needs a driver: pip install 'usagebill[postgresql]'"


def store_at(
    path: str | Path,
    *,
    schema: str | None = None,
    read_only: bool = False,
    events: str | None = None,
    opening: Opening = AS_NEEDED,
) -> Store:
    """The open store, with an event store of ClickHouse beside it if `events` has the URLs of its servers. `schema` is
    that of a PostgreSQL database.

    Raises ValueError for a schema that cannot be (`in_schema`), `UnusableServer` if there is no driver for it, or if
    the event store cannot be reached or used.
    """
    if schema is not None:
        path = in_schema(str(path), schema)
    if events is None:
        return _records_at(path, opening, read_only=read_only)
    if read_only:
        raise UnusableServer("a read-only database takes no event store: its events are counted where they are")
    try:
        from usagebill.storage.clickhouse import EventServers, StoreWithEvents
    except ImportError as problem:
        raise UnusableServer(_NO_CLICKHOUSE) from problem
    servers = EventServers(events)
    try:
        return StoreWithEvents(_records_at(path, opening), servers, asked_from=servers.asked_from)
    except BaseException:
        servers.close()
        raise


def _records_at(path: str | Path, opening: Opening, *, read_only: bool = False) -> Store:
    if not is_url(path):
        return SqliteStore(path, read_only=read_only, opening=opening)
    try:
        from usagebill.storage.postgresql import PostgresStore
    except ImportError as problem:
        raise UnusableServer(_MISSING) from problem
    return PostgresStore(str(path), read_only=read_only, opening=opening)


def within(store: Store, connection: object) -> CallersTransaction:
    """The caller's open transaction on a connection to the database of `store`, to work in.

    Raises `UnusableTransaction` if the store is no PostgreSQL database.
    """
    if "psycopg" in sys.modules:
        from usagebill.storage.postgresql import JoinedTransaction, PostgresStore

        # Within it all events are counted by the database, which has them all.
        store = getattr(store, "records", store)
        if isinstance(store, PostgresStore):
            return JoinedTransaction(store, connection)
    raise UnusableTransaction("only Billing('postgresql://...') can take part in a transaction of your own")


def is_engine_error(problem: Exception) -> bool:
    """Whether the database failed, such as an unreadable file or a server that does not respond."""
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(problem, psycopg.Error):
        return True
    return isinstance(problem, (DatabaseFailed, sqlite3.DatabaseError))


@contextmanager
def emptied(url: str) -> Iterator[str]:
    """The URL of an empty database on the PostgreSQL server of `url`, reserved for the caller."""
    if not is_url(url):
        raise ValueError("a sandbox runs in memory or on PostgreSQL (postgresql://...)")
    try:
        from usagebill.storage.postgresql.databases import temporary_database
    except ImportError as problem:
        raise UnusableServer(_MISSING) from problem
    with temporary_database(url) as database:
        yield database


@contextmanager
def emptied_events(url: str) -> Iterator[str]:
    """The URL of a new database on the ClickHouse server of `url`, dropped afterwards; it is used for any number of
    events.

    With an engine in the process, `chdb:///folder`, each process has its own folder within that one.
    """
    try:
        from usagebill.storage.clickhouse import temporary_database
    except ImportError as problem:
        raise UnusableServer(_NO_CLICKHOUSE) from problem
    with temporary_database(url) as database:
        yield database
