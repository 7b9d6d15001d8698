"""What every field of a request means: by its name, or by its class and name if it means something of its own."""

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
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.core.sync_connections import KINDS as SYNC_KINDS
from usagebill.core.sync_connections import TARGETED_OBJECTS, SyncSubject
from usagebill.core.tax_providers import KINDS as TAX_KINDS
from usagebill.core.wallet_transactions import TransactionKind, TransactionType, WalletTransactionStatus
from usagebill.core.wallets import FEE_TYPES
from usagebill.core.webhooks import MessageStatus, SignatureAlgorithm
from usagebill.reference.field import Field

__all__ = ["FIELDS"]

_FIXED_MODELS = tuple(name for name, model in MODELS.items() if model.of_fixed_charges)
_DUE_DAY = "The issuing date of invoices of subscriptions"

FIELDS: Mapping[str, Field] = {
    # Names, codes and texts
    "name": Field("The name that people read.", example="Pro"),
    "code": Field("The code that it is named by, unique among its kind.", example="pro"),
    "id": Field("The id of the existing one that is meant; without it one is added.", example="1a901a90-1a90-4a90"),
    "svc_id": Field("The id of the existing one that is meant; without it one is added."),
    "external_id": Field("Your own id, by which you name it everywhere.", example="acme"),
    "invoice_display_name": Field("What invoices call it.", default="its name", example="API calls"),
    "description": Field("A text for people; nothing is computed from it.", example="For teams of up to ten"),
    "display_name": Field("The heading under which documents show it.", example="Bank details"),
    "details": Field("The text that documents show.", example="IBAN DE75 5121 0800 1245 1261 99"),
    "metadata": Field("Values of your own by key, kept and shown with it.", example={"team": "growth"}),
    "purchase_order_number": Field("The customer's order number, shown on invoices.", example="PO-1234"),
    "search_term": Field("Keeps what contains this text, whatever its case.", example="acme"),
    # Money
    "amount_cents": Field("The amount, before taxes.", unit="cents", example=4900),
    "amount_currency": Field("The currency of the amount, ISO 4217.", example="EUR"),
    "currency": Field("The currency, ISO 4217.", example="EUR"),
    "currencies": Field("Keeps those of one of these currencies, ISO 4217.", example=["EUR"]),
    "default_currency": Field("The currency of whoever names none, ISO 4217.", example="EUR"),
    "tax_codes": Field("The taxes that apply, by code.", default="those of the level above", example=["vat"]),
    # Customers, subscriptions and others, as they are named elsewhere
    "external_customer_id": Field("The customer, by your own id.", example="acme"),
    "external_subscription_id": Field("The subscription, by your own id.", example="acme-1"),
    "plan_code": Field("The plan, by code.", example="pro"),
    "plan_codes": Field("Plans, by code.", example=["pro"]),
    "coupon_code": Field("The coupon, by code.", example="welcome"),
    "add_on_code": Field("The add-on that is sold, by code.", example="setup"),
    "add_on_id": Field("The add-on that is sold, by id; its code does too."),
    "invoice_id": Field("The invoice, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a01"),
    "svc_invoice_ids": Field("The overdue invoices that are asked for, by id."),
    "fee_id": Field("The fee, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a02"),
    "wallet_id": Field("The wallet, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a03"),
    "subscription_id": Field("The subscription, by id."),
    "charge_id": Field("The charge, by id."),
    "charge_code": Field("The charge, by code.", example="calls"),
    "charge_filter_id": Field("The filter of the charge, by id; without it, what no filter takes."),
    "fixed_charge_id": Field("The fixed charge, by id."),
    "billable_metric_id": Field(
        "The billable metric that is priced, by id.", example="1a901a90-1a90-4a90-8a90-1a901a901a04"
    ),
    "billable_metric_code": Field("The billable metric, by code.", example="calls"),
    "billable_metric_codes": Field("Billable metrics, by code.", example=["calls"]),
    "billing_entity_code": Field("The billing entity that issues invoices, by code.", default="the default one"),
    "billing_entity_codes": Field("Keeps those of one of these billing entities, by code."),
    "billing_entity_id": Field("The billing entity, by id; its code does too."),
    "applied_dunning_campaign_code": Field("The dunning campaign that asks for overdue invoices, by code."),
    "exclude_from_dunning_campaign": Field("Whether no campaign asks this customer.", default="false"),
    # Billable metrics
    "aggregation_type": Field(
        "How events become units: they are counted, or the values of `field_name` are summed, and so on.",
        values=tuple(AGGREGATIONS),
        example="sum_agg",
    ),
    "field_name": Field("The property of events whose values are aggregated; a count needs none.", example="gb"),
    "recurring": Field("Whether units carry over into the next period.", default="false"),
    "weighted_interval": Field("How finely a weighted sum weighs time.", values=WEIGHTED_INTERVALS),
    "rounding_function": Field("How units are rounded before they are priced.", values=ROUNDING_FUNCTIONS),
    "rounding_precision": Field("To how many decimals units are rounded.", default="0"),
    "expression": Field(
        "Computes the value of an event from its properties.", example="event.properties.gb * event.properties.hours"
    ),
    "key": Field("The key.", example="region"),
    "value": Field("The value.", example="eu"),
    "values": Field("The values that are taken.", example=["us", "eu"]),
    "event": Field(
        "An event to try the expression on.", example={"code": "storage", "properties": {"gb": 2, "hours": 3}}
    ),
    # Plans and charges
    "interval": Field("How often the plan is billed.", values=INTERVALS, example="monthly"),
    "trial_period": Field("How long the plan's fee is free after the start.", unit="days", default="0"),
    "pay_in_advance": Field(
        "Whether it is paid at the start of a period, or of usage with each event.", default="false"
    ),
    "bill_charges_monthly": Field(
        "Whether usage of a yearly or semiannual plan is billed every month.", default="false"
    ),
    "bill_fixed_charges_monthly": Field(
        "Whether fixed charges of a yearly or semiannual plan are billed every month.", default="false"
    ),
    "minimum_commitment": Field("The least that each interval brings in; what is missing is billed at its end."),
    "charges": Field("The prices of usage, one charge for each metric and price. An update replaces them all."),
    "fixed_charges": Field("What is charged whatever the usage. An update replaces them all."),
    "usage_thresholds": Field("Amounts of lifetime usage at which usage is invoiced at once."),
    "cascade_updates": Field("Whether the plan's overrides follow, as far as they still equal it.", default="false"),
    "charge_model": Field("How units become an amount.", values=tuple(MODELS), example="standard"),
    "prorated": Field("Whether units count by the share of the period that they were there.", default="false"),
    "invoiceable": Field("Whether fees paid in advance get an invoice each.", default="true"),
    "regroup_paid_fees": Field(
        "`invoice` gathers fees without an invoice, once paid, on one a period.", values=("invoice",)
    ),
    "min_amount_cents": Field("The least that the charge brings in for each period.", unit="cents", default="0"),
    "accepts_target_wallet": Field("Whether events may name the wallet that pays for them.", default="false"),
    "properties": Field("The prices, in the form of the charge model.", example={"amount": "0.25"}),
    "filters": Field("Other prices for events of certain properties."),
    "applied_pricing_unit": Field("Prices in a currency of your own, and what one unit of it is worth."),
    "conversion_rate": Field("What one pricing unit is worth in the plan's currency.", example="0.5"),
    "units": Field("How many.", example="3"),
    "apply_units_immediately": Field(
        "Whether other units count from now on, not from the next period.", default="false"
    ),
    "threshold_display_name": Field("What invoices call the threshold.", example="First 100 euros"),
    "short_name": Field("What prices show, up to three letters.", example="CR"),
    # Properties of charge models
    "amount": Field("The price of one unit, or of one package.", unit="major units", example="0.25"),
    "graduated_ranges": Field("The ranges, from 0 on without a gap; the last is open."),
    "graduated_percentage_ranges": Field("The ranges, from 0 on without a gap; the last is open."),
    "volume_ranges": Field("The ranges, from 0 on without a gap; the last is open."),
    "from_value": Field(
        "Where the range begins: 0, or one above the end of the range before.", unit="units", example=0
    ),
    "to_value": Field("Where the range ends, included; null is the end of the last range.", unit="units", example=10),
    "per_unit_amount": Field("The price of each unit in the range.", unit="major units", example="0.25"),
    "flat_amount": Field("What is added once the range is reached.", unit="major units", example="0"),
    "rate": Field("The rate.", unit="percent", example="1.5"),
    "package_size": Field("How many units a package holds.", unit="units", example=100),
    "free_units": Field("Units that are free in each period.", unit="units", example=0),
    "fixed_amount": Field("What each event costs beside the percentage.", unit="major units", default="0"),
    "free_units_per_events": Field("How many events are free in each period.", unit="events"),
    "free_units_per_total_aggregation": Field("How many units are free in each period.", unit="units"),
    "per_transaction_min_amount": Field("The least that one event costs.", unit="major units"),
    "per_transaction_max_amount": Field("The most that one event costs.", unit="major units"),
    "custom_properties": Field("What your aggregation program is given."),
    "pricing_group_keys": Field("Properties of events: each combination of their values is priced by itself."),
    "presentation_group_keys": Field("Up to two properties of events by which units are broken down, but not priced."),
    "options": Field("How the breakdown is shown."),
    "display_in_invoice": Field("Whether invoices show it.", default="false"),
    # Subscriptions
    "billing_time": Field(
        "Whether periods are those of the calendar, or begin on the day of the start.",
        values=("calendar", "anniversary"),
        default="calendar",
    ),
    "authorization": Field("What Stripe has to authorize on the customer's payment method first; it is not taken."),
    "subscription_at": Field("When it starts; in the past, it is billed from then on.", default="now"),
    "ending_at": Field("When it ends by itself.", example="2030-12-31T23:59:59Z"),
    "plan_overrides": Field("What this subscription alone says differently from its plan."),
    "activation_rules": Field("What must happen before it is active: `payment` waits for the first payment."),
    "timeout_hours": Field("How long the payment may take; 0 is as long as it takes.", unit="hours", default="0"),
    "consolidate_invoice": Field("Whether it shares invoices with the customer's other subscriptions.", default="true"),
    "progressive_billing_disabled": Field("Whether usage thresholds are left out.", default="false"),
    "payment_method": Field("How its invoices are paid.", default="the customer's own method"),
    "payment_method_type": Field("Through a provider, or by hand.", values=("provider", "manual"), default="provider"),
    "payment_method_id": Field("One of the customer's payment methods, by id.", default="the customer's default one"),
    "invoice_custom_section": Field("The texts that its invoices end with."),
    "skip_invoice_custom_sections": Field("Whether invoices end without any such text.", default="false"),
    "invoice_custom_section_codes": Field("The texts that invoices end with, by code."),
    "on_termination_credit_note": Field(
        "What becomes of the time that was paid for and is not used.",
        values=("credit", "refund", "offset", "skip"),
        default="credit",
    ),
    "on_termination_invoice": Field(
        "Whether usage up to the end is invoiced.", values=("generate", "skip"), default="generate"
    ),
    "external_historical_usage_amount_cents": Field("What had been used before usagebill billed it.", unit="cents"),
    "subscription_status": Field("Which of the subscriptions of that id is meant.", values=tuple(SubscriptionStatus)),
    "overridden": Field("Whether the plan is one of the subscription's own."),
    "overriden": Field("The same as `overridden`, as older clients spell it."),
    # Customers and billing entities
    "firstname": Field("The first name of the person.", example="Ada"),
    "lastname": Field("The last name of the person.", example="Lovelace"),
    "customer_type": Field("Whether it is a company or a person.", values=CUSTOMER_TYPES),
    "account_type": Field("A partner is billed by itself: its invoices are self-billed.", values=ACCOUNT_TYPES),
    "email": Field("The address of its e-mails; several are separated by commas.", example="billing@acme.example"),
    "phone": Field("The telephone number.", example="+32 2 555 12 12"),
    "url": Field("The web site.", example="https://acme.example"),
    "logo_url": Field("Where the logo is.", example="https://acme.example/logo.png"),
    "legal_name": Field("The name in law, shown on documents.", example="Acme NV"),
    "legal_number": Field("The number in the register of companies.", example="0123.456.789"),
    "tax_identification_number": Field("The VAT or other tax number.", example="BE0123456749"),
    "address_line1": Field("Street and number.", example="Nieuwstraat 1"),
    "address_line2": Field("The second line of the address.", example="Floor 3"),
    "city": Field("The city.", example="Brussels"),
    "state": Field("The state or province.", example="Brussels"),
    "zipcode": Field("The postal code.", example="1000"),
    "country": Field("The country, ISO 3166-1 with two letters.", example="BE"),
    "shipping_address": Field("The address of delivery, which taxes follow if there is one."),
    "timezone": Field("The time zone that days and periods begin in, by its IANA name.", example="Europe/Brussels"),
    "net_payment_term": Field("How long an invoice may be unpaid.", unit="days", default="0"),
    "finalize_zero_amount_invoice": Field("Whether invoices of nothing are issued.", default="true"),
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
    "provider_customer_id": Field("What the payment provider calls the customer."),
    "sync": Field("Whether the provider is asked at once.", default="false"),
    "sync_with_provider": Field("Whether the provider is to create the customer.", default="false"),
    "provider_payment_methods": Field("The kinds of method the customer may pay by.", example=["card"]),
    "integration_customers": Field("The systems that the customer is linked to. A link that is not sent ends."),
    "integration_type": Field("The kind of system.", values=tuple(INTEGRATION_CATEGORIES)),
    "integration_code": Field("The connection to the system, by code."),
    "subsidiary_id": Field("The provider's subsidiary."),
    "targeted_object": Field("What the provider keeps the customer as."),
    "document_numbering": Field("What invoices are numbered by.", values=DOCUMENT_NUMBERINGS, default="per_customer"),
    "OrganizationInput.document_numbering": Field(
        "What invoices are numbered by.", values=ORGANIZATION_NUMBERINGS, default="per_customer"
    ),
    "document_number_prefix": Field("What numbers of invoices begin with, up to ten letters.", example="ACME"),
    "email_settings": Field("Which e-mails are sent.", values=EMAIL_SETTINGS),
    "invoice_footer": Field("The last line of documents.", example="Thank you"),
    "einvoicing": Field("Whether documents are e-invoices too.", default="false"),
    "eu_tax_management": Field("Whether VAT of the EU is worked out from addresses and numbers.", default="false"),
    "logo": Field("The logo of documents: a PNG or JPEG as `data:image/png;base64,...`."),
    "webhook_url": Field("Where webhook messages are sent.", example="https://hooks.acme.example/usagebill"),
    # Coupons
    "coupon_type": Field("An amount, or a percentage.", values=tuple(CouponType), example="percentage"),
    "percentage_rate": Field("How much of each invoice is taken off.", unit="percent", example="10"),
    "frequency": Field("How many invoices it reduces.", values=tuple(CouponFrequency), example="once"),
    "frequency_duration": Field("How many invoices a recurring coupon reduces.", unit="invoices"),
    "expiration": Field("Whether it can be applied for ever.", values=tuple(CouponExpiration), example="no_expiration"),
    "expiration_at": Field("When it ends.", example="2030-12-31T23:59:59Z"),
    "reusable": Field("Whether a customer may have it several times.", default="true"),
    "applies_to": Field("What it is limited to."),
    # Wallets
    "rate_amount": Field("What one credit is worth.", unit="major units", example="1"),
    "paid_credits": Field("Credits that are bought: an invoice asks for their price.", unit="credits", example="10"),
    "granted_credits": Field("Credits that are given.", unit="credits", example="5"),
    "voided_credits": Field("Credits that are taken away.", unit="credits"),
    "voided_transaction_id": Field("The granted or bought credits to take away from, by id."),
    "priority": Field("Wallets and credits of a lower number are used first, 1 to 50.", default="50"),
    "invoice_requires_successful_payment": Field(
        "Whether the invoice is issued only once it is paid.", default="false"
    ),
    "paid_top_up_min_amount_cents": Field("The least that one top-up may cost.", unit="cents"),
    "paid_top_up_max_amount_cents": Field("The most that one top-up may cost.", unit="cents"),
    "ignore_paid_top_up_limits": Field("Whether these top-ups may pass the wallet's limits.", default="false"),
    "ignore_paid_top_up_limits_on_creation": Field("Whether the first top-up may pass the limits.", default="false"),
    "transaction_name": Field("What the invoice calls the credits.", example="Prepaid credits"),
    "transaction_metadata": Field("Values of your own on the transaction, each with `key` and `value`."),
    "transaction_priority": Field("The priority of the first credits, 1 to 50.", default="50"),
    "recurring_transaction_rules": Field("When the wallet is topped up by itself."),
    "trigger": Field("When: at an interval, or below a balance.", values=tuple(RuleTrigger), example="interval"),
    "method": Field("How much: a fixed number, or up to a target.", values=tuple(RuleMethod), default="fixed"),
    "threshold_credits": Field("The ongoing balance that tops up once it is reached.", unit="credits"),
    "target_ongoing_balance": Field("The ongoing balance to top up to.", unit="credits"),
    "grants_target_top_up": Field("Whether the credits up to the target are given, not bought.", default="false"),
    "started_at": Field("From when on.", default="now"),
    "fee_types": Field("The types of fee that it pays.", values=FEE_TYPES),
    "current_ongoing_balance": Field("Whether the ongoing balance is worked out now.", default="false"),
    # Invoices, fees, credit notes and payments
    "fees": Field("The lines."),
    "unit_amount_cents": Field("The price of one unit.", unit="cents", default="that of the add-on"),
    "unit_precise_amount": Field("The price of one unit.", unit="major units", example="1.25"),
    "unit_amount": Field("The price of one unit.", unit="major units", example="1.25"),
    "from_datetime": Field("When what is charged for begins."),
    "to_datetime": Field("When what is charged for ends."),
    "skip_psp": Field("Whether no payment provider is asked to collect it.", default="false"),
    "payment_status": Field("Whether it is paid.", values=INVOICE_PAYMENT_STATUSES, example="succeeded"),
    "generate_credit_note": Field("Whether a credit note gives back what was paid.", default="false"),
    "refund_amount": Field("How much is paid back.", unit="cents"),
    "credit_amount": Field("How much is kept for later invoices.", unit="cents"),
    "reason": Field("Why.", values=tuple(CreditNoteReason), default="other"),
    "credit_amount_cents": Field("How much is kept for later invoices, with taxes.", unit="cents", example=100),
    "refund_amount_cents": Field("How much is paid back, with taxes.", unit="cents"),
    "offset_amount_cents": Field("How much the unpaid invoice is reduced by, with taxes.", unit="cents"),
    "items": Field("What is credited of each fee."),
    "reference": Field("How you find the payment again.", example="bank transfer 17"),
    "paid_at": Field("When it was paid.", default="now"),
    "to": Field("Who receives it.", default="the customer's address"),
    "cc": Field("Who receives a copy."),
    "bcc": Field("Who receives a copy that others do not see."),
    "bcc_emails": Field("Who receives a copy that others do not see."),
    "customer": Field("The customer: an `external_id`, fields that replace its own, or both."),
    "coupons": Field("Coupons for a customer who has none: by `code`, or as they would be created."),
    "subscriptions": Field("Existing subscriptions whose next invoice is shown."),
    "external_ids": Field("The subscriptions, by your own ids.", example=["acme-1"]),
    "terminated_at": Field("Shows the invoice of their end at this instant."),
    # Entitlements, alerts, dunning
    "entitlements": Field("Feature -> privilege -> value.", example={"seats": {"most": 5}}),
    "privileges": Field("The settings of the feature."),
    "value_type": Field("What the privilege holds.", values=tuple(ValueType), default="string"),
    "config": Field("The options of a `select`."),
    "select_options": Field("What may be chosen.", example=["basic", "gold"]),
    "alert_type": Field("What is watched.", values=tuple(AlertType), example="current_usage_amount"),
    "thresholds": Field("Where it triggers."),
    "alert": Field("The alert; several are sent as `alerts`."),
    "alerts": Field("The alerts, all or none of which are created."),
    "days_between_attempts": Field("How long to wait before asking again.", unit="days"),
    "max_attempts": Field("How often to ask.", unit="attempts"),
    # Keys, webhooks, connections
    "permissions": Field(
        "Resource -> `read` and `write`.", default="everything", example={"invoice": ["read"], "event": ["write"]}
    ),
    "expires_at": Field("When it ends.", example="2030-12-31T23:59:59Z"),
    "signature_algo": Field("How messages are signed.", values=tuple(SignatureAlgorithm), default="jwt"),
    "event_types": Field("The types of message that are sent.", default="all", example=["invoice.created"]),
    "kind": Field("The kind of provider."),
    "live": Field("Whether it is the provider's live environment.", default="true"),
    "success_redirect_url": Field("Where customers come back to from the provider's pages."),
    "supports_3ds": Field("Whether cards are confirmed by 3-D Secure.", default="false"),
    "require_terms_of_service_consent": Field("Whether pages ask for consent to your terms.", default="false"),
    "live_prefix": Field("The prefix of the live URL that the provider gave you."),
    "merchant_account": Field("Your account with the provider."),
    "flow_id": Field("The flow that pages follow."),
    "secret_key": Field("The provider's secret key.", example="sk_test_1"),
    "webhook_secret": Field("What the provider signs its messages with."),
    "access_token": Field("The provider's access token."),
    "api_key": Field("The provider's key."),
    "hmac_key": Field("What the provider signs its messages with."),
    "client_id": Field("Your id with the provider."),
    "client_secret": Field("Your secret with the provider."),
    "signature_key": Field("What the provider signs its messages with."),
    "item_codes": Field("What is billed, by its code -> the provider's code of it; `default` is any other."),
    "applied_to_organization": Field(
        "Whether it applies to every customer who has no tax of its own.", default="false"
    ),
    "sync_invoices": Field("Whether invoices are sent to it.", default="true"),
    "sync_credit_notes": Field("Whether credit notes are sent to it.", default="true"),
    "sync_payments": Field("Whether payments are sent to it.", default="true"),
    "default_targeted_object": Field(
        "What HubSpot keeps a customer as that is neither a person nor a company.", values=TARGETED_OBJECTS
    ),
    "subject": Field("Keeps documents of this kind.", values=tuple(SyncSubject)),
    "subject_id": Field("Keeps the documents of this record, by id."),
    "webhook_endpoint_id": Field("Keeps messages to this webhook endpoint, by id."),
    # Events
    "transaction_id": Field("Your own id of the event, unique in its subscription: sent again, it counts once."),
    "timestamp": Field(
        "When it happened, in Unix seconds; the library takes a `datetime` too.", default="now", example=1704067200
    ),
    "precise_total_amount_cents": Field("The event's own price, for dynamic charges.", unit="cents"),
    "events": Field("The events, up to 100; all are stored, or none."),
    # Filters of lists and reports
    "status": Field("Keeps those of this status."),
    "statuses": Field("Keeps those of one of these statuses."),
    "payment_statuses": Field("Keeps those of one of these payment statuses.", values=INVOICE_PAYMENT_STATUSES),
    "payment_overdue": Field("Keeps those that are overdue, or that are not."),
    "payment_dispute_lost": Field("Keeps those whose dispute was lost, or was not."),
    "partially_paid": Field("Keeps those that are paid in part, or that are not."),
    "self_billed": Field("Keeps those of partners, or of others."),
    "invoice_type": Field("Keeps those of this type.", values=tuple(InvoiceType)),
    "issuing_date_from": Field("Keeps those issued on this day or later.", example="2024-01-01"),
    "issuing_date_to": Field("Keeps those issued on this day or earlier.", example="2024-12-31"),
    "amount_from": Field("Keeps those of this total or more.", unit="cents"),
    "amount_to": Field("Keeps those of this total or less.", unit="cents"),
    "settlements": Field("Keeps those settled by payments, credit notes or both.", values=("payment", "credit_note")),
    "customer_external_id": Field("Keeps those of this customer, by your own id."),
    "from_date": Field("Keeps those of this day or later.", example="2024-01-01"),
    "to_date": Field("Keeps those of this day or earlier.", example="2024-12-31"),
    "activity_types": Field("Keeps these types of change.", example=["customer.created"]),
    "activity_sources": Field("Keeps changes made by these.", values=tuple(ActivitySource)),
    "user_emails": Field("Keeps changes made by users of these addresses; there are none."),
    "user_ids": Field("Keeps those of these users; there are none."),
    "api_key_ids": Field("Keeps those of these API keys, by id."),
    "resource_ids": Field("Keeps those of these records, by id."),
    "resource_types": Field("Keeps those of records of these kinds.", example=["Invoice"]),
    "log_types": Field("Keeps these types of entry.", values=LOG_TYPES),
    "log_events": Field("Keeps these events.", example=["api_key.created"]),
    "http_methods": Field("Keeps requests of these methods.", example=["POST"]),
    "http_statuses": Field("Keeps those answered so: a status, `succeeded` or `failed`.", example=["422"]),
    "api_version": Field("Keeps requests of this version.", example="v1"),
    "request_paths": Field("Keeps requests of these paths.", example=["/api/v1/invoices"]),
    "clients": Field("Keeps requests of these clients."),
    "types": Field("Keeps those that have one of these parts.", values=("credit", "refund", "offset")),
    "credit_status": Field("Keeps those whose credit stands so.", values=tuple(CreditStatus)),
    "refund_status": Field("How the refund stands.", values=INVOICE_PAYMENT_STATUSES),
    "invoice_number": Field("Keeps those of the invoice with this number."),
    "has_customer_type": Field("Keeps those that have a type, or have none.", values=("true", "false")),
    "has_tax_identification_number": Field(
        "Keeps those that have a tax number, or have none.", values=("true", "false")
    ),
    "countries": Field("Keeps those of these countries.", example=["BE"]),
    "states": Field("Keeps those of these states."),
    "zipcodes": Field("Keeps those of these postal codes."),
    "fee_type": Field("Keeps fees of this type.", values=tuple(FeeType)),
    "event_transaction_id": Field("Keeps the fees of this event."),
    "created_at_from": Field("Keeps those made at this instant or later."),
    "created_at_to": Field("Keeps those made at this instant or earlier."),
    "succeeded_at_from": Field("Keeps those paid at this instant or later."),
    "succeeded_at_to": Field("Keeps those paid at this instant or earlier."),
    "failed_at_from": Field("Keeps those whose payment failed at this instant or later."),
    "failed_at_to": Field("Keeps those whose payment failed at this instant or earlier."),
    "refunded_at_from": Field("Keeps those refunded at this instant or later."),
    "refunded_at_to": Field("Keeps those refunded at this instant or earlier."),
    "timestamp_from": Field("Keeps events of this instant or later."),
    "timestamp_to": Field("Keeps events of this instant or earlier."),
    "timestamp_from_started_at": Field("Whether to begin with the start of the subscription.", default="false"),
    "months": Field("How many months back, this one included.", unit="months", default="12"),
    "periods_count": Field("How many past periods.", unit="periods"),
    "time_granularity": Field("How long each row is.", values=("daily", "weekly", "monthly"), default="daily"),
    "customer_country": Field("Keeps usage of customers of this country."),
    "is_billable_metric_recurring": Field("Keeps usage of metrics that carry over, or that do not."),
    "apply_taxes": Field("Whether taxes are worked out too.", default="true"),
    "filter_by_charge_id": Field("The same as `charge_id`."),
    "filter_by_charge_code": Field("The same as `charge_code`."),
    "filter_by_metric_code": Field("The same as `billable_metric_code`."),
    "filter_by_group": Field("Keeps the group with these values of the pricing group keys."),
    "group": Field("The same as `filter_by_group`."),
    "filter_by_presentation": Field("The presentation keys to break units down by."),
    "skip_grouping": Field("Whether groups are put together.", default="false"),
    "full_usage": Field("Whether usage of all the period is shown, invoiced already or not.", default="false"),
    "transaction_status": Field("Keeps transactions of this kind.", values=tuple(TransactionKind)),
    "transaction_type": Field("Keeps what came in, or what went out.", values=tuple(TransactionType)),
    "charge": Field("The options, below the resource."),
    "filter": Field("The options, below the resource."),
    "fixed_charge": Field("The options, below the resource."),
    # The same names with meanings of their own
    "FixedChargeInput.charge_model": Field("How units become an amount.", values=_FIXED_MODELS, example="standard"),
    "FixedChargeInput.units": Field("How many are charged for.", unit="units", example="3"),
    "FixedChargeInput.pay_in_advance": Field("Whether it is paid at the start of a period.", default="false"),
    "FixedChargeInput.prorated": Field("Whether a part of a period costs that part.", default="false"),
    "PlanInput.amount_cents": Field("The fee of each interval, before taxes.", unit="cents", example=4900),
    "PlanInput.pay_in_advance": Field("Whether the fee is paid at the start of each interval."),
    "UsageThresholdInput.amount_cents": Field("The lifetime usage that is invoiced.", unit="cents", example=10000),
    "UsageThresholdInput.recurring": Field("Whether each multiple counts too.", default="false"),
    "MinimumCommitmentInput.amount_cents": Field("The least of each interval, before taxes.", unit="cents"),
    "AlertThresholdInput.value": Field("The value that triggers: cents, units or credits.", example="10000"),
    "AlertThresholdInput.recurring": Field("Whether each multiple beyond triggers too.", default="false"),
    "AlertThresholdInput.code": Field("What the message calls the threshold.", example="warn"),
    "AddOnInput.amount_cents": Field("The price of one unit, before taxes.", unit="cents", example=5000),
    "CouponInput.amount_cents": Field("How much is taken off in all.", unit="cents", example=1000),
    "AppliedCouponInput.amount_cents": Field("How much is taken off.", unit="cents", default="that of the coupon"),
    "AppliedCouponInput.percentage_rate": Field("How much is taken off.", unit="percent", default="that of the coupon"),
    "AppliedCouponInput.frequency": Field(
        "How many invoices it reduces.", values=tuple(CouponFrequency), default="that of the coupon"
    ),
    "AppliedCouponFilters.status": Field("Keeps those of this status.", values=tuple(CouponStatus)),
    "AppliedCouponFilters.coupon_code": Field("Keeps those of these coupons, by code."),
    "ChargeFilterInput.values": Field(
        "Property -> the values that the filter takes.", example={"region": ["us", "eu"]}
    ),
    "ChargeFilterInput.properties": Field("Its prices, in the form of the charge's model.", example={"amount": "0.2"}),
    "CouponTargets.plan_codes": Field("The plans whose fees it reduces, by code."),
    "CouponTargets.billable_metric_codes": Field("The metrics whose fees it reduces, by code."),
    "CustomerFilters.account_type": Field("Keeps those of these types of account.", values=ACCOUNT_TYPES),
    "CustomerFilters.customer_type": Field("Keeps those of this type.", values=CUSTOMER_TYPES),
    "CustomerInput.finalize_zero_amount_invoice": Field(
        "Whether invoices of nothing are issued.", values=ZERO_AMOUNT_OPTIONS, default="inherit"
    ),
    "CustomerInput.external_id": Field("Your own id of the customer: sent again, it changes that one.", example="acme"),
    "CustomerInput.metadata": Field("Values of your own, each with a key."),
    "CustomerInput.tax_identification_number": Field("The VAT or other tax number.", example="BE0123456749"),
    "CustomerMetadataInput.display_in_invoice": Field("Whether invoices show it.", default="false"),
    "DunningThresholdInput.amount_cents": Field("The overdue balance to ask for from.", unit="cents"),
    "ExpressionInput.expression": Field(
        "The expression to try.", example="event.properties.gb * event.properties.hours"
    ),
    "FeeFilters.payment_status": Field("Keeps those of this payment status.", values=tuple(PaymentStatus)),
    "FeeInput.payment_status": Field("Whether it is paid.", values=tuple(PaymentStatus), example="succeeded"),
    "IntegrationCustomerInput.external_customer_id": Field("What the provider calls the customer."),
    "IntegrationCustomerInput.id": Field("The id of an existing link."),
    "InvoiceFilters.status": Field("Keeps those of these statuses.", values=tuple(InvoiceStatus)),
    "InvoiceFilters.statuses": Field("The same as `status`.", values=tuple(InvoiceStatus)),
    "InvoiceFilters.payment_status": Field("Keeps those of these payment statuses.", values=INVOICE_PAYMENT_STATUSES),
    "CreditNoteFilters.reason": Field("Keeps those of these reasons.", values=tuple(CreditNoteReason)),
    "LifetimeUsageOptions.status": Field("The same as `subscription_status`.", values=tuple(SubscriptionStatus)),
    "EventListFilters.unbilled": Field(
        "Keeps events that no charge counts as things stand, each with the reason.", default="false"
    ),
    "MessageFilters.statuses": Field("Keeps those of these statuses.", values=tuple(MessageStatus)),
    "MessageFilters.event_types": Field("Keeps messages of these types.", example=["invoice.created"]),
    "MessageFilters.from_date": Field("Keeps those of this instant or later."),
    "MessageFilters.to_date": Field("Keeps those of this instant or earlier."),
    "MetricFilterInput.key": Field("The property of events.", example="region"),
    "MetricFilterInput.values": Field("Every value that prices may name.", example=["us", "eu"]),
    "BillableMetricInput.filters": Field("The properties by which prices may differ, and their values."),
    "OneOffFeeInput.units": Field("How many are sold.", unit="units", default="1", example="2"),
    "PaymentConnectionInput.kind": Field("The kind of provider.", values=tuple(PAYMENT_KINDS)),
    "PaymentConnectionInput.url": Field("Where the provider's API is.", default="its public address"),
    "PaymentInput.amount_cents": Field("How much was paid.", unit="cents", example=100),
    "PaymentRequestInput.email": Field("Who is asked; several addresses are separated by commas."),
    "PaymentRequestFilters.payment_status": Field("Keeps those of this status.", values=INVOICE_PAYMENT_STATUSES),
    "RuleInput.interval": Field("How often it tops up.", values=tuple(RuleInterval)),
    "StatusOptions.status": Field("Which of the subscriptions of that id is meant.", values=tuple(SubscriptionStatus)),
    "WhichSubscription.status": Field("The same as `subscription_status`.", values=tuple(SubscriptionStatus)),
    "SubscriptionFilters.status": Field(
        "Keeps those of these statuses.", values=tuple(SubscriptionStatus), default="active"
    ),
    "SubscriptionInput.external_id": Field(
        "Your own id of the subscription, which events name. A second plan for it is an upgrade or a downgrade.",
        example="acme-1",
    ),
    "SubscriptionInput.name": Field("What invoices call it.", default="the name of the plan"),
    "SubscriptionTermination.status": Field(
        "Which of the subscriptions of that id ends.", values=tuple(SubscriptionStatus)
    ),
    "TaxInput.rate": Field("The rate of the tax.", unit="percent", example="20"),
    "TaxConnectionInput.kind": Field("The kind of tax provider.", values=TAX_KINDS),
    "SyncConnectionInput.kind": Field("The kind of system.", values=SYNC_KINDS),
    "SyncConnectionInput.url": Field("Where your bridge to it answers.", example="https://books.example"),
    "TaxConnectionInput.url": Field("Where the provider answers.", example="https://taxes.example"),
    "StandardProperties.amount": Field("The price of one unit.", unit="major units", example="0.25"),
    "PackageProperties.amount": Field("The price of one package.", unit="major units", example="5"),
    "GraduatedPercentageRange.rate": Field("The percentage of the units in the range.", unit="percent", example="1"),
    "PercentageProperties.rate": Field("The percentage of the units.", unit="percent", example="1.5"),
    "VolumeRange.per_unit_amount": Field(
        "The price of every unit, once the total is in this range.", unit="major units"
    ),
    "VolumeRange.flat_amount": Field("What is added to it.", unit="major units"),
    "PresentationKey.value": Field("The property of events.", example="region"),
    "ActivationRuleInput.type": Field("What must happen.", values=("payment",)),
    "PreviewSubscriptions.plan_code": Field("Shows the invoice of a change to this plan."),
    "CreditNoteItemInput.amount_cents": Field("How much of the fee, before taxes.", unit="cents", example=100),
    "CloudEventsInput.events": Field("The CloudEvents."),
    "CloudEventFields.specversion": Field("The version of CloudEvents.", values=("1.0",), example="1.0"),
    "CloudEventFields.id": Field("What tells it from the others of its source.", example="7"),
    "CloudEventFields.source": Field("Where it happened; together with `id` it names the event.", example="/meter/eu"),
    "CloudEventFields.type": Field("The billable metric, by code.", example="storage"),
    "CloudEventFields.subject": Field("The subscription, by external id.", example="acme-1"),
    "CloudEventFields.time": Field("When it happened, as RFC 3339 has it.", default="now"),
    "CloudEventFields.data": Field("The properties of the event.", example={"gb": 46.5}),
    "CloudEventFields.precisetotalamountcents": Field("The price of a dynamic charge.", unit="cents", example="12.5"),
    "RefusedEventFilters.source": Field("Keeps what stood in this source.", example="kafka:usage"),
    "EventInput.code": Field("The billable metric, by code.", example="storage"),
    "EventFields.code": Field("The billable metric, by code.", example="storage"),
    "EventInput.properties": Field(
        "What the metric aggregates, and what filters and groups ask for.", example={"gb": 1.5}
    ),
    "EventFields.properties": Field("What the metric aggregates, and what filters and groups ask for."),
    "ExpressionEventInput.properties": Field("The properties of the event."),
    "ExpressionEventInput.code": Field("The billable metric, by code."),
    "ExpressionEventInput.timestamp": Field("When it happened."),
    "WalletFilters.currency": Field("Keeps those of this currency, ISO 4217."),
    "WalletTransactionFilters.status": Field("Keeps those of this status.", values=tuple(WalletTransactionStatus)),
    "SyncedDocumentFilters.status": Field("Keeps those of this status."),
    "ResendFilters.event_types": Field("Resends messages of these types.", example=["invoice.created"]),
    "NoticeFilters.status": Field("Keeps those of this status."),
    "WalletInput.expiration_at": Field("When its credits end."),
    "WalletUpdate.expiration_at": Field("When its credits end."),
    "RuleInput.expiration_at": Field("When the rule ends."),
}
