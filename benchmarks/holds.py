"""Checks and holds against a bare counter, which is what a program would write itself:

    UPDATE counter SET remaining = remaining - ? WHERE id = ? AND remaining >= ?

    python -m benchmarks.holds                        # 100,000 events before; SQLite, and PostgreSQL started here
    python -m benchmarks.holds --events 10000000      # the same on ten million
    python -m benchmarks.holds --engine sqlite        # one of them
    python -m benchmarks.holds --url postgresql://    # on your server, in new databases

One customer has all the events, in running totals, and a limit by month on a sum at a price per unit. A check should
take 0.2 ms at p50 and 1 ms at p99. Holds and captures, each a commit, should come to 0.3 of the counter's rate, a
commit each too, with 1, 8 and 32 threads, each with a customer of its own. Over HTTP, p99 should be at most 3 times
that of a bare Starlette route that updates the counter. Rounds of both sides alternate: each gives a ratio, and the
median counts. All times are wall clock. A PostgreSQL server started here does not wait for its disk.
"""

from __future__ import annotations

import argparse
import json
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psycopg
import uvicorn
from benchmarks.http_ingest import Address, host_and_port, post_all, running
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.postgresql import started_server

from usagebill import Billing
from usagebill.operations import events
from usagebill.storage.postgresql.databases import temporary_database

THREADS = (1, 8, 32)
BATCH = 1_000
CHECKS = 500
PAIRS = 96
REQUESTS = 200
ROUNDS = 3
MOST_CHECK_MS = (0.2, 1.0)
LEAST_OF_COUNTER = 0.3
MOST_OF_ROUTE = 3
# As the store opens its files.
DURABLE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")


class Counter:
    """What is left of each customer, in a table of its own; a connection for each thread."""

    def __init__(self, database: str) -> None:
        self._postgresql = database.startswith("postgresql:")
        self._database = database if self._postgresql else f"{database}-counter"
        self._local = threading.local()

    def make(self) -> None:
        self._run("CREATE TABLE counter (id integer PRIMARY KEY, remaining integer NOT NULL)")
        for number in range(max(THREADS)):
            self._run(f"INSERT INTO counter VALUES ({number}, 1000000000)")

    def take(self, number: int) -> None:
        self._run(f"UPDATE counter SET remaining = remaining - 1 WHERE id = {number} AND remaining >= 1")

    def _run(self, statement: str) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connected()
        connection.execute(statement)

    def _connected(self) -> psycopg.Connection | sqlite3.Connection:
        if self._postgresql:
            return psycopg.connect(self._database, autocommit=True)
        connection = sqlite3.connect(self._database, timeout=60, isolation_level=None)
        for pragma in DURABLE:
            connection.execute(pragma)
        return connection


def fill(billing: Billing, count: int) -> None:
    """A price list, a customer for each thread, and `count` events of the first one."""
    billing.billable_metrics.create(name="Tokens", code="tokens", aggregation_type="sum_agg", field_name="tokens")
    billing.plans.create(
        name="API",
        code="api",
        interval="monthly",
        amount_cents=0,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[{"billable_metric_code": "tokens", "charge_model": "standard", "properties": {"amount": "0.00001"}}],
    )
    for number in range(max(THREADS)):
        billing.customers.upsert(external_id=f"c{number}")
        billing.subscriptions.create(external_customer_id=f"c{number}", plan_code="api", external_id=f"c{number}")
        billing.spend_limits.create_of_customer(f"c{number}", code="cap", amount_cents=10**12, interval="month")
    for first in range(0, count, BATCH):
        some: list[dict[str, object]] = [
            {
                "transaction_id": f"e{number}",
                "external_subscription_id": "c0",
                "code": "tokens",
                "properties": {"tokens": 3},
            }
            for number in range(first, min(first + BATCH, count))
        ]
        billing.writing(lambda work, some=some: events.ingest(work, some))  # type: ignore[misc]
    # The first question makes the worker keep running totals.
    check(billing)
    while billing._system.roll_up_usage():
        pass


def check(billing: Billing) -> None:
    billing.spend_limits.check(external_subscription_id="c0", code="tokens", properties={"tokens": 1200})


def hold_and_capture(billing: Billing, number: int) -> None:
    hold = billing.holds.create(
        external_subscription_id=f"c{number}", code="tokens", properties={"tokens": 2000}, expires_in=60
    )
    billing.holds.capture(hold.id, properties={"tokens": 850})


def seconds_of(act: Callable[[], object], times: int) -> list[float]:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        spent.append(time.perf_counter() - start)
    return spent


def rate(act: Callable[[int], object], threads: int, times: int) -> float:
    """Acts a second of so many threads, each `times` of its own number, once all are ready."""
    ready = threading.Barrier(threads + 1)

    def run(number: int) -> None:
        act(number)
        ready.wait()
        for _ in range(times):
            act(number)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in started:
        thread.join()
    return threads * times / (time.perf_counter() - start)


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99, in milliseconds."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1000, ordered[len(ordered) * 99 // 100] * 1000


def in_process(database: str, count: int) -> None:
    counter = Counter(database)
    counter.make()
    with Billing(database, deliver=False) as billing:
        fill(billing, count)
        checks: list[float] = []
        updates: list[float] = []
        for _ in range(ROUNDS):
            checks += seconds_of(partial(check, billing), CHECKS // ROUNDS)
            updates += seconds_of(partial(counter.take, 0), CHECKS // ROUNDS)
        (p50, p99), (floor50, floor99) = percentiles(checks), percentiles(updates)
        most50, most99 = MOST_CHECK_MS
        print(
            f"  check           p50 {p50:7.2f} ms (at most {most50})  p99 {p99:7.2f} ms (at most {most99})"
            f"   a bare UPDATE {floor50:.2f}, {floor99:.2f}: ratio {p50 / floor50:.2f}, {p99 / floor99:.2f}"
        )
        for threads in THREADS:
            times = max(1, PAIRS // threads)
            ours, bare, ratios = [], [], []
            for _ in range(ROUNDS):
                # A hold and a capture are two commits.
                ours.append(2 * rate(partial(hold_and_capture, billing), threads, times))
                bare.append(rate(counter.take, threads, 4 * times))
                ratios.append(ours[-1] / bare[-1])
            print(
                f"  {threads:2} threads      {median(ours):7,.0f} holds and captures a second"
                f"   bare UPDATEs {median(bare):7,.0f}: ratio {median(ratios):.2f} (at least {LEAST_OF_COUNTER})"
            )


@contextmanager
def usagebill_server(database: str) -> Iterator[Address]:
    with Billing(database, deliver=False) as billing:
        key = billing.api_keys.create(name="holds").value
    with running("usagebill", "serve", "--db", database, "--port", "0", "--json") as process:
        assert process.stdout is not None
        started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        yield (*host_and_port(started["url"]), "/api/v1", key, process.pid)


@contextmanager
def bare_server(database: str) -> Iterator[Address]:
    with running("benchmarks.holds", "--serve", database) as process:
        assert process.stdout is not None
        yield (*host_and_port(process.stdout.readline()), "", "none", process.pid)


def serve(database: str) -> None:
    """A route that updates the counter, on the address that is printed."""
    counter = Counter(database)

    async def take(request: Request) -> Response:
        sent = await request.json()
        await run_in_threadpool(counter.take, 0)
        return JSONResponse(sent)

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/holds", take, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, http="httptools", log_level="error", lifespan="off")).run([listener])


def over_http(database: str) -> None:
    body = {"external_subscription_id": "c0", "code": "tokens", "properties": {"tokens": 2000}, "expires_in": 1}
    bodies = [json.dumps({"hold": body}).encode()] * (REQUESTS // ROUNDS)
    ours: list[float] = []
    bare: list[float] = []
    with usagebill_server(database) as address, bare_server(database) as floor:
        for each in (address, floor):
            post_all(each, "/holds", bodies[:20])
        for _ in range(ROUNDS):
            ours += post_all(address, "/holds", bodies)
            bare += post_all(floor, "/holds", bodies)
    (p50, p99), (floor50, floor99) = percentiles(ours), percentiles(bare)
    print(
        f"  POST /holds     p50 {p50:7.2f} ms  p99 {p99:7.2f} ms   a bare route {floor50:.2f}, {floor99:.2f}:"
        f" ratio {p50 / floor50:.2f}, {p99 / floor99:.2f} (at most {MOST_OF_ROUTE})"
    )


def measure(database: str, count: int) -> None:
    in_process(database, count)
    over_http(database)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--engine", choices=("sqlite", "postgresql"))
    parser.add_argument("--url")
    parser.add_argument("--serve", metavar="DATABASE")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if options.engine != "postgresql" and not options.url:
        print(f"SQLite, {options.events:,} events before")
        with tempfile.TemporaryDirectory() as folder:
            measure(str(Path(folder) / "holds.db"), options.events)
    if options.engine != "sqlite":
        print(f"PostgreSQL, {options.events:,} events before")
        url = options.url or started_server()
        if url is None:
            raise SystemExit("there is no PostgreSQL server here: name yours with --url")
        with temporary_database(url) as database:
            measure(database, options.events)


if __name__ == "__main__":
    main()
