"""Observations: the queries of a snapshot with their results, so that a later transaction can validate them.

A result computed on a snapshot is stored later, under the organization's lock, if its inputs are unchanged: each
statement that the change log (`changes`) does not rule out is repeated and its rows compared. Events never change, so
only newer ones are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from usagebill.core.events import Event
from usagebill.storage.event_queries import EventQuery, concerns
from usagebill.storage.event_rows import COLUMNS, event_of
from usagebill.storage.every_engine import NotedQuestions, RecordedRows
from usagebill.storage.postgresql.changes import Touched, is_logged
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events import PostgresEvents
from usagebill.storage.record_sql import tables_in
from usagebill.storage.sql.usage_totals import KnownSeries

Statement = tuple[str, tuple[Any, ...]]
Answer = list[tuple[Any, ...]]


class Observation:
    """Statements with their rows, and queries about events up to the organization's event `latest`.

    `change` numbers the last transaction in the snapshot that wrote records of the organization.
    """

    def __init__(self, organization_id: str | None, latest: int, change: int) -> None:
        self.organization_id = organization_id
        self.latest = latest
        self.change = change
        self.statements: dict[Statement, Answer] = {}
        self.questions: list[EventQuery] = []


def hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    """The bound values of a statement as part of a key."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


class Observer(Connection):
    """A snapshot's connection that records statements and results. Observations of one snapshot share `answered`, so
    that rows needed by several of them are read once.
    """

    def __init__(
        self, connection: Connection, observation: Observation, answered: MutableMapping[Statement, Answer]
    ) -> None:
        super().__init__(connection.driver, connection.unsent, connection.scope, connection.trips)
        self._observation = observation
        self._answered = answered

    def execute(self, sql: str, values: Sequence[Any] = (), *, anew: bool = False) -> RecordedRows:
        statement = (sql, hashable(values))
        rows = self._answered.get(statement)
        if rows is None:
            rows = self._answered[statement] = super().execute(sql, values, anew=anew).fetchall()
        self._observation.statements[statement] = rows
        return RecordedRows(rows)

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        return iter(self.execute(sql, values))


class ObservedEvents(NotedQuestions, PostgresEvents):
    """Events of a snapshot: counts are recorded as queries, since repeating them would take as long."""

    def __init__(
        self,
        connection: Connection,
        observer: Observer,
        organization_id: str | None,
        observation: Observation,
        states: KnownSeries,
    ) -> None:
        PostgresEvents.__init__(self, observer, organization_id)
        NotedQuestions.__init__(self, PostgresEvents(connection, organization_id, states), observation.questions)


def observation_holds(
    connection: Connection,
    observation: Observation,
    written: Mapping[str, int],
    repeated: MutableMapping[Statement, tuple[int, ...]],
    touched: Callable[[], Sequence[Touched] | None],
    senders: Callable[[], Collection[str | None]],
) -> bool:
    """Whether all observed queries still have the same results.

    `written` counts this transaction's writes to each table of records. Statements `repeated` earlier in this
    transaction are not run again while nothing has been written to their tables; the caller keeps that cache. Nor are
    statements that none of the rows `touched` since can affect, if these are known. `senders` are the subscription ids
    of newer events.
    """
    since = touched() if observation.statements else None
    to_repeat: list[tuple[Statement, tuple[int, ...] | None]] = []
    for statement in observation.statements:
        if since is not None and is_logged(statement[0]) and not any(rows.bears_on(*statement) for rows in since):
            continue
        tables = tables_in(statement[0])
        now = tuple(written[table] for table in tables) if all(table in written for table in tables) else None
        if now is None or repeated.get(statement) != now:
            to_repeat.append((statement, now))
    answers = connection.execute_all(
        [
            (sql, [list(value) if isinstance(value, tuple) else value for value in values])
            for (sql, values), _ in to_repeat
        ]
    )
    for (statement, now), rows in zip(to_repeat, answers, strict=True):
        if rows != observation.statements[statement]:
            return False
        if now is not None:
            repeated[statement] = now
    return not any(
        concerns(question, event)
        for event in _came_since(connection, observation, senders)
        for question in observation.questions
    )


def _came_since(
    connection: Connection, observation: Observation, senders: Callable[[], Collection[str | None]]
) -> Iterator[Event]:
    counted_ids = {question.external_subscription_id for question in observation.questions}
    external_ids = [] if counted_ids.isdisjoint(senders()) else sorted(counted_ids)
    if not external_ids:
        return iter(())
    rows = connection.stream(
        f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND sequence > ?"
        " AND external_subscription_id = ANY(?::text[])",
        (observation.organization_id, observation.latest, external_ids),
    )
    return map(event_of, rows)
