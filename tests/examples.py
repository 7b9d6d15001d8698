"""How many examples a property tries: as many as it says, and few in the fast lane."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

__all__ = ["FAST", "FEW", "examples"]

# The profile of `scripts/test --fast`, and how many examples it tries of each property.
FAST, FEW = "fast", 3


def examples(most: int, *, few: int = FEW, **rest: Any) -> settings:
    """Settings of a property that is tried with `most` examples, or `few` in the fast lane.

    The others are those of `hypothesis.settings`.
    """
    return settings(max_examples=min(most, few) if settings.get_current_profile_name() == FAST else most, **rest)
