"""A file moves into a PostgreSQL database with every row, goes on where it was interrupted, and says what differs."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from tests.postgresql import server_url
from tests.service import Service
from tests.storage.contract import new_tenant
from tests.storage.events_contract import KEYS, NUMBERS, ODD, ChargeFilter, event

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.errors import DatabaseMoved
from usagebill.core.filters import FilterIndex
from usagebill.core.organizations import Organization
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import EventFilter, EventQuery
from usagebill.storage.ports import Store, UnusableServer
from usagebill.storage.postgresql import PostgresStore, migration
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.migration import MigrationFailed, migrate
from usagebill.storage.sql import usage_totals
from usagebill.storage.sqlite.backup import back_up
from usagebill.storage.sqlite.schema import MovedFile
from usagebill.storage.tables import TABLES
from usagebill.storage.versions import entitlements_version

pytestmark = pytest.mark.second_engine

START, BILLED = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 2, 1, 1, tzinfo=UTC)


@pytest.fixture
def url() -> Iterator[str]:
    with temporary_database(server_url()) as database:
        yield database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in which a month of usage was billed, with whatever properties events may have."""
    path = tmp_path / "billing.db"
    clock = ManualClock(START)
    with Billing(path, clock=clock) as billing:
        metric = billing.billable_metrics.create(
            name="Gb", code="gb", aggregation_type="sum_agg", field_name="value", recurring=False
        )
        billing.taxes.create(name="VAT", code="vat", rate="20.5", applied_to_organization=True)
        billing.plans.create(
            name="Basic",
            code="basic",
            interval="monthly",
            amount_cents=4900,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[
                {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.12345"}}
            ],
        )
        for number in range(5):
            billing.customers.upsert(external_id=f"c{number}", name=f"Straße {number}", currency="EUR")
            billing.subscriptions.create(external_customer_id=f"c{number}", plan_code="basic", external_id=f"s{number}")
        events = [
            event(billing.organization.id, number, {key: value}, subscription=f"s{number % 5}", code="gb")
            for number, (key, value) in enumerate((key, value) for key in KEYS for value in NUMBERS + ODD)
        ]
        billing.store.write(billing.organization.id, lambda tx: tx.events.append(events, in_advance=["gb"]))
        clock.set(BILLED)
        billing.run_due()
    return path


def copied(file: Path) -> Path:
    """A copy of the file as it was before it is moved."""
    copy = file.with_name("copy.db")
    back_up(file, copy)
    return copy


def moved(file: Path, url: str) -> None:
    store = PostgresStore(url, migrating=True)
    try:
        migrate(file, store, lambda table, count: None)
    finally:
        store.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["move-to-postgresql", *arguments])


def everything(store: Store) -> dict[str, object]:
    """All that a store says of its organization through the ports."""
    organization_id = store.read(None, lambda tx: tx.find(Organization))[0].id
    return store.read(
        organization_id,
        lambda tx: {
            "events": tx.events.find(EventFilter()),
            "stored": tx.events.stored(),
            "invoices": tx.last_numbers("invoices")[0],
            "entitlements": entitlements_version(tx),
            "next": tx.jobs.next_due(),
            "ready": tx.jobs.ready(datetime(2030, 1, 1, tzinfo=UTC), 1000),
            **{table.name: tx.find(table.kind, deleted=True) for table in TABLES[1:]},
        },
    )


def test_everything_is_the_same_afterwards_and_billing_goes_on_alike(file: Path, url: str) -> None:
    copy = copied(file)
    ran = CliRunner().invoke(main, ["move-to-postgresql", "--from", str(file), "--to", url])
    assert ran.exit_code == 0, ran.output
    assert f"events: {len(KEYS) * len(NUMBERS + ODD)}\n" in ran.output
    assert ran.output.endswith("moved, and the same on both sides\n")
    bills = []
    for path in (str(copy), url):
        with Billing(path, clock=ManualClock(BILLED)) as billing:
            known = everything(billing.store)
            shown = [billing.view(invoice) for invoice in billing.invoices.list()]
            papers = [billing.invoices.pdf(invoice.id) for invoice in billing.invoices.list(per_page=2).items]
            assert billing.audit().found == 0
            billing.clock.set(datetime(2024, 3, 1, 1, tzinfo=UTC))  # type: ignore[attr-defined]
            billing.run_due(strict=True)
            numbers = sorted((invoice.number, invoice.total_amount_cents) for invoice in billing.invoices.list())
            bills.append((known, shown, numbers, papers))
    assert len(bills[0][1]) == 5
    assert len(bills[0][2]) == 10
    assert len(bills[0][3]) == 2
    assert bills[0] == bills[1]


@pytest.mark.parametrize("has_filters", [False, True])
def test_running_states_are_made_again_on_the_other_side(
    file: Path, url: str, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    monkeypatch.setattr(usage_totals, "WORTH_A_SERIES", 0)
    question = EventQuery(
        code="gb", external_subscription_id="s1", aggregation_type="sum_agg", field_name="value", group_keys=("region",)
    )
    index = FilterIndex([ChargeFilter("1", {"size": ("1",), "region": ("eu",)})], {})

    def tallies_of(reader: Reader) -> object:
        events = reader.tx.events
        return events.tallies_by_bucket(question, index) if has_filters else events.tallies(question)

    with Billing(file, clock=ManualClock(BILLED)) as billing:
        billing.reading(tallies_of)
        while billing._system.roll_up_usage():
            pass
        tallies = billing.reading(tallies_of)
    moved(file, url)
    with Billing(url, clock=ManualClock(BILLED)) as billing:
        assert isinstance(billing.store, PostgresStore)
        series = billing.store.ask(
            lambda connection: connection.execute("SELECT built_to FROM usage_series").fetchall()
        )
        assert series == [(None,)]
        assert billing.reading(tallies_of) == tallies
        assert billing.audit().found == 0


def test_a_migration_that_was_interrupted_goes_on_and_until_then_nobody_opens_the_database(
    file: Path, url: str
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(table: str, count: int) -> None:
        if table == "subscriptions":
            raise Interrupted

    store = PostgresStore(url, migrating=True)
    with pytest.raises(Interrupted):
        migrate(file, store, interrupt)
    store.close()
    with pytest.raises(UnusableServer, match="not finished"):
        Billing(url)
    copy = copied(file)
    moved(file, url)
    moved(file, url)
    with Billing(url) as billing, Billing(copy) as left:
        assert everything(billing.store) == everything(left.store)


def test_a_file_that_is_served_is_not_moved_and_goes_on(file: Path, url: str) -> None:
    with Service(file) as service:
        assert service.client.post("/api/v1/customers", json={"customer": {"external_id": "before"}}).status_code == 200
        refused = run("--from", str(file), "--to", url)
        assert refused.exit_code == 1
        assert f"processes have the file open: server {socket.gethostname()}:{service.process.pid}:" in refused.output
        assert service.client.post("/api/v1/customers", json={"customer": {"external_id": "still"}}).status_code == 200
        service.stop()
    done = run("--from", str(file), "--to", url)
    assert done.exit_code == 0, done.output
    with Billing(url) as billing:
        assert {"before", "still"} <= {customer.external_id for customer in billing.customers.list()}


def test_a_file_that_somebody_writes_to_is_not_moved(file: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(MigrationFailed, match="locked by a process that writes"):
            moved(file, url)
    moved(file, url)


def test_nobody_writes_to_a_file_while_it_is_moved_or_opens_it_afterwards(file: Path, url: str) -> None:
    locked: list[str] = []

    def write(table: str, count: int) -> None:
        if table == "usage_totals":
            return
        with (
            closing(sqlite3.connect(file, timeout=0)) as writer,
            pytest.raises(sqlite3.OperationalError, match="database is locked"),
        ):
            writer.execute("UPDATE customers SET name = 'lost'")
        locked.append(table)

    # It has said nothing of itself yet, as in its first seconds.
    with Billing(file) as program:
        store = PostgresStore(url, migrating=True)
        migrate(file, store, write)
        store.close()
        assert {"customers", "invoices", "events"} <= set(locked)
        with pytest.raises(DatabaseMoved, match="restart this process on that database"):
            program.customers.upsert(external_id="lost")
        with pytest.raises(DatabaseMoved):
            program.customers.list()
    with pytest.raises(MovedFile, match="was moved to postgresql://"):
        Billing(file)
    with pytest.raises(MovedFile):
        Billing(file, read_only=True)
    for arguments in (["status"], ["serve", "--port", "0"], ["backup", str(file.with_name("backup.db"))]):
        refused = CliRunner().invoke(main, [*arguments, "--db", str(file)])
        assert (refused.exit_code, "was moved to postgresql://" in refused.output) == (1, True)
    assert not file.with_name("backup.db").exists()


def test_versions_that_know_no_mark_refuse_a_file_that_was_moved(file: Path, url: str) -> None:
    moved(file, url)
    with closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (oldest,) = connection.execute("SELECT rolls_from FROM usagebill_schema").fetchone()
    assert version > 10_000
    assert oldest > 10_000


def test_a_file_that_was_moved_is_taken_back_on_purpose(file: Path, url: str) -> None:
    copy = copied(file)
    moved(file, url)
    taken = run("--from", str(file), "--take-back")
    assert (taken.exit_code, "can be opened again" in taken.output) == (0, True)
    with Billing(file) as billing, Billing(copy) as left:
        assert everything(billing.store) == everything(left.store)
    # What others have in the database by now is not what was moved.
    assert run("--from", str(file), "--take-back").exit_code == 0
    assert run("--from", str(file)).exit_code == 2
    assert run("--from", str(file), "--take-back", "--to", url).exit_code == 2


def test_a_move_that_ended_between_mark_and_finish_goes_on_to_the_same_database_only(
    file: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def killed(*_: object) -> None:
        raise Killed

    copy = copied(file)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(migration, "_finish", killed)
        with pytest.raises(Killed):
            moved(file, url)
    for path in (file, url):
        with pytest.raises((MovedFile, UnusableServer)):
            Billing(path)
    with temporary_database(server_url()) as other:
        elsewhere = run("--from", str(file), "--to", other)
        assert (elsewhere.exit_code, "was moved to" in elsewhere.output) == (1, True)
    assert run("--from", str(file), "--to", url).exit_code == 0
    with Billing(url) as billing, Billing(copy) as left:
        assert everything(billing.store) == everything(left.store)
    with pytest.raises(MovedFile):
        Billing(file)


def test_a_row_that_differs_is_said_and_the_database_stays_closed(file: Path, url: str) -> None:
    store = PostgresStore(url, migrating=True)

    def change(table: str, count: int) -> None:
        if table == "events":
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE taxes SET rate = '20.50'")

    with pytest.raises(MigrationFailed, match="not the same on both sides: taxes"):
        migrate(file, store, change)
    store.close()
    with pytest.raises(UnusableServer):
        Billing(url)


def test_a_database_in_use_takes_no_file_in(file: Path, url: str) -> None:
    store = PostgresStore(url)
    tenant = new_tenant(store)
    tenant.insert(tenant.tax())
    store.close()
    with Billing(url):
        pass
    ran = CliRunner().invoke(main, ["move-to-postgresql", "--from", str(file), "--to", url])
    assert ran.exit_code == 1
    assert "migrate into an empty one" in ran.output
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT COUNT(*) FROM invoices").fetchone() == (5,)
    connection.close()
