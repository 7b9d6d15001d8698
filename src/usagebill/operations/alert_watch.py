"""Triggers of alert checks. Subscriptions are checked by a job, wallets at once.

Events within a few seconds share one check. A wallet is checked whenever its balance changes, so that no dip between
two checks is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from usagebill.core.alerts import Alert, AlertType, evaluated, wallet_value
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckAlerts
from usagebill.core.wallets import Wallet, WalletStatus
from usagebill.process.logs import Log, plain_traceback
from usagebill.queries.alerts import alerts_of_external_ids, alerts_of_subscription, alerts_of_wallet
from usagebill.runtime.ahead import Wanted
from usagebill.runtime.work import Work
from usagebill.storage.conditions import Condition, eq, within
from usagebill.views.alerts import triggered_alert_view

# The delay between an event and its check, which covers everything received in between.
GATHERED = timedelta(seconds=5)
_log = Log("usagebill.alerts")
_ACTIVE = eq("status", SubscriptionStatus.ACTIVE)


def watch_events(work: Work, events: Sequence[Event], metrics: Mapping[str, BillableMetric]) -> None:
    """Schedule checks of the alerts whose usage the new `events` may change; `metrics` are theirs, by code."""
    codes: dict[str, set[str]] = {}
    for event in events:
        if event.external_subscription_id and event.code in metrics:
            codes.setdefault(event.external_subscription_id, set()).add(metrics[event.code].id)
    _check(
        work,
        [
            alert
            for alert in alerts_of_external_ids(work, codes)
            if alert.billable_metric_id is None
            or alert.billable_metric_id in codes[alert.external_subscription_id or ""]
        ],
        work.now + GATHERED,
    )


def watch_plans(work: Work, plan_ids: Iterable[str]) -> None:
    """Schedule checks of the alerts of all subscriptions on these plans, because prices have changed."""
    watch_subscriptions(work, within("plan_id", tuple(plan_ids)))


def watch_subscriptions(work: Work, *conditions: Condition) -> None:
    """Schedule checks of the alerts of the matching active subscriptions."""
    if work.tx.first(Alert) is None:
        return
    for subscription in work.tx.find(Subscription, *conditions, _ACTIVE):
        watch_subscription(work, subscription)


def watch_subscription(work: Work, subscription: Subscription) -> None:
    """Schedule a check of the subscription's alerts, if it is active and has any."""
    if subscription.status == SubscriptionStatus.ACTIVE and alerts_of_subscription(work, subscription):
        work.schedule(CheckAlerts(subscription_id=subscription.id), work.now)


def watch_lifetime_usage(work: Work, invoice: Invoice) -> None:
    """Schedule checks of the lifetime usage alerts of the subscriptions that the invoice bills."""
    lifetime = eq("alert_type", AlertType.LIFETIME_USAGE_AMOUNT)
    if work.tx.first(Alert, lifetime) is None:
        return
    periods = work.tx.find(BillingPeriod, eq("invoice_id", invoice.id))
    external_ids = {period.external_subscription_id for period in periods}
    _check(work, work.tx.find(Alert, lifetime, within("external_subscription_id", sorted(external_ids))), work.now)


def watch_wallet(work: Work, wallet: Wallet, alerts: Iterable[Alert] | None = None) -> None:
    """Check the wallet's `alerts` (looked up unless passed), because its balance or ongoing balance has changed."""
    if wallet.status == WalletStatus.ACTIVE:
        for alert in alerts_of_wallet(work, wallet.id) if alerts is None else alerts:
            see(work, alert, wallet_value(alert.alert_type, wallet))


def check_before_end(work: Work, subscription: Subscription) -> None:
    """Run the pending check of a subscription that is about to end, because its usage cannot be checked afterwards.

    If the check fails, the subscription ends all the same.
    """
    job = work.tx.jobs.get(CheckAlerts(subscription_id=subscription.id).key)
    if job is None:
        return
    try:
        work.attempt(partial(work.perform, job))
    except Wanted:
        raise
    except Exception as problem:
        _log.error("last_check_failed", subscription=subscription.id, exception=plain_traceback(problem))


def _check(work: Work, alerts: Iterable[Alert], at: datetime) -> None:
    owners = {(alert.external_subscription_id, alert.customer_id) for alert in alerts}
    if not owners:
        return
    external_ids = sorted({external_id for external_id, _ in owners if external_id is not None})
    for subscription in work.tx.find(Subscription, within("external_id", external_ids), _ACTIVE):
        if (subscription.external_id, subscription.customer_id) in owners:
            work.schedule(CheckAlerts(subscription_id=subscription.id), at)


def see(work: Work, alert: Alert, value: Decimal, *, opening: Decimal | None = None) -> tuple[Alert, bool]:
    """Store `value` as the alert's last value, and send one message if thresholds were crossed. Returns the alert, and
    whether they were.
    """
    seen, crossing = evaluated(alert, value, work.now, crossing_id=work.new_id(), opening=opening)
    work.tx.replace(seen)
    if crossing is not None:
        work.emit("alert.triggered", partial(triggered_alert_view, work, crossing), crossing.id)
    return seen, crossing is not None
