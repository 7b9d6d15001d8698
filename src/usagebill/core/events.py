"""Usage events: their record, how timestamps, numbers and texts are read, and their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from usagebill.core.numbers import floor_to, parse_decimal, round_to

# JSON as it is read here: numbers are int or Decimal, never float.
JsonValue: TypeAlias = "bool | int | Decimal | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

# The place of an event in time: timestamp, then arrival, then id.
EventOrder: TypeAlias = tuple[datetime, datetime, str]

# The longest text of a property that counts as a number: 30 digits before and after the point are fine, and sums of
# such numbers and their products with the 20 decimals of a day ratio stay exact.
LONGEST_VALUE = 64
_LONGEST_PLAIN_NUMBER = 1000
_LARGEST_AMOUNT_DIGITS = 40
_AMOUNT_DECIMALS = 15

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A day inside the range of `datetime`, so that every accepted instant has a local date in every time zone.
_EARLIEST = Decimal((datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1))
_LATEST = Decimal((datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1))
# The same as integers, which compare ten times as fast.
_EARLIEST_SECOND, _LATEST_SECOND = int(_EARLIEST), int(_LATEST)

_NUMERIC = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


class Event(NamedTuple):
    """A usage event of a customer: `code` names the billable metric that counts it.

    `timestamp` is when it happened and `created_at` when it was received (both aware, UTC, microseconds).
    `precise_total_amount_cents` is the price sent with it, in fractions of cents (dynamic charges); if what was sent
    is not a number, it is None and `unread_amount` the text sent.
    """

    id: str
    organization_id: str
    transaction_id: str
    code: str
    external_subscription_id: str | None
    timestamp: datetime
    properties: Mapping[str, JsonValue]
    precise_total_amount_cents: Decimal | None
    created_at: datetime
    unread_amount: str | None = None

    @property
    def order(self) -> EventOrder:
        """The place of the event in time: timestamp, then arrival, then id."""
        return (self.timestamp, self.created_at, self.id)


def parse_timestamp(value: JsonValue) -> datetime | None:
    """The instant of `value`, Unix seconds as a JSON number or as decimal text; None if it is not one.

    Seconds are read as exact decimals and cut to microseconds. ISO 8601 texts, blanks and booleans are no instants, nor
    are seconds outside the years 1 to 9999 (milliseconds sent by mistake).
    """
    # Nearly all are whole seconds.
    if type(value) is int and _EARLIEST_SECOND <= value <= _LATEST_SECOND:
        return _EPOCH + timedelta(0, value)
    seconds: Decimal | None
    match value:
        case bool():
            return None
        case int() | Decimal():
            seconds = Decimal(value)
        case str():
            seconds = parse_decimal(value)
        case _:
            return None
    if seconds is None or not seconds.is_finite() or not _EARLIEST <= seconds <= _LATEST:
        return None
    return _EPOCH + timedelta(microseconds=int(floor_to(seconds, 6).scaleb(6)))


def parse_amount(value: JsonValue) -> Decimal | None:
    """`value` as `precise_total_amount_cents`: cents with 15 decimals, half away from zero.

    None if it is not a number, or has over 40 digits before the point.
    """
    amount: Decimal | None
    match value:
        case bool():
            return None
        case int() | Decimal():
            amount = Decimal(value)
        case str():
            amount = parse_decimal(value)
        case _:
            return None
    if amount is None or not amount.is_finite() or amount.adjusted() >= _LARGEST_AMOUNT_DIGITS:
        return None
    return round_to(amount, _AMOUNT_DECIMALS)


def property_text(value: JsonValue) -> str | None:
    """The text form of a property, which filters, groups and unique counts compare.

    Strings are unchanged, numbers are in plain decimal notation with the digits sent, null has none; booleans, arrays
    and objects become their JSON text (with sorted keys, so that equal objects have one text).
    """
    match value:
        case None:
            return None
        case str():
            return value
        case _:
            return _json_text(value)


def property_of(event: Event, field: str | None) -> str | None:
    """The text form of the event's property `field`; None if the property is missing or null."""
    return None if field is None else property_text(event.properties.get(field))


def numeric_value(event: Event, field: str | None) -> Decimal | None:
    """The event's property `field` as a number for sum, max, latest and weighted sum.

    None unless its text form is an optional `-`, digits, and optionally `.` and digits: an event without such a number
    counts neither for the value nor for the number of events. Texts of over 64 characters are not numbers.
    """
    text = property_of(event, field)
    return Decimal(text) if text is not None and numeric_text(text) else None


def numeric_text(text: str) -> bool:
    """Whether `text` is a number by the rule of `numeric_value`."""
    return len(text) <= LONGEST_VALUE and _NUMERIC.fullmatch(text) is not None


def cut_to_seconds(instant: datetime) -> datetime:
    """`instant` cut to the second, as senders with whole seconds stamp it."""
    return instant.replace(microsecond=0)


def share_second(ended_at: datetime | None, started_at: datetime | None) -> bool:
    """Whether something that starts at `started_at` follows something that ended at `ended_at` within the same
    second.
    """
    if ended_at is None or started_at is None:
        return False
    return ended_at <= started_at and cut_to_seconds(ended_at) == cut_to_seconds(started_at)


def repeated_positions(transaction_ids: Iterable[str]) -> tuple[int, ...]:
    """The zero-based positions of transaction ids that occur earlier in the same batch."""
    earlier_ids: set[str] = set()
    positions = []
    for position, transaction_id in enumerate(transaction_ids):
        if transaction_id in earlier_ids:
            positions.append(position)
        earlier_ids.add(transaction_id)
    return tuple(positions)


def _number_text(value: int | Decimal) -> str:
    number = Decimal(value)
    if abs(number.adjusted()) > _LONGEST_PLAIN_NUMBER:
        return str(number)  # writing out 1e999999 would only exhaust memory
    return format(number, "f")


def _scalar_text(value: bool | int | Decimal | str | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return _number_text(value)


def _json_text(value: JsonValue) -> str:
    """JSON text without recursion: events may be nested as deeply as their sender likes."""
    parts: list[str] = []
    pending: list[tuple[str, JsonValue, bool]] = [("", value, True)]  # a text to write, then a value if there is one
    while pending:
        before, current, has_value = pending.pop()
        parts.append(before)
        if not has_value:
            continue
        match current:
            case None | bool() | int() | Decimal() | str():
                parts.append(_scalar_text(current))
            case Mapping():
                keys = sorted(current)
                pending.append(("}" if keys else "{}", None, False))
                for position in range(len(keys) - 1, -1, -1):
                    key = json.dumps(keys[position], ensure_ascii=False)
                    pending.append((f"{', ' if position else '{'}{key}: ", current[keys[position]], True))
            case _:
                pending.append(("]" if current else "[]", None, False))
                pending.extend(
                    (", " if position else "[", current[position], True) for position in range(len(current) - 1, -1, -1)
                )
    return "".join(parts)
