"""A file of each earlier schema version is brought up to date with all that is in it, and billed on."""

from __future__ import annotations

import gzip
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.storage.eager_states import eager_states
from tests.storage.events_contract import event

from usagebill import Billing
from usagebill.runtime.clock import ManualClock
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite import SqliteStore, schema
from usagebill.storage.sqlite.schema import OlderFile

FILES = sorted(Path(__file__).parent.glob("v*.db.gz"))
NOW = datetime(2024, 2, 1, 3, tzinfo=UTC)
# What is kept about records, and not records themselves.
_KEPT = (
    *("_counts", "_texts", "_search", "_short", "_metadata", "_common", "_profile", "_set", "_documents", "_values"),
    *("sqlite_", "unfilled_lists", "event_counts_made"),
    *("saved_levels", "usage_series", "usage_states", "usage_slots", "usage_rolled_up", "event_filter_values"),
)


def _older(files: list[Path], *fast: Path) -> list[Any]:
    """These files; the fast lane takes those named."""
    return [
        pytest.param(file, marks=() if file in fast else pytest.mark.slow, id=file.name.partition(".")[0])
        for file in files
    ]


UPGRADED = _older(FILES[1:], *FILES[1::20], FILES[-1])
# Later steps upgrade the earlier files too.
BILLED_ON = _older([*FILES[1:-1:6], FILES[-1]], FILES[1], FILES[-1])
ONLY_READ = _older([*FILES[1:-1:20], FILES[-1]], FILES[-1])


@pytest.fixture(params=UPGRADED)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "billing.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return path


def rows(path: Path) -> dict[str, int]:
    """How many rows each table of records has; counts of writes, which version 62 drops, are left out."""
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    counted = {
        table: connection.execute(
            f'SELECT COUNT(*) FROM "{table}"' + (" WHERE name NOT LIKE 'writes/%'" if table == "sequences" else "")
        ).fetchone()[0]
        for table in tables
        if not any(part in table for part in _KEPT)
    }
    connection.close()
    return counted


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version


def columns(path: Path) -> dict[str, set[str]]:
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    named = {
        table: {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
        for table in tables
        if not table.startswith("sqlite_")
    }
    indexes = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    connection.close()
    return {**named, "indexes": {name for name in indexes if not name.startswith("sqlite_")}}


def triggers(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")}
    connection.close()
    return names


def test_there_is_a_file_of_every_earlier_version() -> None:
    kept = [int(file.name[1:3]) for file in FILES]
    assert kept == [*range(1, schema.VERSION)], "make_file.py says how the file of the version before yours is made"


def test_an_older_file_keeps_its_records_and_gets_this_versions_schema(older: Path, tmp_path: Path) -> None:
    before, former = rows(older), version_of(older)
    SqliteStore(older).close()
    after = rows(older)
    if former < 60:
        # The documents of each customer are posted to the ledger by a job.
        after["jobs"] -= after["customers"]
    after["workers"] = after["processes"]
    assert {table: after[table] for table in before} == before
    SqliteStore(tmp_path / "new.db").close()
    upgraded, new = columns(older), columns(tmp_path / "new.db")
    # What earlier versions read from is gone.
    assert set(upgraded) == set(new)
    assert triggers(older) == triggers(tmp_path / "new.db")
    assert {name: new[name] - upgraded[name] for name in new} == {name: set() for name in new}
    connection = sqlite3.connect(older)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


# Opens a file and is killed as it is about to run a statement, the number of which it is told.
_KILLED = """
import os, signal, sqlite3, sys
left, connect = int(sys.argv[2]), sqlite3.connect
def count(statement):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
def counted(*args, **rest):
    connection = connect(*args, **rest)
    connection.set_trace_callback(count)
    return connection
sqlite3.connect = counted
from usagebill.storage.sqlite import SqliteStore
SqliteStore(sys.argv[1]).close()
print(left)
"""


@pytest.mark.slow
@pytest.mark.parametrize("older", [FILES[6], FILES[80]], ids=["v7", "v81"], indirect=True)
def test_an_upgrade_that_is_killed_anywhere_is_done_by_whoever_opens_the_file_next(older: Path, tmp_path: Path) -> None:
    untouched, whole = older.read_bytes(), tmp_path / "whole.db"

    def open_until(statement: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _KILLED, str(older), str(statement)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    whole.write_bytes(untouched)
    SqliteStore(whole).close()
    statements = 10**9 - int(open_until(10**9).stdout.split()[-1])
    assert statements > 50
    for part in range(1, 6):
        for left_over in older.parent.glob(f"{older.name}*"):
            left_over.unlink()
        older.write_bytes(untouched)
        assert open_until(statements * part // 6).returncode == -signal.SIGKILL
        SqliteStore(older).close()
        assert (version_of(older), rows(older)) == (schema.VERSION, rows(whole))
        assert (columns(older), triggers(older)) == (columns(whole), triggers(whole))


@pytest.mark.parametrize("older", [FILES[29]], ids=["v30"], indirect=True)
def test_a_file_of_version_30_takes_events(older: Path) -> None:
    # It had a trigger on events that read a table of its running states.
    with Billing(older, clock=ManualClock(NOW), deliver=False) as billing:
        billing.events.create(transaction_id="new", external_subscription_id="sub", code="gb", properties={"gb": 1})
        assert billing.events.get("new").code == "gb"


@pytest.mark.parametrize("older", BILLED_ON, indirect=True)
def test_an_older_file_is_billed_on(older: Path) -> None:
    clock = ManualClock(NOW)
    with Billing(older, clock=clock, deliver=False) as billing:
        # Nothing that was billed is seen in another light.
        assert billing.audit().findings == ()
        billing.run_due()
        assert billing.audit().findings == ()
        assert billing.customers.get("acme").name == "Acme"
        sent = {event.transaction_id for event in billing.events.list(code="gb").items}
        assert sent == {"none1", "none6", *(f"t{number}" for number in range(1, 9))}
        assert billing.invoices.list().total_count == 2
        # Events that came before they were marked are known as well.
        unbilled = billing.events.unbilled()
        assert {item.event.transaction_id for item in unbilled.items} == {"none1", "none6"}
        assert {str(item.reason) for item in unbilled.items} == {"property_missing"}
        billing.run_due()
        march = datetime(2024, 3, 1, 3, tzinfo=UTC)
        while (due := billing.next_due()) is not None and due <= march:
            clock.set(max(due, clock.now()))
            billing.run_due(strict=True)
        clock.set(march)
        invoices = billing.invoices.list()
        assert invoices.total_count == 3
        fees: list[Any] = [fee for fee in billing.fees.list(fee_type="charge").items if fee.units]
        # 1 + ... + 5 in January, 6 + 7 + 8 in February.
        assert sorted(fee.units for fee in fees) == [Decimal(15), Decimal(21)]
        assert billing.audit().findings == ()


def test_a_file_of_the_first_version_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    path.write_bytes(gzip.decompress(FILES[0].read_bytes()))
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(OlderFile, match="versions before 2 cannot be read"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("older", ONLY_READ, indirect=True)
def test_an_older_file_that_is_only_read_is_refused_in_words(older: Path) -> None:
    before = older.read_bytes()
    with pytest.raises(OlderFile, match="and is only read"):
        SqliteStore(older, read_only=True)
    assert older.read_bytes() == before


def test_states_of_version_54_make_way_for_totals(tmp_path: Path) -> None:
    path, organization = tmp_path / "billing.db", "organization-1"
    summed = EventQuery(code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value")
    store = SqliteStore(path)
    store.write(organization, lambda tx: tx.events.append([event(organization, n, {"value": n}) for n in range(9)]))
    store.close()
    connection = sqlite3.connect(path)
    connection.executescript(_VERSION_54)
    connection.close()
    assert former_parts(path) == 7

    with eager_states():
        store = SqliteStore(path)
        for _ in range(2):
            tallies = store.read(organization, lambda tx: tx.events.tallies(summed))
            assert tallies[()].units == 36
            while store.roll_up_usage():
                pass
        assert store.read(organization, lambda tx: list(tx.events.state_faults())) == []
        kinds = store._writer.execute("SELECT kind, built_to FROM usage_series").fetchall()
        assert kinds == [("numbers", None)]
        # An edit by hand is noticed, as in a new file.
        store._writer.execute("DELETE FROM events WHERE sequence = 9")
        assert store.read(organization, lambda tx: tx.events.tallies(summed))[()].units == 28
        store.close()
    assert former_parts(path) == 0


def former_parts(path: Path) -> int:
    """How many tables, triggers and columns there are that version 54 had and later ones do not."""
    connection = sqlite3.connect(path)
    (count,) = connection.execute(
        "SELECT COUNT(*) FROM sqlite_schema WHERE name IN ('usage_states', 'usage_slots', 'event_filter_values',"
        " 'event_filter_values_edited') OR (name = 'usage_rolled_up' AND sql LIKE '%CHECK%')"
        " OR (name IN ('events', 'events_usage') AND sql LIKE '%filter_values%')"
    ).fetchone()
    connection.close()
    return int(count)


# What version 54 kept of events, with states of one series that are wrong: nothing of it is read.
_VERSION_54 = """
DROP TABLE usage_series;
DROP TABLE usage_totals;
DROP TABLE usage_rolled_up;
DROP INDEX events_usage;
ALTER TABLE events ADD COLUMN filter_values INTEGER;
CREATE INDEX events_usage ON events (
    organization_id, external_subscription_id, code, timestamp, created_at, filter_values);
CREATE TABLE event_filter_values (
    organization_id TEXT NOT NULL, base INTEGER NOT NULL, size INTEGER NOT NULL, declared TEXT NOT NULL,
    PRIMARY KEY (organization_id, base), UNIQUE (organization_id, declared)) WITHOUT ROWID;
CREATE TRIGGER event_filter_values_edited AFTER UPDATE OF organization_id, properties, texts
    ON events WHEN NEW.filter_values IS NOT NULL
    BEGIN UPDATE events SET filter_values = NULL WHERE sequence = NEW.sequence; END;
CREATE TABLE usage_series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, organization_id TEXT NOT NULL, external_subscription_id TEXT NOT NULL,
    code TEXT NOT NULL, kind TEXT NOT NULL, field TEXT NOT NULL, keys TEXT NOT NULL, form INTEGER NOT NULL,
    width INTEGER NOT NULL, stage INTEGER NOT NULL, base INTEGER NOT NULL, built_to INTEGER,
    UNIQUE (organization_id, external_subscription_id, code, kind, field, keys));
CREATE TABLE usage_slots (
    series INTEGER NOT NULL, slot INTEGER NOT NULL, n INTEGER NOT NULL, first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL, received_at INTEGER NOT NULL, spoken INTEGER NOT NULL,
    PRIMARY KEY (series, slot)) WITHOUT ROWID;
CREATE TABLE usage_states (
    series INTEGER NOT NULL, slot INTEGER NOT NULL, dims TEXT NOT NULL, value TEXT NOT NULL, n INTEGER NOT NULL,
    low INTEGER NOT NULL, high INTEGER NOT NULL, top INTEGER, longs INTEGER NOT NULL, rest TEXT, long_top TEXT,
    first_at INTEGER NOT NULL, first_sequence INTEGER NOT NULL, last_at INTEGER NOT NULL, moment TEXT, paid TEXT,
    PRIMARY KEY (series, slot, dims, value)) WITHOUT ROWID;
CREATE TABLE usage_rolled_up (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL);
INSERT INTO usage_series VALUES (1, 'organization-1', 'sub', 'calls', 'numbers', '"value"', '[]', 6, 3600000000, 1, 9,
    NULL);
INSERT INTO usage_slots VALUES (1, 473352, 9, 1704067200000000, 1704067200000000, 1704067200000000, 0);
INSERT INTO usage_states VALUES (1, 473352, '', '', 9, 1000000000, 0, 8000000, 0, NULL, NULL, 1704067200000000, 1,
    1704067200000000, NULL, NULL);
INSERT INTO usage_rolled_up VALUES (1, 9);
PRAGMA user_version = 54;
"""
