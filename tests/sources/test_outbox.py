"""An outbox: usage is noted with the application's own rows, and billed once, whatever dies."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from click.testing import CliRunner
from sqlalchemy.orm import Session
from tests.mariadb import mariadb
from tests.postgresql import new_database
from tests.scenarios import plan_fields

from usagebill import Billing
from usagebill.cli.main import main
from usagebill.outbox import Outbox
from usagebill.sources.outboxes import OutboxDrain, OutboxFailed

ROOT = Path(__file__).parents[2]
USED: dict[str, Any] = {"code": "calls", "external_subscription_id": "acme-pro"}


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """The application's own file, with a table of its own and an outbox."""
    path = tmp_path / "application.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
        Outbox().create_table(connection)
        Outbox().create_table(connection)
    return path


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db", deliver=False) as opened:
        opened.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        opened.customers.upsert(external_id="acme", currency="EUR")
        opened.plans.create(**plan_fields(code="pro"))
        opened.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")
        yield opened


def order(connection: Any, id: str) -> None:
    connection.execute("INSERT INTO orders VALUES (?)", (id,))
    Outbox().add(connection, transaction_id=id, **USED)


def stored(billing: Billing) -> list[str]:
    return sorted(event.transaction_id for event in billing.events.list())


def drain_of(billing: Billing, path: Path) -> OutboxDrain:
    return OutboxDrain(billing, lambda: sqlite3.connect(path))


def test_usage_is_there_with_the_order_or_not_at_all(billing: Billing, application: Path) -> None:
    connection = sqlite3.connect(application)
    order(connection, "kept")
    connection.commit()
    order(connection, "undone")
    connection.rollback()
    drain = drain_of(billing, application)

    assert drain.waiting() == 1
    outcome = drain.drain()

    assert (outcome.ingested, outcome.duplicates, drain.waiting()) == (1, 0, 0)
    assert stored(billing) == ["kept"]
    assert drain.drain().ingested == 0
    connection.close()


def test_event_keeps_what_it_was_given(billing: Billing, application: Path) -> None:
    used_at = datetime.now(UTC)
    with sqlite3.connect(application) as connection:
        Outbox().add(
            connection,
            transaction_id="é'\"?%s:v0",
            timestamp=used_at,
            properties={"tokens": 12, "share": Decimal("0.10"), "model": "größer"},
            precise_total_amount_cents=Decimal("1.50"),
            **USED,
        )
    drain_of(billing, application).drain()

    [event] = billing.events.list()
    assert (event.transaction_id, event.timestamp) == ("é'\"?%s:v0", used_at)
    assert dict(event.properties) == {"tokens": 12, "share": "0.10", "model": "größer"}
    assert event.precise_total_amount_cents == Decimal("1.50")


def test_more_than_a_batch_is_taken_in_one_go(billing: Billing, application: Path) -> None:
    with sqlite3.connect(application) as connection:
        for number in range(1_203):
            Outbox().add(connection, transaction_id=str(number), **USED)
    assert drain_of(billing, application).drain().ingested == 1_203
    assert len(stored(billing)) == 1_203


def test_what_is_no_event_is_listed_and_holds_up_nothing(billing: Billing, application: Path) -> None:
    with sqlite3.connect(application) as connection:
        Outbox().add(connection, transaction_id="", **USED)
        Outbox().add(connection, transaction_id="good", **USED)
    drain = drain_of(billing, application)
    drain.drain()
    assert (stored(billing), drain.waiting()) == (["good"], 0)
    [refused] = billing.event_sources.refused()
    assert refused.source == "outbox:usagebill_outbox"


@pytest.mark.parametrize(
    ("fields", "problem", "words"),
    [
        ({"timestamp": datetime.fromisoformat("2026-01-01T00:00")}, ValueError, "no zone"),
        ({"properties": {"tokens": float("nan")}}, ValueError, "JSON"),
        ({"properties": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, TypeError, "datetime is no type of JSON"),
    ],
)
def test_what_cannot_be_noted_is_refused_at_once(
    application: Path, fields: dict[str, Any], problem: type[Exception], words: str
) -> None:
    with sqlite3.connect(application) as connection, pytest.raises(problem, match=words):
        Outbox().add(connection, transaction_id="one", **USED, **fields)
    assert connection.execute("SELECT COUNT(*) FROM usagebill_outbox").fetchone() == (0,)


def test_names_and_connections_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ValueError, match="name of the table"):
        Outbox("orders; --")
    with pytest.raises(TypeError, match=r"not builtins\.object"):
        Outbox().create_table(object())


# A program that dies at a step of the drain, like a machine that loses power.
DYING = """
import os, sqlite3, sys
from usagebill import Billing
from usagebill.sources.outboxes import OutboxDrain

step = sys.argv[3]

class Cursor(sqlite3.Cursor):
    def execute(self, sql, values=()):
        if step == "before it is removed" and sql.startswith("DELETE"):
            os._exit(9)
        return super().execute(sql, values)

class Connection(sqlite3.Connection):
    def cursor(self):
        return super().cursor(Cursor)

    def rollback(self):
        super().rollback()
        if step == "before it is stored":
            os._exit(9)

    def commit(self):
        if step == "before the removal is committed":
            os._exit(9)
        super().commit()

with Billing(sys.argv[1], deliver=False) as billing:
    OutboxDrain(billing, lambda: sqlite3.connect(sys.argv[2], factory=Connection)).drain()
"""


@pytest.mark.parametrize(
    ("step", "known"),
    [("before it is stored", 0), ("before it is removed", 2), ("before the removal is committed", 2)],
)
def test_drain_that_dies_loses_and_doubles_nothing(
    billing: Billing, application: Path, tmp_path: Path, step: str, known: int
) -> None:
    with sqlite3.connect(application) as connection:
        order(connection, "one")
        order(connection, "two")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    died = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path / "billing.db"), str(application), step],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
    )
    assert died.returncode == 9, died.stderr
    drain = drain_of(billing, application)
    assert (len(stored(billing)), drain.waiting()) == (known, 2)

    outcome = drain.drain()

    assert (outcome.ingested, outcome.duplicates) == (2 - known, known)
    assert (stored(billing), drain.waiting()) == (["one", "two"], 0)


def test_application_whose_database_is_away_is_asked_again(billing: Billing, application: Path) -> None:
    is_away, asked, taken = [True], threading.Event(), threading.Event()

    class Connection(sqlite3.Connection):
        def commit(self) -> None:
            super().commit()
            taken.set()

    def connect() -> sqlite3.Connection:
        if is_away:
            asked.set()
            raise sqlite3.OperationalError("unable to open database file")
        return sqlite3.connect(application, factory=Connection)

    with sqlite3.connect(application) as connection:
        order(connection, "one")
    with pytest.raises(OutboxFailed, match="unable to open"):
        OutboxDrain(billing, connect).drain()
    asked.clear()
    with OutboxDrain(billing, connect, every=0.01):
        assert asked.wait(30)
        is_away.clear()
        assert taken.wait(30)
    assert stored(billing) == ["one"]


@pytest.mark.second_engine
def test_connections_of_other_drivers(billing: Billing) -> None:
    with new_database() as url:
        engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        kinds: dict[str, Callable[[], Any]] = {
            "psycopg": lambda: psycopg.connect(url),
            "connection of SQLAlchemy": engine.connect,
            "session of SQLAlchemy": lambda: Session(engine),
        }
        for name, connect in kinds.items():
            connection = connect()
            Outbox().create_table(connection)
            Outbox().add(connection, transaction_id=name, properties={"share": "50%"}, **USED)
            connection.commit()
            Outbox().add(connection, transaction_id="undone", **USED)
            connection.rollback()
            connection.close()
            assert OutboxDrain(billing, connect).drain().ingested == 1
        engine.dispose()
        assert stored(billing) == sorted(kinds)

        async def note() -> None:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                with pytest.raises(TypeError, match="asynchronous"):
                    Outbox().add(connection, transaction_id="one", **USED)

        asyncio.run(note())


@pytest.mark.second_engine
def test_mariadb_keeps_usage_as_the_others_do(billing: Billing) -> None:
    used: dict[str, Any] = {"precise_total_amount_cents": Decimal("1.50"), **USED}
    properties = {"share": "50%", "model": "größer 😀", "part": Decimal("0.10")}
    with mariadb() as socket:
        engine = sqlalchemy.create_engine(f"mysql+pymysql://root@localhost/shop?unix_socket={socket}")
        kinds: dict[str, Callable[[], Any]] = {
            "PyMySQL é'\"?%s:v0": lambda: pymysql.connect(unix_socket=str(socket), user="root", database="shop"),
            "connection of SQLAlchemy": engine.connect,
            "session of SQLAlchemy": lambda: Session(engine),
        }
        for name, connect in kinds.items():
            connection = connect()
            Outbox().create_table(connection)
            Outbox().create_table(connection)
            Outbox().add(connection, transaction_id=name, properties=properties, **used)
            connection.commit()
            Outbox().add(connection, transaction_id="undone", **USED)
            connection.rollback()
            drain = OutboxDrain(billing, connect)
            assert drain.waiting() == 1
            connection.close()
            assert (drain.drain().ingested, drain.waiting()) == (1, 0)
            # A drain that died before it removed what it had stored meets it again.
            connection = connect()
            Outbox().add(connection, transaction_id=name, properties=properties, **used)
            connection.commit()
            connection.close()
            outcome = drain.drain()
            assert (outcome.ingested, outcome.duplicates, drain.waiting()) == (0, 1, 0)
        engine.dispose()
    assert stored(billing) == sorted(kinds)
    assert {event.precise_total_amount_cents for event in billing.events.list()} == {Decimal("1.5")}
    assert dict(billing.events.list().items[0].properties) == {"share": "50%", "model": "größer 😀", "part": "0.10"}


def test_command_drains_once(billing: Billing, application: Path, tmp_path: Path) -> None:
    with sqlite3.connect(application) as connection:
        order(connection, "one")
    arguments = ["events", "drain-outbox", "--db", str(tmp_path / "billing.db"), "--once", "--from"]
    done = CliRunner().invoke(main, [*arguments, f"sqlite:///{application}"])
    assert (done.exit_code, stored(billing)) == (0, ["one"])
    assert drain_of(billing, application).waiting() == 0
    failed = CliRunner().invoke(main, [*arguments, f"sqlite:///{application}", "--table", "missing"])
    assert failed.exit_code == 1
    assert "no such table: missing" in failed.output
    wrong = CliRunner().invoke(main, [*arguments, "nonsense"])
    assert wrong.exit_code == 2
