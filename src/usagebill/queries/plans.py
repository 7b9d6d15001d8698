"""Definitions: what a plan charges for, loaded in a few queries and once a unit of work."""

from __future__ import annotations

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.plans import Charge, FixedCharge, Plan, PlanDefinition
from usagebill.storage.conditions import asc, eq, within
from usagebill.work import Reader

__all__ = ["definition", "forget_definition"]


def definition(reader: Reader, plan_id: str) -> PlanDefinition:
    """The plan with this id, deleted or not, with its live charges in the order in which they were made.

    LookupError where no plan has the id. What is written to the plan afterwards shows after `forget_definition`.
    """
    return reader.cached(("plan definition", plan_id), lambda: _loaded(reader, plan_id))


def forget_definition(reader: Reader, plan_id: str) -> None:
    """Load the plan's definition anew the next time it is asked for: something of it was written."""
    reader.invalidate(("plan definition", plan_id))


def _loaded(reader: Reader, plan_id: str) -> PlanDefinition:
    plan = reader.tx.get(Plan, plan_id, deleted=True)
    if plan is None:
        raise LookupError(f"no plan {plan_id}")
    order = [asc("created_at"), asc("id")]
    charges = tuple(reader.tx.find(Charge, eq("plan_id", plan_id), order=order))
    fixed_charges = tuple(reader.tx.find(FixedCharge, eq("plan_id", plan_id), order=order))
    metric_ids = {charge.billable_metric_id for charge in charges}
    add_on_ids = {fixed_charge.add_on_id for fixed_charge in fixed_charges}
    metrics = reader.tx.find(BillableMetric, within("id", metric_ids), deleted=True) if metric_ids else []
    add_ons = reader.tx.find(AddOn, within("id", add_on_ids), deleted=True) if add_on_ids else []
    return PlanDefinition(
        plan=plan,
        charges=charges,
        fixed_charges=fixed_charges,
        metrics={metric.id: metric for metric in metrics},
        add_ons={add_on.id: add_on for add_on in add_ons},
    )
