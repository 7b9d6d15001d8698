"""unique_count_agg: the number of active distinct values of a property; events add and remove values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event, property_of
from usagebill.core.numbers import ZERO, add


class Operation(StrEnum):
    """The effect of an event on its value (`properties.operation_type`)."""

    ADD = "add"
    REMOVE = "remove"


def operation_of(event: Event) -> Operation | None:
    """The operation of the event, `add` by default; None if it is unknown and the event is ignored."""
    match property_of(event, "operation_type"):
        case None | "add":
            return Operation.ADD
        case "remove":
            return Operation.REMOVE
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The place in time and the operation of each value's latest event, and the sum of the events' own prices."""

    latest: Mapping[str, tuple[tuple[datetime, datetime, str], Operation]] = field(default_factory=dict)
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueCount(Aggregation[Active]):
    """The number of values of `field_name` (text form) whose latest operation is `add`.

    An event counts only if its operation differs from the previous one for its value (initially removed): an add counts
    +1, a remove -1, a repeat 0. These add up to the number of values whose latest operation is an add. Events without
    the property, or with another operation, are ignored. events_count equals the units.
    """

    field_name: str | None

    def empty(self) -> Active:
        return Active()

    def of(self, event: Event) -> Active:
        value, operation = property_of(event, self.field_name), operation_of(event)
        if value is None or operation is None:
            return Active()
        return Active(latest={value: (event.order, operation)}, amount_cents=event.precise_total_amount_cents or ZERO)

    def merge(self, left: Active, right: Active) -> Active:
        more, fewer = (left, right) if len(left.latest) >= len(right.latest) else (right, left)
        latest = dict(more.latest)
        for value, (order, operation) in fewer.latest.items():
            latest_seen = latest.get(value)
            if latest_seen is None or latest_seen[0] < order:
                latest[value] = (order, operation)
        return Active(latest=latest, amount_cents=add(left.amount_cents, right.amount_cents))

    def result(self, state: Active) -> AggregateResult:
        units = sum(operation is Operation.ADD for _, operation in state.latest.values())
        return AggregateResult(units=Decimal(units), events_count=units, amount_cents=state.amount_cents)
