"""Statements that are put together from parts in any order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

_MARK: Final = re.compile("\0(\\d+)\0")


class Rows(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Runner(Protocol):
    """A connection: in a statement, every `?` stands for a value."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Rows: ...


class Statement:
    """The values of one statement. Its parts have a mark for each, so that they may be put together in any order."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def bind(self, value: Any) -> str:
        """The mark for a value; it may stand in several places."""
        self._values.append(value)
        return f"\0{len(self._values) - 1}\0"

    def number(self, value: int) -> str:
        """The mark for a whole number of 64 bits."""
        return f"CAST({self.bind(value)} AS bigint)"

    def finished(self, sql: str) -> tuple[str, list[Any]]:
        """The text with `?` for each mark, and the values in their order."""
        places = [int(mark) for mark in _MARK.findall(sql)]
        return _MARK.sub("?", sql), [self._values[place] for place in places]
