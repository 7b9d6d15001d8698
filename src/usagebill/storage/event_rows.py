"""The columns of an event that every engine stores alike, and tests of them as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from usagebill.core.events import Event, JsonValue, property_text
from usagebill.storage.event_queries import EventFilter, EventQuery

COLUMNS = (
    "id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at, unread_amount"
)

encode_json = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROSECONDS = 86_400_000_000
_MILLION = 1_000_000


def microseconds(value: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00Z: how event instants are stored."""
    since = value - _EPOCH
    return since.days * _DAY_MICROSECONDS + since.seconds * _MILLION + since.microseconds


def instant(value: int) -> datetime:
    """The inverse of `microseconds`."""
    return _EPOCH + timedelta(microseconds=value)


def texts_of(properties: Mapping[str, JsonValue]) -> dict[str, str]:
    """The text forms of the properties that have one."""
    return {key: text for key, value in properties.items() if (text := property_text(value)) is not None}


def event_of(row: tuple[Any, ...]) -> Event:
    """The event whose `COLUMNS` are `row`."""
    id, organization_id, transaction_id, code, subscription, timestamp, properties, amount, created_at, unread = row
    return Event(
        id,
        organization_id,
        transaction_id,
        code,
        subscription,
        instant(timestamp),
        _decode(properties),
        None if amount is None else Decimal(amount),
        instant(created_at),
        unread,
    )


def filter_sql(organization_id: str, event_filter: EventFilter) -> tuple[str, list[Any]]:
    """The WHERE clause of a list of events, and its values."""
    return _where_sql(
        organization_id,
        event_filter.code,
        event_filter.external_subscription_id,
        event_filter.timestamp_from,
        event_filter.timestamp_to,
    )


def size_sql(organization_id: str, question: EventQuery) -> tuple[str, list[Any]]:
    """The WHERE clause for the events of a query by code, subscription id and time alone, and its values."""
    return _where_sql(
        organization_id, question.code, question.external_subscription_id, question.earliest, question.latest
    )


def _where_sql(
    organization_id: str,
    code: str | None,
    external_subscription_id: str | None,
    earliest: datetime | None,
    latest: datetime | None,
) -> tuple[str, list[Any]]:
    tests: list[str] = ["organization_id = ?"]
    values: list[Any] = [organization_id]
    for test, value in (
        ("code = ?", code),
        ("external_subscription_id = ?", external_subscription_id),
        ("timestamp >= ?", None if earliest is None else microseconds(earliest)),
        ("timestamp <= ?", None if latest is None else microseconds(latest)),
    ):
        if value is not None:
            tests.append(test)
            values.append(value)
    return " WHERE " + " AND ".join(tests), values
