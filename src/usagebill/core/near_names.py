"""The known name that a mistyped one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Longer names are not compared: the time for that grows with the product of two lengths.
_LONGEST = 100


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None if none is close or it has over 100 characters."""
    if len(name) > _LONGEST:
        return None
    return next(iter(difflib.get_close_matches(name, [other for other in known if len(other) <= _LONGEST], n=1)), None)
