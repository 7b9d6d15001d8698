"""Lifetime usage over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import progressive_billing
from usagebill.operations.progressive_billing import LifetimeUsageNow
from usagebill.views.lifetime_usage import LifetimeUsageView, lifetime_usage_object
from usagebill.work import Work

__all__ = ["ENDPOINTS"]


def _view(_: Work, usage: LifetimeUsageNow) -> LifetimeUsageView:
    return lifetime_usage_object(
        usage.record,
        usage.subscription,
        invoiced_cents=usage.invoiced_cents,
        current_cents=usage.current_cents,
        at=usage.at,
        completions=usage.completions,
    )


ENDPOINTS = [
    Endpoint(
        "GET",
        "/subscriptions/{external_id}/lifetime_usage",
        progressive_billing.get,
        permission="lifetime_usage",
        query=progressive_billing.LifetimeUsageOptions,
        returns="lifetime_usage",
        view=_view,
        summary="Everything a subscription has used in its life",
    ),
    Endpoint(
        "PUT",
        "/subscriptions/{external_id}/lifetime_usage",
        progressive_billing.put,
        find=progressive_billing.get,
        found_first=True,
        permission="lifetime_usage",
        body=progressive_billing.LifetimeUsageInput,
        root="lifetime_usage",
        query=progressive_billing.LifetimeUsageOptions,
        returns="lifetime_usage",
        view=_view,
        summary="Say what a subscription had used before it came here",
    ),
]
