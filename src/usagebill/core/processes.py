"""Processes that have a database open: what each says of itself every few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

# How often a process says that it lives, and for how long it counts as living after that.
SEEN_EVERY: Final = timedelta(seconds=5)
_LIVE_FOR: Final = timedelta(seconds=30)
_SECOND: Final = timedelta(seconds=1)
FORGOTTEN_AFTER: Final = timedelta(days=7)


class ProcessKind(StrEnum):
    """What a process is there for. A program is any other that writes, such as an application with the library."""

    SERVER = "server"
    WORKER = "worker"
    CONSUMER = "consumer"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process with the database open. `name` is unique, also among containers that share a host name.

    `version` is that of its usagebill, `schema` the newest schema that it knows. It has `stopped_at` an instant, or
    died. It runs so many `workers`, which last did a job at `last_done_at`. `home` identifies the database that it
    wrote to (`Store.identity`): a copy has another. A consumer `consumes` a source, in which so many messages are
    `waiting` (None: unknown), some of them all the time since `waits_since`, and may be `failing` for a reason.
    """

    id: str
    name: str
    kind: ProcessKind
    version: str
    schema: int
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None = None
    workers: int = 0
    last_done_at: datetime | None = None
    home: str | None = None
    consumes: str | None = None
    waiting: int | None = None
    waits_since: datetime | None = None
    failing: str | None = None

    def is_live(self, now: datetime) -> bool:
        """Whether it runs, as far as is known."""
        return self.stopped_at is None and self.seen_at >= now - _LIVE_FOR

    def is_dead(self, now: datetime) -> bool:
        """Whether it ended without stopping."""
        return self.stopped_at is None and not self.is_live(now)

    @property
    def runs_jobs(self) -> bool:
        """Whether it runs jobs, or did."""
        return self.workers > 0 or self.last_done_at is not None

    def roles(self) -> Iterator[tuple[str, str]]:
        """What nobody may do any longer once it has died."""
        if self.kind is ProcessKind.CONSUMER:
            yield self.kind, self.consumes or ""
        elif self.kind is ProcessKind.SERVER:
            yield self.kind, ""
        if self.runs_jobs:
            yield ProcessKind.WORKER, ""


def live(processes: Iterable[Process], now: datetime) -> list[Process]:
    """Those that run, as far as is known."""
    return [process for process in processes if process.is_live(now)]


def listed(processes: Iterable[Process], now: datetime) -> str:
    """What a refusal says of processes that are in the way."""
    return "; ".join(
        f"{process.kind} {process.name} (usagebill {process.version}, schema {process.schema}, seen"
        f" {max(0, (now - process.seen_at) // _SECOND)} s ago)"
        for process in processes
    )


def missing(processes: Iterable[Process], now: datetime) -> list[Process]:
    """The dead processes of which nobody has taken the place, each the last in one of its roles."""
    last: dict[tuple[str, str], Process] = {}
    for process in sorted(processes, key=lambda process: (process.is_live(now), process.seen_at, process.id)):
        last |= dict.fromkeys(process.roles(), process)
    return sorted({process for process in last.values() if process.is_dead(now)}, key=lambda process: process.name)
