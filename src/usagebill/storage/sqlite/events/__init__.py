"""Events: appended, never changed; read by subscription, code and time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from usagebill.core.events import Event
from usagebill.storage.event_queries import (
    EventFilter,
    EventQuery,
    EventRange,
)
from usagebill.storage.event_rows import COLUMNS, event_of, filter_sql, microseconds
from usagebill.storage.record_sql import bounded
from usagebill.storage.sql.events import SqlEvents
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries, UsageTotals
from usagebill.storage.sqlite.events.dialect import DIALECT, prepare as prepare
from usagebill.storage.sqlite.events.lists import EventLists, count_new_events
from usagebill.storage.sqlite.events.ranges import count_in_ranges, has_code, in_ranges, mark, senders
from usagebill.storage.sqlite.events.rows import row_of

_STORED: Final = f"{COLUMNS}, texts, millionths, long_numbers"
_INSERT: Final = f"INSERT INTO events ({_STORED}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
_INSERT_SOME: Final = f"INSERT INTO events ({_STORED}, in_advance, uncounted) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_ROWS_AT_ONCE: Final = 500
_FEW: Final = 10_000
# Clocks of the processes that write to one file differ by less than this.
_CLOCKS_DIFFER: Final = timedelta(minutes=10)


class SqliteEvents(SqlEvents):
    """See `storage.ports.EventStore`."""

    def __init__(
        self, connection: sqlite3.Connection, organization_id: str | None, missing_series: MissingSeries | None = None
    ) -> None:
        super().__init__(connection, DIALECT, organization_id, KnownSeries(missing_series))
        self._connection = connection
        self._missing = missing_series or MissingSeries()

    def append(
        self,
        events: Sequence[Event],
        *,
        in_advance: Collection[str] = (),
        uncounted: Collection[str] = (),
    ) -> list[int]:
        self._check(events)
        # If one is refused, the rows are deleted: a savepoint would copy every changed page.
        last = self._connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0]
        try:
            if in_advance or uncounted:
                rows = (
                    (
                        *row_of(event),
                        1 if event.code in in_advance else None,
                        1 if event.id in uncounted else None,
                    )
                    for event in events
                )
                self._connection.executemany(_INSERT_SOME, rows)
            else:
                self._connection.executemany(_INSERT, map(row_of, events))
        except BaseException as problem:
            if not self._connection.in_transaction:
                # A full disk rolled back the transaction. Events after `last` may now be another writer's.
                raise
            self._connection.execute("DELETE FROM events WHERE sequence > ?", (last,))
            taken = self._taken(events) if isinstance(problem, sqlite3.IntegrityError) else []
            if not taken:
                raise
            return taken
        count_new_events(self._connection, last, len(events))
        totals = self._totals()
        totals.keep_up(totals.done(), last + len(events))
        return []

    def _taken(self, events: Sequence[Event]) -> list[int]:
        seen: set[tuple[str, str]] = set()
        positions = []
        for position, event in enumerate(events):
            if event.external_subscription_id is None:
                continue
            key = (event.external_subscription_id, event.transaction_id)
            stored = self._connection.execute(
                "SELECT 1 FROM events WHERE organization_id = ? AND external_subscription_id = ?"
                " AND transaction_id = ?",
                (self._organization_id, *key),
            ).fetchone()
            if stored or key in seen:
                positions.append(position)
            seen.add(key)
        return positions

    def named(self, external_subscription_id: str, transaction_ids: Sequence[str]) -> list[Event]:
        events: list[Event] = []
        for start in range(0, len(transaction_ids), _ROWS_AT_ONCE):
            some = transaction_ids[start : start + _ROWS_AT_ONCE]
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM events WHERE organization_id = ? AND external_subscription_id = ?"
                f" AND transaction_id IN ({','.join('?' * len(some))})",
                (self._organization_id, external_subscription_id, *some),
            )
            events.extend(map(event_of, rows))
        return sorted(events, key=lambda event: event.order)

    def find(self, event_filter: EventFilter, *, limit: int | None = None, offset: int = 0) -> list[Event]:
        lists = EventLists(self._connection, self._organization_id)
        if limit is not None and lists.has_counts(event_filter.external_subscription_id):
            return lists.find(event_filter, limit, offset)
        where, values = filter_sql(self._organization_id, event_filter)
        # The few events of one subscription are sorted; with many, the index by time returns the first at once.
        place = "+timestamp" if self._are_few(event_filter.external_subscription_id) else "timestamp"
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events{where} ORDER BY {place} DESC, transaction_id, sequence LIMIT ? OFFSET ?",
            (*values, -1 if limit is None else bounded(limit), bounded(offset)),
        )
        return [event_of(row) for row in rows]

    def _are_few(self, external_subscription_id: str | None) -> bool:
        if external_subscription_id is None:
            return False
        counted = self._connection.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE organization_id = ? AND external_subscription_id = ?"
            " LIMIT ?)",
            (self._organization_id, external_subscription_id, _FEW),
        )
        return bool(counted.fetchone()[0] < _FEW)

    def count(self, event_filter: EventFilter) -> int:
        lists = EventLists(self._connection, self._organization_id)
        if lists.has_counts(event_filter.external_subscription_id):
            return lists.count(event_filter)
        where, values = filter_sql(self._organization_id, event_filter)
        return int(self._connection.execute(f"SELECT COUNT(*) FROM events{where}", values).fetchone()[0])

    def mark(self, code: str, is_uncounted: Callable[[Event], bool]) -> None:
        if has_code(self._connection, self._organization_id, code):
            mark(self._connection, self._organization_id, code, is_uncounted)

    def senders(
        self, *, external_subscription_id: str | None = None, code: str | None = None, uncounted: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        return senders(self._connection, self._organization_id, external_subscription_id, code, uncounted)

    def in_ranges(self, ranges: Sequence[EventRange], *, limit: int, offset: int = 0) -> list[tuple[int, Event]]:
        return in_ranges(self._connection, self._organization_id, ranges, bounded(limit), bounded(offset))

    def count_in_ranges(self, ranges: Sequence[EventRange], *, received_from: datetime | None = None) -> list[int]:
        return count_in_ranges(self._connection, self._organization_id, ranges, received_from)

    def stored(self) -> int:
        return int(self._connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0])

    def latest(self) -> int:
        return self.stored()

    def received(self, start: datetime, end: datetime) -> Iterator[Event]:
        # Events are stored in the order of receipt, so the search ends at the last earlier one; the plus keeps SQLite
        # from scanning all events of the organization instead.
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE +organization_id = ? AND created_at >= ? AND created_at < ?"
            " AND sequence > coalesce((SELECT MAX(sequence) FROM events WHERE created_at < ?), 0)",
            (self._organization_id, *map(microseconds, (start, end, start - _CLOCKS_DIFFER))),
        )
        yield from map(event_of, rows)

    def _streamed(self, sql: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(sql, values)

    def _totals(self) -> UsageTotals:
        return UsageTotals(self._connection, DIALECT, None, self._missing)

    def is_behind(self) -> bool:
        """Whether `roll_up` has something to do; for all organizations."""
        return self._totals().is_behind()

    def known_up_to(self, question: EventQuery, sequence: int) -> int:
        if question.known_at is not None:
            unknown = self._connection.execute(
                "SELECT sequence FROM events INDEXED BY events_stored WHERE organization_id = ?"
                " AND external_subscription_id = ? AND code = ? AND in_advance = 1 AND sequence > ? AND created_at > ?"
                " ORDER BY sequence LIMIT 1",
                (
                    self._organization_id,
                    question.external_subscription_id,
                    question.code,
                    sequence,
                    microseconds(question.known_at),
                ),
            ).fetchone()
            if unknown is not None:
                return int(unknown[0]) - 1
        last = self._connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0]
        return max(sequence, int(last))
