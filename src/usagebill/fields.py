"""Types of nested arguments of the library: `charge: ChargeFields = {...}`.

Made from the reference by `python -m tests.library_stubs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, Required, TypeAlias, TypedDict

# A quantity, rate or price, exactly.
Number: TypeAlias = int | Decimal | str


class ActivationRuleFields(TypedDict, total=False):
    """A condition for the activation of a subscription."""

    type: Required[Literal["payment"]]
    timeout_hours: int | None


class AddressFields(TypedDict, total=False):
    address_line1: str | None
    address_line2: str | None
    city: str | None
    state: str | None
    zipcode: str | None
    country: str | None


class AlertFields(TypedDict, total=False):
    """`billable_metric_code` is the metric watched by alerts of the `billable_metric_` types."""

    alert_type: (
        Literal[
            "current_usage_amount",
            "billable_metric_current_usage_amount",
            "billable_metric_current_usage_units",
            "lifetime_usage_amount",
            "billable_metric_lifetime_usage_units",
            "wallet_balance_amount",
            "wallet_credits_balance",
            "wallet_ongoing_balance_amount",
            "wallet_credits_ongoing_balance",
        ]
        | None
    )
    code: str | None
    name: str | None
    billable_metric_code: str | None
    thresholds: Sequence[AlertThresholdFields | Mapping[str, Any]] | None


class AlertThresholdFields(TypedDict, total=False):
    """`value` is a number, or one as text: cents, units or credits, depending on the alert's type."""

    code: str | None
    value: Required[Number]
    recurring: bool | None


class AppliedPricingUnitFields(TypedDict, total=False):
    code: Required[str]
    conversion_rate: Required[Number]


class AppliesToFields(TypedDict, total=False):
    """The fee types, or the metrics of charges, that the wallet pays for. Two empty lists: everything."""

    fee_types: Sequence[str] | None
    billable_metric_codes: Sequence[str] | None


class AuthorizationFields(TypedDict, total=False):
    """An amount for Stripe to authorize on the customer's payment method: cents of a currency, above zero."""

    amount_cents: int | None
    amount_currency: str | None


class BillingConfigurationFields(TypedDict, total=False):
    invoice_grace_period: int | None
    subscription_invoice_issuing_date_anchor: Literal["current_period_end", "next_period_start"] | None
    subscription_invoice_issuing_date_adjustment: Literal["keep_anchor", "align_with_finalization_date"] | None
    document_locale: Literal["en", "fr", "nb", "de", "it", "es", "sv", "pt-BR", "zh-TW"] | None
    payment_provider: Literal["stripe", "gocardless", "adyen", "cashfree", "flutterwave", "moneyhash"] | None
    payment_provider_code: str | None
    provider_customer_id: str | None
    sync: bool | None
    sync_with_provider: bool | None
    provider_payment_methods: Sequence[str] | None


class Cascade(TypedDict, total=False):
    cascade_updates: bool | None


class ChargeFields(TypedDict, total=False):
    """A usage charge of a plan; with the `id` of an existing one it changes that."""

    id: str | None
    code: str | None
    billable_metric_id: str | None
    charge_model: (
        Literal["standard", "graduated", "graduated_percentage", "package", "percentage", "volume", "dynamic", "custom"]
        | None
    )
    invoice_display_name: str | None
    pay_in_advance: bool | None
    prorated: bool | None
    invoiceable: bool | None
    regroup_paid_fees: Literal["invoice"] | None
    min_amount_cents: int | None
    accepts_target_wallet: bool | None
    properties: ChargeProperties | Mapping[str, Any] | None
    filters: Sequence[ChargeFilterFields | Mapping[str, Any]] | None
    tax_codes: Sequence[str] | None
    applied_pricing_unit: AppliedPricingUnitFields | Mapping[str, Any] | None
    cascade_updates: bool | None


class ChargeFilterFields(TypedDict, total=False):
    invoice_display_name: str | None
    properties: ChargeProperties | Mapping[str, Any] | None
    values: Mapping[str, Sequence[str]] | None
    cascade_updates: bool | None


class ChargeProperties(TypedDict, total=False):
    """The prices of a charge: the fields of its charge model."""

    amount: Number
    pricing_group_keys: Sequence[str]
    presentation_group_keys: Sequence[PresentationKey | Mapping[str, Any]]
    graduated_ranges: Sequence[GraduatedRange | Mapping[str, Any]]
    graduated_percentage_ranges: Sequence[GraduatedPercentageRange | Mapping[str, Any]]
    volume_ranges: Sequence[VolumeRange | Mapping[str, Any]]
    package_size: int
    free_units: int
    rate: Number
    fixed_amount: Number
    free_units_per_events: int
    free_units_per_total_aggregation: Number
    per_transaction_min_amount: Number
    per_transaction_max_amount: Number
    custom_properties: Mapping[str, object]


class CloudEventFields(TypedDict, total=False):
    """A usage event as a CloudEvent 1.0."""

    specversion: Required[Literal["1.0"]]
    id: Required[str]
    source: Required[str]
    type: Required[str]
    subject: Required[str]
    time: date | str | None
    data: Mapping[str, object] | None
    precisetotalamountcents: Number | None


class CouponFields(TypedDict, total=False):
    """`amount_cents` and currency for a fixed_amount coupon, `percentage_rate` (percent) for a percentage one."""

    name: str | None
    code: str | None
    description: str | None
    coupon_type: Literal["fixed_amount", "percentage"] | None
    amount_cents: int | None
    amount_currency: str | None
    percentage_rate: Number | None
    frequency: Literal["once", "recurring", "forever"] | None
    frequency_duration: int | None
    expiration: Literal["no_expiration", "time_limit"] | None
    expiration_at: date | str | None
    reusable: bool | None
    applies_to: CouponTargetsFields | Mapping[str, Any] | None


class CouponTargetsFields(TypedDict, total=False):
    """The targets of a coupon: plans or metrics by code, not both. An empty list is no limit."""

    plan_codes: Sequence[str] | None
    billable_metric_codes: Sequence[str] | None


class CreditNoteItemFields(TypedDict, total=False):
    """The credited amount of one fee."""

    fee_id: Required[str]
    amount_cents: int | None


class CustomSectionChoice(TypedDict, total=False):
    """The custom sections of the subscription's invoices; with `skip` none at all."""

    skip_invoice_custom_sections: bool | None
    invoice_custom_section_codes: Sequence[str] | None


class CustomerFields(TypedDict, total=False):
    external_id: str | None
    billing_entity_code: str | None
    name: str | None
    firstname: str | None
    lastname: str | None
    customer_type: Literal["company", "individual"] | None
    account_type: Literal["customer", "partner"] | None
    currency: str | None
    email: str | None
    phone: str | None
    url: str | None
    logo_url: str | None
    legal_name: str | None
    legal_number: str | None
    tax_identification_number: str | None
    address_line1: str | None
    address_line2: str | None
    city: str | None
    state: str | None
    zipcode: str | None
    country: str | None
    shipping_address: AddressFields | Mapping[str, Any] | None
    timezone: str | None
    net_payment_term: int | None
    finalize_zero_amount_invoice: Literal["inherit", "skip", "finalize"] | None
    skip_invoice_custom_sections: bool | None
    invoice_custom_section_codes: Sequence[str] | None
    billing_configuration: BillingConfigurationFields | Mapping[str, Any] | None
    metadata: Sequence[CustomerMetadataFields | Mapping[str, Any]] | None
    tax_codes: Sequence[str] | None
    integration_customers: Sequence[IntegrationCustomerFields | Mapping[str, Any]] | None
    applied_dunning_campaign_code: str | None
    exclude_from_dunning_campaign: bool | None


class CustomerMetadataFields(TypedDict, total=False):
    id: str | None
    key: Required[str]
    value: Required[str]
    display_in_invoice: bool | None


class DunningThresholdFields(TypedDict, total=False):
    """The overdue amount, in cents of a currency, from which customers are asked to pay (inclusive)."""

    amount_cents: Required[int]
    currency: Required[str]


class EntityConfigurationFields(TypedDict, total=False):
    invoice_footer: str | None
    document_locale: Literal["en", "fr", "nb", "de", "it", "es", "sv", "pt-BR", "zh-TW"] | None
    invoice_grace_period: int | None
    subscription_invoice_issuing_date_anchor: Literal["current_period_end", "next_period_start"] | None
    subscription_invoice_issuing_date_adjustment: Literal["keep_anchor", "align_with_finalization_date"] | None


class EventFields(TypedDict, total=False):
    """A usage event."""

    transaction_id: Required[str]
    code: Required[str]
    external_subscription_id: str | None
    timestamp: date | Number | float | None
    precise_total_amount_cents: Number | None
    properties: Mapping[str, object] | None


class ExpressionEventFields(TypedDict, total=False):
    code: str | None
    timestamp: str | None
    properties: Required[Mapping[str, object]]


class FixedChargeFields(TypedDict, total=False):
    """A fixed charge of a plan; with the `id` of an existing one it changes that."""

    id: str | None
    code: str | None
    add_on_id: str | None
    add_on_code: str | None
    invoice_display_name: str | None
    units: Number | None
    apply_units_immediately: bool | None
    charge_model: Literal["standard", "graduated", "volume"] | None
    pay_in_advance: bool | None
    prorated: bool | None
    properties: FixedChargeProperties | Mapping[str, Any] | None
    tax_codes: Sequence[str] | None
    cascade_updates: bool | None


class FixedChargeProperties(TypedDict, total=False):
    """The prices of a fixed charge."""

    amount: Number
    pricing_group_keys: Sequence[str]
    presentation_group_keys: Sequence[PresentationKey | Mapping[str, Any]]
    graduated_ranges: Sequence[GraduatedRange | Mapping[str, Any]]
    volume_ranges: Sequence[VolumeRange | Mapping[str, Any]]


class GraduatedPercentageRange(TypedDict, total=False):
    from_value: Required[int]
    to_value: Required[int | None]
    rate: Required[Number]
    flat_amount: Required[Number]


class GraduatedRange(TypedDict, total=False):
    from_value: Required[int]
    to_value: Required[int | None]
    per_unit_amount: Required[Number]
    flat_amount: Required[Number]


class IntegrationCustomerFields(TypedDict, total=False):
    """`id` is that of an existing link."""

    id: str | None
    integration_type: Literal["anrok", "avalara", "netsuite", "xero", "hubspot", "salesforce"] | None
    integration_code: str | None
    external_customer_id: str | None
    sync_with_provider: bool | None
    subsidiary_id: str | None
    targeted_object: str | None


class MetadataItemFields(TypedDict, total=False):
    """A metadata item; with the id of an existing item it changes that."""

    id: str | None
    key: Required[str]
    value: Required[str]


class MetadataPair(TypedDict, total=False):
    key: str | None
    value: str | None


class MetricFilterFields(TypedDict, total=False):
    key: Required[str]
    values: Required[Sequence[str]]


class MinimumCommitmentFields(TypedDict, total=False):
    amount_cents: Required[int]
    invoice_display_name: str | None
    tax_codes: Sequence[str] | None


class OneOffFeeFields(TypedDict, total=False):
    """`unit_amount_cents` defaults to the add-on's, `units` to 1. Known `tax_codes` replace its taxes."""

    add_on_code: Required[str]
    unit_amount_cents: int | None
    units: Number | None
    description: str | None
    invoice_display_name: str | None
    tax_codes: Sequence[str] | None
    from_datetime: date | str | None
    to_datetime: date | str | None


class PaymentMethodChoice(TypedDict, total=False):
    """How an invoice is paid: through the customer's provider, by one of its methods, or by hand."""

    payment_method_type: Literal["provider", "manual"] | None
    payment_method_id: str | None


class PlanOverridesFields(TypedDict, total=False):
    """The fields that one subscription's own copy of a plan changes; charges are named by the `id` of the plan's."""

    name: str | None
    invoice_display_name: str | None
    description: str | None
    amount_cents: int | None
    amount_currency: str | None
    trial_period: Number | None
    tax_codes: Sequence[str] | None
    minimum_commitment: MinimumCommitmentFields | Mapping[str, Any] | None
    charges: Sequence[ChargeFields | Mapping[str, Any]] | None
    fixed_charges: Sequence[FixedChargeFields | Mapping[str, Any]] | None
    usage_thresholds: Sequence[UsageThresholdFields | Mapping[str, Any]] | None
    metadata: Mapping[str, str | None] | None


class PresentationKey(TypedDict, total=False):
    value: Required[str]
    options: PresentationOptions | Mapping[str, Any] | None


class PresentationOptions(TypedDict, total=False):
    display_in_invoice: bool | None


class PreviewSubscriptions(TypedDict, total=False):
    """Which subscriptions to preview, and what happens to them."""

    external_ids: Required[Sequence[str]]
    plan_code: str | None
    terminated_at: date | str | None


class PrivilegeConfig(TypedDict, total=False):
    select_options: Required[Sequence[str]]


class PrivilegeFields(TypedDict, total=False):
    """`value_type` is integer, boolean, string or select; a select has `config: {"select_options": [...]}`."""

    code: Required[str]
    name: str | None
    value_type: Literal["integer", "boolean", "string", "select"] | None
    config: PrivilegeConfig | Mapping[str, Any] | None


class RegeneratedFeeFields(TypedDict, total=False):
    """A line of the voided invoice (`id`) to keep, with changes, or a new line.

    `unit_amount` is in major units of the currency."""

    id: str | None
    subscription_id: str | None
    charge_id: str | None
    charge_filter_id: str | None
    fixed_charge_id: str | None
    units: Number | None
    unit_amount: Number | None
    invoice_display_name: str | None


class RuleFields(TypedDict, total=False):
    """A recurring top-up, with credits as text; with the id of the wallet's rule it changes that."""

    svc_id: str | None
    trigger: Literal["interval", "threshold"] | None
    method: Literal["fixed", "target"] | None
    interval: Literal["weekly", "monthly", "quarterly", "semiannual", "yearly"] | None
    threshold_credits: Number | None
    paid_credits: Number | None
    granted_credits: Number | None
    target_ongoing_balance: Number | None
    grants_target_top_up: bool | None
    started_at: date | str | None
    expiration_at: date | str | None
    invoice_requires_successful_payment: bool | None
    ignore_paid_top_up_limits: bool | None
    transaction_name: str | None
    transaction_metadata: Sequence[MetadataPair | Mapping[str, Any]] | None
    purchase_order_number: str | None
    payment_method: PaymentMethodChoice | Mapping[str, Any] | None
    invoice_custom_section: CustomSectionChoice | Mapping[str, Any] | None


class SectionChoice(TypedDict, total=False):
    skip_invoice_custom_sections: bool | None
    invoice_custom_section_codes: Sequence[str] | None


class UsageThresholdFields(TypedDict, total=False):
    amount_cents: Required[int]
    threshold_display_name: str | None
    recurring: bool | None


class VolumeRange(TypedDict, total=False):
    from_value: Required[int]
    to_value: Required[int | None]
    per_unit_amount: Required[Number]
    flat_amount: Required[Number]
