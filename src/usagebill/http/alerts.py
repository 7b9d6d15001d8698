"""Alerts over HTTP."""

from __future__ import annotations

from functools import partial

from usagebill.http.endpoints import Endpoint
from usagebill.operations.alerts import definitions as alerts
from usagebill.operations.alerts.inputs import AlertsRequest, AlertUpdate
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.views.alerts import alert_view, created_alerts_view

_of_subscription = partial(Endpoint, permission="alert", query=WhichSubscription)
_ALERTS = "/subscriptions/{external_id}/alerts"
_ALERT = _ALERTS + "/{code}"
_of_wallet = partial(Endpoint, permission="alert")
_ALERTS_OF_WALLET = "/customers/{external_customer_id}/wallets/{wallet_code}/alerts"
_ALERT_OF_WALLET = _ALERTS_OF_WALLET + "/{code}"

ENDPOINTS = [
    _of_subscription(
        "POST",
        _ALERTS,
        alerts.create_requested,
        body=AlertsRequest,
        view=created_alerts_view,
        summary="Create an alert of a subscription, or several",
    ),
    _of_subscription(
        "GET",
        _ALERTS,
        alerts.list_all,
        paged=True,
        returns="alerts",
        view=alert_view,
        summary="List the alerts of a subscription",
    ),
    _of_subscription(
        "DELETE",
        _ALERTS,
        alerts.delete_all,
        summary="Delete all alerts of a subscription",
    ),
    _of_subscription(
        "GET",
        _ALERT,
        alerts.get,
        returns="alert",
        view=alert_view,
        summary="Get an alert of a subscription",
    ),
    _of_subscription(
        "PUT",
        _ALERT,
        alerts.update,
        find=alerts.get,
        found_first=True,
        body=AlertUpdate,
        root="alert",
        returns="alert",
        view=alert_view,
        summary="Change an alert of a subscription",
    ),
    _of_subscription(
        "DELETE",
        _ALERT,
        alerts.delete,
        returns="alert",
        view=alert_view,
        summary="Delete an alert of a subscription",
    ),
    _of_wallet(
        "POST",
        _ALERTS_OF_WALLET,
        alerts.create_requested_of_wallet,
        body=AlertsRequest,
        view=created_alerts_view,
        summary="Create an alert of a wallet, or several",
    ),
    _of_wallet(
        "GET",
        _ALERTS_OF_WALLET,
        alerts.list_of_wallet,
        paged=True,
        returns="alerts",
        view=alert_view,
        summary="List the alerts of a wallet",
    ),
    _of_wallet(
        "DELETE",
        _ALERTS_OF_WALLET,
        alerts.delete_all_of_wallet,
        summary="Delete all alerts of a wallet",
    ),
    _of_wallet(
        "GET",
        _ALERT_OF_WALLET,
        alerts.get_of_wallet,
        returns="alert",
        view=alert_view,
        summary="Get an alert of a wallet",
    ),
    _of_wallet(
        "PUT",
        _ALERT_OF_WALLET,
        alerts.update_of_wallet,
        find=alerts.get_of_wallet,
        found_first=True,
        body=AlertUpdate,
        root="alert",
        returns="alert",
        view=alert_view,
        summary="Change an alert of a wallet",
    ),
    _of_wallet(
        "DELETE",
        _ALERT_OF_WALLET,
        alerts.delete_of_wallet,
        returns="alert",
        view=alert_view,
        summary="Delete an alert of a wallet",
    ),
]
