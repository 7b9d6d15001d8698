"""The end of plans whose deletion was asked for: a job, since every subscription on them ends with it."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.jobs import Job
from usagebill.core.plans import Plan
from usagebill.operations.plans.records import changed_plans
from usagebill.operations.subscriptions.plan_changes import end_subscriptions
from usagebill.queries.plans import overrides_of
from usagebill.work import Work

__all__ = ["end_plan"]


def end_plan(work: Work, job: Job) -> None:
    """End all that is on a plan and its overrides, then delete them. Their charges stay, for what bills them.

    Where that has failed before, what each customer has on it ends by itself.
    """
    plan = work.tx.get(Plan, job.subject_id)
    if plan is None:
        return
    every = (*overrides_of(work, plan, in_use=False), plan)
    for each in every:
        end_subscriptions(work, each, together=job.error is None)
    for each in every:
        changed_plans(work, [each.id])
        work.tx.replace(replace(each, pending_deletion=False, deleted_at=work.now, updated_at=work.now))
