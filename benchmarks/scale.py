"""The cost of counting with ClickHouse as events grow, against bare ClickHouse queries in the same run.

    python -m benchmarks.scale                        # 10,000,000 events, in the engine of this process
    python -m benchmarks.scale 1000000 100000000      # one row for each number
    python -m benchmarks.scale --events clickhouse://host:8123  # on a server, in a database of its own

Events are generated in the server, a hundredth of them for each of 100 external subscription ids. What is measured:

- usage of one subscription as a bill asks for it, by kind: the median and the slowest of 100 questions of random
  subscriptions;
- the same sum as a bare query with FINAL: an answer should take at most 1.5 times as long;
- a billing run over all subscriptions, one question each, and all in one bare query;
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

from usagebill.core.events import Event
from usagebill.storage.clickhouse import EventServers
from usagebill.storage.clickhouse.answers import answers
from usagebill.storage.clickhouse.rows import lines_of
from usagebill.storage.clickhouse.shipping import BLOCK
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.sqlite.events.rows import microseconds
from usagebill.storage.stores import emptied_events

SUBSCRIPTIONS, QUESTIONS, SHIPPED = 100, 100, 100_000
MOST_OF_BARE = 1.5
ORGANIZATION = "00000000-0000-0000-0000-000000000000"
START = datetime(2024, 1, 1, tzinfo=UTC)
SUM = EventQuery(code="calls", external_subscription_id="", aggregation_type="sum_agg", field_name="value")
KINDS = {
    "count": replace(SUM, aggregation_type="count_agg"),
    "sum": SUM,
    "max": replace(SUM, aggregation_type="max_agg"),
    "latest": replace(SUM, aggregation_type="latest_agg"),
    "sum by 10 groups": replace(SUM, group_keys=("region",)),
    "unique, 10,000 users": replace(SUM, aggregation_type="unique_count_agg", field_name="user"),
}


def generate(servers: EventServers, events: int) -> None:
    shard = servers.shards[0]
    step = 30 * 86_400_000_000 // events
    for start in range(0, events, 1_000_000):
        count = min(1_000_000, events - start)
        shard.run(
            f"INSERT INTO {shard.table('events')} SELECT '{ORGANIZATION}',"
            f" concat('sub', toString(n % {SUBSCRIPTIONS})), true, 'calls',"
            f" {microseconds(START)} + n * {step}, n + 1, {microseconds(START)} + n * {step},"
            " toString(generateUUIDv4(n)), toString(generateUUIDv4(n + 1)), toJSONString(sent), sent,"
            " map('value', toInt64(n % 1000 * 10000)), map(), map(), NULL, NULL"
            f" FROM (SELECT number + {start} AS n, map('value', toString(n % 1000 / 100), 'region',"
            " concat('r', toString(intHash32(n) % 10)), 'user', concat('u', toString(intHash32(n) % 10000))) AS sent"
            f" FROM numbers({count}))"
        )


def milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1_000


def measured(url: str, events: int) -> bool:
    with emptied_events(url) as database:
        servers = EventServers(database)
        shard = servers.shards[0]
        table = shard.table("events")
        took = milliseconds(lambda: generate(servers, events)) / 1_000
        print(f"\n{events:,} events, generated in {took:.0f} s; {events // SUBSCRIPTIONS:,} a subscription")

        def ask(question: EventQuery, name: str) -> None:
            asked = replace(question, external_subscription_id=name)
            [tally] = answers(servers, ORGANIZATION, asked, None, events, ()).values()
            assert tally

        def bare(name: str) -> None:
            shard.rows(
                f"SELECT sum(toInt256(millionths['value'])) FROM {table} FINAL WHERE organization_id = '{ORGANIZATION}'"
                f" AND external_subscription_id = '{name}' AND code = 'calls'"
            )

        names = [f"sub{number}" for number in random.Random(1).choices(range(SUBSCRIPTIONS), k=QUESTIONS)]
        for kind, question in KINDS.items():
            ask(question, names[0])
            times = sorted(milliseconds(lambda: ask(question, name)) for name in names)  # noqa: B023
            print(f"  {kind:<22} p50 {statistics.median(times):7.1f} ms   p99 {times[-2]:7.1f} ms")
        pairs = [(milliseconds(lambda: ask(SUM, name)), milliseconds(lambda: bare(name))) for name in names]  # noqa: B023
        ratio = statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs)
        print(f"  sum beside a bare query with FINAL: {ratio:.2f} times (at most {MOST_OF_BARE})")
        everyone = [f"sub{number}" for number in range(SUBSCRIPTIONS)]

        def run_one_by_one() -> None:
            for name in everyone:
                ask(SUM, name)

        run = milliseconds(run_one_by_one)
        once = milliseconds(
            lambda: shard.rows(
                f"SELECT external_subscription_id, sum(toInt256(millionths['value'])) FROM {table} FINAL"
                f" WHERE organization_id = '{ORGANIZATION}' GROUP BY external_subscription_id"
            )
        )
        print(f"  {SUBSCRIPTIONS} subscriptions: {run:,.0f} ms one by one, {once:,.0f} ms in one bare query")
        rows, size = shard.rows(
            "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'usagebill_events'"
            f" AND database = '{table.split('`')[1]}'"
        )[0]
        print(f"  {size / rows:.1f} bytes an event")
        shipped = [
            (events + number + 1, sent(number, START + timedelta(days=30, microseconds=number)))
            for number in range(SHIPPED)
        ]

        def ship() -> None:
            for start in range(0, SHIPPED, BLOCK):
                block = shipped[start : start + BLOCK]
                shard.insert("events", lines_of(block), insert_deduplication_token=f"block {start}")

        print(f"  shipping: {SHIPPED / milliseconds(ship) * 1_000:,.0f} events a second")
        servers.close()
        return ratio <= MOST_OF_BARE


def sent(number: int, at: datetime) -> Event:
    properties = {"value": str(number % 1000 / 100), "region": f"r{number % 10}", "user": f"u{number * 7919 % 10_000}"}
    id = f"{random.getrandbits(128):032x}"
    return Event(id, ORGANIZATION, id[::-1], "calls", f"sub{number % SUBSCRIPTIONS}", at, properties, None, at)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, default=[10_000_000], help="events to generate")
    parser.add_argument("--events", help="a server; without it an engine in this process, in a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fits = [measured(options.events or f"chdb://{folder}", events) for events in options.numbers]
    sys.exit(0 if all(fits) else 1)


if __name__ == "__main__":
    main()
