"""Prorated sums of many events: the sum of each local day of the period weighed as its events are, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, AggregateResult, Prorated, Window, prorated_by_day
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart
from usagebill.core.days import stretches_of_days
from usagebill.core.events import cut_to_seconds
from usagebill.core.grouping import Group
from usagebill.core.numbers import ZERO
from usagebill.core.plans import Charge
from usagebill.core.pricing import MODELS
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog

__all__ = ["count_by_day", "is_sum_of_days"]

# The tallies of each bucket of filters, by position and group.
_Tallies: TypeAlias = Mapping[int, Mapping[Group, AggregateResult]]

_INSTANT: Final = timedelta(microseconds=1)


def is_sum_of_days(charge: Charge, metric: BillableMetric) -> bool:
    """Whether usage follows from the sums of local days: no single event is priced."""
    return (
        charge.prorated
        and metric.recurring
        and AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.SUM
        and not MODELS[charge.charge_model].prorated_by_step
        and not MODELS[charge.charge_model].by_percentage
    )


def count_by_day(
    log: EventLog, question: EventQuery, parts: Sequence[ChargePart], window: Window
) -> Mapping[int, Mapping[Group, tuple[AggregateResult, Prorated]]]:
    """The prorated sums of parts with the same group keys, by position."""
    if len(parts) == 1:
        position, question = parts[0].position, replace(question, bucket=parts[0].bucket)
        return _prorated_tallies(question, window, lambda part: {position: log.tallies(part)})
    index = parts[0].filters
    known = _prorated_tallies(question, window, lambda part: log.tallies_by_bucket(part, index))
    nothing: Mapping[Group, tuple[AggregateResult, Prorated]] = {
        (None,) * len(question.group_keys): (AggregateResult(), prorated_by_day(ZERO, (), window))
    }
    return {part.position: known.get(part.position, nothing) for part in parts}


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
        yield None, _until(question, min(start - _INSTANT, latest))
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
