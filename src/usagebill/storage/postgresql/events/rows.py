"""Rows of events.

`properties` is the JSON of the properties as they were sent. If some of them are not texts, `texts` is JSON of the text
forms (`core.events.property_text`) of those that have one. `numbers` is JSON of the texts of those that are numbers
(`core.events.numeric_value`), so that SQL never has to decide that. Both are NULL if they would be empty.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from usagebill.core.events import Event, numeric_text
from usagebill.storage.event_rows import COLUMNS, encode_json, microseconds, texts_of

STORED = f"sequence, {COLUMNS}, texts, numbers, in_advance, uncounted"

_STARTS = frozenset("-0123456789")

# All events of a batch are received at one instant.
_received = lru_cache(maxsize=16)(microseconds)


def row_of(sequence: int, event: Event, in_advance: bool, uncounted: bool) -> tuple[Any, ...]:
    """The values of `STORED`."""
    properties = event.properties
    texts: dict[str, str] | None = None
    numbers: dict[str, str] = {}
    for key, value in properties.items():
        if type(value) is str:
            if value[:1] in _STARTS and numeric_text(value):
                numbers[key] = value
            continue
        if texts is None:
            texts = texts_of(properties)
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and numeric_text(texts[key]):
            numbers[key] = texts[key]
    amount = event.precise_total_amount_cents
    return (
        sequence,
        event.id,
        event.organization_id,
        event.transaction_id,
        event.code,
        event.external_subscription_id,
        microseconds(event.timestamp),
        encode_json(properties).decode(),
        None if amount is None else str(amount),
        _received(event.created_at),
        event.unread_amount,
        None if texts is None else encode_json(texts).decode(),
        encode_json(numbers).decode() if numbers else None,
        in_advance,
        uncounted,
    )
