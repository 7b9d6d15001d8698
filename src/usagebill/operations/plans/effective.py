"""From when changed prices count: at once, for each subscription from its next period on, or from a day on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeVar
from zoneinfo import ZoneInfo

from usagebill.core.days import local_date
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.periods import day_start
from usagebill.core.plans import Plan, PlanDefinition, PriceStep, ScheduledPrices
from usagebill.core.price_versions import (
    Effective,
    has_begun,
    held_too,
    is_empty,
    next_period_errors,
    not_prices,
    scheduled_prices,
    with_scheduled,
)
from usagebill.core.tasks import PricesTakeEffect
from usagebill.operations.backlog import after_backlog, of_plan
from usagebill.operations.plans.inputs import ScheduledPricesUpdate
from usagebill.operations.plans.records import changed_plans, reconsider_changes, refuse
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.plans import forget_definition, is_used, overrides_of, plan_by_code, plan_definition
from usagebill.requests.inputs import Maybe, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.views.plans import plan_summary

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
    if changed[0].id == plan.id:
        _emit(work, "plan.version_scheduled", plan)
    return result


def _emit(work: Work, message: str, plan: Plan) -> None:
    """Emit a message about a plan as it is now. Overrides have none: they are told of with their subscriptions."""
    if plan.parent_id is None:
        work.emit(message, lambda: plan_summary(work, plan_definition(work, plan.id).plan), plan.id)


def day_to_come(reader: Reader, effective: str) -> date:
    """The day of `effective`. Raises `Invalid` for anything but a date, and for one that has passed."""
    return _day_to_come(reader, effective, "effective", "value_is_invalid")


def _day_to_come(reader: Reader, text: str, field: str, not_a_date: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Invalid({field: [not_a_date]}) from None
    if day < local_date(reader.now, _zone(reader)):
        raise Invalid({field: ["cannot_be_in_past"]})
    return day


def _zone(reader: Reader) -> ZoneInfo:
    entity = default_entity(reader)
    return ZoneInfo("UTC" if entity is None else entity.timezone)


def _schedule(work: Work, plans: Sequence[Plan], day: date, act: Callable[[Work], object]) -> None:
    """Schedule for the day what `act` changes of the plans' prices, which are then those scheduled for earlier days."""
    after = work.dry_run(lambda then: _changed_by(then, plans, day, act))
    is_first = not any(prices.effective_on <= day for plan in plans for prices in plan.scheduled_prices)
    alone = after if is_first else work.dry_run(lambda then: _changed_by(then, plans, None, act))
    version = work.price_version + 1
    for plan, (old, new), (before, without) in zip(plans, after, alone, strict=True):
        prices = scheduled_prices(old, new, version=version, day=day, now=work.now)
        prices = held_too(prices, scheduled_prices(before, without, version=version, day=day, now=work.now), new)
        refuse(not_prices(old, new, prices))
        if not is_empty(prices):
            _store(work, plan, (*plan.scheduled_prices, prices))
            take_effect_on(work, plan, day)
            _emit(work, "plan.version_scheduled", plan)


def _changed_by(
    work: Work, plans: Sequence[Plan], day: date | None, act: Callable[[Work], object]
) -> list[_BeforeAndAfter]:
    """The plans before and after `act`, with the prices that wait for `day` or before, if one is given."""
    for plan in plans:
        if day is not None:
            give_prices_of(work, plan, day)
    before = [plan_definition(work, plan.id) for plan in plans]
    act(work)
    return [(old, plan_definition(work, old.plan.id)) for old in before]


@after_backlog(of_plan)
def update_scheduled_prices(work: Work, code: str, version: int | str, request: ScheduledPricesUpdate) -> Plan:
    """Have the prices that price version `version` scheduled wait for another day, for overrides of the plan too.

    Raises `NotFound`, and `Invalid` for a day that has passed and for prices whose day has begun anywhere.
    """
    plans = _with_scheduled(work, plan_by_code(work, code), version)
    day = _day_to_come(work, value_or(request.effective_on, ""), "effective_on", "invalid_date")
    for each in plans:
        kept, moved = _parted(each, version)
        # As if they had been scheduled now: periods that have begun keep the prices that they began with.
        later = [replace(prices, effective_on=day, scheduled_at=work.now) for prices in moved]
        _store(work, each, (*kept, *later))
        take_effect_on(work, each, day)
        _emit(work, "plan.version_scheduled", each)
    return plan_by_code(work, code)


@after_backlog(of_plan)
def delete_scheduled_prices(work: Work, code: str, version: int | str) -> Plan:
    """Take back the prices that price version `version` scheduled, for overrides of the plan too, as if it never had.

    Raises `NotFound`, and `Invalid` for prices whose day has begun anywhere.
    """
    for each in _with_scheduled(work, plan_by_code(work, code), version):
        kept, _ = _parted(each, version)
        _store(work, each, kept)
        _emit(work, "plan.updated", each)
    return plan_by_code(work, code)


def _with_scheduled(work: Work, plan: Plan, version: int | str) -> list[Plan]:
    """The plan and those of its overrides for which the version scheduled prices that can still change."""
    plans = [each for each in (plan, *overrides_of(work, plan, in_use=False)) if _parted(each, version)[1]]
    if not plans:
        raise NotFound("scheduled_prices", str(version))
    if any(has_begun(prices.effective_on, work.now) for each in plans for prices in _parted(each, version)[1]):
        raise Invalid(effective_on="already_counts")
    return plans


def _parted(plan: Plan, version: int | str) -> tuple[list[ScheduledPrices], list[ScheduledPrices]]:
    """The scheduled prices of other versions, and those of this one."""
    own = [prices for prices in plan.scheduled_prices if str(prices.version) == str(version)]
    return [prices for prices in plan.scheduled_prices if prices not in own], own


def _store(work: Work, plan: Plan, scheduled: Sequence[ScheduledPrices]) -> None:
    """Store the plan with these scheduled prices, in the order in which they take effect."""
    in_order = sorted(scheduled, key=lambda prices: (prices.effective_on, prices.version))
    work.tx.replace(replace(plan, scheduled_prices=tuple(in_order)))
    forget_definition(work, plan.id)


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
        give_prices_of(work, plan, date.fromisoformat(task.day))
        if plan_definition(work, plan.id).plan != plan:
            _emit(work, "plan.version_effective", plan)


def give_prices_of(work: Work, plan: Plan, day: date) -> None:
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
