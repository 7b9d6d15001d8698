"""The cost of counting with ClickHouse as events grow, against bare ClickHouse queries in the same run.

    python -m benchmarks.scale                        # 1,000,000 and 10,000,000 events, in the engine of this process
    python -m benchmarks.scale 10000000 100000000     # any numbers, each by itself
    python -m benchmarks.scale --events clickhouse://host:8123  # on a server, in a database of its own
    python -m benchmarks.scale --folder /data/scale   # keeps what it generates there, and measures it again next time

Events are generated in the server, a ten-thousandth of them for each of 10,000 external subscription ids; a hundred
million take some 5 GB, and 3 to 5 minutes of CPU time. What is measured:

- usage of one subscription as for a bill, by kind: the median and the second slowest of 100 queries of random
  subscriptions, in wall-clock and, with the engine of this process, in CPU time of all its threads; and how the median
  grows with ten times the events;
- the same sum as a bare query with FINAL: an answer should take at most 1.5 times as long;
- the usage of 100 subscriptions, as in a billing run;
- all kinds of one subscription, as for the charges of a bill;
- a billing run of all 10,000: customers and invoices in SQLite, one charge each;
- shipping 100,000 more events in blocks of 20,000, and bytes an event on the server's disk.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from usagebill import Billing
from usagebill.core.event_shipments import EventShipment
from usagebill.core.events import Event
from usagebill.fields import ChargeFields
from usagebill.operations import customers, subscriptions
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.clickhouse import EventServers, StoreWithEvents
from usagebill.storage.clickhouse.answers import counted
from usagebill.storage.clickhouse.rows import lines_of
from usagebill.storage.clickhouse.servers import Shard
from usagebill.storage.clickhouse.shipping import BLOCK
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.event_rows import microseconds
from usagebill.storage.stores import emptied_events

SUBSCRIPTIONS, QUESTIONS, SHIPPED = 10_000, 100, 100_000
# Subscriptions whose events are generated together.
RANGE = 500
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
    """Generate the events that are not there yet, range by range of subscriptions; returns the number of subscriptions
    that have all theirs, fewer than all if it took too long.

    In the order of the table's key: nine tenths of a subscription's events are in one run of parts, nine hundredths in
    another and the rest in a third, as merges leave a table to which events are added. Merges stop: they would only
    compete with the queries.
    """
    started = time.perf_counter()
    shard = servers.shards[0]
    table = shard.table("events")
    shard.run(f"SYSTEM STOP MERGES {table}")
    step = 30 * 86_400_000_000 // events
    [[generated]] = shard.rows(f"SELECT count() FROM {table} WHERE sequence <= {events}")
    each, begun = events // SUBSCRIPTIONS, 0
    for start in range(0, SUBSCRIPTIONS, RANGE):
        if begun >= generated and time.perf_counter() - started > most_seconds:
            return start
        for first, last in pairwise((0, each * 90 // 100, each * 99 // 100, each)):
            together = max(1, 1_000_000 // max(1, last - first))
            for subscription in range(start, start + RANGE, together):
                count = min(together, start + RANGE - subscription) * (last - first)
                begun += count
                if count and begun > generated:
                    _insert(shard, organization_id, subscription, first, last - first, count, step)
    return SUBSCRIPTIONS


def _insert(
    shard: Shard, organization_id: str, subscription: int, first: int, each: int, count: int, step: int
) -> None:
    """Generate `count` events, `each` of a subscription from its `first` on, a `step` in microseconds apart."""
    shard.run(
        f"INSERT INTO {shard.table('events')} SELECT '{organization_id}', name, true, 'calls',"
        f" {microseconds(START)} + n * {step}, n + 1, {microseconds(START)} + n * {step},"
        ' toString(generateUUIDv4(n)), toString(generateUUIDv4(n + 1)), concat(\'{"value":"\', value,'
        ' \'","region":"\', region, \'","user":"\', user, \'"}\'),'
        " map('value', value, 'region', region, 'user', user), map('value', toInt64(hundredths * 10000)),"
        " map(), map(), NULL, NULL"
        f" FROM (SELECT {subscription} + intDiv(number, {each}) AS subscription,"
        f" ({first} + number % {each}) * {SUBSCRIPTIONS} + subscription AS n,"
        " concat('sub', leftPad(toString(subscription), 5, '0')) AS name, intHash32(n * 7) % 1000 AS hundredths,"
        " toString(hundredths / 100) AS value, concat('r', toString(intHash32(n * 3) % 10)) AS region,"
        f" concat('u', toString(intHash32(n) % 10000)) AS user FROM numbers({count}))",
        # No event is there twice, so looking for duplicates would only take time; a block is one part, not four.
        optimize_on_insert=0,
        min_insert_block_size_bytes=0,
    )


def name_of(subscription: int) -> str:
    return f"sub{subscription:05}"


def milliseconds(act: Callable[[], object]) -> float:
    return cost(act)[0]


def cost(act: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU time of this process, with its threads."""
    started, used = time.perf_counter(), time.process_time()
    act()
    return (time.perf_counter() - started) * 1_000, (time.process_time() - used) * 1_000


def p50_and_p99(times: Iterable[float]) -> str:
    ordered = sorted(times)
    return f"p50 {statistics.median(ordered):7.1f} ms   p99 {ordered[-2]:7.1f} ms"


@contextmanager
def events_at(url: str, folder: Path | None, events: int) -> Iterator[str]:
    """The URL of an event store: a new one on the server, or in the folder one that is kept for this many events."""
    if folder is None:
        with emptied_events(url) as database:
            yield database
    else:
        yield f"chdb://{folder.resolve()}/events?database=events{events}&asked_from=0"


def measured(url: str, folder: Path, events: int, most_seconds: float, before: dict[str, float], *, kept: bool) -> bool:
    """Print the figures; returns whether an answer costs little more than the bare query. `before` has the previous
    run's medians by kind, and is updated with this run's.
    """
    file = folder / f"{events}.db"
    with (
        events_at(url, folder if kept else None, events) as database,
        Billing(file, clock=ManualClock(START)) as billing,
    ):
        servers = EventServers(database)
        shard, organization = servers.shards[0], billing.organization.id
        table = shard.table("events")
        started = time.perf_counter()
        existing = generate(servers, organization, events, most_seconds)
        took = time.perf_counter() - started
        print(
            f"\n{events // SUBSCRIPTIONS * existing:,} of {events:,} events, generated in {took:.0f} s:"
            f" {events // SUBSCRIPTIONS:,} each of {existing:,} subscriptions",
            flush=True,
        )
        [[parts, rows, size]] = shard.rows(
            "SELECT count(), sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND"
            f" table = 'usagebill_events' AND database = '{table.split('`')[1]}'"
        )
        print(f"  {size / rows:.1f} bytes an event; {parts} parts", flush=True)

        def ask(question: EventQuery, name: str) -> None:
            alike = replace(question, external_subscription_id=name)
            assert billing.reading(lambda reader: counted(servers, organization, alike, None, events, reader.tx.events))

        def bare(name: str) -> None:
            shard.rows(
                f"SELECT sum(toInt256(millionths['value'])) FROM {table} FINAL WHERE organization_id = '{organization}'"
                f" AND external_subscription_id = '{name}' AND code = 'calls'"
            )

        names = [name_of(number) for number in random.Random(1).choices(range(existing), k=QUESTIONS)]
        for kind, question in KINDS.items():
            ask(question, names[0])
            times = [cost(lambda: ask(question, name)) for name in names]  # noqa: B023
            median = statistics.median(clock for clock, _ in times)
            growth = f"   {median / before[kind]:.2f} times the run before" if kind in before else ""
            before[kind] = median
            print(
                f"  {kind:<22} {p50_and_p99(clock for clock, _ in times)}, of CPU time"
                f" {p50_and_p99(used for _, used in times)}{growth}",
                flush=True,
            )
        pairs = [(milliseconds(lambda: ask(SUM, name)), milliseconds(lambda: bare(name))) for name in names]  # noqa: B023
        ratio = statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs)
        print(f"  sum beside a bare query with FINAL: {ratio:.2f} times (at most {MOST_OF_BARE})")
        for kind in ("sum", "unique, 10,000 users"):
            alone = sum(milliseconds(lambda: ask(KINDS[kind], name)) for name in names)  # noqa: B023
            print(f"  {kind} of 100 subscriptions: {alone:,.0f} ms one by one", flush=True)
        apart = sum(milliseconds(lambda: ask(kind, name)) for name in names[:10] for kind in KINDS.values())  # noqa: B023
        print(f"  all of these of 10 subscriptions: {apart:,.0f} ms one by one")
        if billing.subscriptions.list(per_page=1).total_count == 0:
            add_subscriptions(billing, servers, events, existing)
        billed = folder / f"{events}-billed.db"
        with sqlite3.connect(file) as subscribed, sqlite3.connect(billed) as copy:
            subscribed.backup(copy)
        billing_run(billed, database, existing)
        shipped = [
            (events + number + 1, sent(organization, number, START + timedelta(days=30, microseconds=number)))
            for number in range(SHIPPED)
        ]

        def ship() -> None:
            for start in range(0, SHIPPED, BLOCK):
                block = shipped[start : start + BLOCK]
                shard.insert("events", lines_of(block), insert_deduplication_token=f"block {start}")

        took, used = cost(ship)
        rate = SHIPPED / took * 1_000
        print(f"  shipping: {rate:,.0f} events a second, {used * 1_000 / SHIPPED:.0f} µs of CPU time each", flush=True)
        servers.close()
        return ratio <= MOST_OF_BARE


def add_subscriptions(billing: Billing, servers: EventServers, events: int, existing: int) -> None:
    """Add the customers and subscriptions, and note that the events are in the event store."""
    metric = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="sum_agg", field_name="value")
    charge: ChargeFields = {
        "billable_metric_id": metric.id,
        "charge_model": "standard",
        "properties": {"amount": "0.001"},
    }
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
            name = name_of(number)
            customers.upsert(work, customers.CustomerInput(external_id=name, name=name, currency="EUR"))
            wanted = subscriptions.SubscriptionInput(external_customer_id=name, plan_code="basic", external_id=name)
            subscriptions.create(work, wanted)

    for first in range(0, existing, RANGE):
        billing.writing(lambda work: add(work, range(first, first + RANGE)))  # noqa: B023
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


def billing_run(file: Path, database: str, existing: int) -> None:
    """Print the cost of billing January for the existing subscriptions, with events only in the event store."""
    milliseconds: list[float] = []
    with Billing(file, events=database, clock=ManualClock(BILLED)) as biller:
        assert isinstance(biller.store, StoreWithEvents)
        for shard in biller.store.servers.shards:
            _time_queries(shard, milliseconds)
        started, used = time.perf_counter(), time.process_time()
        biller.run_due()
        took, used = time.perf_counter() - started, time.process_time() - used
        invoices = biller.invoices.list(per_page=1)
        assert invoices.total_count == existing
        assert invoices.items[0].fees_amount_cents > 4900
    print(
        f"  billing run: {existing:,} invoices in {took:.0f} s ({used:.0f} s of CPU time, the engine's included),"
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
    return Event(id, organization_id, id[::-1], "calls", name_of(number % SUBSCRIPTIONS), at, properties, None, at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, default=[1_000_000, 10_000_000], help="events to generate")
    parser.add_argument("--events", help="a server; without it an engine in this process, in a temporary folder")
    parser.add_argument("--folder", type=Path, help="keep the events here, and measure those that are here already")
    parser.add_argument("--minutes", type=float, default=60, help="stop generating after this: fewer subscriptions")
    options = parser.parse_args()
    if options.folder and options.events:
        parser.error("a server keeps no events: name either --folder or --events")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        before: dict[str, float] = {}
        url = options.events or f"chdb://{folder}"
        fits = [
            measured(url, folder, events, options.minutes * 60, before, kept=options.folder is not None)
            for events in options.numbers
        ]
    sys.exit(0 if all(fits) else 1)


if __name__ == "__main__":
    main()
