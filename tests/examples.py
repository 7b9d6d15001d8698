"""The number of examples that a property tries: fewer in the fast lane."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

__all__ = ["FAST", "FEW", "examples"]

# The profile of `scripts/test --fast`, and its number of examples of each property.
FAST, FEW = "fast", 3


def examples(most: int, *, few: int = FEW, **rest: Any) -> settings:
    """Settings of a property with `most` examples, or `few` in the fast lane.

    The others are those of `hypothesis.settings`.
    """
    return settings(max_examples=min(most, few) if settings.get_current_profile_name() == FAST else most, **rest)
