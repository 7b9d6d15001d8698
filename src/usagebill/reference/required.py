"""The required fields of requests."""

from __future__ import annotations

from collections.abc import Mapping

_CHARGE = ("billable_metric_id", "charge_model")
_FIXED_CHARGE = ("charge_model",)
_FILTER = ("values", "properties")

# By operation, under its name in the library. Fields that only some requests need (the amount of a fixed-amount coupon)
# are left out: the operation checks them.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "add_ons.create": ("name", "code", "amount_cents", "amount_currency"),
    "alerts.create": ("alert_type", "code", "thresholds"),
    "alerts.create_of_wallet": ("alert_type", "code", "thresholds"),
    "alerts.create_all": ("alerts",),
    "alerts.create_all_of_wallet": ("alerts",),
    "applied_coupons.apply": ("external_customer_id", "coupon_code"),
    "billable_metrics.create": ("name", "code", "aggregation_type"),
    "billable_metrics.evaluate_expression": ("expression", "event"),
    "billing_entities.create": ("name", "code"),
    "coupons.create": ("name", "code", "coupon_type", "frequency", "expiration"),
    "credit_notes.create": ("invoice_id", "items"),
    "credit_notes.estimate": ("invoice_id", "items"),
    "customers.upsert": ("external_id",),
    "dunning_campaigns.create": ("name", "code", "thresholds"),
    "events.create": ("transaction_id", "code"),
    "events.estimate_fees": ("code", "external_subscription_id"),
    "events.estimate_instant_fees": ("code", "external_subscription_id"),
    "events.create_batch": ("events",),
    "events.estimate_batch_instant_fees": ("events",),
    "features.create": ("code",),
    "invoice_custom_sections.create": ("name", "code"),
    "invoices.create_one_off": ("external_customer_id", "fees"),
    "invoices.preview": ("customer",),
    "payment_connections.create": ("kind", "code"),
    "payment_requests.create": ("external_customer_id", "svc_invoice_ids"),
    "payments.create": ("invoice_id", "amount_cents", "reference"),
    "plans.create": ("name", "code", "interval", "amount_cents", "amount_currency", "pay_in_advance"),
    "plans.create_charge": (*_CHARGE, "code"),
    "plans.create_filter": _FILTER,
    "plans.create_fixed_charge": (*_FIXED_CHARGE, "code"),
    "pricing_units.create": ("name", "code", "short_name"),
    "subscriptions.create": ("external_customer_id", "plan_code", "external_id"),
    "subscriptions.create_filter": _FILTER,
    "sync_connections.create": ("kind", "code", "url"),
    "tax_connections.create": ("kind", "code", "url"),
    "taxes.create": ("name", "code", "rate"),
    "wallet_transactions.create": ("wallet_id",),
    "wallets.create": ("external_customer_id", "rate_amount"),
    "wallets.create_of_customer": ("rate_amount",),
    "webhook_endpoints.create": ("webhook_url",),
}
# By the class of a part, in any request.
REQUIRED_INSIDE: Mapping[str, tuple[str, ...]] = {
    "ActivationRuleInput": ("type",),
    "AlertThresholdInput": ("value",),
    "AppliedPricingUnitInput": ("code", "conversion_rate"),
    "CreditNoteItemInput": ("fee_id",),
    "CustomerMetadataInput": ("key", "value"),
    "DunningThresholdInput": ("amount_cents", "currency"),
    "CloudEventFields": ("specversion", "id", "source", "type", "subject"),
    "EventFields": ("transaction_id", "code"),
    "ExpressionEventInput": ("properties",),
    "GraduatedPercentageProperties": ("graduated_percentage_ranges",),
    "GraduatedPercentageRange": ("from_value", "to_value", "rate", "flat_amount"),
    "GraduatedProperties": ("graduated_ranges",),
    "GraduatedRange": ("from_value", "to_value", "per_unit_amount", "flat_amount"),
    "MetadataItemInput": ("key", "value"),
    "MetricFilterInput": ("key", "values"),
    "MinimumCommitmentInput": ("amount_cents",),
    "OneOffFeeInput": ("add_on_code",),
    "PackageProperties": ("amount", "package_size", "free_units"),
    "PercentageProperties": ("rate",),
    "PresentationKey": ("value",),
    "PreviewSubscriptions": ("external_ids",),
    "PrivilegeConfig": ("select_options",),
    "PrivilegeInput": ("code",),
    "StandardProperties": ("amount",),
    "UsageThresholdInput": ("amount_cents",),
    "VolumeProperties": ("volume_ranges",),
    "VolumeRange": ("from_value", "to_value", "per_unit_amount", "flat_amount"),
}
# Classes with charges that always exist already and are named by `id`.
BY_ID = frozenset({"PlanOverridesInput"})
# By the class of a part, in requests that create the record it belongs to: elsewhere it may name an existing one by
# `id`.
REQUIRED_NEW: Mapping[str, tuple[str, ...]] = {
    "ChargeFilterInput": _FILTER,
    "ChargeInput": _CHARGE,
    "FixedChargeInput": _FIXED_CHARGE,
}
