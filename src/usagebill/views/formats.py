"""Formats: instants, dates and rates as JSON shows them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from usagebill.core.numbers import decimal_text

__all__ = [
    "date_text",
    "instant_text",
    "millisecond_text",
    "offset_text",
    "optional_decimal",
    "plain_number",
    "rate_number",
]


def instant_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59Z`: UTC, cut to the second."""
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def millisecond_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59.123Z`: UTC, cut to the millisecond."""
    if value is None:
        return None
    value = value.astimezone(UTC)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def offset_text(value: datetime | None) -> str | None:
    """`2024-01-31T23:59:59+00:00`: UTC, cut to the second, as fees show their dates."""
    return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def date_text(value: date | None) -> str | None:
    return None if value is None else value.isoformat()


def rate_number(value: Decimal) -> Decimal:
    """A tax rate as a JSON number with at least one decimal: 20.0."""
    return Decimal(decimal_text(value))


def plain_number(value: Decimal) -> int | Decimal:
    """A decimal as a JSON number, without a fraction where it has none: 10, 2.5."""
    return int(value) if value == value.to_integral_value() else Decimal(decimal_text(value))


def optional_decimal(value: Decimal | None) -> str | None:
    return None if value is None else decimal_text(value)
