"""Formats: instants, dates and rates as JSON shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, overload

from usagebill.core.numbers import decimal_text


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a text field of a view, as JSON Schema names it."""

    name: str


@dataclass(frozen=True, slots=True)
class Unstored:
    """A view of a record that is not stored: its ids and instants are null unless it `has_ids`.

    Fields in `left_out` are absent.
    """

    left_out: tuple[str, ...] = ()
    has_ids: bool = False


Id = Annotated[str, Format("uuid")]
Instant = Annotated[str, Format("date-time")]
Day = Annotated[str, Format("date")]
DecimalText = Annotated[str, Format("decimal")]


# In a third of the time that `strftime` takes: a page of a list has hundreds of instants.
_SECONDS = "%04d-%02d-%02dT%02d:%02d:%02d"


def _seconds_text(value: datetime) -> str:
    return _SECONDS % (value.year, value.month, value.day, value.hour, value.minute, value.second)


@overload
def instant_text(value: datetime) -> str: ...
@overload
def instant_text(value: datetime | None) -> str | None: ...
def instant_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59Z`: UTC, cut to the second."""
    return None if value is None else f"{_seconds_text(value.astimezone(UTC))}Z"


@overload
def millisecond_text(value: datetime) -> str: ...
@overload
def millisecond_text(value: datetime | None) -> str | None: ...
def millisecond_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59.123Z`: UTC, cut to the millisecond."""
    if value is None:
        return None
    value = value.astimezone(UTC)
    return f"{_seconds_text(value)}.{value.microsecond // 1000:03d}Z"


def offset_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59+00:00`: UTC, cut to the second, as fees show their dates."""
    return None if value is None else f"{_seconds_text(value.astimezone(UTC))}+00:00"


@overload
def date_text(value: date) -> str: ...
@overload
def date_text(value: date | None) -> str | None: ...
def date_text(value: date | None) -> str | None:
    """`2024-01-31`."""
    return None if value is None else value.isoformat()


def rate_number(value: Decimal) -> Decimal:
    """A tax rate as a JSON number with at least one decimal: 20.0."""
    return Decimal(decimal_text(value))


def plain_number(value: Decimal) -> int | Decimal:
    """A decimal as a JSON number, without a fraction if it has none: 10, 2.5."""
    return int(value) if value == value.to_integral_value() else Decimal(decimal_text(value))


def optional_decimal(value: Decimal | None) -> str | None:
    """A decimal as text with all its digits, or null."""
    return None if value is None else decimal_text(value)
