"""What a change of a plan means for the subscriptions on it: added units, other amounts, its end."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.core.periods import Interval
from usagebill.core.plans import Plan, cancels_downgrade
from usagebill.core.subscriptions import Status, Subscription, is_upgrade
from usagebill.operations.invoices.subscription import bill_added_units, finalize
from usagebill.operations.overdue import catch_up
from usagebill.operations.plans import definition
from usagebill.operations.subscriptions.change import cancel_downgrade, upgrade_to
from usagebill.operations.subscriptions.termination import cancel_pending, terminate
from usagebill.storage.conditions import asc, eq, has, within
from usagebill.views.subscriptions import EntitledSubscription, entitled_subscription, plan_of
from usagebill.work import Work

__all__ = ["amount_changed", "bill_units", "end_subscriptions"]

_IN_ORDER = (asc("created_at"), asc("id"))


def bill_units(work: Work, job: Job) -> None:
    """Job: units were added at once to fixed charges that a subscription pays in advance."""
    subscription = work.tx.get(Subscription, str(job.payload["subscription_id"]))
    if subscription is None or subscription.status != Status.ACTIVE:
        return
    ids = job.payload["fixed_charge_ids"]
    wanted = set(ids) if isinstance(ids, (list, tuple)) else set()
    changed = [charge for charge in definition(work, subscription.plan_id).fixed_charges if charge.id in wanted]
    if changed:
        changed_at = datetime.fromisoformat(str(job.payload["timestamp"]))
        bill_added_units(work, subscription, changed, at=changed_at)


def amount_changed(work: Work, job: Job) -> None:
    """Job: a plan has another amount. What waits to leave it, or to arrive on it, may be another kind of change now."""
    plan = work.tx.get(Plan, job.subject_id)
    if plan is None:
        return
    for current in work.tx.find(Subscription, eq("plan_id", plan.id), eq("status", "active"), order=_IN_ORDER):
        following = _pending_after(work, current)
        if following is not None and cancels_downgrade(plan.amount_cents, plan_of(work, following).amount_cents):
            cancel_downgrade(work, current)
            work.emit("subscription.updated", partial(_view, work, current), current.id)
    for following in work.tx.find(Subscription, eq("plan_id", plan.id), eq("status", "pending"), order=_IN_ORDER):
        if following.previous_subscription_id is not None:
            _reconsider(work, following, plan)


def _view(work: Work, subscription: Subscription) -> EntitledSubscription:
    return entitled_subscription(work, subscription)


def _pending_after(work: Work, current: Subscription) -> Subscription | None:
    return work.tx.first(Subscription, eq("previous_subscription_id", current.id), eq("status", "pending"))


def _reconsider(work: Work, following: Subscription, plan: Plan) -> None:
    """A scheduled downgrade to a plan that now costs as much as the current one, or more, happens at once."""
    current = work.tx.get(Subscription, str(following.previous_subscription_id))
    if current is None or current.status != Status.ACTIVE:
        return
    own = plan_of(work, current)
    if is_upgrade(own.amount_cents, Interval(own.interval), plan.amount_cents, Interval(plan.interval)):
        catch_up(work, current.customer_id)
        still = work.tx.get(Subscription, current.id)
        waiting = work.tx.get(Subscription, following.id)
        if still is not None and waiting is not None and waiting.status == Status.PENDING:
            upgrade_to(work, still, waiting)


def end_subscriptions(work: Work, plan: Plan) -> None:
    """End every subscription on a plan that is being deleted, and finalize the drafts that bill it."""
    alive = within("status", (Status.PENDING.value, Status.ACTIVE.value))
    on_it = (eq("plan_id", plan.id), alive)
    for customer_id in {found.customer_id: None for found in work.tx.find(Subscription, *on_it, order=_IN_ORDER)}:
        catch_up(work, customer_id)
    for subscription in work.tx.find(Subscription, *on_it, order=_IN_ORDER):
        current = work.tx.get(Subscription, subscription.id)
        if current is None or current.status == Status.CANCELED:
            continue
        if current.status == Status.PENDING:
            cancel_pending(work, current)
        elif current.status == Status.ACTIVE:
            terminate(work, current)
    drafts = has(BillingPeriod, "invoice_id", eq("plan_id", plan.id))
    for invoice in work.tx.find(Invoice, eq("status", "draft"), drafts, order=_IN_ORDER):
        finalize(work, invoice)
