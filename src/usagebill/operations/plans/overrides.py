"""Overrides: one subscription's own copy of a plan, with changes.

An override has the code of its plan, and copies of all its charges, each linked to its original. Taxes, the minimum
commitment and metadata are not copied: an override has only its own. Without thresholds of its own, those of the plan
apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeVar

from usagebill.core.cascades import copied_filters
from usagebill.core.errors import Forbidden, NotFound, placed
from usagebill.core.metadata import checked_metadata
from usagebill.core.plans import Charge, FixedCharge, Plan, PlanDefinition, plan_errors
from usagebill.core.price_versions import same_prices, scheduled_for_copy, without_amount, without_charge
from usagebill.core.subscriptions import Subscription
from usagebill.operations import draft_invoices, taxes
from usagebill.operations.plans.charges import overridden_charge
from usagebill.operations.plans.creation import sent_commitment, sent_thresholds
from usagebill.operations.plans.effective import take_effect_on
from usagebill.operations.plans.fixed_charges import check_units, overridden_fixed_charge
from usagebill.operations.plans.inputs import ChargeInput, FixedChargeInput, PlanOverridesInput
from usagebill.operations.plans.records import changed_plans, reconsider_changes, refuse
from usagebill.operations.plans.units import units_of_subscription_changed
from usagebill.queries.plans import metric_of, plan_definition
from usagebill.requests.inputs import changes, is_given, value_or
from usagebill.runtime.work import Reader, Work

Sent = TypeVar("Sent", ChargeInput, FixedChargeInput)

_ALWAYS_THERE = ("name", "amount_cents", "amount_currency")
_OPTIONAL = ("invoice_display_name", "description", "trial_period")
_UNITS_ONLY = frozenset({"id", "units", "apply_units_immediately"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """The result of overrides: the subscription's plan, and its own units by fixed charge id."""

    plan: Plan
    fixed_charge_units: Mapping[str, Decimal] = field(default_factory=dict)


def is_units_only(request: PlanOverridesInput) -> bool:
    """Whether only units of fixed charges are sent, which does not require an override."""
    items = value_or(request.fixed_charges, ())
    other_fields = {name for name, value in changes(request).items() if value is not None} - {"fixed_charges"}
    return bool(items) and not other_fields and all(set(changes(item)) <= _UNITS_ONLY for item in items)


def apply_overrides(
    work: Work, plan: Plan, request: PlanOverridesInput, subscription: Subscription | None = None
) -> Overridden:
    """Apply `request` to a subscription on `plan`. The caller stores the result on the subscription.

    An override is changed in place; a catalog plan is copied, unless only units are sent: those are kept on the
    subscription. The units of an existing `subscription` change now or from its next period on; without one (it is
    about to be created) nothing is recorded. Raises `Invalid`, `NotFound` and `Forbidden`.
    """
    units = {} if subscription is None else dict(subscription.fixed_charge_units)
    if not any(value is not None for value in changes(request).values()):
        return Overridden(plan=plan, fixed_charge_units=units)
    if plan.parent_id is None and is_units_only(request):
        return Overridden(plan=plan, fixed_charge_units={**units, **_own_units(work, plan, request, subscription)})
    before = {charge.id: charge.units for charge in plan_definition(work, plan.id).fixed_charges} | units
    child = _changed_in_place(work, plan, request) if plan.parent_id else override(work, plan, request, units=units)
    if subscription is not None:
        draft_invoices.flag(work, draft_invoices.drafts_of_subscription(subscription.id))
        _note_units(work, child, request, subscription, before)
        if child.amount_cents != plan.amount_cents:
            reconsider_changes(work, child, plan.amount_cents)
    return Overridden(plan=child)


def _own_units(
    work: Work, plan: Plan, request: PlanOverridesInput, subscription: Subscription | None
) -> Mapping[str, Decimal]:
    known = {charge.id: charge for charge in plan_definition(work, plan.id).fixed_charges}
    units: dict[str, Decimal] = {}
    for item in value_or(request.fixed_charges, ()):
        charge = known.get(item.id or "")
        if charge is None:
            raise NotFound("fixed_charge", item.id)
        if not is_given(item.units):
            continue
        overridden = replace(charge, units=check_units(item.units))
        units[charge.id] = overridden.units
        before = charge.units if subscription is None else subscription.fixed_charge_units.get(charge.id, charge.units)
        if subscription is not None and overridden.units != before:
            immediately = value_or(item.apply_units_immediately, False)
            units_of_subscription_changed(work, plan, subscription, [overridden], immediately=immediately)
    return units


def _note_units(
    work: Work, child: Plan, request: PlanOverridesInput, subscription: Subscription, before: Mapping[str, Decimal]
) -> None:
    """Record the sent units that differ from those the subscription had `before`, by charge id or its parent's."""
    items = value_or(request.fixed_charges, ())
    groups: dict[bool, list[FixedCharge]] = {True: [], False: []}
    for charge in plan_definition(work, child.id).fixed_charges:
        item = _item_of(charge, items)
        had = before.get(charge.id, before.get(charge.parent_id or "", charge.units))
        if item is not None and is_given(item.units) and charge.units != had:
            groups[value_or(item.apply_units_immediately, False)].append(charge)
    for immediately, charges in groups.items():
        if charges:
            units_of_subscription_changed(work, child, subscription, charges, immediately=immediately)


def _item_of(charge: Charge | FixedCharge, items: Iterable[Sent]) -> Sent | None:
    """The item that names the charge, by its own id or by that of its original."""
    return next((item for item in items if item.id and item.id in (charge.id, charge.parent_id)), None)


def _refuse_unknown_charges(definition: PlanDefinition, request: PlanOverridesInput) -> None:
    """Raises `NotFound` for an item that names no charge of the plan: its price would never be asked for."""
    _refuse_unknown("charge", definition.charges, value_or(request.charges, ()))
    _refuse_unknown("fixed_charge", definition.fixed_charges, value_or(request.fixed_charges, ()))


def _refuse_unknown(
    name: str, charges: Iterable[Charge | FixedCharge], items: Iterable[ChargeInput | FixedChargeInput]
) -> None:
    known = {id for charge in charges for id in (charge.id, charge.parent_id)} - {None}
    for position, item in enumerate(items):
        if item.id not in known:
            with placed(f"{name}s[{position}]"):
                raise NotFound(name, item.id)


def _refuse_other_model(charge: Charge | FixedCharge, item: ChargeInput | FixedChargeInput | None) -> None:
    if item is not None and item.charge_model and item.charge_model != charge.charge_model:
        raise Forbidden("cannot_override_charge_model")


def _with_sent_fields(reader: Reader, plan: Plan, request: PlanOverridesInput) -> Plan:
    """`plan` with the sent fields of its own; null clears only optional ones."""
    sent = {name: value for name, value in changes(request, *_ALWAYS_THERE).items() if value is not None}
    changed = replace(plan, updated_at=reader.now, **sent, **changes(request, *_OPTIONAL))
    refuse(
        plan_errors(
            name=changed.name,
            code=changed.code,
            interval=changed.interval,
            amount_cents=changed.amount_cents,
            amount_currency=changed.amount_currency,
            pay_in_advance=changed.pay_in_advance,
            trial_period=changed.trial_period,
        )
    )
    if request.tax_codes is not None and is_given(request.tax_codes):
        changed = replace(changed, tax_ids=taxes.ids_of_codes(reader, value_or(request.tax_codes, ())))
    if request.usage_thresholds is not None and is_given(request.usage_thresholds):
        changed = replace(changed, usage_thresholds=sent_thresholds(reader, value_or(request.usage_thresholds, ())))
    if request.metadata is not None and is_given(request.metadata):
        changed = replace(changed, metadata=checked_metadata(request.metadata))
    if request.minimum_commitment:
        commitment = sent_commitment(reader, plan.minimum_commitment, request.minimum_commitment)
        changed = replace(changed, minimum_commitment=commitment)
    return changed


def override(
    work: Work, plan: Plan, request: PlanOverridesInput, *, units: Mapping[str, Decimal] | None = None
) -> Plan:
    """A copy of `plan` and its charges with the sent changes. Raises `Invalid`, `NotFound` and `Forbidden`.

    `units` are the subscription's own units of the plan's fixed charges, by id. Periods that have older prices of the
    plan keep them: what is sent counts for those that have its newest.
    """
    definition = plan_definition(work, plan.id)
    _refuse_unknown_charges(definition, request)
    blank = replace(
        plan,
        id=work.new_id(),
        parent_id=plan.id,
        tax_ids=(),
        minimum_commitment=None,
        metadata=None,
        usage_thresholds=(),
        pending_deletion=False,
        deleted_at=None,
        created_at=work.now,
    )
    child = _with_sent_fields(work, blank, request)
    items, fixed_items = value_or(request.charges, ()), value_or(request.fixed_charges, ())
    charges = [_copied_charge(work, child, charge, _item_of(charge, items)) for charge in definition.charges]
    fixed_charges = []
    for fixed_charge in definition.fixed_charges:
        copy = replace(
            fixed_charge,
            id=work.new_id(),
            plan_id=child.id,
            parent_id=fixed_charge.id,
            units=(units or {}).get(fixed_charge.id, fixed_charge.units),
            tax_ids=(),
            created_at=work.now,
            updated_at=work.now,
        )
        item = _item_of(fixed_charge, fixed_items)
        _refuse_other_model(fixed_charge, item)
        fixed_charges.append(copy if item is None else overridden_fixed_charge(work, copy, item))
    originals: dict[str, Charge | FixedCharge] = {charge.id: charge for charge in definition.charges}
    originals |= {charge.id: charge for charge in definition.fixed_charges}
    copies: list[Charge | FixedCharge] = [*charges, *fixed_charges]
    ids = {copy.parent_id: copy.id for copy in copies if same_prices(originals[copy.parent_id or ""], copy)}
    ids |= {one.parent_id: one.id for charge in charges for one in charge.filters}
    same_amount = child.amount_cents == plan.amount_cents
    child = replace(child, scheduled_prices=scheduled_for_copy(plan.scheduled_prices, ids, with_amount=same_amount))
    work.tx.insert(child, *charges, *fixed_charges)
    for prices in child.scheduled_prices:
        take_effect_on(work, child, prices.effective_on)
    return child


def keep_own_prices(work: Work, before: Charge | FixedCharge, after: Charge | FixedCharge) -> None:
    """Prices that wait for a day leave a charge of an override that has got its own as it is."""
    plan = plan_definition(work, after.plan_id).plan
    if plan.scheduled_prices and not same_prices(before, after):
        work.tx.replace(replace(plan, scheduled_prices=without_charge(plan.scheduled_prices, after.id)))
        changed_plans(work, [plan.id])


def _copied_charge(reader: Reader, child: Plan, charge: Charge, item: ChargeInput | None) -> Charge:
    _refuse_other_model(charge, item)
    copy = replace(
        charge,
        id=reader.new_id(),
        plan_id=child.id,
        parent_id=charge.id,
        filters=copied_filters(charge.filters, new_id=reader.new_id),
        tax_ids=(),
        created_at=reader.now,
        updated_at=reader.now,
    )
    return copy if item is None else overridden_charge(reader, copy, metric_of(reader, charge), item)


def _changed_in_place(work: Work, child: Plan, request: PlanOverridesInput) -> Plan:
    """An override with the sent changes."""
    definition = plan_definition(work, child.id)
    _refuse_unknown_charges(definition, request)
    changed = _with_sent_fields(work, child, request)
    if changed.amount_cents != child.amount_cents:
        changed = replace(changed, scheduled_prices=without_amount(child.scheduled_prices))
    work.tx.replace(changed)
    for charge in definition.charges:
        item = _item_of(charge, value_or(request.charges, ()))
        if item is not None:
            _refuse_other_model(charge, item)
            own = overridden_charge(work, charge, metric_of(work, charge), item)
            work.tx.replace(own)
            keep_own_prices(work, charge, own)
    for fixed_charge in definition.fixed_charges:
        fixed_item = _item_of(fixed_charge, value_or(request.fixed_charges, ()))
        if fixed_item is not None:
            _refuse_other_model(fixed_charge, fixed_item)
            own_fixed = overridden_fixed_charge(work, fixed_charge, fixed_item)
            work.tx.replace(own_fixed)
            keep_own_prices(work, fixed_charge, own_fixed)
    changed_plans(work, [child.id])
    return changed
