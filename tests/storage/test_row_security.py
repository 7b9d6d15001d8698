"""Row security is a second wall between organizations: the server shows no rows but those of the one that a transaction
is about, whatever its statements say. All contracts hold behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict
from tests.postgresql import new_database, server_url
from tests.scenarios import charge_on, plan_fields
from tests.storage.contract import TransactionsContract, new_tenant
from tests.storage.events_contract import EventsContract, event
from tests.storage.jobs_contract import JobsContract
from tests.storage.records_contract import RecordsContract
from tests.storage.versions_contract import VersionsContract

from usagebill import Billing
from usagebill.cli import main
from usagebill.operations.organizations import create
from usagebill.runtime.clock import ManualClock
from usagebill.storage.ports import Store
from usagebill.storage.postgresql import PostgresStore

# Every contract once more, on a server.
pytestmark = pytest.mark.slow


@contextmanager
def owned_database() -> Iterator[str]:
    """The URL of an empty database for a user who owns it and has no other rights."""
    name = f"owner_{uuid4().hex}"
    with new_database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN".encode())
            connection.execute(f"ALTER SCHEMA public OWNER TO {name}".encode())
        known = {**conninfo_to_dict(url), "user": name}
        try:
            yield "postgresql://?" + "&".join(f"{key}={value}" for key, value in known.items())
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"DROP OWNED BY {name} CASCADE".encode())
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f"DROP ROLE {name}".encode())


def command(url: str, *turned: str) -> str:
    result = CliRunner().invoke(main, ["row-security", *turned, "--db", url])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A database with row security, for a user whom it holds for."""
    with owned_database() as database:
        assert command(database) == "row security is off\n"
        assert "row security is on, and holds for this user" in command(database, "on")
        yield database


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    opened = PostgresStore(url)
    yield opened
    opened.close()


class TestEvents(EventsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestJobs(JobsContract):
    pass


class TestVersions(VersionsContract):
    pass


class TestTransactions(TransactionsContract):
    pass


def rows(tx: Any, statement: str) -> list[tuple[Any, ...]]:
    """What a statement that names no organization gives within the transaction."""
    answer: list[tuple[Any, ...]] = tx._connection.execute(statement).fetchall()
    return answer


def test_statement_that_names_no_organization_sees_those_of_its_transaction_alone(store: Store) -> None:
    first, second = new_tenant(store), new_tenant(store)
    for tenant in (first, second):
        tenant.insert(tenant.tax("vat"))
        tenant.write(lambda tx, tenant=tenant: tx.events.append([event(tenant.id, 1)]))  # type: ignore[misc]
    for tenant in (first, second):
        for table in ("taxes", "events"):
            seen = tenant.read(lambda tx, table=table: rows(tx, f"SELECT organization_id FROM {table}"))  # type: ignore[misc]
            assert seen == [(tenant.id,)]
        assert tenant.write(lambda tx: rows(tx, "UPDATE taxes SET name = 'mine' RETURNING organization_id")) == [
            (tenant.id,)
        ]
    everybody = {id for (id,) in store.read(None, lambda tx: rows(tx, "SELECT organization_id FROM taxes"))}
    assert {first.id, second.id} <= everybody


def test_row_of_another_organization_cannot_be_written(store: Store) -> None:
    writer, other = new_tenant(store), new_tenant(store)
    other.insert(other.tax("vat"))
    statement = (
        f"INSERT INTO sequences (organization_id, name, value) VALUES ('{other.id}', 'stolen', 1) RETURNING value"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        writer.write(lambda tx: rows(tx, statement))


def test_scopes_follow_savepoints_and_organizations_within_one_transaction(store: Store) -> None:
    first, second = new_tenant(store), new_tenant(store)
    for tenant in (first, second):
        tenant.insert(tenant.tax(tenant.id))

    def fail(tx: Any) -> None:
        assert rows(tx.scoped(second.id), "SELECT code FROM taxes") == [(second.id,)]
        raise ZeroDivisionError

    def across(tx: Any) -> None:
        assert rows(tx.scoped(first.id), "SELECT code FROM taxes") == [(first.id,)]
        with pytest.raises(ZeroDivisionError):
            tx.savepoint(lambda: fail(tx))
        assert rows(tx.scoped(first.id), "SELECT code FROM taxes") == [(first.id,)]
        assert rows(tx.scoped(second.id), "SELECT code FROM taxes") == [(second.id,)]
        assert {(first.id,), (second.id,)} <= set(rows(tx, "SELECT code FROM taxes"))

    store.write(None, across)


def test_session_that_names_nobody_sees_nothing(url: str, store: Store) -> None:
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("vat"))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM taxes").fetchone() == (0,)
        connection.execute("SET LOCAL usagebill.organization = '*'")
        [counted] = connection.execute("SELECT count(*) FROM taxes").fetchone() or (0,)
        assert counted >= 1


def test_two_organizations_are_billed_behind_the_wall(url: str) -> None:
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    totals = {}
    with Billing(url, clock=clock, deliver=False) as first:
        organizations = [
            first._system.transact(lambda tx, name=name: create(tx, clock.now(), name)).id  # type: ignore[misc]
            for name in ("One", "Two")
        ]
    for calls, organization in enumerate(organizations, start=3):
        with Billing(url, organization=organization, clock=clock, deliver=False) as billing:
            metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
            billing.plans.create(**plan_fields(charge_on(metric.id, amount="2"), code="pro"))
            billing.customers.upsert(external_id="acme", currency="EUR")
            billing.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")
            billing.events.ingest(
                {"transaction_id": str(number), "code": "calls", "external_subscription_id": "acme-pro"}
                for number in range(calls)
            )
    clock.set(datetime(2024, 2, 1, 1, tzinfo=UTC))
    for organization in organizations:
        with Billing(url, organization=organization, clock=clock, deliver=False) as billing:
            billing.run_due()
            assert billing.reading(lambda reader: rows(reader.tx, "SELECT id FROM organizations")) == [(organization,)]
            totals[organization] = [invoice.fees_amount_cents for invoice in billing.invoices.list()]
            assert billing.audit().findings == ()
    subscription_fee = plan_fields()["amount_cents"]
    assert list(totals.values()) == [[subscription_fee + 3 * 200], [subscription_fee + 4 * 200]]


# Tables without rows of organizations: versions, the instants of sessions, the last backup, and the list of processes.
COMMON = {"backups", "clock", "migration", "usagebill_schema", "processes"}
VALUES: dict[str, Callable[[str, int], object]] = {
    "text": lambda name, number: name,
    "bytea": lambda name, number: name.encode(),
    "json": lambda name, number: "{}",
    "jsonb": lambda name, number: "{}",
    "text[]": lambda name, number: [name],
    "boolean": lambda name, number: False,
    "bigint": lambda name, number: number,
    "integer": lambda name, number: number,
    "numeric": lambda name, number: number,
}


def columns_of_tables(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[str, str]]]:
    """The columns that a row of each table must have, with their types."""
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind, is_required in connection.execute(
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull AND a.attidentity = ''"
        " OR a.attname IN ('id', 'organization_id') AND a.attidentity = ''"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' ORDER BY 1, a.attnum"
    ):
        columns.setdefault(table, []).extend([(column, kind)] if is_required else [])
    return columns


def add_rows(connection: psycopg.Connection[Any], tables: dict[str, list[tuple[str, str]]]) -> None:
    """Add a row of the organizations `one` and `two` to each table, whatever they refer to."""
    connection.execute("SET session_replication_role = replica")
    for table, columns in tables.items():
        for number, name in enumerate(("one", "two"), start=1):
            names = ", ".join(f'"{column}"' for column, _ in columns)
            values = [VALUES[kind](name, number) for _, kind in columns]
            marks = ", ".join(["%s"] * len(values))
            connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})'.encode(), values)


def test_every_table_hides_the_rows_of_other_organizations() -> None:
    with owned_database() as url:
        with Billing(url, deliver=False):
            pass
        command(url, "on")
        with psycopg.connect(superuser_at(url)) as administrator:
            tables = columns_of_tables(administrator)
            protected = {name: columns for name, columns in tables.items() if name not in COMMON}
            assert all(("organization_id", "text") in columns for columns in protected.values())
            administrator.execute("TRUNCATE " + ", ".join(protected))
            add_rows(administrator, protected)
        with psycopg.connect(url) as connection:
            for table in protected:
                shown = f'SELECT organization_id FROM "{table}" ORDER BY 1'.encode()
                with connection.transaction():
                    assert connection.execute(shown).fetchall() == [], table
                    connection.execute("SET LOCAL usagebill.organization = 'two'")
                    assert connection.execute(shown).fetchall() == [("two",)], table
                    taken = f"UPDATE \"{table}\" SET organization_id = 'two' WHERE organization_id = 'one'".encode()
                    assert connection.execute(taken).rowcount == 0, table
                    gone = f"DELETE FROM \"{table}\" WHERE organization_id = 'one'".encode()
                    assert connection.execute(gone).rowcount == 0, table
                    handed_over = f"UPDATE \"{table}\" SET organization_id = 'one'".encode()
                    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                        connection.execute(handed_over)
                    connection.execute("SET LOCAL usagebill.organization = '*'")
                    assert connection.execute(shown).fetchall() == [("one",), ("two",)], table


def superuser_at(url: str) -> str:
    known = {**conninfo_to_dict(url), "user": "postgres"}
    return "postgresql://?" + "&".join(f"{key}={value}" for key, value in known.items())


def test_it_can_be_turned_off_and_on_again_and_says_for_whom_it_holds() -> None:
    with owned_database() as url:
        with Billing(url, deliver=False) as billing:
            billing.customers.upsert(external_id="acme")
        assert "turned on for" in command(url, "on")
        assert command(url, "on") == "row security is on, and holds for this user\n"
        with Billing(url, deliver=False) as billing:
            assert [customer.external_id for customer in billing.customers.list()] == ["acme"]
        assert "does not hold for this user, who is a superuser" in command(superuser_at(url))
        assert "row security is off" in command(url, "off")
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM customers").fetchone() == (1,)


def test_a_file_has_no_row_security() -> None:
    result = CliRunner().invoke(main, ["row-security", "on", "--db", "billing.db"])
    assert result.exit_code == 2
    assert "row security needs PostgreSQL" in result.output
