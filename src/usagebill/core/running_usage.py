"""Running usage: the aggregate of a charge, filter and group when an event was last priced in advance.

The next event continues from there, so that it costs the same however many came before. The record says exactly which
events it has counted: those up to a place in time, among the first so many that were stored. Late events are never
missed, because they were stored later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, AggregateResult, Operation, counts, operation_of
from usagebill.core.events import Event, EventOrder, numeric_value, property_of
from usagebill.core.numbers import ONE, ZERO, add, subtract

__all__ = ["RunningUsage", "RunningValue", "Step", "advanced", "can_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUsage:
    """The counted usage of one charge, filter and group.

    It has counted the events up to `timestamp`, `event_created_at` and `event_id` in time, among the first `sequence`
    that were stored; all of those were received by `known_at`. `question` is a digest of the query: if it differs,
    everything is counted again.
    """

    id: str
    organization_id: str
    subscription_id: str
    charge_id: str
    charge_filter_id: str | None
    group: str
    question: str
    timestamp: datetime
    event_created_at: datetime
    event_id: str
    sequence: int
    known_at: datetime
    units: Decimal = ZERO
    events_count: int = 0
    amount_cents: Decimal = ZERO

    @property
    def order(self) -> EventOrder:
        """The place in time up to which events are counted, inclusive."""
        return (self.timestamp, self.event_created_at, self.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningValue:
    """One value of a running unique count: its latest event, and whether that added it."""

    id: str
    organization_id: str
    running_usage_id: str
    value: str
    timestamp: datetime
    event_created_at: datetime
    event_id: str
    is_active: bool

    @property
    def order(self) -> EventOrder:
        """The place in time of the latest event."""
        return (self.timestamp, self.event_created_at, self.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From one event to the next: the usage up to and including the event, and what is to be kept.

    `was_active`: whether the event's value of a unique count was active before it. `values` are the values whose
    latest event has changed, by value: the place in time of that event, and whether it added the value.
    """

    tally: AggregateResult
    usage: RunningUsage
    was_active: bool = False
    values: dict[str, tuple[EventOrder, bool]] = field(default_factory=dict)


def can_run(aggregation_type: str) -> bool:
    """Whether events can be added to and removed from the running usage of such a metric."""
    kind = AGGREGATIONS[aggregation_type]
    return kind.in_advance and not kind.is_program


@dataclass(slots=True)
class _Total:
    units: Decimal
    events_count: int
    amount_cents: Decimal

    def change(self, units: Decimal, event: Event, *, sign: int) -> None:
        amount = event.precise_total_amount_cents or ZERO
        combine = add if sign > 0 else subtract
        self.units = combine(self.units, units)
        self.amount_cents = combine(self.amount_cents, amount)
        self.events_count += sign


def advanced(
    usage: RunningUsage,
    changes: Iterable[tuple[int, Event]],
    event: Event,
    *,
    aggregation_type: str,
    field_name: str | None,
    known_at: datetime,
    sequence: int,
    value_of: Callable[[str], RunningValue | None],
) -> Step | None:
    """The usage up to `event` among what had been received by `known_at`, and the running usage after it.

    `changes` are all events, each with its place in the order of storing, that may be in one of the two and not in the
    other (`storage.ports.EventLog.changes`); `sequence` how many of the first events stored had all been received by
    `known_at`; `value_of` what is kept of a value. `known_at` is not before that of `usage`. None if what is kept
    does not tell: a unique count of an event before the last.
    """
    before, order = usage.order, event.order
    after = max(before, order)
    kind = AGGREGATIONS[aggregation_type]
    is_unique = kind.accumulation is Accumulation.VALUES
    asked = _Total(usage.units, usage.events_count, usage.amount_cents)
    kept = _Total(usage.units, usage.events_count, usage.amount_cents)
    asked_values = _Values(value_of)
    kept_values = _Values(value_of)
    is_new = False
    for place, other in changes:
        if not counts(aggregation_type, field_name, other):
            continue
        was_counted = other.order <= before and place <= usage.sequence
        is_asked = other.order <= order and other.created_at <= known_at
        is_kept = other.order <= after and place <= sequence
        if is_unique:
            if was_counted and not is_asked:
                return None
            if is_asked and not was_counted:
                if other.id == event.id:
                    is_new = True
                else:
                    asked_values.see(other, field_name)
                asked.amount_cents = add(asked.amount_cents, other.precise_total_amount_cents or ZERO)
            if is_kept and not was_counted:
                kept_values.see(other, field_name)
                kept.amount_cents = add(kept.amount_cents, other.precise_total_amount_cents or ZERO)
            continue
        units = (numeric_value(other, field_name) or ZERO) if kind.numeric else ONE
        if is_asked != was_counted:
            asked.change(units, other, sign=1 if is_asked else -1)
        if is_kept and not was_counted:
            kept.change(units, other, sign=1)
    was_active = False
    if is_unique:
        if not is_new:
            return None
        was_active = asked_values.is_active(property_of(event, field_name) or "")
        asked_values.see(event, field_name)
        asked.events_count = usage.events_count + asked_values.more
        kept.events_count = usage.events_count + kept_values.more
        asked.units, kept.units = Decimal(asked.events_count), Decimal(kept.events_count)
    timestamp, created_at, id = after
    return Step(
        tally=AggregateResult(units=asked.units, events_count=asked.events_count, amount_cents=asked.amount_cents),
        usage=replace(
            usage,
            timestamp=timestamp,
            event_created_at=created_at,
            event_id=id,
            sequence=sequence,
            known_at=known_at,
            units=kept.units,
            events_count=kept.events_count,
            amount_cents=kept.amount_cents,
        ),
        was_active=was_active,
        values=kept_values.changed,
    )


class _Values:
    """The values of a unique count as further events leave them. `more` is by how much more of them are active."""

    def __init__(self, value_of: Callable[[str], RunningValue | None]) -> None:
        self._value_of = value_of
        self._known: dict[str, tuple[EventOrder, bool] | None] = {}
        self.changed: dict[str, tuple[EventOrder, bool]] = {}
        self.more = 0

    def _latest(self, value: str) -> tuple[EventOrder, bool] | None:
        if value in self.changed:
            return self.changed[value]
        if value not in self._known:
            kept = self._value_of(value)
            self._known[value] = None if kept is None else (kept.order, kept.is_active)
        return self._known[value]

    def is_active(self, value: str) -> bool:
        latest = self._latest(value)
        return latest is not None and latest[1]

    def see(self, event: Event, field_name: str | None) -> None:
        value = property_of(event, field_name)
        if value is None:
            return
        latest = self._latest(value)
        if latest is not None and latest[0] >= event.order:
            return
        adds = operation_of(event) is Operation.ADD
        self.more += int(adds) - int(latest is not None and latest[1])
        self.changed[value] = (event.order, adds)
