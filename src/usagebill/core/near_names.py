"""The known name that a mistyped one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None if none is close."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)
