"""Shared by plan operations: checking and deleting records, and updating dependents of a changed plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from usagebill.core.errors import Invalid
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.tasks import PlanAmountChanged
from usagebill.operations import draft_invoices
from usagebill.operations.alert_watch import watch_plans
from usagebill.queries.plans import ChargeKind, forget_definition
from usagebill.storage.conditions import eq, missing, ne
from usagebill.work import Reader, Work


def code_errors(reader: Reader, charge: Charge | FixedCharge) -> dict[str, tuple[str, ...]]:
    """Errors in the code of a charge, as field -> codes. Charges of overrides share their parents' codes."""
    if not charge.code:
        return {"code": ("value_is_mandatory",)}
    if charge.parent_id is not None:
        return {}
    same_code = eq("plan_id", charge.plan_id), eq("code", charge.code), missing("parent_id"), ne("id", charge.id)
    return {} if reader.tx.first(type(charge), *same_code) is None else {"code": ("value_already_exist",)}


def refuse(errors: Mapping[str, Iterable[str]]) -> None:
    """Raises `Invalid` if there are errors."""
    if errors:
        raise Invalid({field: list(codes) for field, codes in errors.items()})


def changed_plans(work: Work, plan_ids: Iterable[str]) -> None:
    """Refresh everything derived from these plans: definitions, draft invoices, alerts."""
    ids = tuple(plan_ids)
    for id in ids:
        forget_definition(work, id)
    draft_invoices.flag(work, draft_invoices.drafts_of_plans(ids))
    watch_plans(work, ids)


def remove(work: Work, record: ChargeKind) -> ChargeKind:
    """Delete a charge: nothing more is billed for it, not even usage of the current period."""
    deleted = replace(record, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    return deleted


def reconsider_changes(work: Work, plan: Plan, old_amount: int) -> None:
    """Schedule a review of scheduled changes from and to the plan, if its amount is no longer `old_amount`."""
    work.schedule(PlanAmountChanged(plan_id=plan.id, old_amount_cents=old_amount), work.now)
