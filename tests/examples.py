"""The number of examples that a test tries: fewer in the fast lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

# The profile of `scripts/test --fast`, and its number of examples of each property.
FAST, FEW = "fast", 3


def examples(most: int, *, few: int = FEW, **rest: Any) -> settings:
    """Settings of a property with `most` examples, or `few` in the fast lane.

    The others are those of `hypothesis.settings`.
    """
    return settings(max_examples=min(most, few) if settings.get_current_profile_name() == FAST else most, **rest)


def mostly_slow(values: Iterable[object], *few: object) -> list[Any]:
    """Values of a parameter, of which the fast lane tries only `few`."""
    return [pytest.param(value, marks=() if value in few else pytest.mark.slow) for value in values]


def body_of(test: Callable[..., None]) -> Callable[..., None]:
    """The function of a property, to try it with other examples."""
    body: Callable[..., None] = test.hypothesis.inner_test  # type: ignore[attr-defined]
    return body
