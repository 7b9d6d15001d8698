"""Distinct senders of events, and events in ranges of time, by index and without scanning what lies between.

Events that their metric cannot count are marked when they are stored, and again when the metric is created or changed.
Marked events have their own index.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from usagebill.core.events import Event
from usagebill.storage.event_queries import EventRange, Lacking
from usagebill.storage.event_rows import COLUMNS, event_of, microseconds

_FIRST, _LAST = -(2**62), 2**62
_MARKED = "events INDEXED BY events_uncounted"
_ALL = "events INDEXED BY events_usage"
_MEMBERS = ("name", "code", "earliest", "latest", "received_from", "received_before", "place", "event_id")
# The ranges as rows, read from JSON once and not for every event.
_RANGES = "(SELECT {} FROM json_each(?) LIMIT -1)".format(
    ", ".join(f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(_MEMBERS))
)
_IN_RANGE = (
    " e.external_subscription_id IS r.name AND e.code = r.code"
    " AND e.timestamp >= r.earliest AND e.timestamp <= r.latest"
    " AND e.created_at >= r.received_from AND e.created_at < r.received_before"
    " AND (r.event_id IS NULL OR e.id = r.event_id)"
)

_UNPRICED = " AND e.uncounted IS NULL AND e.precise_total_amount_cents IS NULL AND e.unread_amount IS"
# The index that finds the events of a range, and a test.
_SOURCES: Final[Mapping[Lacking | None, tuple[str, str]]] = {
    None: ("events_usage", ""),
    Lacking.COUNTABLE_PROPERTY: ("events_uncounted", " AND e.uncounted = 1"),
    Lacking.AMOUNT: ("events_usage", f"{_UNPRICED} NULL"),
    Lacking.READABLE_AMOUNT: ("events_usage", f"{_UNPRICED} NOT NULL"),
}


def senders(
    connection: sqlite3.Connection, organization_id: str, name: str | None, code: str | None, uncounted: bool
) -> Iterator[tuple[str | None, str]]:
    """See `storage.ports.EventLog.senders`: one index look-up per sender."""
    source, also = (_MARKED, " AND uncounted = 1") if uncounted else (_ALL, "")
    where = f"FROM {source} WHERE organization_id = ?{also} AND "
    last = ""
    while name is None and (
        row := connection.execute(
            f"SELECT code {where} external_subscription_id IS NULL AND code > ? ORDER BY code LIMIT 1",
            (organization_id, last),
        ).fetchone()
    ):
        last = row[0]
        if code is None or last == code:
            yield None, last
    step = "(external_subscription_id, code) > (?, ?)" if name is None else "external_subscription_id = ? AND code > ?"
    place: tuple[str, str] = (name or "", "")
    while row := connection.execute(
        f"SELECT external_subscription_id, code {where} {step} ORDER BY external_subscription_id, code LIMIT 1",
        (organization_id, *place),
    ).fetchone():
        place = row
        if code is None or row[1] == code:
            yield row


def _json(ranges: Sequence[tuple[int, EventRange]]) -> str:
    return json.dumps(
        [
            [
                event_range.external_subscription_id,
                event_range.code,
                _FIRST if event_range.earliest is None else microseconds(event_range.earliest),
                _LAST if event_range.latest is None else microseconds(event_range.latest),
                _FIRST if event_range.received_from is None else microseconds(event_range.received_from),
                _LAST if event_range.received_before is None else microseconds(event_range.received_before),
                place,
                event_range.event_id,
            ]
            for place, event_range in ranges
        ]
    )


def _sources(ranges: Sequence[EventRange]) -> Iterator[tuple[str, str]]:
    """The tables and indexes with the events of these ranges, and the ranges as JSON."""
    for lacking, (source, also) in _SOURCES.items():
        some = [(place, event_range) for place, event_range in enumerate(ranges) if event_range.lacking == lacking]
        if some:
            yield (
                f"FROM {_RANGES} r CROSS JOIN events e INDEXED BY {source}"
                f" WHERE e.organization_id = ? AND {_IN_RANGE}{also}",
                _json(some),
            )


def in_ranges(
    connection: sqlite3.Connection, organization_id: str, ranges: Sequence[EventRange], limit: int, offset: int
) -> list[tuple[int, Event]]:
    """See `storage.ports.EventLog.in_ranges`."""
    parts: list[str] = []
    values: list[Any] = []
    for sql, encoded in _sources(ranges):
        parts.append(
            "SELECT r.place AS place, e.sequence AS sequence, e.timestamp AS timestamp,"
            f" e.transaction_id AS transaction_id {sql}"
        )
        values += (encoded, organization_id)
    if not parts:
        return []
    columns = ", ".join(f"e.{column.strip()}" for column in COLUMNS.split(","))
    rows = connection.execute(
        f"SELECT p.place, {columns} FROM ({' UNION ALL '.join(parts)}"
        " ORDER BY timestamp DESC, transaction_id, sequence LIMIT ? OFFSET ?) p JOIN events e USING (sequence)"
        " ORDER BY e.timestamp DESC, e.transaction_id, e.sequence",
        (*values, limit, offset),
    )
    return [(row[0], event_of(row[1:])) for row in rows]


def count_in_ranges(
    connection: sqlite3.Connection,
    organization_id: str,
    ranges: Sequence[EventRange],
    received_from: datetime | None,
) -> list[int]:
    """See `storage.ports.EventLog.count_in_ranges`."""
    counted = [0] * len(ranges)
    since = _FIRST if received_from is None else microseconds(received_from)
    for sql, encoded in _sources(ranges):
        for place, count in connection.execute(
            f"SELECT r.place, COUNT(*) {sql} AND e.created_at >= ? GROUP BY 1",
            (encoded, organization_id, since),
        ):
            counted[place] = count
    return counted


def has_code(connection: sqlite3.Connection, organization_id: str, code: str) -> bool:
    """Whether any event has the code, by the counts of lists and the few events not counted yet."""
    listed = connection.execute(
        "SELECT 1 FROM event_counts WHERE organization_id = ? AND external_subscription_id = '' AND code = ? LIMIT 1",
        (organization_id, code),
    ).fetchone()
    return listed is not None or (
        connection.execute(
            "SELECT 1 FROM events WHERE sequence > coalesce((SELECT sequence FROM event_counts_made), 0)"
            " AND +organization_id = ? AND code = ? LIMIT 1",
            (organization_id, code),
        ).fetchone()
        is not None
    )


def mark(
    connection: sqlite3.Connection, organization_id: str, code: str, is_uncounted: Callable[[Event], bool]
) -> None:
    """See `storage.ports.EventStore.mark`."""
    for name, _ in list(senders(connection, organization_id, None, code, uncounted=False)):
        rows = connection.execute(
            f"SELECT {COLUMNS}, sequence, uncounted FROM {_ALL}"
            " WHERE organization_id = ? AND external_subscription_id IS ? AND code = ?",
            (organization_id, name, code),
        )
        changed = [
            (new_mark, sequence)
            for *columns, sequence, marked in rows
            if (new_mark := 1 if is_uncounted(event_of(tuple(columns))) else None) != marked
        ]
        connection.executemany("UPDATE events SET uncounted = ? WHERE sequence = ?", changed)


def mark_all(connection: sqlite3.Connection, tests: dict[tuple[str, str], Callable[[Event], bool]]) -> None:
    """Mark the events of a file without marks that meet their test, by organization and code."""
    uncounted = [
        (sequence,)
        for *columns, sequence in connection.execute(f"SELECT {COLUMNS}, sequence FROM events")
        if (test := tests.get((columns[1], columns[3]))) is not None and test(event_of(tuple(columns)))
    ]
    connection.executemany("UPDATE events SET uncounted = 1 WHERE sequence = ?", uncounted)
