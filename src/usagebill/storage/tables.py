"""Tables: the table of each kind of record, with its unique rules and indexes.

A table's columns are the fields of its record. Text, numbers, bytes, instants and dates have columns of their own kind;
anything nested (lists, mappings, records within records) is JSON text. Adding a field with a default to a record adds a
column to the table of every file that is opened from then on (`storage.sqlite.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.add_ons import AddOn
from usagebill.core.adjusted_fees import AdjustedFee
from usagebill.core.alerts import Alert
from usagebill.core.api_keys import ApiKey
from usagebill.core.api_logs import ApiLog
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity, BillingEntityVersion
from usagebill.core.charge_ledger import LedgerEntry
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.dunning import DunningCampaign, DunningProgress
from usagebill.core.entitlements import Feature, PlanEntitlement, SubscriptionEntitlement
from usagebill.core.event_shipments import EventShipment
from usagebill.core.event_sources import EventSource, RefusedEvent
from usagebill.core.exchange_rates import ExchangeRate
from usagebill.core.fees import Fee
from usagebill.core.holds import Hold
from usagebill.core.idempotency import IdempotentAnswer
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.core.invoices.life_cycle import VISIBLE
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.ledger import ClosedMonth, Movement
from usagebill.core.organizations import Organization
from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest, RequestedInvoice
from usagebill.core.payments import Payment, PaymentMethod, PaymentPage, ProviderNotice, RefundAttempt
from usagebill.core.plans import Charge, FixedCharge, FixedChargeUnits, Plan
from usagebill.core.price_versions import PriceChange
from usagebill.core.pricing_units import PricingUnit
from usagebill.core.progressive_billing import LifetimeUsage
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.running_usage import RunningFront, RunningUsage, RunningValue
from usagebill.core.security_logs import SecurityLog
from usagebill.core.spend_limits import ReachedLimit, SpendLimit
from usagebill.core.subscriptions import Subscription
from usagebill.core.sync_connections import SyncConnection, SyncedDocument
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.taxes import Tax
from usagebill.core.usage_ceiling import NewUsage, UsageCount
from usagebill.core.users import User, UserSession
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.core.webhooks import SigningKey, WebhookEndpoint, WebhookMessage
from usagebill.storage.conditions import (
    all_of,
    asc,
    desc,
    eq,
    less_than_column,
    missing,
    more,
    ne,
    present,
    related,
    within,
)
from usagebill.storage.listings import Flag, Joined, Listing, SearchedWith


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table of a kind.

    Each tuple of columns in `unique` is unique within an organization, among live records if any can be deleted; in
    `always_unique`, among deleted ones too. `indexes` serve queries; each is led by the organization. A column may be
    followed by ` DESC`. `references` maps columns to the kind of record that must exist. `listing` says how the records
    are listed by the page, if they are. `entitles` names the columns that determine what subscriptions are entitled to
    (`storage.versions.entitlements_version`).
    """

    kind: type
    name: str
    unique: tuple[tuple[str, ...], ...] = ()
    always_unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    references: Mapping[str, type] = field(default_factory=dict)
    listing: Listing | None = None
    entitles: tuple[str, ...] = ()


PARTIALLY_PAID = all_of(
    more("total_paid_amount_cents", 0), less_than_column("total_paid_amount_cents", "total_amount_cents")
)
_LATEST = ("created_at DESC", "id")
_NEWEST = ("logged_at DESC", "id")
_PLAIN = Listing()
# The customer columns that a search of documents covers.
CUSTOMER_COLUMNS = ("name", "firstname", "lastname", "external_id", "email")
_WITH_CUSTOMER = SearchedWith(Customer, "customer_id", CUSTOMER_COLUMNS)

TABLES: tuple[Table, ...] = (
    Table(kind=Organization, name="organizations"),
    Table(kind=ApiKey, name="api_keys", always_unique=(("value_hash",),)),
    Table(kind=User, name="users", unique=(("email",),)),
    Table(
        kind=UserSession, name="user_sessions", always_unique=(("value_hash",),), indexes=(("user_id", "expires_at"),)
    ),
    Table(kind=BillingEntity, name="billing_entities", unique=(("code",),)),
    Table(kind=BillingEntityVersion, name="billing_entity_versions", indexes=(("billing_entity_id", "created_at"),)),
    Table(
        kind=Customer,
        name="customers",
        unique=(("external_id",),),
        # Lists of what belongs to a customer find deleted ones too.
        indexes=(
            ("external_id",),
            ("state", *_LATEST),
            ("zipcode", *_LATEST),
            ("payment_connection_id", "provider_customer_id"),
        ),
        listing=Listing(
            facets=(
                "account_type",
                "customer_type",
                "country",
                "currency",
                "billing_entity_id",
                Flag(
                    "has_tax_identification_number",
                    all_of(present("tax_identification_number"), ne("tax_identification_number", "")),
                ),
            ),
            narrow=("state", "zipcode"),
            searched=("name", "firstname", "lastname", "legal_name", "external_id", "email"),
            items=("metadata",),
        ),
    ),
    Table(kind=BillableMetric, name="billable_metrics", unique=(("code",),), indexes=(("code",),), listing=_PLAIN),
    Table(kind=AddOn, name="add_ons", unique=(("code",),), listing=_PLAIN),
    Table(
        kind=Tax,
        name="taxes",
        unique=(("code",),),
        listing=Listing(order=(asc("name"), desc("created_at"))),
    ),
    Table(kind=TaxConnection, name="tax_connections", unique=(("kind", "code"),)),
    Table(kind=SyncConnection, name="sync_connections", unique=(("kind", "code"),)),
    Table(kind=PaymentConnection, name="payment_connections", unique=(("code",),)),
    Table(kind=PricingUnit, name="pricing_units", always_unique=(("code",),), listing=_PLAIN),
    # A plan's code is unique among plans that are not overrides; `operations.plans` checks it.
    Table(
        kind=Plan,
        name="plans",
        indexes=(("code",), ("parent_id",), ("usage_thresholds",), ("amount_currency",)),
        listing=Listing(facets=(Flag("is_original", missing("parent_id")),)),
    ),
    Table(
        kind=PriceChange,
        name="price_changes",
        indexes=(("version DESC",), ("record_id", "version"), ("plan_id", "version DESC")),
    ),
    Table(
        kind=Charge, name="charges", indexes=(("plan_id",), ("billable_metric_id", "pay_in_advance"), ("parent_id",))
    ),
    Table(kind=FixedCharge, name="fixed_charges", indexes=(("plan_id",), ("add_on_id",), ("parent_id",))),
    Table(
        kind=Subscription,
        name="subscriptions",
        indexes=(
            ("external_id", "status"),
            ("customer_id", "subscription_at DESC", *_LATEST),
            ("plan_id", "status"),
            ("previous_subscription_id",),
        ),
        references={"customer_id": Customer, "plan_id": Plan},
        listing=Listing(
            order=(desc("subscription_at"), desc("created_at")),
            facets=(
                "status",
                "billing_entity_id",
                Joined(Plan, "plan_id", "code"),
                Joined(Plan, "plan_id", "amount_currency"),
                Flag("is_overridden", related(Plan, "plan_id", present("parent_id"))),
                Flag("is_not_overridden", related(Plan, "plan_id", missing("parent_id"))),
                Joined(Customer, "customer_id", "billing_entity_id"),
            ),
        ),
        entitles=("external_id", "status", "plan_id"),
    ),
    Table(kind=FixedChargeUnits, name="fixed_charge_units", indexes=(("subscription_id", "fixed_charge_id"),)),
    Table(
        kind=Invoice,
        name="invoices",
        indexes=(
            # With the status, so that a customer's lists are counted in the index alone.
            ("customer_id", "issuing_date DESC", *_LATEST, "status"),
            ("status",),
            ("number",),
        ),
        references={"customer_id": Customer, "billing_entity_id": BillingEntity},
        listing=Listing(
            order=(desc("issuing_date"), desc("created_at")),
            facets=(
                "status",
                "payment_status",
                "payment_overdue",
                "self_billed",
                "invoice_type",
                "currency",
                "billing_entity_id",
                Flag("is_dispute_lost", present("payment_dispute_lost_at")),
                Flag("is_settled_by_payment", more("total_paid_amount_cents", 0)),
                Flag("is_settled_by_credit_note", more("total_offset_amount_cents", 0)),
                Flag("is_partially_paid", PARTIALLY_PAID),
            ),
            ranges=("issuing_date", "total_amount_cents"),
            shown=within("status", VISIBLE),
            searched=("number",),
            searched_with=_WITH_CUSTOMER,
            folded=("purchase_order_number",),
            items=("metadata",),
        ),
    ),
    Table(
        kind=BillingPeriod,
        name="billing_periods",
        indexes=(
            ("invoice_id",),
            ("subscription_id", "timestamp"),
            # The last run: charges in advance add a period per event, which does not recur.
            ("subscription_id", "recurring", "timestamp"),
            ("external_subscription_id", "charges_from_datetime DESC", *_LATEST),
            # Whose events can be removed.
            ("charges_to_datetime", "id"),
        ),
        references={"invoice_id": Invoice},
    ),
    Table(
        kind=Fee,
        name="fees",
        indexes=(
            ("invoice_id",),
            ("subscription_id", "fee_type"),
            ("external_subscription_id", "created_at", "id"),
            ("customer_id", "created_at", "id"),
            ("charge_id",),
            ("event_transaction_id",),
        ),
        references={"customer_id": Customer},
        listing=Listing(
            order=(asc("created_at"),),
            facets=("fee_type", "currency", "payment_status", "billable_metric_id"),
            ranges=("created_at", "succeeded_at", "failed_at", "refunded_at"),
        ),
    ),
    Table(
        kind=Coupon,
        name="coupons",
        unique=(("code",),),
        indexes=(("code",),),
        listing=Listing(order=(asc("status"), asc("expiration"), asc("expiration_at"), desc("created_at"))),
    ),
    Table(
        kind=AppliedCoupon,
        name="applied_coupons",
        indexes=(
            ("customer_id", "status"),
            ("customer_id", *_LATEST),
            ("coupon_id", *_LATEST, "status", "customer_id"),
        ),
        references={"customer_id": Customer, "coupon_id": Coupon},
        listing=Listing(
            facets=("status", Flag("has_customer", related(Customer, "customer_id", missing("deleted_at")))),
            keys=("coupon_id",),
        ),
    ),
    Table(
        kind=CreditNote,
        name="credit_notes",
        indexes=(("invoice_id",), ("customer_id", "credit_status"), ("customer_id", *_LATEST, "status")),
        references={"customer_id": Customer, "invoice_id": Invoice},
        listing=Listing(
            facets=(
                "credit_status",
                "refund_status",
                "reason",
                "currency",
                "self_billed",
                "billing_entity_id",
                Flag("is_credit", more("credit_amount_cents", 0)),
                Flag("is_refund", more("refund_amount_cents", 0)),
                Flag("is_offset", more("offset_amount_cents", 0)),
            ),
            ranges=("issuing_date", "total_amount_cents"),
            shown=eq("status", CreditNoteStatus.FINALIZED),
            searched=("id", "number"),
            searched_with=_WITH_CUSTOMER,
            folded=("purchase_order_number",),
        ),
    ),
    Table(
        kind=LedgerEntry,
        name="charge_ledger",
        always_unique=(("charge_id", "event_id"),),
        indexes=(("subscription_id", "charge_id", "timestamp"), ("subscription_id", "charge_id", "group", "timestamp")),
    ),
    Table(kind=RunningFront, name="running_fronts", indexes=(("subscription_id", "charge_id"),)),
    Table(kind=RunningUsage, name="running_usages", indexes=(("subscription_id", "charge_id", "group"),)),
    Table(kind=RunningValue, name="running_values", always_unique=(("running_usage_id", "value"),)),
    Table(
        kind=Payment,
        name="payments",
        indexes=(
            ("invoice_id",),
            ("payment_request_id",),
            ("connection_id", "provider_payment_id"),
            ("customer_id", *_LATEST),
        ),
        listing=Listing(facets=("is_shown",), ranges=("created_at",)),
    ),
    Table(
        kind=PaymentMethod,
        name="payment_methods",
        unique=(("customer_id", "provider_method_id"),),
        indexes=(("customer_id", *_LATEST), ("connection_id", "provider_method_id")),
        references={"customer_id": Customer},
        listing=_PLAIN,
    ),
    Table(
        kind=PaymentPage,
        name="payment_pages",
        indexes=(("invoice_id",), ("payment_request_id",), ("connection_id", "ended_at")),
        references={"customer_id": Customer},
    ),
    Table(
        kind=RefundAttempt,
        name="refunds",
        indexes=(("credit_note_id",), ("payment_id",), ("invoice_id",), ("connection_id", "provider_refund_id")),
        references={"credit_note_id": CreditNote},
    ),
    Table(
        kind=ProviderNotice,
        name="provider_notices",
        always_unique=(("connection_id", "event_id"),),
        listing=Listing(facets=("status",)),
    ),
    Table(
        kind=PaymentReceipt,
        name="payment_receipts",
        always_unique=(("payment_id",), ("customer_id", "sequential_id")),
        references={"payment_id": Payment, "customer_id": Customer},
        listing=_PLAIN,
    ),
    Table(
        kind=PaymentRequest,
        name="payment_requests",
        indexes=(("customer_id", *_LATEST),),
        references={"customer_id": Customer, "billing_entity_id": BillingEntity},
        listing=Listing(facets=("payment_status", "currency", "billing_entity_id")),
    ),
    Table(
        kind=Movement,
        name="ledger",
        indexes=(("document_id",), ("customer_id", "posting_date")),
        references={"customer_id": Customer, "billing_entity_id": BillingEntity},
        listing=Listing(
            order=(asc("posting_date"),),
            facets=("account", "document_type", "currency", "billing_entity_id"),
            ranges=("posting_date",),
            keys=("customer_id",),
        ),
    ),
    Table(
        kind=ExchangeRate,
        name="exchange_rates",
        always_unique=(("billing_entity_id", "currency", "base_currency", "valid_from"),),
        references={"billing_entity_id": BillingEntity},
        listing=Listing(order=(desc("valid_from"),)),
    ),
    Table(kind=ClosedMonth, name="closed_months", always_unique=(("last_day",),)),
    Table(kind=DunningCampaign, name="dunning_campaigns", unique=(("code",),), listing=_PLAIN),
    Table(
        kind=DunningProgress,
        name="dunning_progress",
        always_unique=(("customer_id",),),
        references={"customer_id": Customer},
    ),
    Table(
        kind=RequestedInvoice,
        name="requested_invoices",
        always_unique=(("payment_request_id", "invoice_id"),),
        indexes=(("invoice_id",),),
        references={"payment_request_id": PaymentRequest, "invoice_id": Invoice},
    ),
    Table(kind=AdjustedFee, name="adjusted_fees", indexes=(("invoice_id",),)),
    Table(kind=LifetimeUsage, name="lifetime_usages", unique=(("subscription_id",),)),
    Table(kind=UsageCount, name="usage_counts", unique=(("subscription_id",),)),
    Table(kind=NewUsage, name="new_usage", indexes=(("subscription_id",),)),
    Table(
        kind=WebhookEndpoint,
        name="webhook_endpoints",
        unique=(("webhook_url",),),
        listing=Listing(order=(asc("webhook_url"), desc("created_at"))),
    ),
    Table(
        kind=WebhookMessage,
        name="webhook_messages",
        indexes=(("updated_at",),),
        listing=Listing(
            order=(desc("updated_at"), desc("created_at")),
            facets=("status", "webhook_type", "http_status", "webhook_endpoint_id"),
            ranges=("updated_at",),
            keys=("webhook_endpoint_id",),
            searched=("id", "object_id"),
        ),
    ),
    Table(
        kind=InvoiceCustomSection,
        name="invoice_custom_sections",
        unique=(("code",),),
        listing=Listing(order=(asc("name"),)),
    ),
    Table(kind=SigningKey, name="signing_keys"),
    Table(
        kind=Alert,
        name="alerts",
        # In each kind of alert a column of the other rule is null, and nulls are never equal.
        unique=(("external_subscription_id", "customer_id", "code"), ("wallet_id", "code")),
        indexes=(("external_subscription_id",), ("wallet_id",), ("billable_metric_id",)),
        references={"customer_id": Customer},
    ),
    Table(
        kind=SpendLimit,
        name="spend_limits",
        # A customer's own codes are kept apart by `operations.spend_limits`: nulls are never equal.
        unique=(("customer_id", "external_subscription_id", "code"), ("plan_id", "code")),
        indexes=(("customer_id",), ("plan_id",)),
    ),
    Table(
        kind=ReachedLimit,
        name="reached_limits",
        unique=(("spend_limit_id", "external_subscription_id"),),
        indexes=(("customer_id",),),
        references={"customer_id": Customer},
    ),
    Table(
        kind=Hold,
        name="holds",
        indexes=(("customer_id", "status", "expires_at"),),
        references={"customer_id": Customer},
        listing=Listing(facets=("status",), keys=("customer_id",), narrow=("external_subscription_id",)),
    ),
    Table(kind=IdempotentAnswer, name="idempotent_answers", always_unique=(("key",),)),
    Table(kind=Document, name="documents", unique=(("subject_id", "kind"),)),
    # A wallet's code is unique among the active wallets of its customer; `operations.wallets` checks it.
    Table(
        kind=Wallet,
        name="wallets",
        indexes=(("customer_id", "status"), ("customer_id", *_LATEST)),
        references={"customer_id": Customer},
        listing=Listing(
            facets=("currency", "billing_entity_id", Joined(Customer, "customer_id", "billing_entity_id")),
            keys=("customer_id",),
        ),
    ),
    Table(
        kind=WalletTransaction,
        name="wallet_transactions",
        indexes=(
            ("wallet_id", "created_at"),
            ("wallet_id", *_LATEST),
            # For what can still be drawn: few of the transactions of a wallet that has been used for years.
            ("wallet_id", "remaining_amount_cents"),
            ("wallet_id", "status"),
            ("invoice_id",),
        ),
        references={"wallet_id": Wallet, "customer_id": Customer},
        listing=Listing(
            facets=("status", "transaction_type", "transaction_status"), keys=("wallet_id",), items=("metadata",)
        ),
    ),
    Table(
        kind=WalletConsumption,
        name="wallet_consumptions",
        always_unique=(("inbound_id", "outbound_id"),),
        indexes=(("inbound_id", *_LATEST), ("outbound_id", *_LATEST), ("wallet_id",)),
        listing=Listing(keys=("inbound_id",)),
        references={"inbound_id": WalletTransaction, "outbound_id": WalletTransaction},
    ),
    Table(
        kind=RecurringTransactionRule,
        name="recurring_transaction_rules",
        indexes=(("wallet_id", "status"),),
        references={"wallet_id": Wallet},
    ),
    Table(
        kind=SyncedDocument,
        name="synced_documents",
        always_unique=(("subject_id", "connection_id"),),
        indexes=(("awaits_id",), ("connection_id", "status", "error_code")),
        references={"connection_id": SyncConnection, "customer_id": Customer},
        listing=Listing(facets=("status", "subject"), keys=("subject_id",)),
    ),
    Table(
        kind=Feature,
        name="features",
        unique=(("code",),),
        listing=Listing(searched=("name", "code", "description")),
        entitles=("code", "privileges", "deleted_at"),
    ),
    Table(
        kind=PlanEntitlement,
        name="plan_entitlements",
        always_unique=(("plan_id", "feature_id"),),
        indexes=(("feature_id",),),
        references={"plan_id": Plan, "feature_id": Feature},
        entitles=("values",),
    ),
    Table(
        kind=SubscriptionEntitlement,
        name="subscription_entitlements",
        always_unique=(("subscription_id", "feature_id"),),
        indexes=(("feature_id",),),
        references={"subscription_id": Subscription, "feature_id": Feature},
        entitles=("change",),
    ),
    Table(kind=EventShipment, name="event_shipments", always_unique=(("event_store_id",),)),
    Table(kind=EventSource, name="event_sources", always_unique=(("source", "part"),), listing=_PLAIN),
    Table(
        kind=RefusedEvent,
        name="refused_events",
        indexes=(("source", "part", "position"),),
        listing=Listing(facets=("source",)),
    ),
    Table(
        kind=ActivityLog,
        name="activity_logs",
        indexes=(
            ("resource_id", *_NEWEST),
            ("external_customer_id", *_NEWEST),
            ("external_subscription_id", *_NEWEST),
        ),
        listing=Listing(
            order=(desc("logged_at"),),
            facets=("activity_type", "activity_source", "resource_type"),
            ranges=("logged_at",),
        ),
    ),
    Table(
        kind=ApiLog,
        name="api_logs",
        indexes=(("request_id", *_NEWEST), ("request_path", *_NEWEST), ("client", *_NEWEST)),
        listing=Listing(
            order=(desc("logged_at"),),
            facets=("http_method", "http_status", "api_version"),
            ranges=("logged_at",),
            narrow=("request_path", "client"),
        ),
    ),
    Table(
        kind=SecurityLog,
        name="security_logs",
        indexes=(("api_key_id", *_NEWEST),),
        listing=Listing(order=(desc("logged_at"),), facets=("log_type", "log_event"), ranges=("logged_at",)),
    ),
)

# Writes to these are logged as activities or security events (`operations.change_logs`).
LOGGED: frozenset[type] = frozenset(
    {
        AddOn,
        Alert,
        ApiKey,
        AppliedCoupon,
        BillableMetric,
        BillingEntity,
        Charge,
        Coupon,
        CreditNote,
        Customer,
        DunningCampaign,
        Feature,
        FixedCharge,
        Invoice,
        InvoiceCustomSection,
        Payment,
        PaymentConnection,
        PaymentReceipt,
        PaymentRequest,
        Plan,
        PlanEntitlement,
        RecurringTransactionRule,
        SigningKey,
        SpendLimit,
        Subscription,
        SubscriptionEntitlement,
        SyncConnection,
        Tax,
        TaxConnection,
        User,
        UserSession,
        Wallet,
        WalletTransaction,
        WebhookEndpoint,
    }
)

# Writes to these are posted to the ledger (`operations.ledger`).
POSTED: frozenset[type] = frozenset(
    {
        CreditNote,
        Invoice,
        Payment,
        RefundAttempt,
        RequestedInvoice,
        Wallet,
        WalletConsumption,
        WalletTransaction,
    }
)
# Writes to these are told at the end of each unit of work (`Transaction.take_changes`).
TOLD = LOGGED | POSTED

_BY_KIND = {table.kind: table for table in TABLES}


def table_of(kind: type) -> Table:
    """The table of a kind of record. KeyError for a record that is not stored on its own."""
    return _BY_KIND[kind]


def tables_in_order() -> tuple[type, ...]:
    """The kinds of records, each after those it refers to."""
    order: dict[type, None] = {}

    def add(kind: type) -> None:
        for referred in table_of(kind).references.values():
            if referred not in order:
                add(referred)
        order.setdefault(kind)

    for table in TABLES:
        add(table.kind)
    return tuple(order)
