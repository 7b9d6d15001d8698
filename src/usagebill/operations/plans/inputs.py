"""Inputs of operations on plans and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.inputs import ABSENT, Input, Maybe, up_to


@Input
class AppliedPricingUnitInput:
    code: Maybe[str] = ABSENT
    conversion_rate: Maybe[object] = ABSENT


@Input
class ChargeFilterInput:
    invoice_display_name: Maybe[str] = ABSENT
    properties: Maybe[Mapping[str, object]] = up_to(None)
    values: Maybe[Mapping[str, object]] = up_to(None)
    cascade_updates: Maybe[bool] = ABSENT


@Input
class ChargeInput:
    """A usage charge of a plan; with the `id` of an existing one it changes that."""

    id: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    billable_metric_id: Maybe[str] = ABSENT
    charge_model: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    pay_in_advance: Maybe[bool] = ABSENT
    prorated: Maybe[bool] = ABSENT
    invoiceable: Maybe[bool] = ABSENT
    regroup_paid_fees: Maybe[str] = ABSENT
    min_amount_cents: Maybe[Annotated[int, limits.CHARGE_MINIMUM]] = ABSENT
    accepts_target_wallet: Maybe[bool] = ABSENT
    properties: Maybe[Mapping[str, object]] = up_to(None)
    filters: Maybe[tuple[ChargeFilterInput, ...]] = up_to(None)
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    applied_pricing_unit: Maybe[AppliedPricingUnitInput] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FixedChargeInput:
    """A fixed charge of a plan; with the `id` of an existing one it changes that."""

    id: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    add_on_id: Maybe[str] = ABSENT
    add_on_code: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    units: Maybe[object] = ABSENT
    apply_units_immediately: Maybe[bool] = ABSENT
    charge_model: Maybe[str] = ABSENT
    pay_in_advance: Maybe[bool] = ABSENT
    prorated: Maybe[bool] = ABSENT
    properties: Maybe[Mapping[str, object]] = up_to(None)
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class MinimumCommitmentInput:
    amount_cents: Maybe[Annotated[int, limits.COMMITMENT]] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class UsageThresholdInput:
    amount_cents: Maybe[Annotated[int, limits.THRESHOLD]] = ABSENT
    threshold_display_name: Maybe[str] = ABSENT
    recurring: Maybe[bool] = ABSENT


@Input
class PlanInput:
    """A plan. Money is in cents of `amount_currency`, `trial_period` in days."""

    name: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    interval: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    amount_cents: Maybe[Annotated[int, limits.PLAN_FEE]] = ABSENT
    amount_currency: Maybe[str] = ABSENT
    trial_period: Maybe[Annotated[Decimal, limits.TRIAL]] = ABSENT
    pay_in_advance: Maybe[bool] = ABSENT
    bill_charges_monthly: Maybe[bool] = ABSENT
    bill_fixed_charges_monthly: Maybe[bool] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    minimum_commitment: Maybe[MinimumCommitmentInput] = ABSENT
    charges: Maybe[tuple[ChargeInput, ...]] = ABSENT
    fixed_charges: Maybe[tuple[FixedChargeInput, ...]] = ABSENT
    usage_thresholds: Maybe[tuple[UsageThresholdInput, ...]] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class PlanOverridesInput:
    """The fields that one subscription's own copy of a plan changes; charges are named by the `id` of the plan's."""

    name: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    amount_cents: Maybe[Annotated[int, limits.PLAN_FEE]] = ABSENT
    amount_currency: Maybe[str] = ABSENT
    trial_period: Maybe[Annotated[Decimal, limits.TRIAL]] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    minimum_commitment: Maybe[MinimumCommitmentInput] = ABSENT
    charges: Maybe[tuple[ChargeInput, ...]] = ABSENT
    fixed_charges: Maybe[tuple[FixedChargeInput, ...]] = ABSENT
    usage_thresholds: Maybe[tuple[UsageThresholdInput, ...]] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT


@Input
class MetadataInput:
    metadata: Maybe[Mapping[str, object]] = ABSENT


@Input
class Cascade:
    cascade_updates: Maybe[bool] = ABSENT


@Input
class ChargeOptions:
    """Options of a deletion, in body or query: `cascade_updates` by itself, or nested under the resource."""

    charge: Maybe[Cascade] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FilterOptions:
    filter: Maybe[Cascade] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FixedChargeOptions:
    fixed_charge: Maybe[Cascade] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT
