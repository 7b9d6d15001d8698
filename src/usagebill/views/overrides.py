"""What one subscription's copy of a plan changes, in the form in which `plan_overrides` are sent."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NotRequired, TypedDict

from usagebill.core.numbers import decimal_text
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.pricing import displayed_properties
from usagebill.core.subscriptions import Subscription
from usagebill.queries.plans import plan_definition
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText
from usagebill.views.taxes import taxes_view


class OverriddenCommitmentView(TypedDict):
    amount_cents: int
    invoice_display_name: str | None


class OverriddenThresholdView(TypedDict):
    amount_cents: int
    threshold_display_name: str | None
    recurring: bool


class OverriddenFilterView(TypedDict):
    values: Mapping[str, list[str]]
    invoice_display_name: str | None
    properties: Mapping[str, object]


class OverriddenChargeView(TypedDict):
    id: str
    invoice_display_name: NotRequired[str | None]
    min_amount_cents: NotRequired[int]
    properties: NotRequired[Mapping[str, object]]
    filters: NotRequired[list[OverriddenFilterView]]
    tax_codes: NotRequired[list[str]]


class OverriddenFixedChargeView(TypedDict):
    id: str
    invoice_display_name: NotRequired[str | None]
    units: NotRequired[DecimalText]
    properties: NotRequired[Mapping[str, object]]
    tax_codes: NotRequired[list[str]]


class PlanOverridesView(TypedDict):
    name: NotRequired[str]
    invoice_display_name: NotRequired[str | None]
    description: NotRequired[str | None]
    amount_cents: NotRequired[int]
    trial_period: NotRequired[DecimalText]
    tax_codes: NotRequired[list[str]]
    minimum_commitment: NotRequired[OverriddenCommitmentView]
    charges: NotRequired[list[OverriddenChargeView]]
    fixed_charges: NotRequired[list[OverriddenFixedChargeView]]
    usage_thresholds: NotRequired[list[OverriddenThresholdView]]


def plan_overrides_view(reader: Reader, subscription: Subscription, plan: Plan) -> PlanOverridesView | None:
    """Where the subscription's plan is another than the catalog has now under its code; None without overrides."""
    shown: PlanOverridesView = {}
    fixed_charges: list[OverriddenFixedChargeView] = [
        {"id": id, "units": decimal_text(units)} for id, units in subscription.fixed_charge_units.items()
    ]
    if plan.parent_id is not None:
        own, catalog = plan_definition(reader, plan.id), plan_definition(reader, plan.parent_id)
        shown = _of_plan(reader, plan, catalog.plan)
        charges = {charge.id: charge for charge in catalog.charges}
        changed = [_of_charge(reader, one, charges.get(one.parent_id or "")) for one in own.charges]
        if kept := [one for one in changed if one is not None]:
            shown["charges"] = kept
        fixed = {charge.id: charge for charge in catalog.fixed_charges}
        changed_fixed = [_of_fixed_charge(reader, one, fixed.get(one.parent_id or "")) for one in own.fixed_charges]
        fixed_charges = [one for one in changed_fixed if one is not None]
    if fixed_charges:
        shown["fixed_charges"] = fixed_charges
    return shown or None


def _of_plan(reader: Reader, plan: Plan, catalog: Plan) -> PlanOverridesView:
    shown: PlanOverridesView = {}
    if plan.name != catalog.name:
        shown["name"] = plan.name
    if plan.invoice_display_name != catalog.invoice_display_name:
        shown["invoice_display_name"] = plan.invoice_display_name
    if plan.description != catalog.description:
        shown["description"] = plan.description
    if plan.amount_cents != catalog.amount_cents:
        shown["amount_cents"] = plan.amount_cents
    if plan.trial_period != catalog.trial_period:
        shown["trial_period"] = decimal_text(plan.trial_period or Decimal(0))
    if plan.tax_ids:
        shown["tax_codes"] = _codes(reader, plan.tax_ids)
    if plan.minimum_commitment is not None:
        shown["minimum_commitment"] = {
            "amount_cents": plan.minimum_commitment.amount_cents,
            "invoice_display_name": plan.minimum_commitment.invoice_display_name,
        }
    if plan.usage_thresholds:
        shown["usage_thresholds"] = [
            {
                "amount_cents": threshold.amount_cents,
                "threshold_display_name": threshold.threshold_display_name,
                "recurring": threshold.recurring,
            }
            for threshold in plan.usage_thresholds
        ]
    return shown


def _of_charge(reader: Reader, charge: Charge, original: Charge | None) -> OverriddenChargeView | None:
    """What the charge changes; None for nothing, and if its original is gone."""
    if original is None:
        return None
    shown: OverriddenChargeView = {"id": original.id}
    if charge.invoice_display_name != original.invoice_display_name:
        shown["invoice_display_name"] = charge.invoice_display_name
    if charge.min_amount_cents != original.min_amount_cents:
        shown["min_amount_cents"] = charge.min_amount_cents
    if charge.properties != original.properties:
        shown["properties"] = displayed_properties(charge.properties)
    if charge.tax_ids:
        shown["tax_codes"] = _codes(reader, charge.tax_ids)
    filters, former = _filters(charge), _filters(original)
    if filters != former:
        shown["filters"] = filters
    return shown if len(shown) > 1 else None


def _filters(charge: Charge) -> list[OverriddenFilterView]:
    return [
        {
            "values": {key: [*accepted] for key, accepted in one.values.items()},
            "invoice_display_name": one.invoice_display_name,
            "properties": displayed_properties(one.properties),
        }
        for one in charge.filters
    ]


def _of_fixed_charge(
    reader: Reader, charge: FixedCharge, original: FixedCharge | None
) -> OverriddenFixedChargeView | None:
    if original is None:
        return None
    shown: OverriddenFixedChargeView = {"id": original.id}
    if charge.invoice_display_name != original.invoice_display_name:
        shown["invoice_display_name"] = charge.invoice_display_name
    if charge.units != original.units:
        shown["units"] = decimal_text(charge.units)
    if charge.properties != original.properties:
        shown["properties"] = displayed_properties(charge.properties)
    if charge.tax_ids:
        shown["tax_codes"] = _codes(reader, charge.tax_ids)
    return shown if len(shown) > 1 else None


def _codes(reader: Reader, tax_ids: tuple[str, ...]) -> list[str]:
    return [tax["code"] for tax in taxes_view(reader, tax_ids)]
