"""Plans: what a customer subscribes to, with its usage charges, fixed charges, commitment and thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.add_ons import AddOn
from usagebill.core.billable_metrics import BillableMetric

__all__ = [
    "INTERVALS",
    "AppliedPricingUnit",
    "Charge",
    "ChargeFilter",
    "FixedCharge",
    "FixedChargeUnits",
    "MinimumCommitment",
    "Plan",
    "PlanDefinition",
    "UsageThreshold",
]

INTERVALS = ("weekly", "monthly", "quarterly", "semiannual", "yearly")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumCommitment:
    id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    tax_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageThreshold:
    id: str
    amount_cents: int
    created_at: datetime
    updated_at: datetime
    recurring: bool = False
    threshold_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A price list. `parent_id` marks an override: a child plan of one subscription, with the parent's code.

    `trial_period` is in days. The two monthly flags are null except on yearly and semiannual plans.
    """

    id: str
    organization_id: str
    name: str
    code: str
    interval: str
    amount_cents: int
    amount_currency: str
    pay_in_advance: bool
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    description: str | None = None
    trial_period: Decimal | None = None
    bill_charges_monthly: bool | None = None
    bill_fixed_charges_monthly: bool | None = None
    minimum_commitment: MinimumCommitment | None = None
    usage_thresholds: tuple[UsageThreshold, ...] = ()
    tax_ids: tuple[str, ...] = ()
    metadata: Mapping[str, str | None] | None = None
    parent_id: str | None = None
    pending_deletion: bool = False
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPricingUnit:
    """Prices of the charge are in this pricing unit; one unit is `conversion_rate` of the plan's currency."""

    pricing_unit_id: str
    code: str
    short_name: str
    conversion_rate: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeFilter:
    """An alternative price for the events whose properties match `values` (key -> accepted values)."""

    id: str
    values: Mapping[str, tuple[str, ...]]
    properties: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A usage charge: the price of a billable metric on a plan. `properties` hold what its charge model needs."""

    id: str
    organization_id: str
    plan_id: str
    billable_metric_id: str
    code: str
    charge_model: str
    properties: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    filters: tuple[ChargeFilter, ...] = ()
    invoice_display_name: str | None = None
    pay_in_advance: bool = False
    prorated: bool = False
    invoiceable: bool = True
    regroup_paid_fees: str | None = None
    min_amount_cents: int = 0
    accepts_target_wallet: bool = False
    applied_pricing_unit: AppliedPricingUnit | None = None
    tax_ids: tuple[str, ...] = ()
    parent_id: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCharge:
    """A charge for a given number of units of an add-on, independent of usage."""

    id: str
    organization_id: str
    plan_id: str
    add_on_id: str
    code: str
    charge_model: str
    properties: Mapping[str, object]
    units: Decimal
    created_at: datetime
    updated_at: datetime
    invoice_display_name: str | None = None
    pay_in_advance: bool = False
    prorated: bool = False
    tax_ids: tuple[str, ...] = ()
    parent_id: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedChargeUnits:
    """From `effective_at` on, the subscription has `units` of the fixed charge; `created_at` is when that was decided.

    A fixed charge that was deleted has 0 units from then on.
    """

    id: str
    organization_id: str
    subscription_id: str
    fixed_charge_id: str
    units: Decimal
    effective_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDefinition:
    """A plan with its live charges, in the order in which they were made, and what these price, by id."""

    plan: Plan
    charges: tuple[Charge, ...]
    fixed_charges: tuple[FixedCharge, ...]
    metrics: Mapping[str, BillableMetric]
    add_ons: Mapping[str, AddOn]
