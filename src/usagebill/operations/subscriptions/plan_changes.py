"""Effects of a changed plan on its subscriptions: added units, a new amount, its deletion."""

from __future__ import annotations

from functools import partial

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods import Interval
from usagebill.core.plans import Plan, cancels_downgrade
from usagebill.core.subscriptions import HOLDING_ID, UNENDED, Subscription, SubscriptionStatus, is_upgrade
from usagebill.core.tasks import BillFixedChargeUnits, LeavePlan, PlanAmountChanged, UpgradeNow
from usagebill.operations.backlog import catch_up_before
from usagebill.operations.invoices.subscription import bill_added_units, finalize
from usagebill.operations.subscriptions.activation import cancel_waiting
from usagebill.operations.subscriptions.change import cancel_downgrade, upgrade_to
from usagebill.operations.subscriptions.termination import cancel_pending, terminate
from usagebill.queries.contracts import contract_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.subscriptions import plan_of
from usagebill.queries.takeovers import takeover
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, has, missing, present, within
from usagebill.views.subscriptions import EntitledSubscription, entitled_subscription

_IN_ORDER = (asc("created_at"), asc("id"))
_ALIVE = within("status", UNENDED)


def bill_units(work: Work, task: BillFixedChargeUnits) -> None:
    """Job: bill units that were added at once to fixed charges paid in advance."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE:
        return
    fixed_charges = plan_definition(work, subscription.plan_id).fixed_charges
    changed = [charge for charge in fixed_charges if charge.id in task.fixed_charge_ids]
    if changed:
        bill_added_units(work, contract_of(work, subscription), changed, at=task.timestamp)


def amount_changed(work: Work, task: PlanAmountChanged) -> None:
    """Job: review scheduled changes from and to a plan whose amount has changed: they may be upgrades now."""
    plan = work.tx.get(Plan, task.plan_id)
    if plan is not None:
        _cancel_downgrades_from(work, plan)
        for following in _downgrades_to(work, plan):
            _reconsider(work, following, plan)


def amount_changed_apart(work: Work, task: PlanAmountChanged) -> None:
    """Job: `amount_changed` after a failure. Each change that happens at once gets its own job."""
    plan = work.tx.get(Plan, task.plan_id)
    if plan is not None:
        _cancel_downgrades_from(work, plan)
        for following in _downgrades_to(work, plan):
            upgrade = UpgradeNow(customer_id=following.customer_id, subscription_id=following.id, plan_id=plan.id)
            work.schedule(upgrade, work.now)


def _cancel_downgrades_from(work: Work, plan: Plan) -> None:
    """Cancel scheduled changes from the plan that are no longer downgrades."""
    for current in work.tx.find(
        Subscription, eq("plan_id", plan.id), eq("status", SubscriptionStatus.ACTIVE), order=_IN_ORDER
    ):
        following = _pending_after(work, current)
        if following is None or following.phase_from is not None:
            continue
        if cancels_downgrade(plan.amount_cents, plan_of(work, following).amount_cents):
            cancel_downgrade(work, current)
            work.emit("subscription.updated", partial(_view, work, current), current.id)


def _downgrades_to(reader: Reader, plan: Plan) -> list[Subscription]:
    return reader.tx.find(
        Subscription,
        eq("plan_id", plan.id),
        eq("status", SubscriptionStatus.PENDING),
        present("previous_subscription_id"),
        missing("phase_from"),
        order=_IN_ORDER,
    )


def upgrade_now(work: Work, task: UpgradeNow) -> None:
    """Job: apply a scheduled downgrade at once if it no longer is one, because its plan's amount has changed."""
    following = work.tx.get(Subscription, task.subscription_id)
    plan = work.tx.get(Plan, task.plan_id)
    if plan is not None and following is not None and following.status == SubscriptionStatus.PENDING:
        _reconsider(work, following, plan)


def _view(reader: Reader, subscription: Subscription) -> EntitledSubscription:
    return entitled_subscription(reader, subscription)


def _pending_after(reader: Reader, current: Subscription) -> Subscription | None:
    return reader.tx.first(
        Subscription, eq("previous_subscription_id", current.id), eq("status", SubscriptionStatus.PENDING)
    )


def _reconsider(work: Work, following: Subscription, plan: Plan) -> None:
    """Apply a scheduled downgrade at once if its plan now costs as much as the current one, or more."""
    current = work.tx.get(Subscription, str(following.previous_subscription_id))
    if current is None or current.status != SubscriptionStatus.ACTIVE:
        return
    current_plan = plan_of(work, current)
    if is_upgrade(
        current_plan.amount_cents, Interval(current_plan.interval), plan.amount_cents, Interval(plan.interval)
    ):
        catch_up_before(work, (current.customer_id,), needed=True)
        still = work.tx.get(Subscription, current.id)
        waiting = work.tx.get(Subscription, following.id)
        if still is None or waiting is None or waiting.status != SubscriptionStatus.PENDING:
            return
        contract = contract_of(work, still)
        # A downgrade that has taken effect is applied by its run.
        if takeover(work, contract) is None:
            upgrade_to(work, contract, waiting)


def end_subscriptions(work: Work, plan: Plan) -> None:
    """Schedule the end of all subscriptions on a plan that is being deleted, and the finalization of its drafts.

    Each customer gets its own job, so that a failure for one does not hold up others.
    """
    alive = work.tx.find(Subscription, eq("plan_id", plan.id), within("status", HOLDING_ID), order=_IN_ORDER)
    drafts = work.tx.find(Invoice, *_drafts_of(plan.id), order=_IN_ORDER)
    customer_ids = (*(subscription.customer_id for subscription in alive), *(draft.customer_id for draft in drafts))
    for customer_id in dict.fromkeys(customer_ids):
        work.schedule(LeavePlan(customer_id=customer_id, plan_id=plan.id), work.now)


def leave_plan(work: Work, task: LeavePlan) -> None:
    """Job: end a customer's subscriptions on a deleted plan and finalize its drafts, one per transaction.

    The job reschedules itself until none is left, so that a customer with many holds up nobody.
    """
    catch_up_before(work, (task.customer_id,), needed=True)
    of_customer = eq("customer_id", task.customer_id)
    on_it = (eq("plan_id", task.plan_id), _ALIVE, of_customer)
    cancel_waiting(work, eq("plan_id", task.plan_id), of_customer)
    subscription = work.tx.first(Subscription, *on_it, order=_IN_ORDER)
    if subscription is not None:
        _end(work, subscription)
        work.schedule(task, work.now)
        return
    draft = work.tx.first(Invoice, *_drafts_of(task.plan_id), of_customer, order=_IN_ORDER)
    if draft is not None:
        finalize(work, draft)
        work.schedule(task, work.now)


def _end(work: Work, subscription: Subscription) -> None:
    cancel_waiting(work, eq("previous_subscription_id", subscription.id))
    current = work.tx.get(Subscription, subscription.id)
    if current is None:
        return
    if current.status == SubscriptionStatus.PENDING:
        cancel_pending(work, current)
    elif current.status == SubscriptionStatus.ACTIVE:
        terminate(work, current)


def _drafts_of(plan_id: str) -> tuple[Condition, ...]:
    return eq("status", InvoiceStatus.DRAFT), has(BillingPeriod, "invoice_id", eq("plan_id", plan_id))
