"""Subscriptions over HTTP."""

from __future__ import annotations

from usagebill.http.endpoints import Endpoint
from usagebill.operations import subscriptions
from usagebill.views.subscriptions import created_subscription_view, subscription_and_plan_view, subscription_view

ENDPOINTS = [
    Endpoint(
        "POST",
        "/subscriptions",
        subscriptions.create,
        body=subscriptions.SubscriptionInput,
        root="subscription",
        query=subscriptions.AuthorizationOptions,
        view=created_subscription_view,
        summary="Subscribe a customer to a plan, or change the plan",
    ),
    Endpoint(
        "GET",
        "/subscriptions",
        subscriptions.list_all,
        query=subscriptions.SubscriptionFilters,
        paged=True,
        returns="subscriptions",
        view=subscription_view,
        summary="List subscriptions",
    ),
    Endpoint(
        "GET",
        "/subscriptions/{external_id}",
        subscriptions.get,
        query=subscriptions.StatusOptions,
        returns="subscription",
        view=subscription_and_plan_view,
        summary="Get a subscription",
    ),
    Endpoint(
        "PUT",
        "/subscriptions/{external_id}",
        subscriptions.update,
        find=subscriptions.find_to_change,
        body=subscriptions.SubscriptionUpdate,
        root="subscription",
        query=subscriptions.StatusOptions,
        returns="subscription",
        view=subscription_view,
        summary="Change a subscription",
    ),
    Endpoint(
        "DELETE",
        "/subscriptions/{external_id}",
        subscriptions.delete,
        query=subscriptions.SubscriptionTermination,
        returns="subscription",
        view=subscription_view,
        summary="End a subscription, or cancel one that has not started",
    ),
    Endpoint(
        "GET",
        "/customers/{external_customer_id}/subscriptions",
        subscriptions.list_of_customer,
        query=subscriptions.SubscriptionFilters,
        paged=True,
        returns="subscriptions",
        view=subscription_view,
        summary="List the subscriptions of a customer",
    ),
]
