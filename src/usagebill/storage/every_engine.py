"""Code shared by all engines, independent of their SQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.core.jobs import Job, WorkerSeen
from usagebill.storage.event_queries import Counted, EventQuery, Group
from usagebill.storage.ports import EventLog

__all__ = [
    "JOB_COLUMNS",
    "WORKERS",
    "NotedQuestions",
    "OneTransaction",
    "instant_text",
    "job_of",
    "job_row",
    "worker_of",
]

WORKERS = "SELECT id, name, started_at, seen_at, last_done_at, home FROM workers ORDER BY seen_at DESC, id"

JOB_COLUMNS = (
    "id, organization_id, kind, subject_id, key, due_at, run_at, created_at, immediate, lane, payload, attempts,"
    " error, failed"
)
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def instant_text(value: datetime) -> str:
    """The instant in UTC, to the microsecond: such texts sort as the instants do. ValueError without a zone."""
    if value.tzinfo is None:
        raise ValueError(f"an instant without a zone: {value}")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def job_of(row: Sequence[Any]) -> Job:
    """The job that a row of `JOB_COLUMNS` is."""
    return Job(
        id=row[0],
        organization_id=row[1],
        kind=row[2],
        subject_id=row[3],
        key=row[4],
        due_at=datetime.fromisoformat(row[5]),
        run_at=datetime.fromisoformat(row[6]),
        created_at=datetime.fromisoformat(row[7]),
        immediate=bool(row[8]),
        lane=row[9],
        payload=_decode(row[10]),
        attempts=row[11],
        error=row[12],
        failed=bool(row[13]),
    )


def job_row(job: Job) -> tuple[Any, ...]:
    """The values of `JOB_COLUMNS`."""
    return (
        job.id,
        job.organization_id,
        job.kind,
        job.subject_id,
        job.key,
        instant_text(job.due_at),
        instant_text(job.run_at),
        instant_text(job.created_at),
        job.immediate,
        job.lane,
        _encode(job.payload).decode(),
        job.attempts,
        job.error,
        job.failed,
    )


def worker_of(row: Sequence[Any]) -> WorkerSeen:
    """The worker of a row of `WORKERS`."""
    return WorkerSeen(
        id=row[0],
        name=row[1],
        started_at=datetime.fromisoformat(row[2]),
        seen_at=datetime.fromisoformat(row[3]),
        last_done_at=None if row[4] is None else datetime.fromisoformat(row[4]),
        home=row[5],
    )


class OneTransaction:
    """Holds a thread to one transaction at a time."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Raises RuntimeError where this thread has a transaction open: a second one would not see its changes, or
        would wait for its end.
        """
        if getattr(self._thread, "is_open", False):
            raise RuntimeError("this thread has an open transaction: read and write through it until it ends")
        self._thread.is_open = True
        try:
            yield
        finally:
            self._thread.is_open = False


class NotedQuestions:
    """Answers questions about events from `counted`, and notes them: counting again would take as long."""

    def __init__(self, counted: EventLog, questions: list[EventQuery]) -> None:
        self._counted = counted
        self._questions = questions

    def scan(self, question: EventQuery) -> Iterator[Event]:
        self._questions.append(question)
        return self._counted.scan(question)

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        self._questions.append(question)
        return self._counted.tallies(question)

    def tallies_of(self, question: EventQuery, external_ids: Sequence[str]) -> dict[str, AggregateResult]:
        self._questions.extend(replace(question, external_subscription_id=id) for id in external_ids)
        return self._counted.tallies_of(question, external_ids)

    def changes(
        self, question: EventQuery, since: Counted | None, order: EventOrder, *, at_most: int = 0
    ) -> Iterator[tuple[int, Event]]:
        self._questions.append(question)
        return self._counted.changes(question, since, order, at_most=at_most)

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        self._questions.append(question)
        return self._counted.known_up_to(question, sequence)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        self._questions.append(question)
        return self._counted.tallies_by_bucket(question, filters)
