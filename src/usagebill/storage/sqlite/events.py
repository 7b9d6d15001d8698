"""Events: appended, never changed; read by subscription, code and time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from usagebill.core.events import Event

__all__ = ["SqliteEvents", "instant", "microseconds"]

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COLUMNS = (
    "id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at"
)


def microseconds(value: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00Z: how event instants are stored."""
    return (value - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def _row(event: Event) -> tuple[Any, ...]:
    return (
        event.id,
        event.organization_id,
        event.transaction_id,
        event.code,
        event.external_subscription_id,
        microseconds(event.timestamp),
        _encode(event.properties).decode(),
        None if event.precise_total_amount_cents is None else str(event.precise_total_amount_cents),
        microseconds(event.created_at),
    )


def _event(row: tuple[Any, ...]) -> Event:
    return Event(
        id=row[0],
        organization_id=row[1],
        transaction_id=row[2],
        code=row[3],
        external_subscription_id=row[4],
        timestamp=instant(row[5]),
        properties=_decode(row[6]),
        precise_total_amount_cents=None if row[7] is None else Decimal(row[7]),
        created_at=instant(row[8]),
    )


class SqliteEvents:
    """See `storage.ports.EventReader`."""

    def __init__(self, connection: sqlite3.Connection, organization_id: str | None) -> None:
        self._connection = connection
        self._organization_id = organization_id

    def append(self, events: Sequence[Event]) -> list[int]:
        self._connection.execute("SAVEPOINT append")
        try:
            self._connection.executemany(
                f"INSERT INTO events ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", [_row(event) for event in events]
            )
        except sqlite3.IntegrityError:
            self._connection.execute("ROLLBACK TO append")
            self._connection.execute("RELEASE append")
            return self._taken(events)
        self._connection.execute("RELEASE append")
        return []

    def _taken(self, events: Sequence[Event]) -> list[int]:
        seen: set[tuple[str | None, str]] = set()
        positions = []
        for position, event in enumerate(events):
            key = (event.external_subscription_id, event.transaction_id)
            stored = self._connection.execute(
                "SELECT 1 FROM events WHERE organization_id = ? AND external_subscription_id = ?"
                " AND transaction_id = ?",
                (event.organization_id, event.external_subscription_id, event.transaction_id),
            ).fetchone()
            if stored or (key in seen and key[0] is not None):
                positions.append(position)
            seen.add(key)
        return positions
