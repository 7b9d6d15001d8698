"""Running usage: the aggregate of a charge, filter and group when an event was last priced in advance.

The next event continues from there, so its cost does not depend on how many came before. The record says exactly which
events it has counted: those up to a place in time, among the first ones in storing order. Late events are never missed,
because they were stored later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, AggregateResult, Operation, counts, operation_of
from usagebill.core.events import Event, EventOrder, numeric_value, property_of
from usagebill.core.numbers import ONE, ZERO, add, subtract


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUsage:
    """The counted usage of one charge, filter and group.

    It has counted the events up to `timestamp`, `event_created_at` and `event_id` in time, among the first `sequence`
    stored ones; all of those were received by `known_at`. `question` is a digest of the query: if it differs,
    everything is recounted. The groups of a charge share a front, which says how far they are counted; `question` is
    its id then.
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
class RunningFront:
    """The place in time up to which the events of a charge and filter are counted, in all groups.

    A group without running usage for the front's id has no events up to there: its first event needs no count.
    """

    id: str
    organization_id: str
    subscription_id: str
    charge_id: str
    charge_filter_id: str | None
    question: str
    timestamp: datetime
    event_created_at: datetime
    event_id: str
    sequence: int
    known_at: datetime

    @property
    def order(self) -> EventOrder:
        """The place in time up to which events are counted, inclusive."""
        return (self.timestamp, self.event_created_at, self.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningValue:
    """One value of a running unique count: its latest event, and whether that event added it."""

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
    """The step from one event to the next: the usage up to and including the event, and the state to store.

    `was_active`: whether the event's value of a unique count was already active. `values` are the values whose latest
    event has changed: value -> the place in time of that event, and whether it added the value.
    """

    tally: AggregateResult
    usage: RunningUsage
    was_active: bool = False
    values: dict[str, tuple[EventOrder, bool]] = field(default_factory=dict)


def can_run(aggregation_type: str) -> bool:
    """Whether events can be added to and removed from the running usage of this aggregation."""
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

    def count(self, active: int) -> None:
        """Set the number of active values."""
        self.events_count, self.units = active, Decimal(active)


class Advance:
    """Moves a running usage forward, change by change, and with an `event` counts the usage up to that event.

    It sees, each with its place in storing order, all events that may be counted in one of the two and not in the other
    (`storage.ports.EventLog.changes`). `order` is the place in time to move to. `sequence`: this many of the first
    stored events had all been received by `known_at`, which is not before that of `usage`. `value_of` returns the
    stored state of a value.
    """

    def __init__(
        self,
        usage: RunningUsage,
        order: EventOrder,
        *,
        event: Event | None,
        aggregation_type: str,
        field_name: str | None,
        known_at: datetime,
        sequence: int,
        value_of: Callable[[str], RunningValue | None],
    ) -> None:
        self.usage = usage
        self._order = order
        self._after = max(usage.order, order)
        self._event = event
        self._aggregation_type = aggregation_type
        self._field_name = field_name
        self._kind = AGGREGATIONS[aggregation_type]
        self._is_unique = self._kind.accumulation is Accumulation.VALUES
        self._known_at = known_at
        self._sequence = sequence
        self._requested = _Total(usage.units, usage.events_count, usage.amount_cents)
        self._kept = _Total(usage.units, usage.events_count, usage.amount_cents)
        self._requested_values = _Values(value_of)
        self._kept_values = _Values(value_of)
        self._has_seen_event = False
        self._cannot_tell = False

    def see(self, place: int, other: Event) -> None:
        """Count an event that may be uncounted so far, or may not belong to the requested usage."""
        if not counts(self._aggregation_type, self._field_name, other):
            return
        was_counted = other.order <= self.usage.order and place <= self.usage.sequence
        if self._event is not None:
            self._see_for_request(other, self._event, was_counted)
        if was_counted or other.order > self._after or place > self._sequence:
            return
        if self._is_unique:
            self._kept_values.see(other, self._field_name)
            self._kept.amount_cents = add(self._kept.amount_cents, other.precise_total_amount_cents or ZERO)
        else:
            self._kept.change(self._units(other), other, sign=1)

    def _see_for_request(self, other: Event, event: Event, was_counted: bool) -> None:
        is_requested = other.order <= self._order and other.created_at <= self._known_at
        if not self._is_unique:
            if is_requested != was_counted:
                self._requested.change(self._units(other), other, sign=1 if is_requested else -1)
        elif was_counted and not is_requested:
            self._cannot_tell = True
        elif is_requested and not was_counted:
            if other.id == event.id:
                self._has_seen_event = True
            else:
                self._requested_values.see(other, self._field_name)
            self._requested.amount_cents = add(self._requested.amount_cents, other.precise_total_amount_cents or ZERO)

    def _units(self, event: Event) -> Decimal:
        return (numeric_value(event, self._field_name) or ZERO) if self._kind.numeric else ONE

    def step(self) -> Step | None:
        """The usage up to the event, and the running usage after all changes.

        None if the stored state is not enough: a unique count for an event before the last.
        """
        was_active = False
        if self._is_unique:
            self._kept.count(self.usage.events_count + self._kept_values.more)
            if self._event is not None:
                if self._cannot_tell or not self._has_seen_event:
                    return None
                was_active = self._requested_values.is_active(property_of(self._event, self._field_name) or "")
                self._requested_values.see(self._event, self._field_name)
                self._requested.count(self.usage.events_count + self._requested_values.more)
        timestamp, created_at, id = self._after
        return Step(
            tally=AggregateResult(
                units=self._requested.units,
                events_count=self._requested.events_count,
                amount_cents=self._requested.amount_cents,
            ),
            usage=replace(
                self.usage,
                timestamp=timestamp,
                event_created_at=created_at,
                event_id=id,
                sequence=self._sequence,
                known_at=self._known_at,
                units=self._kept.units,
                events_count=self._kept.events_count,
                amount_cents=self._kept.amount_cents,
            ),
            was_active=was_active,
            values=self._kept_values.changed,
        )


class _Values:
    """The values of a unique count after further events. `more` is the change in the number of active ones."""

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
