"""Customer usage over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations.usage_with_holds import current
from usagebill.rating.current_usage import ProjectedUsageOptions, UsageOptions, projected
from usagebill.rating.past_usage import PastUsageOptions, past
from usagebill.resources.usage_views import current_usage_view, past_usage_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/customers/{external_customer_id}/current_usage",
        current,
        query=UsageOptions,
        returns="customer_usage",
        view=current_usage_view,
        summary="Get usage of the current period",
    ),
    Endpoint(
        "GET",
        "/customers/{external_customer_id}/projected_usage",
        projected,
        query=ProjectedUsageOptions,
        returns="customer_projected_usage",
        view=current_usage_view,
        summary="Get usage of the current period, projected to its end",
    ),
    Endpoint(
        "GET",
        "/customers/{external_customer_id}/past_usage",
        past,
        query=PastUsageOptions,
        paged=True,
        returns="usage_periods",
        view=past_usage_view,
        summary="Get usage of past periods, as invoiced",
    ),
]
