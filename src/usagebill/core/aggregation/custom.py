"""custom_agg: a program supplied by the caller that processes events one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from heapq import merge as merge_sorted
from typing import TypeAlias

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event
from usagebill.core.numbers import ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A program's result for the events so far: the units, and the amount in cents."""

    units: Decimal = ZERO
    amount_cents: Decimal = ZERO


Program: TypeAlias = Callable[[Running, Event], Running]


def unchanged(running: Running, event: Event) -> Running:
    """The default program of a metric: events change nothing."""
    return running


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Aggregation[tuple[Event, ...]]):
    """The result of `program` over all events in order of time, from `initial` on (the saved state if recurring)."""

    program: Program = unchanged
    initial: Running = Running()

    def empty(self) -> tuple[Event, ...]:
        return ()

    def of(self, event: Event) -> tuple[Event, ...]:
        return (event,)

    def merge(self, left: tuple[Event, ...], right: tuple[Event, ...]) -> tuple[Event, ...]:
        return tuple(merge_sorted(left, right, key=lambda event: event.order))

    def result(self, state: tuple[Event, ...]) -> AggregateResult:
        running = self.initial
        for event in state:
            running = self.program(running, event)
        return AggregateResult(units=running.units, events_count=len(state), amount_cents=running.amount_cents)
