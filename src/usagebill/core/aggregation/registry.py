"""Every aggregation type by its wire value, and the fold of events by type: what storage engines are tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.aggregation.count import Count
from usagebill.core.aggregation.custom import Custom, Program, unchanged
from usagebill.core.aggregation.latest import Latest
from usagebill.core.aggregation.max import Max
from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.sum import Sum
from usagebill.core.aggregation.tally import AggregateResult, Aggregation, State, fold_events
from usagebill.core.aggregation.unique_count import UniqueCount
from usagebill.core.aggregation.weighted_sum import WeightedSum
from usagebill.core.events import Event
from usagebill.core.numbers import ZERO

__all__ = ["AGGREGATIONS", "Question", "fold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that any aggregation is built from."""

    field_name: str | None
    window: Window | None
    initial_level: Decimal
    program: Program


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


AGGREGATIONS: Mapping[str, Callable[[Question, Iterable[Event]], AggregateResult]] = {
    "count_agg": lambda question, events: _run(Count(), events),
    "sum_agg": lambda question, events: _run(Sum(field_name=question.field_name), events),
    "max_agg": lambda question, events: _run(Max(field_name=question.field_name), events),
    "latest_agg": lambda question, events: _run(Latest(field_name=question.field_name), events),
    "unique_count_agg": lambda question, events: _run(UniqueCount(field_name=question.field_name), events),
    "weighted_sum_agg": _weighted_sum,
    "custom_agg": lambda question, events: _run(Custom(program=question.program), events),
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
    """What `aggregation_type` says of `events`, in whatever order they come; they are taken to be in its scope.

    `window` and `initial_level` matter to weighted_sum_agg only (ValueError without a window), `program` to
    custom_agg only. KeyError for an unknown type.
    """
    question = Question(field_name=field_name, window=window, initial_level=initial_level, program=program)
    return AGGREGATIONS[aggregation_type](question, events)
