"""From when changed prices count: at once, for each subscription from its next period on, or from a day on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeVar
from zoneinfo import ZoneInfo

from usagebill.core.days import local_date
from usagebill.core.errors import Invalid
from usagebill.core.periods import day_start
from usagebill.core.plans import Plan, PlanDefinition, PriceStep
from usagebill.core.price_versions import (
    Effective,
    is_empty,
    next_period_errors,
    not_prices,
    scheduled_prices,
    with_scheduled,
)
from usagebill.core.tasks import PricesTakeEffect
from usagebill.operations.plans.records import changed_plans, reconsider_changes, refuse
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.plans import forget_definition, is_used, overrides_of, plan_definition
from usagebill.requests.inputs import Maybe
from usagebill.runtime.work import Reader, Work

R = TypeVar("R")

_BeforeAndAfter = tuple[PlanDefinition, PlanDefinition]


def taking_effect(
    work: Work,
    plan: Plan,
    effective: Maybe[str],
    act: Callable[[Work], R],
    unchanged: Callable[[Work], R],
    *,
    cascade: bool,
) -> R:
    """The result of `act`, which changes the plan, and with `cascade` its overrides; it counts as `effective` says. If
    it waits for a day, nothing has changed yet, and the result is that of `unchanged`.

    A plan that nobody has been on has no open period: `next_period` counts at once. Raises `Invalid` for another value
    than those of `Effective` or a day from today on, and if more than prices is to wait.
    """
    overrides = overrides_of(work, plan, in_use=False) if cascade else []
    if effective and effective not in frozenset(Effective):
        _schedule(work, [plan, *overrides], day_to_come(work, effective), act)
        return unchanged(work)
    changed = [*([plan] if is_used(work, plan) else []), *overrides]
    if effective != Effective.NEXT_PERIOD or not changed:
        return act(work)
    before = {each.id: plan_definition(work, each.id) for each in changed}
    version = work.price_version
    for each in changed:
        step = PriceStep(starts=work.now, before=version, plan_id=each.id)
        work.tx.replace(replace(each, price_steps=(*each.price_steps, step)))
        forget_definition(work, each.id)
    result = act(work)
    for each in changed:
        refuse(next_period_errors(before[each.id], plan_definition(work, each.id)))
    return result


def day_to_come(reader: Reader, effective: str) -> date:
    """The day of `effective`. Raises `Invalid` for anything but a date, and for one that has passed."""
    try:
        day = date.fromisoformat(effective)
    except ValueError:
        raise Invalid(effective="value_is_invalid") from None
    if day < local_date(reader.now, _zone(reader)):
        raise Invalid(effective="cannot_be_in_past")
    return day


def _zone(reader: Reader) -> ZoneInfo:
    entity = default_entity(reader)
    return ZoneInfo("UTC" if entity is None else entity.timezone)


def _schedule(work: Work, plans: Sequence[Plan], day: date, act: Callable[[Work], object]) -> None:
    """Schedule for the day what `act` changes of the plans' prices, which are then those scheduled for earlier days."""
    after = work.dry_run(lambda then: _changed_by(then, plans, day, act))
    version = work.price_version + 1
    for plan, (old, new) in zip(plans, after, strict=True):
        prices = scheduled_prices(old, new, version=version, day=day, now=work.now)
        refuse(not_prices(old, new, prices))
        if not is_empty(prices):
            scheduled = sorted((*plan.scheduled_prices, prices), key=lambda one: (one.effective_on, one.version))
            rescheduled(work, replace(plan, scheduled_prices=tuple(scheduled)), day)


def _changed_by(work: Work, plans: Sequence[Plan], day: date, act: Callable[[Work], object]) -> list[_BeforeAndAfter]:
    for plan in plans:
        _take_effect(work, plan, day)
    before = [plan_definition(work, plan.id) for plan in plans]
    act(work)
    return [(old, plan_definition(work, old.plan.id)) for old in before]


def rescheduled(work: Work, plan: Plan, day: date) -> None:
    """Store the plan, whose prices take effect on the day."""
    work.tx.replace(plan)
    forget_definition(work, plan.id)
    take_effect_on(work, plan, day)


def take_effect_on(work: Work, plan: Plan, day: date) -> None:
    """Schedule that the plan has the prices of the day."""
    task = PricesTakeEffect(plan_id=plan.id, day=day.isoformat())
    work.schedule(task, max(work.now, day_start(day, _zone(work))))


def take_effect(work: Work, task: PricesTakeEffect) -> None:
    """Job: a day has come for which prices of a plan wait. They are the plan's newest from now on; bills have them by
    the begin of their period, whether or not this has run.
    """
    plan = work.tx.get(Plan, task.plan_id)
    if plan is not None:
        _take_effect(work, plan, date.fromisoformat(task.day))


def _take_effect(work: Work, plan: Plan, day: date) -> None:
    """Give the plan the prices that are scheduled for the day or before."""
    old_amount = plan.amount_cents
    while plan.scheduled_prices and plan.scheduled_prices[0].effective_on <= day:
        prices, *later = plan.scheduled_prices
        step = PriceStep(
            starts=prices.scheduled_at, before=work.price_version, plan_id=plan.id, effective_on=prices.effective_on
        )
        former = plan_definition(work, plan.id)
        changed = with_scheduled(former, [prices])
        steps = (*plan.price_steps, step)
        plan = replace(changed.plan, price_steps=steps, scheduled_prices=tuple(later), updated_at=work.now)
        work.tx.replace(plan)
        for before, charge in zip(former.charges, changed.charges, strict=True):
            if charge != before:
                work.tx.replace(replace(charge, updated_at=work.now))
        for before_fixed, fixed_charge in zip(former.fixed_charges, changed.fixed_charges, strict=True):
            if fixed_charge != before_fixed:
                work.tx.replace(replace(fixed_charge, updated_at=work.now))
        changed_plans(work, [plan.id])
    if plan.amount_cents != old_amount:
        reconsider_changes(work, plan, old_amount)
