"""Inputs of operations on plans and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.requests.inputs import ABSENT, Input, Maybe, described


@Input
class AppliedPricingUnitInput:
    code: Maybe[str] = described(required="always")
    conversion_rate: Maybe[object] = described(required="always")


@Input
class ChargeFilterInput:
    invoice_display_name: Maybe[str] = ABSENT
    properties: Maybe[Mapping[str, object]] = described(
        "Its prices, in the form of the charge's model.", example={"amount": "0.2"}, required="new", most=None
    )
    values: Maybe[Mapping[str, object]] = described(
        "Property -> the values that match.",
        example={"region": ["us", "eu"]},
        required="new",
        most=limits.MOST_FILTER_VALUES,
    )
    cascade_updates: Maybe[bool] = ABSENT


@Input
class ChargeFilterUpdate(ChargeFilterInput):
    """A change of a filter."""

    effective: Maybe[str] = ABSENT


@Input
class ChargeInput:
    """A usage charge of a plan; with the `id` of an existing one it changes that."""

    id: Maybe[str] = ABSENT
    code: Maybe[str] = described(required="create")
    billable_metric_id: Maybe[str] = described("The billable metric that is priced, by id; alternatively its code.")
    billable_metric_code: Maybe[str] = ABSENT
    charge_model: Maybe[str] = described(required="new")
    invoice_display_name: Maybe[str] = ABSENT
    pay_in_advance: Maybe[bool] = ABSENT
    prorated: Maybe[bool] = ABSENT
    invoiceable: Maybe[bool] = described("Whether each fee paid in advance gets an invoice.", default="true")
    regroup_paid_fees: Maybe[str] = described(
        "`invoice`: paid fees without an invoice are put on one invoice per period.", values=("invoice",)
    )
    min_amount_cents: Maybe[Annotated[int, limits.CHARGE_MINIMUM]] = described(
        "The minimum amount of the charge per period.", unit="cents", default="0"
    )
    accepts_target_wallet: Maybe[bool] = described(
        "Whether events may choose the wallet that pays for them.", default="false"
    )
    properties: Maybe[Mapping[str, object]] = described(most=None)
    filters: Maybe[tuple[ChargeFilterInput, ...]] = described(most=limits.MOST_FILTERS)
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    applied_pricing_unit: Maybe[AppliedPricingUnitInput] = described(
        "A pricing unit of your own, and its conversion rate."
    )
    cascade_updates: Maybe[bool] = ABSENT


@Input
class ChargeUpdate(ChargeInput):
    """A change of a usage charge."""

    effective: Maybe[str] = ABSENT


@Input
class FixedChargeInput:
    """A fixed charge of a plan; with the `id` of an existing one it changes that."""

    id: Maybe[str] = ABSENT
    code: Maybe[str] = described(required="create")
    add_on_id: Maybe[str] = described("The add-on, by id; alternatively its code.")
    add_on_code: Maybe[str] = ABSENT
    invoice_display_name: Maybe[str] = ABSENT
    units: Maybe[object] = described("The number of units charged.", unit="units", example="3")
    apply_units_immediately: Maybe[bool] = described(
        "Whether changed units apply immediately, not from the next period.", default="false"
    )
    charge_model: Maybe[str] = described(required="new")
    pay_in_advance: Maybe[bool] = described("Whether it is paid at the start of a period.", default="false")
    prorated: Maybe[bool] = described("Whether the price is prorated for part of a period.", default="false")
    properties: Maybe[Mapping[str, object]] = described(most=None)
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FixedChargeUpdate(FixedChargeInput):
    """A change of a fixed charge."""

    effective: Maybe[str] = ABSENT


@Input
class MinimumCommitmentInput:
    amount_cents: Maybe[Annotated[int, limits.COMMITMENT]] = described(
        "The minimum per interval, before taxes.", unit="cents", required="always"
    )
    invoice_display_name: Maybe[str] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT


@Input
class UsageThresholdInput:
    amount_cents: Maybe[Annotated[int, limits.THRESHOLD]] = described(
        "The lifetime usage at which usage is invoiced.", unit="cents", example=10000, required="always"
    )
    threshold_display_name: Maybe[str] = described("The name of the threshold on invoices.", example="First 100 euros")
    recurring: Maybe[bool] = described("Whether every multiple is a threshold.", default="false")


@Input
class PlanInput:
    """A plan. Money is in cents of `amount_currency`, `trial_period` in days."""

    name: Maybe[str] = described(required="create")
    invoice_display_name: Maybe[str] = ABSENT
    code: Maybe[str] = described(required="create")
    interval: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT
    amount_cents: Maybe[Annotated[int, limits.PLAN_FEE]] = described(
        "The fee of each interval, before taxes.", unit="cents", example=4900, required="create"
    )
    amount_currency: Maybe[str] = described(required="create")
    trial_period: Maybe[Annotated[Decimal, limits.TRIAL]] = ABSENT
    pay_in_advance: Maybe[bool] = described("Whether the fee is paid at the start of each interval.", required="create")
    bill_charges_monthly: Maybe[bool] = described(
        "Whether usage of a yearly or semiannual plan is billed every month.", default="false"
    )
    bill_fixed_charges_monthly: Maybe[bool] = described(
        "Whether fixed charges of a yearly or semiannual plan are billed every month.", default="false"
    )
    offered_in_portal: Maybe[bool] = ABSENT
    tax_codes: Maybe[tuple[str, ...]] = ABSENT
    minimum_commitment: Maybe[MinimumCommitmentInput] = ABSENT
    charges: Maybe[tuple[ChargeInput, ...]] = ABSENT
    fixed_charges: Maybe[tuple[FixedChargeInput, ...]] = ABSENT
    usage_thresholds: Maybe[tuple[UsageThresholdInput, ...]] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT
    cascade_updates: Maybe[bool] = ABSENT


@Input
class PlanUpdate(PlanInput):
    """A change of a plan."""

    effective: Maybe[str] = ABSENT


@Input
class ScheduledPricesUpdate:
    """Another day for scheduled prices."""

    effective_on: Maybe[str] = described(
        "The day, in the customer's time zone, from which they count instead.", required="always", example="2030-01-01"
    )


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

    charge: Maybe[Cascade] = described("The options, nested under the resource.")
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FilterOptions:
    filter: Maybe[Cascade] = described("The options, nested under the resource.")
    cascade_updates: Maybe[bool] = ABSENT


@Input
class FixedChargeOptions:
    fixed_charge: Maybe[Cascade] = described("The options, nested under the resource.")
    cascade_updates: Maybe[bool] = ABSENT
