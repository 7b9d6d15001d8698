"""Values that say nothing was sent."""

from __future__ import annotations


def is_blank(sent: object) -> bool:
    """Whether it is null or empty: some languages write an empty object as a list, and forms write nothing as `""`."""
    return sent is None or sent in ("", [], (), {})
