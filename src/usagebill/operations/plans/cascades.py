"""Cascades: changes of a plan passed on to its overrides on request; `core.cascades` decides their effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from usagebill.core.billable_metrics import declared_values
from usagebill.core.cascades import (
    FixedChargeChange,
    added_charge,
    added_fixed_charge,
    changed_charge,
    changed_fixed_charge,
    with_amount,
)
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.operations.plans.records import changed_plans, remove
from usagebill.operations.plans.units import units_changed
from usagebill.queries.plans import metric_of, overrides_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def cascade_amount(work: Work, plan: Plan, old_amount: int, changed: Callable[[Plan, int], None]) -> None:
    """Set the new amount on overrides that still have the old one, and call `changed` with each."""
    if plan.amount_cents == old_amount:
        return
    for child in overrides_of(work, plan, in_use=False):
        after = with_amount(child, before=old_amount, after=plan.amount_cents, now=work.now)
        if after is not child:
            work.tx.replace(after)
            changed_plans(work, [child.id])
            changed(after, old_amount)


def cascade_added_charge(work: Work, charge: Charge) -> None:
    """Add the plan's new charge to each of its overrides, without taxes."""
    parent = work.tx.get(Plan, charge.plan_id)
    if parent is None:
        return
    for child in overrides_of(work, parent):
        if work.tx.first(Charge, eq("plan_id", child.id), eq("parent_id", charge.id)) is None:
            work.tx.insert(added_charge(charge, child, new_id=work.new_id, now=work.now))
            changed_plans(work, [child.id])


def _children(reader: Reader, charge: Charge) -> list[Charge]:
    parent = reader.tx.get(Plan, charge.plan_id)
    reached = set() if parent is None else {child.id for child in overrides_of(reader, parent)}
    return [child for child in reader.tx.find(Charge, eq("parent_id", charge.id)) if child.plan_id in reached]


def cascade_removed_charge(work: Work, charge: Charge) -> None:
    """Delete the overrides' copies of `charge`."""
    for child in _children(work, charge):
        remove(work, child)
        changed_plans(work, [child.plan_id])


def cascade_changed_charge(
    work: Work, before: Charge, after: Charge, *, sent_model: str | None, code_sent: bool = False
) -> None:
    """Pass a change of a charge on to those of its copies that have the sent charge model."""
    for child in _children(work, after):
        changed = changed_charge(
            child,
            before,
            after,
            sent_model=sent_model,
            code_sent=code_sent,
            declared=declared_values(metric_of(work, child)),
            new_id=work.new_id,
            now=work.now,
        )
        if changed is not child:
            work.tx.replace(changed)
            changed_plans(work, [child.plan_id])


def cascade_fixed_charges(work: Work, plan: Plan, changes: Iterable[FixedChargeChange]) -> None:
    """Pass changes of a plan's fixed charges on to its overrides, and record their subscriptions' new units."""
    changes_of_plan = tuple(changes)
    if not changes_of_plan:
        return
    for child in overrides_of(work, plan):
        by_parent = {
            fixed_charge.parent_id: fixed_charge for fixed_charge in work.tx.find(FixedCharge, eq("plan_id", child.id))
        }
        at_once: list[FixedCharge] = []
        next_period: list[FixedCharge] = []
        for change in changes_of_plan:
            changed = _cascaded(work, child, change, by_parent)
            if changed is not None:
                (at_once if change.immediately else next_period).append(changed)
        changed_plans(work, [child.id])
        units_changed(work, child, at_once=at_once, next_period=next_period)


def _cascaded(
    work: Work, child: Plan, change: FixedChargeChange, by_parent: Mapping[str | None, FixedCharge]
) -> FixedCharge | None:
    """Pass one change on to one override. Returns its fixed charge if the units have changed."""
    before, after = change.before, change.after
    if after is None:
        if before is not None and before.id in by_parent:
            remove(work, by_parent[before.id])
        return None
    copy = by_parent.get(after.id)
    if copy is None and before is None:
        added = added_fixed_charge(after, child, new_id=work.new_id)
        work.tx.insert(added)
        return added
    if copy is None or before is None:
        return None
    changed = changed_fixed_charge(copy, before, after, work.now)
    if changed is copy:
        return None
    work.tx.replace(changed)
    return changed if changed.units != copy.units else None
