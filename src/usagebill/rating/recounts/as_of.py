"""The state of records at an instant, and reasons for which a later count may differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.add_ons import AddOn
from usagebill.core.aggregation import lower_bound
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import share_second
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods import Succession
from usagebill.core.plans import Charge, FixedCharge, FixedChargeUnits, Plan, PlanDefinition
from usagebill.core.recounts import SAME_INSTANT, is_changed_beside
from usagebill.core.subscriptions import Subscription
from usagebill.queries.billing_periods import BillingContext, billing_context
from usagebill.queries.contracts import contract_of
from usagebill.queries.subscriptions import find_subscription
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, at_least, at_most, eq, ne, within
from usagebill.storage.event_queries import EventQuery


def definition_then(reader: Reader, plan_id: str, at: datetime) -> PlanDefinition:
    """The charges that the plan had at `at`, in their current versions."""

    def load() -> PlanDefinition:
        plan = reader.tx.get(Plan, plan_id, deleted=True)
        if plan is None:
            raise LookupError(f"no plan {plan_id}")
        order = [asc("created_at"), asc("id")]
        charges = tuple(reader.tx.find(Charge, eq("plan_id", plan_id), order=order, deleted=True))
        fixed = tuple(reader.tx.find(FixedCharge, eq("plan_id", plan_id), order=order, deleted=True))
        metric_ids, add_on_ids = (
            {charge.billable_metric_id for charge in charges},
            {fixed_charge.add_on_id for fixed_charge in fixed},
        )
        metrics = reader.tx.find(BillableMetric, within("id", metric_ids), deleted=True)
        add_ons = reader.tx.find(AddOn, within("id", add_on_ids), deleted=True)
        return PlanDefinition(
            plan=plan,
            charges=charges,
            fixed_charges=fixed,
            metrics={metric.id: metric for metric in metrics},
            add_ons={add_on.id: add_on for add_on in add_ons},
        )

    whole = reader.cached(("plan definition with what is gone", plan_id), load)

    def was_there(record: Charge | FixedCharge) -> bool:
        return record.created_at <= at and (record.deleted_at is None or record.deleted_at > at)

    return replace(
        whole,
        charges=tuple(charge for charge in whole.charges if was_there(charge)),
        fixed_charges=tuple(charge for charge in whole.fixed_charges if was_there(charge)),
    )


def _plan_then(
    reader: Reader, period: BillingPeriod, subscription: Subscription, invoice: Invoice, at: datetime
) -> str:
    """The plan that was billed; an override created later applies only to recomputed drafts."""
    if subscription.plan_id == period.plan_id or invoice.created_at == at:
        return period.plan_id
    plan = reader.tx.get(Plan, subscription.plan_id, deleted=True)
    return period.plan_id if plan is None or plan.created_at > at else plan.id


def context_as_of(
    reader: Reader, invoice: Invoice, period: BillingPeriod, at: datetime, price_version: int | None
) -> BillingContext:
    """The billing period with the plan that billed it, as it stood in the price version, of which `reader` is; as it is
    now if none was kept.
    """
    if price_version is not None:
        subscription = find_subscription(reader, period.subscription_id)
        then = None if subscription is None else replace(subscription, plan_id=period.plan_id)
        return billing_context(reader, invoice, period, None if then is None else contract_of(reader, then))
    context = billing_context(reader, invoice, period)
    if period.definition is not None:
        return context
    plan_id = _plan_then(reader, period, context.subscription, invoice, at)
    return replace(context, definition=definition_then(reader, plan_id, at))


def question(metric: BillableMetric, period: BillingPeriod) -> EventQuery:
    start = period.charges_from_datetime
    earliest = None if start is None else lower_bound(metric.aggregation_type, recurring=metric.recurring, start=start)
    return EventQuery(
        code=metric.code,
        external_subscription_id=period.external_subscription_id,
        earliest=earliest,
        latest=period.charges_to_datetime,
    )


def has_moved(reader: Reader, period: BillingPeriod) -> bool:
    """Whether the subscription has been billed in more than one time zone."""
    periods = reader.tx.find(BillingPeriod, eq("subscription_id", period.subscription_id))
    return len({period.timezone for period in periods}) > 1


def is_followed_since(reader: Reader, subscription: Subscription, at: datetime) -> bool:
    """Whether another subscription of the same id has begun since `at`, right where this one ends or begins."""
    subscriptions = reader.tx.find(Subscription, eq("external_id", subscription.external_id))
    return any(
        follower.id != subscription.id
        and follower.created_at >= at
        and share_second(subscription.terminated_at, follower.started_at)
        for follower in subscriptions
    )


def units_doubt(reader: Reader, period: BillingPeriod, at: datetime) -> str | None:
    """The doubt about a fixed charge with units decided at the very instant of the count; None if there are none."""
    decided = eq("subscription_id", period.subscription_id), eq("created_at", at)
    return SAME_INSTANT if reader.tx.first(FixedChargeUnits, *decided) is not None else None


def deducts_from_others(subscription: Subscription, charge: Charge) -> bool:
    """Whether fees of the charge may be less what older plans were paid, so that they depend on other invoices."""
    return charge.pay_in_advance and subscription.origin == Succession.UPGRADE


def are_others_changed(reader: Reader, invoice: Invoice, at: datetime) -> bool:
    """Whether other invoices or fees of the customer have changed since `at`."""
    of_customer = eq("customer_id", invoice.customer_id)
    invoices = reader.tx.find(Invoice, of_customer, ne("id", invoice.id), at_most("created_at", at))
    if any(is_changed_beside(other, invoice, at) for other in invoices):
        return True
    return reader.tx.first(Fee, of_customer, at_least("deleted_at", at), deleted=True) is not None
