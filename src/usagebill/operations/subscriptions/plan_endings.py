"""The deletion of plans by a job, because every subscription on them ends."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.entitlements import PlanEntitlement
from usagebill.core.plans import Plan
from usagebill.core.tasks import EndPlan
from usagebill.operations.plans.records import changed_plans
from usagebill.operations.subscriptions.plan_changes import end_subscriptions
from usagebill.queries.plans import overrides_of
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq


def end_plan(work: Work, task: EndPlan) -> None:
    """Job: delete a plan, its overrides and their entitlements; their subscriptions end in jobs of their own.

    The charges stay, because last invoices bill them.
    """
    plan = work.tx.get(Plan, task.plan_id)
    if plan is None:
        return
    every = (*overrides_of(work, plan, in_use=False), plan)
    for ending in every:
        end_subscriptions(work, ending)
    for ending in every:
        changed_plans(work, [ending.id])
        work.tx.delete(*work.tx.find(PlanEntitlement, eq("plan_id", ending.id)))
        work.tx.replace(replace(ending, pending_deletion=False, deleted_at=work.now, updated_at=work.now))
