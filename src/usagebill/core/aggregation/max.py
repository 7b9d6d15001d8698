"""max_agg: the largest value of a numeric property; events without a number do not count."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ZERO, add


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The largest value so far (None before the first), the number of events, and the sum of their prices in cents."""

    value: Decimal | None = None
    events_count: int = 0
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Max(Aggregation[Largest]):
    """The largest `field_name`: negative if every value is, 0 if there is none."""

    field_name: str | None

    def empty(self) -> Largest:
        return Largest()

    def of(self, event: Event) -> Largest:
        value = numeric_value(event, self.field_name)
        if value is None:
            return Largest()
        return Largest(value=value, events_count=1, amount_cents=event.precise_total_amount_cents or ZERO)

    def merge(self, left: Largest, right: Largest) -> Largest:
        values = [value for value in (left.value, right.value) if value is not None]
        return Largest(
            value=max(values, default=None),
            events_count=left.events_count + right.events_count,
            amount_cents=add(left.amount_cents, right.amount_cents),
        )

    def result(self, state: Largest) -> AggregateResult:
        return AggregateResult(
            units=ZERO if state.value is None else state.value,
            events_count=state.events_count,
            amount_cents=state.amount_cents,
        )
