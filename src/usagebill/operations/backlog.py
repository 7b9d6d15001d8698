"""Catching up: what was due of a customer before now is done before anything of it changes."""

from __future__ import annotations

from functools import partial

from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import any_of, eq, related, within
from usagebill.work import Work

__all__ = ["settle_backlog", "settle_plan_backlog", "settle_subscription_backlog"]


def settle_backlog(work: Work, customer_id: str, *, needed: bool = True) -> None:
    """Do everything that is overdue of the customer, in order, each as of the instant it was due at.

    Called by whatever ends or changes a subscription, a plan or a customer's settings: a period that closed while no
    worker ran is billed as it was before the change, and cannot be lost by it. What fails stops all of it, unless it
    is not `needed`: then it is left to the next try of its job, and the change may be what makes that succeed.
    """
    from usagebill.operations.jobs import perform  # the table of all jobs, of which these operations are a part

    while (job := work.tx.jobs.overdue(customer_id, work.now)) is not None:
        told = len(work.messages)
        try:
            work.tx.savepoint(partial(perform, work.at(job.due_at), job))
        except Exception as problem:
            if needed:
                # What is wrong with the overdue job is not wrong with this request.
                raise RuntimeError(f"{job.kind} of {job.subject_id}, due {job.due_at.isoformat()}") from problem
            del work.messages[told:]
            work.invalidate_all()
            return


def settle_subscription_backlog(work: Work, external_id: str) -> None:
    """The same before a request about the subscription with this external id: which one that is may depend on a start,
    a change of plan or an end that is overdue.
    """
    living = work.tx.find(Subscription, eq("external_id", external_id), within("status", ("pending", "active")))
    for customer_id in {subscription.customer_id: None for subscription in living}:
        settle_backlog(work, customer_id)


def settle_plan_backlog(work: Work, plan_id: str) -> None:
    """The same for every customer with a subscription on the plan or on an override of it, before a price changes."""
    if work.tx.jobs.overdue(None, work.now) is None:
        return
    on_it = any_of(eq("plan_id", plan_id), related(Plan, "plan_id", eq("parent_id", plan_id)))
    living = work.tx.find(Subscription, on_it, within("status", ("pending", "active")))
    for customer_id in {subscription.customer_id: None for subscription in living}:
        settle_backlog(work, customer_id, needed=False)
