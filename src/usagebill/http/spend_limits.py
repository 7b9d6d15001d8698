"""Spend limits over HTTP, and checks against them."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations import checks, spend_limits
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import plan_by_code
from usagebill.views.spend_limits import check_view, spend_limit_view

_shown = partial(Endpoint, returns="spend_limit", view=spend_limit_view)
_sent = partial(_shown, body=spend_limits.SpendLimitInput, root="spend_limit")
_listed = partial(Endpoint, paged=True, returns="spend_limits", view=spend_limit_view)
_OF_CUSTOMER = "/customers/{external_id}/spend_limits"
_OF_SUBSCRIPTION = "/subscriptions/{external_id}/spend_limits"
_OF_PLAN = "/plans/{code}/spend_limits"
_ONE = "/{spend_limit_code}"

ENDPOINTS = [
    _sent(
        "POST",
        _OF_CUSTOMER,
        spend_limits.create_of_customer,
        find=customer_by_external_id,
        summary="Create a spend limit of a customer",
    ),
    _listed("GET", _OF_CUSTOMER, spend_limits.list_of_customer, summary="List the spend limits of a customer"),
    _shown(
        "GET",
        _OF_CUSTOMER + _ONE,
        spend_limits.get_of_customer,
        summary="Get a spend limit of a customer",
    ),
    _sent(
        "PUT",
        _OF_CUSTOMER + _ONE,
        spend_limits.update_of_customer,
        find=spend_limits.get_of_customer,
        summary="Change a spend limit of a customer",
    ),
    _shown(
        "DELETE",
        _OF_CUSTOMER + _ONE,
        spend_limits.delete_of_customer,
        summary="Delete a spend limit of a customer",
    ),
    _sent(
        "POST",
        _OF_SUBSCRIPTION,
        spend_limits.create_of_subscription,
        find=get_of_status,
        summary="Create a spend limit of a subscription",
    ),
    _listed(
        "GET", _OF_SUBSCRIPTION, spend_limits.list_of_subscription, summary="List the spend limits of a subscription"
    ),
    _shown(
        "GET",
        _OF_SUBSCRIPTION + _ONE,
        spend_limits.get_of_subscription,
        summary="Get a spend limit of a subscription",
    ),
    _sent(
        "PUT",
        _OF_SUBSCRIPTION + _ONE,
        spend_limits.update_of_subscription,
        find=spend_limits.get_of_subscription,
        summary="Change a spend limit of a subscription",
    ),
    _shown(
        "DELETE",
        _OF_SUBSCRIPTION + _ONE,
        spend_limits.delete_of_subscription,
        summary="Delete a spend limit of a subscription",
    ),
    _sent(
        "POST",
        _OF_PLAN,
        spend_limits.create_of_plan,
        find=plan_by_code,
        summary="Create a spend limit of a plan",
    ),
    _listed("GET", _OF_PLAN, spend_limits.list_of_plan, summary="List the spend limits of a plan"),
    _shown("GET", _OF_PLAN + _ONE, spend_limits.get_of_plan, summary="Get a spend limit of a plan"),
    _sent(
        "PUT",
        _OF_PLAN + _ONE,
        spend_limits.update_of_plan,
        find=spend_limits.get_of_plan,
        summary="Change a spend limit of a plan",
    ),
    _shown("DELETE", _OF_PLAN + _ONE, spend_limits.delete_of_plan, summary="Delete a spend limit of a plan"),
    Endpoint(
        "POST",
        "/checks",
        checks.check,
        body=checks.CheckInput,
        root="check",
        any_json=("properties",),
        returns="check",
        view=check_view,
        summary="Ask whether more usage is allowed",
    ),
]
