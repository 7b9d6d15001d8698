"""The free part of percentage charges on sums: the first events of a period use it up, and only those are read.

The price of the rest follows from the sum and the count alone, which running totals know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from usagebill.core.aggregation import AggregateResult, summed_totals
from usagebill.core.charge_parts import ChargePart
from usagebill.core.events import numeric_value
from usagebill.core.grouping import Group, group_of
from usagebill.core.numbers import ZERO, add
from usagebill.core.pricing.percentage import PercentageProperties
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog

# The running totals of each group of a part, up to the end of its free part.
Totals = dict[int, dict[Group, tuple[Decimal, ...]]]


class _First:
    """The first numbers of a group, until the free part is used up or no more are left."""

    def __init__(self, terms: PercentageProperties, events: int) -> None:
        self._terms = terms
        self._events = events
        self._running = ZERO
        self.values: list[Decimal] = []

    @property
    def is_complete(self) -> bool:
        """Whether no further event matters."""
        if len(self.values) >= self._events:
            return True
        if self._terms.free_events:
            return len(self.values) >= self._terms.free_events
        return self._running > self._terms.free_total

    def take(self, value: Decimal) -> None:
        """Add the next number."""
        self.values.append(value)
        self._running = add(self._running, value)

    def totals(self) -> tuple[Decimal, ...]:
        """The running totals, as `summed_totals` gives them for all numbers."""
        return summed_totals(self.values, free_events=self._terms.free_events, free_units=self._terms.free_total)


def first_totals(
    log: EventLog,
    question: EventQuery,
    parts: Sequence[ChargePart],
    terms: Mapping[int, PercentageProperties],
    keys: Sequence[str],
    tallies: Mapping[int, Mapping[Group, AggregateResult]],
) -> Totals:
    """The running totals of these parts, by position. The question selects the only part, or all events.

    `tallies` say how many events each group has: reading stops once every group has used up its free part or all of
    its events.
    """
    firsts = {
        (part.position, group): _First(terms[part.position], tally.events_count)
        for part in parts
        for group, tally in tallies[part.position].items()
    }
    waiting = {place for place, first in firsts.items() if not first.is_complete}
    for event in log.scan(question) if waiting else ():
        value = numeric_value(event, question.field_name)
        if value is None:
            continue
        group = group_of(event, keys)
        positions = (parts[0].position,) if len(parts) == 1 else parts[0].filters.of_event(event)
        for place in waiting.intersection((position, group) for position in positions):
            firsts[place].take(value)
            if firsts[place].is_complete:
                waiting.remove(place)
        if not waiting:
            break
    totals: Totals = {part.position: {} for part in parts}
    for (position, group), first in firsts.items():
        totals[position][group] = first.totals()
    return totals
