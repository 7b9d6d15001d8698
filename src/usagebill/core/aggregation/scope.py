"""Scope: the events that a billable metric counts."""

from __future__ import annotations

from datetime import datetime

from usagebill.core.aggregation.metric import Metric, Window
from usagebill.core.aggregation.registry import AGGREGATIONS
from usagebill.core.aggregation.traits import COUNTED_FROM_FIRST, Accumulation, FieldUse
from usagebill.core.aggregation.unique_count import operation_of
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of


def counts_history(aggregation_type: str, *, recurring: bool) -> bool:
    """Whether all earlier events of the external subscription id count, including those of earlier subscriptions.

    True for recurring sums and unique counts. A recurring weighted sum takes its history from its initial level
    instead.
    """
    return recurring and AGGREGATIONS[aggregation_type].accumulation in COUNTED_FROM_FIRST


def lower_bound(aggregation_type: str, *, recurring: bool, start: datetime) -> datetime | None:
    """The earliest timestamp (inclusive) of events that count; None if all history does.

    It is `start` cut to the second: most senders use whole seconds, and a subscription may start within one.
    """
    return None if counts_history(aggregation_type, recurring=recurring) else cut_to_seconds(start)


def in_scope(metric: Metric, event: Event, window: Window) -> bool:
    """Whether the timestamp of `event` is in the scope of `metric` for the period `window`."""
    earliest = lower_bound(metric.aggregation_type, recurring=metric.recurring, start=window.start)
    return (earliest is None or earliest <= event.timestamp) and event.timestamp <= window.end


def counts(aggregation_type: str, field_name: str | None, event: Event) -> bool:
    """Whether the aggregation counts `event`. Events that do not count open no group either.

    Sums, maxima and latest values need a number, a unique count a value and a known operation; other types count any
    event.
    """
    aggregation = AGGREGATIONS[aggregation_type]
    if aggregation.numeric:
        return numeric_value(event, field_name) is not None
    if aggregation.accumulation is Accumulation.VALUES:
        return property_of(event, field_name) is not None and operation_of(event) is not None
    return True


def lacks_property(metric: Metric, event: Event) -> bool:
    """Whether `event` cannot count for `metric` (`missing_aggregation_property` of the hourly check).

    True if its field is missing or null, or not numeric although a number is needed; never if no property is read.
    """
    aggregation = AGGREGATIONS[metric.aggregation_type]
    if aggregation.field is FieldUse.NONE or metric.field_name is None:
        return False
    if aggregation.numeric:
        return numeric_value(event, metric.field_name) is None
    return property_of(event, metric.field_name) is None
