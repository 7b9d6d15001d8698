"""Events: appended, never changed; read by subscription, code and time."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from usagebill.core.events import Event
from usagebill.storage.event_rows import COLUMNS, event_of, microseconds
from usagebill.storage.ports import StoredEvent
from usagebill.storage.sql.events import SqlEvents
from usagebill.storage.sql.usage_totals import KnownSeries, MissingSeries, UsageTotals
from usagebill.storage.sqlite.events.dialect import DIALECT, prepare as prepare
from usagebill.storage.sqlite.events.rows import row_of

_STORED: Final = f"{COLUMNS}, texts, millionths, long_numbers"
_INSERT: Final = f"INSERT INTO events ({_STORED}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
_INSERT_SOME: Final = f"INSERT INTO events ({_STORED}, in_advance, uncounted) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_OF_PROPERTIES: Final = ("properties", "texts", "millionths", "long_numbers")
_ROWS_AT_ONCE: Final = 500
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
        totals = self._totals()
        totals.keep_up(totals.done(), last + len(events))
        return []

    def restore(self, events: Iterable[StoredEvent]) -> None:
        self._connection.executemany(
            f"INSERT INTO events (sequence, {_STORED}, in_advance, uncounted) VALUES ({','.join('?' * 16)})",
            (
                (stored.sequence, *row_of(stored.event), stored.in_advance or None, stored.uncounted or None)
                for stored in events
            ),
        )

    def rewrite(self, events: Sequence[Event]) -> None:
        names = _STORED.split(", ")
        places = [names.index(name) for name in (*_OF_PROPERTIES, "id")]
        self._connection.executemany(
            f"UPDATE events SET {', '.join(f'{name} = ?' for name in _OF_PROPERTIES)} WHERE id = ?"
            " AND external_subscription_id IS ? AND transaction_id = ? AND organization_id = ?",
            (
                (
                    *(row[place] for place in places),
                    event.external_subscription_id,
                    event.transaction_id,
                    self._organization_id,
                )
                for event, row in ((event, row_of(event)) for event in events)
            ),
        )

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
