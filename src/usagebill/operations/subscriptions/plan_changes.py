"""What a change of a plan means for the subscriptions on it: added units, other amounts, its end."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.jobs import Job
from usagebill.core.periods import Interval
from usagebill.core.plans import Plan, cancels_downgrade
from usagebill.core.subscriptions import UNENDED, Subscription, SubscriptionStatus, is_upgrade
from usagebill.operations.backlog import settle_backlog
from usagebill.operations.invoices.subscription import bill_added_units, finalize
from usagebill.operations.subscriptions.change import cancel_downgrade, upgrade_to
from usagebill.operations.subscriptions.termination import cancel_pending, terminate
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import plan_of
from usagebill.storage.conditions import Condition, asc, eq, has, within
from usagebill.views.subscriptions import EntitledSubscription, entitled_subscription
from usagebill.work import Reader, Work

__all__ = ["amount_changed", "bill_units", "end_subscriptions", "leave_plan", "upgrade_now"]

_IN_ORDER = (asc("created_at"), asc("id"))
_ALIVE = within("status", UNENDED)


def bill_units(work: Work, job: Job) -> None:
    """Job: units were added at once to fixed charges that a subscription pays in advance."""
    subscription = work.tx.get(Subscription, str(job.payload["subscription_id"]))
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE:
        return
    ids = job.payload["fixed_charge_ids"]
    wanted = set(ids) if isinstance(ids, (list, tuple)) else set()
    changed = [charge for charge in plan_definition(work, subscription.plan_id).fixed_charges if charge.id in wanted]
    if changed:
        changed_at = datetime.fromisoformat(str(job.payload["timestamp"]))
        bill_added_units(work, subscription, changed, at=changed_at)


def amount_changed(work: Work, job: Job) -> None:
    """Job: a plan has another amount. What waits to leave it, or to arrive on it, may be another kind of change now.

    Where that has failed before, each change that happens at once is a job of its own.
    """
    plan = work.tx.get(Plan, job.subject_id)
    if plan is None:
        return
    for current in work.tx.find(
        Subscription, eq("plan_id", plan.id), eq("status", SubscriptionStatus.ACTIVE), order=_IN_ORDER
    ):
        following = _pending_after(work, current)
        if following is not None and cancels_downgrade(plan.amount_cents, plan_of(work, following).amount_cents):
            cancel_downgrade(work, current)
            work.emit("subscription.updated", partial(_view, work, current), current.id)
    for following in work.tx.find(
        Subscription, eq("plan_id", plan.id), eq("status", SubscriptionStatus.PENDING), order=_IN_ORDER
    ):
        if following.previous_subscription_id is None:
            continue
        if job.error is None:
            _reconsider(work, following, plan)
            continue
        payload = {"plan_id": plan.id, "subscription_id": following.id}
        work.schedule(
            "upgrade_now", following.customer_id, work.now, key=f"upgrade_now:{following.id}", payload=payload
        )


def upgrade_now(work: Work, job: Job) -> None:
    """Job: a scheduled downgrade may be none any more, since its plan has another amount."""
    following = work.tx.get(Subscription, str(job.payload["subscription_id"]))
    plan = work.tx.get(Plan, str(job.payload["plan_id"]))
    if plan is not None and following is not None and following.status == SubscriptionStatus.PENDING:
        _reconsider(work, following, plan)


def _view(reader: Reader, subscription: Subscription) -> EntitledSubscription:
    return entitled_subscription(reader, subscription)


def _pending_after(reader: Reader, current: Subscription) -> Subscription | None:
    return reader.tx.first(
        Subscription, eq("previous_subscription_id", current.id), eq("status", SubscriptionStatus.PENDING)
    )


def _reconsider(work: Work, following: Subscription, plan: Plan) -> None:
    """A scheduled downgrade to a plan that now costs as much as the current one, or more, happens at once."""
    current = work.tx.get(Subscription, str(following.previous_subscription_id))
    if current is None or current.status != SubscriptionStatus.ACTIVE:
        return
    own = plan_of(work, current)
    if is_upgrade(own.amount_cents, Interval(own.interval), plan.amount_cents, Interval(plan.interval)):
        settle_backlog(work, current.customer_id)
        still = work.tx.get(Subscription, current.id)
        waiting = work.tx.get(Subscription, following.id)
        if still is not None and waiting is not None and waiting.status == SubscriptionStatus.PENDING:
            upgrade_to(work, still, waiting)


def end_subscriptions(work: Work, plan: Plan, *, together: bool) -> None:
    """End every subscription on a plan that is being deleted, and finalize the drafts that bill it.

    All of that at once where it is done `together`, else each customer's in a job of its own: what cannot be ended for
    one ends for all others.
    """
    if together:
        _end_on(work, plan.id)
        return
    alive = work.tx.find(Subscription, eq("plan_id", plan.id), _ALIVE, order=_IN_ORDER)
    drafts = work.tx.find(Invoice, *_drafts_of(plan.id), order=_IN_ORDER)
    customer_ids = (*(one.customer_id for one in alive), *(draft.customer_id for draft in drafts))
    for customer_id in dict.fromkeys(customer_ids):
        key = f"leave_plan:{plan.id}:{customer_id}"
        work.schedule("leave_plan", customer_id, work.now, key=key, payload={"plan_id": plan.id})


def leave_plan(work: Work, job: Job) -> None:
    """Job: end what a customer has on a plan that was deleted."""
    _end_on(work, str(job.payload["plan_id"]), eq("customer_id", job.subject_id))


def _drafts_of(plan_id: str) -> tuple[Condition, ...]:
    return eq("status", InvoiceStatus.DRAFT), has(BillingPeriod, "invoice_id", eq("plan_id", plan_id))


def _end_on(work: Work, plan_id: str, *whose: Condition) -> None:
    on_it = (eq("plan_id", plan_id), _ALIVE, *whose)
    for customer_id in {
        subscription.customer_id: None for subscription in work.tx.find(Subscription, *on_it, order=_IN_ORDER)
    }:
        settle_backlog(work, customer_id)
    for subscription in work.tx.find(Subscription, *on_it, order=_IN_ORDER):
        current = work.tx.get(Subscription, subscription.id)
        if current is None or current.status == SubscriptionStatus.CANCELED:
            continue
        if current.status == SubscriptionStatus.PENDING:
            cancel_pending(work, current)
        elif current.status == SubscriptionStatus.ACTIVE:
            terminate(work, current)
    for invoice in work.tx.find(Invoice, *_drafts_of(plan_id), *whose, order=_IN_ORDER):
        finalize(work, invoice)
