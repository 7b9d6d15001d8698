"""The end of plans whose deletion was asked for: a job, since every subscription on them ends with it."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.jobs import Job
from usagebill.core.plans import Plan
from usagebill.operations.plans.records import changed_plans, overrides_of
from usagebill.work import Work

__all__ = ["end_plan"]


def end_plan(work: Work, job: Job) -> None:
    """Delete a plan and its overrides, overrides first. Its charges stay, for what is still billed by them."""
    plan = work.tx.get(Plan, job.subject_id)
    if plan is None:
        return
    for each in (*overrides_of(work, plan, in_use=False), plan):
        changed_plans(work, [each.id])
        work.tx.replace(replace(each, pending_deletion=False, deleted_at=work.now, updated_at=work.now))
