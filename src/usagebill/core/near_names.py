"""Which known name a mistyped name may have been meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near_name"]


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Of the known names the nearest to `name`, or None if none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)
