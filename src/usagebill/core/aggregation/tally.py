"""The protocol of aggregations: a fold over events in any order, with states that merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from usagebill.core.events import Event
from usagebill.core.numbers import ZERO

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateResult:
    """The result of an aggregation over a bucket of events, before proration and metric rounding.

    `amount_cents` is the sum of the counted events' own prices (the program's amount for custom). `level` is the level
    of a weighted sum after its last event, and `last_at` that event's timestamp. An engine's tally of a weighted sum
    has the sum of the changes as `units`, no level, and as `moment` the sum of each change times the microseconds from
    1970 to it; `weighted_sum.weighed` gives the result.
    """

    units: Decimal = ZERO
    events_count: int = 0
    amount_cents: Decimal = ZERO
    level: Decimal | None = None
    last_at: datetime | None = None
    moment: Decimal = ZERO


class Aggregation(ABC, Generic[State]):
    """A fold over the events of a bucket.

    States form a commutative monoid: `merge` is associative and commutative with `empty()` as its neutral element, so
    the result depends neither on the order of arrival nor on how the events were split.
    """

    @abstractmethod
    def empty(self) -> State:
        """The state without events."""

    @abstractmethod
    def of(self, event: Event) -> State:
        """The state of one event; the empty state if the event does not count."""

    @abstractmethod
    def merge(self, left: State, right: State) -> State:
        """The merged state of two disjoint sets of events."""

    @abstractmethod
    def result(self, state: State) -> AggregateResult:
        """The result for the events of `state`."""

    def add(self, state: State, event: Event) -> State:
        """`state` with one more event."""
        return self.merge(state, self.of(event))


def fold_events(aggregation: Aggregation[State], events: Iterable[Event]) -> State:
    """The state of all `events`, merged in balanced halves so that growing states are copied rarely."""
    parts: list[State] = []
    for number, event in enumerate(events, start=1):
        part = aggregation.of(event)
        while number % 2 == 0:
            part = aggregation.merge(parts.pop(), part)
            number //= 2
        parts.append(part)
    state = aggregation.empty()
    while parts:
        state = aggregation.merge(parts.pop(), state)
    return state
