"""Estimated costs of plans for a page of a list, by the number of matching records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from usagebill.storage.conditions import Condition, Order, Within

# Up to this many records are sorted; walking as many index entries takes as long.
FEW = 20_000
_WALKED = 20_000
# If fewer than one in this many matches, a walk starts at the first slot with a match.
_SOME = 3
# If one in this many matches, a walk through the list soon fills a page.
_OFTEN = 20
# The cost of reading a record, of reading its text in a walk, and of skipping a record, in microseconds.
_TO_GATHER, _TO_TEST, _TO_STEP = 8.0, 5.0, 0.3


@dataclass(frozen=True, slots=True)
class Size:
    """The number of matching records, and of all that the list shows."""

    matching: int
    all: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: its order, and the number of records on it and before it."""

    order: tuple[Order, ...]
    limit: int
    offset: int

    def entries(self, size: Size) -> int:
        """The entries of the list that a walk reads to the end of the page, if matches are spread evenly."""
        return min((self.offset + self.limit) * size.all // size.matching, size.all)


def gathers(matching: int, entries: int) -> bool:
    """Whether sorting all matches is cheaper than a walk over up to this many entries."""
    return matching <= min(entries, FEW)


def guides(size: Size, entries: int) -> bool:
    """Whether a walk should start at the first slot with a match, since all matches may be far down the list."""
    return entries > _WALKED or size.matching * _SOME < size.all


def walks(matching: int, entries: int, size: Size) -> bool:
    """Whether a walk over this many entries, testing the text of those that match the filter, is cheaper than gathering
    the records with the text or those that match the filter, whichever are fewer.
    """
    having = matching * size.all // max(1, size.matching)
    walk = entries * (_TO_STEP + _TO_TEST * size.matching / max(1, size.all))
    return walk < _TO_GATHER * min(having, size.matching)


def most_parts(page: Page, entries: int, having: int, matching: int) -> int:
    """The number of parts of a list up to which it is cheaper to read the first records of each, in list order, and to
    sort them, than to walk over this many entries. `having` are in the parts, and `matching` of them match.
    """
    of_each = (page.offset + page.limit) * having // max(1, matching)
    return min(entries, FEW) // max(1, of_each)


def is_common(matching: int, shown: int) -> bool:
    """Whether any walk through a list soon meets one of this many records."""
    return matching * _OFTEN > shown


def is_nothing(conditions: Sequence[Condition]) -> bool:
    """Whether no record can match."""
    return any(isinstance(condition, Within) and not condition.values for condition in conditions)


def slot_tests(slots: Sequence[tuple[str, object]]) -> tuple[str, list[object]]:
    return "".join(f" AND c.{test}" for test, _ in slots), [value for _, value in slots]
