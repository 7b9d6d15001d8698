"""Charges, filters and fixed charges of a plan, read and written one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.billable_metrics import declared_values
from usagebill.core.cascades import FixedChargeChange
from usagebill.core.errors import NotFound
from usagebill.core.plans import Charge, ChargeFilter, FixedCharge, Plan
from usagebill.operations.backlog import after_backlog, of_plan
from usagebill.operations.plans.cascades import (
    cascade_added_charge,
    cascade_changed_charge,
    cascade_removed_charge,
)
from usagebill.operations.plans.charges import changed_charge, new_charge
from usagebill.operations.plans.creation import add_on_of_item, metric_of_item
from usagebill.operations.plans.effective import taking_effect
from usagebill.operations.plans.filters import changed_filter, check_filter, check_number_of_filters, new_filter
from usagebill.operations.plans.fixed_charges import changed_fixed_charge, new_fixed_charge
from usagebill.operations.plans.inputs import (
    ChargeFilterInput,
    ChargeFilterUpdate,
    ChargeInput,
    ChargeOptions,
    ChargeUpdate,
    FilterOptions,
    FixedChargeInput,
    FixedChargeOptions,
    FixedChargeUpdate,
)
from usagebill.operations.plans.records import changed_plans, codes_of, remove
from usagebill.operations.plans.update import apply_fixed_charge_changes
from usagebill.queries.plans import is_used, metric_of, plan_by_code
from usagebill.requests.inputs import Paging, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import asc, desc, eq
from usagebill.storage.ports import Page


def _wanted(options: ChargeOptions | FilterOptions | FixedChargeOptions) -> bool:
    if isinstance(options, ChargeOptions):
        root = options.charge
    else:
        root = options.filter if isinstance(options, FilterOptions) else options.fixed_charge
    return value_or(options.cascade_updates, False) or bool(root and value_or(root.cascade_updates, False))


def list_charges(reader: Reader, code: str, paging: Paging) -> Page[Charge]:
    """The charges of a plan, newest first. Raises `NotFound`."""
    plan = plan_by_code(reader, code)
    return reader.page(Charge, eq("plan_id", plan.id), paging=paging, order=[desc("created_at"), desc("id")])


def get_charge(reader: Reader, code: str, charge_code: str) -> Charge:
    """One charge of a plan. Raises `NotFound`."""
    order = [asc("created_at"), asc("id")]
    charge = reader.tx.first(Charge, eq("plan_id", plan_by_code(reader, code).id), eq("code", charge_code), order=order)
    if charge is None:
        raise NotFound("charge", charge_code)
    return charge


@after_backlog(of_plan)
def create_charge(work: Work, code: str, request: ChargeInput) -> Charge:
    """Add a charge to a plan; its code is required. Raises `NotFound` and `Invalid`."""
    plan = plan_by_code(work, code)
    metric = metric_of_item(work, request, "billable_metric")
    codes = codes_of(work, Charge, plan.id)
    charge = new_charge(work, plan, metric, request, code=value_or(request.code, ""), codes=codes)
    if value_or(request.cascade_updates, False):
        cascade_added_charge(work, charge)
    changed_plans(work, [plan.id])
    return charge


@after_backlog(of_plan)
def update_charge(work: Work, code: str, charge_code: str, request: ChargeUpdate) -> Charge:
    """Change a charge, like an item of the plan's `charges`; `effective` as for the plan. Raises `NotFound` and
    `Invalid`.
    """
    return taking_effect(
        work,
        plan_by_code(work, code),
        request.effective,
        lambda then: _update_charge(then, plan_by_code(then, code), charge_code, request),
        lambda now: get_charge(now, code, charge_code),
        cascade=value_or(request.cascade_updates, False),
    )


def _update_charge(work: Work, plan: Plan, code: str, request: ChargeUpdate) -> Charge:
    before = get_charge(work, plan.code, code)
    named = request.billable_metric_id or request.billable_metric_code
    metric = metric_of_item(work, request, "billable_metric") if named else metric_of(work, before)
    after = changed_charge(work, before, metric, request, used=is_used(work, plan))
    if value_or(request.cascade_updates, False):
        model = value_or(request.charge_model, None)
        cascade_changed_charge(work, before, after, sent_model=model, code_sent=bool(request.code))
    changed_plans(work, [plan.id])
    return after


@after_backlog(of_plan)
def delete_charge(work: Work, code: str, charge_code: str, options: ChargeOptions) -> Charge:
    """Delete a charge with its filters. Raises `NotFound`."""
    charge = get_charge(work, code, charge_code)
    deleted = remove(work, charge)
    if _wanted(options):
        cascade_removed_charge(work, charge)
    changed_plans(work, [charge.plan_id])
    return deleted


def page_of_filters(charge: Charge, paging: Paging) -> Page[tuple[Charge, ChargeFilter]]:
    """One page of a charge's filters, in their order, each with its charge."""
    first = (paging.page - 1) * paging.per_page
    shown = charge.filters[first : first + paging.per_page]
    return Page(
        items=[(charge, charge_filter) for charge_filter in shown],
        page=paging.page,
        per_page=paging.per_page,
        total_count=len(charge.filters),
    )


def pick_filter(charge: Charge, filter_id: str) -> ChargeFilter:
    """The charge's filter with this id. Raises `NotFound`."""
    picked = next((charge_filter for charge_filter in charge.filters if charge_filter.id == filter_id), None)
    if picked is None:
        raise NotFound("charge_filter", filter_id)
    return picked


def list_filters(reader: Reader, code: str, charge_code: str, paging: Paging) -> Page[tuple[Charge, ChargeFilter]]:
    """The filters of a charge, by last change, oldest first. Raises `NotFound`."""
    return page_of_filters(get_charge(reader, code, charge_code), paging)


def get_filter(reader: Reader, code: str, charge_code: str, filter_id: str) -> tuple[Charge, ChargeFilter]:
    """One filter of a charge, with the charge. Raises `NotFound`."""
    charge = get_charge(reader, code, charge_code)
    return charge, pick_filter(charge, filter_id)


def _write_filters(work: Work, before: Charge, filters: Sequence[ChargeFilter], *, cascade: bool) -> Charge:
    after = replace(before, filters=tuple(filters), updated_at=work.now)
    work.tx.replace(after)
    if cascade:
        cascade_changed_charge(work, before, after, sent_model=None)
    changed_plans(work, [after.plan_id])
    return after


@after_backlog(of_plan)
def create_filter(work: Work, code: str, charge_code: str, request: ChargeFilterInput) -> tuple[Charge, ChargeFilter]:
    """Add a filter to a charge, even with the same values as another. Raises `NotFound` and `Invalid`."""
    charge = get_charge(work, code, charge_code)
    added = new_filter(work, charge, request)
    check_filter(charge, added, declared_values(metric_of(work, charge)))
    check_number_of_filters((*charge.filters, added))
    cascade = value_or(request.cascade_updates, False)
    return _write_filters(work, charge, (*charge.filters, added), cascade=cascade), added


@after_backlog(of_plan)
def update_filter(
    work: Work, code: str, charge_code: str, filter_id: str, request: ChargeFilterUpdate
) -> tuple[Charge, ChargeFilter]:
    """Change the name or the properties of a filter; its values stay. `effective` as for the plan. Raises `NotFound`
    and `Invalid`.
    """
    return taking_effect(
        work,
        plan_by_code(work, code),
        request.effective,
        lambda then: _update_filter(then, *get_filter(then, code, charge_code, filter_id), request),
        lambda now: get_filter(now, code, charge_code, filter_id),
        cascade=value_or(request.cascade_updates, False),
    )


def _update_filter(
    work: Work, charge: Charge, before: ChargeFilter, request: ChargeFilterUpdate
) -> tuple[Charge, ChargeFilter]:
    after = changed_filter(work, charge, before, request)
    check_filter(charge, after, declared_values(metric_of(work, charge)))
    siblings = [charge_filter for charge_filter in charge.filters if charge_filter.id != before.id]
    filters = charge.filters if after == before else (*siblings, after)
    return _write_filters(work, charge, filters, cascade=value_or(request.cascade_updates, False)), after


@after_backlog(of_plan)
def delete_filter(
    work: Work, code: str, charge_code: str, filter_id: str, options: FilterOptions
) -> tuple[Charge, ChargeFilter]:
    """Remove a filter from a charge. Raises `NotFound`."""
    charge, removed = get_filter(work, code, charge_code, filter_id)
    remaining = [charge_filter for charge_filter in charge.filters if charge_filter.id != removed.id]
    return _write_filters(work, charge, remaining, cascade=_wanted(options)), removed


def list_fixed_charges(reader: Reader, code: str, paging: Paging) -> Page[FixedCharge]:
    """The fixed charges of a plan, newest first. Raises `NotFound`."""
    plan = plan_by_code(reader, code)
    return reader.page(FixedCharge, eq("plan_id", plan.id), paging=paging, order=[desc("created_at"), desc("id")])


def get_fixed_charge(reader: Reader, code: str, fixed_charge_code: str) -> FixedCharge:
    """One fixed charge of a plan. Raises `NotFound`."""
    order = [asc("created_at"), asc("id")]
    fixed_charge = reader.tx.first(
        FixedCharge, eq("plan_id", plan_by_code(reader, code).id), eq("code", fixed_charge_code), order=order
    )
    if fixed_charge is None:
        raise NotFound("fixed_charge", fixed_charge_code)
    return fixed_charge


@after_backlog(of_plan)
def create_fixed_charge(work: Work, code: str, request: FixedChargeInput) -> FixedCharge:
    """Add a fixed charge to a plan; its code is required. Raises `NotFound` and `Invalid`."""
    plan = plan_by_code(work, code)
    add_on = add_on_of_item(work, request, "add_on")
    codes = codes_of(work, FixedCharge, plan.id)
    added = new_fixed_charge(work, plan, add_on, request, code=value_or(request.code, ""), codes=codes)
    change = FixedChargeChange(before=None, after=added, immediately=value_or(request.apply_units_immediately, False))
    apply_fixed_charge_changes(work, plan, [change], cascade=value_or(request.cascade_updates, False))
    changed_plans(work, [plan.id])
    return added


@after_backlog(of_plan)
def update_fixed_charge(work: Work, code: str, fixed_charge_code: str, request: FixedChargeUpdate) -> FixedCharge:
    """Change a fixed charge, like an item of the plan's `fixed_charges`; `effective` as for the plan. Raises `NotFound`
    and `Invalid`.
    """
    return taking_effect(
        work,
        plan_by_code(work, code),
        request.effective,
        lambda then: _update_fixed_charge(then, plan_by_code(then, code), fixed_charge_code, request),
        lambda now: get_fixed_charge(now, code, fixed_charge_code),
        cascade=value_or(request.cascade_updates, False),
    )


def _update_fixed_charge(work: Work, plan: Plan, code: str, request: FixedChargeUpdate) -> FixedCharge:
    before = get_fixed_charge(work, plan.code, code)
    after = changed_fixed_charge(work, before, request, used=is_used(work, plan))
    immediately = value_or(request.apply_units_immediately, False)
    change = FixedChargeChange(before=before, after=after, immediately=immediately)
    apply_fixed_charge_changes(work, plan, [change], cascade=value_or(request.cascade_updates, False))
    changed_plans(work, [plan.id])
    return after


@after_backlog(of_plan)
def delete_fixed_charge(work: Work, code: str, fixed_charge_code: str, options: FixedChargeOptions) -> FixedCharge:
    """Delete a fixed charge. Raises `NotFound`."""
    plan, before = plan_by_code(work, code), get_fixed_charge(work, code, fixed_charge_code)
    deleted = remove(work, before)
    change = FixedChargeChange(before=before, after=None)
    apply_fixed_charge_changes(work, plan, [change], cascade=_wanted(options))
    changed_plans(work, [plan.id])
    return deleted
