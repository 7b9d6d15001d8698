"""Events a second through a real server, `POST /events/batch` of 100 over 8 connections, beside bare SQLite.

The floor stores the very same rows with `executemany`, one synchronised transaction for each batch of 100. The server
is a process of its own, as it runs in production: worker, request log and all. Its clients share the machine with it.
It should keep at least 0.3 of the floor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.event_rows import executemany_seconds, sent, stored_rows

CONNECTIONS = 8
BATCHES_EACH = 50
BATCH = 100
ROUNDS = 3
FLOOR_RATIO = 0.3


@contextmanager
def server(path: Path) -> Iterator[tuple[str, int, str]]:
    """A server on a new file: host, port, API key."""
    command = [sys.executable, "-m", "usagebill", "serve", "--db", str(path), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        host, _, port = started["url"].removeprefix("http://").rpartition(":")
        yield host, int(port), started["api_key"]
    finally:
        process.terminate()
        process.wait()


def post_all(host: str, port: int, key: str, bodies: list[bytes], failures: list[str]) -> None:
    connection = HTTPConnection(host, port)
    for body in bodies:
        connection.request(
            "POST",
            "/api/v1/events/batch",
            body=body,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            failures.append(f"{answer.status} {text[:200]!r}")
    connection.close()


def http_seconds(path: Path) -> float:
    bodies = [
        [
            json.dumps({"events": sent((thread * BATCHES_EACH + place) * BATCH, BATCH)}).encode()
            for place in range(BATCHES_EACH)
        ]
        for thread in range(CONNECTIONS)
    ]
    failures: list[str] = []
    with server(path) as (host, port, key):
        threads = [threading.Thread(target=post_all, args=(host, port, key, some, failures)) for some in bodies]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
    assert not failures, failures[:3]
    return seconds


def main() -> None:
    count = CONNECTIONS * BATCHES_EACH * BATCH
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            path = Path(folder) / f"http-{number}.db"
            ours.append(http_seconds(path))
            rows = stored_rows(path)
            assert len(rows) == count
            bare.append(executemany_seconds(Path(folder) / f"bare-{number}.db", rows, BATCH))
    ratio = min(bare) / min(ours)
    print(f"{count:,} events in batches of {BATCH} over {CONNECTIONS} connections, best of {ROUNDS} rounds")
    print(f"{'POST /events/batch':24} {count / min(ours):12,.0f} events/s")
    print(f"{'bare executemany':24} {count / min(bare):12,.0f} rows/s")
    print(f"{'ratio':24} {ratio:12.2f} (at least {FLOOR_RATIO})")


if __name__ == "__main__":
    main()
