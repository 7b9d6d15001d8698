"""Resources: the operations as a library user calls them, `billing.customers.upsert(external_id="acme")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from usagebill.resources.analytics import Analytics
from usagebill.resources.bindings import Messages, Operation, Resource, Runner, Views
from usagebill.resources.catalog import AddOns, BillableMetrics, Coupons, Plans, Prices, PricingUnits, Taxes
from usagebill.resources.connections import (
    PaymentConnections,
    SyncConnections,
    SyncedDocuments,
    TaxConnections,
    WebhookEndpoints,
    Webhooks,
)
from usagebill.resources.customers import (
    AppliedCoupons,
    BillingEntities,
    Customers,
    InvoiceCustomSections,
    Organizations,
    Subscriptions,
)
from usagebill.resources.entitlements import Entitlements, Features
from usagebill.resources.invoicing import CreditNotes, Fees, Invoices
from usagebill.resources.jobs import Jobs
from usagebill.resources.keys import ApiKeys, Users
from usagebill.resources.ledger import ExchangeRates, Ledger
from usagebill.resources.lists import Lists
from usagebill.resources.logs import ActivityLogs, ApiLogs, SecurityLogs
from usagebill.resources.payments import DunningCampaigns, PaymentMethods, PaymentReceipts, PaymentRequests, Payments
from usagebill.resources.prepaid import Alerts, Holds, SpendLimits, Wallets, WalletTransactions
from usagebill.resources.usage import Events, EventSources, Usage


class Resources:
    """Every resource, as an attribute."""

    activity_logs: ActivityLogs
    add_ons: AddOns
    alerts: Alerts
    analytics: Analytics
    api_keys: ApiKeys
    api_logs: ApiLogs
    applied_coupons: AppliedCoupons
    billable_metrics: BillableMetrics
    billing_entities: BillingEntities
    coupons: Coupons
    credit_notes: CreditNotes
    customers: Customers
    entitlements: Entitlements
    dunning_campaigns: DunningCampaigns
    event_sources: EventSources
    events: Events
    exchange_rates: ExchangeRates
    features: Features
    fees: Fees
    holds: Holds
    invoice_custom_sections: InvoiceCustomSections
    invoices: Invoices
    jobs: Jobs
    ledger: Ledger
    lists: Lists
    organizations: Organizations
    payment_connections: PaymentConnections
    payment_methods: PaymentMethods
    payment_receipts: PaymentReceipts
    payment_requests: PaymentRequests
    payments: Payments
    plans: Plans
    prices: Prices
    pricing_units: PricingUnits
    security_logs: SecurityLogs
    spend_limits: SpendLimits
    subscriptions: Subscriptions
    sync_connections: SyncConnections
    synced_documents: SyncedDocuments
    tax_connections: TaxConnections
    taxes: Taxes
    usage: Usage
    users: Users
    wallet_transactions: WalletTransactions
    wallets: Wallets
    webhook_endpoints: WebhookEndpoints
    webhooks: Webhooks

    def __init__(self, runner: Runner) -> None:
        for name, resource in RESOURCES.items():
            setattr(self, name, resource(runner))


# Name -> resource. The module of its requests (in `http/`) has the same name.
RESOURCES: Mapping[str, type[Resource]] = get_type_hints(Resources)

# Every type of webhook message, and the object that it carries.
MESSAGES: Messages = {name: message for resource in RESOURCES.values() for name, message in resource.messages.items()}

# Kind of record -> its JSON view.
VIEWS: Views = {kind: view for resource in RESOURCES.values() for kind, view in resource.views.items()}

# What an operation calls -> the permission that a key or a role needs for it.
PERMISSIONS: Mapping[Callable[..., Any], str] = {
    operation.function: operation.permission
    for resource in RESOURCES.values()
    for operation in vars(resource).values()
    if isinstance(operation, Operation) and operation.permission is not None
}
