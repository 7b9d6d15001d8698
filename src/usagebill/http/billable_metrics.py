"""Billable metrics over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import billable_metrics
from usagebill.views.billable_metrics import billable_metric_view, expression_result_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/billable_metrics",
        billable_metrics.create,
        body=billable_metrics.BillableMetricInput,
        root="billable_metric",
        known_field=True,
        returns="billable_metric",
        view=billable_metric_view,
        summary="Create a billable metric",
    ),
    Endpoint(
        "GET",
        "/billable_metrics",
        billable_metrics.list_all,
        paged=True,
        returns="billable_metrics",
        view=billable_metric_view,
        summary="List billable metrics",
    ),
    Endpoint(
        "POST",
        "/billable_metrics/evaluate_expression",
        billable_metrics.evaluate_expression,
        body=billable_metrics.ExpressionInput,
        returns="expression_result",
        view=expression_result_view,
        summary="Try an expression on an event",
    ),
    Endpoint(
        "GET",
        "/billable_metrics/{code}",
        billable_metrics.get,
        returns="billable_metric",
        view=billable_metric_view,
        summary="Get a billable metric",
    ),
    Endpoint(
        "PUT",
        "/billable_metrics/{code}",
        billable_metrics.update,
        find=billable_metrics.get,
        body=billable_metrics.BillableMetricInput,
        root="billable_metric",
        known_field=True,
        returns="billable_metric",
        view=billable_metric_view,
        summary="Change a billable metric",
    ),
    Endpoint(
        "DELETE",
        "/billable_metrics/{code}",
        billable_metrics.delete,
        returns="billable_metric",
        view=billable_metric_view,
        summary="Delete a billable metric and its charges",
    ),
]
