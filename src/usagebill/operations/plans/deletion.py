"""Deletion of plans: marked at once, carried out by a job that ends the subscriptions."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.plans import Plan
from usagebill.core.tasks import EndPlan
from usagebill.operations.backlog import after_backlog, of_plan
from usagebill.operations.plans.records import changed_plans
from usagebill.queries.plans import overrides_of, plan_by_code
from usagebill.runtime.work import Work
from usagebill.views.plans import deleted_plan


@after_backlog(of_plan)
def delete(work: Work, code: str) -> Plan:
    """Delete the plan and its overrides, and end every subscription on them, in a job. Raises `NotFound`."""
    plan = replace(plan_by_code(work, code), pending_deletion=True, updated_at=work.now)
    for doomed in (*overrides_of(work, plan, in_use=False), plan):
        work.tx.replace(replace(doomed, pending_deletion=True, updated_at=work.now))
        changed_plans(work, [doomed.id])
    work.schedule(EndPlan(plan_id=plan.id), work.now)
    work.emit("plan.deleted", lambda: deleted_plan(work, plan), plan.id)
    return plan
