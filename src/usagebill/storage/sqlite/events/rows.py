"""Rows of events: how one is stored and comes back, and the columns that let SQL add up its properties exactly.

`properties` is JSON whose numbers are in plain notation, so that the text of a number in SQL is its text form.
`millionths` is JSON of those properties that count as numbers (`core.events.numeric_value`) and have at most 12 digits
before the point and 6 behind it, as whole millionths; `long_numbers` of the other ones, as text. Both are NULL where
there are none. What is in neither is no number, so SQL never has to decide that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from usagebill.core.events import Event, JsonValue, numeric_text, property_text

__all__ = ["COLUMNS", "event_of", "instant", "member_in", "microseconds", "row_of", "text_in"]

COLUMNS = (
    "id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at"
)

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROSECONDS = 86_400_000_000
_MILLION = 1_000_000
_SHORT = 10**12
_SHORT_TEXT = 12
_STARTS = frozenset("-0123456789")


def microseconds(value: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00Z: how event instants are stored."""
    since = value - _EPOCH
    return since.days * _DAY_MICROSECONDS + since.seconds * _MILLION + since.microseconds


def instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def row_of(event: Event) -> tuple[Any, ...]:
    """The values of `COLUMNS`, then of millionths and long_numbers."""
    millionths: dict[str, int] = {}
    long_numbers: dict[str, str] = {}
    is_plain = True
    for key, value in event.properties.items():
        if type(value) is str:
            if value[:1] not in _STARTS:
                continue
            text = value
        elif value is None or isinstance(value, bool):
            continue
        elif isinstance(value, int):
            if -_SHORT < value < _SHORT:
                millionths[key] = value * _MILLION
                continue
            text = str(value)
        elif isinstance(value, Decimal):
            text = property_text(value) or ""
            is_plain = is_plain and "E" not in str(value)
        else:
            is_plain = False
            continue
        if not numeric_text(text):
            continue
        whole, _, decimals = text.partition(".")
        if len(whole) <= _SHORT_TEXT and len(decimals) <= 6:
            millionths[key] = int(whole + decimals.ljust(6, "0"))
        else:
            long_numbers[key] = text
    properties = event.properties if is_plain else _plain(event.properties)
    return (
        event.id,
        event.organization_id,
        event.transaction_id,
        event.code,
        event.external_subscription_id,
        microseconds(event.timestamp),
        _encode(properties).decode(),
        None if event.precise_total_amount_cents is None else str(event.precise_total_amount_cents),
        microseconds(event.created_at),
        _encode(millionths).decode() if millionths else None,
        _encode(long_numbers).decode() if long_numbers else None,
    )


def _plain(value: Any) -> Any:
    """`value` with its numbers in the notation of their text forms."""
    if isinstance(value, Decimal):
        text = property_text(value) or ""
        return msgspec.Raw(text.encode()) if "E" not in text else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def event_of(row: tuple[Any, ...]) -> Event:
    """The event whose `COLUMNS` are `row`."""
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


def text_in(properties: str, key: str) -> str | None:
    """The text form of the property `key`, for those that SQL's own JSON functions would tell differently."""
    found: Mapping[str, JsonValue] = _decode(properties)
    return property_text(found.get(key))


def member_in(column: str | None, key: str) -> int | str | None:
    """The number of the property `key` in `millionths` or `long_numbers`."""
    if column is None:
        return None
    found: int | str | None = _decode(column).get(key)
    return found
