"""Guards against irreversible slips: billing ahead of time, and writing into another program's file."""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.receiver import Receiver
from tests.scenarios import plan_fields
from tests.service import Service

from usagebill import Billing
from usagebill.cli import main
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.schema import ForeignFile
from usagebill.testing import Sandbox

pytestmark = pytest.mark.beyond_reference


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done.output


def next_year() -> str:
    return (datetime.now(UTC) + timedelta(days=400)).isoformat()


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file that jobs were run in, with a subscription."""
    path = tmp_path / "billing.db"
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.plans.create(**plan_fields(interval="monthly", amount_cents=1000))
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    run("run-due", "--db", str(path))
    return str(path)


def invoices(file: str) -> int:
    with Billing(file, read_only=True) as billing:
        return billing.invoices.list().total_count


def test_a_file_is_not_billed_ahead_of_time_unless_somebody_insists(file: str) -> None:
    refused = run("run-due", "--at", next_year(), "--db", file, code=1)
    assert "is not known to be a copy" in refused
    assert "--force" in refused
    assert invoices(file) == 0
    run("run-due", "--at", datetime.now(UTC).isoformat(), "--db", file)
    assert invoices(file) == 0
    run("run-due", "--at", next_year(), "--force", "--db", file)
    assert invoices(file) >= 12


@pytest.mark.slow
def test_a_copy_shows_what_the_future_brings_and_sends_nothing(file: str, tmp_path: Path) -> None:
    with Receiver() as receiver:
        with Billing(file, deliver=False) as billing:
            billing.webhook_endpoints.create(webhook_url=receiver.url)
        copy = str(tmp_path / "copy.db")
        shutil.copy(file, copy)
        report = json.loads(run("run-due", "--at", next_year(), "--json", "--db", copy))
        assert (report["done"] > 12, report["failed"]) == (True, [])
        assert invoices(copy) >= 12
        assert invoices(file) == 0
        assert receiver.received == []
        # It is still a copy afterwards, and the file is still none.
        run("run-due", "--at", next_year(), "--db", copy)
        run("run-due", "--at", next_year(), "--db", file, code=1)


def test_a_file_that_nobody_served_yet_is_taken_for_no_copy(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    Billing(path).close()
    run("run-due", "--at", next_year(), "--db", path, code=1)


def test_nobody_travels_into_the_past() -> None:
    with Sandbox(now="2024-03-05T00:00:00Z") as box:
        with pytest.raises(ValueError, match="cannot travel back"):
            box.travel_to("2024-03-04T00:00:00Z")
        box.travel_to("2024-03-05T00:00:00Z")
        box.jump_to("2024-03-04T00:00:00Z")
        assert box.now == datetime(2024, 3, 4, tzinfo=UTC)


FOREIGN: dict[str, tuple[str, ...]] = {
    "of something else": ("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)",),
    "with a version of its own": ("CREATE TABLE notes (body TEXT)", "PRAGMA user_version = 7"),
    "with a table of a name that we use": ("CREATE TABLE events (id TEXT)", "CREATE TABLE jobs (id TEXT)"),
    "with a version beyond ours": ("CREATE TABLE notes (body TEXT)", "PRAGMA user_version = 4711"),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = tmp_path / "foreign.db"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(ForeignFile, match="database of something else"):
            SqliteStore(path, read_only=read_only)
    for command in (("run-due",), ("jobs", "list"), ("status",), ("keys", "create"), ("audit",)):
        refused = run(*command, "--db", str(path), code=1)
        assert "database of something else" in refused
        assert "Traceback" not in refused
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["foreign.db"]


def test_what_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear customer,\n" * 1000)
    refused = run("run-due", "--db", str(path), code=1)
    assert "file is not a database" in refused
    assert path.read_text() == "Dear customer,\n" * 1000


def test_a_rotated_key_keeps_its_name_and_its_permissions(file: str) -> None:
    made = json.loads(
        run("keys", "create", "--name", "collector", "--permission", "event:write", "--db", file, "--json")
    )
    rotated: Any = json.loads(run("keys", "rotate", made["id"], "--db", file, "--json"))
    shown = {key["id"]: key for key in json.loads(run("keys", "list", "--db", file, "--json"))}
    assert rotated["value"] != made["value"]
    assert shown[rotated["id"]]["name"] == "collector"
    assert shown[rotated["id"]]["permissions"] == made["permissions"]


@pytest.mark.slow
def test_links_lead_to_the_port_that_is_served(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db") as service:
        service.client.post("/api/v1/customers", json={"customer": {"external_id": "acme"}})
        link = service.client.get("/api/v1/customers/acme/portal_url").json()["customer"]["portal_url"]
        port = service.announced["url"].rsplit(":", 1)[1]
        assert link.startswith(f"http://localhost:{port}/")
    with Service(tmp_path / "other.db", "--public-url", "https://billing.example") as service:
        service.client.post("/api/v1/customers", json={"customer": {"external_id": "acme"}})
        link = service.client.get("/api/v1/customers/acme/portal_url").json()["customer"]["portal_url"]
        assert link.startswith("https://billing.example/")
