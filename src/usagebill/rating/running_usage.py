"""Running usage of charges paid in advance: looked up, and brought forward to the event being priced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from usagebill.core.aggregation import AggregateResult
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import group_text
from usagebill.core.charge_parts import ChargePart
from usagebill.core.events import Event, EventOrder
from usagebill.core.grouping import group_of, grouped_by
from usagebill.core.plans import Charge
from usagebill.core.running_usage import Advance, RunningFront, RunningUsage, RunningValue, Step, can_run
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, eq, missing
from usagebill.storage.event_queries import Counted, EventQuery

# With more new events than this, everything is recounted.
_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A running usage to store, with its changed values.

    `usage` replaces `former`, if there is one; with `is_fresh`, `former` was useless and its values go with it.
    `values` replace those of the same id, which `former_values` names.
    """

    usage: RunningUsage
    former: RunningUsage | None
    is_fresh: bool
    values: tuple[RunningValue, ...]
    former_values: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtForward:
    """The usage up to and including an event, and the running usage to store with its fee.

    `kept` is the running usage of each changed group. Groups have a `front`, which replaces `former_front`.
    """

    tally: AggregateResult
    was_active: bool
    kept: tuple[Kept, ...]
    front: RunningFront | None = None
    former_front: RunningFront | None = None


def bring_forward(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    part: ChargePart,
    keys: Sequence[str],
    question: EventQuery,
    event: Event,
    subscription_id: str,
) -> BroughtForward | None:
    """The usage of `question` up to `event`, from the running usage kept of it. None if that does not suffice.

    `question` selects the events and the latest arrival; its end in time is the event's place. `keys` are the charge's
    group keys.
    """
    if not can_run(question.aggregation_type) or question.known_at is None:
        return None
    running = _Running(reader, charge, metric, part, keys, question, event, subscription_id, question.known_at)
    return running.by_group() if keys else running.without_groups()


@dataclass(frozen=True, slots=True)
class _Group:
    """A group between the stored running usage and the event. `former_values` are its values as looked up."""

    advance: Advance
    former: RunningUsage | None
    is_fresh: bool
    former_values: dict[str, RunningValue]


class _Running:
    """The stored running usage of one charge and filter, brought forward to an event."""

    def __init__(
        self,
        reader: Reader,
        charge: Charge,
        metric: BillableMetric,
        part: ChargePart,
        keys: Sequence[str],
        question: EventQuery,
        event: Event,
        subscription_id: str,
        known_at: datetime,
    ) -> None:
        self._reader = reader
        self._charge = charge
        self._filter_id = part.filter.id if part.filter else None
        self._keys = keys
        self._question = question
        self._event = event
        self._subscription_id = subscription_id
        self._known_at = known_at
        self._digest = _digest(charge, metric, question, keys)

    def without_groups(self) -> BroughtForward | None:
        """The usage of a charge without group keys: a single running usage."""
        name = self._group_of(self._event)
        former = self._former(name)
        usage = former if former is not None and former.question == self._digest else None
        changes: Iterable[tuple[int, Event]] = ()
        if usage is not None:
            if self._known_at < usage.known_at:
                return None
            changes = known = self._changes(self._question, usage, self._event.order)
            if len(known) > _MOST:
                if self._event.order < usage.order:
                    return None
                usage = None
        is_fresh = usage is None
        if usage is None:
            usage = self._nothing(name, self._digest, self._event.order, 0)
            changes = self._reader.tx.events.changes(self._question, None, self._event.order)
        group = self._group(usage, former, is_fresh, self._event, self._sequence_after(usage.sequence))
        for place, other in changes:
            group.advance.see(place, other)
        step = group.advance.step()
        if step is None:
            return None
        kept = self._kept(group, step)
        return BroughtForward(tally=step.tally, was_active=step.was_active, kept=(kept,))

    def by_group(self) -> BroughtForward | None:
        """The usage of a charge with group keys: events after the front are counted in their groups."""
        former = self._reader.tx.first(RunningFront, *self._conditions())
        front = former if former is not None and former.question == self._digest else None
        changes: Iterable[tuple[int, Event]] = ()
        if front is not None:
            if self._known_at < front.known_at:
                return None
            changes = known = self._changes_since(front)
            if len(known) > _MOST:
                if self._event.order < front.order:
                    return None
                front = None
        is_fresh = front is None
        if front is None:
            front = self._front(self._reader.new_id(), self._event.order, 0)
            everything = replace(self._question, only={})
            changes = self._reader.tx.events.changes(everything, None, self._event.order)
        sequence = self._sequence_after(front.sequence)
        own_name = self._group_of(self._event)
        groups = {own_name: self._group_after(front, own_name, is_fresh, self._event, sequence)}
        for place, other in changes:
            name = self._group_of(other)
            if name not in groups:
                groups[name] = self._group_after(front, name, is_fresh, None, sequence)
            groups[name].advance.see(place, other)
        steps = {name: group.advance.step() for name, group in groups.items()}
        step = steps[own_name]
        if step is None:
            return None
        return BroughtForward(
            tally=step.tally,
            was_active=step.was_active,
            kept=tuple(self._kept(groups[name], its_step) for name, its_step in steps.items() if its_step is not None),
            front=self._front(front.id, max(front.order, self._event.order), sequence),
            former_front=former,
        )

    def _changes_since(self, front: RunningFront) -> list[tuple[int, Event]]:
        """The events that may have changed the usage since the front; more than `_MOST` if there are too many."""
        everything = replace(self._question, only={})
        order = self._event.order
        if order >= front.order:
            return self._changes(everything, front, order)
        # Events between here and the front only matter to the group of the priced event.
        own_name = self._group_of(self._event)
        others = self._changes(everything, front, front.order)
        others = (
            [change for change in others if self._group_of(change[1]) != own_name] if len(others) <= _MOST else others
        )
        return self._changes(self._question, front, order) + others

    def _changes(
        self, question: EventQuery, since: RunningUsage | RunningFront, order: EventOrder
    ) -> list[tuple[int, Event]]:
        counted = Counted(order=since.order, sequence=since.sequence)
        return list(islice(self._reader.tx.events.changes(question, counted, order, at_most=_MOST + 1), _MOST + 1))

    def _sequence_after(self, sequence: int) -> int:
        return self._reader.tx.events.known_up_to(self._question, sequence)

    def _group_of(self, event: Event) -> str:
        return group_text(grouped_by(self._keys, group_of(event, self._keys)))

    def _conditions(self) -> tuple[Condition, ...]:
        return (
            eq("subscription_id", self._subscription_id),
            eq("charge_id", self._charge.id),
            missing("charge_filter_id") if self._filter_id is None else eq("charge_filter_id", self._filter_id),
        )

    def _former(self, group: str) -> RunningUsage | None:
        return self._reader.tx.first(RunningUsage, *self._conditions(), eq("group", group))

    def _front(self, id: str, order: EventOrder, sequence: int) -> RunningFront:
        timestamp, created_at, event_id = order
        return RunningFront(
            id=id,
            organization_id=self._reader.organization.id,
            subscription_id=self._subscription_id,
            charge_id=self._charge.id,
            charge_filter_id=self._filter_id,
            question=self._digest,
            timestamp=timestamp,
            event_created_at=created_at,
            event_id=event_id,
            sequence=sequence,
            known_at=self._known_at,
        )

    def _nothing(self, group: str, question: str, order: EventOrder, sequence: int) -> RunningUsage:
        timestamp, created_at, event_id = order
        return RunningUsage(
            id=self._reader.new_id(),
            organization_id=self._reader.organization.id,
            subscription_id=self._subscription_id,
            charge_id=self._charge.id,
            charge_filter_id=self._filter_id,
            group=group,
            question=question,
            timestamp=timestamp,
            event_created_at=created_at,
            event_id=event_id,
            sequence=sequence,
            known_at=self._known_at,
        )

    def _group_after(
        self, front: RunningFront, name: str, is_fresh: bool, event: Event | None, sequence: int
    ) -> _Group:
        """A group as it was at the front; `event` is the event being priced, if it is of this group."""
        former = self._former(name)
        usage = self._nothing(name, front.id, front.order, front.sequence)
        if former is None or is_fresh or former.question != front.id:
            return self._group(usage, former, True, event, sequence)
        # It is kept as of its own last event, and has had none since, up to the front.
        usage = replace(
            usage,
            id=former.id,
            units=former.units,
            events_count=former.events_count,
            amount_cents=former.amount_cents,
        )
        return self._group(usage, former, False, event, sequence)

    def _group(
        self, usage: RunningUsage, former: RunningUsage | None, is_fresh: bool, event: Event | None, sequence: int
    ) -> _Group:
        former_values: dict[str, RunningValue] = {}

        def value_of(value: str) -> RunningValue | None:
            if is_fresh:
                return None
            kept = self._reader.tx.first(RunningValue, eq("running_usage_id", usage.id), eq("value", value))
            if kept is not None:
                former_values[value] = kept
            return kept

        advance = Advance(
            usage,
            self._event.order,
            event=event,
            aggregation_type=self._question.aggregation_type,
            field_name=self._question.field_name,
            known_at=self._known_at,
            sequence=sequence,
            value_of=value_of,
        )
        return _Group(advance, former, is_fresh, former_values)

    def _kept(self, group: _Group, step: Step) -> Kept:
        reader, known = self._reader, group.former_values
        return Kept(
            usage=step.usage,
            former=group.former,
            is_fresh=group.is_fresh,
            values=tuple(
                RunningValue(
                    id=known[value].id if value in known else reader.new_id(),
                    organization_id=reader.organization.id,
                    running_usage_id=step.usage.id,
                    value=value,
                    timestamp=order[0],
                    event_created_at=order[1],
                    event_id=order[2],
                    is_active=is_active,
                )
                for value, (order, is_active) in step.values.items()
            ),
            former_values=frozenset(value.id for value in known.values()),
        )


def _digest(charge: Charge, metric: BillableMetric, question: EventQuery, keys: Sequence[str]) -> str:
    """A digest that differs if the question selects other events or other groups.

    While a charge was not paid in advance, or its metric had another code, no running usage was kept: after such a
    change everything is counted.
    """
    fixed = (
        charge.updated_at,
        metric.updated_at,
        question.code,
        question.external_subscription_id,
        question.aggregation_type,
        question.field_name,
        question.earliest,
        question.latest,
        question.until,
        question.excluded,
        _sorted(question.bucket.matches),
        [_sorted(exclude) for exclude in question.bucket.excludes],
        tuple(keys),
    )
    return hashlib.sha256(repr(fixed).encode()).hexdigest()


def _sorted(values: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(values.items())
