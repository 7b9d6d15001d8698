"""Billable metrics as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.billable_metrics import BillableMetric
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class MetricFilterView(TypedDict):
    key: str
    values: list[str]


class BillableMetricView(TypedDict):
    svc_id: Id
    name: str
    code: str
    description: str | None
    aggregation_type: str
    weighted_interval: str | None
    recurring: bool
    rounding_function: str | None
    rounding_precision: int | None
    created_at: Instant
    field_name: str | None
    expression: str | None
    active_subscriptions_count: int
    draft_invoices_count: int
    plans_count: int
    filters: list[MetricFilterView]


class ExpressionResultView(TypedDict):
    value: str


def billable_metric_view(reader: Reader, metric: BillableMetric) -> BillableMetricView:
    """The metric with its filters by key, the values of each in alphabetical order."""
    return {
        "svc_id": metric.id,
        "name": metric.name,
        "code": metric.code,
        "description": metric.description,
        "aggregation_type": metric.aggregation_type,
        "weighted_interval": metric.weighted_interval,
        "recurring": metric.recurring,
        "rounding_function": metric.rounding_function,
        "rounding_precision": metric.rounding_precision,
        "created_at": instant_text(metric.created_at),
        "field_name": metric.field_name,
        "expression": metric.expression,
        "active_subscriptions_count": 0,
        "draft_invoices_count": 0,
        "plans_count": 0,
        "filters": [
            {"key": metric_filter.key, "values": sorted(metric_filter.values)}
            for metric_filter in sorted(metric.filters, key=lambda metric_filter: metric_filter.key)
        ],
    }


def expression_result_view(reader: Reader, value: str) -> ExpressionResultView:
    """The value of an expression for an event."""
    return {"value": value}
