"""Observations: what a snapshot was asked and what it answered, so that a later transaction can ask it again.

What is worked out on a snapshot is written later, under the lock of the writer. It stands if everything that it was
worked out from is answered in the same way then: each statement is repeated and its rows compared. Events are never
changed, so of them only those that came meanwhile are looked at.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from usagebill.core.aggregation import AggregateResult
from usagebill.core.events import Event, EventOrder
from usagebill.core.filters import FilterIndex
from usagebill.storage.event_queries import Counted, EventQuery, Group, concerns
from usagebill.storage.sqlite.events import SqliteEvents
from usagebill.storage.sqlite.events.rows import COLUMNS, event_of
from usagebill.storage.sqlite.events.states import Wants

__all__ = ["Observation", "ObservedEvents", "Observer", "Version", "latest_event", "observation_holds"]

Statement = tuple[str, tuple[Any, ...]]
Rows = list[tuple[Any, ...]]

_KEPT = re.compile(r'_(?:counts|texts|search|metadata)"')
_TABLE = re.compile(r'\b(?:FROM|JOIN)\s+"?(\w+)"?')


@dataclass(frozen=True, slots=True)
class Version:
    """What a store has committed: how often others were noticed to have, and how often it wrote each kind of record.

    Between two versions of one store, with no commit of others in between, a kind of record that it wrote as often is
    unchanged. Others are noticed at the next write, so that what they commit is never taken for an earlier version.
    """

    others: int = 0
    writes: Mapping[type, int] = field(default_factory=dict)

    def after(self, writes: Mapping[type, int]) -> Version:
        """The version once these writes are committed too."""
        kinds = {*self.writes, *writes}
        return replace(self, writes={kind: self.writes.get(kind, 0) + writes.get(kind, 0) for kind in kinds})

    def after_others(self) -> Version:
        """The version once another connection has committed."""
        return replace(self, others=self.others + 1)


class Observation:
    """Statements with their rows, and questions about events that had come up to the event `latest`."""

    def __init__(self, organization_id: str | None, latest: int, version: Version | None) -> None:
        self.organization_id = organization_id
        self.latest = latest
        self.version = version
        self.statements: dict[Statement, Rows] = {}
        self.questions: list[EventQuery] = []

    @property
    def looks_at_lists(self) -> bool:
        """Whether anything was answered from what is kept for lists, which is written after the records."""
        return any(_KEPT.search(sql) for sql, _ in self.statements)


class _Answered:
    """The rows of a statement, in the form of a cursor."""

    def __init__(self, rows: Rows) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> Rows:
        return list(self._rows)


class Observer:
    """A connection of a snapshot that keeps what it is asked and answers. `answered` is shared by observations of one
    snapshot, so that what several of them need is read once.
    """

    def __init__(
        self, connection: sqlite3.Connection, observation: Observation, answered: MutableMapping[Statement, Rows]
    ) -> None:
        self._connection = connection
        self._observation = observation
        self._answered = answered

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, values: Sequence[Any] = ()) -> _Answered:
        statement = (sql, tuple(values))
        rows = self._answered.get(statement)
        if rows is None:
            rows = self._answered[statement] = self._connection.execute(sql, values).fetchall()
        self._observation.statements[statement] = rows
        return _Answered(rows)


class ObservedEvents(SqliteEvents):
    """Events of a snapshot: what is counted is noted as a question, since counting it again would take as long."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        observer: Observer,
        organization_id: str | None,
        observation: Observation,
        wants: Wants | None,
    ) -> None:
        # An observer answers what a connection answers, as far as reading goes.
        super().__init__(observer, organization_id)  # type: ignore[arg-type]
        self._counted = SqliteEvents(connection, organization_id, wants)
        self._observation = observation

    def scan(self, question: EventQuery) -> Iterator[Event]:
        self._observation.questions.append(question)
        return self._counted.scan(question)

    def tallies(self, question: EventQuery) -> dict[Group, AggregateResult]:
        self._observation.questions.append(question)
        return self._counted.tallies(question)

    def changes(
        self, question: EventQuery, since: Counted | None, order: EventOrder, *, at_most: int = 0
    ) -> Iterator[tuple[int, Event]]:
        self._observation.questions.append(question)
        return self._counted.changes(question, since, order, at_most=at_most)

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        self._observation.questions.append(question)
        return self._counted.known_up_to(question, sequence)

    def tallies_by_bucket(self, question: EventQuery, filters: FilterIndex) -> dict[int, dict[Group, AggregateResult]]:
        self._observation.questions.append(question)
        return self._counted.tallies_by_bucket(question, filters)


def latest_event(connection: sqlite3.Connection) -> int:
    """The place of the event that came last, of whatever organization."""
    return int(connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0])


@cache
def _tables(sql: str) -> tuple[str, ...]:
    return tuple(_TABLE.findall(sql))


def observation_holds(
    connection: sqlite3.Connection,
    observation: Observation,
    written: Mapping[str, int],
    repeated: MutableMapping[Statement, tuple[int, ...]],
    is_unchanged: Callable[[str], bool],
) -> bool:
    """Whether everything that was observed is answered in the same way now.

    `written` counts the writes of this transaction to each table that it keeps count of. What was `repeated` in this
    transaction already is not asked again while nothing has been written to its tables; the caller keeps it. Nor is
    what was asked of tables that are known to be unchanged.
    """
    for statement, rows in observation.statements.items():
        sql, values = statement
        tables = _tables(sql)
        counted = all(table in written for table in tables)
        now = tuple(written[table] for table in tables) if counted else ()
        if counted and (repeated.get(statement) == now or all(map(is_unchanged, tables))):
            continue
        if connection.execute(sql, values).fetchall() != rows:
            return False
        if counted:
            repeated[statement] = now
    return not any(
        concerns(question, event)
        for event in _came_since(connection, observation)
        for question in observation.questions
    )


def _came_since(connection: sqlite3.Connection, observation: Observation) -> list[Event]:
    external_ids = sorted({question.external_subscription_id for question in observation.questions})
    if not external_ids:
        return []
    # The plus keeps SQLite from walking all events of a subscription in place of the few that came since.
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM events WHERE sequence > ? AND +organization_id = ?"
        " AND +external_subscription_id IN (SELECT value FROM json_each(?))",
        (observation.latest, observation.organization_id, json.dumps(external_ids)),
    )
    return [event_of(row) for row in rows]
