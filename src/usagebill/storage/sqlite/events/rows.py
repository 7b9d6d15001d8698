"""Rows of events, with the columns by which SQL compares and adds up properties exactly.

`properties` is the JSON of the properties as they were sent. If some of them are not texts, `texts` is JSON of the text
forms (`core.events.property_text`). `millionths` is JSON of the properties that are numbers
(`core.events.numeric_value`) with at most 12 digits before the point and 6 after it, as whole millionths;
`long_numbers` of all other numbers, as text. Each of the three is NULL if it would be empty. A property in neither of
the last two is not a number, so SQL never has to decide that.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from usagebill.core.events import Event, numeric_text
from usagebill.storage.event_rows import encode_json, microseconds, texts_of

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_SHORT_TEXT = 12
_STARTS = frozenset("-0123456789")


# All events of a batch are received at one instant.
_received = lru_cache(maxsize=16)(microseconds)


def row_of(event: Event) -> tuple[Any, ...]:
    """The values of `COLUMNS`, then of texts, millionths and long_numbers."""
    properties = event.properties
    texts: dict[str, str] | None = None
    millionths: dict[str, int] = {}
    long_numbers: dict[str, str] = {}
    for key, value in properties.items():
        if type(value) is str:
            if value[:1] not in _STARTS:
                continue
            text = value
        else:
            if texts is None:
                texts = texts_of(properties)
            if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
                continue
            text = texts[key]
        if not numeric_text(text):
            continue
        whole, _, decimals = text.partition(".")
        if len(whole) <= _SHORT_TEXT and len(decimals) <= 6:
            millionths[key] = int(whole + decimals.ljust(6, "0"))
        else:
            long_numbers[key] = text
    return (
        event.id,
        event.organization_id,
        event.transaction_id,
        event.code,
        event.external_subscription_id,
        microseconds(event.timestamp),
        encode_json(properties).decode(),
        None if event.precise_total_amount_cents is None else str(event.precise_total_amount_cents),
        _received(event.created_at),
        event.unread_amount,
        None if texts is None else encode_json(texts).decode(),
        encode_json(millionths).decode() if millionths else None,
        encode_json(long_numbers).decode() if long_numbers else None,
    )


def member_in(column: str | None, key: str) -> int | str | None:
    """The member `key` of the JSON object in a column, for keys that SQLite's JSON paths cannot name."""
    if column is None:
        return None
    value = _decode(column).get(key)
    return value if isinstance(value, (int, str)) else None
