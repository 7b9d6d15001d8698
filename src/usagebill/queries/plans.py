"""Plans and their definitions: a plan with all its charges, loaded once per unit of work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TypeVar

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import NotFound
from usagebill.core.plans import Charge, FixedCharge, Plan, PlanDefinition, UsageThreshold
from usagebill.core.price_versions import as_copied, scheduled_for, step_to_come, with_prices_of, with_scheduled
from usagebill.core.subscriptions import UNENDED, Subscription
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, has, missing, within


def plan_definition(reader: Reader, plan_id: str, plan: Plan | None = None) -> PlanDefinition:
    """The plan with this id, deleted or not, with its live charges, oldest first.

    It is cached until `forget_definition`; `plan` is the plan itself, if the caller has it. Raises `LookupError` for an
    unknown id.
    """
    return reader.cached(("plan definition", plan_id), lambda: _loaded(reader, plan_id, plan))


def forget_definition(reader: Reader, plan_id: str) -> None:
    """Drop the cached definition of the plan, because a part of it was written."""
    reader.invalidate(("plan definition", plan_id))
    reader.invalidate(("charges of a plan with what is gone", plan_id))


def _loaded(reader: Reader, plan_id: str, plan: Plan | None) -> PlanDefinition:
    plan = plan or reader.tx.get(Plan, plan_id, deleted=True)
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


def definition_from(
    reader: Reader, plan_id: str, start: datetime, zone: Callable[[], tzinfo], plan: Plan | None = None
) -> PlanDefinition:
    """The plan's definition with the prices that count for a period that begins at `start`, of a customer in `zone`."""
    definition = plan_definition(reader, plan_id, plan)
    later = step_to_come(definition.plan, start, zone)
    if later is None:
        return with_scheduled(definition, scheduled_for(definition.plan, start, zone))
    former = plan_definition(reader.as_of(later.before), later.plan_id)
    return with_prices_of(definition, former if later.plan_id == plan_id else as_copied(former, definition))


def charges_then(reader: Reader, plan_id: str, at: datetime) -> tuple[Charge, ...]:
    """The charges that the plan had at `at`, those that are gone too, in their current versions."""
    whole = reader.cached(
        ("charges of a plan with what is gone", plan_id),
        lambda: reader.tx.find(Charge, eq("plan_id", plan_id), order=[asc("created_at"), asc("id")], deleted=True),
    )
    return tuple(
        charge for charge in whole if charge.created_at <= at and (charge.deleted_at is None or charge.deleted_at > at)
    )


def find_plan(reader: Reader, plan_id: str) -> Plan | None:
    """The plan with this id, deleted or not."""
    return reader.tx.get(Plan, plan_id, deleted=True)


def plan_thresholds(reader: Reader, plan: Plan) -> tuple[UsageThreshold, ...]:
    """The usage thresholds of the plan; those of its parent if it is an override without any."""
    if plan.usage_thresholds or plan.parent_id is None:
        return plan.usage_thresholds
    parent = find_plan(reader, plan.parent_id)
    return () if parent is None else parent.usage_thresholds


def priced_metric(reader: Reader, charge: Charge) -> BillableMetric | None:
    """The metric that the charge prices, deleted or not."""
    metric = plan_definition(reader, charge.plan_id).metrics.get(charge.billable_metric_id)
    return metric or reader.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)


def sold_add_on(reader: Reader, fixed_charge: FixedCharge) -> AddOn | None:
    """The add-on that the fixed charge sells, deleted or not."""
    add_on = plan_definition(reader, fixed_charge.plan_id).add_ons.get(fixed_charge.add_on_id)
    return add_on or reader.tx.get(AddOn, fixed_charge.add_on_id, deleted=True)


ChargeKind = TypeVar("ChargeKind", Charge, FixedCharge)


def plan_by_code(reader: Reader, code: str) -> Plan:
    """The plan with this code, never an override. Raises `NotFound`."""
    plan = reader.tx.first(Plan, eq("code", code), missing("parent_id"))
    if plan is None:
        raise NotFound("plan", code)
    return plan


def metric_of(reader: Reader, charge: Charge) -> BillableMetric:
    """The billable metric that a charge prices, deleted or not."""
    metric = reader.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
    if metric is None:
        raise LookupError(f"no billable metric {charge.billable_metric_id}")
    return metric


def is_used(reader: Reader, plan: Plan) -> bool:
    """Whether any subscription, whatever its status, is on the plan itself (not on an override)."""
    return reader.tx.first(Subscription, eq("plan_id", plan.id)) is not None


def live_of(reader: Reader, kind: type[ChargeKind], plan: Plan) -> list[ChargeKind]:
    """The live charges or fixed charges of a plan, oldest first."""
    return reader.tx.find(kind, eq("plan_id", plan.id), order=[asc("created_at"), asc("id")])


def overrides_of(reader: Reader, plan: Plan, *, in_use: bool = True) -> list[Plan]:
    """The overrides of a plan, by default only those with an active or pending subscription."""
    alive = [has(Subscription, "plan_id", within("status", UNENDED))] if in_use else []
    return reader.tx.find(Plan, eq("parent_id", plan.id), *alive)
