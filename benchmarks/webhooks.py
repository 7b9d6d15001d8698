"""Webhook deliveries a second to quick, slow and dead endpoints, and how much they slow down ingestion.

The floor posts the same signed messages with `httpx`, one after another, and stores nothing. The receivers and the
server that ingests are separate processes on the same machine.

A quick endpoint should get 500 messages a second, one that answers after 200 ms 100; a quick one beside a dead one
should keep 0.9 of its rate, and ingestion beside deliveries 0.8 of its rate, whether the server delivers or a separate
process (`usagebill work`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

import httptools
import httpx
from benchmarks.event_rows import sent

from usagebill.billing import Billing
from usagebill.core.tasks import DeliverWebhook
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.operations import webhooks
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.views.customers import customer_view
from usagebill.worker import Worker

MESSAGES = 3000
SLOW_MESSAGES = 600
FLOOR_MESSAGES = 500
SLOW_SECONDS = 0.2
CONNECTIONS = 4
INGEST_SECONDS = 3.0
INGEST_ROUNDS = 5
# Timeout for the dead endpoint.
TIMEOUT = 10.0
ROUNDS = 3


class _Receiver(asyncio.Protocol):
    """Answer 200 after `seconds`; never if negative."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._seconds >= 0:
            asyncio.get_running_loop().call_later(self._seconds, self._answer)

    def _answer(self) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def receive(*seconds: float) -> None:
    """Listen on a port for each kind of receiver, and print the ports."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda wait=wait: _Receiver(wait), "127.0.0.1", 0) for wait in seconds]  # type: ignore[misc]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


@contextmanager
def receivers() -> Iterator[tuple[str, str, str]]:
    """The addresses of a quick, a slow and a dead receiver."""
    command = [sys.executable, "-m", "benchmarks.webhooks", "receive", "0", str(SLOW_SECONDS), "-1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        quick, slow, dead = (f"http://127.0.0.1:{port}/hook" for port in json.loads(process.stdout.readline()))
        yield quick, slow, dead
    finally:
        process.kill()
        process.wait()


def happen(billing: Billing, count: int) -> None:
    """Cause this many messages for each endpoint."""
    customer = billing.customers.upsert(external_id="acme", name="Acme")

    def act(work: Work) -> None:
        for _ in range(count):
            work.emit("customer.updated", lambda: customer_view(work, customer), customer.id)

    billing.writing(act)


def listening(billing: Billing, *urls: str) -> list[WebhookEndpoint]:
    return [billing.webhook_endpoints.create(webhook_url=url, event_types=["customer.updated"]) for url in urls]


def delivered(billing: Billing, endpoint: WebhookEndpoint) -> int:
    conditions = (eq("webhook_endpoint_id", endpoint.id), eq("status", "succeeded"))
    # Not as a request, to which deliveries would yield.
    return billing._system.ask(lambda tx: tx.count(WebhookMessage, *conditions))


def delivery_rate(path: Path, messages: int, *urls: str) -> float:
    """Messages a second delivered to the first of these endpoints, while the others get as many."""
    with Billing(path, settings=Settings(webhook_timeout=TIMEOUT)) as billing:
        first, *_ = listening(billing, *urls)
        happen(billing, messages)
        billing.webhooks.public_key()
        worker = Worker(billing)
        started = time.perf_counter()
        worker.start()
        while (done := delivered(billing, first)) < messages:
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        worker.stop()
        return done / seconds


def floor_rate(path: Path, url: str) -> float:
    """Messages a second that a bare loop posts."""
    with Billing(path, deliver=False) as billing:
        listening(billing, url)
        happen(billing, FLOOR_MESSAGES)
        billing.webhooks.public_key()

        def signed(work: Work) -> list[webhooks.Attempt | None]:
            return [
                webhooks.prepare(work, DeliverWebhook(message_id=message.id))
                for message in work.tx.find(WebhookMessage)
            ]

        attempts = [attempt for attempt in billing.writing(signed) if attempt is not None]
        requests = [(attempt.url, webhooks.signed_headers(attempt), attempt.body) for attempt in attempts]
    with httpx.Client() as client:
        started = time.perf_counter()
        for target, headers, body in requests:
            assert client.post(target, headers=headers, content=body).status_code == 200
        return len(requests) / (time.perf_counter() - started)


# Ingestion beside deliveries


@contextmanager
def server(path: Path, *, delivers: bool) -> Iterator[tuple[str, int, str]]:
    """A server on a file that has no key yet: host, port, API key."""
    command = [sys.executable, "-m", "usagebill", "serve", "--db", str(path), "--port", "0", "--json"]
    command += [f"--workers-in-process={int(delivers)}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        host, _, port = started["url"].removeprefix("http://").rpartition(":")
        yield host, int(port), started["api_key"]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def worker(path: Path) -> Iterator[None]:
    """A process that delivers."""
    command = [sys.executable, "-m", "usagebill", "work", "--db", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def ingest(host: str, port: int, key: str, first: int, until: float, counts: list[int]) -> None:
    """Post single events on one connection until `until`."""
    connection = HTTPConnection(host, port)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    done = 0
    while time.perf_counter() < until:
        (event,) = sent(first + done, 1)
        connection.request("POST", "/api/v1/events", json.dumps({"event": event}), headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        done += 1
    connection.close()
    counts.append(done)


def ingest_for(seconds: float, address: tuple[str, int, str], first: int) -> float:
    """Events a second that all connections together get through."""
    counts: list[int] = []
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=ingest, args=(*address, first + number * 1_000_000, until, counts))
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def ingestion_rates(path: Path, url: str, *, apart: bool) -> tuple[list[float], list[float], list[float]]:
    """Events a second alone, and beside deliveries, in turn on one server; and the deliveries a second meanwhile.

    With `apart`, another process delivers.
    """
    alone, beside, deliveries = [], [], []
    with ExitStack() as stack:
        address = stack.enter_context(server(path, delivers=not apart))
        billing = stack.enter_context(Billing(path, deliver=False))
        if apart:
            stack.enter_context(worker(path))
        for turn in range(INGEST_ROUNDS):
            first = turn * 10_000_000
            alone.append(ingest_for(INGEST_SECONDS, address, first))
            (endpoint,) = listening(billing, url)
            happen(billing, MESSAGES)
            while not (before := delivered(billing, endpoint)):
                time.sleep(0.02)
            beside.append(ingest_for(INGEST_SECONDS, address, first + 5_000_000))
            deliveries.append((delivered(billing, endpoint) - before) / INGEST_SECONDS)
            billing.webhook_endpoints.delete(endpoint.id)
    return alone, beside, deliveries


def main() -> None:
    if sys.argv[1:2] == ["receive"]:
        asyncio.run(receive(*map(float, sys.argv[2:])))
        return
    floor: list[float] = []
    quick: list[float] = []
    beside: list[float] = []
    slow: list[float] = []
    with tempfile.TemporaryDirectory() as folder, receivers() as (quick_url, slow_url, dead_url):

        def new(name: str) -> Path:
            return Path(folder) / f"{name}.db"

        for turn in range(ROUNDS):
            floor.append(floor_rate(new(f"floor-{turn}"), quick_url))
            quick.append(delivery_rate(new(f"quick-{turn}"), MESSAGES, quick_url))
            beside.append(delivery_rate(new(f"beside-{turn}"), MESSAGES, quick_url, dead_url))
            slow.append(delivery_rate(new(f"slow-{turn}"), SLOW_MESSAGES, slow_url))
        ingestion = {
            apart: ingestion_rates(new(f"ingestion-{apart}"), quick_url, apart=apart) for apart in (False, True)
        }
    print(f"deliveries: best of {ROUNDS} rounds; ingestion: median of {INGEST_ROUNDS} rounds of {INGEST_SECONDS:.0f} s")
    print(f"{'bare httpx loop':34} {max(floor):8,.0f} messages/s")
    print(f"{'quick endpoint':34} {max(quick):8,.0f} messages/s (at least 500)")
    print(f"{'  ratio to the bare loop':34} {max(quick) / max(floor):8.2f}")
    print(f"{f'endpoint of {SLOW_SECONDS * 1000:.0f} ms':34} {max(slow):8,.0f} messages/s (at least 100)")
    print(f"{'quick endpoint beside a dead one':34} {max(beside) / max(quick):8.2f} of its rate (at least 0.9)")
    for apart, (alone, with_deliveries, meanwhile) in ingestion.items():
        print(f"{'ingestion alone':34} {median(alone):8,.0f} events/s")
        kept = median(there / here for here, there in zip(alone, with_deliveries, strict=True))
        name = "  while `work` delivers" if apart else "  while the server delivers"
        print(f"{name:34} {kept:8.2f} of its rate (at least 0.8)")
        print(f"{'  deliveries meanwhile':34} {median(meanwhile):8,.0f} messages/s")


if __name__ == "__main__":
    main()
