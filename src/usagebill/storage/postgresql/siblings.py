"""Prefetching for siblings, the records of one list, which the same queries will soon be run for.

Showing a list reads the customer, plan and invoices of each record: a hundred round trips to the server. Since a
snapshot never changes, it reads them for the following records at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any

# Lists remembered, and records prefetched at once.
_LISTS = 8
_AT_ONCE = 200


@cache
def _id_columns(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name == "id" or item.name.endswith("_id"))


@dataclass(frozen=True, slots=True)
class Corresponding:
    """The bound values of a query that are ids of one record, by `places` among all of them; and the `rows` of values
    that the same query would bind for that record and for the following ones.
    """

    places: tuple[int, ...]
    rows: list[tuple[str, ...]]

    def sql(self, select: str, where: str, tail: str) -> str:
        """The query for all rows at once; each result begins with the number of its row, from 1."""
        first, *rest = where.split("?")
        for place, part in enumerate(rest):
            first += f"sibling.id{place}" if place in self.places else "?"
            first += part
        arrays = ", ".join("?::text[]" for _ in self.places)
        names = ", ".join(f"id{place}" for place in self.places)
        return (
            f"SELECT sibling.row, records.* FROM unnest({arrays}) WITH ORDINALITY AS sibling({names}, row)"
            f" CROSS JOIN LATERAL ({select}{first}{tail}) records"
        )

    def values(self, bound: Sequence[Any]) -> list[Any]:
        """What that query binds, if the query for one record binds `bound`."""
        arrays = [list(column) for column in zip(*self.rows, strict=True)]
        return [*arrays, *(value for place, value in enumerate(bound) if place not in self.places)]

    def of_row(self, row: tuple[str, ...], bound: Sequence[Any]) -> list[Any]:
        """What the query for the record of this row binds."""
        values = list(bound)
        for place, value in zip(self.places, row, strict=True):
            values[place] = value
        return values


class _List:
    """The records of one list, and the position of each of their ids, by column."""

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records
        self._places: dict[str, dict[str | None, int]] | None = None

    def _place(self, value: str) -> tuple[str, int] | None:
        """The column that has the value, and the first record with it."""
        if self._places is None:
            self._places = {}
            kind: Any = type(self.records[0])
            for column in _id_columns(kind):
                # The first record with an id is written last.
                ids = map(attrgetter(column), reversed(self.records))
                self._places[column] = dict(zip(ids, range(len(self.records) - 1, -1, -1), strict=True))
        for column, places in self._places.items():
            start = places.get(value)
            if start is not None and column != "organization_id":
                return column, start
        return None

    def corresponding(self, bound: Sequence[Any]) -> Corresponding | None:
        """The values that are of one record, and those of the following records; None if there are none."""
        named = {place: at for place, value in enumerate(bound) if type(value) is str and (at := self._place(value))}
        if not named:
            return None
        # The last one: several records may have the same customer, but one alone has its own id.
        start = max(first for _, first in named.values())
        record = self.records[start]
        columns = {place: column for place, (column, _) in named.items() if getattr(record, column) == bound[place]}
        siblings = self.records[start : start + _AT_ONCE]
        rows = dict.fromkeys(tuple(getattr(sibling, column) for column in columns.values()) for sibling in siblings)
        return Corresponding(tuple(columns), [row for row in rows if all(isinstance(id, str) for id in row)])


class Siblings:
    """The last lists that a snapshot has read."""

    def __init__(self) -> None:
        self._lists: deque[_List] = deque(maxlen=_LISTS)
        # The ids of each prefetch; None if their queries differ.
        self._asked: dict[object, set[object] | None] = {}

    def note(self, records: Sequence[Any]) -> None:
        """Records of one kind were read together."""
        if len(records) > 1:
            self._lists.appendleft(_List(records))

    def corresponding(self, bound: Sequence[Any]) -> Corresponding | None:
        """The bound values that are ids of a record in a list, with those of its siblings; None if there are none."""
        for siblings in self._lists:
            corresponding = siblings.corresponding(bound)
            if corresponding is not None and len(corresponding.rows) > 1:
                return corresponding
        return None

    def of(self, id: str) -> list[str]:
        """The id, and the corresponding ids of its siblings; empty if there are none."""
        corresponding = self.corresponding([id])
        return [] if corresponding is None else [sibling for (sibling,) in corresponding.rows]

    def are_worth_asking_for(self, question: object, value: object, values: Sequence[object]) -> bool:
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
