"""Subscriptions: their plan, who invoices them, their periods, their successor and their thresholds."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.invoices.sharing import Billable
from usagebill.core.periods import Cycle, Succession
from usagebill.core.plans import Plan, UsageThreshold
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, cycle_of
from usagebill.queries.customers import customer_of, entity_of, zone_of
from usagebill.queries.plans import plan_thresholds
from usagebill.storage.conditions import desc, eq, ne
from usagebill.work import Reader

__all__ = ["applicable_thresholds", "billable", "cycle", "find_subscription", "issuer_of", "plan_of", "successor_of"]


def plan_of(reader: Reader, subscription: Subscription) -> Plan:
    """The plan (or override) that a subscription is on, deleted ones included."""
    plan = reader.tx.get(Plan, subscription.plan_id, deleted=True)
    if plan is None:
        raise LookupError(f"no plan {subscription.plan_id}")
    return plan


def issuer_of(reader: Reader, subscription: Subscription, customer: Customer) -> BillingEntity:
    """The billing entity that invoices the subscription: its own, else the customer's."""
    entity = None
    if subscription.billing_entity_id is not None:
        entity = reader.tx.get(BillingEntity, subscription.billing_entity_id, deleted=True)
    return entity or entity_of(reader, customer)


def cycle(reader: Reader, subscription: Subscription, *, tz: ZoneInfo | None = None) -> Cycle:
    """What the periods of a started subscription follow from, in the customer's time zone unless `zone` is given."""
    zone = tz or zone_of(reader, customer_of(reader, subscription))
    succession = Succession(subscription.succession) if subscription.succession else None
    result = cycle_of(subscription, plan_of(reader, subscription), zone, succession=succession)
    return result if subscription.billed_from is None else replace(result, started_at=subscription.billed_from)


def successor_of(reader: Reader, subscription: Subscription) -> Subscription | None:
    """The subscription that replaces, or replaced, this one: the youngest that is not canceled."""
    return reader.tx.first(
        Subscription,
        eq("previous_subscription_id", subscription.id),
        ne("status", SubscriptionStatus.CANCELED),
        order=[desc("created_at"), desc("id")],
    )


def applicable_thresholds(reader: Reader, subscription: Subscription) -> tuple[UsageThreshold, ...]:
    """The thresholds of progressive billing: the subscription's own, else its plan's, else the parent plan's."""
    if subscription.progressive_billing_disabled:
        return ()
    if subscription.usage_thresholds:
        return subscription.usage_thresholds
    return plan_thresholds(reader, plan_of(reader, subscription))


def find_subscription(reader: Reader, subscription_id: str) -> Subscription | None:
    """The subscription with this id."""
    return reader.tx.get(Subscription, subscription_id)


def billable(reader: Reader, subscription: Subscription) -> Billable:
    """The subscription with what decides which others it shares an invoice with."""
    return Billable(
        subscription=subscription,
        currency=plan_of(reader, subscription).amount_currency,
        billing_entity_id=issuer_of(reader, subscription, customer_of(reader, subscription)).id,
    )
