"""Typed access to JSON from outside: a missing value or one of the wrong type is an error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime

from usagebill.process.json_text import Json


def value(said: Json, *path: str) -> Json:
    """The value at a path of names; null if any name is missing."""
    for name in path:
        if not isinstance(said, dict):
            return None
        said = said.get(name)
    return said


def text(said: Json, *path: str) -> str | None:
    """A non-empty text, else None. Integers are converted: some providers use them as ids."""
    item = value(said, *path)
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    return item if isinstance(item, str) and item else None


def required_text(said: Json, *path: str) -> str:
    """The same, but ValueError if there is none."""
    item = text(said, *path)
    if item is None:
        raise ValueError(f"{'.'.join(path)} is missing")
    return item


def required_int(said: Json, *path: str) -> int:
    """A whole number. Raises ValueError if there is none."""
    item = value(said, *path)
    if isinstance(item, bool) or not isinstance(item, int):
        raise ValueError(f"{'.'.join(path)} is not a whole number")
    return item


def instant(said: Json, *path: str) -> datetime | None:
    """An instant, as seconds since 1970 or in ISO 8601, in UTC if it names no zone; None for anything else."""
    item = value(said, *path)
    try:
        if isinstance(item, int) and not isinstance(item, bool):
            return datetime.fromtimestamp(item, UTC)
        named = datetime.fromisoformat(item) if isinstance(item, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return named.replace(tzinfo=UTC) if named is not None and named.tzinfo is None else named


def items(said: Json, *path: str) -> list[Json]:
    """A list. Raises ValueError if there is none."""
    item = value(said, *path)
    if not isinstance(item, list):
        raise ValueError(f"{'.'.join(path)} is not a list")
    return item


def number(digits: str | None) -> int | None:
    """A month or a year, from at most four digits; None for anything else."""
    is_number = digits is not None and digits.isascii() and digits.isdigit() and len(digits) <= 4
    return int(digits or 0) if is_number else None


def year(digits: str | None) -> int | None:
    """A year, from four digits or from its last two."""
    whole = number(digits)
    return whole + 2000 if whole is not None and whole < 100 else whole


def digest(parts: Iterable[str]) -> str:
    """An id for an event without one, derived from its distinguishing values."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
