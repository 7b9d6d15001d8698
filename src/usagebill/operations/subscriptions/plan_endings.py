"""The end of plans whose deletion was asked for: a job, since every subscription on them ends with it."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.entitlements import PlanEntitlement
from usagebill.core.plans import Plan
from usagebill.core.tasks import EndPlan
from usagebill.operations.plans.records import changed_plans
from usagebill.operations.subscriptions.plan_changes import end_subscriptions
from usagebill.queries.plans import overrides_of
from usagebill.storage.conditions import eq
from usagebill.work import Work

__all__ = ["end_plan", "end_plan_apart"]


def end_plan(work: Work, task: EndPlan) -> None:
    """Job: end all that is on a plan and its overrides, then delete them and what they entitle to.

    Their charges stay, for what bills them.
    """
    _end(work, task.plan_id, together=True)


def end_plan_apart(work: Work, task: EndPlan) -> None:
    """Job: the same where it has failed. What each customer has on the plan ends in a job of its own."""
    _end(work, task.plan_id, together=False)


def _end(work: Work, plan_id: str, *, together: bool) -> None:
    plan = work.tx.get(Plan, plan_id)
    if plan is None:
        return
    every = (*overrides_of(work, plan, in_use=False), plan)
    for ending in every:
        end_subscriptions(work, ending, together=together)
    for ending in every:
        changed_plans(work, [ending.id])
        work.tx.delete(*work.tx.find(PlanEntitlement, eq("plan_id", ending.id)))
        work.tx.replace(replace(ending, pending_deletion=False, deleted_at=work.now, updated_at=work.now))
