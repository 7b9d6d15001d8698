"""Ingestion: what is made of an event as its sender wrote it, and what is wrong with it.

Properties are kept as sent. What no store could give back is refused: the NUL character, half of a surrogate pair,
numbers of over 1,000 digits, values nested over 100 deep, values that JSON has no word for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from usagebill.core.events import JsonValue, parse_amount, parse_timestamp, property_text

__all__ = ["DEEPEST", "LONGEST_INTEGER_BITS", "Received", "receive", "storable"]

DEEPEST: Final = 100
# 1,000 decimal digits.
LONGEST_INTEGER_BITS: Final = 3322
_LONGEST_NUMBER: Final = 1000


@dataclass(frozen=True, slots=True)
class Received:
    """An event as it was read. `problems` maps each field that cannot be taken to its codes."""

    transaction_id: str
    code: str
    external_subscription_id: str | None
    timestamp: datetime
    properties: Mapping[str, JsonValue]
    precise_total_amount_cents: Decimal | None
    problems: Mapping[str, list[str]]


class _Refused(Exception):
    """The value cannot be stored."""


_NOTHING: Final[Mapping[str, list[str]]] = {}


def receive(sent: Mapping[str, object], now: datetime) -> Received:
    """Read an event. Unknown keys are ignored; a missing or null timestamp is `now`, missing properties are empty."""
    problems: dict[str, list[str]] = {}
    transaction_id = _text(sent, "transaction_id", problems)
    code = _text(sent, "code", problems)
    for field, text in (("transaction_id", transaction_id), ("code", code)):
        if field not in problems and (not text or text.isspace()):
            problems[field] = ["value_is_mandatory"]
    external_subscription_id = _text(sent, "external_subscription_id", problems)

    given = sent.get("timestamp")
    timestamp = now if given is None else parse_timestamp(_number_or_text(given))
    if timestamp is None:
        problems["timestamp"] = ["invalid_format"]

    properties: Mapping[str, JsonValue] = {}
    raw = sent.get("properties")
    if isinstance(raw, Mapping):
        try:
            properties = storable(raw)
        except _Refused:
            problems["properties"] = ["value_is_invalid"]
    amount = sent.get("precise_total_amount_cents")
    return Received(
        transaction_id or "",
        code or "",
        external_subscription_id,
        timestamp or now,
        properties,
        None if amount is None else parse_amount(_number_or_text(amount)),
        problems or _NOTHING,
    )


def _text(sent: Mapping[str, object], field: str, problems: dict[str, list[str]]) -> str | None:
    """The text of a field: numbers and booleans are converted, anything else counts as absent."""
    value = sent.get(field)
    if value is None:
        return None
    if isinstance(value, (bool, int, Decimal, float)):
        number = _number_or_text(value)
        value = property_text(number)
    if not isinstance(value, str):
        return None
    if not _is_storable(value):
        problems[field] = ["value_is_invalid"]
    return value


def _number_or_text(value: object) -> JsonValue:
    """A scalar as JSON has it; None for anything else."""
    if isinstance(value, float):
        return Decimal(repr(value))
    return value if isinstance(value, (bool, int, Decimal, str)) else []


def _is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(properties: Mapping[object, object]) -> Mapping[str, JsonValue]:
    """`properties` as they are stored; raises where they cannot be."""
    checked: dict[str, JsonValue] = {}
    for key, value in properties.items():
        kind = type(value)
        if type(key) is not str or not _is_storable(key):
            raise _Refused
        if kind is str:
            if not _is_storable(value):  # type: ignore[arg-type]
                raise _Refused
            checked[key] = value  # type: ignore[assignment]
        elif value is None or kind is bool:
            checked[key] = value  # type: ignore[assignment]
        else:
            checked[key] = _storable_value(value, 1)
    return checked


def _storable_value(value: object, depth: int) -> JsonValue:
    if depth > DEEPEST:
        raise _Refused
    match value:
        case None | bool():
            return value
        case str():
            if not _is_storable(value):
                raise _Refused
            return value
        case int():
            if value.bit_length() > LONGEST_INTEGER_BITS:
                raise _Refused
            return int(value)
        case float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else value
            if not number.is_finite() or len(number.as_tuple().digits) > _LONGEST_NUMBER:
                raise _Refused
            return number
        case Mapping():
            found: dict[str, JsonValue] = {}
            for key, item in value.items():
                if not isinstance(key, str) or not _is_storable(key):
                    raise _Refused
                found[key] = _storable_value(item, depth + 1)
            return found
        case Sequence() if not isinstance(value, (bytes, bytearray, memoryview)):
            return [_storable_value(item, depth + 1) for item in value]
        case _:
            raise _Refused
