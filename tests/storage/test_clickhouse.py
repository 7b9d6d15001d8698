"""Events beside the database in ClickHouse: every answer is that of the folds, however far events have been shipped."""

from __future__ import annotations

import json
import random
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, localcontext
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs
from tests.clickhouse_http import serving
from tests.postgresql import server_url
from tests.storage.events_contract import START, D, EventsContract, event, second

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.aggregation import AggregateResult
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.event_shipments import EventShipment
from usagebill.core.events import Event
from usagebill.fields import ChargeFields
from usagebill.storage.clickhouse import (
    Difference,
    EventServers,
    StoreWithEvents,
    UnusableEventStore,
    UsageDifference,
    differences,
    usage_differences,
)
from usagebill.storage.clickhouse.answers import ANSWERED
from usagebill.storage.clickhouse.rows import lines_of
from usagebill.storage.clickhouse.servers import Unreachable
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import Store, Transaction
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.sqlite import SqliteStore
from usagebill.testing import Sandbox

pytestmark = pytest.mark.second_engine

_databases = count(1)


@pytest.fixture(scope="session")
def folder() -> Iterator[str]:
    """Where the engine of this process keeps its files: it opens one folder, once."""
    with tempfile.TemporaryDirectory() as path:
        yield path


def urls(folder: str, shards: int = 1) -> str:
    return ",".join(f"chdb://{folder}?database=events{next(_databases)}" for _ in range(shards))


class _ShipsNowAndThen(StoreWithEvents):
    """After a write, some of the events that were stored are shipped, and some blocks are sent a second time."""

    def __init__(self, records: Store, servers: EventServers) -> None:
        super().__init__(records, servers, asked_from=0)
        self._random = random.Random(7)
        self.sent_again = 0

    def write(self, organization_id: str | None, change: Any) -> Any:
        if organization_id is not None:
            # The first time there is nothing yet, so that questions are put to the event store at once.
            self.shipping.ship(organization_id)
        result = super().write(organization_id, change)
        if organization_id is not None:
            chance = self._random.random()
            if chance < 0.6:
                self.shipping.ship(organization_id)
            if chance < 0.2:
                self._send_again(organization_id)
        return result

    def read(self, organization_id: str | None, question: Any) -> Any:
        if organization_id is not None and self._random.random() < 0.3:
            self.shipping.ship(organization_id)
        return super().read(organization_id, question)

    def _send_again(self, organization_id: str) -> None:
        """As if a block had been sent, and its acknowledgement lost, with a token that the server has forgotten."""
        events = self.records.read(organization_id, lambda tx: tx.events.stored_since(0, at_most=1_000))
        shipment = self.records.read(organization_id, lambda tx: tx.first(EventShipment))
        if events and shipment is not None and shipment.shipped_to:
            self.sent_again += 1
            again = [(place, event) for place, event in events if place <= shipment.shipped_to]
            self.shipping._send(EventShipment(**{**_fields(shipment), "id": f"again{self.sent_again}"}), again)


def _fields(shipment: EventShipment) -> dict[str, Any]:
    return {name: getattr(shipment, name) for name in EventShipment.__slots__}


@pytest.fixture(scope="class")
def store(folder: str) -> Iterator[Store]:
    """One store for the tests of a class: each has an organization of its own."""
    opened = _ShipsNowAndThen(SqliteStore(":memory:"), EventServers(urls(folder)))
    for shard in opened.servers.shards:
        # Thousands of blocks are sent; nothing here loses power.
        for table in ("events", "blocks"):
            shard.run(
                f"ALTER TABLE {shard.table(table)} MODIFY SETTING fsync_after_insert = 0, fsync_part_directory = 0"
            )
    yield opened
    opened.close()


class TestEvents(EventsContract):
    # Whose events an event store counts has none removed: `events_are_shipped`.
    test_events_are_removed_by_subscription_and_transaction_id: Any = None


# One shipment at a time


@pytest.fixture(params=["sqlite", "postgresql"])
def records(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Each engine that the event store may stand beside, empty."""
    if request.param == "sqlite":
        yield SqliteStore(":memory:")
        return
    with temporary_database(server_url()) as url:
        yield PostgresStore(url)


@pytest.fixture
def tenant(folder: str, records: Store) -> Iterator[_ShippedTenant]:
    """An organization whose questions are all put to the event store."""
    opened = StoreWithEvents(records, EventServers(urls(folder)), asked_from=0)
    yield _ShippedTenant(opened)
    opened.close()


class _ShippedTenant:
    def __init__(self, store: StoreWithEvents, id: str = "own") -> None:
        self.store = store
        self.id = id
        assert not self.ship()

    def append(self, *events: Event) -> None:
        assert self.store.write(self.id, lambda tx: tx.events.append(events)) == []

    def ship(self) -> bool:
        return self.store.shipping.ship(self.id)

    def total(self, aggregation_type: str = "sum_agg", subscription: str = "sub") -> Decimal:
        question = EventQuery(
            code="calls", external_subscription_id=subscription, aggregation_type=aggregation_type, field_name="value"
        )
        return self.store.read(self.id, lambda tx: tx.events.tallies(question))[()].units

    @property
    def shipment(self) -> EventShipment:
        known = self.store.records.read(self.id, lambda tx: tx.first(EventShipment))
        assert known is not None
        return known

    def rows(self) -> int:
        """How many rows the event store holds, those that are there twice included."""
        shard = self.store.servers.shards[0]
        return int(shard.rows(f"SELECT count() FROM {shard.table('events')}")[0][0])

    def differences(self) -> list[Difference]:
        return self.store.records.read(
            self.id, lambda tx: list(differences(tx, self.store.servers, self.id, self.shipment_in(tx).shipped_to))
        )

    @staticmethod
    def shipment_in(tx: Transaction) -> EventShipment:
        known = tx.first(EventShipment)
        assert known is not None
        return known


def test_an_event_counts_at_once_and_once_before_and_after_it_is_shipped(tenant: _ShippedTenant) -> None:
    tenant.append(event(tenant.id, 1, {"value": "0.1"}))
    assert tenant.total() == D("0.1")
    assert tenant.ship()
    assert (tenant.total(), tenant.rows()) == (D("0.1"), 1)
    assert not tenant.ship()
    tenant.append(event(tenant.id, 2, {"value": "0.2"}, at=START - timedelta(days=400)))
    assert tenant.total() == D("0.3")
    assert tenant.ship()
    assert (tenant.total(), tenant.rows()) == (D("0.3"), 2)


def test_sums_beyond_128_bits_and_thirteen_decimals_are_exact(tenant: _ShippedTenant) -> None:
    tenant.append(*(event(tenant.id, number, {"value": "1" + "0" * 26}) for number in range(1_000)))
    tenant.append(*(event(tenant.id, 1_000 + number, {"value": "0.1234567890123"}) for number in range(3)))
    tenant.append(event(tenant.id, 2_000, {"value": "9" * 64}), event(tenant.id, 2_001, {"value": "-" + "9" * 63}))
    assert tenant.ship()
    with localcontext() as context:
        context.prec = 100
        assert tenant.total() == 1_000 * D(10) ** 26 + D(int("9" * 64) - int("9" * 63)) + D("0.3703703670369")
    assert tenant.total("max_agg") == D("9" * 64)


@pytest.mark.parametrize("aggregation_type", sorted(ANSWERED))
def test_subscriptions_with_many_events_are_counted_by_the_event_store_and_the_others_by_the_database(
    folder: str, records: Store, aggregation_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = _ShippedTenant(StoreWithEvents(records, EventServers(urls(folder)), asked_from=20))

    def some(first: int) -> list[Event]:
        # Of 40 events, s1 has 20, s2 and s3 10 each.
        return [
            event(tenant.id, number, {"value": f"{number % 7}.5"}, subscription=name, at=second(number))
            for number, name in enumerate(("s1", "s2", "s1", "s3") * 10, first)
        ]

    question = EventQuery(
        code="calls",
        external_subscription_id="",
        aggregation_type=aggregation_type,
        field_name="value",
        earliest=second(3),
        latest=second(70),
    )
    ids = ["s2", "none", "s1", "s3"]
    tenant.append(*some(0))
    assert tenant.ship()
    # The second half is not shipped.
    tenant.append(*some(40))
    queries: list[str] = []
    shard = tenant.store.servers.shards[0]
    rows = shard.rows

    def noted(sql: str) -> Any:
        queries.append(sql)
        return rows(sql)

    monkeypatch.setattr(shard, "rows", noted)
    together, alone = (
        {
            id: store.read(
                tenant.id,
                lambda tx, id=id: tx.events.tallies(replace(question, external_subscription_id=id))[()],  # type: ignore[misc]
            )
            for id in ids
        }
        for store in (tenant.store, tenant.store.records)
    )
    # Latest values are looked up by their instants, and values that an event came for since one by one.
    assert len(queries) == (2 if aggregation_type in ("unique_count_agg", "latest_agg") else 1)
    assert all("'s1'" in query for query in queries)
    assert together == alone
    assert together["s1"].units > 0 == together["none"].units
    tenant.store.close()


def test_an_event_of_a_transaction_that_is_open_while_others_are_shipped_is_not_left_out(
    tenant: _ShippedTenant,
) -> None:
    # Its place in the order of storing is before that of another organization's event, which commits first.
    other = _ShippedTenant(tenant.store, "other")
    is_stored, may_commit = threading.Event(), threading.Event()

    def append(tx: Transaction) -> None:
        tx.events.append([event(tenant.id, 1, {"value": 1})])
        is_stored.set()
        may_commit.wait(60)

    writer = threading.Thread(target=lambda: tenant.store.write(tenant.id, append))
    writer.start()
    assert is_stored.wait(60)
    shipper = threading.Thread(target=tenant.ship)
    if isinstance(tenant.store.records, PostgresStore):
        # SQLite has one writer in all.
        other.append(event(other.id, 2, {"value": 1}))
        shipper.start()
        assert other.ship()
    else:
        shipper.start()
    may_commit.set()
    for thread in (writer, shipper):
        thread.join(60)
    assert tenant.total() == 1
    while tenant.ship():
        pass
    assert (tenant.total(), tenant.differences()) == (1, [])


def test_counts_stay_right_while_events_arrive_and_the_event_store_takes_over(folder: str, records: Store) -> None:
    stored = count(1)

    def some(number: int) -> list[Event]:
        return [event("own", next(stored), {"value": 1}) for _ in range(number)]

    records.write("own", lambda tx: tx.events.append(some(50)))
    tenant = _ShippedTenant.__new__(_ShippedTenant)
    tenant.store, tenant.id = StoreWithEvents(records, EventServers(urls(folder)), asked_from=0), "own"
    acknowledged = [50]

    def send() -> None:
        for _ in range(40):
            tenant.append(*some(5))
            acknowledged[0] += 5

    def check() -> None:
        before = acknowledged[0]
        total = tenant.total()
        assert before <= total
        assert total % 5 == 0

    # The sender may be done before the first turn of the loop.
    assert tenant.ship()
    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        tenant.ship()
        check()
        assert tenant.differences() == []
        tenant.store.shipping.read_from("own", event_store=True)
        check()
    sender.join()
    tenant.store.shipping.read_from("own", event_store=True)
    assert tenant.total() == acknowledged[0] == 250
    while tenant.ship():
        pass
    assert (tenant.total(), tenant.rows(), tenant.differences()) == (250, 250, [])
    tenant.store.shipping.read_from("own", event_store=False)
    assert tenant.total() == 250
    tenant.store.close()


def test_usage_that_differs_though_the_events_do_not_is_found_by_comparing(tenant: _ShippedTenant) -> None:
    tenant.store.write(
        tenant.id,
        lambda tx: tx.insert(
            BillableMetric(
                id="metric",
                organization_id=tenant.id,
                name="Calls",
                code="calls",
                aggregation_type="sum_agg",
                field_name="value",
                created_at=START,
                updated_at=START,
            )
        ),
    )
    tenant.append(*(event(tenant.id, number, {"value": 1}, subscription=f"s{number % 3}") for number in range(9)))
    assert tenant.ship()
    tenant.append(event(tenant.id, 9, {"value": 1}, subscription="s0"))

    def compared() -> list[UsageDifference]:
        return tenant.store.records.read(
            tenant.id,
            lambda tx: list(usage_differences(tx, tenant.store.servers, tenant.id, tenant.shipment_in(tx).shipped_to)),
        )

    assert compared() == []
    # The number that is added up, and not the properties that it was taken from.
    shard = tenant.store.servers.shards[0]
    shard.run(
        f"ALTER TABLE {shard.table('events')} UPDATE millionths = map('value', 5000000) WHERE id = '000004'",
        mutations_sync=2,
    )
    assert tenant.differences() == []
    assert compared() == [
        UsageDifference(
            external_subscription_id="s1",
            metric_code="calls",
            database=AggregateResult(units=D(3), events_count=3),
            event_store=AggregateResult(units=D(7), events_count=3),
        )
    ]


@pytest.mark.parametrize("after", ["blocks", "events"])
def test_a_process_that_dies_while_it_ships_has_its_block_sent_again(
    tenant: _ShippedTenant, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant.append(*(event(tenant.id, number, {"value": 1}) for number in range(10)))
    shard = tenant.store.servers.shards[0]
    insert = shard.insert

    def dies(table: str, *args: Any, **settings: Any) -> None:
        insert(table, *args, **settings)
        if table == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(shard, "insert", dies)
    with pytest.raises(KeyboardInterrupt):
        tenant.ship()
    monkeypatch.undo()
    # What is there already is no part of an answer until the place has moved.
    tenant.append(event(tenant.id, 10, {"value": 1}))
    assert tenant.total() == 11
    assert not tenant.ship()  # while the lease lasts
    tenant.store.records.write(tenant.id, lambda tx: tx.replace(replace(tenant.shipment_in(tx), leased_until=None)))
    assert tenant.ship()
    # The same block, though another event has come meanwhile, with the same token: no row is there twice.
    assert tenant.rows() == 10
    assert tenant.total() == 11
    assert tenant.ship()
    assert (tenant.rows(), tenant.total(), tenant.differences()) == (11, 11, [])


def test_a_block_whose_token_is_forgotten_counts_once_before_its_rows_are_merged(tenant: _ShippedTenant) -> None:
    tenant.append(*(event(tenant.id, number, {"value": 1}) for number in range(10)))
    assert tenant.ship()
    block = tenant.store.records.read(tenant.id, lambda tx: tx.events.stored_since(0, up_to=100, at_most=100))
    tenant.store.servers.shards[0].insert("events", lines_of(block), insert_deduplication_token="another")
    assert tenant.rows() == 20
    assert (tenant.total(), tenant.total("count_agg"), tenant.differences()) == (10, 10, [])


def test_an_event_store_that_lost_something_is_not_believed(tenant: _ShippedTenant) -> None:
    tenant.append(event(tenant.id, 1, {"value": 1}))
    assert tenant.ship()
    shard = tenant.store.servers.shards[0]
    for table in ("events", "blocks"):
        shard.run(f"TRUNCATE TABLE {shard.table(table)}")
    assert [(difference.database_count, difference.event_store_count) for difference in tenant.differences()] == [
        (1, 0)
    ]
    tenant.append(event(tenant.id, 2, {"value": 1}))
    assert not tenant.ship()
    assert "part of what it held is gone" in (tenant.shipment.fault or "")
    assert tenant.total() == 2
    tenant.store.shipping.begin_again(tenant.id)
    assert tenant.ship()
    tenant.store.shipping.read_from(tenant.id, event_store=True)
    assert (tenant.total(), tenant.rows(), tenant.shipment.fault) == (2, 2, None)


def test_a_database_that_was_put_back_to_an_older_state_does_not_ship(tenant: _ShippedTenant) -> None:
    tenant.append(event(tenant.id, 1, {"value": 1}))
    assert tenant.ship()
    before = tenant.shipment
    tenant.append(event(tenant.id, 2, {"value": 1}))
    assert tenant.ship()
    tenant.store.records.write(tenant.id, lambda tx: tx.replace(before))
    assert tenant.total() == 2
    assert not tenant.ship()
    assert "the database is an older state of itself" in (tenant.shipment.fault or "")
    assert tenant.total() == 2


def test_an_event_that_differs_is_found_by_comparing(tenant: _ShippedTenant) -> None:
    tenant.append(event(tenant.id, 1, {"value": 1}), event(tenant.id, 2, {"value": 1}, at=START + timedelta(days=1)))
    assert tenant.ship()
    assert tenant.differences() == []
    shard = tenant.store.servers.shards[0]
    shard.run(
        f"ALTER TABLE {shard.table('events')} UPDATE properties = '{{\"value\":2}}' WHERE id = '000002'",
        mutations_sync=2,
    )
    assert [
        (difference.external_subscription_id, difference.day.isoformat()) for difference in tenant.differences()
    ] == [("sub", "2024-01-02")]


def test_whoever_has_events_chooses_when_they_are_read_from_the_event_store(folder: str, records: Store) -> None:
    records.write("own", lambda tx: tx.events.append([event("own", 1, {"value": 1})]))
    tenant = _ShippedTenant.__new__(_ShippedTenant)
    tenant.store, tenant.id = StoreWithEvents(records, EventServers(urls(folder)), asked_from=0), "own"
    assert tenant.ship()
    shard = tenant.store.servers.shards[0]
    shard.run(f"TRUNCATE TABLE {shard.table('events')}")
    assert tenant.total() == 1
    tenant.store.shipping.read_from("own", event_store=True)
    # Its rows are gone: so it is the event store that answers.
    assert tenant.total() == 0
    tenant.store.shipping.read_from("own", event_store=False)
    assert tenant.total() == 1
    tenant.store.close()


def test_while_a_server_does_not_answer_the_database_counts(
    tenant: _ShippedTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant.append(event(tenant.id, 1, {"value": 1}))
    assert tenant.ship()

    def down(*_: object, **__: object) -> Any:
        raise Unreachable("down")

    monkeypatch.setattr(tenant.store.servers.shards[0], "rows", down)
    assert tenant.total() == 1
    tenant.append(event(tenant.id, 2, {"value": 1}))
    assert not tenant.store.ship_events()
    assert tenant.total() == 2


def test_a_server_over_http_counts_until_it_is_gone(records: Store, tmp_path: Path) -> None:
    with serving(str(tmp_path)) as address:
        url = f"clickhouse://{address}/usage"
        tenant = _ShippedTenant(StoreWithEvents(records, EventServers(url), asked_from=0))
        tenant.append(*(event(tenant.id, number, {"value": "0.1"}) for number in range(10)))
        assert tenant.ship()
        block = tenant.store.records.read(tenant.id, lambda tx: tx.events.stored_since(0, up_to=100, at_most=100))
        for _ in range(2):
            # The second is refused by its token, which goes by another way than the rows.
            tenant.store.servers.shards[0].insert("events", lines_of(block), insert_deduplication_token="again")
        assert tenant.rows() == 20
        tenant.append(event(tenant.id, 10, {"value": "0.1"}))
        another = EventServers(url)
        assert another.id == tenant.store.servers.id
        another.close()
        assert (tenant.total(), tenant.total("unique_count_agg"), tenant.differences()) == (D("1.1"), 1, [])
        with pytest.raises(UnusableEventStore, match="Authentication failed"):
            EventServers(url.replace("secret", "guessed"))
    with capture_logs() as logs:
        assert tenant.total() == D("1.1")
    assert [line["event"] for line in logs] == ["event_store_unreachable"]
    assert not tenant.store.ship_events()
    tenant.store.close()


def test_an_event_store_too_far_behind_is_said_in_the_log(
    tenant: _ShippedTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("usagebill.storage.clickhouse.store._TAIL_AT_MOST", 2)
    tenant.append(*(event(tenant.id, number, {"value": 1}) for number in range(3)))
    with capture_logs() as logs:
        assert (tenant.total(), tenant.total()) == (3, 3)
    assert logs == [
        {
            "event": "event_store_behind",
            "log_level": "warning",
            "organization": tenant.id,
            "waiting": 3,
            "counted_by": "database",
        }
    ]


@pytest.mark.parametrize(
    "wrong", ["mysql://host/db", "chdb://relative", "clickhouse://", "chdb:///x?unknown=1", "chdb:///x?asked_from=-1"]
)
def test_a_url_that_names_no_server_is_refused(wrong: str) -> None:
    with pytest.raises(UnusableEventStore, match="is not the URL of an event store"):
        EventServers(wrong)


def test_servers_are_not_given_in_another_order_or_number(folder: str) -> None:
    both = urls(folder, 2)
    EventServers(both).close()
    for other in (both.split(",")[0], ",".join(reversed(both.split(",")))):
        with pytest.raises(UnusableEventStore, match="another part of an event store"):
            EventServers(other)
    EventServers(both).close()


def test_subscriptions_are_spread_over_servers_and_each_is_counted_whole(folder: str) -> None:
    store = StoreWithEvents(SqliteStore(":memory:"), EventServers(urls(folder, 3)), asked_from=0)
    assert not store.shipping.ship("own")
    names: list[str | None] = [*(f"sub{number}" for number in range(12)), None]
    stored = [
        event("own", number, {"value": number}, subscription=name)
        for number, name in enumerate(name for name in names for _ in range(3))
    ]
    store.write("own", lambda tx: tx.events.append(stored))
    assert store.shipping.ship("own")
    counts = [int(shard.rows(f"SELECT count() FROM {shard.table('events')}")[0][0]) for shard in store.servers.shards]
    assert sum(counts) == len(stored)
    assert all(counts)
    for name in names[:-1]:
        assert name is not None
        question = EventQuery(
            code="calls", external_subscription_id=name, aggregation_type="sum_agg", field_name="value"
        )
        total = store.read("own", lambda tx: tx.events.tallies(question))[()].units  # noqa: B023
        assert total == sum(
            int(str(event.properties["value"])) for event in stored if event.external_subscription_id == name
        )
    store.close()


def test_a_sandbox_has_its_events_counted_beside_it(folder: str) -> None:
    with Sandbox(now="2024-01-01T00:00:00Z", events=f"chdb://{folder}") as box:
        store = box.billing.store
        assert isinstance(store, StoreWithEvents)
        box.billing.customers.upsert(external_id="acme")
        box.billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        metric = box.billing.billable_metrics.get("calls")
        charge: ChargeFields = {
            "billable_metric_id": metric.id,
            "charge_model": "standard",
            "properties": {"amount": "0.10"},
        }
        box.billing.plans.create(
            name="Basic",
            code="basic",
            interval="monthly",
            amount_cents=0,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[charge],
        )
        box.billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        for number in range(3):
            body = {"transaction_id": f"t{number}", "external_subscription_id": "sub", "code": "calls"}
            assert box.request("POST", "/api/v1/events", json={"event": body})[0] == 200
        shard = store.servers.shards[0]
        assert shard.rows(f"SELECT count() FROM {shard.table('events')} FINAL")[0][0] == 3
        # What is gone there is missing: it is the event store that counts.
        shard.run(f"ALTER TABLE {shard.table('events')} DELETE WHERE transaction_id = 't1'", mutations_sync=2)
        box.travel_to("2024-02-01T01:00:00Z")
        invoices = box.request("GET", "/api/v1/invoices")[1]["invoices"]
        assert [invoice["fees_amount_cents"] for invoice in invoices] == [20]


def test_an_organization_is_looked_after_from_the_command_line(folder: str, tmp_path: Path) -> None:
    path, events_url = str(tmp_path / "billing.db"), urls(folder)
    with Billing(path) as billing:
        billing.events.create(transaction_id="t1", external_subscription_id="sub", code="calls")

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["event-store", *words, "--db", path, "--events", events_url])

    assert "shipped up to place 1" in run("ship").output
    assert run("compare").output == "the same events on both sides\nthe same usage on both sides\n"
    assert json.loads(run("status", "--json").output)["reads_from"] == "database"
    assert run("read-from", "event-store").exit_code == 0
    assert json.loads(run("status", "--json").output) | {"event_store_id": ""} == {
        "event_store_id": "",
        "reads_from": "event-store",
        "shipped_to": 1,
        "waiting": 0,
        "waits_since": None,
        "fault": None,
    }
    servers = EventServers(events_url)
    shard = servers.shards[0]
    shard.run(f"TRUNCATE TABLE {shard.table('events')}")
    servers.close()
    assert (run("compare").exit_code, run("ship-again").exit_code) == (1, 0)
    assert (run("ship").exit_code, run("compare").exit_code) == (0, 0)
    assert (
        "is not the URL of an event store"
        in CliRunner().invoke(main, ["serve", "--db", path, "--events", "x://y"]).output
    )
