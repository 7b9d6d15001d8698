"""latest_agg: the latest value of a numeric property; events without a number do not count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ZERO, add


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The latest value and its place in time (None before the first), with the number of events and the sum of their
    prices.
    """

    order: tuple[datetime, datetime, str] | None = None
    value: Decimal = ZERO
    events_count: int = 0
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest(Aggregation[Last]):
    """`field_name` of the latest event (the last received, if several share a timestamp), 0 if that is negative."""

    field_name: str | None

    def empty(self) -> Last:
        return Last()

    def of(self, event: Event) -> Last:
        value = numeric_value(event, self.field_name)
        if value is None:
            return Last()
        amount_cents = event.precise_total_amount_cents or ZERO
        return Last(order=event.order, value=value, events_count=1, amount_cents=amount_cents)

    def merge(self, left: Last, right: Last) -> Last:
        left_is_later = right.order is None or (left.order is not None and left.order > right.order)
        later = left if left_is_later else right
        return Last(
            order=later.order,
            value=later.value,
            events_count=left.events_count + right.events_count,
            amount_cents=add(left.amount_cents, right.amount_cents),
        )

    def result(self, state: Last) -> AggregateResult:
        return AggregateResult(
            units=max(state.value, ZERO), events_count=state.events_count, amount_cents=state.amount_cents
        )
