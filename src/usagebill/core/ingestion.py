"""Ingestion: an event read as its sender wrote it, and its errors.

Properties are kept as sent. Values that no store could return are refused: NUL characters, lone surrogates, numbers of
over 1,000 digits, values nested over 100 deep, and values that JSON cannot express.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple, TypeGuard

from usagebill.core.blank import is_blank
from usagebill.core.events import JsonValue, parse_amount, parse_timestamp, property_text

DEEPEST: Final = 100
_LONGEST_NUMBER: Final = 1000
_LARGEST: Final = 10**_LONGEST_NUMBER
_SHOWN: Final = 64

_NOTHING: Final[Mapping[str, list[str]]] = {}


class Received(NamedTuple):
    """An event as it was read. `problems` maps each refused field to its codes; `unread_amount` is a price sent that is
    not a number, as text.
    """

    transaction_id: str
    code: str
    external_subscription_id: str | None
    timestamp: datetime
    properties: Mapping[str, JsonValue]
    precise_total_amount_cents: Decimal | None
    unread_amount: str | None
    problems: Mapping[str, list[str]]


class _Refused(Exception):
    """The value cannot be stored."""


def receive(sent: Mapping[str, object], now: datetime) -> Received:
    """Read an event. Unknown keys are ignored; a missing or null timestamp is `now`, missing properties are empty."""
    problems: dict[str, list[str]] = {}
    transaction_id = sent.get("transaction_id")
    if not _is_plain(transaction_id):
        transaction_id = _text(transaction_id, "transaction_id", problems, needed=True)
    code = sent.get("code")
    if not _is_plain(code):
        code = _text(code, "code", problems, needed=True)
    subscription = sent.get("external_subscription_id")
    if subscription is not None and not _is_plain(subscription):
        subscription = _text(subscription, "external_subscription_id", problems)

    sent_timestamp = sent.get("timestamp")
    timestamp = (
        now
        if sent_timestamp is None
        else parse_timestamp(sent_timestamp if type(sent_timestamp) is int else _scalar(sent_timestamp))
    )
    if timestamp is None:
        problems["timestamp"] = ["invalid_format"]
        timestamp = now

    properties: Mapping[str, JsonValue] = {}
    raw = sent.get("properties")
    if isinstance(raw, (dict, Mapping)):
        try:
            properties = _storable(raw)
        except _Refused:
            problems["properties"] = ["value_is_invalid"]
    elif not is_blank(raw):
        problems["properties"] = ["value_is_invalid"]
    amount: Decimal | None = None
    unread_amount: str | None = None
    sent_amount = sent.get("precise_total_amount_cents")
    if sent_amount is not None:
        amount = parse_amount(_scalar(sent_amount))
        if amount is None:
            unread_amount = _unread(sent_amount, problems)
    return Received(
        transaction_id or "",
        code or "",
        subscription,
        timestamp,
        properties,
        amount,
        unread_amount,
        problems or _NOTHING,
    )


def _is_plain(value: object) -> TypeGuard[str]:
    """Whether `value` is a text that needs no further check, as most are."""
    return type(value) is str and value.isprintable() and not value.isspace() and value != ""


def _text(value: object, field: str, problems: dict[str, list[str]], *, needed: bool = False) -> str | None:
    """The text of a field: numbers and booleans are converted, anything else counts as absent."""
    if type(value) is not str:
        exact = _exact(value)
        value = property_text(exact) if isinstance(exact, (str, int, Decimal)) else None
    if needed and (not value or value.isspace()):
        problems[field] = ["value_is_mandatory"]
    elif value is not None and not _is_storable(value):
        problems[field] = ["value_is_invalid"]
    return value


def _exact(value: object) -> object:
    """`value`; a float, which only library callers send, becomes the decimal of its literal."""
    return Decimal(str(value)) if isinstance(value, float) else value


def _scalar(value: object) -> JsonValue:
    """A scalar as JSON has it; an empty list for anything else."""
    exact = _exact(value)
    return exact if isinstance(exact, (str, int, Decimal)) else []


def _unread(value: object, problems: dict[str, list[str]]) -> str | None:
    """The beginning of a price that is not a number, as text; None for blank text, which says nothing."""
    try:
        text = property_text(_storable_value(value, 1)) or ""
    except _Refused:
        problems["precise_total_amount_cents"] = ["value_is_invalid"]
        return None
    return None if not text or text.isspace() else text[:_SHOWN]


def _is_storable(text: str) -> bool:
    if text.isprintable():  # contains neither NUL nor surrogates
        return True
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _storable(properties: Mapping[object, object]) -> Mapping[str, JsonValue]:
    """`properties` in their stored form. Raises `_Refused` if they cannot be stored."""
    checked: dict[str, JsonValue] = {}
    for key, value in properties.items():
        if type(key) is not str or not (key.isprintable() or _is_storable(key)):
            raise _Refused
        # Plain texts are by far the most frequent values.
        if type(value) is str and value.isprintable():
            checked[key] = value
        else:
            checked[key] = _storable_value(value, 1)
    return checked


def _storable_value(value: object, depth: int) -> JsonValue:
    if depth > DEEPEST:
        raise _Refused
    match _exact(value):
        case None | bool() as plain:
            return plain
        case str() as text:
            if not _is_storable(text):
                raise _Refused
            return text
        case int() as whole:
            if not -_LARGEST < whole < _LARGEST:
                raise _Refused
            return int(whole)
        case Decimal() as number:
            if not number.is_finite() or len(str(number)) > _LONGEST_NUMBER:
                raise _Refused
            return number
        case Mapping() as members:
            storable: dict[str, JsonValue] = {}
            for key, item in members.items():
                if not isinstance(key, str) or not _is_storable(key):
                    raise _Refused
                storable[key] = _storable_value(item, depth + 1)
            return storable
        case Sequence() as items if not isinstance(items, (bytes, bytearray, memoryview)):
            return [_storable_value(item, depth + 1) for item in items]
        case _:
            raise _Refused
