"""The types of parts of requests that operations check by hand, or that a charge model defines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from usagebill.requests.inputs import ABSENT, Input, Maybe, described


@Input
class PresentationOptions:
    display_in_invoice: Maybe[bool] = ABSENT


@Input
class PresentationKey:
    value: Maybe[str] = described("The property of events.", example="region", required="always")
    options: Maybe[PresentationOptions] = described("Display options of the breakdown.")


@Input
class StandardProperties:
    """Every unit costs the same."""

    amount: Maybe[Decimal] = described("The price of one unit.", unit="major units", example="0.25", required="always")
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class GraduatedRange:
    from_value: Maybe[int] = described(required="always")
    to_value: Maybe[int] = described(required="always")
    per_unit_amount: Maybe[Decimal] = described(
        "The price of each unit in the range.", unit="major units", example="0.25", required="always"
    )
    flat_amount: Maybe[Decimal] = described(required="always")


@Input
class GraduatedProperties:
    """Each range prices the units inside it."""

    graduated_ranges: Maybe[tuple[GraduatedRange, ...]] = described(
        "The ranges, starting at 0 without gaps; the last is open-ended.", required="always"
    )
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class GraduatedPercentageRange:
    from_value: Maybe[int] = described(required="always")
    to_value: Maybe[int] = described(required="always")
    rate: Maybe[Decimal] = described(
        "The percentage of the units in the range.", unit="percent", example="1", required="always"
    )
    flat_amount: Maybe[Decimal] = described(required="always")


@Input
class GraduatedPercentageProperties:
    """Each range takes a percentage of the units inside it."""

    graduated_percentage_ranges: Maybe[tuple[GraduatedPercentageRange, ...]] = described(
        "The ranges, starting at 0 without gaps; the last is open-ended.", required="always"
    )
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class VolumeRange:
    from_value: Maybe[int] = described(required="always")
    to_value: Maybe[int] = described(required="always")
    per_unit_amount: Maybe[Decimal] = described(
        "The price of every unit if the total is in this range.", unit="major units", required="always"
    )
    flat_amount: Maybe[Decimal] = described("Added to the total.", unit="major units", required="always")


@Input
class VolumeProperties:
    """The range that the total falls into prices all units."""

    volume_ranges: Maybe[tuple[VolumeRange, ...]] = described(
        "The ranges, starting at 0 without gaps; the last is open-ended.", required="always"
    )
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class PackageProperties:
    """Units are sold in packages; a started one costs as much as a full one."""

    amount: Maybe[Decimal] = described("The price of one package.", unit="major units", example="5", required="always")
    package_size: Maybe[int] = described(
        "How many units a package holds.", unit="units", example=100, required="always"
    )
    free_units: Maybe[int] = described(
        "Units that are free in each period.", unit="units", example=0, required="always"
    )
    pricing_group_keys: Maybe[tuple[str, ...]] = ABSENT
    presentation_group_keys: Maybe[tuple[PresentationKey, ...]] = ABSENT


@Input
class PercentageProperties:
    """A percentage of the units, and a fixed amount for each event."""

    rate: Maybe[Decimal] = described("The percentage of the units.", unit="percent", example="1.5", required="always")
    fixed_amount: Maybe[Decimal] = described(
        "The price of each event in addition to the percentage.", unit="major units", default="0"
    )
    free_units_per_events: Maybe[int] = described("How many events are free in each period.", unit="events")
    free_units_per_total_aggregation: Maybe[Decimal] = described(
        "How many units are free in each period.", unit="units"
    )
    per_transaction_min_amount: Maybe[Decimal] = described("The minimum price of one event.", unit="major units")
    per_transaction_max_amount: Maybe[Decimal] = described("The maximum price of one event.", unit="major units")
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

    custom_properties: Maybe[Mapping[str, object]] = described("Input of your aggregation program.")
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
    payment_method_id: Maybe[str] = described(
        "One of the customer's payment methods, by id.", default="the customer's default one"
    )


@Input
class ActivationRuleInput:
    """A condition for the activation of a subscription."""

    type: Maybe[str] = described("The condition.", values=("payment",), required="always")
    timeout_hours: Maybe[int] = described(
        "How long to wait for the payment; 0 for no limit.", unit="hours", default="0"
    )


@Input
class CreditNoteItemInput:
    """The credited amount of one fee."""

    fee_id: Maybe[str] = described(required="always")
    amount_cents: Maybe[int] = described("The credited part of the fee, before taxes.", unit="cents", example=100)


@Input
class MetadataPair:
    key: Maybe[str] = ABSENT
    value: Maybe[str] = ABSENT


@Input
class PreviewSubscriptions:
    """Which subscriptions to preview, and what happens to them."""

    external_ids: Maybe[tuple[str, ...]] = described(
        "The subscriptions, by your own ids.", example=["acme-1"], required="always"
    )
    plan_code: Maybe[str] = described("Previews the invoice of a change to this plan.")
    terminated_at: Maybe[datetime] = described("Previews the invoice of their end at this instant.")


@Input
class PrivilegeConfig:
    select_options: Maybe[tuple[str, ...]] = described(required="always")


@Input
class EventFields:
    """A usage event."""

    transaction_id: Maybe[str] = described(required="always")
    code: Maybe[str] = described("The billable metric, by code.", example="storage", required="always")
    external_subscription_id: Maybe[str] = ABSENT
    timestamp: Maybe[datetime | Decimal] = ABSENT
    precise_total_amount_cents: Maybe[Decimal] = ABSENT
    properties: Maybe[Mapping[str, object]] = described("Values for the metric, filters and groups.")


@Input
class CloudEventFields:
    """A usage event as a CloudEvent 1.0."""

    specversion: Maybe[str] = described(
        "The version of CloudEvents.", values=("1.0",), example="1.0", required="always"
    )
    id: Maybe[str] = described("The id of the event, unique per source.", example="7", required="always")
    source: Maybe[str] = described(
        "Where it happened; `source` and `id` identify the event.", example="/meter/eu", required="always"
    )
    type: Maybe[str] = described("The billable metric, by code.", example="storage", required="always")
    subject: Maybe[str] = described("The subscription, by external id.", example="acme-1", required="always")
    time: Maybe[datetime] = described("When it happened, RFC 3339.", default="now")
    data: Maybe[Mapping[str, object]] = described("The properties of the event.", example={"gb": 46.5})
    precisetotalamountcents: Maybe[Decimal] = described("The price of a dynamic charge.", unit="cents", example="12.5")


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
    "PhaseInput.until": date,
    "PreviewInput.subscriptions": PreviewSubscriptions,
    "CourseInput.subscriptions": PreviewSubscriptions,
    "CourseInput.until": date,
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
    "overpaid": bool,
    "filter_by_group": Mapping[str, str],
    "group": Mapping[str, str],
    "SpendLimitInput.group": Mapping[str, str | tuple[str, ...]],
    "SpendLimitInput.grace_percent": Decimal,
    "CheckInput.properties": Mapping[str, object],
    "HoldInput.properties": Mapping[str, object],
    "CaptureInput.properties": Mapping[str, object],
    "CaptureInput.transaction_id": str,
    "CaptureInput.timestamp": datetime | Decimal,
    "filter_by_presentation": tuple[str, ...],
}
