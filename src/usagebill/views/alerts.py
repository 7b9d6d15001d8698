"""Alerts as JSON, and the message about a triggered one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from usagebill.core.alerts import Alert, AlertThreshold, Crossing
from usagebill.core.numbers import decimal_text
from usagebill.queries.alerts import customer_of_alert, metric_of_alert, subscription_of_alert, wallet_of_alert
from usagebill.runtime.work import Reader
from usagebill.views.billable_metrics import BillableMetricView, billable_metric_view
from usagebill.views.formats import DecimalText, Id, Instant, instant_text


class AlertThresholdView(TypedDict):
    code: str | None
    value: DecimalText
    recurring: bool


class AlertView(TypedDict):
    svc_id: Id
    svc_organization_id: Id
    external_subscription_id: str | None
    subscription_external_id: str | None
    svc_wallet_id: Id | None
    wallet_code: str | None
    billable_metric: BillableMetricView | None
    alert_type: str
    code: str
    name: str | None
    direction: str
    previous_value: DecimalText
    last_processed_at: Instant | None
    thresholds: list[AlertThresholdView]
    created_at: Instant


class CreatedAlertView(TypedDict):
    alert: AlertView


class CreatedAlertsView(TypedDict):
    alerts: list[AlertView]


class TriggeredAlertView(TypedDict):
    svc_id: Id
    svc_organization_id: Id
    svc_alert_id: Id
    svc_subscription_id: Id | None
    external_subscription_id: str | None
    subscription_external_id: str | None
    svc_wallet_id: Id | None
    external_customer_id: str
    customer_external_id: str
    billable_metric_code: str | None
    alert_name: str | None
    alert_code: str
    alert_type: str
    current_value: DecimalText
    previous_value: DecimalText
    crossed_thresholds: list[AlertThresholdView]
    triggered_at: Instant


def _threshold_view(threshold: AlertThreshold) -> AlertThresholdView:
    return {"code": threshold.code, "value": decimal_text(threshold.value), "recurring": threshold.recurring}


def alert_view(reader: Reader, alert: Alert) -> AlertView:
    """The alert with its thresholds and the metric it watches."""
    metric = metric_of_alert(reader, alert)
    wallet = wallet_of_alert(reader, alert)
    return {
        "svc_id": alert.id,
        "svc_organization_id": alert.organization_id,
        "external_subscription_id": alert.external_subscription_id,
        "subscription_external_id": alert.external_subscription_id,
        "svc_wallet_id": alert.wallet_id,
        "wallet_code": None if wallet is None else wallet.code,
        "billable_metric": None if metric is None else billable_metric_view(reader, metric),
        "alert_type": alert.alert_type,
        "code": alert.code,
        "name": alert.name,
        "direction": alert.direction,
        "previous_value": decimal_text(alert.previous_value),
        "last_processed_at": instant_text(alert.last_processed_at),
        "thresholds": [_threshold_view(threshold) for threshold in alert.thresholds],
        "created_at": instant_text(alert.created_at),
    }


def created_alerts_view(reader: Reader, created: Alert | Sequence[Alert]) -> CreatedAlertView | CreatedAlertsView:
    """The alert, or the list of alerts, that a request created."""
    if isinstance(created, Alert):
        return {"alert": alert_view(reader, created)}
    return {"alerts": [alert_view(reader, alert) for alert in created]}


def triggered_alert_view(reader: Reader, crossing: Crossing) -> TriggeredAlertView:
    """The triggered alert, with the thresholds its value crossed."""
    alert = crossing.alert
    subscription = subscription_of_alert(reader, alert)
    metric = metric_of_alert(reader, alert)
    external_customer_id = customer_of_alert(reader, alert).external_id
    return {
        "svc_id": crossing.id,
        "svc_organization_id": alert.organization_id,
        "svc_alert_id": alert.id,
        "svc_subscription_id": None if subscription is None else subscription.id,
        "external_subscription_id": alert.external_subscription_id,
        "subscription_external_id": alert.external_subscription_id,
        "svc_wallet_id": alert.wallet_id,
        "external_customer_id": external_customer_id,
        "customer_external_id": external_customer_id,
        "billable_metric_code": None if metric is None else metric.code,
        "alert_name": alert.name,
        "alert_code": alert.code,
        "alert_type": alert.alert_type,
        "current_value": decimal_text(crossing.current_value),
        "previous_value": decimal_text(crossing.previous_value),
        "crossed_thresholds": [_threshold_view(threshold) for threshold in crossing.thresholds],
        "triggered_at": instant_text(crossing.at),
    }
