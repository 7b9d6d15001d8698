"""Which processes run, which have died, and whose place was taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from usagebill.core.processes import Process, ProcessKind, missing

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(minutes=10)
SERVER = Process(
    id="s",
    name="s",
    kind=ProcessKind.SERVER,
    version="1.0",
    schema=64,
    started_at=LONG_AGO,
    seen_at=NOW,
)
WORKER = replace(SERVER, id="w", name="w", kind=ProcessKind.WORKER, workers=1)
NATS = replace(SERVER, id="n", name="n", kind=ProcessKind.CONSUMER, consumes="nats:USAGE")
PROGRAM = replace(SERVER, id="p", name="p", kind=ProcessKind.PROGRAM)


def dead(process: Process, **said: object) -> Process:
    return replace(process, id=f"dead {process.id}", name=f"dead {process.id}", seen_at=LONG_AGO, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "stopped", "live", "is_dead"),
    [(0, False, True, False), (30, False, True, False), (31, False, False, True), (0, True, False, False)],
)
def test_a_process_lives_until_it_stops_or_was_not_seen_for_half_a_minute(
    seconds: int, stopped: bool, live: bool, is_dead: bool
) -> None:
    seen_at = NOW - timedelta(seconds=seconds)
    process = replace(SERVER, seen_at=seen_at, stopped_at=seen_at if stopped else None)
    assert (process.is_live(NOW), process.is_dead(NOW)) == (live, is_dead)


@pytest.mark.parametrize(
    ("processes", "names"),
    [
        ([], []),
        ([SERVER, WORKER, NATS], []),
        # Others do the same.
        ([dead(SERVER), SERVER], []),
        ([dead(WORKER), WORKER], []),
        ([dead(NATS), NATS], []),
        # Others do something else.
        ([dead(WORKER), SERVER], ["dead w"]),
        ([dead(NATS), replace(NATS, consumes="kafka:usage")], ["dead n"]),
        # A server with a worker in it does both.
        ([dead(WORKER), replace(SERVER, workers=1)], []),
        ([dead(SERVER, workers=1), SERVER], ["dead s"]),
        # Its successor stopped as it should.
        ([dead(NATS), replace(NATS, seen_at=LONG_AGO + timedelta(minutes=1), stopped_at=NOW)], []),
        # An application has no successor.
        ([dead(PROGRAM)], []),
    ],
)
def test_the_dead_are_missed_until_somebody_takes_their_place(processes: list[Process], names: list[str]) -> None:
    assert [process.name for process in missing(processes, NOW)] == names
