"""Instants: the step between two, and how callers send them: texts in ISO 8601, or datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

# The smallest step: where both ends of a period belong to it, the next one starts at `end + MICROSECOND`.
MICROSECOND: Final = timedelta(microseconds=1)


def parse_instant(text: str) -> datetime | None:
    """An ISO 8601 date or date-time as an instant in UTC; without an offset it is UTC, without a time midnight.

    None for anything else: other texts, week dates, ordinal dates, texts of over 128 characters.
    """
    if len(text) > 128 or "W" in text or not text[:4].isdigit() or (len(text) > 4 and text[4] != "-"):
        return None
    try:
        parsed = datetime.fromisoformat(text.strip())
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def instant_of(sent: object) -> datetime | None:
    """The instant that was sent, as a text or a datetime (UTC if it has no offset); None for anything else."""
    if isinstance(sent, datetime):
        return sent.astimezone(UTC) if sent.tzinfo else sent.replace(tzinfo=UTC)
    return parse_instant(sent) if isinstance(sent, str) else None
