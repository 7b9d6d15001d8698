"""Spend limits of customers, subscriptions and plans."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.entitlements import ValueType
from usagebill.core.plans import Plan
from usagebill.core.spend_limits import LimitInterval, SpendLimit, in_force
from usagebill.core.subscriptions import Subscription
from usagebill.queries.entitlements import entitled_features
from usagebill.queries.subscriptions import plan_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, asc, eq, missing, within

_ORDER = (asc("created_at"), asc("id"))
Owner = Customer | Subscription | Plan


def of_owner(owner: Owner) -> tuple[Condition, ...]:
    """Conditions for the limits of a customer, a subscription (by its external id) or a plan; an override has those of
    its parent.
    """
    match owner:
        case Customer():
            return eq("customer_id", owner.id), missing("external_subscription_id")
        case Subscription():
            return eq("customer_id", owner.customer_id), eq("external_subscription_id", owner.external_id)
        case Plan():
            return (eq("plan_id", owner.parent_id or owner.id),)


def limits_of_usage(reader: Reader, subscription: Subscription, customer: Customer) -> list[SpendLimit]:
    """The limits that hold for the subscription's usage: its customer's, and its own or its plan's."""
    plan = plan_of(reader, subscription)
    plan_id = plan.parent_id or plan.id
    found = reader.tx.find(SpendLimit, any_of(eq("customer_id", customer.id), eq("plan_id", plan_id)), order=_ORDER)
    return in_force(
        [limit for limit in found if limit.is_customers],
        [limit for limit in found if limit.external_subscription_id == subscription.external_id],
        [limit for limit in found if limit.plan_id == plan_id],
    )


def quotas_of_usage(
    reader: Reader, subscription: Subscription, metrics: Sequence[BillableMetric] | None
) -> list[SpendLimit]:
    """The quotas of units of the metrics, None for all, that the subscription is entitled to in each of its billing
    periods, under the code of feature and privilege.
    """
    if metrics is not None and not metrics:
        return []
    quotas = [
        (item, privilege)
        for item in entitled_features(reader, subscription)
        for privilege in item.feature.privileges
        if privilege.value_type is ValueType.INTEGER and privilege.code in item.values
    ]
    if metrics is None:
        codes = {privilege.billable_metric_code for _, privilege in quotas if privilege.billable_metric_code}
        metrics = reader.tx.find(BillableMetric, within("code", sorted(codes))) if codes else ()
    metric_ids = {metric.code: metric.id for metric in metrics}
    return [
        SpendLimit(
            id="",
            organization_id=subscription.organization_id,
            code=f"{item.feature.code}.{privilege.code}",
            interval=LimitInterval.BILLING_PERIOD,
            customer_id=subscription.customer_id,
            external_subscription_id=subscription.external_id,
            units=Decimal(item.values[privilege.code]),
            billable_metric_id=metric_ids[privilege.billable_metric_code],
            created_at=subscription.created_at,
            updated_at=subscription.created_at,
        )
        for item, privilege in quotas
        if privilege.billable_metric_code in metric_ids
    ]


def metric_of_limit(reader: Reader, limit: SpendLimit) -> BillableMetric | None:
    """The metric whose usage counts; None if all usage does."""
    if limit.billable_metric_id is None:
        return None
    return reader.tx.get(BillableMetric, limit.billable_metric_id, deleted=True)


def customer_of_limit(reader: Reader, limit: SpendLimit) -> Customer | None:
    """The customer whose usage counts; None for the limit of a plan."""
    return None if limit.customer_id is None else reader.tx.get(Customer, limit.customer_id, deleted=True)
