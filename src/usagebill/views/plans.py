"""Plans as JSON, with their charges, filters and fixed charges."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NotRequired, TypedDict

from usagebill.core.activity_logs import changed_values
from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.numbers import decimal_text
from usagebill.core.plans import (
    Charge,
    ChargeFilter,
    ChargePrices,
    FixedCharge,
    MinimumCommitment,
    Plan,
    ScheduledPrices,
    UsageThreshold,
)
from usagebill.core.price_versions import ChangedDefinition, Definition, PlanVersion
from usagebill.core.pricing import displayed_properties
from usagebill.core.taxes import Tax
from usagebill.queries.entitlements import plan_features
from usagebill.queries.plans import plan_definition, plan_thresholds, priced_metric, sold_add_on
from usagebill.runtime.work import Reader
from usagebill.views.add_ons import add_on_view
from usagebill.views.billable_metrics import billable_metric_view
from usagebill.views.entitlements import WrappedEntitlementView, wrapped_entitlements
from usagebill.views.formats import Day, DecimalText, Id, Instant, date_text, instant_text, plain_number
from usagebill.views.taxes import TaxView, tax_view, taxes_view


class AppliedPricingUnitView(TypedDict):
    code: str
    conversion_rate: DecimalText


class ChargeFilterView(TypedDict):
    svc_id: Id
    charge_code: str
    invoice_display_name: str | None
    properties: Mapping[str, object]
    values: Mapping[str, list[str]]


class ChargeView(TypedDict):
    svc_id: Id
    svc_billable_metric_id: Id
    code: str
    invoice_display_name: str | None
    billable_metric_code: str | None
    created_at: Instant
    charge_model: str
    invoiceable: bool
    regroup_paid_fees: str | None
    pay_in_advance: bool
    prorated: bool
    min_amount_cents: int
    accepts_target_wallet: bool
    properties: Mapping[str, object]
    filters: list[ChargeFilterView]
    applied_pricing_unit: AppliedPricingUnitView | None
    svc_parent_id: Id | None
    taxes: list[TaxView]


class FixedChargeView(TypedDict):
    svc_id: Id
    svc_add_on_id: Id
    code: str
    invoice_display_name: str | None
    add_on_code: str | None
    created_at: Instant
    charge_model: str
    pay_in_advance: bool
    prorated: bool
    properties: Mapping[str, object]
    units: int | Decimal
    svc_parent_id: Id | None
    taxes: list[TaxView]


class CommitmentView(TypedDict):
    svc_id: Id
    plan_code: str
    amount_cents: int
    interval: str
    invoice_display_name: str | None
    created_at: Instant
    updated_at: Instant
    taxes: list[TaxView]


class ScheduledFilterView(TypedDict):
    values: Mapping[str, list[str]]
    properties: Mapping[str, object]


class ScheduledChargeView(TypedDict):
    code: str
    properties: NotRequired[Mapping[str, object]]
    filters: NotRequired[list[ScheduledFilterView]]
    svc_removed_filter_ids: NotRequired[list[Id]]
    min_amount_cents: NotRequired[int]
    applied_pricing_unit: NotRequired[AppliedPricingUnitView]


class ScheduledPricesView(TypedDict):
    version: int
    effective_on: Day
    scheduled_at: Instant
    amount_cents: NotRequired[int]
    commitment_amount_cents: NotRequired[int]
    charges: list[ScheduledChargeView]


class ApplicableThresholdView(TypedDict):
    threshold_display_name: str | None
    amount_cents: int
    recurring: bool


class ThresholdView(ApplicableThresholdView):
    svc_id: Id
    created_at: Instant
    updated_at: Instant


class DeletedPlan(TypedDict):
    """The message about a deleted plan."""

    svc_id: Id
    name: str
    invoice_display_name: str | None
    created_at: Instant
    code: str
    interval: str
    description: str | None
    amount_cents: int
    amount_currency: str
    trial_period: int | Decimal | None
    pay_in_advance: bool
    bill_charges_monthly: bool | None
    bill_fixed_charges_monthly: bool | None
    customers_count: int
    active_subscriptions_count: int
    draft_invoices_count: int
    parent_id: Id | None
    pending_deletion: bool
    offered_in_portal: bool
    prices_from: Instant | None
    scheduled_prices: NotRequired[list[ScheduledPricesView]]
    charges: list[ChargeView]
    taxes: list[TaxView]
    usage_thresholds: list[ThresholdView]
    applicable_usage_thresholds: list[ApplicableThresholdView]
    minimum_commitment: NotRequired[CommitmentView]
    metadata: NotRequired[Mapping[str, str | None]]


class PlanSummary(DeletedPlan):
    entitlements: list[WrappedEntitlementView]


class PlanView(PlanSummary):
    fixed_charges: list[FixedChargeView]


def filter_view(charge: Charge, charge_filter: ChargeFilter) -> ChargeFilterView:
    """A charge filter, inside a charge or by itself."""
    return {
        "svc_id": charge_filter.id,
        "charge_code": charge.code,
        "invoice_display_name": charge_filter.invoice_display_name,
        "properties": displayed_properties(charge_filter.properties),
        "values": {key: list(values) for key, values in charge_filter.values.items()},
    }


def charge_view(reader: Reader, charge: Charge) -> ChargeView:
    """A charge with its metric, filters and taxes."""
    metric = priced_metric(reader, charge)
    unit = charge.applied_pricing_unit
    return {
        "svc_id": charge.id,
        "svc_billable_metric_id": charge.billable_metric_id,
        "code": charge.code,
        "invoice_display_name": charge.invoice_display_name,
        "billable_metric_code": None if metric is None else metric.code,
        "created_at": instant_text(charge.created_at),
        "charge_model": charge.charge_model,
        "invoiceable": charge.invoiceable,
        "regroup_paid_fees": charge.regroup_paid_fees,
        "pay_in_advance": charge.pay_in_advance,
        "prorated": charge.prorated,
        "min_amount_cents": charge.min_amount_cents,
        "accepts_target_wallet": charge.accepts_target_wallet,
        "properties": displayed_properties(charge.properties),
        "filters": [filter_view(charge, charge_filter) for charge_filter in charge.filters],
        "applied_pricing_unit": None
        if unit is None
        else {"code": unit.code, "conversion_rate": decimal_text(unit.conversion_rate)},
        "svc_parent_id": charge.parent_id,
        "taxes": taxes_view(reader, charge.tax_ids),
    }


def fixed_charge_view(reader: Reader, fixed_charge: FixedCharge) -> FixedChargeView:
    """A fixed charge with its add-on and taxes."""
    add_on = sold_add_on(reader, fixed_charge)
    return {
        "svc_id": fixed_charge.id,
        "svc_add_on_id": fixed_charge.add_on_id,
        "code": fixed_charge.code,
        "invoice_display_name": fixed_charge.invoice_display_name
        or (None if add_on is None else add_on.invoice_display_name or add_on.name),
        "add_on_code": None if add_on is None else add_on.code,
        "created_at": instant_text(fixed_charge.created_at),
        "charge_model": fixed_charge.charge_model,
        "pay_in_advance": fixed_charge.pay_in_advance,
        "prorated": fixed_charge.prorated,
        "properties": displayed_properties(fixed_charge.properties),
        "units": plain_number(fixed_charge.units),
        "svc_parent_id": fixed_charge.parent_id,
        "taxes": taxes_view(reader, fixed_charge.tax_ids),
    }


def _commitment_view(reader: Reader, plan: Plan, commitment: MinimumCommitment) -> CommitmentView:
    return {
        "svc_id": commitment.id,
        "plan_code": plan.code,
        "amount_cents": commitment.amount_cents,
        "interval": plan.interval,
        "invoice_display_name": commitment.invoice_display_name,
        "created_at": instant_text(commitment.created_at),
        "updated_at": instant_text(commitment.updated_at),
        "taxes": taxes_view(reader, commitment.tax_ids),
    }


def threshold_view(threshold: UsageThreshold) -> ThresholdView:
    """A usage threshold: cents, and whether it recurs."""
    return {
        "svc_id": threshold.id,
        "threshold_display_name": threshold.threshold_display_name,
        "amount_cents": threshold.amount_cents,
        "recurring": threshold.recurring,
        "created_at": instant_text(threshold.created_at),
        "updated_at": instant_text(threshold.updated_at),
    }


def _scheduled_view(prices: ScheduledPrices, codes: Mapping[str, str]) -> ScheduledPricesView:
    """What changes on a day, by code of the charges: what stays as it is left out."""
    shown: ScheduledPricesView = {
        "version": prices.version,
        "effective_on": prices.effective_on.isoformat(),
        "scheduled_at": instant_text(prices.scheduled_at),
        "charges": [_scheduled_charge(charge, codes) for charge in prices.charges if charge.charge_id in codes],
    }
    if prices.amount_cents is not None:
        shown["amount_cents"] = prices.amount_cents
    if prices.minimum_commitment is not None:
        shown["commitment_amount_cents"] = prices.minimum_commitment.amount_cents
    return shown


def _scheduled_charge(charge: ChargePrices, codes: Mapping[str, str]) -> ScheduledChargeView:
    shown: ScheduledChargeView = {"code": codes[charge.charge_id]}
    if charge.properties is not None:
        shown["properties"] = displayed_properties(charge.properties)
    if charge.filters is not None:
        shown["filters"] = [
            {
                "values": {key: list(values) for key, values in each.values.items()},
                "properties": displayed_properties(each.properties),
            }
            for each in charge.filters
        ]
    if charge.removed_filters:
        shown["svc_removed_filter_ids"] = list(charge.removed_filters)
    if charge.min_amount_cents is not None:
        shown["min_amount_cents"] = charge.min_amount_cents
    if charge.applied_pricing_unit is not None:
        unit = charge.applied_pricing_unit
        shown["applied_pricing_unit"] = {"code": unit.code, "conversion_rate": decimal_text(unit.conversion_rate)}
    return shown


def deleted_plan(reader: Reader, plan: Plan) -> DeletedPlan:
    """The plan without its fixed charges and entitlements."""
    shown: DeletedPlan = {
        "svc_id": plan.id,
        "name": plan.name,
        "invoice_display_name": plan.invoice_display_name,
        "created_at": instant_text(plan.created_at),
        "code": plan.code,
        "interval": plan.interval,
        "description": plan.description,
        "amount_cents": plan.amount_cents,
        "amount_currency": plan.amount_currency,
        "trial_period": None if plan.trial_period is None else plain_number(plan.trial_period),
        "pay_in_advance": plan.pay_in_advance,
        "bill_charges_monthly": plan.bill_charges_monthly,
        "bill_fixed_charges_monthly": plan.bill_fixed_charges_monthly,
        "customers_count": 0,
        "active_subscriptions_count": 0,
        "draft_invoices_count": 0,
        "parent_id": plan.parent_id,
        "pending_deletion": plan.pending_deletion,
        "offered_in_portal": plan.offered_in_portal,
        "prices_from": instant_text(plan.prices_from),
        "charges": [charge_view(reader, charge) for charge in plan_definition(reader, plan.id).charges],
        "taxes": taxes_view(reader, plan.tax_ids),
        "usage_thresholds": [threshold_view(threshold) for threshold in plan.usage_thresholds],
        "applicable_usage_thresholds": [
            {
                "threshold_display_name": threshold.threshold_display_name,
                "amount_cents": threshold.amount_cents,
                "recurring": threshold.recurring,
            }
            for threshold in plan_thresholds(reader, plan)
        ],
    }
    if plan.scheduled_prices:
        definition = plan_definition(reader, plan.id)
        codes = {charge.id: charge.code for charge in definition.charges}
        codes |= {charge.id: charge.code for charge in definition.fixed_charges}
        shown["scheduled_prices"] = [_scheduled_view(prices, codes) for prices in plan.scheduled_prices]
    if plan.minimum_commitment is not None:
        shown["minimum_commitment"] = _commitment_view(reader, plan, plan.minimum_commitment)
    if plan.metadata is not None:
        shown["metadata"] = dict(plan.metadata)
    return shown


def plan_summary(reader: Reader, plan: Plan) -> PlanSummary:
    """The plan as lists and messages show it: without its fixed charges."""
    return {**deleted_plan(reader, plan), "entitlements": wrapped_entitlements(reader, plan_features(reader, plan))}


def plan_view(reader: Reader, plan: Plan) -> PlanView:
    """The plan as single-record responses and subscriptions show it."""
    fixed_charges = plan_definition(reader, plan.id).fixed_charges
    return {
        **plan_summary(reader, plan),
        "fixed_charges": [fixed_charge_view(reader, fixed_charge) for fixed_charge in fixed_charges],
    }


class ChangedDefinitionView(TypedDict):
    kind: str
    svc_id: Id
    code: str | None
    activity: str
    changes: Mapping[str, object]


class PlanVersionView(TypedDict):
    version: int
    created_at: Instant
    source: str | None
    api_key_id: Id | None
    user_email: str | None
    request_id: str | None
    prices_from: Instant | None
    effective_on: Day | None
    subscriptions_count: int
    changes: list[ChangedDefinitionView]


def plan_version_view(reader: Reader, version: PlanVersion) -> PlanVersionView:
    """A version of a plan, with the values before and after of each field that it changed."""
    return {
        "version": version.version,
        "created_at": instant_text(version.created_at),
        "source": version.source,
        "api_key_id": version.api_key_id,
        "user_email": version.user_email,
        "request_id": version.request_id,
        "prices_from": instant_text(version.prices_from),
        "effective_on": date_text(version.effective_on),
        "subscriptions_count": version.subscriptions_count,
        "changes": [_changed_definition(reader, version.version, changed) for changed in version.changes],
    }


# Numbers of other records that use a definition, which do not belong to it.
_COUNTS = "_count"


def _changed_definition(reader: Reader, version: int, changed: ChangedDefinition) -> ChangedDefinitionView:
    before = _definition(reader.as_of(version - 1), changed.before)
    after = _definition(reader.as_of(version), changed.after)
    is_gone = getattr(changed.after, "deleted_at", None) is not None
    differences = {} if changed.before is None or is_gone else changed_values(before, after)
    return {
        "kind": changed.kind,
        "svc_id": changed.id,
        "code": getattr(changed.after or changed.before, "code", None),
        "activity": "created" if changed.before is None else "deleted" if is_gone else "updated",
        "changes": {name: values for name, values in differences.items() if not name.endswith(_COUNTS)},
    }


def _definition(reader: Reader, record: Definition | None) -> Mapping[str, object]:
    """A definition of a plan as JSON, by itself: charges of a plan are definitions of their own."""
    match record:
        case Plan():
            shown: Mapping[str, object] = {**deleted_plan(reader, record)}
            return {name: value for name, value in shown.items() if name != "charges"}
        case Charge():
            return {**charge_view(reader, record)}
        case FixedCharge():
            return {**fixed_charge_view(reader, record)}
        case BillableMetric():
            return {**billable_metric_view(reader, record)}
        case AddOn():
            return {**add_on_view(reader, record)}
        case Tax():
            return {**tax_view(reader, record)}
        case _:
            return {}
