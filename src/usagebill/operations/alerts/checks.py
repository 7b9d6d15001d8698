"""Checks: a job that measures the usage watched by a subscription's alerts, and reports crossed thresholds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial

from usagebill.core.alerts import CARRIED_TYPES, Alert, AlertType, is_own
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import add
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckAlerts
from usagebill.operations.alert_watch import see
from usagebill.operations.backlog import catch_up_before
from usagebill.operations.emails.usage_levels import email_level
from usagebill.operations.progressive_billing import usage_before
from usagebill.operations.subscriptions.schedule import awaits_run
from usagebill.process.logs import Log
from usagebill.queries.alerts import alerts_of_subscription
from usagebill.queries.takeovers import in_force
from usagebill.rating.alert_values import Measurement, measure
from usagebill.runtime.work import Work
from usagebill.storage.conditions import desc, eq

_log = Log("usagebill.alerts")


def check(work: Work, task: CheckAlerts) -> None:
    """Job: check the alerts of a subscription, and send one message per alert that has crossed thresholds.

    The customer's backlog (a plan change, a closed period) is settled first. Without new events, the next check is at
    the start of the next period.
    """
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE:
        # Its successor has its own check, from its start.
        return
    alerts = alerts_of_subscription(work, subscription)
    if not alerts:
        return
    catch_up_before(work, (subscription.customer_id,))
    running = work.tx.first(
        Subscription,
        eq("external_id", subscription.external_id),
        eq("customer_id", subscription.customer_id),
        eq("status", SubscriptionStatus.ACTIVE),
        order=[desc("started_at")],
    )
    if running is None:
        return
    subscription = in_force(work, running)
    measured: Measurement = work.computed(
        ("alerts", subscription.id),
        partial(measure, subscription=subscription, alerts=alerts, closed=running),
        inputs=(subscription, alerts, running),
        customer_id=subscription.customer_id,
    )
    for alert in alerts:
        value = _value(work, subscription, alert, measured)
        if value is None:
            continue
        if alert.id in measured.closings:
            alert, _ = see(work, alert, measured.closings[alert.id])
        alert = replace(alert, measured_subscription_id=subscription.id, measured_from=measured.window.start)
        alert, crossed = see(work, alert, value, opening=measured.openings.get(alert.id))
        if crossed and is_own(alert):
            email_level(work, alert)
    if any(alert.alert_type not in CARRIED_TYPES for alert in alerts):
        start = measured.window.end + MICROSECOND
        work.schedule(CheckAlerts(subscription_id=subscription.id, period_start=start), start)


def _value(work: Work, subscription: Subscription, alert: Alert, measured: Measurement) -> Decimal | None:
    """The current value that the alert watches; None if there is none, or it is not known yet."""
    value = measured.values.get(alert.id)
    if value is None:
        if alert.alert_type == AlertType.METRIC_LIFETIME_USAGE_UNITS:
            _log.warning("alert_not_checked", alert=alert.id, reason="its metric has no charge, or a prorated one")
        return None
    if alert.alert_type != AlertType.LIFETIME_USAGE_AMOUNT:
        return value
    if awaits_run(work, subscription, measured.window.start):
        # The closed period is not billed yet; the run that bills it schedules a check.
        return None
    return add(value, Decimal(usage_before(work, subscription, measured.window.start)))
