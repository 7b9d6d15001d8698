"""Changes of plans and their charges, with the effects on subscriptions and overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.cascades import FixedChargeChange
from usagebill.core.errors import Invalid, placed
from usagebill.core.metadata import checked_metadata
from usagebill.core.plans import Charge, FixedCharge, Plan, monthly_flag, plan_errors
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations import taxes
from usagebill.operations.backlog import after_backlog, of_plan
from usagebill.operations.plans.cascades import (
    cascade_added_charge,
    cascade_amount,
    cascade_changed_charge,
    cascade_fixed_charges,
    cascade_removed_charge,
)
from usagebill.operations.plans.charges import changed_charge
from usagebill.operations.plans.creation import (
    add_charges,
    add_fixed_charges,
    add_on_of_item,
    metric_of_item,
    refuse_taken_code,
    sent_commitment,
    sent_thresholds,
)
from usagebill.operations.plans.effective import taking_effect
from usagebill.operations.plans.fixed_charges import changed_fixed_charge
from usagebill.operations.plans.inputs import ChargeInput, FixedChargeInput, PlanInput, PlanUpdate
from usagebill.operations.plans.records import changed_plans, reconsider_changes, refuse, remove
from usagebill.operations.plans.units import units_changed
from usagebill.operations.usage_so_far import check_new_thresholds
from usagebill.queries.plans import is_used, live_of, metric_of, overrides_of, plan_by_code
from usagebill.requests.inputs import changes, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import all_of, any_of, eq, negate, not_empty, present, related, within
from usagebill.views.plans import plan_summary

# The fields that can still change once a subscription has been on the plan, and those that cannot.
_ALWAYS_EDITABLE = ("name", "invoice_display_name", "description", "amount_cents")
_EDITABLE = (*_ALWAYS_EDITABLE, "code", "interval", "pay_in_advance", "amount_currency", "trial_period")


@after_backlog(of_plan)
def update(work: Work, code: str, request: PlanUpdate) -> Plan:
    """Change the sent fields of a plan. Raises `NotFound` and `Invalid`.

    Once a subscription has been on it, only names, description and amount change, and the prices of its charges; while
    one has an override of it, its currency stays.
    `charges` and `fixed_charges` are whole lists: those not named by id are removed. `cascade_updates` passes changes
    on to overrides. With `effective` as `next_period`, only amount, commitment and prices of charges can change beside
    names, and count for periods that begin after now; as a date, they alone, for periods that begin on it or later.
    """
    cascade = value_or(request.cascade_updates, False)
    return taking_effect(
        work,
        plan_by_code(work, code),
        request.effective,
        lambda then: _update(then, plan_by_code(then, code), request, cascade=cascade),
        lambda now: plan_by_code(now, code),
        cascade=cascade,
    )


def _update(work: Work, before: Plan, request: PlanInput, *, cascade: bool) -> Plan:
    charges = {charge.id: charge for charge in live_of(work, Charge, before)}
    fixed_charges = {charge.id: charge for charge in live_of(work, FixedCharge, before)}
    items = [(item, _metric(work, item, charges)) for item in value_or(request.charges, ())]
    fixed_items = [(item, _add_on(work, item, fixed_charges)) for item in value_or(request.fixed_charges, ())]
    used = is_used(work, before)
    after = _changed(work, before, request, used=used)
    work.tx.replace(after)
    if _is_listed(request.charges):
        _replace_charges(work, after, charges, items, used=used, cascade=cascade)
    if _is_listed(request.fixed_charges):
        _replace_fixed_charges(work, after, fixed_charges, fixed_items, used=used, cascade=cascade)
    changed_plans(work, [after.id])
    if after.usage_thresholds != before.usage_thresholds and after.usage_thresholds:
        # An override without thresholds of its own follows the plan's.
        followers = [override.id for override in overrides_of(work, after) if not override.usage_thresholds]
        check_new_thresholds(work, within("plan_id", [after.id, *followers]), negate(not_empty("usage_thresholds")))
    if after.amount_cents != before.amount_cents:
        _amount_changed(work, after, before.amount_cents)
        if cascade:
            cascade_amount(work, after, before.amount_cents, lambda child, old: _amount_changed(work, child, old))
    work.emit("plan.updated", lambda: plan_summary(work, after), after.id)
    return after


def _is_listed(items: object) -> bool:
    return is_given(items) and items is not None


def _metric(reader: Reader, request: ChargeInput, by_id: Mapping[str, Charge]) -> BillableMetric:
    existing = by_id.get(request.id) if request.id else None
    named = request.billable_metric_id or request.billable_metric_code
    return metric_of(reader, existing) if existing and not named else metric_of_item(reader, request)


def _add_on(reader: Reader, request: FixedChargeInput, by_id: Mapping[str, FixedCharge]) -> AddOn | None:
    return None if request.id and request.id in by_id else add_on_of_item(reader, request)


def _changed(reader: Reader, before: Plan, request: PlanInput, *, used: bool) -> Plan:
    """`before` with the sent fields, taxes, thresholds, commitment and metadata."""
    sent: dict[str, Any] = changes(request, *(_ALWAYS_EDITABLE if used else _EDITABLE))
    fields = ("name", "code", "interval", "amount_cents", "amount_currency", "pay_in_advance", "trial_period")
    refuse(plan_errors(**{name: sent.get(name, getattr(before, name)) for name in fields}))
    offered = value_or(request.offered_in_portal, before.offered_in_portal)
    after = replace(before, updated_at=reader.now, offered_in_portal=offered, **sent)
    refuse_taken_code(reader, after)
    _refuse_currency_of_others(reader, before, after)
    if not used:
        # Both depend on the interval of this very body: without one, the plan bills by its interval.
        interval = value_or(request.interval, "")
        after = replace(
            after,
            bill_charges_monthly=monthly_flag(interval, value_or(request.bill_charges_monthly, None)),
            bill_fixed_charges_monthly=monthly_flag(interval, value_or(request.bill_fixed_charges_monthly, None)),
        )
    if request.tax_codes is not None and is_given(request.tax_codes):
        after = replace(after, tax_ids=taxes.ids_of_codes(reader, value_or(request.tax_codes, ())))
    if request.usage_thresholds is not None and is_given(request.usage_thresholds):
        after = replace(after, usage_thresholds=sent_thresholds(reader, value_or(request.usage_thresholds, ())))
    if request.metadata is not None and is_given(request.metadata):
        after = replace(after, metadata=checked_metadata(request.metadata))
    if request.minimum_commitment:
        with placed("minimum_commitment"):
            commitment = sent_commitment(reader, before.minimum_commitment, request.minimum_commitment)
        after = replace(after, minimum_commitment=commitment)
    return after


def _refuse_currency_of_others(reader: Reader, before: Plan, after: Plan) -> None:
    """Raises `Invalid` for another currency while subscriptions have overrides in this one: overrides follow the prices
    and thresholds of their plan as numbers, which would be of another currency from now on.
    """
    if after.amount_currency == before.amount_currency:
        return
    if any(override.amount_currency == before.amount_currency for override in overrides_of(reader, before)):
        reason = f"subscriptions have prices of their own on the plan {before.code!r}, in {before.amount_currency}"
        raise Invalid(amount_currency="currencies_does_not_match", reasons={"amount_currency": reason})


def _amount_changed(work: Work, plan: Plan, old_amount: int) -> None:
    """Schedule a review of scheduled changes from and to the plan, because its amount has changed."""
    leaves = related(
        Subscription, "previous_subscription_id", eq("plan_id", plan.id), eq("status", SubscriptionStatus.ACTIVE)
    )
    arrives = all_of(eq("plan_id", plan.id), present("previous_subscription_id"))
    if work.tx.first(Subscription, eq("status", SubscriptionStatus.PENDING), any_of(leaves, arrives)) is not None:
        reconsider_changes(work, plan, old_amount)


def _replace_charges(
    work: Work,
    plan: Plan,
    known: Mapping[str, Charge],
    items: Iterable[tuple[ChargeInput, BillableMetric]],
    *,
    used: bool,
    cascade: bool,
) -> None:
    listed = list(items)
    named = {request.id for request, _ in listed}
    for charge in known.values():
        if charge.id not in named:
            remove(work, charge)
            if cascade:
                cascade_removed_charge(work, charge)
    fresh = []
    for position, (request, metric) in enumerate(listed):
        before = known.get(request.id) if request.id else None
        if before is None:
            fresh.append((position, request, metric))
            continue
        with placed(f"charges[{position}]"):
            after = changed_charge(work, before, metric, request, used=used)
        if cascade:
            model = value_or(request.charge_model, None)
            cascade_changed_charge(work, before, after, sent_model=model, code_sent=bool(request.code))
    for charge in add_charges(work, plan, fresh):
        if cascade:
            cascade_added_charge(work, charge)


def _replace_fixed_charges(
    work: Work,
    plan: Plan,
    known: Mapping[str, FixedCharge],
    items: Iterable[tuple[FixedChargeInput, AddOn | None]],
    *,
    used: bool,
    cascade: bool,
) -> None:
    listed = list(items)
    named = {request.id for request, _ in listed}
    made = []
    for fixed_charge in known.values():
        if fixed_charge.id not in named:
            remove(work, fixed_charge)
            made.append(FixedChargeChange(before=fixed_charge, after=None))
    fresh = []
    for position, (request, add_on) in enumerate(listed):
        if add_on is not None:
            fresh.append((position, request, add_on))
            continue
        before = known[str(request.id)]
        with placed(f"fixed_charges[{position}]"):
            after = changed_fixed_charge(work, before, request, used=used)
        immediately = value_or(request.apply_units_immediately, False)
        made.append(FixedChargeChange(before=before, after=after, immediately=immediately))
    for (_, request, _), added in zip(fresh, add_fixed_charges(work, plan, fresh), strict=True):
        immediately = value_or(request.apply_units_immediately, False)
        made.append(FixedChargeChange(before=None, after=added, immediately=immediately))
    apply_fixed_charge_changes(work, plan, made, cascade=cascade)


def apply_fixed_charge_changes(work: Work, plan: Plan, made: Iterable[FixedChargeChange], *, cascade: bool) -> None:
    """Record the new units of subscriptions on the plan, and with `cascade` on its overrides."""
    changes_made = tuple(made)
    with_units = [change for change in changes_made if change.other_units]
    units_changed(
        work,
        plan,
        at_once=[change.after for change in with_units if change.after is not None and change.immediately],
        next_period=[change.after for change in with_units if change.after is not None and not change.immediately],
    )
    if cascade:
        cascade_fixed_charges(work, plan, changes_made)
