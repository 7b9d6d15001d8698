"""Prefetching for siblings, the records of one list, which the same queries will soon be run for.

Showing a list reads the customer, plan and invoices of each record: a hundred round trips to the server. Since a
snapshot never changes, it reads them for the following records at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from usagebill.storage.conditions import Compare, Condition

__all__ = ["Siblings", "asked_by"]

# Lists remembered, and records prefetched at once.
_LISTS = 8
_AT_ONCE = 200


@cache
def _id_columns(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name == "id" or item.name.endswith("_id"))


class _List:
    """The records of one list, and the position of each of their ids, by column."""

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records
        self._places: dict[str, dict[str, int]] | None = None

    def following(self, value: str) -> list[str]:
        """The value, then the values of its column in the following records; empty if no column has it."""
        if self._places is None:
            self._places = {}
            kind: Any = type(self.records[0])
            for column in _id_columns(kind):
                places = self._places[column] = {}
                for place, record in enumerate(self.records):
                    id = getattr(record, column)
                    if isinstance(id, str):
                        places.setdefault(id, place)
        for column, places in self._places.items():
            start = places.get(value)
            if start is not None and column != "organization_id":
                some = self.records[start : start + _AT_ONCE]
                values = (getattr(record, column) for record in some)
                return list(dict.fromkeys(id for id in values if isinstance(id, str)))
        return []


class Siblings:
    """The last lists that a snapshot has read."""

    def __init__(self) -> None:
        self._lists: deque[_List] = deque(maxlen=_LISTS)
        # The ids of each prefetch; None if their queries differ.
        self._asked: dict[object, set[str] | None] = {}

    def note(self, records: Sequence[Any]) -> None:
        """Records of one kind were read together."""
        if len(records) > 1:
            self._lists.appendleft(_List(records))

    def of(self, value: str) -> list[str]:
        """The value, and the corresponding values of its siblings; empty if there are none."""
        for siblings in self._lists:
            values = siblings.following(value)
            if len(values) > 1:
                return values
        return []

    def are_worth_asking_for(self, question: object, value: str, values: Sequence[str]) -> bool:
        """Whether the query for this value should fetch all of `values`."""
        before = self._asked.setdefault(question, set())
        if before is None or len(values) < 2:
            return False
        if value in before:
            # It was prefetched, but by a different query.
            self._asked[question] = None
            return False
        before.update(values)
        return True


def asked_by(conditions: Sequence[Condition]) -> Iterator[tuple[int, str, str]]:
    """The conditions that compare an id column: their positions, the columns and the ids."""
    for place, condition in enumerate(conditions):
        if type(condition) is Compare and condition.operator == "=" and isinstance(condition.value, str):
            column = condition.column
            if column == "id" or column.endswith("_id"):
                yield place, column, condition.value
