"""Rows of events in ClickHouse: the columns that let its SQL compare and add up properties exactly.

`texts` has the text form of each property that has one (`core.events.property_text`). A property that is a number
(`core.events.numeric_value`) is also in one of three maps: in `millionths` with at most 12 digits before the point and
6 after it, as whole millionths; in `wide` with at most 36 and 20; in `long` otherwise, as text. The first are summed as
256-bit integers and the second as Decimal(76, 20): neither can overflow, which ClickHouse would not report. Python adds
up the third.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from hashlib import md5
from typing import Any, Final

import msgspec

from usagebill.core.events import Event, numeric_text, property_text
from usagebill.storage.event_rows import microseconds

_SHORT: Final = (12, 6)
_WIDE: Final = (36, 20)
_AMOUNT: Final = (50, 20)
_STARTS: Final = frozenset("-0123456789")
_properties = msgspec.json.Encoder(decimal_format="number").encode
_encode = msgspec.json.Encoder().encode

# `fingerprint` in SQL.
FINGERPRINT: Final = (
    "halfMD5(concat(toString(sequence), '\\n', id, '\\n', transaction_id, '\\n', toString(timestamp), '\\n',"
    " toString(created_at), '\\n', ifNull(amount_text, ''), '\\n', properties))"
)


def _fits(number: Decimal, digits: tuple[int, int]) -> bool:
    _, places, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return len(places) + exponent <= digits[0] and -exponent <= digits[1]


def _row(sequence: int, event: Event) -> dict[str, Any]:
    texts: dict[str, str] = {}
    millionths: dict[str, int] = {}
    wide: dict[str, str] = {}
    long: dict[str, str] = {}
    for key, value in event.properties.items():
        text = value if type(value) is str else property_text(value)
        if text is None:
            continue
        texts[key] = text
        if text[:1] not in _STARTS or not numeric_text(text):
            continue
        whole, _, decimals = text.partition(".")
        if len(whole) <= _SHORT[0] and len(decimals) <= _SHORT[1]:
            millionths[key] = int(whole + decimals.ljust(6, "0"))
        elif _fits(Decimal(text), _WIDE):
            wide[key] = format(Decimal(text), "f")
        else:
            long[key] = text
    amount = event.precise_total_amount_cents
    if amount is not None and not _fits(amount, _AMOUNT):
        raise ValueError(f"the price of event {event.id} has more digits than the event store can add up")
    return {
        "organization_id": event.organization_id,
        "external_subscription_id": event.external_subscription_id or "",
        "has_subscription": event.external_subscription_id is not None,
        "code": event.code,
        "timestamp": microseconds(event.timestamp),
        "sequence": sequence,
        "created_at": microseconds(event.created_at),
        "id": event.id,
        "transaction_id": event.transaction_id,
        "properties": _properties(event.properties).decode(),
        "texts": texts,
        "millionths": millionths,
        "wide": wide,
        "long": long,
        "amount": None if amount is None else format(amount, "f"),
        "amount_text": None if amount is None else str(amount),
    }


def lines_of(events: Iterable[tuple[int, Event]]) -> bytes:
    """Events with their sequence numbers, as lines of JSON."""
    return b"\n".join(_encode(_row(sequence, event)) for sequence, event in events)


def fingerprint(sequence: int, event: Event) -> int:
    """64 bits of all stored fields of an event, equal for the database's row and the event store's."""
    amount = event.precise_total_amount_cents
    parts = (
        *(str(sequence), event.id, event.transaction_id, str(microseconds(event.timestamp))),
        *(str(microseconds(event.created_at)), "" if amount is None else str(amount)),
        _properties(event.properties).decode(),
    )
    digest = md5("\n".join(parts).encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big")
