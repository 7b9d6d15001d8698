"""The usage of one bucket of events: fold, proration, metric rounding and per-event lists put together."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import assert_never

from usagebill.core.aggregation.custom import Program, unchanged
from usagebill.core.aggregation.metric import Metric, Window, round_units
from usagebill.core.aggregation.proration import Prorated, prorated_sum, prorated_unique_count
from usagebill.core.aggregation.registry import AGGREGATIONS, event_values, fold, running_totals
from usagebill.core.aggregation.scope import in_scope
from usagebill.core.aggregation.tally import AggregateResult, fold_events
from usagebill.core.aggregation.traits import Accumulation
from usagebill.core.aggregation.unique_count import UniqueCount
from usagebill.core.copies import maker
from usagebill.core.events import Event, property_of
from usagebill.core.numbers import ZERO, truncate_to
from usagebill.core.usage import Usage


def prorated(metric: Metric, events: Iterable[Event], window: Window) -> Prorated | None:
    """The prorated quantity of a recurring sum or unique count; None for metrics that are not prorated."""
    if not metric.recurring:
        return None
    accumulation = AGGREGATIONS[metric.aggregation_type].accumulation
    match accumulation:
        case Accumulation.SUM:
            return prorated_sum(events, metric.field_name, window)
        case Accumulation.VALUES:
            return prorated_unique_count(events, metric.field_name, window)
        case Accumulation.NOTHING | Accumulation.LEVEL:
            return None
        case _:
            assert_never(accumulation)


_made_usage = maker(Usage)


def usage_of(
    metric: Metric,
    tally: AggregateResult,
    *,
    proration: Prorated | None = None,
    running_totals: tuple[Decimal, ...] = (),
    event_values: tuple[Decimal, ...] = (),
) -> Usage:
    """The usage to price, from the count of an engine or of `fold`; metric rounding applies here.

    With `proration` the prorated units are priced and those of `tally` shown; events_count is then the tally's for a
    sum and the whole prorated units for a unique count.
    """
    if proration is None:
        units = round_units(tally.units, metric)
        # In the order of its fields.
        made: Usage = _made_usage(
            units, None, tally.events_count, tally.level, tally.amount_cents, running_totals, event_values, None, None
        )
        return made
    counts_units = AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES
    return Usage(
        units=round_units(proration.units, metric),
        full_units=round_units(tally.units, metric),
        events_count=int(truncate_to(proration.units, 0)) if counts_units else tally.events_count,
        amount_cents=tally.amount_cents,
        running_totals=running_totals,
        event_values=event_values,
        stretches=proration.stretches,
    )


def usage(
    metric: Metric,
    events: Iterable[Event],
    window: Window,
    *,
    is_prorated: bool = False,
    initial_level: Decimal = ZERO,
    free_events: int | None = None,
    free_units: Decimal | None = None,
    with_event_values: bool = False,
    program: Program = unchanged,
) -> Usage:
    """The usage of one bucket (or group) over `window`, billed in arrears.

    `events` are those of the bucket; events outside the metric's scope are left out. `free_events` and `free_units` are
    the charge's free_units_per_events and free_units_per_total_aggregation. `with_event_values` is set if the charge's
    price depends on single events (per-transaction bounds).
    """
    counted = [event for event in events if in_scope(metric, event, window)]
    tally = fold(
        metric.aggregation_type,
        counted,
        field_name=metric.field_name,
        window=window,
        initial_level=initial_level,
        program=program,
    )
    return usage_of(
        metric,
        tally,
        proration=prorated(metric, counted, window) if is_prorated else None,
        running_totals=running_totals(metric, counted, tally.units, free_events=free_events, free_units=free_units),
        event_values=event_values(metric, counted, window.start) if with_event_values else (),
    )


def active_before(events: Iterable[Event], event: Event, field_name: str | None) -> bool:
    """Whether the unique value of `event` is already active: its latest earlier event is an `add`."""
    value = property_of(event, field_name)
    earlier = (
        candidate
        for candidate in events
        if candidate.order < event.order and property_of(candidate, field_name) == value
    )
    active = UniqueCount(field_name=field_name)
    return active.result(fold_events(active, earlier)).units == 1
