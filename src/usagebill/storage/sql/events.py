"""Events: appended, never changed; read by subscription, code and time. What is the same for every engine."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import Counted, EventQuery, Group, StateFault
from usagebill.storage.event_rows import COLUMNS, event_of, size_sql
from usagebill.storage.record_sql import MAX_ROWS
from usagebill.storage.sql.counting import EventCounts
from usagebill.storage.sql.statements import Runner
from usagebill.storage.sql.usage_totals import KnownSeries, TotalsDialect, Usage, UsageTotals


class SqlEvents(ABC):
    """See `storage.ports.EventStore`. Opened for one organization; across all, only `stored` works."""

    def __init__(
        self, connection: Runner, dialect: TotalsDialect, organization_id: str | None, known: KnownSeries
    ) -> None:
        self._runner = connection
        self._dialect = dialect
        self._opened_for = organization_id
        self._known = known

    @property
    def _organization_id(self) -> str:
        if self._opened_for is None:
            raise PermissionError("events are read and written within one organization")
        return self._opened_for

    @abstractmethod
    def _totals(self) -> UsageTotals:
        """The running totals that are rolled up together."""

    @abstractmethod
    def _streamed(self, sql: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        """The rows of a query, one by one."""

    def _number(self, sql: str, values: Sequence[Any]) -> int:
        row = self._runner.execute(sql, values).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def _check(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.organization_id != self._organization_id:
                raise PermissionError(
                    f"an event of organization {event.organization_id} in a transaction of {self._organization_id}"
                )

    # Single events

    def get(self, transaction_id: str) -> Event | None:
        row = self._runner.execute(
            f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND transaction_id = ? ORDER BY sequence LIMIT 1",
            (self._organization_id, transaction_id),
        ).fetchone()
        return None if row is None else event_of(row)

    def stored_since(
        self,
        sequence: int,
        *,
        up_to: int = MAX_ROWS,
        external_ids: Sequence[str] | None = None,
        at_most: int = MAX_ROWS,
    ) -> list[tuple[int, Event]]:
        # The plus keeps SQLite from walking all events of the organization or a subscription for the few new ones.
        plus = "" if self._dialect.numbers_by_organization else "+"
        tests, values = f"{plus}organization_id = ? AND sequence > ? AND sequence <= ?", [sequence, up_to]
        if external_ids is not None:
            listed = self._dialect.texts_in.format("?")
            tests += f" AND {plus}external_subscription_id IN (SELECT value FROM {listed})"
        rows = self._runner.execute(
            f"SELECT sequence, {COLUMNS} FROM events WHERE {tests} ORDER BY sequence LIMIT ?",
            [
                self._organization_id,
                *values,
                *([] if external_ids is None else [json.dumps(list(external_ids))]),
                at_most,
            ],
        )
        return [(row[0], event_of(row[1:])) for row in rows]

    # Queries

    def scan(self, question: EventQuery) -> Iterator[Event]:
        yield from map(event_of, self._streamed(*self._counts().scan(COLUMNS, question)))

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        return self._usage().tallies(question)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        return self._usage().tallies_by_bucket(question, filters)

    def changes(
        self, question: EventQuery, since: Counted | None, order: EventOrder, *, at_most: int = 0
    ) -> Iterator[tuple[int, Event]]:
        query = self._counts().changes(f"{COLUMNS}, sequence", question, since, order, at_most)
        for row in self._streamed(*query):
            yield row[-1], event_of(row[:-1])

    def size(self, question: EventQuery, *, at_most: int) -> int:
        if at_most <= 0:
            return 0
        where, values = size_sql(self._organization_id, question)
        return self._number(f"SELECT COUNT(*) FROM (SELECT 1 FROM events{where} LIMIT ?) first", (*values, at_most))

    def _usage(self) -> Usage:
        return Usage(self._runner, self._dialect, self._organization_id, self._known)

    def _counts(self) -> EventCounts:
        return EventCounts(self._runner, self._dialect, self._organization_id)

    # Running totals

    def roll_up(self) -> None:
        """Do some of the work on running totals."""
        self._totals().roll_up()

    def rebuild_states(self) -> int:
        return self._totals().rebuild(self._organization_id)

    def state_faults(self) -> Iterator[StateFault]:
        return self._totals().faults(self._organization_id)
