"""The meaning of every field of a request: by its name, or by class and name if it differs there."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.activity_logs import ActivitySource
from usagebill.core.aggregation import AGGREGATIONS
from usagebill.core.alerts import AlertType
from usagebill.core.billable_metrics import ROUNDING_FUNCTIONS, WEIGHTED_INTERVALS
from usagebill.core.billing_entities import (
    ADJUSTMENTS,
    ANCHORS,
    DOCUMENT_NUMBERINGS,
    EMAIL_SETTINGS,
    ORGANIZATION_NUMBERINGS,
)
from usagebill.core.contacts import LOCALES
from usagebill.core.coupons import CouponExpiration, CouponFrequency, CouponStatus, CouponType
from usagebill.core.credit_notes import CreditNoteReason, CreditStatus
from usagebill.core.customers import ACCOUNT_TYPES, CUSTOMER_TYPES, INTEGRATION_CATEGORIES, ZERO_AMOUNT_OPTIONS
from usagebill.core.entitlements import ValueType
from usagebill.core.fees import FeeType
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoiceType
from usagebill.core.payment_providers import KINDS as PAYMENT_KINDS
from usagebill.core.plans import INTERVALS
from usagebill.core.pricing import MODELS
from usagebill.core.recurring_rules import RuleInterval, RuleMethod, RuleTrigger
from usagebill.core.security_logs import LOG_TYPES
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES, PaymentStatus
from usagebill.core.subscriptions import BillFrom, SubscriptionStatus
from usagebill.core.sync_connections import KINDS as SYNC_KINDS, TARGETED_OBJECTS, SyncSubject
from usagebill.core.tax_providers import KINDS as TAX_KINDS
from usagebill.core.wallet_transactions import TransactionKind, TransactionType, WalletTransactionStatus
from usagebill.core.wallets import FEE_TYPES
from usagebill.core.webhooks import MessageStatus, SignatureAlgorithm
from usagebill.reference.field import Field

_FIXED_MODELS = tuple(name for name, model in MODELS.items() if model.of_fixed_charges)
_DUE_DAY = "The issuing date of invoices of subscriptions"

FIELDS: Mapping[str, Field] = {
    # Names, codes and texts
    "name": Field("A readable name.", example="Pro"),
    "code": Field("The code that identifies it, unique among its kind.", example="pro"),
    "id": Field("The id of an existing one; without it, a new one is added.", example="1a901a90-1a90-4a90"),
    "svc_id": Field("The id of an existing one; without it, a new one is added."),
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
    "currencies": Field("Only those with one of these currencies, ISO 4217.", example=["EUR"]),
    "default_currency": Field("The currency of customers without one, ISO 4217.", example="EUR"),
    "tax_codes": Field("The taxes that apply, by code.", default="those of the level above", example=["vat"]),
    # References to customers, subscriptions and other records
    "external_customer_id": Field("The customer, by your own id.", example="acme"),
    "external_subscription_id": Field("The subscription, by your own id.", example="acme-1"),
    "plan_code": Field("The plan, by code.", example="pro"),
    "plan_codes": Field("Plans, by code.", example=["pro"]),
    "coupon_code": Field("The coupon, by code.", example="welcome"),
    "add_on_code": Field("The add-on, by code.", example="setup"),
    "add_on_id": Field("The add-on, by id; alternatively its code."),
    "invoice_id": Field("The invoice, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a01"),
    "svc_invoice_ids": Field("The overdue invoices to request payment for, by id."),
    "fee_id": Field("The fee, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a02"),
    "wallet_id": Field("The wallet, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a03"),
    "subscription_id": Field("The subscription, by id."),
    "charge_id": Field("The charge, by id."),
    "charge_code": Field("The charge, by code.", example="calls"),
    "charge_filter_id": Field("The filter of the charge, by id; without it, the events that match no filter."),
    "fixed_charge_id": Field("The fixed charge, by id."),
    "billable_metric_id": Field(
        "The billable metric that is priced, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a04"
    ),
    "billable_metric_code": Field("The billable metric, by code.", example="calls"),
    "billable_metric_codes": Field("Billable metrics, by code.", example=["calls"]),
    "billing_entity_code": Field("The billing entity that issues invoices, by code.", default="the default one"),
    "billing_entity_codes": Field("Only those of one of these billing entities, by code."),
    "billing_entity_id": Field("The billing entity, by id; alternatively its code."),
    "applied_dunning_campaign_code": Field("The dunning campaign for overdue invoices, by code."),
    "exclude_from_dunning_campaign": Field("Whether dunning campaigns skip this customer.", default="false"),
    # Billable metrics
    "aggregation_type": Field(
        "How events become units: counted, the values of `field_name` summed, and so on.",
        values=tuple(AGGREGATIONS),
        example="sum_agg",
    ),
    "field_name": Field("The property of events whose values are aggregated; a count needs none.", example="gb"),
    "recurring": Field("Whether units carry over into the next period.", default="false"),
    "weighted_interval": Field("The time step of a weighted sum.", values=WEIGHTED_INTERVALS),
    "rounding_function": Field("How units are rounded before they are priced.", values=ROUNDING_FUNCTIONS),
    "rounding_precision": Field("The number of decimals that units are rounded to.", default="0"),
    "expression": Field(
        "Computes the value of an event from its properties.", example="event.properties.gb * event.properties.hours"
    ),
    "key": Field("The key.", example="region"),
    "value": Field("The value.", example="eu"),
    "values": Field("The values that match.", example=["us", "eu"]),
    "event": Field(
        "An event to try the expression on.", example={"code": "storage", "properties": {"gb": 2, "hours": 3}}
    ),
    # Plans and charges
    "interval": Field("How often the plan is billed.", values=INTERVALS, example="monthly"),
    "trial_period": Field("How long the plan's fee is waived after the start.", unit="days", default="0"),
    "pay_in_advance": Field(
        "Whether it is billed at the start of a period; for usage, with each event.", default="false"
    ),
    "bill_charges_monthly": Field(
        "Whether usage of a yearly or semiannual plan is billed every month.", default="false"
    ),
    "bill_fixed_charges_monthly": Field(
        "Whether fixed charges of a yearly or semiannual plan are billed every month.", default="false"
    ),
    "minimum_commitment": Field("The minimum revenue per interval; any shortfall is billed at its end."),
    "charges": Field("The prices of usage, one charge for each metric and price. An update replaces them all."),
    "fixed_charges": Field("Charges that do not depend on usage. An update replaces them all."),
    "usage_thresholds": Field("Amounts of lifetime usage at which usage is invoiced immediately."),
    "cascade_updates": Field(
        "Whether overrides of the plan change too, where they still have the plan's values.", default="false"
    ),
    "charge_model": Field("How units are priced.", values=tuple(MODELS), example="standard"),
    "prorated": Field(
        "Whether units are prorated by the part of the period in which they were active.", default="false"
    ),
    "invoiceable": Field("Whether each fee paid in advance gets an invoice.", default="true"),
    "regroup_paid_fees": Field(
        "`invoice`: paid fees without an invoice are put on one invoice per period.", values=("invoice",)
    ),
    "min_amount_cents": Field("The minimum amount of the charge per period.", unit="cents", default="0"),
    "accepts_target_wallet": Field("Whether events may choose the wallet that pays for them.", default="false"),
    "properties": Field("The prices, in the form of the charge model.", example={"amount": "0.25"}),
    "filters": Field("Other prices for events with certain properties."),
    "applied_pricing_unit": Field("A pricing unit of your own, and its conversion rate."),
    "conversion_rate": Field("The value of one pricing unit in the plan's currency.", example="0.5"),
    "units": Field("The number of units.", example="3"),
    "apply_units_immediately": Field(
        "Whether changed units apply immediately, not from the next period.", default="false"
    ),
    "threshold_display_name": Field("The name of the threshold on invoices.", example="First 100 euros"),
    "short_name": Field("The symbol shown with prices, up to three letters.", example="CR"),
    # Properties of charge models
    "amount": Field("The price of one unit, or of one package.", unit="major units", example="0.25"),
    "graduated_ranges": Field("The ranges, starting at 0 without gaps; the last is open-ended."),
    "graduated_percentage_ranges": Field("The ranges, starting at 0 without gaps; the last is open-ended."),
    "volume_ranges": Field("The ranges, starting at 0 without gaps; the last is open-ended."),
    "from_value": Field(
        "The first unit of the range: 0, or one above the end of the previous range.", unit="units", example=0
    ),
    "to_value": Field(
        "The last unit of the range, inclusive; null for the last range.", unit="units", example=10, nullable=True
    ),
    "per_unit_amount": Field("The price of each unit in the range.", unit="major units", example="0.25"),
    "flat_amount": Field("Added once the range is reached.", unit="major units", example="0"),
    "rate": Field("The rate.", unit="percent", example="1.5"),
    "package_size": Field("How many units a package holds.", unit="units", example=100),
    "free_units": Field("Units that are free in each period.", unit="units", example=0),
    "fixed_amount": Field("The price of each event in addition to the percentage.", unit="major units", default="0"),
    "free_units_per_events": Field("How many events are free in each period.", unit="events"),
    "free_units_per_total_aggregation": Field("How many units are free in each period.", unit="units"),
    "per_transaction_min_amount": Field("The minimum price of one event.", unit="major units"),
    "per_transaction_max_amount": Field("The maximum price of one event.", unit="major units"),
    "custom_properties": Field("Input of your aggregation program."),
    "pricing_group_keys": Field("Properties of events: each combination of their values is priced separately."),
    "presentation_group_keys": Field("Up to two properties of events by which units are broken down, but not priced."),
    "options": Field("Display options of the breakdown."),
    "display_in_invoice": Field("Whether invoices show it.", default="false"),
    # Subscriptions
    "billing_time": Field(
        "Whether periods follow the calendar, or start on the day of the subscription's start.",
        values=("calendar", "anniversary"),
        default="calendar",
    ),
    "authorization": Field(
        "An amount that Stripe must authorize on the customer's payment method first; it is not charged."
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
    "timeout_hours": Field("How long to wait for the payment; 0 for no limit.", unit="hours", default="0"),
    "consolidate_invoice": Field("Whether it shares invoices with the customer's other subscriptions.", default="true"),
    "progressive_billing_disabled": Field("Whether usage thresholds are ignored.", default="false"),
    "payment_method": Field("How its invoices are paid.", default="the customer's method"),
    "payment_method_type": Field("Through a provider, or manually.", values=("provider", "manual"), default="provider"),
    "payment_method_id": Field("One of the customer's payment methods, by id.", default="the customer's default one"),
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
    "external_historical_usage_amount_cents": Field("Usage before the customer was billed by usagebill.", unit="cents"),
    "subscription_status": Field(
        "The status of the subscription, if several share the id.", values=tuple(SubscriptionStatus)
    ),
    "overridden": Field("Whether the plan is an override for the subscription."),
    "overriden": Field("Older spelling of `overridden`."),
    # Customers and billing entities
    "firstname": Field("The first name of the person.", example="Ada"),
    "lastname": Field("The last name of the person.", example="Lovelace"),
    "customer_type": Field("Whether it is a company or a person.", values=CUSTOMER_TYPES),
    "account_type": Field("Invoices of partners are self-billed.", values=ACCOUNT_TYPES),
    "email": Field("The e-mail address; several are separated by commas.", example="billing@acme.example"),
    "phone": Field("The telephone number.", example="+32 2 555 12 12"),
    "url": Field("The web site.", example="https://acme.example"),
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
    "shipping_address": Field("The delivery address; if present, it determines taxes."),
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
    "sync": Field("Whether the provider is called immediately.", default="false"),
    "sync_with_provider": Field("Whether to create the customer with the provider.", default="false"),
    "provider_payment_methods": Field("The payment methods the customer may use.", example=["card"]),
    "integration_customers": Field("The systems that the customer is linked to. Links that are not sent are removed."),
    "integration_type": Field("The kind of system.", values=tuple(INTEGRATION_CATEGORIES)),
    "integration_code": Field("The connection to the system, by code."),
    "subsidiary_id": Field("The provider's subsidiary."),
    "targeted_object": Field("The type of object that represents the customer at the provider."),
    "document_numbering": Field("The scope of invoice numbers.", values=DOCUMENT_NUMBERINGS, default="per_customer"),
    "OrganizationInput.document_numbering": Field(
        "The scope of invoice numbers.", values=ORGANIZATION_NUMBERINGS, default="per_customer"
    ),
    "document_number_prefix": Field("The prefix of invoice numbers, up to ten letters.", example="ACME"),
    "email_settings": Field("The e-mails to send.", values=EMAIL_SETTINGS),
    "invoice_footer": Field("The last line of documents.", example="Thank you"),
    "einvoicing": Field("Whether to create e-invoices.", default="false"),
    "eu_tax_management": Field("Whether EU VAT is determined from addresses and VAT numbers.", default="false"),
    "logo": Field("The logo of documents: a PNG or JPEG as `data:image/png;base64,...`."),
    "webhook_url": Field("The URL that receives webhook messages.", example="https://hooks.acme.example/usagebill"),
    # Coupons
    "coupon_type": Field("Whether it is an amount or a percentage.", values=tuple(CouponType), example="percentage"),
    "percentage_rate": Field("The discount on each invoice.", unit="percent", example="10"),
    "frequency": Field("How many invoices it reduces.", values=tuple(CouponFrequency), example="once"),
    "frequency_duration": Field("How many invoices a recurring coupon reduces.", unit="invoices"),
    "expiration": Field("Whether it expires.", values=tuple(CouponExpiration), example="no_expiration"),
    "expiration_at": Field("When it expires.", example="2030-12-31T23:59:59Z"),
    "reusable": Field("Whether a customer may get it several times.", default="true"),
    "applies_to": Field("The plans, metrics or fees it is limited to."),
    # Wallets
    "rate_amount": Field("The value of one credit.", unit="major units", example="1"),
    "paid_credits": Field("Credits to buy; an invoice charges their price.", unit="credits", example="10"),
    "granted_credits": Field("Credits to grant for free.", unit="credits", example="5"),
    "voided_credits": Field("Credits to void.", unit="credits"),
    "voided_transaction_id": Field("The inbound transaction to void credits of, by id."),
    "priority": Field("Wallets and credits with lower numbers are used first, 1 to 50.", default="50"),
    "invoice_requires_successful_payment": Field(
        "Whether the invoice is issued only once it is paid.", default="false"
    ),
    "paid_top_up_min_amount_cents": Field("The minimum price of a top-up.", unit="cents"),
    "paid_top_up_max_amount_cents": Field("The maximum price of a top-up.", unit="cents"),
    "ignore_paid_top_up_limits": Field("Whether these top-ups may exceed the wallet's limits.", default="false"),
    "ignore_paid_top_up_limits_on_creation": Field("Whether the first top-up may exceed the limits.", default="false"),
    "transaction_name": Field("The name of the credits on the invoice.", example="Prepaid credits"),
    "transaction_metadata": Field("Your own values on the transaction, each with `key` and `value`."),
    "transaction_priority": Field("The priority of the first credits, 1 to 50.", default="50"),
    "recurring_transaction_rules": Field("Rules for automatic top-ups."),
    "trigger": Field(
        "When to top up: at an interval, or below a balance.", values=tuple(RuleTrigger), example="interval"
    ),
    "method": Field("How many credits: a fixed number, or up to a target.", values=tuple(RuleMethod), default="fixed"),
    "threshold_credits": Field("The ongoing balance that triggers a top-up.", unit="credits"),
    "target_ongoing_balance": Field("The target of the ongoing balance.", unit="credits"),
    "grants_target_top_up": Field("Whether the credits up to the target are granted, not bought.", default="false"),
    "started_at": Field("When it starts.", default="now"),
    "fee_types": Field("The types of fees it pays for.", values=FEE_TYPES),
    "current_ongoing_balance": Field("Whether to compute the ongoing balance now.", default="false"),
    # Invoices, fees, credit notes and payments
    "fees": Field("The lines of the invoice."),
    "unit_amount_cents": Field("The price of one unit.", unit="cents", default="that of the add-on"),
    "unit_precise_amount": Field("The price of one unit.", unit="major units", example="1.25"),
    "unit_amount": Field("The price of one unit.", unit="major units", example="1.25"),
    "from_datetime": Field("The start of the service period."),
    "to_datetime": Field("The end of the service period."),
    "skip_psp": Field("Whether to skip the payment provider.", default="false"),
    "payment_status": Field("Whether it is paid.", values=INVOICE_PAYMENT_STATUSES, example="succeeded"),
    "generate_credit_note": Field("Whether to create a credit note for the amount paid.", default="false"),
    "refund_amount": Field("The refunded amount.", unit="cents"),
    "credit_amount": Field("The amount credited to later invoices.", unit="cents"),
    "reason": Field("The reason.", values=tuple(CreditNoteReason), default="other"),
    "credit_amount_cents": Field("The amount credited to later invoices, with taxes.", unit="cents", example=100),
    "refund_amount_cents": Field("The refunded amount, with taxes.", unit="cents"),
    "offset_amount_cents": Field("The amount deducted from the unpaid invoice, with taxes.", unit="cents"),
    "items": Field("The credited amount of each fee."),
    "reference": Field("Your reference of the payment.", example="bank transfer 17"),
    "paid_at": Field("When it was paid.", default="now"),
    "to": Field("The recipients.", default="the customer's address"),
    "cc": Field("The recipients of copies."),
    "bcc": Field("The recipients of blind copies."),
    "bcc_emails": Field("The recipients of blind copies."),
    "customer": Field("The customer: an `external_id`, fields that replace the stored ones, or both."),
    "coupons": Field("Coupons for a customer without any: by `code`, or with the fields of a new one."),
    "subscriptions": Field("Existing subscriptions to preview the next invoice of."),
    "external_ids": Field("The subscriptions, by your own ids.", example=["acme-1"]),
    "terminated_at": Field("Previews the invoice of their end at this instant."),
    # Entitlements, alerts, dunning
    "entitlements": Field("Feature -> privilege -> value.", example={"seats": {"most": 5}}),
    "privileges": Field("The settings of the feature."),
    "value_type": Field("The type of the privilege's value.", values=tuple(ValueType), default="string"),
    "config": Field("The options of a `select`."),
    "select_options": Field("The options.", example=["basic", "gold"]),
    "alert_type": Field("What the alert watches.", values=tuple(AlertType), example="current_usage_amount"),
    "thresholds": Field("The values at which it triggers."),
    "alert": Field("The alert; use `alerts` for several."),
    "alerts": Field("The alerts; all are created, or none."),
    "days_between_attempts": Field("The time between attempts.", unit="days"),
    "max_attempts": Field("The maximum number of attempts.", unit="attempts"),
    # Keys, webhooks, connections
    "permissions": Field(
        "Resource -> `read` and `write`.", default="everything", example={"invoice": ["read"], "event": ["write"]}
    ),
    "expires_at": Field("When it expires.", example="2030-12-31T23:59:59Z"),
    "signature_algo": Field("How messages are signed.", values=tuple(SignatureAlgorithm), default="jwt"),
    "event_types": Field("The types of messages to send.", default="all", example=["invoice.created"]),
    "kind": Field("The kind of provider."),
    "live": Field("Whether it is the provider's live environment.", default="true"),
    "success_redirect_url": Field("Where the provider's pages send customers back to."),
    "supports_3ds": Field("Whether cards are confirmed by 3-D Secure.", default="false"),
    "require_terms_of_service_consent": Field("Whether pages ask for consent to your terms.", default="false"),
    "live_prefix": Field("The prefix of your live URL, from the provider."),
    "merchant_account": Field("Your account with the provider."),
    "flow_id": Field("The flow of payment pages."),
    "secret_key": Field("The provider's secret key.", example="sk_test_1"),
    "webhook_secret": Field("The key that the provider signs its messages with."),
    "access_token": Field("The provider's access token."),
    "api_key": Field("The provider's key."),
    "hmac_key": Field("The key that the provider signs its messages with."),
    "client_id": Field("Your id with the provider."),
    "client_secret": Field("Your secret with the provider."),
    "signature_key": Field("The key that the provider signs its messages with."),
    "item_codes": Field("Code of what is billed -> the provider's code; `default` for all others."),
    "applied_to_organization": Field(
        "Whether it applies to all customers without taxes of their own.", default="false"
    ),
    "sync_invoices": Field("Whether invoices are sent to it.", default="true"),
    "sync_credit_notes": Field("Whether credit notes are sent to it.", default="true"),
    "sync_payments": Field("Whether payments are sent to it.", default="true"),
    "default_targeted_object": Field(
        "The HubSpot object of customers that are neither a person nor a company.", values=TARGETED_OBJECTS
    ),
    "subject": Field("Only documents of this kind.", values=tuple(SyncSubject)),
    "subject_id": Field("Only the documents of this record, by id."),
    "webhook_endpoint_id": Field("Only messages to this webhook endpoint, by id."),
    # Events
    "transaction_id": Field("Your own id of the event, unique per subscription: a duplicate is not counted again."),
    "timestamp": Field(
        "When it happened, in Unix seconds; the library takes a `datetime` too.", default="now", example=1704067200
    ),
    "precise_total_amount_cents": Field("The price of the event, for dynamic charges.", unit="cents"),
    "events": Field("The events, up to 100; all are stored, or none."),
    # Filters of lists and reports
    "status": Field("Only those with this status."),
    "statuses": Field("Only those with one of these statuses."),
    "payment_statuses": Field("Only those with one of these payment statuses.", values=INVOICE_PAYMENT_STATUSES),
    "payment_overdue": Field("Only overdue ones, or only others."),
    "payment_dispute_lost": Field("Only those with a lost dispute, or only others."),
    "partially_paid": Field("Only partially paid ones, or only others."),
    "self_billed": Field("Only self-billed ones, or only others."),
    "invoice_type": Field("Only those of this type.", values=tuple(InvoiceType)),
    "issuing_date_from": Field("Only those issued on or after this day.", example="2024-01-01"),
    "issuing_date_to": Field("Only those issued on or before this day.", example="2024-12-31"),
    "amount_from": Field("Only those with at least this total.", unit="cents"),
    "amount_to": Field("Only those with at most this total.", unit="cents"),
    "settlements": Field("Only those settled by payments, credit notes or both.", values=("payment", "credit_note")),
    "customer_external_id": Field("Only those of this customer, by your own id."),
    "from_date": Field("Only those on or after this day.", example="2024-01-01"),
    "to_date": Field("Only those on or before this day.", example="2024-12-31"),
    "activity_types": Field("Only these types of change.", example=["customer.created"]),
    "activity_sources": Field("Only changes from these sources.", values=tuple(ActivitySource)),
    "user_emails": Field("Only changes by users with these addresses; there are no users."),
    "user_ids": Field("Only those of these users; there are no users."),
    "api_key_ids": Field("Only those of these API keys, by id."),
    "resource_ids": Field("Only those of these records, by id."),
    "resource_types": Field("Only those of records of these types.", example=["Invoice"]),
    "log_types": Field("Only these types of entry.", values=LOG_TYPES),
    "log_events": Field("Only these events.", example=["api_key.created"]),
    "http_methods": Field("Only requests with these methods.", example=["POST"]),
    "http_statuses": Field("Only those with these results: a status, `succeeded` or `failed`.", example=["422"]),
    "api_version": Field("Only requests of this version.", example="v1"),
    "request_paths": Field("Only requests with these paths.", example=["/api/v1/invoices"]),
    "clients": Field("Only requests from these clients."),
    "types": Field("Only those with one of these parts.", values=("credit", "refund", "offset")),
    "credit_status": Field("Only those with this credit status.", values=tuple(CreditStatus)),
    "refund_status": Field("The status of the refund.", values=INVOICE_PAYMENT_STATUSES),
    "invoice_number": Field("Only those of the invoice with this number."),
    "has_customer_type": Field("Only those with a type, or only those without.", values=("true", "false")),
    "has_tax_identification_number": Field(
        "Only those with a tax number, or only those without.", values=("true", "false")
    ),
    "countries": Field("Only those in these countries.", example=["BE"]),
    "states": Field("Only those in these states."),
    "zipcodes": Field("Only those with these postal codes."),
    "fee_type": Field("Only fees of this type.", values=tuple(FeeType)),
    "event_transaction_id": Field("Only the fees of this event."),
    "created_at_from": Field("Only those created at or after this instant."),
    "created_at_to": Field("Only those created at or before this instant."),
    "succeeded_at_from": Field("Only those paid at or after this instant."),
    "succeeded_at_to": Field("Only those paid at or before this instant."),
    "failed_at_from": Field("Only those whose payment failed at or after this instant."),
    "failed_at_to": Field("Only those whose payment failed at or before this instant."),
    "refunded_at_from": Field("Only those refunded at or after this instant."),
    "refunded_at_to": Field("Only those refunded at or before this instant."),
    "timestamp_from": Field("Only events at or after this instant."),
    "timestamp_to": Field("Only events at or before this instant."),
    "timestamp_from_started_at": Field("Whether to start at the start of the subscription.", default="false"),
    "months": Field("The number of months, including the current one.", unit="months", default="12"),
    "periods_count": Field("The number of past periods.", unit="periods"),
    "time_granularity": Field("The length of a row's period.", values=("daily", "weekly", "monthly"), default="daily"),
    "customer_country": Field("Only usage of customers in this country."),
    "is_billable_metric_recurring": Field("Only usage of recurring metrics, or only of others."),
    "apply_taxes": Field("Whether to compute taxes.", default="true"),
    "filter_by_charge_id": Field("The same as `charge_id`."),
    "filter_by_charge_code": Field("The same as `charge_code`."),
    "filter_by_metric_code": Field("The same as `billable_metric_code`."),
    "filter_by_group": Field("Only the group with these values of the pricing group keys."),
    "group": Field("The same as `filter_by_group`."),
    "filter_by_presentation": Field("The presentation keys to break units down by."),
    "skip_grouping": Field("Whether groups are added up.", default="false"),
    "full_usage": Field("Whether to include usage of the period that is already invoiced.", default="false"),
    "transaction_status": Field("Only transactions of this kind.", values=tuple(TransactionKind)),
    "transaction_type": Field("Only inbound transactions, or only outbound ones.", values=tuple(TransactionType)),
    "charge": Field("The options, nested under the resource."),
    "filter": Field("The options, nested under the resource."),
    "fixed_charge": Field("The options, nested under the resource."),
    # Names with a second meaning
    "FixedChargeInput.charge_model": Field("How units are priced.", values=_FIXED_MODELS, example="standard"),
    "FixedChargeInput.units": Field("The number of units charged.", unit="units", example="3"),
    "FixedChargeInput.pay_in_advance": Field("Whether it is paid at the start of a period.", default="false"),
    "FixedChargeInput.prorated": Field("Whether the price is prorated for part of a period.", default="false"),
    "PlanInput.amount_cents": Field("The fee of each interval, before taxes.", unit="cents", example=4900),
    "PlanInput.pay_in_advance": Field("Whether the fee is paid at the start of each interval."),
    "UsageThresholdInput.amount_cents": Field(
        "The lifetime usage at which usage is invoiced.", unit="cents", example=10000
    ),
    "UsageThresholdInput.recurring": Field("Whether every multiple is a threshold.", default="false"),
    "MinimumCommitmentInput.amount_cents": Field("The minimum per interval, before taxes.", unit="cents"),
    "AlertThresholdInput.value": Field("The value that triggers: cents, units or credits.", example="10000"),
    "AlertThresholdInput.recurring": Field("Whether every further multiple triggers.", default="false"),
    "AlertThresholdInput.code": Field("The code of the threshold in messages.", example="warn"),
    "AddOnInput.amount_cents": Field("The price of one unit, before taxes.", unit="cents", example=5000),
    "CouponInput.amount_cents": Field("The total discount.", unit="cents", example=1000),
    "AppliedCouponInput.amount_cents": Field("The discount.", unit="cents", default="that of the coupon"),
    "AppliedCouponInput.percentage_rate": Field("The discount.", unit="percent", default="that of the coupon"),
    "AppliedCouponInput.frequency": Field(
        "How many invoices it reduces.", values=tuple(CouponFrequency), default="that of the coupon"
    ),
    "AppliedCouponFilters.status": Field("Only those with this status.", values=tuple(CouponStatus)),
    "AppliedCouponFilters.coupon_code": Field("Only those of these coupons, by code."),
    "ChargeFilterInput.values": Field("Property -> the values that match.", example={"region": ["us", "eu"]}),
    "ChargeFilterInput.properties": Field("Its prices, in the form of the charge's model.", example={"amount": "0.2"}),
    "CouponTargets.plan_codes": Field("The plans whose fees it reduces, by code."),
    "CouponTargets.billable_metric_codes": Field("The metrics whose fees it reduces, by code."),
    "CustomerFilters.account_type": Field("Only those of these types of account.", values=ACCOUNT_TYPES),
    "CustomerFilters.customer_type": Field("Only those of this type.", values=CUSTOMER_TYPES),
    "CustomerInput.finalize_zero_amount_invoice": Field(
        "Whether invoices with a total of 0 are issued.", values=ZERO_AMOUNT_OPTIONS, default="inherit"
    ),
    "CustomerInput.external_id": Field(
        "Your own id of the customer; an existing id updates that customer.", example="acme"
    ),
    "CustomerInput.metadata": Field("Your own values, each with a key."),
    "CustomerInput.tax_identification_number": Field("The VAT or other tax number.", example="BE0123456749"),
    "CustomerMetadataInput.display_in_invoice": Field("Whether invoices show it.", default="false"),
    "DunningThresholdInput.amount_cents": Field("The overdue balance from which payment is requested.", unit="cents"),
    "ExpressionInput.expression": Field(
        "The expression to try.", example="event.properties.gb * event.properties.hours"
    ),
    "FeeFilters.payment_status": Field("Only those with this payment status.", values=tuple(PaymentStatus)),
    "FeeInput.payment_status": Field("Whether it is paid.", values=tuple(PaymentStatus), example="succeeded"),
    "IntegrationCustomerInput.external_customer_id": Field("The customer's id with the provider."),
    "IntegrationCustomerInput.id": Field("The id of an existing link."),
    "InvoiceFilters.status": Field("Only those with these statuses.", values=tuple(InvoiceStatus)),
    "InvoiceFilters.statuses": Field("The same as `status`.", values=tuple(InvoiceStatus)),
    "InvoiceFilters.payment_status": Field("Only those with these payment statuses.", values=INVOICE_PAYMENT_STATUSES),
    "CreditNoteFilters.reason": Field("Only those with these reasons.", values=tuple(CreditNoteReason)),
    "LifetimeUsageOptions.status": Field("The same as `subscription_status`.", values=tuple(SubscriptionStatus)),
    "EventListFilters.unbilled": Field(
        "Only events that no charge bills at present, each with the reason.", default="false"
    ),
    "MessageFilters.statuses": Field("Only those with these statuses.", values=tuple(MessageStatus)),
    "MessageFilters.event_types": Field("Only messages of these types.", example=["invoice.created"]),
    "MessageFilters.from_date": Field("Only those at or after this instant."),
    "MessageFilters.to_date": Field("Only those at or before this instant."),
    "MetricFilterInput.key": Field("The property of events.", example="region"),
    "MetricFilterInput.values": Field("All values that charge filters may use.", example=["us", "eu"]),
    "BillableMetricInput.filters": Field("The properties by which prices may differ, and their values."),
    "OneOffFeeInput.units": Field("The number of units.", unit="units", default="1", example="2"),
    "PaymentConnectionInput.kind": Field("The kind of provider.", values=tuple(PAYMENT_KINDS)),
    "PaymentConnectionInput.url": Field("The URL of the provider's API.", default="its public address"),
    "PaymentInput.amount_cents": Field("The amount paid.", unit="cents", example=100),
    "PaymentRequestInput.email": Field("The recipient of the request; several addresses are separated by commas."),
    "PaymentRequestFilters.payment_status": Field("Only those with this status.", values=INVOICE_PAYMENT_STATUSES),
    "RuleInput.interval": Field("How often it tops up.", values=tuple(RuleInterval)),
    "StatusOptions.status": Field(
        "The status of the subscription, if several share the id.", values=tuple(SubscriptionStatus)
    ),
    "WhichSubscription.status": Field("The same as `subscription_status`.", values=tuple(SubscriptionStatus)),
    "SubscriptionFilters.status": Field(
        "Only those with these statuses.", values=tuple(SubscriptionStatus), default="active"
    ),
    "SubscriptionInput.external_id": Field(
        "Your own id of the subscription, which events refer to. Another plan for it is an upgrade or a downgrade.",
        example="acme-1",
    ),
    "SubscriptionInput.name": Field("The name on invoices.", default="the name of the plan"),
    "SubscriptionTermination.status": Field(
        "The status of the subscription to end, if several share the id.", values=tuple(SubscriptionStatus)
    ),
    "TaxInput.rate": Field("The rate of the tax.", unit="percent", example="20"),
    "TaxConnectionInput.kind": Field("The kind of tax provider.", values=TAX_KINDS),
    "SyncConnectionInput.kind": Field("The kind of system.", values=SYNC_KINDS),
    "SyncConnectionInput.url": Field("The URL of your bridge.", example="https://books.example"),
    "TaxConnectionInput.url": Field("The URL of the provider.", example="https://taxes.example"),
    "StandardProperties.amount": Field("The price of one unit.", unit="major units", example="0.25"),
    "PackageProperties.amount": Field("The price of one package.", unit="major units", example="5"),
    "GraduatedPercentageRange.rate": Field("The percentage of the units in the range.", unit="percent", example="1"),
    "PercentageProperties.rate": Field("The percentage of the units.", unit="percent", example="1.5"),
    "VolumeRange.per_unit_amount": Field("The price of every unit if the total is in this range.", unit="major units"),
    "VolumeRange.flat_amount": Field("Added to the total.", unit="major units"),
    "PresentationKey.value": Field("The property of events.", example="region"),
    "ActivationRuleInput.type": Field("The condition.", values=("payment",)),
    "PreviewSubscriptions.plan_code": Field("Previews the invoice of a change to this plan."),
    "CreditNoteItemInput.amount_cents": Field("The credited part of the fee, before taxes.", unit="cents", example=100),
    "CloudEventsInput.events": Field("The CloudEvents."),
    "CloudEventFields.specversion": Field("The version of CloudEvents.", values=("1.0",), example="1.0"),
    "CloudEventFields.id": Field("The id of the event, unique per source.", example="7"),
    "CloudEventFields.source": Field("Where it happened; `source` and `id` identify the event.", example="/meter/eu"),
    "CloudEventFields.type": Field("The billable metric, by code.", example="storage"),
    "CloudEventFields.subject": Field("The subscription, by external id.", example="acme-1"),
    "CloudEventFields.time": Field("When it happened, RFC 3339.", default="now"),
    "CloudEventFields.data": Field("The properties of the event.", example={"gb": 46.5}),
    "CloudEventFields.precisetotalamountcents": Field("The price of a dynamic charge.", unit="cents", example="12.5"),
    "RefusedEventFilters.source": Field("Only those from this source.", example="kafka:usage"),
    "EventInput.code": Field("The billable metric, by code.", example="storage"),
    "EventFields.code": Field("The billable metric, by code.", example="storage"),
    "EventInput.properties": Field("Values for the metric, filters and groups.", example={"gb": 1.5}),
    "EventFields.properties": Field("Values for the metric, filters and groups."),
    "ExpressionEventInput.properties": Field("The properties of the event."),
    "ExpressionEventInput.code": Field("The billable metric, by code."),
    "ExpressionEventInput.timestamp": Field("When it happened."),
    "WalletFilters.currency": Field("Only those of this currency, ISO 4217."),
    "WalletTransactionFilters.status": Field("Only those with this status.", values=tuple(WalletTransactionStatus)),
    "SyncedDocumentFilters.status": Field("Only those with this status."),
    "ResendFilters.event_types": Field("Resends messages of these types.", example=["invoice.created"]),
    "NoticeFilters.status": Field("Only those with this status."),
    "WalletInput.expiration_at": Field("When its credits expire."),
    "WalletUpdate.expiration_at": Field("When its credits expire."),
    "RuleInput.expiration_at": Field("When the rule expires."),
}
