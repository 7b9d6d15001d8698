"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.plans import ChargeFilter
from usagebill.core.price_comparisons import ComparedSubscription
from usagebill.core.pricing_units import PricingUnit
from usagebill.fields import (
    AppliedPricingUnitFields,
    Cascade,
    ChargeFields,
    ChargeFilterFields,
    ChargeProperties,
    CouponTargetsFields,
    ExpressionEventFields,
    FixedChargeFields,
    FixedChargeProperties,
    MetricFilterFields,
    MinimumCommitmentFields,
    Number,
    UsageThresholdFields,
)
from usagebill.records import AddOn, BillableMetric, Charge, Coupon, FixedCharge, Pages, Plan, Tax

class AddOns(Resource):
    """Items of one-off invoices and fixed charges."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        amount_cents: int,
        amount_currency: str,
        invoice_display_name: str | None = ...,
        description: str | None = ...,
        tax_codes: Sequence[str] | None = ...,
    ) -> AddOn:
        """A new add-on. Raises `Invalid`, and `NotFound` for an unknown tax.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        amount_cents: The price of one unit, before taxes. In cents. Required.
        amount_currency: The currency of the amount, ISO 4217. Required.
        invoice_display_name: The name on invoices. Default: its name.
        description: A text for people; it has no effect.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        amount_cents: int | None = ...,
        amount_currency: str | None = ...,
        invoice_display_name: str | None = ...,
        description: str | None = ...,
        tax_codes: Sequence[str] | None = ...,
    ) -> AddOn:
        """Change what is sent; `tax_codes` replaces the taxes. Raises as `create` does.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        amount_cents: The price of one unit, before taxes. In cents.
        amount_currency: The currency of the amount, ISO 4217.
        invoice_display_name: The name on invoices. Default: its name.
        description: A text for people; it has no effect.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        """

    def get(self, code: str) -> AddOn:
        """The add-on with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> AddOn:
        """Delete the add-on and the fixed charges built on it; fees stay, and the code is free again.

        code: Its code.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[AddOn]:
        """Add-ons, newest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class BillableMetrics(Resource):
    """How events become units."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        aggregation_type: Literal[
            "count_agg", "sum_agg", "max_agg", "latest_agg", "unique_count_agg", "weighted_sum_agg", "custom_agg"
        ],
        description: str | None = ...,
        field_name: str | None = ...,
        recurring: bool | None = ...,
        weighted_interval: Literal["seconds"] | None = ...,
        rounding_function: Literal["round", "ceil", "floor"] | None = ...,
        rounding_precision: int | None = ...,
        expression: str | None = ...,
        filters: Sequence[MetricFilterFields | Mapping[str, Any]] | None = ...,
    ) -> BillableMetric:
        """A new metric. Raises `Invalid`, and `Forbidden` for custom aggregations.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        aggregation_type: How events become units: counted, the values of `field_name` summed, and so on. One of count_agg, sum_agg, max_agg, latest_agg, unique_count_agg, weighted_sum_agg, custom_agg. Required.
        description: A text for people; it has no effect.
        field_name: The property of events whose values are aggregated; a count needs none.
        recurring: Whether units carry over into the next period. Default: false.
        weighted_interval: The time step of a weighted sum. One of seconds.
        rounding_function: How units are rounded before they are priced. One of round, ceil, floor.
        rounding_precision: The number of decimals that units are rounded to. Default: 0.
        expression: Computes the value of an event from its properties.
        filters: The properties by which prices may differ, and their values.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        description: str | None = ...,
        aggregation_type: Literal[
            "count_agg", "sum_agg", "max_agg", "latest_agg", "unique_count_agg", "weighted_sum_agg", "custom_agg"
        ]
        | None = ...,
        field_name: str | None = ...,
        recurring: bool | None = ...,
        weighted_interval: Literal["seconds"] | None = ...,
        rounding_function: Literal["round", "ceil", "floor"] | None = ...,
        rounding_precision: int | None = ...,
        expression: str | None = ...,
        filters: Sequence[MetricFilterFields | Mapping[str, Any]] | None = ...,
    ) -> BillableMetric:
        """Change what is sent; once a charge of a plan prices the metric, only name, description and filters change.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        description: A text for people; it has no effect.
        aggregation_type: How events become units: counted, the values of `field_name` summed, and so on. One of count_agg, sum_agg, max_agg, latest_agg, unique_count_agg, weighted_sum_agg, custom_agg.
        field_name: The property of events whose values are aggregated; a count needs none.
        recurring: Whether units carry over into the next period. Default: false.
        weighted_interval: The time step of a weighted sum. One of seconds.
        rounding_function: How units are rounded before they are priced. One of round, ceil, floor.
        rounding_precision: The number of decimals that units are rounded to. Default: 0.
        expression: Computes the value of an event from its properties.
        filters: The properties by which prices may differ, and their values.
        """

    def get(self, code: str) -> BillableMetric:
        """The metric with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> BillableMetric:
        """Delete the metric, every charge that prices it and every alert that watches it.

        Events and past fees stay; the code is free again.

        code: Its code.
        """

    def evaluate_expression(self, *, expression: str, event: ExpressionEventFields | Mapping[str, Any]) -> str:
        """The value of an expression for an event, as text; numbers are decimals. Raises `Invalid`.

        All property values count as text. The event's timestamp is in Unix seconds and defaults to now.

        expression: The expression to try. Required.
        event: An event to try the expression on. Required.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[BillableMetric]:
        """Billable metrics, newest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Coupons(Resource):
    """Discounts on invoices."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        coupon_type: Literal["fixed_amount", "percentage"],
        frequency: Literal["once", "recurring", "forever"],
        expiration: Literal["no_expiration", "time_limit"],
        description: str | None = ...,
        amount_cents: int | None = ...,
        amount_currency: str | None = ...,
        percentage_rate: Number | None = ...,
        frequency_duration: int | None = ...,
        expiration_at: date | str | None = ...,
        reusable: bool | None = ...,
        applies_to: CouponTargetsFields | Mapping[str, Any] | None = ...,
    ) -> Coupon:
        """A new coupon. Raises `Invalid`, and `NotFound` or `NotAllowed` for its targets.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        coupon_type: Whether it is an amount or a percentage. One of fixed_amount, percentage. Required.
        frequency: How many invoices it reduces. One of once, recurring, forever. Required.
        expiration: Whether it expires. One of no_expiration, time_limit. Required.
        description: A text for people; it has no effect.
        amount_cents: The total discount. In cents.
        amount_currency: The currency of the amount, ISO 4217.
        percentage_rate: The discount on each invoice. In percent.
        frequency_duration: How many invoices a recurring coupon reduces. In invoices.
        expiration_at: When it expires.
        reusable: Whether a customer may get it several times. Default: true.
        applies_to: The plans, metrics or fees it is limited to.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        description: str | None = ...,
        coupon_type: Literal["fixed_amount", "percentage"] | None = ...,
        amount_cents: int | None = ...,
        amount_currency: str | None = ...,
        percentage_rate: Number | None = ...,
        frequency: Literal["once", "recurring", "forever"] | None = ...,
        frequency_duration: int | None = ...,
        expiration: Literal["no_expiration", "time_limit"] | None = ...,
        expiration_at: date | str | None = ...,
        reusable: bool | None = ...,
        applies_to: CouponTargetsFields | Mapping[str, Any] | None = ...,
    ) -> Coupon:
        """Change a coupon. Once it has been applied to a customer, only its name, description and expiration change.

        Targets that are not sent stay. Raises `NotFound`, `NotAllowed` and `Invalid`.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        description: A text for people; it has no effect.
        coupon_type: Whether it is an amount or a percentage. One of fixed_amount, percentage.
        amount_cents: The total discount. In cents.
        amount_currency: The currency of the amount, ISO 4217.
        percentage_rate: The discount on each invoice. In percent.
        frequency: How many invoices it reduces. One of once, recurring, forever.
        frequency_duration: How many invoices a recurring coupon reduces. In invoices.
        expiration: Whether it expires. One of no_expiration, time_limit.
        expiration_at: When it expires.
        reusable: Whether a customer may get it several times. Default: true.
        applies_to: The plans, metrics or fees it is limited to.
        """

    def get(self, code: str) -> Coupon:
        """The coupon with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> Coupon:
        """Delete a coupon and end it for all customers. Raises `NotFound`.

        code: Its code.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[Coupon]:
        """Coupons: active ones first; then those without an expiry, then by expiry, soonest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Plans(Resource):
    """Price lists, with their charges, filters and fixed charges."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        interval: Literal["weekly", "monthly", "quarterly", "semiannual", "yearly"],
        amount_cents: int,
        amount_currency: str,
        pay_in_advance: bool,
        invoice_display_name: str | None = ...,
        description: str | None = ...,
        trial_period: Number | None = ...,
        bill_charges_monthly: bool | None = ...,
        bill_fixed_charges_monthly: bool | None = ...,
        tax_codes: Sequence[str] | None = ...,
        minimum_commitment: MinimumCommitmentFields | Mapping[str, Any] | None = ...,
        charges: Sequence[ChargeFields | Mapping[str, Any]] | None = ...,
        fixed_charges: Sequence[FixedChargeFields | Mapping[str, Any]] | None = ...,
        usage_thresholds: Sequence[UsageThresholdFields | Mapping[str, Any]] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> Plan:
        """A new plan with its charges, thresholds and commitment. Raises `Invalid`, and `NotFound` for references.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        interval: How often the plan is billed. One of weekly, monthly, quarterly, semiannual, yearly. Required.
        amount_cents: The fee of each interval, before taxes. In cents. Required.
        amount_currency: The currency of the amount, ISO 4217. Required.
        pay_in_advance: Whether the fee is paid at the start of each interval. Required.
        invoice_display_name: The name on invoices. Default: its name.
        description: A text for people; it has no effect.
        trial_period: How long the plan's fee is waived after the start. In days. Default: 0.
        bill_charges_monthly: Whether usage of a yearly or semiannual plan is billed every month. Default: false.
        bill_fixed_charges_monthly: Whether fixed charges of a yearly or semiannual plan are billed every month. Default: false.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        minimum_commitment: The minimum revenue per interval; any shortfall is billed at its end.
        charges: The prices of usage, one charge for each metric and price. An update replaces them all.
        fixed_charges: Charges that do not depend on usage. An update replaces them all.
        usage_thresholds: Amounts of lifetime usage at which usage is invoiced immediately.
        metadata: Your own values by key, stored and returned with it.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        invoice_display_name: str | None = ...,
        code: str | None = ...,
        interval: Literal["weekly", "monthly", "quarterly", "semiannual", "yearly"] | None = ...,
        description: str | None = ...,
        amount_cents: int | None = ...,
        amount_currency: str | None = ...,
        trial_period: Number | None = ...,
        pay_in_advance: bool | None = ...,
        bill_charges_monthly: bool | None = ...,
        bill_fixed_charges_monthly: bool | None = ...,
        tax_codes: Sequence[str] | None = ...,
        minimum_commitment: MinimumCommitmentFields | Mapping[str, Any] | None = ...,
        charges: Sequence[ChargeFields | Mapping[str, Any]] | None = ...,
        fixed_charges: Sequence[FixedChargeFields | Mapping[str, Any]] | None = ...,
        usage_thresholds: Sequence[UsageThresholdFields | Mapping[str, Any]] | None = ...,
        metadata: Mapping[str, str | None] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> Plan:
        """Change the sent fields of a plan. Raises `NotFound` and `Invalid`.

        Once a subscription has been on it, only names, description and amount change, and the prices of its charges.
        `charges` and `fixed_charges` are whole lists: those not named by id are removed. `cascade_updates` passes changes
        on to overrides.

        current_code: Its code.
        name: A readable name.
        invoice_display_name: The name on invoices. Default: its name.
        code: The code that identifies it, unique among its kind.
        interval: How often the plan is billed. One of weekly, monthly, quarterly, semiannual, yearly.
        description: A text for people; it has no effect.
        amount_cents: The fee of each interval, before taxes. In cents.
        amount_currency: The currency of the amount, ISO 4217.
        trial_period: How long the plan's fee is waived after the start. In days. Default: 0.
        pay_in_advance: Whether the fee is paid at the start of each interval.
        bill_charges_monthly: Whether usage of a yearly or semiannual plan is billed every month. Default: false.
        bill_fixed_charges_monthly: Whether fixed charges of a yearly or semiannual plan are billed every month. Default: false.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        minimum_commitment: The minimum revenue per interval; any shortfall is billed at its end.
        charges: The prices of usage, one charge for each metric and price. An update replaces them all.
        fixed_charges: Charges that do not depend on usage. An update replaces them all.
        usage_thresholds: Amounts of lifetime usage at which usage is invoiced immediately.
        metadata: Your own values by key, stored and returned with it.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def get(self, code: str) -> Plan:
        """The plan with this code, never an override. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> Plan:
        """Delete the plan and its overrides, and end every subscription on them, in a job. Raises `NotFound`.

        code: Its code.
        """

    def create_charge(
        self,
        current_code: str,
        /,
        *,
        code: str,
        billable_metric_id: str,
        charge_model: Literal[
            "standard", "graduated", "graduated_percentage", "package", "percentage", "volume", "dynamic", "custom"
        ],
        id: str | None = ...,
        invoice_display_name: str | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        invoiceable: bool | None = ...,
        regroup_paid_fees: Literal["invoice"] | None = ...,
        min_amount_cents: int | None = ...,
        accepts_target_wallet: bool | None = ...,
        properties: ChargeProperties | Mapping[str, Any] | None = ...,
        filters: Sequence[ChargeFilterFields | Mapping[str, Any]] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        applied_pricing_unit: AppliedPricingUnitFields | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> Charge:
        """Add a charge to a plan; its code is required. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        code: The code that identifies it, unique among its kind. Required.
        billable_metric_id: The billable metric that is priced, by id. Required.
        charge_model: How units are priced. One of standard, graduated, graduated_percentage, package, percentage, volume, dynamic, custom. Required.
        id: The id of an existing one; without it, a new one is added.
        invoice_display_name: The name on invoices. Default: its name.
        pay_in_advance: Whether it is billed at the start of a period; for usage, with each event. Default: false.
        prorated: Whether units are prorated by the part of the period in which they were active. Default: false.
        invoiceable: Whether each fee paid in advance gets an invoice. Default: true.
        regroup_paid_fees: `invoice`: paid fees without an invoice are put on one invoice per period. One of invoice.
        min_amount_cents: The minimum amount of the charge per period. In cents. Default: 0.
        accepts_target_wallet: Whether events may choose the wallet that pays for them. Default: false.
        properties: The prices, in the form of the charge model.
        filters: Other prices for events with certain properties.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        applied_pricing_unit: A pricing unit of your own, and its conversion rate.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def update_charge(
        self,
        current_code: str,
        charge_code: str,
        /,
        *,
        id: str | None = ...,
        code: str | None = ...,
        billable_metric_id: str | None = ...,
        charge_model: Literal[
            "standard", "graduated", "graduated_percentage", "package", "percentage", "volume", "dynamic", "custom"
        ]
        | None = ...,
        invoice_display_name: str | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        invoiceable: bool | None = ...,
        regroup_paid_fees: Literal["invoice"] | None = ...,
        min_amount_cents: int | None = ...,
        accepts_target_wallet: bool | None = ...,
        properties: ChargeProperties | Mapping[str, Any] | None = ...,
        filters: Sequence[ChargeFilterFields | Mapping[str, Any]] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        applied_pricing_unit: AppliedPricingUnitFields | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> Charge:
        """Change a charge, like an item of the plan's `charges`. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        charge_code: The charge, by code.
        id: The id of an existing one; without it, a new one is added.
        code: The code that identifies it, unique among its kind.
        billable_metric_id: The billable metric that is priced, by id.
        charge_model: How units are priced. One of standard, graduated, graduated_percentage, package, percentage, volume, dynamic, custom.
        invoice_display_name: The name on invoices. Default: its name.
        pay_in_advance: Whether it is billed at the start of a period; for usage, with each event. Default: false.
        prorated: Whether units are prorated by the part of the period in which they were active. Default: false.
        invoiceable: Whether each fee paid in advance gets an invoice. Default: true.
        regroup_paid_fees: `invoice`: paid fees without an invoice are put on one invoice per period. One of invoice.
        min_amount_cents: The minimum amount of the charge per period. In cents. Default: 0.
        accepts_target_wallet: Whether events may choose the wallet that pays for them. Default: false.
        properties: The prices, in the form of the charge model.
        filters: Other prices for events with certain properties.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        applied_pricing_unit: A pricing unit of your own, and its conversion rate.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def get_charge(self, code: str, charge_code: str) -> Charge:
        """One charge of a plan. Raises `NotFound`.

        code: Its code.
        charge_code: The charge, by code.
        """

    def list_charges(self, code: str, *, page: int = ..., per_page: int = ...) -> Pages[Charge]:
        """The charges of a plan, newest first. Raises `NotFound`.

        code: Its code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def delete_charge(
        self,
        code: str,
        charge_code: str,
        *,
        charge: Cascade | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> Charge:
        """Delete a charge with its filters. Raises `NotFound`.

        code: Its code.
        charge_code: The charge, by code.
        charge: The options, nested under the resource.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def create_filter(
        self,
        code: str,
        charge_code: str,
        *,
        properties: ChargeProperties | Mapping[str, Any],
        values: Mapping[str, Sequence[str]],
        invoice_display_name: str | None = ...,
        cascade_updates: bool | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Add a filter to a charge, even with the same values as another. Raises `NotFound` and `Invalid`.

        code: Its code.
        charge_code: The charge, by code.
        properties: Its prices, in the form of the charge's model. Required.
        values: Property -> the values that match. Required.
        invoice_display_name: The name on invoices. Default: its name.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def update_filter(
        self,
        code: str,
        charge_code: str,
        filter_id: str,
        *,
        invoice_display_name: str | None = ...,
        properties: ChargeProperties | Mapping[str, Any] | None = ...,
        values: Mapping[str, Sequence[str]] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Change the name or the properties of a filter; its values stay. Raises `NotFound` and `Invalid`.

        code: Its code.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        invoice_display_name: The name on invoices. Default: its name.
        properties: Its prices, in the form of the charge's model.
        values: Property -> the values that match.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def get_filter(self, code: str, charge_code: str, filter_id: str) -> tuple[Charge, ChargeFilter]:
        """One filter of a charge, with the charge. Raises `NotFound`.

        code: Its code.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        """

    def list_filters(
        self, code: str, charge_code: str, *, page: int = ..., per_page: int = ...
    ) -> Pages[tuple[Charge, ChargeFilter]]:
        """The filters of a charge, by last change, oldest first. Raises `NotFound`.

        code: Its code.
        charge_code: The charge, by code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def delete_filter(
        self,
        code: str,
        charge_code: str,
        filter_id: str,
        *,
        filter: Cascade | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> tuple[Charge, ChargeFilter]:
        """Remove a filter from a charge. Raises `NotFound`.

        code: Its code.
        charge_code: The charge, by code.
        filter_id: The filter, by id.
        filter: The options, nested under the resource.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def create_fixed_charge(
        self,
        current_code: str,
        /,
        *,
        code: str,
        charge_model: Literal["standard", "graduated", "volume"],
        id: str | None = ...,
        add_on_id: str | None = ...,
        add_on_code: str | None = ...,
        invoice_display_name: str | None = ...,
        units: Number | None = ...,
        apply_units_immediately: bool | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        properties: FixedChargeProperties | Mapping[str, Any] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> FixedCharge:
        """Add a fixed charge to a plan; its code is required. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        code: The code that identifies it, unique among its kind. Required.
        charge_model: How units are priced. One of standard, graduated, volume. Required.
        id: The id of an existing one; without it, a new one is added.
        add_on_id: The add-on, by id; alternatively its code.
        add_on_code: The add-on, by code.
        invoice_display_name: The name on invoices. Default: its name.
        units: The number of units charged. In units.
        apply_units_immediately: Whether changed units apply immediately, not from the next period. Default: false.
        pay_in_advance: Whether it is paid at the start of a period. Default: false.
        prorated: Whether the price is prorated for part of a period. Default: false.
        properties: The prices, in the form of the charge model.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def update_fixed_charge(
        self,
        current_code: str,
        fixed_charge_code: str,
        /,
        *,
        id: str | None = ...,
        code: str | None = ...,
        add_on_id: str | None = ...,
        add_on_code: str | None = ...,
        invoice_display_name: str | None = ...,
        units: Number | None = ...,
        apply_units_immediately: bool | None = ...,
        charge_model: Literal["standard", "graduated", "volume"] | None = ...,
        pay_in_advance: bool | None = ...,
        prorated: bool | None = ...,
        properties: FixedChargeProperties | Mapping[str, Any] | None = ...,
        tax_codes: Sequence[str] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> FixedCharge:
        """Change a fixed charge, like an item of the plan's `fixed_charges`. Raises `NotFound` and `Invalid`.

        current_code: Its code.
        fixed_charge_code: The fixed charge, by code.
        id: The id of an existing one; without it, a new one is added.
        code: The code that identifies it, unique among its kind.
        add_on_id: The add-on, by id; alternatively its code.
        add_on_code: The add-on, by code.
        invoice_display_name: The name on invoices. Default: its name.
        units: The number of units charged. In units.
        apply_units_immediately: Whether changed units apply immediately, not from the next period. Default: false.
        charge_model: How units are priced. One of standard, graduated, volume.
        pay_in_advance: Whether it is paid at the start of a period. Default: false.
        prorated: Whether the price is prorated for part of a period. Default: false.
        properties: The prices, in the form of the charge model.
        tax_codes: The taxes that apply, by code. Default: those of the level above.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def get_fixed_charge(self, code: str, fixed_charge_code: str) -> FixedCharge:
        """One fixed charge of a plan. Raises `NotFound`.

        code: Its code.
        fixed_charge_code: The fixed charge, by code.
        """

    def list_fixed_charges(self, code: str, *, page: int = ..., per_page: int = ...) -> Pages[FixedCharge]:
        """The fixed charges of a plan, newest first. Raises `NotFound`.

        code: Its code.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def delete_fixed_charge(
        self,
        code: str,
        fixed_charge_code: str,
        *,
        fixed_charge: Cascade | Mapping[str, Any] | None = ...,
        cascade_updates: bool | None = ...,
    ) -> FixedCharge:
        """Delete a fixed charge. Raises `NotFound`.

        code: Its code.
        fixed_charge_code: The fixed charge, by code.
        fixed_charge: The options, nested under the resource.
        cascade_updates: Whether overrides of the plan change too, where they still have the plan's values. Default: false.
        """

    def replace_metadata(
        self, code: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Replace the metadata of the plan; if absent, nothing changes. Raises `NotFound` and `Invalid`.

        code: Its code.
        metadata: Your own values by key, stored and returned with it.
        """

    def merge_metadata(
        self, code: str, *, metadata: Mapping[str, str | None] | None = ...
    ) -> Mapping[str, str | None] | None:
        """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`.

        code: Its code.
        metadata: Your own values by key, stored and returned with it.
        """

    def delete_metadata(self, code: str) -> None:
        """Remove the plan's metadata, if there is any. Raises `NotFound`.

        code: Its code.
        """

    def delete_metadata_key(self, code: str, key: str) -> Mapping[str, str | None]:
        """Remove one key, if present. Raises `NotFound` for the plan, or if it has no metadata.

        code: Its code.
        key: The key.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[Plan]:
        """Catalog plans (no overrides), newest first, including those being deleted.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def compare(
        self, code: str, other: str | Mapping[str, Any], start: date | None = ..., end: date | None = ...
    ) -> Sequence[ComparedSubscription]:
        """Last month of each subscription of the plan, under its own prices and under those of another plan.

        `other` is a plan's code, or the fields of `create`; its charges may name a `billable_metric_code`. `start` and
        `end` (both inclusive) select other days. Amounts are before taxes, coupons and credits; nothing is stored.
        Raises `NotFound`, and `Invalid` also for plans in different currencies.
        """

class PricingUnits(Resource):
    """The seller's own units of price."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(self, *, name: str, code: str, short_name: str, description: str | None = ...) -> PricingUnit:
        """A new pricing unit. Raises `Invalid`: all names are required, `short_name` has at most 3 characters.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        short_name: The symbol shown with prices, up to three letters. Required.
        description: A text for people; it has no effect.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[PricingUnit]:
        """Pricing units, newest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Taxes(Resource):
    """Rates, and where they apply."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        name: str,
        code: str,
        rate: Number,
        description: str | None = ...,
        applied_to_organization: bool | None = ...,
    ) -> Tax:
        """A new tax; `applied_to_organization` attaches it to the default billing entity. Raises `Invalid`.

        name: A readable name. Required.
        code: The code that identifies it, unique among its kind. Required.
        rate: The rate of the tax. In percent. Required.
        description: A text for people; it has no effect.
        applied_to_organization: Whether it applies to all customers without taxes of their own. Default: false.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        name: str | None = ...,
        code: str | None = ...,
        rate: Number | None = ...,
        description: str | None = ...,
        applied_to_organization: bool | None = ...,
    ) -> Tax:
        """Change what is sent; drafts of customers with the tax, before or after the change, are recomputed.

        current_code: Its code.
        name: A readable name.
        code: The code that identifies it, unique among its kind.
        rate: The rate of the tax. In percent.
        description: A text for people; it has no effect.
        applied_to_organization: Whether it applies to all customers without taxes of their own. Default: false.
        """

    def get(self, code: str) -> Tax:
        """The tax with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> Tax:
        """Delete the tax and detach it everywhere; issued documents keep their copies.

        code: Its code.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[Tax]:
        """Taxes by name.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
