"""Lists of events: total counts and deep pages without reading the events that are skipped.

`event_counts` has the number of events by hour and code, for each organization and for each subscription with many
events. It is updated in batches, by the transaction that stores the last event of a batch; newer events are counted
directly. Events are never changed or deleted, so counts stay valid.

Each count also names its first and last event, by sequence number, so that an hour with one or two events need not be
scanned. Counts of older versions lack them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from typing import Any, Final

from usagebill.core.events import Event
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.event_rows import COLUMNS, event_of, instant, microseconds
from usagebill.storage.listings import CountFault
from usagebill.storage.record_sql import bounded

_HOUR: Final = 3_600_000_000
# The hour of an event, also before 1970: SQLite divides towards zero.
_SLOT: Final = f"(timestamp - (timestamp % {_HOUR} + {_HOUR}) % {_HOUR}) / {_HOUR}"
# Events are counted in batches of this size.
_EVERY: Final = 10_000
# A subscription with this many events gets its own counts. The subscription of one in this many events is checked.
_MANY: Final = 10_000
_LOOKED_AT: Final = 2_000
# The counts of an hour name this many of its events.
_NAMED: Final = 2
# Up to this many codes are merged; with more, events are sorted.
_MERGED: Final = 200
# The columns of a count, and how they are merged with older ones: an unknown first event stays unknown.
_KEPT: Final = "COUNT(*), MIN(sequence), MAX(sequence)"
_ADD: Final = (
    " ON CONFLICT DO UPDATE SET n = n + excluded.n, first_sequence = min(first_sequence, excluded.first_sequence),"
    " last_sequence = max(last_sequence, excluded.last_sequence)"
)
# What counts are kept for: the whole organization, or a subscription.
_EVERYONE: Final = "''"
_SUBSCRIBER: Final = "'=' || external_subscription_id"
_EARLIEST: Final = -(2**62)
_LATEST: Final = 2**62


def _own_key(external_subscription_id: str | None) -> str:
    """The key of a subscription in the counts; empty for the whole organization."""
    return "" if external_subscription_id is None else f"={external_subscription_id}"


def count_new_events(connection: sqlite3.Connection, last: int, count: int) -> None:
    """Update the counts if the `count` events after sequence `last` complete a batch."""
    top = last + count
    if last // _EVERY == top // _EVERY:
        return
    done = _counted_up_to(connection)
    window = (done, top)
    connection.execute(
        f"INSERT INTO event_counts SELECT organization_id, '', {_SLOT}, code, {_KEPT} FROM events"
        f" WHERE sequence > ? AND sequence <= ? GROUP BY 1, 2, 3, 4{_ADD}",
        window,
    )
    connection.execute(
        f"INSERT INTO event_counts SELECT organization_id, '=' || external_subscription_id, {_SLOT}, code, {_KEPT}"
        " FROM events e WHERE sequence > ? AND sequence <= ? AND EXISTS (SELECT 1 FROM event_counts c WHERE"
        " c.organization_id = e.organization_id AND c.external_subscription_id = '=' || e.external_subscription_id)"
        f" GROUP BY 1, 2, 3, 4{_ADD}",
        window,
    )
    some = connection.execute(
        "SELECT DISTINCT organization_id, external_subscription_id FROM events WHERE sequence > ? AND sequence <= ?"
        " AND sequence % ? = 0 AND external_subscription_id IS NOT NULL",
        (*window, _LOOKED_AT),
    ).fetchall()
    for organization_id, external_subscription_id in some:
        lists = EventLists(connection, organization_id)
        if not lists.has_counts(external_subscription_id) and lists.has_many(external_subscription_id):
            _count_subscription(connection, organization_id, external_subscription_id)
    _note(connection, top)


def count_all_events(connection: sqlite3.Connection) -> None:
    """Build the counts of a file that has none yet."""
    top = connection.execute("SELECT coalesce(MAX(sequence), 0) FROM events").fetchone()[0]
    connection.execute("DELETE FROM event_counts")
    connection.execute(
        f"INSERT INTO event_counts SELECT organization_id, '', {_SLOT}, code, {_KEPT} FROM events GROUP BY 1, 2, 3, 4"
    )
    many = connection.execute(
        "SELECT organization_id, external_subscription_id FROM events WHERE external_subscription_id IS NOT NULL"
        " GROUP BY 1, 2 HAVING COUNT(*) >= ?",
        (_MANY,),
    ).fetchall()
    for organization_id, external_subscription_id in many:
        _count_subscription(connection, organization_id, external_subscription_id)
    _note(connection, top)


def _count_subscription(connection: sqlite3.Connection, organization_id: str, external_subscription_id: str) -> None:
    connection.execute(
        f"INSERT INTO event_counts SELECT organization_id, ?, {_SLOT}, code, {_KEPT} FROM events"
        " WHERE organization_id = ? AND external_subscription_id = ? GROUP BY 1, 3, 4",
        (_own_key(external_subscription_id), organization_id, external_subscription_id),
    )


def event_count_faults(connection: sqlite3.Connection, organization_id: str) -> Iterator[CountFault]:
    """The counts of an organization's events that differ from the events up to the last one counted."""
    counted = f"SELECT {{}}, {_SLOT}, code, 0, COUNT(*) FROM events e WHERE organization_id = ? AND +sequence <= ?"
    has_counts = (
        " AND EXISTS (SELECT 1 FROM event_counts c WHERE c.organization_id = e.organization_id"
        " AND c.external_subscription_id = '=' || e.external_subscription_id)"
    )
    rows = connection.execute(
        "SELECT counted_as, slot, code, SUM(kept) AS kept, SUM(counted) AS counted FROM ("
        " SELECT external_subscription_id AS counted_as, slot, code, n AS kept, 0 AS counted FROM event_counts"
        f" WHERE organization_id = ? UNION ALL {counted.format(_EVERYONE)} GROUP BY 1, 2, 3"
        f" UNION ALL {counted.format(_SUBSCRIBER)}{has_counts} GROUP BY 1, 2, 3)"
        " GROUP BY 1, 2, 3 HAVING SUM(kept) <> SUM(counted) ORDER BY 1, 2, 3",
        (organization_id, *(organization_id, _counted_up_to(connection)) * 2),
    )
    for counted_as, slot, code, kept, number in rows:
        hour = instant(slot * _HOUR).isoformat(timespec="minutes")
        of_subscription = f", subscription {counted_as[1:]}" if counted_as else ""
        yield CountFault("events", f"code={code}, hour from {hour}{of_subscription}", kept, number)


def recount_events(connection: sqlite3.Connection, organization_id: str) -> None:
    """Build the counts of an organization again."""
    up_to = _counted_up_to(connection)
    connection.execute("DELETE FROM event_counts WHERE organization_id = ?", (organization_id,))
    for counted_as, tests in (
        (_EVERYONE, ""),
        (
            _SUBSCRIBER,
            " AND external_subscription_id IN (SELECT external_subscription_id FROM events"
            f" WHERE organization_id = ?1 AND +sequence <= ?2 GROUP BY 1 HAVING COUNT(*) >= {_MANY})",
        ),
    ):
        connection.execute(
            f"INSERT INTO event_counts SELECT organization_id, {counted_as}, {_SLOT}, code, {_KEPT} FROM events"
            f" WHERE organization_id = ?1 AND +sequence <= ?2{tests} GROUP BY 1, 2, 3, 4",
            (organization_id, up_to),
        )


def _counted_up_to(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT sequence FROM event_counts_made").fetchone()
    return 0 if row is None else int(row[0])


def _note(connection: sqlite3.Connection, top: int) -> None:
    connection.execute("INSERT OR REPLACE INTO event_counts_made (id, sequence) VALUES (1, ?)", (top,))


class EventLists:
    """The lists of events of one organization, on a connection."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str) -> None:
        self._connection = connection
        self._organization_id = organization_id

    def has_counts(self, external_subscription_id: str | None) -> bool:
        """Whether the subscription (None: the whole organization) has its own counts."""
        row = self._connection.execute(
            "SELECT 1 FROM event_counts WHERE organization_id = ? AND external_subscription_id = ? LIMIT 1",
            (self._organization_id, _own_key(external_subscription_id)),
        ).fetchone()
        return row is not None

    def has_many(self, external_subscription_id: str) -> bool:
        """Whether the subscription has enough events for its own counts."""
        counted = self._connection.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE organization_id = ? AND external_subscription_id = ?"
            " LIMIT ?)",
            (self._organization_id, external_subscription_id, _MANY),
        )
        return bool(counted.fetchone()[0] >= _MANY)

    def count(self, event_filter: EventFilter) -> int:
        """The number of events that match; only if `has_counts`."""
        first, last = _bounds(event_filter)
        done = _counted_up_to(self._connection)
        # The hours wholly between both instants: from the first to the one before the last.
        begin, end = -(-first // _HOUR), (last + 1) // _HOUR
        by_code, code_test, code_values = _of_code(event_filter)
        number = self._connection.execute(
            f"SELECT coalesce(SUM(n), 0) FROM event_counts{by_code}"
            " WHERE organization_id = ? AND external_subscription_id = ?"
            f" AND slot >= ? AND slot < ?{code_test}",
            (self._organization_id, _own_key(event_filter.external_subscription_id), begin, end, *code_values),
        ).fetchone()[0]
        if begin > end:
            number += self._cut(event_filter, first, last, done)
        else:
            if event_filter.timestamp_from is not None and first < begin * _HOUR:
                number += self._cut(event_filter, first, begin * _HOUR - 1, done)
            if event_filter.timestamp_to is not None and end * _HOUR <= last:
                number += self._cut(event_filter, end * _HOUR, last, done)
        tests, values = _tests(event_filter, self._organization_id, "+")
        since = self._connection.execute(
            f"SELECT COUNT(*) FROM events WHERE sequence > ?{tests} AND +timestamp >= ? AND +timestamp <= ?",
            (done, *values, first, last),
        ).fetchone()[0]
        return int(number) + int(since)

    def find(self, event_filter: EventFilter, limit: int, offset: int) -> list[Event]:
        """The events that match, in the order of `EventLog.find`; only if `has_counts`."""
        first, last = _bounds(event_filter)
        slots: dict[int, int] = {}
        reached = 0
        for slot, number in self._slots(event_filter, first, last):
            if not slots and number <= offset:
                offset -= number
                continue
            slots[slot] = number
            reached += number
            if reached >= offset + limit:
                break
        if not slots or not limit:
            return []
        first, last = max(first, min(slots) * _HOUR), min(last, (max(slots) + 1) * _HOUR - 1)
        if event_filter.external_subscription_id is None and event_filter.code is not None:
            return self._of_hours(event_filter, slots, (first, last), limit, offset)
        source, values = self._source(event_filter, first, last)
        times = [row[0] for row in self._times(event_filter, first, last, offset + limit)]
        if offset >= len(times):
            return []
        latest, earliest = times[offset], times[-1]
        rows = self._connection.execute(
            f"SELECT {COLUMNS} {source} ORDER BY timestamp DESC, transaction_id, sequence LIMIT ? OFFSET ?",
            (*values[:-2], earliest, latest, limit, offset - times.index(latest)),
        )
        return [event_of(row) for row in rows]

    def _of_hours(
        self, event_filter: EventFilter, slots: dict[int, int], bounds: tuple[int, int], limit: int, offset: int
    ) -> list[Event]:
        """A page of events of one code across subscriptions; hours without it are skipped."""
        first, last = bounds
        whole = {
            slot: number
            for slot, number in slots.items()
            if number <= _NAMED and first <= slot * _HOUR and (slot + 1) * _HOUR - 1 <= last
        }
        sequences = self._known_sequences(event_filter, whole)
        rows = self._connection.execute(
            f"SELECT timestamp, transaction_id, sequence, {COLUMNS} FROM events"
            " WHERE sequence IN (SELECT value FROM json_each(?))",
            (json.dumps([sequence for known in sequences.values() for sequence in known]),),
        ).fetchall()
        parts = [
            (max(first, slot * _HOUR), min(last, (slot + 1) * _HOUR - 1)) for slot in slots if slot not in sequences
        ]
        rows += self._connection.execute(
            f"SELECT timestamp, transaction_id, sequence, {COLUMNS}"
            " FROM (SELECT value ->> 0 AS begins, value ->> 1 AS ends FROM json_each(?)) part"
            " CROSS JOIN events INDEXED BY events_listed ON organization_id = ? AND code = ?"
            " AND timestamp >= part.begins AND timestamp <= part.ends",
            (json.dumps(parts), self._organization_id, event_filter.code),
        ).fetchall()
        rows.sort(key=lambda row: (-row[0], row[1], row[2]))
        return [event_of(row[3:]) for row in rows[offset : offset + limit]]

    def _known_sequences(self, event_filter: EventFilter, slots: dict[int, int]) -> dict[int, set[int]]:
        """The events of the code in hours with one or two of them, if the counts name them all."""
        rows = self._connection.execute(
            "SELECT slot, n, first_sequence, last_sequence FROM event_counts WHERE organization_id = ?"
            " AND external_subscription_id = ? AND code = ? AND slot IN (SELECT value FROM json_each(?))",
            (self._organization_id, _own_key(None), event_filter.code, json.dumps(list(slots))),
        )
        return {slot: {first, last} for slot, n, first, last in rows if n == slots[slot] and first is not None}

    # Counts

    def _slots(self, event_filter: EventFilter, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The hours between both instants in which events match, latest first, and their number."""
        by_code, code_test, code_values = _of_code(event_filter)
        counts = self._connection.execute(
            f"SELECT slot, SUM(n) FROM event_counts{by_code}"
            " WHERE organization_id = ? AND external_subscription_id = ?"
            f" AND slot >= ? AND slot <= ?{code_test} GROUP BY slot ORDER BY slot DESC",
            (
                self._organization_id,
                _own_key(event_filter.external_subscription_id),
                first // _HOUR,
                last // _HOUR,
                *code_values,
            ),
        )
        done = _counted_up_to(self._connection)
        tests, values = _tests(event_filter, self._organization_id, "+")
        since = self._connection.execute(
            f"SELECT {_SLOT}, COUNT(*) FROM events WHERE sequence > ?{tests}"
            " AND +timestamp >= ? AND +timestamp <= ? GROUP BY 1 ORDER BY 1 DESC",
            (done, *values, first, last),
        ).fetchall()
        exact = (
            (
                slot,
                number
                if first <= slot * _HOUR and (slot + 1) * _HOUR - 1 <= last
                else self._cut(event_filter, max(first, slot * _HOUR), min(last, (slot + 1) * _HOUR - 1), done),
            )
            for slot, number in counts
        )
        for slot, several in groupby(merge(exact, since, key=lambda pair: -pair[0]), key=lambda pair: pair[0]):
            number = sum(number for _, number in several)
            if number:
                yield slot, number

    def _cut(self, event_filter: EventFilter, first: int, last: int, done: int) -> int:
        """The number of events in part of an hour that the counts include."""
        source, values = self._source(event_filter, first, last)
        return int(
            self._connection.execute(f"SELECT COUNT(*) {source} AND sequence <= ?", (*values, done)).fetchone()[0]
        )

    # Events

    def _codes(self, event_filter: EventFilter, first: int, last: int) -> list[str]:
        """The codes of a subscription's events between both instants, and perhaps some more."""
        if event_filter.code is not None:
            return [event_filter.code]
        rows = self._connection.execute(
            "SELECT DISTINCT code FROM event_counts WHERE organization_id = ? AND external_subscription_id = ?"
            " AND slot >= ? AND slot <= ?"
            " UNION SELECT code FROM events WHERE sequence > ? AND +organization_id = ?"
            " AND +external_subscription_id = ?",
            (
                self._organization_id,
                _own_key(event_filter.external_subscription_id),
                first // _HOUR,
                last // _HOUR,
                _counted_up_to(self._connection),
                self._organization_id,
                event_filter.external_subscription_id,
            ),
        )
        return [row[0] for row in rows]

    def _source(self, event_filter: EventFilter, first: int, last: int) -> tuple[str, list[Any]]:
        """FROM and WHERE, which end with both bounds of the timestamp, and their values."""
        if event_filter.external_subscription_id is None:
            tests, values = _tests(event_filter, self._organization_id)
            return (
                f"FROM events INDEXED BY events_listed WHERE 1{tests} AND timestamp >= ? AND timestamp <= ?",
                [*values, first, last],
            )
        codes = self._codes(event_filter, first, last)
        return (
            "FROM events INDEXED BY events_usage WHERE organization_id = ? AND external_subscription_id = ?"
            f" AND code IN ({','.join('?' * len(codes))}) AND timestamp >= ? AND timestamp <= ?",
            [self._organization_id, event_filter.external_subscription_id, *codes, first, last],
        )

    def _times(self, event_filter: EventFilter, first: int, last: int, limit: int) -> sqlite3.Cursor:
        """The timestamps of the latest events between both instants, latest first."""
        codes = () if event_filter.external_subscription_id is None else self._codes(event_filter, first, last)
        if not codes or len(codes) > _MERGED:
            source, values = self._source(event_filter, first, last)
            return self._connection.execute(
                f"SELECT timestamp {source} ORDER BY timestamp DESC LIMIT ?", (*values, bounded(limit))
            )
        part = (
            "SELECT * FROM (SELECT timestamp FROM events INDEXED BY events_usage WHERE organization_id = ?"
            " AND external_subscription_id = ? AND code = ? AND timestamp >= ? AND timestamp <= ?"
            " ORDER BY timestamp DESC LIMIT ?)"
        )
        values = [
            value
            for code in codes
            for value in (
                self._organization_id,
                event_filter.external_subscription_id,
                code,
                first,
                last,
                bounded(limit),
            )
        ]
        return self._connection.execute(
            f"{' UNION ALL '.join([part] * len(codes))} ORDER BY 1 DESC LIMIT ?", (*values, bounded(limit))
        )


def _of_code(event_filter: EventFilter) -> tuple[str, str, tuple[str, ...]]:
    """The index of counts to scan, the test of the code, and its value."""
    if event_filter.code is None:
        return "", "", ()
    return " INDEXED BY event_counts_by_code", " AND code = ?", (event_filter.code,)


def _bounds(event_filter: EventFilter) -> tuple[int, int]:
    """The first and the last instant of the query, both inclusive."""
    return (
        _EARLIEST if event_filter.timestamp_from is None else microseconds(event_filter.timestamp_from),
        _LATEST if event_filter.timestamp_to is None else microseconds(event_filter.timestamp_to),
    )


def _tests(event_filter: EventFilter, organization_id: str, plus: str = "") -> tuple[str, list[Any]]:
    """The conditions of the filter except time. With `plus`, they use no index."""
    tests, values = f" AND {plus}organization_id = ?", [organization_id]
    for column, value in (
        ("code", event_filter.code),
        ("external_subscription_id", event_filter.external_subscription_id),
    ):
        if value is not None:
            tests += f" AND {plus}{column} = ?"
            values.append(value)
    return tests, values
