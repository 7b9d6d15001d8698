"""Alerts of subscriptions and of wallets."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.alerts import Alert
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.wallets import Wallet
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, asc, desc, eq, present, within

_ORDER = (asc("created_at"), asc("id"))


def of_subscription(subscription: Subscription) -> tuple[Condition, ...]:
    """Conditions for the subscription's alerts: those of its customer and external id, whichever plan that id is on."""
    return eq("external_subscription_id", subscription.external_id), eq("customer_id", subscription.customer_id)


def of_wallet(wallet_id: str) -> tuple[Condition, ...]:
    """Conditions for the wallet's alerts."""
    return (eq("wallet_id", wallet_id),)


def alerts_of_subscription(reader: Reader, subscription: Subscription) -> list[Alert]:
    """The alerts of the subscription, oldest first."""
    return reader.tx.find(Alert, *of_subscription(subscription), order=_ORDER)


def alerts_of_wallet(reader: Reader, wallet_id: str) -> list[Alert]:
    """The alerts of the wallet, oldest first. Cheap if no wallet has any."""
    return alerts_of_wallets(reader, [wallet_id]).get(wallet_id, [])


def alerts_of_wallets(reader: Reader, wallet_ids: Iterable[str]) -> dict[str, list[Alert]]:
    """The alerts of the wallets that have any, by wallet id, oldest first. Cheap if no wallet has any."""
    alerts: dict[str, list[Alert]] = {}
    if reader.tx.first(Alert) is not None:
        for alert in reader.tx.find(Alert, within("wallet_id", list(wallet_ids)), order=_ORDER):
            alerts.setdefault(alert.wallet_id or "", []).append(alert)
    return alerts


def alerts_of_external_ids(reader: Reader, external_ids: Iterable[str]) -> list[Alert]:
    """The alerts of subscriptions with one of these external ids, oldest first. Cheap if there are none at all."""
    if reader.tx.first(Alert, present("external_subscription_id")) is None:
        return []
    return reader.tx.find(Alert, within("external_subscription_id", sorted(set(external_ids))), order=_ORDER)


def metric_of_alert(reader: Reader, alert: Alert) -> BillableMetric | None:
    """The metric whose usage the alert watches; None if it does not watch a single metric."""
    return None if alert.billable_metric_id is None else reader.tx.get(BillableMetric, alert.billable_metric_id)


def customer_of_alert(reader: Reader, alert: Alert) -> Customer:
    """The customer whose subscription or wallet is watched."""
    customer = reader.tx.get(Customer, alert.customer_id, deleted=True)
    if customer is None:
        raise LookupError(f"no customer {alert.customer_id}")
    return customer


def subscription_of_alert(reader: Reader, alert: Alert) -> Subscription | None:
    """The active subscription that the alert watches; None if none is active, or if it watches a wallet."""
    if alert.external_subscription_id is None:
        return None
    return reader.tx.first(
        Subscription,
        eq("external_id", alert.external_subscription_id),
        eq("customer_id", alert.customer_id),
        eq("status", SubscriptionStatus.ACTIVE),
        order=[desc("started_at")],
    )


def wallet_of_alert(reader: Reader, alert: Alert) -> Wallet | None:
    """The wallet that the alert watches; None if it watches a subscription."""
    return None if alert.wallet_id is None else reader.tx.get(Wallet, alert.wallet_id)
