"""Per-event lists that some charge models need beside the units: one value an event, and running totals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation.metric import Metric
from usagebill.core.aggregation.unique_count import operation_of
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.numbers import ONE, ZERO, add, ceil_to

__all__ = ["counted_totals", "event_values", "running_totals", "summed_totals"]


def event_values(metric: Metric, events: Iterable[Event], start: datetime) -> tuple[Decimal, ...]:
    """One value an event of the period from `start`, in order of time; also where the metric counts all history.

    count: 1 each. unique_count: 1 each, repeats and removals too. sum and weighted_sum: the field. max and latest:
    the aggregated value at the event that set it, 0 at the others. custom: none.
    """
    first = cut_to_seconds(start)
    current = sorted((event for event in events if event.timestamp >= first), key=lambda event: event.order)
    numbers = [value for event in current if (value := numeric_value(event, metric.field_name)) is not None]
    match metric.aggregation_type:
        case "count_agg":
            return (ONE,) * len(current)
        case "unique_count_agg":
            counting = (
                event
                for event in current
                if property_of(event, metric.field_name) is not None and operation_of(event) is not None
            )
            return tuple(ONE for _ in counting)
        case "sum_agg" | "weighted_sum_agg":
            return tuple(numbers)
        case "max_agg" if numbers:
            return _only(numbers.index(max(numbers)), numbers)
        case "latest_agg" if numbers:
            return _only(len(numbers) - 1, [max(value, ZERO) for value in numbers])
        case _:
            return ()


def running_totals(
    metric: Metric, events: Iterable[Event], units: Decimal, *, free_events: int | None, free_units: Decimal | None
) -> tuple[Decimal, ...]:
    """Running totals of the units, from which a percentage charge takes its free units; none where neither limit is
    set (`free_units_per_events` and `free_units_per_total_aggregation` of the charge).

    `events` are all that the aggregation counts (all history for a recurring sum), `units` what it gave.
    """
    match metric.aggregation_type:
        case "count_agg" | "unique_count_agg":
            return counted_totals(units, free_events=free_events, free_units=free_units)
        case "sum_agg":
            ordered = sorted(events, key=lambda event: event.order)
            values = (value for event in ordered if (value := numeric_value(event, metric.field_name)) is not None)
            return summed_totals(values, free_events=free_events, free_units=free_units)
        case _:
            return ()


def counted_totals(units: Decimal, *, free_events: int | None, free_units: Decimal | None) -> tuple[Decimal, ...]:
    """1, 2, ... up to `units`, but no further than the first two that neither limit can leave free."""
    if not free_events and not free_units:
        return ()
    furthest = max(free_events or 0, int(ceil_to(free_units or ZERO, 0))) + 2
    return tuple(Decimal(number) for number in range(1, min(int(units), furthest) + 1))


def summed_totals(
    values: Iterable[Decimal], *, free_events: int | None, free_units: Decimal | None
) -> tuple[Decimal, ...]:
    """Running totals of `values` (in order of time): of the first `free_events`, or else up to and including the
    first that is above `free_units`.
    """
    totals: list[Decimal] = []
    running = ZERO
    if not free_events and not free_units:
        return ()
    for value in values:
        running = add(running, value)
        totals.append(running)
        if len(totals) == free_events or (not free_events and free_units is not None and running > free_units):
            break
    return tuple(totals)


def _only(position: int, values: list[Decimal]) -> tuple[Decimal, ...]:
    return tuple(value if index == position else ZERO for index, value in enumerate(values))
