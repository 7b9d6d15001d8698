"""What is read out of the JSON of others: each value is there, and of its type, or that is said."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from usagebill.json_text import Json

__all__ = ["digest", "items", "number", "required_int", "required_text", "text", "value", "year"]


def value(said: Json, *path: str) -> Json:
    """What stands at the end of a path of names; null if any of them is missing."""
    for name in path:
        if not isinstance(said, dict):
            return None
        said = said.get(name)
    return said


def text(said: Json, *path: str) -> str | None:
    """A text that is not empty, else None. Whole numbers count: some providers number what they make."""
    item = value(said, *path)
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    return item if isinstance(item, str) and item else None


def required_text(said: Json, *path: str) -> str:
    """Likewise. Raises ValueError if there is none."""
    item = text(said, *path)
    if item is None:
        raise ValueError(f"{'.'.join(path)} is missing")
    return item


def required_int(said: Json, *path: str) -> int:
    """A whole number. Raises ValueError if there is none."""
    item = value(said, *path)
    if isinstance(item, bool) or not isinstance(item, int):
        raise ValueError(f"{'.'.join(path)} is no whole number")
    return item


def items(said: Json, *path: str) -> list[Json]:
    """A list. Raises ValueError if there is none."""
    item = value(said, *path)
    if not isinstance(item, list):
        raise ValueError(f"{'.'.join(path)} is no list")
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
    """A name for an event that the provider gives none, from what tells it from others."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
