"""Events through a real server, against a bare one (`bare_server`): one at a time, and in batches.

An SDK sends one event per request on a keep-alive connection: the median request should take at most 3 times as long
as on the bare server. Batches of 100 over 8 connections should keep at least 0.6 of the bare server's rate. Both
servers are separate processes and share the machine with the clients, which are the same for both; usagebill runs as in
production, with its worker and its request log. Rounds of both alternate: each gives a ratio, and the median ratio
counts. The servers' CPU time per batch is shown as well, which says more on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from benchmarks.event_rows import sent, stored_rows

SINGLE = 400
CONNECTIONS = 8
BATCHES_EACH = 50
BATCH = 100
ROUNDS = 5
MOST_LATENCY_RATIO = 3
LEAST_RATE_RATIO = 0.6

# Host, port, path of the API, API key, process.
Address = tuple[str, int, str, str, int]
# The cost of a request: seconds of wall time (the median for single events), and of CPU time.
Cost = tuple[float, float]


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def host_and_port(url: str) -> tuple[str, int]:
    host, _, port = url.strip().removeprefix("http://").rpartition(":")
    return host, int(port)


@contextmanager
def usagebill_server(path: Path) -> Iterator[Address]:
    """`usagebill serve` on a new file."""
    with running("usagebill", "serve", "--db", str(path), "--port", "0", "--json") as process:
        assert process.stdout is not None
        started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        yield (*host_and_port(started["url"]), "/api/v1", started["api_key"], process.pid)


@contextmanager
def bare_server(path: Path) -> Iterator[Address]:
    with running("benchmarks.bare_server", str(path)) as process:
        assert process.stdout is not None
        yield (*host_and_port(process.stdout.readline()), "", "none", process.pid)


Server = Callable[[Path], AbstractContextManager[Address]]


def processor_seconds(process: int) -> float:
    """The CPU time of a process so far, on Linux."""
    times = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def post_all(address: Address, path: str, bodies: Sequence[bytes]) -> list[float]:
    """Seconds from sending each body to having its answer, all on one connection."""
    host, port, base, key, _ = address
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


def single_cost(server: Server, path: Path) -> Cost:
    """The median time of requests with one event, and the CPU time of one."""
    bodies = [json.dumps({"event": event}).encode() for event in sent(0, SINGLE)]
    with server(path) as address:
        before = processor_seconds(address[-1])
        seconds = post_all(address, "/events", bodies)
        used = processor_seconds(address[-1]) - before
    assert len(stored_rows(path)) == SINGLE
    # The first few also open connections and fill caches.
    return median(seconds[SINGLE // 10 :]), used / SINGLE


def batch_cost(server: Server, path: Path) -> Cost:
    """Seconds per batch of wall time, and of CPU time."""
    bodies = [
        [
            json.dumps({"events": sent((thread * BATCHES_EACH + place) * BATCH, BATCH)}).encode()
            for place in range(BATCHES_EACH)
        ]
        for thread in range(CONNECTIONS)
    ]
    with server(path) as address:
        threads = [threading.Thread(target=post_all, args=(address, "/events/batch", some)) for some in bodies]
        before, started = processor_seconds(address[-1]), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, used = time.perf_counter() - started, processor_seconds(address[-1]) - before
    batches = CONNECTIONS * BATCHES_EACH
    assert len(stored_rows(path)) == batches * BATCH
    return seconds / batches, used / batches


def alternating(measure: Callable[[Server, Path], Cost]) -> tuple[list[Cost], list[Cost]]:
    """The costs of usagebill and of the bare server, round by round."""
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            ours.append(measure(usagebill_server, Path(folder) / f"usagebill-{number}.db"))
            bare.append(measure(bare_server, Path(folder) / f"bare-{number}.db"))
            for file in Path(folder).iterdir():
                file.unlink()
    return ours, bare


def middle(costs: Sequence[Cost]) -> tuple[float, float]:
    """The median of each kind of cost."""
    return median(cost for cost, _ in costs), median(used for _, used in costs)


def ratios(costs: Sequence[Cost], others: Sequence[Cost]) -> tuple[float, float]:
    """The ratio of each kind of cost to the other server's: the median of the rounds."""
    pairs = list(zip(costs, others, strict=True))
    return median(cost[0] / other[0] for cost, other in pairs), median(cost[1] / other[1] for cost, other in pairs)


def main() -> None:
    ours, bare = alternating(single_cost)
    print(f"one event a request on one connection, {SINGLE} requests, median of {ROUNDS} rounds")
    for name, costs in (("POST /events", ours), ("bare server", bare)):
        seconds, used = middle(costs)
        print(f"{name:24} {seconds * 1000:12.2f} ms (p50) {used * 1000:10.2f} ms of processors")
    seconds, used = ratios(ours, bare)
    print(f"{'ratio':24} {seconds:12.2f} (at most {MOST_LATENCY_RATIO}) {used:9.2f}")
    ours, bare = alternating(batch_cost)
    count = CONNECTIONS * BATCHES_EACH * BATCH
    print(f"{count:,} events in batches of {BATCH} over {CONNECTIONS} connections, median of {ROUNDS} rounds")
    for name, costs in (("POST /events/batch", ours), ("bare server", bare)):
        seconds, used = middle(costs)
        print(f"{name:24} {BATCH / seconds:12,.0f} events/s {used * 1000:10.2f} ms of processors a batch")
    seconds, used = ratios(bare, ours)
    print(f"{'ratio':24} {seconds:12.2f} (at least {LEAST_RATE_RATIO}) {used:8.2f}")


if __name__ == "__main__":
    main()
