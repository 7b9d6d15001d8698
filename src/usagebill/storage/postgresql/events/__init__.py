"""Events: appended, never changed; read by subscription, code and time.

Each organization numbers its events in the order of arrival: `sequence`, assigned under the organization's lock and
therefore in commit order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg

from usagebill.core.events import Event
from usagebill.storage.event_rows import COLUMNS, event_of, microseconds
from usagebill.storage.ports import StoredEvent
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events.dialect import DIALECT
from usagebill.storage.postgresql.events.rows import STORED, row_of
from usagebill.storage.postgresql.pool import roll_back_to
from usagebill.storage.sql.events import SqlEvents
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries, UsageTotals

_SEQUENCE: Final = "events"
_INSERT: Final = f"INSERT INTO events ({STORED}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_OF_PROPERTIES: Final = ("properties", "texts", "numbers")


class PostgresEvents(SqlEvents):
    """See `storage.ports.EventStore`."""

    def __init__(
        self,
        connection: Connection,
        organization_id: str | None,
        known: KnownSeries | None = None,
        before_appending: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(connection, DIALECT, organization_id, known or KnownSeries())
        self._connection = connection
        self._before_appending = before_appending

    # Appending

    def append(
        self,
        events: Sequence[Event],
        *,
        in_advance: Collection[str] = (),
        uncounted: Collection[str] = (),
    ) -> list[int]:
        self._check(events)
        if not events:
            return []
        if self._before_appending is not None:
            self._before_appending()
        if len(events) == 1:
            # Checking first is cheaper than rolling back.
            taken = self._taken(events)
            if not taken:
                self._totals().keep_up(*self._store(events, in_advance, uncounted))
            return taken
        connection = self._connection
        connection.execute("SAVEPOINT events")
        try:
            places = self._store(events, in_advance, uncounted)
        except BaseException as problem:
            if connection.driver.closed:
                raise
            roll_back_to(connection.driver, "events")
            connection.execute("RELEASE events")
            taken = self._taken(events) if isinstance(problem, psycopg.errors.UniqueViolation) else []
            if not taken:
                raise
            return taken
        connection.execute("RELEASE events")
        self._totals().keep_up(*places)
        return []

    def _store(
        self, events: Sequence[Event], in_advance: Collection[str], uncounted: Collection[str]
    ) -> tuple[int | None, int]:
        """Store the events; returns the sequence number of the last one in running totals (None: there are none), and
        of the last one.
        """
        row = self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value) VALUES (?, ?, ?) ON CONFLICT (organization_id, name)"
            " DO UPDATE SET value = sequences.value + excluded.value"
            " RETURNING value, (SELECT sequence FROM usage_rolled_up WHERE organization_id = ?)",
            (self._organization_id, _SEQUENCE, len(events), self._organization_id),
        ).fetchone()
        assert row is not None
        last: int = row[0]
        rows = (
            row_of(sequence, event, event.code in in_advance, event.id in uncounted)
            for sequence, event in enumerate(events, last - len(events) + 1)
        )
        if len(events) == 1:
            self._connection.execute(_INSERT, next(rows))
        elif self._connection.scope is None:
            self._connection.copy(f"events ({STORED})", rows)
        else:
            # COPY does not work with row security.
            self._connection.executemany(_INSERT, rows)
        return row[1], last

    def restore(self, events: Iterable[StoredEvent]) -> None:
        self._connection.executemany(_INSERT, (row_of(*stored) for stored in events))
        self._connection.execute(
            "INSERT INTO sequences (organization_id, name, value)"
            " SELECT organization_id, ?, MAX(sequence) FROM events WHERE organization_id = ? GROUP BY 1",
            (_SEQUENCE, self._organization_id),
        )

    def rewrite(self, events: Sequence[Event]) -> None:
        names = STORED.split(", ")
        places = [names.index(name) for name in (*_OF_PROPERTIES, "id")]
        self._connection.executemany(
            f"UPDATE events SET {', '.join(f'{name} = ?' for name in _OF_PROPERTIES)} WHERE id = ?"
            " AND external_subscription_id IS NOT DISTINCT FROM ? AND transaction_id = ? AND organization_id = ?",
            (
                (
                    *(row[place] for place in places),
                    event.external_subscription_id,
                    event.transaction_id,
                    self._organization_id,
                )
                for event, row in ((event, row_of(0, event, False, False)) for event in events)
            ),
        )

    def _taken(self, events: Sequence[Event]) -> list[int]:
        named = [
            (place, event.external_subscription_id, event.transaction_id)
            for place, event in enumerate(events)
            if event.external_subscription_id is not None
        ]
        rows = self._connection.execute(
            "SELECT external_subscription_id, transaction_id FROM events JOIN unnest(?::text[], ?::text[])"
            " AS sent (subscription, transaction) ON transaction_id = transaction"
            " AND external_subscription_id = subscription WHERE organization_id = ?",
            ([name for _, name, _ in named], [transaction for _, _, transaction in named], self._organization_id),
        )
        seen = {(row[0], row[1]) for row in rows}
        positions = []
        for place, name, transaction in named:
            if (name, transaction) in seen:
                positions.append(place)
            seen.add((name, transaction))
        return positions

    # Single events and lists

    def named(self, external_subscription_id: str, transaction_ids: Sequence[str]) -> list[Event]:
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND external_subscription_id = ?"
            " AND transaction_id = ANY(?::text[])",
            (self._organization_id, external_subscription_id, list(transaction_ids)),
        )
        return sorted(map(event_of, rows), key=lambda event: event.order)

    def stored(self) -> int:
        return self._number("SELECT SUM(value) FROM sequences WHERE name = ?", (_SEQUENCE,))

    def latest(self) -> int:
        return self._number(
            "SELECT value FROM sequences WHERE organization_id = ? AND name = ?", (self._organization_id, _SEQUENCE)
        )

    def received(self, start: datetime, end: datetime) -> Iterator[Event]:
        rows = self._connection.stream(
            f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND created_at >= ? AND created_at < ?",
            (self._organization_id, microseconds(start), microseconds(end)),
        )
        yield from map(event_of, rows)

    # Queries

    def _streamed(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        return self._connection.stream(sql, values)

    def _totals(self) -> UsageTotals:
        return UsageTotals(self._connection, DIALECT, self._organization_id, self._known.missing or MissingSeries())
