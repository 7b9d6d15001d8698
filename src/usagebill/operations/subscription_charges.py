"""Charges, filters and fixed charges of one subscription: its plan's, until it gets its own.

The first change of a charge gives the subscription an override of its plan; the plan itself never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from usagebill.core.billable_metrics import declared_values
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.filters import same_values
from usagebill.core.plans import Charge, ChargeFilter, FixedCharge, Plan
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations import draft_invoices
from usagebill.operations.backlog import after_backlog, of_subscriptions
from usagebill.operations.plans.charge_endpoints import page_of_filters, pick_filter
from usagebill.operations.plans.charges import overridden_charge
from usagebill.operations.plans.filters import (
    changed_filter,
    check_filter,
    check_number_of_filters,
    new_filter,
    with_links,
)
from usagebill.operations.plans.inputs import ChargeFilterInput, ChargeInput, FixedChargeInput, PlanOverridesInput
from usagebill.operations.plans.overrides import apply_overrides, keep_own_prices, override
from usagebill.operations.plans.records import changed_plans
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.plans import metric_of, plan_definition
from usagebill.queries.subscriptions import plan_of
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.ports import Page

R = TypeVar("R", Charge, FixedCharge)


@Input
class WhichSubscription:
    """The status of the named subscription, by default active."""

    subscription_status: Maybe[str] = ABSENT
    status: Maybe[str] = described("The same as `subscription_status`.", values=tuple(SubscriptionStatus))


def _subscription(reader: Reader, external_id: str, options: WhichSubscription) -> Subscription:
    return get_of_status(reader, external_id, options.subscription_status or options.status or None)


def _page(items: tuple[R, ...], paging: Paging) -> Page[R]:
    newest = items[::-1]
    first = (paging.page - 1) * paging.per_page
    shown = newest[first : first + paging.per_page]
    return Page(items=shown, page=paging.page, per_page=paging.per_page, total_count=len(items))


def _of_code(items: tuple[R, ...], code: str, kind: str) -> R:
    match = next((item for item in items if item.code == code), None)
    if match is None:
        raise NotFound(kind, code)
    return match


def _own_plan(work: Work, subscription: Subscription) -> Plan:
    """The override that the subscription is on; from a catalog plan it is moved to a new one."""
    plan = plan_of(work, subscription)
    if plan.parent_id is not None:
        return plan
    child = override(work, plan, PlanOverridesInput(), units=subscription.fixed_charge_units)
    draft_invoices.flag(work, draft_invoices.drafts_of_subscription(subscription.id))
    work.tx.replace(replace(subscription, plan_id=child.id, fixed_charge_units={}, updated_at=work.now))
    return child


def _own_charge(work: Work, subscription: Subscription, code: str) -> Charge:
    """The charge with this code of the subscription's override, which is created if it has none."""
    _of_code(plan_definition(work, subscription.plan_id).charges, code, "charge")
    return _of_code(plan_definition(work, _own_plan(work, subscription).id).charges, code, "charge")


def _written(work: Work, charge: Charge) -> Charge:
    """Store the charge of an override, and flag the drafts that bill its subscription."""
    linked, before = with_links(work, charge), work.tx.get(Charge, charge.id)
    work.tx.replace(linked)
    keep_own_prices(work, before or linked, linked)
    changed_plans(work, [linked.plan_id])
    return linked


def list_charges(reader: Reader, external_id: str, options: WhichSubscription, paging: Paging) -> Page[Charge]:
    """The charges of the subscription's plan, newest first. Raises `NotFound`."""
    subscription = _subscription(reader, external_id, options)
    return _page(plan_definition(reader, subscription.plan_id).charges, paging)


def get_charge(reader: Reader, external_id: str, charge_code: str, options: WhichSubscription) -> Charge:
    """One charge of the subscription's plan. Raises `NotFound`."""
    subscription = _subscription(reader, external_id, options)
    return _of_code(plan_definition(reader, subscription.plan_id).charges, charge_code, "charge")


@after_backlog(of_subscriptions, needed=True)
def update_charge(
    work: Work, external_id: str, charge_code: str, request: ChargeInput, options: WhichSubscription
) -> Charge:
    """Change the sent fields of a charge, for this subscription alone. Raises `NotFound` and `Invalid`."""
    own_charge = _own_charge(work, _subscription(work, external_id, options), charge_code)
    return _written(work, overridden_charge(work, own_charge, metric_of(work, own_charge), request))


def list_filters(
    reader: Reader, external_id: str, charge_code: str, options: WhichSubscription, paging: Paging
) -> Page[tuple[Charge, ChargeFilter]]:
    """The filters of a charge, in their order. Raises `NotFound`."""
    return page_of_filters(get_charge(reader, external_id, charge_code, options), paging)


def get_filter(
    reader: Reader, external_id: str, charge_code: str, filter_id: str, options: WhichSubscription
) -> tuple[Charge, ChargeFilter]:
    """One filter of a charge, with the charge. Raises `NotFound`."""
    charge = get_charge(reader, external_id, charge_code, options)
    return charge, pick_filter(charge, filter_id)


@after_backlog(of_subscriptions, needed=True)
def create_filter(
    work: Work, external_id: str, charge_code: str, request: ChargeFilterInput, options: WhichSubscription
) -> tuple[Charge, ChargeFilter]:
    """Add a filter, for this subscription alone. Raises `NotFound`, and `Invalid` for values already filtered."""
    own_charge = _own_charge(work, _subscription(work, external_id, options), charge_code)
    added = new_filter(work, own_charge, request)
    if any(same_values(charge_filter.values, added.values) for charge_filter in own_charge.filters):
        raise Invalid(values="value_already_exists")
    check_filter(own_charge, added, declared_values(metric_of(work, own_charge)))
    check_number_of_filters((*own_charge.filters, added))
    return _written(work, replace(own_charge, filters=(*own_charge.filters, added), updated_at=work.now)), added


def _changed_filters(
    work: Work,
    external_id: str,
    charge_code: str,
    filter_id: str,
    options: WhichSubscription,
    change: Callable[[Charge, ChargeFilter], ChargeFilter | None],
) -> tuple[Charge, ChargeFilter]:
    """Apply `change` to the named filter's counterpart on the subscription's own charge; None removes it."""
    subscription = _subscription(work, external_id, options)
    charge = _of_code(plan_definition(work, subscription.plan_id).charges, charge_code, "charge")
    named = pick_filter(charge, filter_id)
    own_charge = _own_charge(work, subscription, charge_code)
    before = next(its for its in own_charge.filters if named.id in (its.id, its.parent_id))
    others = tuple(its for its in own_charge.filters if its.id != before.id)
    after = change(own_charge, before)
    if after is not None:
        check_filter(own_charge, after, declared_values(metric_of(work, own_charge)))
    filters = others if after is None else own_charge.filters if after == before else (*others, after)
    return _written(work, replace(own_charge, filters=filters, updated_at=work.now)), after or before


@after_backlog(of_subscriptions, needed=True)
def update_filter(
    work: Work,
    external_id: str,
    charge_code: str,
    filter_id: str,
    request: ChargeFilterInput,
    options: WhichSubscription,
) -> tuple[Charge, ChargeFilter]:
    """Change the name or the properties of a filter, for this subscription alone. Raises `NotFound`, `Invalid`."""
    return _changed_filters(
        work,
        external_id,
        charge_code,
        filter_id,
        options,
        lambda own_charge, charge_filter: changed_filter(work, own_charge, charge_filter, request),
    )


@after_backlog(of_subscriptions, needed=True)
def delete_filter(
    work: Work, external_id: str, charge_code: str, filter_id: str, options: WhichSubscription
) -> tuple[Charge, ChargeFilter]:
    """Remove a filter, for this subscription alone. Raises `NotFound`."""
    return _changed_filters(work, external_id, charge_code, filter_id, options, lambda own_charge, charge_filter: None)


def _shown(subscription: Subscription, charge: FixedCharge) -> FixedCharge:
    """The fixed charge with the subscription's own units."""
    return replace(charge, units=subscription.fixed_charge_units.get(charge.id, charge.units))


def _fixed_charges(reader: Reader, subscription: Subscription) -> tuple[FixedCharge, ...]:
    return tuple(_shown(subscription, charge) for charge in plan_definition(reader, subscription.plan_id).fixed_charges)


def list_fixed_charges(
    reader: Reader, external_id: str, options: WhichSubscription, paging: Paging
) -> Page[FixedCharge]:
    """The fixed charges of the subscription's plan with its own units, newest first. Raises `NotFound`."""
    return _page(_fixed_charges(reader, _subscription(reader, external_id, options)), paging)


def get_fixed_charge(
    reader: Reader, external_id: str, fixed_charge_code: str, options: WhichSubscription
) -> FixedCharge:
    """One fixed charge of the subscription's plan, with its own units. Raises `NotFound`."""
    subscription = _subscription(reader, external_id, options)
    return _of_code(_fixed_charges(reader, subscription), fixed_charge_code, "fixed_charge")


@after_backlog(of_subscriptions, needed=True)
def update_fixed_charge(
    work: Work, external_id: str, fixed_charge_code: str, request: FixedChargeInput, options: WhichSubscription
) -> FixedCharge:
    """Change the sent fields of a fixed charge, for this subscription alone. Raises `NotFound`, `Invalid`, `Forbidden`.

    Units alone are kept on the subscription, which stays on its catalog plan; anything else gives it an override.
    """
    subscription = _subscription(work, external_id, options)
    if subscription.status == SubscriptionStatus.INCOMPLETE:
        raise Invalid(base="subscription_incomplete")
    named = _of_code(_fixed_charges(work, subscription), fixed_charge_code, "fixed_charge")
    sent = {name: value for name, value in changes(request).items() if name not in ("id", "code", "cascade_updates")}
    item = FixedChargeInput(**{**sent, "id": named.id})
    plan = plan_of(work, subscription)
    applied = apply_overrides(work, plan, PlanOverridesInput(fixed_charges=(item,)), subscription)
    changed = replace(
        subscription,
        plan_id=applied.plan.id,
        fixed_charge_units=applied.fixed_charge_units,
        updated_at=work.now,
    )
    work.tx.replace(changed)
    return _of_code(_fixed_charges(work, changed), fixed_charge_code, "fixed_charge")
