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
    found = value(said, *path)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return found if isinstance(found, str) and found else None


def required_text(said: Json, *path: str) -> str:
    """Likewise. Raises ValueError if there is none."""
    found = text(said, *path)
    if found is None:
        raise ValueError(f"{'.'.join(path)} is missing")
    return found


def required_int(said: Json, *path: str) -> int:
    """A whole number. Raises ValueError if there is none."""
    found = value(said, *path)
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{'.'.join(path)} is no whole number")
    return found


def items(said: Json, *path: str) -> list[Json]:
    """A list. Raises ValueError if there is none."""
    found = value(said, *path)
    if not isinstance(found, list):
        raise ValueError(f"{'.'.join(path)} is no list")
    return found


def number(told: str | None) -> int | None:
    """A month or a year that was told as text; None for anything else."""
    return int(told) if told is not None and told.isascii() and told.isdigit() and len(told) <= 4 else None


def year(told: str | None) -> int | None:
    """A year, of which only two digits may be told."""
    whole = number(told)
    return whole + 2000 if whole is not None and whole < 100 else whole


def digest(parts: Iterable[str]) -> str:
    """A name for an event that the provider gives none, from what tells it from others."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
