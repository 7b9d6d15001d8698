"""Events a second through the library, in batches of 1,000, against bare SQLite.

The floor stores the same rows in the same table with the same durability: `executemany`, one synchronised transaction a
batch. Ingestion parses, checks, looks up expressions and charges billed in advance, makes ids and JSON, and should keep
at least half of that speed. Rounds of both alternate; the best of each counts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.event_rows import executemany_seconds, sent, stored_rows

from usagebill.billing import Billing

EVENTS = 50_000
BATCH = 1_000
ROUNDS = 5
FLOOR_RATIO = 0.5


def ingest_seconds(path: Path) -> float:
    batches = [sent(first, BATCH) for first in range(0, EVENTS, BATCH)]
    with Billing(path, deliver=False) as billing:
        started = time.perf_counter()
        for batch in batches:
            billing.events.ingest(batch)
        return time.perf_counter() - started


def main() -> None:
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            path = Path(folder) / f"ingest-{number}.db"
            ours.append(ingest_seconds(path))
            bare.append(executemany_seconds(Path(folder) / f"bare-{number}.db", stored_rows(path), BATCH))
            for file in Path(folder).iterdir():
                file.unlink()
    ratio = min(bare) / min(ours)
    print(f"{EVENTS:,} events in batches of {BATCH:,}, best of {ROUNDS} rounds")
    print(f"{'ingest':24} {EVENTS / min(ours):12,.0f} events/s")
    print(f"{'bare executemany':24} {EVENTS / min(bare):12,.0f} rows/s")
    print(f"{'ratio':24} {ratio:12.2f} (at least {FLOOR_RATIO})")


if __name__ == "__main__":
    main()
