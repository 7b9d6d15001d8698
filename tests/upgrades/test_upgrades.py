"""A file of each earlier schema version is brought up to date with all that is in it, and billed on."""

from __future__ import annotations

import gzip
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.storage.events_contract import event

from usagebill import Billing
from usagebill.clock import ManualClock
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite import SqliteStore, schema
from usagebill.storage.sqlite.events import state_answers, states
from usagebill.storage.sqlite.schema import OlderFile
from usagebill.storage.usage_series import READY

FILES = sorted(Path(__file__).parent.glob("v*.db.gz"))
NOW = datetime(2024, 2, 1, 3, tzinfo=UTC)
# What is kept about records, and not records themselves.
_KEPT = (
    *("_counts", "_texts", "_search", "_short", "_metadata", "_common", "_profile"),
    *("sqlite_", "unfilled_lists", "event_counts_made"),
)


def _older(*fast: Path) -> list[Any]:
    """Every older file; the fast lane takes these."""
    return [
        pytest.param(file, marks=() if file in fast else pytest.mark.slow, id=file.name.partition(".")[0])
        for file in FILES[1:]
    ]


# Later steps upgrade the earlier files too.
UPGRADED = _older(*FILES[1::5], FILES[-1])
BILLED_ON = _older(FILES[1], FILES[-1])


@pytest.fixture(params=UPGRADED)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "billing.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    return path


def rows(path: Path) -> dict[str, int]:
    """How many rows each table of records has."""
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    counted = {
        table: connection.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]
        for table in tables
        if not any(part in table for part in _KEPT)
    }
    connection.close()
    return counted


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


def test_there_is_a_file_of_every_version_before_this_one() -> None:
    kept = [int(file.name[1:3]) for file in FILES]
    assert kept == list(range(1, max(kept) + 1))
    assert max(kept) >= 32


def test_an_older_file_keeps_its_records_and_gets_this_versions_schema(older: Path, tmp_path: Path) -> None:
    before = rows(older)
    SqliteStore(older).close()
    after = rows(older)
    assert {table: after[table] for table in before} == before
    SqliteStore(tmp_path / "new.db").close()
    upgraded, new = columns(older), columns(tmp_path / "new.db")
    assert set(upgraded) >= set(new)
    assert {name: new[name] - upgraded[name] for name in new} == {name: set() for name in new}
    connection = sqlite3.connect(older)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


@pytest.mark.parametrize("older", BILLED_ON, indirect=True)
def test_an_older_file_is_billed_on(older: Path) -> None:
    clock = ManualClock(NOW)
    with Billing(older, clock=clock, deliver=False) as billing:
        # Nothing that was billed is seen in another light.
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


def test_an_older_file_that_is_only_read_is_refused_in_words(older: Path) -> None:
    before = older.read_bytes()
    with pytest.raises(OlderFile, match="and is only read"):
        SqliteStore(older, read_only=True)
    assert older.read_bytes() == before


def test_states_of_version_42_are_kept_and_those_of_weighted_sums_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "_is_dense", lambda connection, pair, shape: True)
    monkeypatch.setattr(states, "MIN_WAITING", 1)
    monkeypatch.setattr(state_answers, "WORTH_A_SERIES", 0)
    path, organization = tmp_path / "billing.db", "organization-1"
    summed = EventQuery(code="calls", external_subscription_id="sub", aggregation_type="sum_agg", field_name="value")
    store = SqliteStore(path)
    store.write(organization, lambda tx: tx.events.append([event(organization, n, {"value": n}) for n in range(9)]))
    store.read(organization, lambda tx: tx.events.tallies(summed))
    while store.roll_up_usage():
        pass
    store.close()
    connection = sqlite3.connect(path)
    for column in ("moment", "paid"):
        connection.execute(f"ALTER TABLE usage_states DROP COLUMN {column}")
    connection.execute("PRAGMA user_version = 42")
    connection.commit()
    connection.close()

    store = SqliteStore(path)
    weighted = replace(summed, aggregation_type="weighted_sum_agg")
    tallies = [store.read(organization, lambda tx: tx.events.tallies(weighted))]
    while store.roll_up_usage():
        pass
    tallies.append(store.read(organization, lambda tx: tx.events.tallies(weighted)))
    assert tallies[0] == tallies[1]
    assert store.read(organization, lambda tx: list(tx.events.state_faults())) == []
    kinds = store._writer.execute("SELECT kind, stage FROM usage_series ORDER BY id").fetchall()
    assert kinds == [("numbers", READY), ("weighted numbers", READY)]
    store.close()
