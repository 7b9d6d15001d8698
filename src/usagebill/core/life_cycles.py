"""Life cycles: tables of transitions, and the single function that refuses transitions missing from them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import TypeVar

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=Enum)


class TransitionError(ValueError):
    """The event cannot happen in that state."""

    def __init__(self, status: Enum, event: Enum) -> None:
        super().__init__(f"{event.value} cannot happen to what is {status.value}")
        self.status = status
        self.event = event


def following(table: Mapping[tuple[S, E], S], status: S, event: E) -> S:
    """The state that follows `event` by `table`. Raises `TransitionError` if the table has no such transition."""
    target = table.get((status, event))
    if target is None:
        raise TransitionError(status, event)
    return target
