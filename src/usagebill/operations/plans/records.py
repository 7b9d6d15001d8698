"""Shared by plan operations: checking and deleting records, and updating dependents of a changed plan."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from usagebill.core.errors import Invalid
from usagebill.core.plans import Charge, ChargeCodes, Plan
from usagebill.core.tasks import PlanAmountChanged
from usagebill.operations import draft_invoices
from usagebill.operations.alert_watch import watch_plans
from usagebill.queries.plans import ChargeKind, forget_definition
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing


def codes_of(reader: Reader, kind: type[ChargeKind], plan_id: str) -> ChargeCodes:
    """The codes of a plan's usage charges or of its fixed charges."""
    return ChargeCodes(charge.code for charge in reader.tx.find(kind, eq("plan_id", plan_id), missing("parent_id")))


def code_errors(code: str, others: Container[str]) -> dict[str, tuple[str, ...]]:
    """Errors in the code of a charge, beside those of the plan's other charges of its kind, as field -> codes."""
    if not code:
        return {"code": ("value_is_mandatory",)}
    return {"code": ("value_already_exist",)} if code in others else {}


def changed_code_errors(reader: Reader, before: ChargeKind, after: ChargeKind) -> dict[str, tuple[str, ...]]:
    """Errors in the code of a charge that may have another one now. Charges of overrides share their parents' codes."""
    is_other = after.code != before.code and after.parent_id is None
    return code_errors(after.code, codes_of(reader, type(after), after.plan_id) if is_other else ())


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
    work.divides_time |= isinstance(record, Charge) and record.pay_in_advance
    work.tx.replace(deleted)
    return deleted


def reconsider_changes(work: Work, plan: Plan, old_amount: int) -> None:
    """Schedule a review of scheduled changes from and to the plan, if its amount is no longer `old_amount`."""
    work.schedule(PlanAmountChanged(plan_id=plan.id, old_amount_cents=old_amount), work.now)
