"""Lists by bounds of several ranges, of kinds without sets of records: the index of the range that is cheapest leads.

The counts tell how many records each range has. The index of a range other than the list's order has that order too, so
with no other conditions than on both no record is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from usagebill.storage.conditions import Compare, Condition
from usagebill.storage.sqlite.counts import Counted
from usagebill.storage.sqlite.list_conditions import by_range
from usagebill.storage.sqlite.slots import range_span
from usagebill.storage.tables import table_of

# Microseconds to read an entry of an index, and the record that it leads to.
_ENTRY, _RECORD = 0.2, 3.0


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The records in the leading range that match all conditions: a source as `t`, with its values."""

    source: str
    values: list[Any]
    # The records in the leading range.
    size: int

    def count(self, connection: sqlite3.Connection) -> int:
        """The number of records that match."""
        if not self.size:
            return 0
        return int(connection.execute(f"SELECT COUNT(*) FROM {self.source}", self.values).fetchone()[0])


def range_plan(
    kind: type,
    conditions: Sequence[Condition],
    counts: Counted,
    remaining: Sequence[Condition],
    organization_id: str,
    size_of: Callable[[Counted], int],
) -> RangePlan | None:
    """The plan for conditions of which all `remaining` ones are bounds of two or more ranges; None for others.
    `size_of` gives the number of records that counts match.
    """
    table = table_of(kind)
    listing = table.listing
    bounds: dict[str, list[Compare]] = {}
    for condition in remaining:
        if not isinstance(condition, Compare) or listing is None or condition.column not in listing.ranges:
            return None
        bounds.setdefault(condition.column, []).append(condition)
    if listing is None or len(bounds) < 2 or counts.span is not None:
        return None
    in_order = listing.order[0].column
    plans = []
    for column, several in bounds.items():
        span = range_span(table, column, several)
        within = replace(counts, span=span, bounds=tuple(several))
        size = size_of(replace(within, facets="1", values=(), conditions=()))
        covered = column != in_order and counts.facets == "1" and bounds.keys() == {column, in_order}
        plans.append((size * (_ENTRY if covered else _ENTRY + _RECORD), size, within))
    _, size, within = min(plans, key=lambda plan: plan[:2])
    return RangePlan(*by_range(kind, conditions, within, organization_id), size)
