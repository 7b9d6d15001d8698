"""count_agg: every event counts as one, whatever its properties."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event
from usagebill.core.numbers import ZERO, add


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The number of events, and the sum of their own prices in cents."""

    events_count: int = 0
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Aggregation[Counted]):
    """The number of events."""

    def empty(self) -> Counted:
        return Counted()

    def of(self, event: Event) -> Counted:
        return Counted(events_count=1, amount_cents=event.precise_total_amount_cents or ZERO)

    def merge(self, left: Counted, right: Counted) -> Counted:
        return Counted(
            events_count=left.events_count + right.events_count, amount_cents=add(left.amount_cents, right.amount_cents)
        )

    def result(self, state: Counted) -> AggregateResult:
        return AggregateResult(
            units=Decimal(state.events_count), events_count=state.events_count, amount_cents=state.amount_cents
        )
