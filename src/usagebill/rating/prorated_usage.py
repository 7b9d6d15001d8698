"""Prorated usage of many events: what each local day of the period added, weighed as its events are, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final, TypeAlias

from usagebill.core.aggregation import (
    AGGREGATIONS,
    Accumulation,
    AggregateResult,
    Operation,
    Prorated,
    Window,
    prorated_additions,
    prorated_by_day,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart
from usagebill.core.days import stretches_of_days
from usagebill.core.events import cut_to_seconds
from usagebill.core.grouping import Group
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge
from usagebill.core.pricing import MODELS
from usagebill.storage.event_queries import ALL_EVENTS, CountedAs, EventQuery
from usagebill.storage.ports import EventLog

# The tallies of each bucket of filters, by position and group.
_Tallies: TypeAlias = Mapping[int, Mapping[Group, AggregateResult]]

# With fewer, the values of each day cost more than the events.
_EVENTS_PER_VALUE: Final = 4


def is_counted_by_day(charge: Charge, metric: BillableMetric) -> bool:
    """Whether usage follows from counts up to the ends of local days: no event is priced by its own value."""
    model, accumulation = MODELS[charge.charge_model], AGGREGATIONS[metric.aggregation_type].accumulation
    if not charge.prorated or not metric.recurring or model.by_percentage:
        return False
    return accumulation is Accumulation.VALUES or (accumulation is Accumulation.SUM and not model.prorated_by_step)


def count_by_day(
    log: EventLog, question: EventQuery, parts: Sequence[ChargePart], window: Window
) -> Mapping[int, Mapping[Group, tuple[AggregateResult, Prorated]]] | None:
    """The prorated quantities of parts with the same group keys, by position; None if single events are to be read."""
    is_alone = len(parts) == 1
    if is_alone:
        question = replace(question, bucket=parts[0].bucket)

    def count(part: EventQuery) -> _Tallies:
        if is_alone:
            return {parts[0].position: log.tallies(part)}
        return log.tallies_by_bucket(part, parts[0].filters)

    known: Mapping[int, Mapping[Group, tuple[AggregateResult, Prorated]]] | None
    if question.aggregation_type != CountedAs.UNIQUE_COUNT:
        none, known = prorated_by_day(ZERO, (), window), _prorated_tallies(question, window, count)
    elif _has_removals(log, question):
        return None
    else:
        none, known = prorated_additions((), window), _prorated_values(log, question, window, count)
    nothing: Mapping[Group, tuple[AggregateResult, Prorated]] = {
        (None,) * len(question.group_keys): (AggregateResult(), none)
    }
    return None if known is None else {part.position: known.get(part.position, nothing) for part in parts}


def _has_removals(log: EventLog, question: EventQuery) -> bool:
    """Whether any event may have removed a value."""
    by_operation = replace(
        question, aggregation_type=CountedAs.COUNT, field_name=None, bucket=ALL_EVENTS, group_keys=("operation_type",)
    )
    return (Operation.REMOVE.value,) in log.tallies(by_operation)


def _prorated_values(
    log: EventLog, question: EventQuery, window: Window, count: Callable[[EventQuery], _Tallies]
) -> dict[int, dict[Group, tuple[AggregateResult, Prorated]]] | None:
    """The number of values of each group of each bucket, none of which was removed, and the same prorated over
    `window`; None if there are hardly more events than values.
    """
    whole = count(question)
    values = sum(int(tally.units) for tallies in whole.values() for tally in tallies.values())
    if log.size(question, at_most=_EVENTS_PER_VALUE * values) < _EVENTS_PER_VALUE * values:
        return None
    parts = list(_parts(question, window))
    # The numbers of values up to the end of each part. Between equal ones, none was added.
    units = {len(parts) - 1: _units(whole)}
    pending = [(-1, len(parts) - 1)]
    while pending:
        low, high = pending.pop()
        if high - low <= 1 or units.get(low, {}) == units[high]:
            continue
        middle = (low + high) // 2
        units[middle] = _units(count(replace(parts[middle][1], earliest=question.earliest)))
        pending += [(low, middle), (middle, high)]
    additions: dict[tuple[int, Group], list[tuple[datetime, int]]] = {}
    known: Mapping[tuple[int, Group], int] = {}
    for place in sorted(units):
        for cell, number in units[place].items():
            if number > known.get(cell, 0):
                first = parts[place][0] or window.start
                additions.setdefault(cell, []).append((first, number - known.get(cell, 0)))
        known = units[place]
    return {
        position: {
            group: (tally, prorated_additions(additions.get((position, group), ()), window))
            for group, tally in tallies.items()
        }
        for position, tallies in whole.items()
    }


def _units(tallies: _Tallies) -> dict[tuple[int, Group], int]:
    """The units of each group of each bucket that has any."""
    return {
        (position, group): int(tally.units)
        for position, by_group in tallies.items()
        for group, tally in by_group.items()
        if tally.units
    }


def _prorated_tallies(
    question: EventQuery, window: Window, count: Callable[[EventQuery], _Tallies]
) -> dict[int, dict[Group, tuple[AggregateResult, Prorated]]]:
    """The sum of each group of each bucket, and the same prorated over `window`, as from the single events.

    `question` is about all that the sum counts up to the end of the window; `count` answers it, and parts of it.
    """
    whole = count(question)
    before: dict[tuple[int, Group], Decimal] = {}
    by_day: dict[tuple[int, Group], list[tuple[datetime, Decimal]]] = {}
    for first, part in _parts(question, window):
        for position, tallies in count(part).items():
            for group, tally in tallies.items():
                if not tally.events_count:
                    continue
                if first is None:
                    before[position, group] = tally.units
                else:
                    by_day.setdefault((position, group), []).append((first, tally.units))
    return {
        position: {
            group: (
                tally,
                prorated_by_day(before.get((position, group), ZERO), by_day.get((position, group), ()), window),
            )
            for group, tally in tallies.items()
        }
        for position, tallies in whole.items()
    }


def _parts(question: EventQuery, window: Window) -> Iterator[tuple[datetime | None, EventQuery]]:
    """The question about what was before the window (None), then about each local day, which begins at the instant."""
    start = cut_to_seconds(window.start)
    latest = window.end if question.latest is None else min(question.latest, window.end)
    earliest = question.earliest
    if earliest is None or earliest < start:
        yield None, _until(question, min(start - MICROSECOND, latest))
        earliest = start
    if earliest <= latest:
        for first, last in stretches_of_days(earliest, latest, window.tz):
            yield first, replace(_until(question, last), earliest=first)


def _until(question: EventQuery, latest: datetime) -> EventQuery:
    """The part of the question up to an instant; its last second is shared with another subscription only if it is the
    question's last.
    """
    last_start = question.last_start
    is_shared = last_start is not None and latest >= last_start
    return replace(question, latest=latest, until=question.until if is_shared else None)
