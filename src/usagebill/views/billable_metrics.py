"""How billable metrics are shown."""

from __future__ import annotations

from usagebill.core.billable_metrics import BillableMetric
from usagebill.views.formats import instant_text
from usagebill.work import JsonObject, Work

__all__ = ["billable_metric_view", "expression_result_view"]


def billable_metric_view(work: Work, metric: BillableMetric) -> JsonObject:
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
            {"key": one.key, "values": sorted(one.values)} for one in sorted(metric.filters, key=lambda one: one.key)
        ],
    }


def expression_result_view(work: Work, value: str) -> JsonObject:
    return {"value": value}
