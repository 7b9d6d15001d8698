"""Events: appended, never changed; read by subscription, code and time.

Each organization numbers its events in the order of arrival: `sequence`, assigned under the organization's lock and
therefore in commit order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg

from usagebill.core.events import Event
from usagebill.storage.event_queries import (
    EventFilter,
    EventQuery,
    EventRange,
    Lacking,
)
from usagebill.storage.event_rows import COLUMNS, event_of, filter_sql, microseconds
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.events.dialect import DIALECT
from usagebill.storage.postgresql.events.rows import STORED, row_of
from usagebill.storage.postgresql.pool import roll_back_to
from usagebill.storage.record_sql import bounded
from usagebill.storage.sql.events import SqlEvents
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries, UsageTotals

_SEQUENCE: Final = "events"
_INSERT: Final = f"INSERT INTO events ({STORED}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_LISTED: Final = ", ".join(f"e.{column.strip()}" for column in COLUMNS.split(","))


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

    def find(self, event_filter: EventFilter, *, limit: int | None = None, offset: int = 0) -> list[Event]:
        where, values = filter_sql(self._organization_id, event_filter)
        bounds = ""
        if limit is not None:
            bounds = " LIMIT ? OFFSET ?"
            values += [bounded(limit), bounded(offset)]
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events{where} ORDER BY timestamp DESC, transaction_id, sequence{bounds}", values
        )
        return [event_of(row) for row in rows]

    def count(self, event_filter: EventFilter) -> int:
        where, values = filter_sql(self._organization_id, event_filter)
        return self._number(f"SELECT COUNT(*) FROM events{where}", values)

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

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        if question.known_at is not None:
            unknown = self._connection.execute(
                "SELECT MIN(sequence) FROM events WHERE organization_id = ? AND external_subscription_id = ?"
                " AND code = ? AND in_advance AND sequence > ? AND created_at > ?",
                (
                    self._organization_id,
                    question.external_subscription_id,
                    question.code,
                    sequence,
                    microseconds(question.known_at),
                ),
            ).fetchone()
            if unknown is not None and unknown[0] is not None:
                return int(unknown[0]) - 1
        return max(sequence, self.latest())

    # Running totals

    # Who sends events, and events in ranges of time

    def senders(
        self, *, external_subscription_id: str | None = None, code: str | None = None, uncounted: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        marked = " AND uncounted" if uncounted else ""
        where = f"FROM events WHERE organization_id = ?{marked} AND "
        name, last = external_subscription_id, ""
        while name is None and (
            row := self._connection.execute(
                f"SELECT code {where} external_subscription_id IS NULL AND code > ? ORDER BY code LIMIT 1",
                (self._organization_id, last),
            ).fetchone()
        ):
            last = row[0]
            if code is None or last == code:
                yield None, last
        step = (
            "(external_subscription_id, code) > (?, ?)" if name is None else "external_subscription_id = ? AND code > ?"
        )
        place: tuple[str, str] = (name or "", "")
        while row := self._connection.execute(
            f"SELECT external_subscription_id, code {where} {step} ORDER BY external_subscription_id, code LIMIT 1",
            (self._organization_id, *place),
        ).fetchone():
            place = (row[0], row[1])
            if code is None or row[1] == code:
                yield place

    def _ranges_sql(self, ranges: Sequence[EventRange]) -> tuple[str, list[Any]]:
        """FROM and WHERE: ranges as `r`, with their events as `e`."""

        def instants(name: str) -> list[int | None]:
            return [
                None if (instant := getattr(event_range, name)) is None else microseconds(instant)
                for event_range in ranges
            ]

        values = [
            list(range(len(ranges))),
            [event_range.external_subscription_id for event_range in ranges],
            [event_range.code for event_range in ranges],
            *(instants(name) for name in ("earliest", "latest", "received_from", "received_before")),
            [event_range.lacking for event_range in ranges],
            [event_range.event_id for event_range in ranges],
            self._organization_id,
        ]
        alike = (
            " AND e.code = r.code AND (r.earliest IS NULL OR e.timestamp >= r.earliest)"
            " AND (r.latest IS NULL OR e.timestamp <= r.latest)"
            " AND (r.received_from IS NULL OR e.created_at >= r.received_from)"
            " AND (r.received_before IS NULL OR e.created_at < r.received_before)"
            " AND (r.event_id IS NULL OR e.id = r.event_id)"
            f" AND (r.lacking IS NULL OR r.lacking = '{Lacking.COUNTABLE_PROPERTY}' AND e.uncounted"
            " OR NOT e.uncounted AND e.precise_total_amount_cents IS NULL AND"
            f" r.lacking = CASE WHEN e.unread_amount IS NULL THEN '{Lacking.AMOUNT}'"
            f" ELSE '{Lacking.READABLE_AMOUNT}' END)"
        )
        # Separate from events without a subscription, so that each uses an index.
        source = " UNION ALL ".join(
            f"SELECT e.*, r.place FROM ranges r JOIN events e ON e.organization_id = ? AND {test}{alike}"
            for test in (
                "e.external_subscription_id = r.subscription",
                "r.subscription IS NULL AND e.external_subscription_id IS NULL",
            )
        )
        with_clause = (
            "WITH ranges AS (SELECT * FROM unnest(?::int[], ?::text[], ?::text[], ?::bigint[], ?::bigint[],"
            " ?::bigint[], ?::bigint[], ?::text[], ?::text[]) AS r (place, subscription, code, earliest, latest,"
            f" received_from, received_before, lacking, event_id)), e AS ({source})"
        )
        return with_clause, [*values, self._organization_id]

    def in_ranges(self, ranges: Sequence[EventRange], *, limit: int, offset: int = 0) -> list[tuple[int, Event]]:
        with_clause, values = self._ranges_sql(ranges)
        rows = self._connection.execute(
            f"{with_clause} SELECT e.place, {_LISTED} FROM e ORDER BY e.timestamp DESC, e.transaction_id, e.sequence"
            " LIMIT ? OFFSET ?",
            (*values, bounded(limit), bounded(offset)),
        )
        return [(row[0], event_of(row[1:])) for row in rows]

    def count_in_ranges(self, ranges: Sequence[EventRange], *, received_from: datetime | None = None) -> list[int]:
        with_clause, values = self._ranges_sql(ranges)
        received = ""
        if received_from is not None:
            received = " WHERE e.created_at >= ?"
            values.append(microseconds(received_from))
        counted = [0] * len(ranges)
        for place, number in self._connection.execute(
            f"{with_clause} SELECT e.place, COUNT(*) FROM e{received} GROUP BY e.place", values
        ):
            counted[place] = number
        return counted

    def mark(self, code: str, is_uncounted: Callable[[Event], bool]) -> None:
        for name, _ in list(self.senders(code=code)):
            of_sender = "IS NULL" if name is None else "= ?"
            rows = self._connection.stream(
                f"SELECT {COLUMNS}, sequence, uncounted FROM events WHERE organization_id = ? AND code = ?"
                f" AND external_subscription_id {of_sender}",
                (self._organization_id, code, *(() if name is None else (name,))),
            )
            changed: dict[bool, list[int]] = {True: [], False: []}
            for *columns, sequence, marked in rows:
                should_be_marked = is_uncounted(event_of(tuple(columns)))
                if should_be_marked != marked:
                    changed[should_be_marked].append(sequence)
            for is_marked, sequences in changed.items():
                if sequences:
                    self._connection.execute(
                        "UPDATE events SET uncounted = ? WHERE organization_id = ? AND sequence = ANY(?::bigint[])",
                        (is_marked, self._organization_id, sequences),
                    )
