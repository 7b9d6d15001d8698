"""The PostgreSQL engine keeps the contract, on a real server, whatever several machines do at once."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from tests.postgresql import new_database, server_url
from tests.storage.contract import NOW, Tenant, TransactionsContract, new_tenant, second
from tests.storage.events_contract import EventsContract, event
from tests.storage.jobs_contract import JobsContract
from tests.storage.preloading_contract import PreloadingContract
from tests.storage.records_contract import RecordsContract
from tests.storage.unchecked_contract import UncheckedContract
from tests.storage.versions_contract import VersionsContract

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.organizations import Organization
from usagebill.core.taxes import Tax
from usagebill.operations import organizations
from usagebill.storage.conditions import contains, eq
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.postgresql import PostgresStore, schema
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.events import dialect as usage
from usagebill.storage.postgresql.listed import ITEM_KEYS, text_indexes
from usagebill.storage.postgresql.transaction import PostgresTransaction
from usagebill.storage.sqlite.schema import ForeignFile, NewerFile, OlderFile

pytestmark = pytest.mark.second_engine


@pytest.fixture(scope="class")
def store() -> Iterator[Store]:
    """One store for the tests of a class: each has an organization of its own."""
    with temporary_database(server_url()) as url:
        opened = PostgresStore(url)
        yield opened
        opened.close()


class TestEvents(EventsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestJobs(JobsContract):
    pass


class TestPreloading(PreloadingContract):
    pass


class TestVersions(VersionsContract):
    pass


class TestTransactions(TransactionsContract):
    pass


class TestUnchecked(UncheckedContract):
    pass


@pytest.fixture
def url() -> Iterator[str]:
    with temporary_database(server_url()) as database:
        yield database


@pytest.fixture
def machines(url: str) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores of one database, which know nothing of each other."""
    first, second = PostgresStore(url), PostgresStore(url)
    yield first, second
    first.close()
    second.close()


def together(*acts: Callable[[], object]) -> None:
    """Run these beside each other, each to its end."""
    problems: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems
    assert not any(thread.is_alive() for thread in threads)


# Several machines


def test_what_one_checks_and_writes_no_other_writes_in_between(machines: tuple[PostgresStore, PostgresStore]) -> None:
    tenant = new_tenant(machines[0])

    def add_if_few(tx: Transaction) -> None:
        # No constraint says that there are three at most.
        if tx.count(Tax) < 3:
            tx.insert(tenant.tax(f"t{tx.count(Tax)}"))

    together(*(lambda store=store: [store.write(tenant.id, add_if_few) for _ in range(20)] for store in machines))
    assert tenant.read(lambda tx: tx.count(Tax)) == 3


def test_what_was_read_before_the_lock_was_held_is_read_again(machines: tuple[PostgresStore, PostgresStore]) -> None:
    first, second = machines
    tenant = new_tenant(first)
    tax = tenant.tax("t")
    tenant.write(lambda tx: tx.insert(tax))
    renamed, renamed_again = replace(tax, name="Renamed"), replace(tax, name="Renamed again")

    def across_organizations(tx: PostgresTransaction) -> None:
        assert tx.get(Tax, tax.id) == tax
        assert tx.find(Tax, eq("name", "Renamed")) == tx.find(Tax, eq("name", "Renamed again")) == []
        second.write(tenant.id, lambda other: other.replace(renamed))
        scoped = tx.scoped(tenant.id)
        # Nothing has been asked for within the organization, so the others still write.
        assert tx.find(Tax, eq("name", "Renamed")) == [renamed]
        second.write(tenant.id, lambda other: other.replace(renamed_again))
        assert scoped.find(Tax, eq("name", "Renamed")) == []
        assert scoped.get(Tax, tax.id) == renamed_again
        assert tx.find(Tax, eq("name", "Renamed again")) == [renamed_again]

    first.write(None, across_organizations)


def test_numbers_are_gapless_however_many_machines_take_them(machines: tuple[PostgresStore, PostgresStore]) -> None:
    tenant = new_tenant(machines[0])
    numbers: list[int] = []

    def take(store: PostgresStore) -> None:
        numbers.extend(store.write(tenant.id, lambda tx: tx.next_number("invoices")) for _ in range(50))

    together(*(lambda store=store: take(store) for store in machines))
    assert sorted(numbers) == list(range(1, 101))


def test_processes_that_open_an_empty_database_at_once_share_one_organization(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, both = organizations.create, threading.Barrier(2)
    opened: list[str] = []

    def create_when_both_want_to(*arguments: Any) -> Organization:
        with suppress(threading.BrokenBarrierError):
            both.wait(1)
        return create(*arguments)

    def open_it() -> None:
        with Billing(url) as billing:
            opened.append(billing.organization.id)

    monkeypatch.setattr(organizations, "create", create_when_both_want_to)
    together(open_it, open_it)
    assert len(opened) == 2
    assert len(set(opened)) == 1


def test_organizations_do_not_wait_for_each_other(machines: tuple[PostgresStore, PostgresStore]) -> None:
    first, second = machines
    tenant, other = new_tenant(first), new_tenant(second)

    def write_within(tx: Transaction) -> int:
        tx.next_number("n")
        done: list[int] = []
        writer = threading.Thread(target=lambda: done.append(other.write(lambda tx: tx.next_number("n"))))
        writer.start()
        writer.join(30)
        return len(done)

    assert tenant.write(write_within) == 1


def test_a_job_is_done_once_by_whichever_machine_comes_first(machines: tuple[PostgresStore, PostgresStore]) -> None:
    tenants = [new_tenant(machines[0]) for _ in range(4)]
    jobs = [tenant.job(f"k{number}") for tenant in tenants for number in range(25)]
    machines[0].write(None, lambda tx: [tx.jobs.add(job) for job in jobs])
    done: list[str] = []

    def work(store: PostgresStore) -> None:
        def some(tx: Transaction) -> list[str]:
            keys: list[str] = []
            while len(keys) < 7 and (job := tx.jobs.claim(NOW)) is not None:
                tx.scoped(job.organization_id).jobs.complete(job)
                keys.append(f"{job.organization_id} {job.key}")
            return keys

        while keys := store.write(None, some):
            done.extend(keys)

    together(*(lambda store=store: work(store) for store in machines * 2))
    assert sorted(done) == sorted(f"{tenant.id} k{number}" for tenant in tenants for number in range(25))


def test_a_job_that_another_machine_is_doing_is_left_to_it(machines: tuple[PostgresStore, PostgresStore]) -> None:
    first, second = machines
    busy, free = new_tenant(first), new_tenant(first)
    busy.write(lambda tx: tx.jobs.add(busy.job("busy", at=second_(-9))))
    free.write(lambda tx: tx.jobs.add(free.job("free", at=second_(-1))))
    claimed: list[str | None] = []

    def claim(tx: Transaction) -> None:
        job = tx.jobs.claim(NOW)
        claimed.append(None if job is None else job.key)

    def claim_both(tx: Transaction) -> None:
        claim(tx)
        other = threading.Thread(target=lambda: second.write(None, claim))
        other.start()
        other.join(30)

    first.write(None, claim_both)
    assert claimed == ["busy", "free"]


second_ = second


def test_two_that_wait_for_each_other_both_end(machines: tuple[PostgresStore, PostgresStore]) -> None:
    tenant, other = new_tenant(machines[0]), new_tenant(machines[0])
    both = threading.Barrier(2)

    def change(store: PostgresStore, ids: list[str]) -> None:
        met: list[bool] = []

        def act(tx: Transaction) -> None:
            tx.scoped(ids[0]).next_number("n")
            if not met:
                met.append(True)
                both.wait(30)
            tx.scoped(ids[1]).next_number("n")

        store.write(None, act)

    together(lambda: change(machines[0], [tenant.id, other.id]), lambda: change(machines[1], [other.id, tenant.id]))
    assert tenant.read(lambda tx: tx.last_numbers("n")[0]) == 2
    assert other.read(lambda tx: tx.last_numbers("n")[0]) == 2


def test_events_get_their_places_in_the_order_of_commits(machines: tuple[PostgresStore, PostgresStore]) -> None:
    tenant = new_tenant(machines[0])
    seen: list[int] = []

    def append_one(sent: Event, tx: Transaction) -> list[int]:
        return tx.events.append([sent])

    def append(store: PostgresStore, first: int) -> None:
        for number in range(first, first + 30):
            sent = event(tenant.id, number)
            store.write(tenant.id, partial(append_one, sent))
            seen.append(store.read(tenant.id, lambda tx: tx.events.latest()))

    together(lambda: append(machines[0], 0), lambda: append(machines[1], 100))
    assert tenant.read(lambda tx: tx.events.count(EventFilter())) == 60
    assert max(seen) == 60


def test_the_time_is_the_server_s_and_never_runs_back_within_an_organization(url: str) -> None:
    with Billing(url) as first, Billing(url) as other:
        instants: list[datetime] = []
        for billing in (first, other) * 5:
            customer = billing.customers.upsert(external_id=f"c{len(instants)}")
            instants.append(customer.created_at)
        assert instants == sorted(instants)
        assert abs(first.clock.now() - other.clock.now()) < timedelta(seconds=30)


# Crashes

_WRITER = """
import sys
from usagebill import Billing
billing = Billing(sys.argv[1])
for number in range(10_000):
    billing.customers.upsert(external_id=f"c{number}")
    print(number, flush=True)
"""


@pytest.mark.slow
def test_what_was_acknowledged_before_a_process_was_killed_is_there_and_nothing_is_locked(url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, env=dict(os.environ), text=True
    ) as process:
        assert process.stdout is not None
        acknowledged = -1
        while acknowledged < 20:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    with Billing(url) as billing:
        names = {customer.external_id for customer in billing.reading(lambda reader: reader.tx.find(Customer))}
        assert {f"c{number}" for number in range(acknowledged + 1)} <= names
        billing.customers.upsert(external_id="after")


def test_a_connection_that_the_server_has_closed_is_replaced(url: str) -> None:
    store = PostgresStore(url)
    tenant = new_tenant(store)
    tenant.insert(tenant.tax("a"))
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    tenant.insert(tenant.tax("b"))
    assert tenant.read(lambda tx: tx.count(Tax)) == 2
    store.close()


# Texts


def test_any_text_that_is_accepted_comes_back(store_of_one: Tenant) -> None:
    names = ["a\0b", "\ue000", "\ue0000\0", "\U0001f600", "", "100% _\\"]
    for number, name in enumerate(names):
        store_of_one.insert(store_of_one.tax(f"t{number}", name=name))
    names_by_code = store_of_one.read(lambda tx: {tax.code: tax.name for tax in tx.find(Tax)})
    assert names_by_code == {f"t{number}": name for number, name in enumerate(names)}


@pytest.fixture
def store_of_one(url: str) -> Iterator[Tenant]:
    store = PostgresStore(url)
    yield new_tenant(store)
    store.close()


def test_a_page_beyond_any_number_of_rows_is_empty(store_of_one: Tenant) -> None:
    store_of_one.insert(store_of_one.tax("a"))
    far = 10**30
    assert store_of_one.read(lambda tx: tx.find(Tax, limit=far, offset=0)) != []
    assert store_of_one.read(lambda tx: tx.find(Tax, limit=5, offset=far)) == []
    assert store_of_one.read(lambda tx: tx.events.find(EventFilter(), limit=far, offset=far)) == []
    assert store_of_one.read(lambda tx: tx.events.in_ranges([], limit=far, offset=far)) == []


# Schema

DIGESTS = {
    1: "5573d00df64f0982",
    2: "68f6320588cd3cd9",
    3: "b170de872d99fee9",
    4: "fab729d64c60bad8",
    5: "f3139ed7ebc07c48",
    6: "c0fd74434bc2e588",
    7: "8dae324e5342cd38",
    # Other triggers keep the same tables.
    8: "8dae324e5342cd38",
    9: "8e4a5f61a9ce7140",
    10: "f3b0edad4b948946",
    11: "bf4bc6052735affb",
    # Lists are read from other tables and indexes.
    13: "f4041807106c78c0",
    14: "2590d29490867a5e",
    15: "7df1989c03e004cb",
    16: "537139711e519944",
    17: "449395b3a1a4193c",
    # Events that lie ahead of the clock have an index of their own.
    18: "324011942470fe44",
}


def test_tables_change_only_with_the_version() -> None:
    """A new digest needs the next version. Tables of records go by SQLite's version (`test_schema`)."""
    statements = (
        schema.FIXED,
        *schema.SETTINGS,
        usage.TABLES,
        *usage.TRIGGERS,
        ITEM_KEYS,
        *(statement for _, statement in text_indexes()),
    )
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16]
    assert DIGESTS[max(DIGESTS)] == digest
    assert max(DIGESTS) == schema.VERSION


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def columns(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT table_name, column_name, data_type, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()


def triggers(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1").fetchall()
    return [row[0] for row in rows]


def indexes(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1").fetchall()
    return [row[0] for row in rows]


def looked_at_after(url: str) -> dict[str, str]:
    """After how many changed rows the server looks at a table again, where that is set."""
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute(
                "SELECT relname, option_value FROM pg_class, pg_options_to_table(reloptions)"
                " WHERE option_name = 'autovacuum_analyze_threshold'"
            ).fetchall()
        )


def known_organizations(url: str) -> set[str]:
    """The organizations of which the server knows that they have many events."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT most_common_vals::text::text[] FROM pg_stats"
            " WHERE tablename = 'events' AND attname = 'organization_id'"
        ).fetchone()
    return set() if row is None else set(row[0])


def test_the_server_looks_at_its_tables_when_an_organization_has_come_to_many_events() -> None:
    with temporary_database(server_url()) as url:
        store = PostgresStore(url)
        large, new = new_tenant(store), new_tenant(store)
        for tenant in (large, new):
            tenant.insert(
                Organization(
                    id=tenant.id,
                    organization_id=tenant.id,
                    name="Acme",
                    hmac_key="",
                    created_at=NOW,
                    updated_at=NOW,
                    document_number_prefix="ACM-0001",
                )
            )

        def send(tenant: Tenant, first: int, count: int) -> None:
            tenant.write(lambda tx: tx.events.append([event(tenant.id, first + number) for number in range(count)]))
            # The server counts what a connection has changed now, not a second later.
            store.transact(lambda connection: connection.execute("SELECT pg_stat_force_next_flush()"))

        send(large, 0, 2_000)
        run(url, "ANALYZE")
        send(new, 0, 999)
        assert not store.roll_up_usage()
        assert known_organizations(url) == {large.id}
        send(new, 999, 1)
        # Somebody else's worker: this one has just asked.
        other = PostgresStore(url)
        other.roll_up_usage()
        assert known_organizations(url) == {large.id, new.id}
        other.close()
        store.close()


def counted_by_the_server(url: str, table: str) -> int:
    """The number of rows that the server plans with; 0 or less before the first ANALYZE of any."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT reltuples::int FROM pg_class WHERE relname = %s", (table,)).fetchone()
    assert row is not None
    return int(row[0])


def test_the_server_looks_at_a_table_that_has_doubled() -> None:
    # A database that is used again remembers what it counted before.
    with new_database() as url:
        # A single session: the server learns of its changes once it is told to flush them.
        store = PostgresStore(url, connections=1)
        tenant = new_tenant(store)

        def worked() -> int:
            """The rows that the server plans with after a worker has looked."""
            store.ask(lambda connection: connection.execute("SELECT pg_stat_force_next_flush()"))
            another = PostgresStore(url)
            another.roll_up_usage()
            another.close()
            return counted_by_the_server(url, "jobs")

        def schedule(first: int, count: int) -> None:
            jobs = [tenant.job(f"job {first + number}") for number in range(count)]
            assert tenant.write(lambda tx: tx.jobs.add(*jobs))

        schedule(0, 900)
        assert worked() <= 0
        schedule(900, 300)
        assert worked() == 1_200
        schedule(1_200, 1_000)
        assert worked() == 1_200
        schedule(2_200, 300)
        assert worked() == 2_500
        store.close()


def test_an_older_database_is_brought_forward_with_its_rows() -> None:
    with new_database() as url:
        store = PostgresStore(url)
        tenant = new_tenant(store)
        tax, entity = tenant.tax("vat", description=""), tenant.entity()
        customer = tenant.customer(entity, name="Stra\u00dfe")
        tenant.insert(tax, entity, customer)
        store.close()
        current_columns, current_triggers = columns(url), triggers(url)
        run(
            url,
            "ALTER TABLE taxes DROP COLUMN auto_generated",
            "ALTER TABLE customers DROP COLUMN name__folded",
            "ALTER TABLE taxes ALTER COLUMN description SET NOT NULL",
            "DROP INDEX taxes_unique_code",
            "ALTER TABLE events RESET (autovacuum_analyze_threshold)",
            "DROP TABLE customers_counts, usage_series, usage_totals, usage_rolled_up",
            "DROP FUNCTION usage_events_deleted, usage_event_changed, usage_events_truncated CASCADE",
            "UPDATE usagebill_schema SET version = 2, records = 2",
        )
        with pytest.raises(OlderFile):
            PostgresStore(url, read_only=True)
        store = PostgresStore(url)
        assert store.read(tenant.id, lambda tx: tx.find(Tax)) == [tax]
        assert store.read(tenant.id, lambda tx: tx.find(Customer, contains(["name"], "STRASSE"))) == [customer]
        store.write(tenant.id, lambda tx: tx.replace(replace(tax, description=None)))
        store.close()
        assert columns(url) == current_columns
        assert triggers(url) == current_triggers != []
        assert looked_at_after(url) == dict.fromkeys(schema.GROWING, "10000")
        PostgresStore(url, read_only=True).close()


def test_states_of_version_10_make_way_for_totals() -> None:
    with new_database() as url:
        PostgresStore(url).close()
        current_columns, current_triggers = columns(url), triggers(url)
        run(
            url,
            "DROP TABLE usage_series, usage_totals, usage_rolled_up",
            "CREATE TABLE usage_series (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, organization_id text,"
            " external_subscription_id text, code text, digest text, kind text, field text, keys text, form integer,"
            " width bigint, stage integer, base bigint, built_to bigint)",
            "CREATE TABLE usage_slots (series bigint, slot bigint, organization_id text)",
            "CREATE TABLE usage_states (series bigint, slot bigint, digest bytea, organization_id text)",
            "CREATE TABLE usage_rolled_up (organization_id text PRIMARY KEY, sequence bigint NOT NULL)",
            "CREATE TABLE usage_dropped (series bigint PRIMARY KEY, organization_id text)",
            "CREATE FUNCTION usage_series_dropped() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
            "CREATE TRIGGER usage_series_dropped AFTER DELETE ON usage_series FOR EACH ROW"
            " EXECUTE FUNCTION usage_series_dropped()",
            "UPDATE usagebill_schema SET version = 10, records = 54",
        )
        PostgresStore(url).close()
        assert columns(url) == current_columns
        assert triggers(url) == current_triggers


def test_many_that_open_an_empty_database_at_once_make_one_schema() -> None:
    with new_database() as url:
        together(*[lambda: Billing(url).close()] * 4)
        store = PostgresStore(url)
        assert len(store.read(None, lambda tx: tx.find(Organization))) >= 1
        store.close()


def test_a_server_that_is_not_there_is_said_at_once_without_the_password() -> None:
    ran = CliRunner().invoke(main, ["status", "--db", "postgresql://billing:secret@127.0.0.1:1/billing"])
    assert ran.exit_code == 1
    assert "postgresql://127.0.0.1:1/billing: " in ran.output
    assert "refused" in ran.output
    assert "secret" not in ran.output


def test_a_newer_database_is_refused() -> None:
    with new_database() as url:
        PostgresStore(url).close()
        run(url, "UPDATE usagebill_schema SET records = 999, rolls_from = 999")
        with pytest.raises(NewerFile, match="999"):
            PostgresStore(url)


def test_a_database_of_something_else_is_left_alone() -> None:
    with new_database() as url:
        run(url, "CREATE TABLE theirs (id integer)")
        with pytest.raises(ForeignFile, match="theirs"):
            PostgresStore(url)
        assert {row[0] for row in columns(url)} == {"theirs"}
