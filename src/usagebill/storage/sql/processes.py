"""The table of processes that have the database open, the same in every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from usagebill.core.processes import FORGOTTEN_AFTER, Process, ProcessKind
from usagebill.storage.every_engine import instant_text

COLUMNS: Final = (
    "id, name, kind, version, schema, started_at, seen_at, stopped_at, workers, last_done_at, home, consumes, waiting,"
    " waits_since, failing"
)
ALL: Final = f"SELECT {COLUMNS} FROM processes ORDER BY seen_at DESC, id"
_NAMES: Final = COLUMNS.split(", ")
_NOTE: Final = (
    f"INSERT INTO processes ({COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))}) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])
)
# What the table of workers, which earlier versions had, says of processes.
FORMER: Final = (
    "INSERT INTO processes (id, name, kind, version, schema, started_at, seen_at, stopped_at, workers, last_done_at,"
    " home) SELECT id, name, 'worker', '', 0, started_at, seen_at, seen_at, 1, last_done_at, home FROM workers",
    "DROP TABLE workers",
)


def table(text: str) -> str:
    """The statement that makes the table, with the engine's type of texts."""
    return (
        f"CREATE TABLE IF NOT EXISTS processes (id {text} PRIMARY KEY, name {text} NOT NULL, kind {text} NOT NULL,"
        f" version {text} NOT NULL, schema integer NOT NULL, started_at {text} NOT NULL, seen_at {text} NOT NULL,"
        f" stopped_at {text}, workers integer NOT NULL, last_done_at {text}, home {text}, consumes {text},"
        f" waiting bigint, waits_since {text}, failing {text})"
    )


def process_of(row: Sequence[Any]) -> Process:
    """The process whose `COLUMNS` are `row`."""
    return Process(
        id=row[0],
        name=row[1],
        kind=ProcessKind(row[2]),
        version=row[3],
        schema=row[4],
        started_at=datetime.fromisoformat(row[5]),
        seen_at=datetime.fromisoformat(row[6]),
        stopped_at=_instant(row[7]),
        workers=row[8],
        last_done_at=_instant(row[9]),
        home=row[10],
        consumes=row[11],
        waiting=row[12],
        waits_since=_instant(row[13]),
        failing=row[14],
    )


def note(execute: Callable[[str, Sequence[Any]], object], process: Process) -> None:
    """Write the row of a process, and forget those that were not seen for a week."""
    execute("DELETE FROM processes WHERE seen_at < ?", (instant_text(process.seen_at - FORGOTTEN_AFTER),))
    row = (
        process.id,
        process.name,
        str(process.kind),
        process.version,
        process.schema,
        instant_text(process.started_at),
        instant_text(process.seen_at),
        _text(process.stopped_at),
        process.workers,
        _text(process.last_done_at),
        process.home,
        process.consumes,
        process.waiting,
        _text(process.waits_since),
        process.failing,
    )
    execute(_NOTE, row)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant_text(instant)
