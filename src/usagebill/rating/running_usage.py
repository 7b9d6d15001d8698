"""Running usage of charges paid in advance: looked up, and brought forward to the event being priced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from usagebill.core.aggregation import AggregateResult
from usagebill.core.charge_parts import ChargePart
from usagebill.core.events import Event
from usagebill.core.plans import Charge
from usagebill.core.running_usage import RunningUsage, RunningValue, advanced, can_run
from usagebill.storage.conditions import eq, missing
from usagebill.storage.event_queries import Counted, EventQuery
from usagebill.work import Reader

__all__ = ["BroughtForward", "bring_forward"]

# With more new events than this, everything is counted again.
_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtForward:
    """The usage up to and including an event, and what is to be stored with its fee.

    `former` is the running usage that `usage` replaces, None if there was none; if `is_fresh`, it could not be used and
    its values are dropped. `values` are those that changed; each replaces the one of the same id.
    """

    tally: AggregateResult
    was_active: bool
    usage: RunningUsage
    former: RunningUsage | None
    is_fresh: bool
    values: tuple[RunningValue, ...]
    former_values: frozenset[str]


def bring_forward(
    reader: Reader,
    charge: Charge,
    part: ChargePart,
    group: str,
    question: EventQuery,
    event: Event,
    subscription_id: str,
) -> BroughtForward | None:
    """What `question` comes to up to `event`, computed from the running usage kept of it. None if that is not enough.

    `question` says what is counted and what had been received; it ends in time at the event.
    """
    known_at = question.known_at
    if not can_run(question.aggregation_type) or known_at is None:
        return None
    conditions = (
        eq("subscription_id", subscription_id),
        eq("charge_id", charge.id),
        eq("charge_filter_id", part.filter.id) if part.filter else missing("charge_filter_id"),
        eq("group", group),
    )
    former = reader.tx.first(RunningUsage, *conditions)
    digest = _digest(question)
    usage = former if former is not None and former.question == digest else None
    changes: Iterable[tuple[int, Event]] = ()
    if usage is not None:
        if known_at < usage.known_at:
            return None
        counted = Counted(order=usage.order, sequence=usage.sequence)
        changes = list(islice(reader.tx.events.changes(question, counted, event.order, at_most=_MOST + 1), _MOST + 1))
        if len(changes) > _MOST:
            if event.order < usage.order:
                return None
            usage = None
    is_fresh = usage is None
    if usage is None:
        timestamp, created_at, id = event.order
        usage = RunningUsage(
            id=reader.new_id(),
            organization_id=reader.organization.id,
            subscription_id=subscription_id,
            charge_id=charge.id,
            charge_filter_id=part.filter.id if part.filter else None,
            group=group,
            question=digest,
            timestamp=timestamp,
            event_created_at=created_at,
            event_id=id,
            sequence=0,
            known_at=known_at,
        )
        changes = reader.tx.events.changes(question, None, event.order)
    known_values: dict[str, RunningValue] = {}

    def value_of(value: str) -> RunningValue | None:
        if is_fresh:
            return None
        kept = reader.tx.first(RunningValue, eq("running_usage_id", usage.id), eq("value", value))
        if kept is not None:
            known_values[value] = kept
        return kept

    step = advanced(
        usage,
        changes,
        event,
        aggregation_type=question.aggregation_type,
        field_name=question.field_name,
        known_at=known_at,
        sequence=reader.tx.events.known_up_to(question, usage.sequence),
        value_of=value_of,
    )
    if step is None:
        return None
    return BroughtForward(
        tally=step.tally,
        was_active=step.was_active,
        usage=step.usage,
        former=former,
        is_fresh=is_fresh,
        values=tuple(
            RunningValue(
                id=known_values[value].id if value in known_values else reader.new_id(),
                organization_id=reader.organization.id,
                running_usage_id=usage.id,
                value=value,
                timestamp=order[0],
                event_created_at=order[1],
                event_id=order[2],
                is_active=is_active,
            )
            for value, (order, is_active) in step.values.items()
        ),
        former_values=frozenset(kept.id for kept in known_values.values()),
    )


def _digest(question: EventQuery) -> str:
    """A digest that differs between questions about different events."""
    fixed = (
        question.code,
        question.external_subscription_id,
        question.aggregation_type,
        question.field_name,
        question.earliest,
        question.latest,
        question.until,
        question.after,
        question.first_end,
        _sorted(question.bucket.matches),
        [_sorted(exclude) for exclude in question.bucket.excludes],
        _sorted(question.only),
    )
    return hashlib.sha256(repr(fixed).encode()).hexdigest()


def _sorted(values: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(values.items())
