"""Events through a real server, beside a bare one (`bare_server`): one at a time, and in batches.

What an SDK does is one event a request, on one connection that is kept open: half of these requests should be answered
within 3 times what the bare server takes. Batches of 100 over 8 connections should keep at least 0.6 of the bare
server's rate. Both servers are processes of their own and share the machine with the clients, which are the same for
both; usagebill runs as in production, with its worker and its request log. Rounds of both alternate, and the best of
each counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.event_rows import sent, stored_rows

SINGLE = 400
CONNECTIONS = 8
BATCHES_EACH = 50
BATCH = 100
ROUNDS = 3
MOST_LATENCY_RATIO = 3
LEAST_RATE_RATIO = 0.6

# Host, port, path of the API, API key.
Address = tuple[str, int, str, str]


@contextmanager
def _running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _host_and_port(url: str) -> tuple[str, int]:
    host, _, port = url.strip().removeprefix("http://").rpartition(":")
    return host, int(port)


@contextmanager
def usagebill_server(path: Path) -> Iterator[Address]:
    """`usagebill serve` on a new file."""
    with _running("usagebill", "serve", "--db", str(path), "--port", "0", "--json") as process:
        assert process.stdout is not None
        started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        yield (*_host_and_port(started["url"]), "/api/v1", started["api_key"])


@contextmanager
def bare_server(path: Path) -> Iterator[Address]:
    with _running("benchmarks.bare_server", str(path)) as process:
        assert process.stdout is not None
        yield (*_host_and_port(process.stdout.readline()), "", "none")


Server = Callable[[Path], AbstractContextManager[Address]]


def post_all(address: Address, path: str, bodies: Sequence[bytes]) -> list[float]:
    """Seconds from sending each body to having its answer, all on one connection."""
    host, port, base, key = address
    connection = HTTPConnection(host, port)
    seconds = []
    for body in bodies:
        started = time.perf_counter()
        connection.request(
            "POST", base + path, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        text = answer.read()
        seconds.append(time.perf_counter() - started)
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {text[:200]!r}")
    connection.close()
    return seconds


def single_seconds(server: Server, path: Path) -> float:
    """What half of the requests with one event take at most."""
    bodies = [json.dumps({"event": event}).encode() for event in sent(0, SINGLE)]
    with server(path) as address:
        seconds = post_all(address, "/events", bodies)
    assert len(stored_rows(path)) == SINGLE
    # The first few also open connections and fill caches.
    return statistics.median(seconds[SINGLE // 10 :])


def batch_seconds(server: Server, path: Path) -> float:
    bodies = [
        [
            json.dumps({"events": sent((thread * BATCHES_EACH + place) * BATCH, BATCH)}).encode()
            for place in range(BATCHES_EACH)
        ]
        for thread in range(CONNECTIONS)
    ]
    with server(path) as address:
        threads = [threading.Thread(target=post_all, args=(address, "/events/batch", some)) for some in bodies]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
    assert len(stored_rows(path)) == CONNECTIONS * BATCHES_EACH * BATCH
    return seconds


def best(measure: Callable[[Server, Path], float]) -> tuple[float, float]:
    """The least seconds of usagebill and of the bare server."""
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            ours.append(measure(usagebill_server, Path(folder) / f"usagebill-{number}.db"))
            bare.append(measure(bare_server, Path(folder) / f"bare-{number}.db"))
            for file in Path(folder).iterdir():
                file.unlink()
    return min(ours), min(bare)


def main() -> None:
    ours, bare = best(single_seconds)
    print(f"one event a request on one connection, {SINGLE} requests, best of {ROUNDS} rounds")
    print(f"{'POST /events':24} {ours * 1000:12.2f} ms (p50)")
    print(f"{'bare server':24} {bare * 1000:12.2f} ms (p50)")
    print(f"{'ratio':24} {ours / bare:12.2f} (at most {MOST_LATENCY_RATIO})")
    ours, bare = best(batch_seconds)
    count = CONNECTIONS * BATCHES_EACH * BATCH
    print(f"{count:,} events in batches of {BATCH} over {CONNECTIONS} connections, best of {ROUNDS} rounds")
    print(f"{'POST /events/batch':24} {count / ours:12,.0f} events/s")
    print(f"{'bare server':24} {count / bare:12,.0f} events/s")
    print(f"{'ratio':24} {bare / ours:12.2f} (at least {LEAST_RATE_RATIO})")


if __name__ == "__main__":
    main()
