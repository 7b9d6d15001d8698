"""Subscriptions: by id, their plans, successors and usage thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.periods import Succession
from usagebill.core.plans import Charge, Plan, PlanDefinition, UsageThreshold
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, begins_at, bills_at_once_since
from usagebill.queries.customers import customer_of, zone_of
from usagebill.queries.plans import definition_from, plan_definition, plan_thresholds
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import desc, eq, ne


def plan_of(reader: Reader, subscription: Subscription) -> Plan:
    """The subscription's plan (or override), deleted or not."""
    plan = reader.tx.get(Plan, subscription.plan_id, deleted=True)
    if plan is None:
        raise LookupError(f"no plan {subscription.plan_id}")
    return plan


def definition_for(
    reader: Reader,
    subscription: Subscription,
    start: datetime,
    plan: Plan | None = None,
    *,
    plan_id: str | None = None,
    tz: tzinfo | None = None,
) -> PlanDefinition:
    """The subscription's plan (or that of `plan_id`, which it was on) with the prices that count for its period from
    `start` on, or from its own begin. `tz` is the time zone of the period, by default the customer's.
    """
    begun = begins_at(subscription)
    return definition_from(
        reader,
        plan_id or subscription.plan_id,
        start if begun is None else max(start, begun),
        lambda: tz or zone_of(reader, customer_of(reader, subscription)),
        plan,
    )


def successor_of(reader: Reader, subscription: Subscription) -> Subscription | None:
    """The subscription that replaces, or replaced, this one: the youngest that is not canceled."""
    return reader.tx.first(
        Subscription,
        eq("previous_subscription_id", subscription.id),
        ne("status", SubscriptionStatus.CANCELED),
        order=[desc("created_at"), desc("id")],
    )


def scheduled_after(reader: Reader, subscription: Subscription) -> list[Subscription]:
    """What waits to take over from the subscription, in order: a scheduled downgrade, or the phases to come."""
    coming: list[Subscription] = []
    before = subscription
    while (
        following := reader.tx.first(
            Subscription, eq("previous_subscription_id", before.id), eq("status", SubscriptionStatus.PENDING)
        )
    ) is not None:
        coming.append(following)
        before = following
    return coming


def upgraded_from(reader: Reader, subscription: Subscription) -> Iterator[Subscription]:
    """The subscriptions that upgrades replaced one after the other by this one, the latest first."""
    while subscription.origin == Succession.UPGRADE:
        older = find_subscription(reader, subscription.previous_subscription_id or "")
        if older is None:
            return
        yield older
        subscription = older


def plan_id_at(reader: Reader, subscription: Subscription, at: datetime) -> str:
    """The plan that the subscription was on at `at`: the parent of an override that was made later."""
    plan = plan_definition(reader, subscription.plan_id).plan
    return plan.id if plan.parent_id is None or plan.created_at <= at else plan.parent_id


def applicable_thresholds(reader: Reader, subscription: Subscription) -> tuple[UsageThreshold, ...]:
    """The thresholds for progressive billing: the subscription's own, else its plan's, else the parent plan's."""
    if subscription.progressive_billing_disabled:
        return ()
    if subscription.usage_thresholds:
        return subscription.usage_thresholds
    return plan_thresholds(reader, plan_of(reader, subscription))


def find_subscription(reader: Reader, subscription_id: str) -> Subscription | None:
    """The subscription with this id."""
    return reader.tx.get(Subscription, subscription_id)


def paid_in_advance_until(reader: Reader, subscription: Subscription, metric: BillableMetric) -> datetime | None:
    """The last change of plan, up to the subscription's start, before which a plan charged for the metric in advance
    alone. Events received before it that lay ahead are not the later plans' to bill. None if there was no such plan.
    """
    following = subscription
    while following.origin is not None:
        before = reader.tx.get(Subscription, following.previous_subscription_id or "")
        if before is None:
            break
        until = bills_at_once_since(following)
        if _charged_in_advance_alone(reader, before, metric, until):
            return until
        following = before
    return None


def _charged_in_advance_alone(reader: Reader, subscription: Subscription, metric: BillableMetric, at: datetime) -> bool:
    charges = reader.tx.find(
        Charge, eq("plan_id", subscription.plan_id), eq("billable_metric_id", metric.id), deleted=True
    )
    then = [
        charge
        for charge in charges
        if charge.created_at < at and (charge.deleted_at is None or charge.deleted_at >= at)
    ]
    return bool(then) and all(charge.pay_in_advance for charge in then)
