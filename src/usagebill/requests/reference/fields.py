"""The meaning of names that several classes of requests share, or requests and answers; by class where it differs.

What a single class has is described there (`described`).
"""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.aggregation import AGGREGATIONS
from usagebill.core.alerts import AlertType
from usagebill.core.billing_entities import (
    ADJUSTMENTS,
    ANCHORS,
    DOCUMENT_NUMBERINGS,
    EMAIL_SETTINGS,
    ORGANIZATION_NUMBERINGS,
)
from usagebill.core.contacts import LOCALES
from usagebill.core.credit_notes import CreditNoteReason
from usagebill.core.customers import CUSTOMER_TYPES, INTEGRATION_CATEGORIES
from usagebill.core.entitlements import ValueType
from usagebill.core.payment_providers import KINDS as PAYMENT_KINDS
from usagebill.core.plans import INTERVALS
from usagebill.core.pricing import MODELS
from usagebill.core.recurring_rules import RuleInterval, RuleMethod, RuleTrigger
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES
from usagebill.core.subscriptions import BillFrom, SubscriptionStatus
from usagebill.requests.inputs import Field

_FIXED_MODELS = tuple(name for name, model in MODELS.items() if model.of_fixed_charges)
_DUE_DAY = "The issuing date of invoices of subscriptions"

FIELDS: Mapping[str, Field] = {
    # Names, codes and texts
    "name": Field("A readable name.", example="Pro"),
    "code": Field("The code that identifies it, unique among its kind.", example="pro"),
    "id": Field("The id of an existing one; without it, a new one is added.", example="1a901a90-1a90-4a90"),
    "external_id": Field("Your own id, which identifies it everywhere.", example="acme"),
    "invoice_display_name": Field("The name on invoices.", default="its name", example="API calls"),
    "description": Field("A text for people; it has no effect.", example="For teams of up to ten"),
    "display_name": Field("The heading on documents.", example="Bank details"),
    "details": Field("The text on documents.", example="IBAN DE75 5121 0800 1245 1261 99"),
    "metadata": Field("Your own values by key, stored and returned with it.", example={"team": "growth"}),
    "purchase_order_number": Field("The customer's order number, shown on invoices.", example="PO-1234"),
    "search_term": Field("Only those that contain this text, in upper or lower case.", example="acme"),
    # Money
    "amount_cents": Field("The amount, before taxes.", unit="cents", example=4900),
    "amount_currency": Field("The currency of the amount, ISO 4217.", example="EUR"),
    "currency": Field("The currency, ISO 4217.", example="EUR"),
    "default_currency": Field("The currency of customers without one, ISO 4217.", example="EUR"),
    "tax_codes": Field("The taxes that apply, by code.", default="those of the level above", example=["vat"]),
    # References to customers, subscriptions and other records
    "external_customer_id": Field("The customer, by your own id.", example="acme"),
    "external_subscription_id": Field("The subscription, by your own id.", example="acme-1"),
    "plan_code": Field("The plan, by code.", example="pro"),
    "plan_codes": Field("Plans, by code.", example=["pro"]),
    "add_on_code": Field("The add-on, by code.", example="setup"),
    "invoice_id": Field("The invoice, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a01"),
    "fee_id": Field("The fee, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a02"),
    "subscription_id": Field("The subscription, by id."),
    "charge_id": Field("The charge, by id."),
    "charge_code": Field("The charge, by code.", example="calls"),
    "charge_filter_id": Field("The filter of the charge, by id; without it, the events that match no filter."),
    "fixed_charge_id": Field("The fixed charge, by id."),
    "billable_metric_code": Field("The billable metric, by code.", example="calls"),
    "billable_metric_codes": Field("Billable metrics, by code.", example=["calls"]),
    "billing_entity_code": Field("The billing entity that issues invoices, by code.", default="the default one"),
    "billing_entity_codes": Field("Only those of one of these billing entities, by code."),
    "applied_dunning_campaign_code": Field("The dunning campaign for overdue invoices, by code."),
    # Billable metrics
    "aggregation_type": Field(
        "How events become units: counted, the values of `field_name` summed, and so on.",
        values=tuple(AGGREGATIONS),
        example="sum_agg",
    ),
    "field_name": Field("The property of events whose values are aggregated; a count needs none.", example="gb"),
    "key": Field("The key.", example="region"),
    "value": Field("The value.", example="eu"),
    "values": Field("The values that match.", example=["us", "eu"]),
    # Plans and charges
    "interval": Field("How often the plan is billed.", values=INTERVALS, example="monthly"),
    "trial_period": Field("How long the plan's fee is waived after the start.", unit="days", default="0"),
    "pay_in_advance": Field(
        "Whether it is billed at the start of a period; for usage, with each event.", default="false"
    ),
    "minimum_commitment": Field("The minimum revenue per interval; any shortfall is billed at its end."),
    "charges": Field("The prices of usage, one charge for each metric and price. An update replaces them all."),
    "fixed_charges": Field("Charges that do not depend on usage. An update replaces them all."),
    "usage_thresholds": Field("Amounts of lifetime usage at which usage is invoiced immediately."),
    "effective": Field(
        "From when the new prices count: `immediately` reprices the open period of every subscription, `next_period`"
        " waits for the next period of each, a date for the first period of each that begins on it or later. Names"
        " count at once.",
        example="2026-04-01",
        default="immediately",
    ),
    "cascade_updates": Field(
        "Whether overrides of the plan change too, where they still have the plan's values.", default="false"
    ),
    "charge_model": Field("How units are priced.", values=tuple(MODELS), example="standard"),
    "prorated": Field(
        "Whether units are prorated by the part of the period in which they were active.", default="false"
    ),
    "properties": Field("The prices, in the form of the charge model.", example={"amount": "0.25"}),
    "filters": Field("Other prices for events with certain properties."),
    "conversion_rate": Field("The value of one pricing unit in the plan's currency.", example="0.5"),
    "units": Field("The number of units.", example="3"),
    "short_name": Field("The symbol shown with prices, up to three letters.", example="CR"),
    # Properties of charge models
    "amount": Field("The price of one unit, or of one package.", unit="major units", example="0.25"),
    "from_value": Field(
        "The first unit of the range: 0, or one above the end of the previous range.", unit="units", example=0
    ),
    "to_value": Field(
        "The last unit of the range, inclusive; null for the last range.", unit="units", example=10, nullable=True
    ),
    "flat_amount": Field("Added once the range is reached.", unit="major units", example="0"),
    "rate": Field("The rate.", unit="percent", example="1.5"),
    "pricing_group_keys": Field("Properties of events: each combination of their values is priced separately."),
    "presentation_group_keys": Field("Up to two properties of events by which units are broken down, but not priced."),
    "display_in_invoice": Field("Whether invoices show it.", default="false"),
    # Subscriptions
    "billing_time": Field(
        "Whether periods follow the calendar, or start on the day of the subscription's start.",
        values=("calendar", "anniversary"),
        default="calendar",
    ),
    "subscription_at": Field(
        "When it starts. If that is on an earlier day, `bill_from` says what is billed of the time since: by default"
        " only what the next runs bill.",
        default="now",
    ),
    "bill_from": Field(
        "What is billed of a start in the past: `now`: only what the next runs bill; `current_period`: also what the"
        " open period is billed in advance; `start`: everything since the start, one invoice for each billing day.",
        values=tuple(BillFrom),
        default="now",
    ),
    "ending_at": Field("When it ends automatically.", example="2030-12-31T23:59:59Z"),
    "plan_overrides": Field("Values that this subscription has instead of its plan's."),
    "activation_rules": Field("Conditions for its activation: `payment` waits for the first payment."),
    "consolidate_invoice": Field("Whether it shares invoices with the customer's other subscriptions.", default="true"),
    "progressive_billing_disabled": Field("Whether usage thresholds are ignored.", default="false"),
    "payment_method": Field("How its invoices are paid.", default="the customer's method"),
    "payment_method_type": Field("Through a provider, or manually.", values=("provider", "manual"), default="provider"),
    "invoice_custom_section": Field("The custom sections at the end of its invoices."),
    "skip_invoice_custom_sections": Field("Whether invoices have no custom sections.", default="false"),
    "invoice_custom_section_codes": Field("The custom sections at the end of invoices, by code."),
    "on_termination_credit_note": Field(
        "What happens to the paid but unused part.",
        values=("credit", "refund", "offset", "skip"),
        default="credit",
    ),
    "on_termination_invoice": Field(
        "Whether usage up to the end is invoiced.", values=("generate", "skip"), default="generate"
    ),
    "subscription_status": Field(
        "The status of the subscription, if several share the id.", values=tuple(SubscriptionStatus)
    ),
    # Customers and billing entities
    "customer_type": Field("Whether it is a company or a person.", values=CUSTOMER_TYPES),
    "email": Field("The e-mail address; several are separated by commas.", example="billing@acme.example"),
    "phone": Field("The telephone number.", example="+32 2 555 12 12"),
    "logo_url": Field("Where the logo is.", example="https://acme.example/logo.png"),
    "legal_name": Field("The legal name, shown on documents.", example="Acme NV"),
    "legal_number": Field("The company registration number.", example="0123.456.789"),
    "tax_identification_number": Field("The VAT or other tax number.", example="BE0123456749"),
    "address_line1": Field("Street and number.", example="Nieuwstraat 1"),
    "address_line2": Field("The second line of the address.", example="Floor 3"),
    "city": Field("The city.", example="Brussels"),
    "state": Field("The state or province.", example="Brussels"),
    "zipcode": Field("The postal code.", example="1000"),
    "country": Field("The country, ISO 3166-1 with two letters.", example="BE"),
    "timezone": Field("The time zone of days and billing periods, by its IANA name.", example="Europe/Brussels"),
    "net_payment_term": Field("The payment term of invoices.", unit="days", default="0"),
    "finalize_zero_amount_invoice": Field("Whether invoices with a total of 0 are issued.", default="true"),
    "billing_configuration": Field("How invoices are issued and paid."),
    "invoice_grace_period": Field("How long an invoice stays a draft.", unit="days", default="0"),
    "subscription_invoice_issuing_date_anchor": Field(
        _DUE_DAY + " counts from the end of the period, or from the start of the next.", values=ANCHORS
    ),
    "subscription_invoice_issuing_date_adjustment": Field(
        _DUE_DAY + " stays where it is, or moves to the day on which a draft is finalized.", values=ADJUSTMENTS
    ),
    "document_locale": Field("The language of documents.", values=LOCALES, default="en", example="de"),
    "payment_provider": Field(
        "The kind of payment provider.",
        values=tuple(PAYMENT_KINDS),
    ),
    "payment_provider_code": Field("The connection to the payment provider, by code."),
    "provider_customer_id": Field("The customer's id with the payment provider."),
    "sync_with_provider": Field("Whether to create the customer with the provider.", default="false"),
    "integration_type": Field("The kind of system.", values=tuple(INTEGRATION_CATEGORIES)),
    "integration_code": Field("The connection to the system, by code."),
    "document_numbering": Field("The scope of invoice numbers.", values=DOCUMENT_NUMBERINGS, default="per_customer"),
    "OrganizationInput.document_numbering": Field(
        "The scope of invoice numbers.", values=ORGANIZATION_NUMBERINGS, default="per_customer"
    ),
    "document_number_prefix": Field("The prefix of invoice numbers, up to ten letters.", example="ACME"),
    "email_settings": Field("The e-mails to send.", values=EMAIL_SETTINGS),
    "invoice_footer": Field("The last line of documents.", example="Thank you"),
    "portal_color": Field("The color of links and buttons in the customer portal.", example="#2f55d4"),
    "portal_frame_origins": Field(
        "The sites whose pages may show the customer portal in a frame.",
        default="none",
        example=["https://app.acme.example"],
    ),
    "portal_spend_limits": Field(
        "Whether customers set spend limits of their own in the customer portal.", default="false"
    ),
    "offered_in_portal": Field(
        "Whether customers may change to this plan, and from it, in the customer portal.", default="false"
    ),
    "eu_tax_management": Field("Whether EU VAT is determined from addresses and VAT numbers.", default="false"),
    "webhook_url": Field("The URL that receives webhook messages.", example="https://hooks.acme.example/usagebill"),
    # Coupons
    "frequency_duration": Field("How many invoices a recurring coupon reduces.", unit="invoices"),
    "expiration_at": Field("When it expires.", example="2030-12-31T23:59:59Z"),
    "applies_to": Field("The plans, metrics or fees it is limited to."),
    # Wallets
    "paid_credits": Field("Credits to buy; an invoice charges their price.", unit="credits", example="10"),
    "granted_credits": Field("Credits to grant for free.", unit="credits", example="5"),
    "priority": Field("Wallets and credits with lower numbers are used first, 1 to 50.", default="50"),
    "invoice_requires_successful_payment": Field(
        "Whether the invoice is issued only once it is paid.", default="false"
    ),
    "paid_top_up_min_amount_cents": Field("The minimum price of a top-up.", unit="cents"),
    "paid_top_up_max_amount_cents": Field("The maximum price of a top-up.", unit="cents"),
    "ignore_paid_top_up_limits": Field("Whether these top-ups may exceed the wallet's limits.", default="false"),
    "transaction_name": Field("The name of the credits on the invoice.", example="Prepaid credits"),
    "transaction_metadata": Field("Your own values on the transaction, each with `key` and `value`."),
    "recurring_transaction_rules": Field("Rules for automatic top-ups."),
    "trigger": Field(
        "When to top up: at an interval, or below a balance.", values=tuple(RuleTrigger), example="interval"
    ),
    "method": Field("How many credits: a fixed number, or up to a target.", values=tuple(RuleMethod), default="fixed"),
    "threshold_credits": Field("The ongoing balance that triggers a top-up.", unit="credits"),
    "target_ongoing_balance": Field("The target of the ongoing balance.", unit="credits"),
    "grants_target_top_up": Field("Whether the credits up to the target are granted, not bought.", default="false"),
    "hard_stop": Field(
        "Whether usage that its credits cannot pay is refused, where it is checked before it happens.", default="false"
    ),
    # Invoices, fees, credit notes and payments
    "fees": Field("The lines of the invoice."),
    "payment_status": Field("Whether it is paid.", values=INVOICE_PAYMENT_STATUSES, example="succeeded"),
    "reason": Field("The reason.", values=tuple(CreditNoteReason), default="other"),
    "items": Field("The credited amount of each fee."),
    # Entitlements, alerts, dunning
    "privileges": Field("The settings of the feature."),
    "value_type": Field("The type of the privilege's value.", values=tuple(ValueType), default="string"),
    "config": Field("The options of a `select`."),
    "select_options": Field("The options.", example=["basic", "gold"]),
    "alert_type": Field("What the alert watches.", values=tuple(AlertType), example="current_usage_amount"),
    "thresholds": Field("The values at which it triggers."),
    "alerts": Field("The alerts; all are created, or none."),
    # Keys, webhooks, connections
    "expires_at": Field("When it expires.", example="2030-12-31T23:59:59Z"),
    "event_types": Field("The types of messages to send.", default="all", example=["invoice.created"]),
    "kind": Field("The kind of provider."),
    "api_key": Field("The provider's key."),
    "applied_to_organization": Field(
        "Whether it applies to all customers without taxes of their own.", default="false"
    ),
    "webhook_endpoint_id": Field("Only messages to this webhook endpoint, by id."),
    # Events
    "transaction_id": Field("Your own id of the event, unique per subscription: a duplicate is not counted again."),
    "timestamp": Field(
        "When it happened, in Unix seconds; the library takes a `datetime` too.", default="now", example=1704067200
    ),
    "precise_total_amount_cents": Field("The price of the event, for dynamic charges.", unit="cents"),
    # Filters of lists and reports
    "status": Field("Only those with this status."),
    "self_billed": Field("Only self-billed ones, or only others."),
    "issuing_date_from": Field("Only those issued on or after this day.", example="2024-01-01"),
    "issuing_date_to": Field("Only those issued on or before this day.", example="2024-12-31"),
    "amount_from": Field("Only those with at least this total.", unit="cents"),
    "amount_to": Field("Only those with at most this total.", unit="cents"),
    "from_date": Field("Only those on or after this day.", example="2024-01-01"),
    "to_date": Field("Only those on or before this day.", example="2024-12-31"),
    "http_statuses": Field("Only those with these results: a status, `succeeded` or `failed`.", example=["422"]),
    "refund_status": Field("The status of the refund.", values=INVOICE_PAYMENT_STATUSES),
    "timestamp_from": Field("Only events at or after this instant."),
    "timestamp_to": Field("Only events at or before this instant."),
    "timestamp_from_started_at": Field("Whether to start at the start of the subscription.", default="false"),
    "apply_taxes": Field("Whether to compute taxes.", default="true"),
    # Names with a second meaning
    "FixedChargeInput.charge_model": Field("How units are priced.", values=_FIXED_MODELS, example="standard"),
    "RuleInput.interval": Field("How often it tops up.", values=tuple(RuleInterval)),
}
