"""Entitlements of plans and subscriptions over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import entitlements
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.views.entitlements import (
    plan_entitlement_view,
    plan_entitlements_view,
    subscription_entitlements_view,
)

_OF_PLAN = "/plans/{code}/entitlements"
_OF_SUBSCRIPTION = "/subscriptions/{external_id}/entitlements"
_all_of_plan = partial(Endpoint, returns="entitlements", view=plan_entitlements_view)
_one_of_plan = partial(Endpoint, returns="entitlement", view=plan_entitlement_view)
_of_subscription = partial(
    Endpoint,
    query=WhichSubscription,
    returns="entitlements",
    view=subscription_entitlements_view,
)

ENDPOINTS = [
    _all_of_plan("GET", _OF_PLAN, entitlements.list_of_plan, summary="List the entitlements of a plan"),
    _all_of_plan(
        "POST",
        _OF_PLAN,
        entitlements.replace_of_plan,
        body=entitlements.EntitlementsInput,
        summary="Replace the entitlements of a plan",
    ),
    _all_of_plan(
        "PATCH",
        _OF_PLAN,
        entitlements.merge_of_plan,
        body=entitlements.EntitlementsInput,
        summary="Add and change entitlements of a plan",
    ),
    _one_of_plan(
        "GET",
        _OF_PLAN + "/{feature_code}",
        entitlements.get_of_plan,
        summary="Get the entitlement of a plan to a feature",
    ),
    _one_of_plan(
        "DELETE",
        _OF_PLAN + "/{feature_code}",
        entitlements.remove_from_plan,
        summary="Remove a feature from a plan",
    ),
    _one_of_plan(
        "DELETE",
        _OF_PLAN + "/{feature_code}/privileges/{privilege_code}",
        entitlements.remove_privilege_from_plan,
        summary="Remove a privilege's value from a plan",
    ),
    _of_subscription(
        "GET",
        _OF_SUBSCRIPTION,
        entitlements.list_of_subscription,
        summary="List the entitlements of a subscription",
    ),
    _of_subscription(
        "PATCH",
        _OF_SUBSCRIPTION,
        entitlements.change_of_subscription,
        body=entitlements.EntitlementsInput,
        summary="Override entitlements of a subscription",
    ),
    _of_subscription(
        "DELETE",
        _OF_SUBSCRIPTION + "/{feature_code}",
        entitlements.remove_from_subscription,
        summary="Remove a feature from a subscription",
    ),
    _of_subscription(
        "DELETE",
        _OF_SUBSCRIPTION + "/{feature_code}/privileges/{privilege_code}",
        entitlements.remove_privilege_from_subscription,
        summary="Remove a privilege from a subscription",
    ),
]
