"""Tables: where each record lives, and which rules of uniqueness and which indexes its table has.

A table's columns are the fields of its record. Text, numbers, bytes, instants and dates have columns of their own kind;
whatever is nested (lists, mappings, records within records) is JSON text. Adding a field with a default to a record
adds a column to the table of every file that is opened from then on (`storage.sqlite.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from usagebill.core.add_ons import AddOn
from usagebill.core.adjusted_fees import AdjustedFee
from usagebill.core.api_keys import ApiKey
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity, BillingEntityVersion
from usagebill.core.charge_ledger import CarriedLevel, LedgerEntry
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.fees import Fee
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.organizations import Organization
from usagebill.core.payments import Payment
from usagebill.core.plans import Charge, FixedCharge, FixedChargeUnits, Plan
from usagebill.core.pricing_units import PricingUnit
from usagebill.core.progressive_billing import LifetimeUsage
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.subscriptions import Subscription
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.core.webhooks import SigningKey, WebhookEndpoint, WebhookMessage

__all__ = ["TABLES", "Table", "table_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`unique`: each tuple of columns is unique within an organization, among live records where any can be deleted.

    `always_unique` counts deleted ones too. `indexes` serve queries; each is led by the organization.
    `references` names the column -> record kind that must exist.
    """

    kind: type
    name: str
    unique: tuple[tuple[str, ...], ...] = ()
    always_unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    references: Mapping[str, type] = field(default_factory=dict)


TABLES: tuple[Table, ...] = (
    Table(kind=Organization, name="organizations"),
    Table(kind=ApiKey, name="api_keys", always_unique=(("value_hash",),)),
    Table(kind=BillingEntity, name="billing_entities", unique=(("code",),)),
    Table(kind=BillingEntityVersion, name="billing_entity_versions", indexes=(("billing_entity_id", "created_at"),)),
    Table(kind=Customer, name="customers", unique=(("external_id",),), indexes=(("created_at",),)),
    Table(kind=BillableMetric, name="billable_metrics", unique=(("code",),)),
    Table(kind=AddOn, name="add_ons", unique=(("code",),)),
    Table(kind=Tax, name="taxes", unique=(("code",),)),
    Table(kind=TaxConnection, name="tax_connections", unique=(("kind", "code"),)),
    Table(kind=PricingUnit, name="pricing_units", always_unique=(("code",),)),
    # A plan's code is unique among plans that are no overrides: `operations.plans` sees to it.
    Table(kind=Plan, name="plans", indexes=(("code",), ("parent_id",), ("usage_thresholds",))),
    Table(
        kind=Charge, name="charges", indexes=(("plan_id",), ("billable_metric_id", "pay_in_advance"), ("parent_id",))
    ),
    Table(kind=FixedCharge, name="fixed_charges", indexes=(("plan_id",), ("add_on_id",), ("parent_id",))),
    Table(
        kind=Subscription,
        name="subscriptions",
        indexes=(("external_id", "status"), ("customer_id",), ("plan_id",), ("previous_subscription_id",)),
        references={"customer_id": Customer, "plan_id": Plan},
    ),
    Table(kind=FixedChargeUnits, name="fixed_charge_units", indexes=(("subscription_id", "fixed_charge_id"),)),
    Table(
        kind=Invoice,
        name="invoices",
        indexes=(("customer_id", "issuing_date"), ("issuing_date", "created_at"), ("status",), ("number",)),
        references={"customer_id": Customer, "billing_entity_id": BillingEntity},
    ),
    Table(
        kind=BillingPeriod,
        name="billing_periods",
        indexes=(
            ("invoice_id",),
            ("subscription_id", "timestamp"),
            # The last run: charges paid in advance make a period an event, which recur in none.
            ("subscription_id", "recurring", "timestamp"),
            ("external_subscription_id",),
        ),
        references={"invoice_id": Invoice},
    ),
    Table(
        kind=Fee,
        name="fees",
        indexes=(
            ("invoice_id",),
            ("subscription_id", "fee_type"),
            ("external_subscription_id",),
            ("customer_id",),
            ("charge_id",),
            ("event_transaction_id",),
        ),
        references={"customer_id": Customer},
    ),
    Table(kind=Coupon, name="coupons", unique=(("code",),)),
    Table(
        kind=AppliedCoupon,
        name="applied_coupons",
        indexes=(("customer_id", "status"), ("coupon_id",)),
        references={"customer_id": Customer, "coupon_id": Coupon},
    ),
    Table(
        kind=CreditNote,
        name="credit_notes",
        indexes=(("invoice_id",), ("customer_id", "credit_status"), ("created_at",)),
        references={"customer_id": Customer, "invoice_id": Invoice},
    ),
    Table(
        kind=LedgerEntry,
        name="charge_ledger",
        always_unique=(("charge_id", "event_id"),),
        indexes=(("subscription_id", "charge_id", "timestamp"),),
    ),
    Table(kind=Payment, name="payments", indexes=(("invoice_id",), ("customer_id",))),
    Table(kind=AdjustedFee, name="adjusted_fees", indexes=(("invoice_id",),)),
    Table(kind=LifetimeUsage, name="lifetime_usages", unique=(("subscription_id",),)),
    Table(kind=CarriedLevel, name="saved_levels", indexes=(("charge_id", "subscription_id"),)),
    Table(kind=WebhookEndpoint, name="webhook_endpoints", unique=(("webhook_url",),)),
    Table(
        kind=WebhookMessage, name="webhook_messages", indexes=(("webhook_endpoint_id", "updated_at"), ("updated_at",))
    ),
    Table(kind=InvoiceCustomSection, name="invoice_custom_sections", unique=(("code",),)),
    Table(kind=SigningKey, name="signing_keys"),
    Table(kind=Document, name="documents", unique=(("subject_id", "kind"),)),
    # A wallet's code is unique among the active wallets of its customer: `operations.wallets` sees to it.
    Table(kind=Wallet, name="wallets", indexes=(("customer_id", "status"),), references={"customer_id": Customer}),
    Table(
        kind=WalletTransaction,
        name="wallet_transactions",
        indexes=(
            ("wallet_id", "created_at"),
            # What is left to be drawn from: few of the transactions of a wallet that has been used for years.
            ("wallet_id", "remaining_amount_cents"),
            ("wallet_id", "status"),
            ("invoice_id",),
        ),
        references={"wallet_id": Wallet, "customer_id": Customer},
    ),
    Table(
        kind=WalletConsumption,
        name="wallet_consumptions",
        always_unique=(("inbound_id", "outbound_id"),),
        indexes=(("outbound_id",), ("wallet_id",)),
        references={"inbound_id": WalletTransaction, "outbound_id": WalletTransaction},
    ),
    Table(
        kind=RecurringTransactionRule,
        name="recurring_transaction_rules",
        indexes=(("wallet_id", "status"),),
        references={"wallet_id": Wallet},
    ),
)

_BY_KIND = {table.kind: table for table in TABLES}


def table_of(kind: type) -> Table:
    """The table of a kind of record. KeyError for a record that is not stored on its own."""
    return _BY_KIND[kind]
