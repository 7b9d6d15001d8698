"""sum_agg: the sum of a numeric property; events without a number do not count."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ZERO, add


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """The sum so far, with the number of events and the sum of their own prices in cents."""

    units: Decimal = ZERO
    events_count: int = 0
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Aggregation[Summed]):
    """The sum of `field_name`, which may be negative."""

    field_name: str | None

    def empty(self) -> Summed:
        return Summed()

    def of(self, event: Event) -> Summed:
        value = numeric_value(event, self.field_name)
        if value is None:
            return Summed()
        return Summed(units=value, events_count=1, amount_cents=event.precise_total_amount_cents or ZERO)

    def merge(self, left: Summed, right: Summed) -> Summed:
        return Summed(
            units=add(left.units, right.units),
            events_count=left.events_count + right.events_count,
            amount_cents=add(left.amount_cents, right.amount_cents),
        )

    def result(self, state: Summed) -> AggregateResult:
        return AggregateResult(units=state.units, events_count=state.events_count, amount_cents=state.amount_cents)
