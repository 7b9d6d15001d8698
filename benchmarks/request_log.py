"""How much the request log slows down ingestion: a real server without it, with the default, and logging everything.

Batches of 100 events over 8 connections (`http_ingest`). Events are not logged by default, so the default log should
cost at most 1.05 times the processor time of a server without it. Rounds of all three alternate; the median of their
ratios counts.

    python -m benchmarks.request_log
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.http_ingest import Address, Cost, batch_cost, ratios, usagebill_server

ROUNDS = 5
MOST = 1.05
SERVERS: Mapping[str, Mapping[str, str]] = {
    "without": {"USAGEBILL_API_LOG_DAYS": "0"},
    "as it comes": {},
    "of events too": {"USAGEBILL_LOG_INGESTION": "true"},
}


@contextmanager
def _server(path: Path, settings: Mapping[str, str]) -> Iterator[Address]:
    os.environ.update(settings)
    try:
        with usagebill_server(path) as address:
            yield address
    finally:
        for name in settings:
            del os.environ[name]


def main(rounds: int) -> None:
    costs: dict[str, list[Cost]] = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, settings in SERVERS.items():
                path = Path(folder) / f"{number}-{name.replace(' ', '-')}.db"
                costs[name].append(batch_cost(lambda path, settings=settings: _server(path, settings), path))  # type: ignore[misc]
                for file in Path(folder).iterdir():
                    file.unlink()
    for name, measured in costs.items():
        seconds, used = median(cost for cost, _ in measured), median(used for _, used in measured)
        print(f"{name:14} {seconds * 1000:8.2f} ms a batch {used * 1000:8.2f} ms of processors")
    for name in ("as it comes", "of events too"):
        seconds, used = ratios(costs[name], costs["without"])
        kept = "" if name != "as it comes" else "keeps" if used <= MOST else "MISSES"
        print(f"{name:14} {seconds:8.3f} times          {used:8.3f} times {kept}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
