"""Lifetime usage over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import progressive_billing
from usagebill.resources.result_views import lifetime_usage_view

ENDPOINTS = [
    Endpoint(
        "GET",
        "/subscriptions/{external_id}/lifetime_usage",
        progressive_billing.get,
        query=progressive_billing.LifetimeUsageOptions,
        returns="lifetime_usage",
        view=lifetime_usage_view,
        summary="Get the lifetime usage of a subscription",
    ),
    Endpoint(
        "PUT",
        "/subscriptions/{external_id}/lifetime_usage",
        progressive_billing.put,
        find=progressive_billing.get,
        found_first=True,
        body=progressive_billing.LifetimeUsageInput,
        root="lifetime_usage",
        query=progressive_billing.LifetimeUsageOptions,
        returns="lifetime_usage",
        view=lifetime_usage_view,
        summary="Set a subscription's usage from before it was billed here",
    ),
]
