"""Billable metrics: which events count, how they are aggregated into units, and which definitions are valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from usagebill.core import expressions
from usagebill.core.aggregation import AGGREGATIONS, Accumulation, FieldUse
from usagebill.core.aggregation.metric import ROUNDINGS
from usagebill.core.limits import MOST_FILTER_KEYS, MOST_FILTER_VALUES, ROUNDING_PRECISION

ROUNDING_FUNCTIONS = tuple(ROUNDINGS)
WEIGHTED_INTERVALS = ("seconds",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFilter:
    """A property of events by which charges may price differently, with its declared values."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BillableMetric:
    """The events that count (those with `code`), and how they become units."""

    id: str
    organization_id: str
    name: str
    code: str
    aggregation_type: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    field_name: str | None = None
    recurring: bool = False
    weighted_interval: str | None = None
    rounding_function: str | None = None
    rounding_precision: int | None = None
    expression: str | None = None
    filters: tuple[MetricFilter, ...] = ()
    deleted_at: datetime | None = None


def definition_errors(metric: BillableMetric) -> dict[str, list[str]]:
    """Errors in the fields of a metric, as field -> codes; empty if there are none.

    Codes: value_is_mandatory, value_is_invalid, not_compatible_with_aggregation_type, invalid_expression. Whether its
    code is taken is checked by the operation.
    """
    errors: dict[str, list[str]] = {}
    if not metric.name:
        errors["name"] = ["value_is_mandatory"]
    if not metric.code:
        errors["code"] = ["value_is_mandatory"]
    aggregation = AGGREGATIONS.get(metric.aggregation_type)
    if not metric.field_name and (aggregation is None or aggregation.field is FieldUse.NEEDED):
        errors["field_name"] = ["value_is_mandatory"]
    if aggregation is None:
        errors["aggregation_type"] = ["value_is_invalid"]
    if metric.recurring and aggregation is not None and not aggregation.may_recur:
        errors["recurring"] = ["not_compatible_with_aggregation_type"]
    is_level = aggregation is not None and aggregation.accumulation is Accumulation.LEVEL
    wants_interval = is_level or metric.weighted_interval is not None
    if wants_interval and metric.weighted_interval not in WEIGHTED_INTERVALS:
        errors["weighted_interval"] = ["value_is_invalid"]
    if metric.rounding_function is not None and metric.rounding_function not in ROUNDING_FUNCTIONS:
        errors["rounding_function"] = ["value_is_invalid"]
    if metric.rounding_precision is not None and not ROUNDING_PRECISION.holds(metric.rounding_precision):
        errors["rounding_precision"] = ["value_is_out_of_range"]
    if metric.expression and not expressions.is_valid(metric.expression):
        errors["expression"] = ["invalid_expression"]
    return errors


def filter_errors(filters: Iterable[tuple[str | None, tuple[str, ...]]]) -> dict[str, list[str]]:
    """Errors in the filters sent for a metric, each (key, values): only the first mistake is reported."""
    sent = list(filters)
    for key, values in sent:
        if not values:
            return {"values": ["value_is_mandatory"]}
        if key is None or not key.strip():
            return {"key": ["value_is_mandatory"]}
    if len({key for key, _ in sent}) > MOST_FILTER_KEYS:
        return {"filters": ["too_many_filters"]}
    if sum(len(values) for _, values in sent) > MOST_FILTER_VALUES:
        return {"values": ["too_many_values"]}
    return {}


def merged_filters(filters: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[MetricFilter, ...]:
    """Filters as stored: the last of a repeated key, each value once, in the order sent."""
    values_by_key = dict(filters)
    return tuple(MetricFilter(key=key, values=tuple(dict.fromkeys(values))) for key, values in values_by_key.items())


def declared_values(metric: BillableMetric) -> Mapping[str, frozenset[str]]:
    """The values that the metric declares for each of its filter keys."""
    return {metric_filter.key: frozenset(metric_filter.values) for metric_filter in metric.filters}
