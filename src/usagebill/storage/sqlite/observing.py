"""Observations: the queries of a snapshot with their answers, so that a later transaction can repeat them.

A result computed on a snapshot is written later, under the write lock. It is still valid if every query it depends on
gives the same answer then: each statement is repeated and its rows compared. Events never change, so only those that
arrived since are checked.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from usagebill.core.events import Event
from usagebill.storage.event_queries import EventQuery, concerns
from usagebill.storage.event_rows import COLUMNS, event_of
from usagebill.storage.every_engine import NotedQuestions, RecordedRows
from usagebill.storage.record_sql import tables_in
from usagebill.storage.sql.usage_totals import MissingSeries
from usagebill.storage.sqlite.events import SqliteEvents
from usagebill.storage.sqlite.write_counts import is_counted

Statement = tuple[str, tuple[Any, ...]]
Rows = list[tuple[Any, ...]]

_KEPT = ("_counts", "_documents", "_search", "_values")
_TAIL = re.compile(r" (?:ORDER BY|LIMIT|GROUP BY) ")
_LIST = re.compile(r"\([?,]+\)")
_EQUAL = re.compile(r't\."(\w+)" = \?|t\.(id) = \?')
# Most queries select by these columns: a transaction notes their values in the rows that it writes.
TRACKED = ("id", "customer_id", "subscription_id", "invoice_id")


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a store's contents: the number of noticed commits by other connections, and of its own writes by
    kind of record. `foreign_writes` are the noticed commits by others that wrote a kind, if the file counts those.

    A kind is unchanged between two versions with the same numbers. Other connections' commits are noticed at the next
    write, so they never pass for an earlier version.
    """

    foreign_commits: int = 0
    writes: Mapping[type, int] = field(default_factory=dict)
    foreign_writes: Mapping[type, int] = field(default_factory=dict)

    def after(self, writes: Mapping[type, int]) -> Version:
        """The version after these writes."""
        return replace(self, writes=_added(self.writes, writes))

    def after_foreign_commit(self, counted: Mapping[type, int]) -> Version:
        """The version after a commit of another connection, with the `counted` writes by kind."""
        return replace(
            self, foreign_commits=self.foreign_commits + 1, foreign_writes=_added(self.foreign_writes, counted)
        )

    def is_free_of_foreign_writes(self, kind: type, since: Version) -> bool:
        """Whether no other connection has written the kind since that version."""
        if self.foreign_commits == since.foreign_commits:
            return True
        return is_counted(kind) and self.foreign_writes.get(kind, 0) == since.foreign_writes.get(kind, 0)


def _added(counts: Mapping[type, int], more: Mapping[type, int]) -> Mapping[type, int]:
    return {kind: counts.get(kind, 0) + more.get(kind, 0) for kind in {*counts, *more}}


class Observation:
    """Statements with their rows, and queries about events up to `latest`, the last sequence number."""

    def __init__(self, organization_id: str | None, latest: int, version: Version | None) -> None:
        self.organization_id = organization_id
        self.latest = latest
        self.version = version
        self.statements: dict[Statement, Rows] = {}
        # Statements by the tables that they read.
        self.by_tables: dict[tuple[str, ...], list[Statement]] = {}
        self.questions: list[EventQuery] = []

    def note(self, statement: Statement, rows: Rows) -> None:
        """Record a statement and its rows."""
        if statement not in self.statements:
            self.by_tables.setdefault(tables_in(statement[0]), []).append(statement)
        self.statements[statement] = rows

    @property
    def looks_at_lists(self) -> bool:
        """Whether an answer came from counts, documents or values of lists, which are written after the records."""
        return any(map(_is_kept, self.by_tables))


class Observer:
    """A snapshot's connection that records statements and results. Observations of one snapshot share `answered`, so
    that rows needed by several of them are read once.
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

    def execute(self, sql: str, values: Sequence[Any] = ()) -> RecordedRows:
        statement = (sql, tuple(values))
        rows = self._answered.get(statement)
        if rows is None:
            rows = self._answered[statement] = self._connection.execute(sql, values).fetchall()
        self._observation.note(statement, rows)
        return RecordedRows(rows)


class ObservedEvents(NotedQuestions, SqliteEvents):
    """Events of a snapshot: counts are noted as queries, since repeating them would take as long."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        observer: Observer,
        organization_id: str | None,
        observation: Observation,
        missing_series: MissingSeries | None,
    ) -> None:
        # An observer has a connection's methods for reading.
        SqliteEvents.__init__(self, observer, organization_id)  # type: ignore[arg-type]
        NotedQuestions.__init__(self, SqliteEvents(connection, organization_id, missing_series), observation.questions)


def latest_event(connection: sqlite3.Connection) -> int:
    """The sequence number of the last event stored, of any organization."""
    return int(connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0])


@cache
def _is_kept(tables: tuple[str, ...]) -> bool:
    return any(table.endswith(_KEPT) for table in tables)


@cache
def _narrowed(sql: str) -> tuple[tuple[str, int], ...]:
    """The tracked columns that a statement compares with a value, with the place of each value, if it reads one table
    and all its conditions must hold.
    """
    if len(tables_in(sql)) != 1 or sql.count(" WHERE ") != 1:
        return ()
    before, condition = sql.split(" WHERE ")
    where = _TAIL.split(_LIST.sub("?", condition))[0]
    if "?" in before or "(" in where or " OR " in where:
        return ()
    columns, place = [], 0
    for term, options in zip(where.split(" AND "), _TAIL.split(condition)[0].split(" AND "), strict=True):
        if match := _EQUAL.fullmatch(term):
            columns.append((match[1] or match[2], place))
        place += options.count("?")
    return tuple(column for column in columns if column[0] in TRACKED)


def observation_holds(
    connection: sqlite3.Connection,
    observation: Observation,
    written: Mapping[str, int],
    repeated: MutableMapping[Statement, tuple[int, ...]],
    is_unchanged: Callable[[str], bool],
    touched: Callable[[str], Collection[tuple[str, object]] | None],
) -> bool:
    """Whether all observed queries still have the same results.

    `written` counts this transaction's writes to each table of records. Statements `repeated` earlier in this
    transaction are not run again while nothing has been written to their tables; the caller keeps that cache. Nor are
    statements on unchanged tables, or on rows of one table that were not `touched`: it returns the values of `TRACKED`
    columns in the written rows, None if other connections may have written some.
    """
    for tables, statements in observation.by_tables.items():
        counted = all(table in written for table in tables)
        if counted and all(map(is_unchanged, tables)):
            continue
        now = tuple(written[table] for table in tables) if counted else ()
        among = touched(tables[0]) if counted and len(tables) == 1 else None
        for statement in statements:
            sql, values = statement
            if counted and repeated.get(statement) == now:
                continue
            if among is not None and any((column, values[place]) not in among for column, place in _narrowed(sql)):
                continue
            if connection.execute(sql, values).fetchall() != observation.statements[statement]:
                return False
            if counted:
                repeated[statement] = now
    return not any(
        concerns(question, event)
        for event in _new_events(connection, observation)
        for question in observation.questions
    )


def _new_events(connection: sqlite3.Connection, observation: Observation) -> list[Event]:
    external_ids = sorted({question.external_subscription_id for question in observation.questions})
    if not external_ids:
        return []
    # The plus keeps SQLite from walking all events of a subscription instead of the few new ones.
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM events WHERE sequence > ? AND +organization_id = ?"
        " AND +external_subscription_id IN (SELECT value FROM json_each(?))",
        (observation.latest, observation.organization_id, json.dumps(external_ids)),
    )
    return [event_of(row) for row in rows]
