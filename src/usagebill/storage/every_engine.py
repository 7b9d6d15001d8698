"""Code shared by all engines, independent of their SQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import Counted, EventQuery, Group
from usagebill.storage.ports import EventLog

__all__ = [
    "NotedQuestions",
    "OneTransaction",
    "instant_text",
]


def instant_text(value: datetime) -> str:
    """The instant in UTC, to the microsecond: such texts sort as the instants do. ValueError without a zone."""
    if value.tzinfo is None:
        raise ValueError(f"an instant without a zone: {value}")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


class OneTransaction:
    """Keeps each thread to one transaction at a time."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Raises RuntimeError if this thread has an open transaction: a second one would not see its changes, or would
        wait for it to end.
        """
        if getattr(self._thread, "is_open", False):
            raise RuntimeError("this thread has an open transaction: read and write through it until it ends")
        self._thread.is_open = True
        try:
            yield
        finally:
            self._thread.is_open = False


class NotedQuestions:
    """Answers event queries from `counted` and notes them: repeating a count would take as long."""

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
