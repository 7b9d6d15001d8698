"""The register of processes in a database: what it takes over from earlier versions, and columns that upgrades add."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from tests.postgresql import new_database

from usagebill import Billing
from usagebill.operations.standing import is_copy
from usagebill.storage.sqlite import schema
from usagebill.storage.tables import Table

# As version 66 of SQLite and 14 of PostgreSQL had it.
WORKERS = (
    "DROP TABLE processes",
    "CREATE TABLE workers (id TEXT PRIMARY KEY, name TEXT NOT NULL, started_at TEXT NOT NULL, seen_at TEXT NOT NULL,"
    " last_done_at TEXT, home TEXT)",
    "INSERT INTO workers VALUES ('w', 'old:1', '2024-03-05T10:00:00.000000+00:00', '2024-03-05T11:00:00.000000+00:00',"
    " '2024-03-05T10:30:00.000000+00:00', 'elsewhere')",
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with new_database() as url:
        yield url


def make_former(database: str) -> None:
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in (*WORKERS, "ALTER TABLE usagebill_schema DROP COLUMN rolls_from"):
                connection.execute(statement.encode())
            connection.execute("UPDATE usagebill_schema SET version = 14, records = 66")
        return
    with closing(sqlite3.connect(database)) as file:
        for statement in (*WORKERS, "DROP TABLE usagebill_schema", "PRAGMA user_version = 66"):
            file.execute(statement)
        file.commit()


def test_workers_that_earlier_versions_knew_are_kept_as_processes_that_stopped(database: str) -> None:
    Billing(database).close()
    make_former(database)
    with Billing(database) as billing:
        (process,) = billing._system.ask(lambda tx: tx.processes())
        assert (process.name, process.kind, process.workers) == ("old:1", "worker", 1)
        assert process.stopped_at == process.seen_at == datetime.fromisoformat("2024-03-05T11:00:00+00:00")
        assert process.last_done_at == datetime.fromisoformat("2024-03-05T10:30:00+00:00")
        # So it is still known that the file is a copy.
        assert is_copy(billing.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    id: str
    organization_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    id: str
    organization_id: str
    name: str
    colour: str = "it's red"
    paid: bool = True
    note: str | None = None


def test_a_new_column_has_its_default_also_in_rows_of_processes_that_do_not_know_it() -> None:
    table = Table(kind=Former, name="things")
    with closing(sqlite3.connect(":memory:")) as db:
        schema._make(db, table)
        insert = "INSERT INTO things (id, organization_id, name) VALUES (?, 'one', 'thing')"
        db.execute(insert, ("before",))
        schema._make(db, replace(table, kind=Later))
        db.execute(insert, ("after",))
        rows = db.execute("SELECT id, colour, paid, note FROM things ORDER BY id").fetchall()
    assert rows == [("after", "it's red", 1, None), ("before", "it's red", 1, None)]
