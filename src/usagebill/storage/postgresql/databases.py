"""A pool of empty databases for sandboxes and tests, each exclusive to its user until it is returned.

They stay on the server for reuse, named `usagebill_sandbox_...`: emptying a database takes milliseconds, creating one
takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from usagebill.storage.postgresql.engine import PostgresStore
from usagebill.storage.postgresql.locks import lock_key
from usagebill.storage.postgresql.schema import VERSION, definitions
from usagebill.storage.sqlite.schema import VERSION as RECORDS
from usagebill.storage.tables import TABLES, table_of

_Connection = psycopg.Connection[tuple[Any, ...]]


def database_url(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    parameters = {**conninfo_to_dict(url), "dbname": name}
    return "postgresql://?" + "&".join(f"{key}={quote(str(value))}" for key, value in parameters.items() if value)


@cache
def _prefix() -> str:
    digest = sha256("\n".join((f"{VERSION}, {RECORDS}", *definitions())).encode()).hexdigest()[:12]
    return f"usagebill_sandbox_{digest}_"


@cache
def _empty() -> bytes:
    """The statements that empty all tables, referring ones first."""
    order: dict[str, None] = {}

    def after_those_that_refer(name: str) -> None:
        for table in TABLES:
            if any(table_of(kind).name == name for kind in table.references.values()) and table.name not in order:
                after_those_that_refer(table.name)
        order[name] = None

    for table in TABLES:
        if table.name not in order:
            after_those_that_refer(table.name)
    names = (
        *order,
        "usage_rolled_up",
        "usage_series",
        "usage_totals",
        "sequences",
        "window_counts",
        "clock",
        "backups",
        "jobs",
        "events",
        "processes",
        "migration",
        *(f"{table.name}_counts" for table in TABLES if table.listing is not None),
    )
    return "; ".join(f'DELETE FROM "{name}"' for name in names).encode()


def _claimed(server: _Connection, url: str) -> str:
    """The name of a database that this session has locked; created if all others are in use."""
    for number in count():
        name = f"{_prefix()}{number}"
        row = server.execute("SELECT pg_try_advisory_lock(%s)", (lock_key(name),)).fetchone()
        if row is None or not row[0]:
            continue
        exists = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if exists is None:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # Its last user may have changed its settings.
        server.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(name)))
        # It may be half created, or in the middle of a migration.
        PostgresStore(database_url(url, name), migrating=True).close()
        with psycopg.connect(database_url(url, name), autocommit=True) as database:
            database.execute(_empty())
        return name
    raise AssertionError


@contextmanager
def temporary_database(url: str) -> Iterator[str]:
    """The URL of an empty database, with the schema, on the server of `url`.

    The user of `url` must be allowed to create databases.
    """
    # The lock is released when this session ends, however it ends. It excludes sessions of the same database alone,
    # so all take it in the one that every server has.
    with psycopg.connect(database_url(url, "postgres"), autocommit=True) as server:
        yield database_url(url, _claimed(server, url))
