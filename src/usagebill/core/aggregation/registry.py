"""Every aggregation type by its wire value, and the fold of events that storage engines are tested against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import assert_never

from usagebill.core.aggregation.count import Count
from usagebill.core.aggregation.custom import Custom, Program, unchanged
from usagebill.core.aggregation.latest import Latest
from usagebill.core.aggregation.lists import (
    counted_totals,
    largest_only,
    last_only,
    numbers,
    one_each_operation,
    ones,
    summed_totals,
)
from usagebill.core.aggregation.max import Max
from usagebill.core.aggregation.metric import Metric, Window
from usagebill.core.aggregation.sum import Sum
from usagebill.core.aggregation.tally import AggregateResult, Aggregation, State, fold_events
from usagebill.core.aggregation.traits import (
    Accumulation,
    AggregationType,
    EventEffect,
    FieldUse,
    Question,
    RunningTotals,
)
from usagebill.core.aggregation.unique_count import UniqueCount
from usagebill.core.aggregation.weighted_sum import WeightedSum
from usagebill.core.events import Event, cut_to_seconds
from usagebill.core.numbers import ZERO


def _run(aggregation: Aggregation[State], events: Iterable[Event]) -> AggregateResult:
    return aggregation.result(fold_events(aggregation, events))


def _weighted_sum(question: Question, events: Iterable[Event]) -> AggregateResult:
    window = question.window
    if window is None:
        raise ValueError("a weighted sum needs the window that it is weighted over")
    weighted = WeightedSum(
        field_name=question.field_name,
        start=window.start,
        end=window.end,
        period_days=window.period_days,
        initial=question.initial_level,
    )
    return _run(weighted, events)


AGGREGATIONS: Mapping[str, AggregationType] = {
    "count_agg": AggregationType(
        fold=lambda question, events: _run(Count(), events),
        field=FieldUse.NONE,
        numeric=False,
        may_recur=False,
        in_advance=True,
        by_percentage=True,
        accumulation=Accumulation.NOTHING,
        effect=EventEffect.ONE,
        running_totals=RunningTotals.COUNTED,
        event_values=ones,
        sums_event_prices=False,
        is_program=False,
        words="number of events: {units}",
    ),
    "sum_agg": AggregationType(
        fold=lambda question, events: _run(Sum(field_name=question.field_name), events),
        field=FieldUse.NEEDED,
        numeric=True,
        may_recur=True,
        in_advance=True,
        by_percentage=True,
        accumulation=Accumulation.SUM,
        effect=EventEffect.VALUE,
        running_totals=RunningTotals.SUMMED,
        event_values=numbers,
        sums_event_prices=True,
        is_program=False,
        words="sum of {field} of {events} events: {units}",
    ),
    "max_agg": AggregationType(
        fold=lambda question, events: _run(Max(field_name=question.field_name), events),
        field=FieldUse.NEEDED,
        numeric=True,
        may_recur=False,
        in_advance=False,
        by_percentage=True,
        accumulation=Accumulation.NOTHING,
        effect=EventEffect.REPLACES,
        running_totals=RunningTotals.NONE,
        event_values=largest_only,
        sums_event_prices=False,
        is_program=False,
        words="largest {field} of {events} events: {units}",
    ),
    "latest_agg": AggregationType(
        fold=lambda question, events: _run(Latest(field_name=question.field_name), events),
        field=FieldUse.NEEDED,
        numeric=True,
        may_recur=False,
        in_advance=False,
        by_percentage=False,
        accumulation=Accumulation.NOTHING,
        effect=EventEffect.REPLACES,
        running_totals=RunningTotals.NONE,
        event_values=last_only,
        sums_event_prices=False,
        is_program=False,
        words="latest {field} of {events} events: {units}",
    ),
    "unique_count_agg": AggregationType(
        fold=lambda question, events: _run(UniqueCount(field_name=question.field_name), events),
        field=FieldUse.NEEDED,
        numeric=False,
        may_recur=True,
        in_advance=True,
        by_percentage=True,
        accumulation=Accumulation.VALUES,
        effect=EventEffect.ONE,
        running_totals=RunningTotals.COUNTED,
        event_values=one_each_operation,
        sums_event_prices=False,
        is_program=False,
        words="number of distinct values of {field}: {units}",
    ),
    "weighted_sum_agg": AggregationType(
        fold=_weighted_sum,
        field=FieldUse.NEEDED,
        numeric=True,
        may_recur=True,
        in_advance=False,
        by_percentage=True,
        accumulation=Accumulation.LEVEL,
        effect=EventEffect.WEIGHTED,
        running_totals=RunningTotals.NONE,
        event_values=numbers,
        sums_event_prices=False,
        is_program=False,
        words="{field} of {events} events weighed by how long each level was held: {units}",
    ),
    "custom_agg": AggregationType(
        fold=lambda question, events: _run(Custom(program=question.program), events),
        field=FieldUse.OPTIONAL,
        numeric=False,
        may_recur=True,
        in_advance=True,
        by_percentage=True,
        accumulation=Accumulation.NOTHING,
        effect=EventEffect.UNKNOWN,
        running_totals=RunningTotals.NONE,
        event_values=None,
        sums_event_prices=False,
        is_program=True,
        words="custom_agg over {events} events: {units}",
    ),
}


def fold(
    aggregation_type: str,
    events: Iterable[Event],
    *,
    field_name: str | None = None,
    window: Window | None = None,
    initial_level: Decimal = ZERO,
    program: Program = unchanged,
) -> AggregateResult:
    """The result of `aggregation_type` over `events`, in any order; they are assumed to be in its scope.

    `window` and `initial_level` matter only to a level held over time (ValueError without a window), `program` only to
    custom aggregations. KeyError for an unknown type.
    """
    question = Question(field_name=field_name, window=window, initial_level=initial_level, program=program)
    return AGGREGATIONS[aggregation_type].fold(question, events)


def event_values(metric: Metric, events: Iterable[Event], start: datetime) -> tuple[Decimal, ...]:
    """One value per event of the period from `start`, in order of time, even if the metric counts all history.

    Empty for a type without values of single events; its charges have no per-transaction bounds.
    """
    values_of = AGGREGATIONS[metric.aggregation_type].event_values
    if values_of is None:
        return ()
    first = cut_to_seconds(start)
    current = sorted((event for event in events if event.timestamp >= first), key=lambda event: event.order)
    return values_of(current, metric.field_name)


def running_totals(
    metric: Metric, events: Iterable[Event], units: Decimal, *, free_events: int | None, free_units: Decimal | None
) -> tuple[Decimal, ...]:
    """Running totals of the units, from which a percentage charge takes its free units; empty if neither limit is set
    (`free_units_per_events` and `free_units_per_total_aggregation` of the charge).

    `events` are all those that the aggregation counts (all history for a recurring sum), `units` its result.
    """
    kind = AGGREGATIONS[metric.aggregation_type].running_totals
    match kind:
        case RunningTotals.NONE:
            return ()
        case RunningTotals.COUNTED:
            return counted_totals(units, free_events=free_events, free_units=free_units)
        case RunningTotals.SUMMED:
            values = numbers(sorted(events, key=lambda event: event.order), metric.field_name)
            return summed_totals(values, free_events=free_events, free_units=free_units)
        case _:
            assert_never(kind)
