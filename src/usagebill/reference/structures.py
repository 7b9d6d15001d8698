"""The types of parts of requests that operations check by hand, or that a charge model defines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from usagebill.inputs import ABSENT, Input, Maybe


@Input
class PresentationOptions:
    display_in_invoice: Maybe[bool] = ABSENT


@Input
class PresentationKey:
    value: Maybe[str] = ABSENT
    options: Maybe[PresentationOptions] = ABSENT


@Input
class StandardProperties:
    """Every unit costs the same."""

    amount: Maybe[Decimal] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class GraduatedRange:
    from_value: Maybe[int] = ABSENT
    to_value: Maybe[int] = ABSENT
    per_unit_amount: Maybe[Decimal] = ABSENT
    flat_amount: Maybe[Decimal] = ABSENT


@Input
class GraduatedProperties:
    """Each range prices the units inside it."""

    graduated_ranges: Maybe[tuple[GraduatedRange, ...]] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class GraduatedPercentageRange:
    from_value: Maybe[int] = ABSENT
    to_value: Maybe[int] = ABSENT
    rate: Maybe[Decimal] = ABSENT
    flat_amount: Maybe[Decimal] = ABSENT


@Input
class GraduatedPercentageProperties:
    """Each range takes a percentage of the units inside it."""

    graduated_percentage_ranges: Maybe[tuple[GraduatedPercentageRange, ...]] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class VolumeRange:
    from_value: Maybe[int] = ABSENT
    to_value: Maybe[int] = ABSENT
    per_unit_amount: Maybe[Decimal] = ABSENT
    flat_amount: Maybe[Decimal] = ABSENT


@Input
class VolumeProperties:
    """The range that the total falls into prices all units."""

    volume_ranges: Maybe[tuple[VolumeRange, ...]] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class PackageProperties:
    """Units are sold in packages; a started one costs as much as a full one."""

    amount: Maybe[Decimal] = ABSENT
    package_size: Maybe[int] = ABSENT
    free_units: Maybe[int] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class PercentageProperties:
    """A percentage of the units, and a fixed amount for each event."""

    rate: Maybe[Decimal] = ABSENT
    fixed_amount: Maybe[Decimal] = ABSENT
    free_units_per_events: Maybe[int] = ABSENT
    free_units_per_total_aggregation: Maybe[Decimal] = ABSENT
    per_transaction_min_amount: Maybe[Decimal] = ABSENT
    per_transaction_max_amount: Maybe[Decimal] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class DynamicProperties:
    """Every event brings its own price, `precise_total_amount_cents`."""

    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class CustomProperties:
    """The amount is what a custom aggregation has accumulated."""

    custom_properties: Maybe[Mapping[str, object]] = ABSENT
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


_AnyModel: TypeAlias = (
    StandardProperties
    | GraduatedProperties
    | GraduatedPercentageProperties
    | VolumeProperties
    | PackageProperties
    | PercentageProperties
    | DynamicProperties
    | CustomProperties
)
_FixedModel: TypeAlias = StandardProperties | GraduatedProperties | VolumeProperties

# Charge model -> the type of its charges' `properties`.
MODEL_PROPERTIES: Mapping[str, type] = {
    "standard": StandardProperties,
    "graduated": GraduatedProperties,
    "graduated_percentage": GraduatedPercentageProperties,
    "volume": VolumeProperties,
    "package": PackageProperties,
    "percentage": PercentageProperties,
    "dynamic": DynamicProperties,
    "custom": CustomProperties,
}


@Input
class PaymentMethodChoice:
    """How an invoice is paid: through the customer's provider, by one of its methods, or by hand."""

    payment_method_type: Maybe[str] = ABSENT
    payment_method_id: Maybe[str] = ABSENT


@Input
class ActivationRuleInput:
    """A condition for the activation of a subscription."""

    type: Maybe[str] = ABSENT
    timeout_hours: Maybe[int] = ABSENT


@Input
class CreditNoteItemInput:
    """The credited amount of one fee."""

    fee_id: Maybe[str] = ABSENT
    amount_cents: Maybe[int] = ABSENT


@Input
class MetadataPair:
    key: Maybe[str] = ABSENT
    value: Maybe[str] = ABSENT


@Input
class PreviewSubscriptions:
    """Which subscriptions to preview, and what happens to them."""

    external_ids: Maybe[tuple[str, ...]] = ABSENT
    plan_code: Maybe[str] = ABSENT
    terminated_at: Maybe[datetime] = ABSENT


@Input
class PrivilegeConfig:
    select_options: Maybe[tuple[str, ...]] = ABSENT


@Input
class EventFields:
    """A usage event."""

    transaction_id: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    external_subscription_id: Maybe[str] = ABSENT
    timestamp: Maybe[datetime | Decimal] = ABSENT
    precise_total_amount_cents: Maybe[Decimal] = ABSENT
    properties: Maybe[Mapping[str, object]] = ABSENT


@Input
class CloudEventFields:
    """A usage event as a CloudEvent 1.0."""

    specversion: Maybe[str] = ABSENT
    id: Maybe[str] = ABSENT
    source: Maybe[str] = ABSENT
    type: Maybe[str] = ABSENT
    subject: Maybe[str] = ABSENT
    time: Maybe[datetime] = ABSENT
    data: Maybe[Mapping[str, object]] = ABSENT
    precisetotalamountcents: Maybe[Decimal] = ABSENT


# The types of fields that their input class leaves open: by class and field, or by field alone.
SHAPES: Mapping[str, object] = {
    "ChargeInput.properties": _AnyModel,
    "ChargeFilterInput.properties": _AnyModel,
    "FixedChargeInput.properties": _FixedModel,
    "ChargeFilterInput.values": Mapping[str, tuple[str, ...]],
    "payment_method": PaymentMethodChoice,
    "activation_rules": tuple[ActivationRuleInput, ...],
    "CreditNoteInput.items": tuple[CreditNoteItemInput, ...],
    "CreditNoteEstimateInput.items": tuple[CreditNoteItemInput, ...],
    "PreviewInput.subscriptions": PreviewSubscriptions,
    "PrivilegeInput.config": PrivilegeConfig,
    "EventInput.transaction_id": str,
    "EventInput.code": str,
    "EventInput.external_subscription_id": str,
    "EventInput.timestamp": datetime | Decimal,
    "EventInput.precise_total_amount_cents": Decimal,
    "EventInput.properties": Mapping[str, object],
    "EventsInput.events": tuple[EventFields, ...],
    "CloudEventsInput.events": tuple[CloudEventFields, ...],
    "AlertThresholdInput.value": Decimal,
    "conversion_rate": Decimal,
    "units": Decimal,
    "paid_credits": Decimal,
    "granted_credits": Decimal,
    "voided_credits": Decimal,
    "threshold_credits": Decimal,
    "target_ongoing_balance": Decimal,
    "grants_target_top_up": bool,
    "expiration_at": datetime,
    "started_at": datetime,
    "subscription_at": datetime,
    "ending_at": datetime,
    "expires_at": datetime,
    "from_datetime": datetime,
    "to_datetime": datetime,
    "paid_at": datetime,
    "priority": int,
    "transaction_priority": int,
    "transaction_name": str,
    "transaction_metadata": tuple[MetadataPair, ...],
    "WalletTransactionInput.metadata": tuple[MetadataPair, ...],
    "WalletTransactionInput.name": str,
    "metadata": Mapping[str, str | None],
    "PaymentInput.amount_cents": int,
    "event_types": tuple[str, ...],
    "request_paths": tuple[str, ...],
    "credit_status": str | tuple[str, ...],
    "refund_status": str | tuple[str, ...],
    "CreditNoteFilters.reason": str | tuple[str, ...],
    "CreditNoteFilters.types": str | tuple[str, ...],
    "self_billed": bool,
    "InvoiceFilters.status": str | tuple[str, ...],
    "InvoiceFilters.statuses": str | tuple[str, ...],
    "InvoiceFilters.payment_status": str | tuple[str, ...],
    "InvoiceFilters.payment_statuses": str | tuple[str, ...],
    "InvoiceFilters.settlements": str | tuple[str, ...],
    "PaymentRequestFilters.payment_status": str,
    "payment_overdue": bool,
    "payment_dispute_lost": bool,
    "partially_paid": bool,
    "filter_by_group": Mapping[str, str],
    "group": Mapping[str, str],
    "filter_by_presentation": tuple[str, ...],
}
