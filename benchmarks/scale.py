"""The cost of counting with ClickHouse as events grow, against bare ClickHouse queries in the same run.

    python -m benchmarks.scale                        # 1,000,000 and 10,000,000 events, in the engine of this process
    python -m benchmarks.scale 10000000 100000000     # any numbers, each by itself
    python -m benchmarks.scale --events clickhouse://host:8123  # on a server, in a database of its own

Events are generated in the server, a ten-thousandth of them for each of 10,000 external subscription ids; a hundred
million take some 5 GB. What is measured:

- usage of one subscription as for a bill, by kind: the median and the second slowest of 100 queries of random
  subscriptions, and how the median grows with ten times the events;
- the same sum as a bare query with FINAL: an answer should take at most 1.5 times as long;
- the usage of 100 subscriptions, one by one and together, as in a billing run;
- a billing run of all 10,000: customers and invoices in SQLite, one charge each;
- shipping 100,000 more events in blocks of 20,000, and bytes an event on the server's disk.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from usagebill import Billing
from usagebill.clock import ManualClock
from usagebill.core.event_shipments import EventShipment
from usagebill.core.events import Event
from usagebill.operations import customers, subscriptions
from usagebill.storage.clickhouse import EventServers, StoreWithEvents
from usagebill.storage.clickhouse.answers import answers, answers_of
from usagebill.storage.clickhouse.rows import lines_of
from usagebill.storage.clickhouse.servers import Shard
from usagebill.storage.clickhouse.shipping import BLOCK
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.event_rows import microseconds
from usagebill.storage.stores import emptied_events
from usagebill.work import Work

SUBSCRIPTIONS, QUESTIONS, SHIPPED = 10_000, 100, 100_000
MOST_OF_BARE = 1.5
START = datetime(2024, 1, 1, tzinfo=UTC)
BILLED = datetime(2024, 2, 1, 1, tzinfo=UTC)
SUM = EventQuery(code="calls", external_subscription_id="", aggregation_type="sum_agg", field_name="value")
KINDS = {
    "count": replace(SUM, aggregation_type="count_agg"),
    "sum": SUM,
    "max": replace(SUM, aggregation_type="max_agg"),
    "latest": replace(SUM, aggregation_type="latest_agg"),
    "sum by 10 groups": replace(SUM, group_keys=("region",)),
    "unique, 10,000 users": replace(SUM, aggregation_type="unique_count_agg", field_name="user"),
}


def generate(servers: EventServers, organization_id: str, events: int, most_seconds: float) -> int:
    """Generate events; returns their number, fewer than wanted if it took too long."""
    started = time.perf_counter()
    shard = servers.shards[0]
    step = 30 * 86_400_000_000 // events
    for start in range(0, events, 1_000_000):
        if time.perf_counter() - started > most_seconds:
            return start
        count = min(1_000_000, events - start)
        shard.run(
            f"INSERT INTO {shard.table('events')} SELECT '{organization_id}',"
            f" concat('sub', toString(n % {SUBSCRIPTIONS})), true, 'calls',"
            f" {microseconds(START)} + n * {step}, n + 1, {microseconds(START)} + n * {step},"
            " toString(generateUUIDv4(n)), toString(generateUUIDv4(n + 1)), toJSONString(sent), sent,"
            " map('value', toInt64(value * 10000)), map(), map(), NULL, NULL"
            f" FROM (SELECT number + {start} AS n, intHash32(n * 7) % 1000 AS value, map('value',"
            " toString(value / 100), 'region', concat('r', toString(intHash32(n * 3) % 10)), 'user',"
            " concat('u', toString(intHash32(n) % 10000))) AS sent"
            f" FROM numbers({count}))"
        )
    return events


def milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1_000


def measured(url: str, folder: Path, events: int, most_seconds: float, before: dict[str, float]) -> bool:
    """Print the figures; returns whether an answer costs little more than the bare query. `before` has the previous
    run's medians by kind, and is updated with this run's.
    """
    file = folder / f"{events}.db"
    with emptied_events(url) as database, Billing(file, clock=ManualClock(START)) as billing:
        servers = EventServers(database)
        shard, organization = servers.shards[0], billing.organization.id
        table = shard.table("events")
        started = time.perf_counter()
        events = generate(servers, organization, events, most_seconds)
        took = time.perf_counter() - started
        print(f"\n{events:,} events, generated in {took:.0f} s; {events // SUBSCRIPTIONS:,} a subscription", flush=True)

        def ask(question: EventQuery, name: str) -> None:
            alike = replace(question, external_subscription_id=name)
            [tally] = answers(servers, organization, alike, None, events, ()).values()
            assert tally

        def bare(name: str) -> None:
            shard.rows(
                f"SELECT sum(toInt256(millionths['value'])) FROM {table} FINAL WHERE organization_id = '{organization}'"
                f" AND external_subscription_id = '{name}' AND code = 'calls'"
            )

        names = [f"sub{number}" for number in random.Random(1).choices(range(SUBSCRIPTIONS), k=QUESTIONS)]
        for kind, question in KINDS.items():
            ask(question, names[0])
            times = sorted(milliseconds(lambda: ask(question, name)) for name in names)  # noqa: B023
            median = statistics.median(times)
            growth = f"   {median / before[kind]:.2f} times the run before" if kind in before else ""
            before[kind] = median
            print(f"  {kind:<22} p50 {median:7.1f} ms   p99 {times[-2]:7.1f} ms{growth}", flush=True)
        pairs = [(milliseconds(lambda: ask(SUM, name)), milliseconds(lambda: bare(name))) for name in names]  # noqa: B023
        ratio = statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs)
        print(f"  sum beside a bare query with FINAL: {ratio:.2f} times (at most {MOST_OF_BARE})")
        for kind in ("sum", "unique, 10,000 users"):
            alone = sum(milliseconds(lambda: ask(KINDS[kind], name)) for name in names)  # noqa: B023
            together = milliseconds(lambda: answers_of(servers, organization, KINDS[kind], names, events, ()))  # noqa: B023
            print(f"  {kind} of 100 subscriptions: {alone:,.0f} ms one by one, {together:,.0f} ms together", flush=True)
        billing_run(billing, file, servers, database, events)
        rows, size = shard.rows(
            "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'usagebill_events'"
            f" AND database = '{table.split('`')[1]}'"
        )[0]
        print(f"  {size / rows:.1f} bytes an event")
        shipped = [
            (events + number + 1, sent(organization, number, START + timedelta(days=30, microseconds=number)))
            for number in range(SHIPPED)
        ]

        def ship() -> None:
            for start in range(0, SHIPPED, BLOCK):
                block = shipped[start : start + BLOCK]
                shard.insert("events", lines_of(block), insert_deduplication_token=f"block {start}")

        print(f"  shipping: {SHIPPED / milliseconds(ship) * 1_000:,.0f} events a second", flush=True)
        servers.close()
        return ratio <= MOST_OF_BARE


def billing_run(billing: Billing, file: Path, servers: EventServers, database: str, events: int) -> None:
    """Print the cost of billing January for all subscriptions, with events only in the event store."""
    metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="sum_agg", field_name="value")
    charge = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.001"}}
    billing.plans.create(
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=4900,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[charge],
    )

    def add(work: Work, numbers: range) -> None:
        for number in numbers:
            name = f"sub{number}"
            customers.upsert(work, customers.CustomerInput(external_id=name, name=name, currency="EUR"))
            wanted = subscriptions.SubscriptionInput(external_customer_id=name, plan_code="basic", external_id=name)
            subscriptions.create(work, wanted)

    for first in range(0, SUBSCRIPTIONS, 500):
        billing.writing(lambda work: add(work, range(first, first + 500)))  # noqa: B023
    shipment = EventShipment(
        id="benchmark",
        organization_id=billing.organization.id,
        event_store_id=servers.id,
        shipped_to=events,
        sending_to=events,
        is_read=True,
        created_at=START,
        updated_at=START,
    )
    billing.store.write(billing.organization.id, lambda tx: tx.insert(shipment))
    milliseconds: list[float] = []
    with Billing(file, events=database, clock=ManualClock(BILLED)) as biller:
        assert isinstance(biller.store, StoreWithEvents)
        for shard in biller.store.servers.shards:
            _time_queries(shard, milliseconds)
        started, used = time.perf_counter(), time.process_time()
        biller.run_due()
        took, used = time.perf_counter() - started, time.process_time() - used
        invoices = biller.invoices.list(per_page=1)
        assert invoices.total_count == SUBSCRIPTIONS
        assert invoices.items[0].fees_amount_cents > 4900
    print(
        f"  billing run: {SUBSCRIPTIONS:,} invoices in {took:.0f} s ({used:.0f} s of CPU time, the engine's included),"
        f" {len(milliseconds):,} queries to ClickHouse in {sum(milliseconds) / 1_000:.1f} s",
        flush=True,
    )


def _time_queries(shard: Shard, times: list[float]) -> None:
    query = shard.rows

    def timed(sql: str) -> object:
        rows: list[object] = []
        times.append(milliseconds(lambda: rows.append(query(sql))))
        return rows[0]

    shard.rows = timed  # type: ignore[method-assign,assignment]


def sent(organization_id: str, number: int, at: datetime) -> Event:
    properties = {"value": str(number % 1000 / 100), "region": f"r{number % 10}", "user": f"u{number * 7919 % 10_000}"}
    id = f"{random.getrandbits(128):032x}"
    return Event(id, organization_id, id[::-1], "calls", f"sub{number % SUBSCRIPTIONS}", at, properties, None, at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, default=[1_000_000, 10_000_000], help="events to generate")
    parser.add_argument("--events", help="a server; without it an engine in this process, in a temporary folder")
    parser.add_argument("--minutes", type=float, default=60, help="generate fewer events if it takes longer than this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before: dict[str, float] = {}
        url = options.events or f"chdb://{folder}"
        fits = [measured(url, Path(folder), events, options.minutes * 60, before) for events in options.numbers]
    sys.exit(0 if all(fits) else 1)


if __name__ == "__main__":
    main()
