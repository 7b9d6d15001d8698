"""Resources: the operations as a library user calls them, `billing.customers.upsert(external_id="acme")`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import ClassVar, get_type_hints

from usagebill.bindings import Message, Messages, Resource, Runner, Views, command, exact, query, unix_seconds
from usagebill.core.add_ons import AddOn
from usagebill.core.alerts import Alert
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import AppliedCoupon, Coupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.core.payments import Payment
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.tax_providers import TaxConnection
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.core.webhooks import WebhookEndpoint, WebhookMessage
from usagebill.inputs import read
from usagebill.operations import (
    add_ons,
    applied_coupons,
    billable_metrics,
    billing_entities,
    coupons,
    credit_notes,
    customers,
    estimates,
    events,
    fees,
    invoice_custom_sections,
    organizations,
    payments,
    plans,
    pricing_units,
    progressive_billing,
    subscription_charges,
    subscriptions,
    tax_connections,
    taxes,
    wallet_transactions,
    wallets,
    webhook_endpoints,
    webhooks,
)
from usagebill.operations.alerts import definitions as alerts
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.operations.invoices import drafts as invoice_drafts
from usagebill.operations.invoices import lifecycle as invoice_lifecycle
from usagebill.operations.invoices import line_edits, payment_links
from usagebill.operations.invoices import listing as invoice_listing
from usagebill.operations.invoices import one_off as invoice_one_off
from usagebill.operations.preview import preview
from usagebill.queries.credit_notes import finalized_credit_note
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.fees import fee_by_id
from usagebill.queries.invoices import visible_invoice
from usagebill.queries.plans import plan_by_code
from usagebill.rating import current_usage, past_usage
from usagebill.rating.explain import explain
from usagebill.rating.fee_events import events_of_fee
from usagebill.views.add_ons import add_on_view
from usagebill.views.alerts import TriggeredAlertView, alert_view
from usagebill.views.billable_metrics import BillableMetricView, billable_metric_view
from usagebill.views.billing_entities import billing_entity_details
from usagebill.views.coupons import applied_coupon_view, coupon_view
from usagebill.views.credit_notes import CreditNoteOfCustomer, IssuedCreditNote, credit_note_view
from usagebill.views.customers import CheckedCustomer, CustomerSummary, customer_view
from usagebill.views.events import EventsErrors, event_view
from usagebill.views.fees import UntaxedFeeView, fee_view
from usagebill.views.invoice_custom_sections import section_view
from usagebill.views.invoices import INVOICE_MESSAGES, PaymentDisputeLost, PaymentFailure, invoice_view
from usagebill.views.organizations import organization_view
from usagebill.views.payments import payment_view
from usagebill.views.plans import DeletedPlan, PlanSummary, charge_view, fixed_charge_view, plan_view
from usagebill.views.subscriptions import (
    EntitledSubscription,
    SubscriptionMessage,
    ThresholdReached,
    subscription_and_plan_view,
)
from usagebill.views.tax_providers import CustomerTaxErrorView, FeeTaxErrorView, tax_connection_view
from usagebill.views.taxes import tax_details
from usagebill.views.wallet_transactions import (
    WalletTransactionMessage,
    consumption_view,
    wallet_transaction_details,
)
from usagebill.views.wallets import WalletMessage, wallet_view
from usagebill.views.webhooks import webhook_endpoint_view, webhook_message_view

__all__ = ["MESSAGES", "RESOURCES", "VIEWS", "Resources"]


class AddOns(Resource):
    """What one-off invoices and fixed charges sell."""

    views: ClassVar[Views] = {AddOn: add_on_view}

    create = command(add_ons.create)
    update = command(add_ons.update)
    get = query(add_ons.get)
    list = query(add_ons.list_all)
    delete = command(add_ons.delete)


class Alerts(Resource):
    """Thresholds of usage and of balances that are told of when they are crossed."""

    views: ClassVar[Views] = {Alert: alert_view}
    messages: ClassVar[Messages] = {
        "alert.triggered": Message("What an alert watches crossed a threshold of it.", TriggeredAlertView),
    }

    create = command(alerts.create)
    create_all = command(alerts.create_all)
    update = command(alerts.update)
    get = query(alerts.get)
    list = query(alerts.list_all)
    delete = command(alerts.delete)
    delete_all = command(alerts.delete_all)
    create_of_wallet = command(alerts.create_of_wallet)
    create_all_of_wallet = command(alerts.create_all_of_wallet)
    update_of_wallet = command(alerts.update_of_wallet)
    get_of_wallet = query(alerts.get_of_wallet)
    list_of_wallet = query(alerts.list_of_wallet)
    delete_of_wallet = command(alerts.delete_of_wallet)
    delete_all_of_wallet = command(alerts.delete_all_of_wallet)


class AppliedCoupons(Resource):
    """Coupons of customers."""

    views: ClassVar[Views] = {AppliedCoupon: applied_coupon_view}

    apply = command(applied_coupons.apply)
    list = query(applied_coupons.list_all)
    list_of_customer = query(applied_coupons.list_of_customer)
    terminate = command(applied_coupons.terminate)


class BillableMetrics(Resource):
    """What is counted of events."""

    views: ClassVar[Views] = {BillableMetric: billable_metric_view}
    messages: ClassVar[Messages] = {
        "billable_metric.created": Message("A billable metric was created.", BillableMetricView),
        "billable_metric.updated": Message("A billable metric was updated.", BillableMetricView),
        "billable_metric.deleted": Message("A billable metric was deleted.", BillableMetricView),
    }

    create = command(billable_metrics.create)
    update = command(billable_metrics.update)
    get = query(billable_metrics.get)
    list = query(billable_metrics.list_all)
    delete = command(billable_metrics.delete)
    evaluate_expression = query(billable_metrics.evaluate_expression)


class BillingEntities(Resource):
    """Who issues invoices."""

    views: ClassVar[Views] = {BillingEntity: billing_entity_details}

    create = command(billing_entities.create)
    update = command(billing_entities.update)
    get = query(billing_entities.get)
    list = query(billing_entities.list_all)


class Coupons(Resource):
    """What may be taken off invoices."""

    views: ClassVar[Views] = {Coupon: coupon_view}

    create = command(coupons.create)
    update = command(coupons.update)
    get = query(coupons.get)
    list = query(coupons.list_all)
    delete = command(coupons.delete)


class CreditNotes(Resource):
    """What is taken back of invoices."""

    views: ClassVar[Views] = {CreditNote: credit_note_view}
    messages: ClassVar[Messages] = {
        "credit_note.created": Message("A credit note was issued.", IssuedCreditNote),
        "credit_note.generated": Message("The document of a credit note was made.", CreditNoteOfCustomer),
    }

    create = command(credit_notes.create)
    estimate = query(credit_notes.estimate)
    update = command(credit_notes.update)
    get = query(finalized_credit_note)
    list = query(credit_notes.list_all)
    list_of_customer = query(credit_notes.list_of_customer)
    void = command(credit_notes.void)
    replace_metadata = command(credit_notes.replace_metadata)
    merge_metadata = command(credit_notes.merge_metadata)
    delete_metadata = command(credit_notes.delete_metadata)
    delete_metadata_key = command(credit_notes.delete_metadata_key)
    download = command(documents.download_credit_note)
    download_xml = command(documents.download_credit_note_xml)
    pdf = command(documents.credit_note_pdf)
    xml = command(documents.credit_note_xml)
    resend_email = command(emails.resend_credit_note)


class Customers(Resource):
    """Who is billed."""

    views: ClassVar[Views] = {Customer: customer_view}
    messages: ClassVar[Messages] = {
        "customer.created": Message("A customer was created.", CustomerSummary),
        "customer.tax_provider_error": Message("A tax provider did not give an invoice's taxes.", CustomerTaxErrorView),
        "customer.updated": Message("A customer was sent again or edited, changed or not.", CustomerSummary),
        "customer.vies_check": Message("The VAT number of a customer was checked, or could not be.", CheckedCustomer),
    }

    upsert = command(customers.upsert)
    get = query(customer_by_external_id)
    list = query(customers.list_all)
    delete = command(customers.delete)
    checkout_url = command(customers.checkout_url)


class Events(Resource):
    """What customers did."""

    views: ClassVar[Views] = {Event: event_view}
    messages: ClassVar[Messages] = {
        "events.errors": Message("Events of the last hour cannot be billed as they are.", EventsErrors),
    }

    get = query(events.get)
    list = query(events.list_all)

    def create(self, **fields: object) -> Event:
        """Take in one event; its `timestamp` is a `datetime`, Unix seconds, or now."""
        event = read(events.EventInput, _event(fields))
        return self._runner.writing(lambda work: events.create(work, event))

    def ingest(self, request: Iterable[Mapping[str, object]]) -> Sequence[Event]:
        """Take in any number of events in one durable commit, all or none.

        Raises `Invalid`, its details by the position (as text) of each event refused.
        """
        sent = [_event(event) for event in request]
        return self._runner.writing(lambda work: events.ingest(work, sent))

    def estimate_fees(self, **fields: object) -> Sequence[Fee]:
        """The fees, with their taxes, that an event would bring about now; nothing is stored."""
        event = read(events.EventInput, _event(fields))
        return self._runner.reading(lambda work: estimates.estimate_fees(work, event))

    def estimate_instant_fees(self, **fields: object) -> Sequence[estimates.InstantFee]:
        """What an event costs by itself, whatever was used before it."""
        event = read(events.EventInput, _event(fields))
        return self._runner.reading(lambda work: estimates.estimate_instant_fees(work, event))


# What ingestion takes as it is; whatever else stands in properties is first made what JSON would hold.
_PLAIN = frozenset({str, int, bool, float, Decimal, NoneType})


def _event(fields: Mapping[str, object]) -> Mapping[str, object]:
    """An event as its caller wrote it, its time in Unix seconds as the API takes it."""
    timestamp, properties = fields.get("timestamp"), fields.get("properties")
    if isinstance(timestamp, datetime):
        fields = {**fields, "timestamp": unix_seconds(timestamp)}
    if isinstance(properties, Mapping) and not all(type(value) in _PLAIN for value in properties.values()):
        fields = {**fields, "properties": exact(properties)}
    return fields


class Fees(Resource):
    """The lines of invoices."""

    views: ClassVar[Views] = {Fee: fee_view}
    messages: ClassVar[Messages] = {
        "fee.created": Message("A fee was charged in advance, or belongs to no invoice.", UntaxedFeeView),
        "fee.tax_provider_error": Message(
            "A tax provider did not give the taxes of a fee without invoice.", FeeTaxErrorView
        ),
    }

    update = command(fees.update)
    get = query(fee_by_id)
    list = query(fees.list_all)
    events = query(events_of_fee)
    delete = command(fees.delete)


class InvoiceCustomSections(Resource):
    """Texts that invoices end with."""

    views: ClassVar[Views] = {InvoiceCustomSection: section_view}

    create = command(invoice_custom_sections.create)
    update = command(invoice_custom_sections.update)
    get = query(invoice_custom_sections.get)
    list = query(invoice_custom_sections.list_all)
    delete = command(invoice_custom_sections.delete)


class Organizations(Resource):
    """The organization itself."""

    views: ClassVar[Views] = {Organization: organization_view}

    get = query(organizations.get)
    update = command(organizations.update)


class Invoices(Resource):
    """What customers owe."""

    views: ClassVar[Views] = {Invoice: invoice_view}
    messages: ClassVar[Messages] = {
        **{
            name: Message(about, INVOICE_MESSAGES[name])
            for name, about in {
                "invoice.created": "An invoice of subscriptions was issued.",
                "invoice.one_off_created": "An invoice of add-ons was issued.",
                "invoice.paid_credit_added": "An invoice of prepaid credits was issued.",
                "invoice.generated": "The document of an invoice was made.",
                "invoice.drafted": "A draft was made; it can change until it is finalized.",
                "invoice.ready_to_finalize": "The taxes of a draft are known.",
                "invoice.voided": "An invoice was voided.",
                "invoice.deleted": "A draft was deleted.",
                "invoice.payment_status_updated": "An invoice has another payment status.",
                "invoice.payment_overdue": "The day has passed on which an invoice was due.",
            }.items()
        },
        "invoice.payment_dispute_lost": Message("The dispute about a payment was lost.", PaymentDisputeLost),
        "invoice.payment_failure": Message("An invoice could not be collected.", PaymentFailure),
    }

    get = query(visible_invoice)
    list = query(invoice_listing.list_all)
    list_of_customer = query(invoice_listing.list_of_customer)
    update = command(invoice_lifecycle.update)
    finalize = command(invoice_drafts.finalize)
    refresh = command(invoice_drafts.refresh)
    delete = command(invoice_drafts.delete)
    void = command(invoice_lifecycle.void)
    lose_dispute = command(invoice_lifecycle.lose_dispute)
    preview = command(preview)
    adjust_fee = command(line_edits.adjust_fee)
    reset_fee = command(line_edits.reset_fee)
    estimate_adjusted_fee = command(line_edits.estimate_adjusted_fee)
    regenerate = command(line_edits.regenerate)
    create_one_off = command(invoice_one_off.create)
    retry = command(invoice_lifecycle.retry)
    retry_payment = command(payment_links.retry_payment)
    payment_url = command(payment_links.payment_url)
    download = command(documents.download_invoice)
    download_xml = command(documents.download_invoice_xml)
    pdf = command(documents.invoice_pdf)
    xml = command(documents.invoice_xml)
    resend_email = command(emails.resend_invoice)
    explain = query(explain)


class Payments(Resource):
    """What was paid of invoices."""

    views: ClassVar[Views] = {Payment: payment_view}

    create = command(payments.create)
    get = query(payments.get)
    list = query(payments.list_all)
    list_of_customer = query(payments.list_of_customer)


class Plans(Resource):
    """Price lists, with their charges, filters and fixed charges."""

    views: ClassVar[Views] = {Plan: plan_view, Charge: charge_view, FixedCharge: fixed_charge_view}
    messages: ClassVar[Messages] = {
        "plan.created": Message("A plan was created.", PlanSummary),
        "plan.updated": Message("A plan was updated.", PlanSummary),
        "plan.deleted": Message("A plan is being deleted, and what is on it ended.", DeletedPlan),
    }

    create = command(plans.create)
    update = command(plans.update)
    get = query(plan_by_code)
    list = query(plans.list_all)
    delete = command(plans.delete)
    create_charge = command(plans.create_charge)
    update_charge = command(plans.update_charge)
    get_charge = query(plans.get_charge)
    list_charges = query(plans.list_charges)
    delete_charge = command(plans.delete_charge)
    create_filter = command(plans.create_filter)
    update_filter = command(plans.update_filter)
    get_filter = query(plans.get_filter)
    list_filters = query(plans.list_filters)
    delete_filter = command(plans.delete_filter)
    create_fixed_charge = command(plans.create_fixed_charge)
    update_fixed_charge = command(plans.update_fixed_charge)
    get_fixed_charge = query(plans.get_fixed_charge)
    list_fixed_charges = query(plans.list_fixed_charges)
    delete_fixed_charge = command(plans.delete_fixed_charge)
    replace_metadata = command(plans.replace_metadata)
    merge_metadata = command(plans.merge_metadata)
    delete_metadata = command(plans.delete_metadata)
    delete_metadata_key = command(plans.delete_metadata_key)


class PricingUnits(Resource):
    """Currencies of the seller's own."""

    create = command(pricing_units.create)
    list = query(pricing_units.list_all)


class Subscriptions(Resource):
    """Customers on plans."""

    views: ClassVar[Views] = {Subscription: subscription_and_plan_view}
    messages: ClassVar[Messages] = {
        "subscription.started": Message("A subscription became active.", EntitledSubscription),
        "subscription.terminated": Message(
            "A subscription ended, or was canceled while it waited.", SubscriptionMessage
        ),
        "subscription.termination_alert": Message("The planned end of a subscription draws near.", SubscriptionMessage),
        "subscription.trial_ended": Message("The trial of a subscription ended.", SubscriptionMessage),
        "subscription.updated": Message("A subscription changed, or a change of it was planned.", EntitledSubscription),
        "subscription.usage_threshold_reached": Message("Usage reached a threshold.", ThresholdReached),
    }

    create = command(subscriptions.create)
    update = command(subscriptions.update)
    get = query(subscriptions.get)
    list = query(subscriptions.list_all)
    list_of_customer = query(subscriptions.list_of_customer)
    terminate = command(subscriptions.delete)
    list_charges = query(subscription_charges.list_charges)
    get_charge = query(subscription_charges.get_charge)
    update_charge = command(subscription_charges.update_charge)
    list_filters = query(subscription_charges.list_filters)
    get_filter = query(subscription_charges.get_filter)
    create_filter = command(subscription_charges.create_filter)
    update_filter = command(subscription_charges.update_filter)
    delete_filter = command(subscription_charges.delete_filter)
    list_fixed_charges = query(subscription_charges.list_fixed_charges)
    get_fixed_charge = query(subscription_charges.get_fixed_charge)
    update_fixed_charge = command(subscription_charges.update_fixed_charge)
    lifetime_usage = query(progressive_billing.get)
    set_lifetime_usage = command(progressive_billing.put)


class TaxConnections(Resource):
    """Tax providers that customers can be linked to."""

    views: ClassVar[Views] = {TaxConnection: tax_connection_view}

    create = command(tax_connections.create)
    update = command(tax_connections.update)
    get = query(tax_connections.get)
    list = query(tax_connections.list_all)
    delete = command(tax_connections.delete)


class Taxes(Resource):
    """Rates, and where they apply."""

    views: ClassVar[Views] = {Tax: tax_details}

    create = command(taxes.create)
    update = command(taxes.update)
    get = query(taxes.get)
    list = query(taxes.list_all)
    delete = command(taxes.delete)


class Usage(Resource):
    """What customers have used, and what it comes to."""

    current = query(current_usage.current)
    projected = query(current_usage.projected)
    past = query(past_usage.past)


class WalletTransactions(Resource):
    """Credits that come into wallets and go out of them."""

    views: ClassVar[Views] = {WalletTransaction: wallet_transaction_details, WalletConsumption: consumption_view}
    messages: ClassVar[Messages] = {
        "wallet_transaction.created": Message(
            "Credits were bought, granted, voided or used.", WalletTransactionMessage
        ),
        "wallet_transaction.updated": Message(
            "Bought credits were paid, or their payment failed.", WalletTransactionMessage
        ),
    }

    create = command(wallet_transactions.create)
    get = query(wallet_transactions.get)
    list_of_wallet = query(wallet_transactions.list_of_wallet)
    consumptions = query(wallet_transactions.consumptions)
    fundings = query(wallet_transactions.fundings)
    payment_url = command(wallet_transactions.payment_url)


class Wallets(Resource):
    """Prepaid credits of customers."""

    views: ClassVar[Views] = {Wallet: wallet_view}
    messages: ClassVar[Messages] = {
        "wallet.created": Message("A wallet was created.", WalletMessage),
        "wallet.updated": Message("A wallet was changed, or its balance moved.", WalletMessage),
        "wallet.depleted_ongoing_balance": Message(
            "Usage so far comes to all that a wallet holds, or more; once until it holds more again.", WalletMessage
        ),
        "wallet.terminated": Message("A wallet ended, or expired.", WalletMessage),
    }

    create = command(wallets.create)
    create_of_customer = command(wallets.create_of_customer)
    update = command(wallets.update)
    update_of_customer = command(wallets.update_of_customer)
    get = query(wallets.show)
    get_of_customer = query(wallets.show_of_customer)
    list = query(wallets.list_all)
    list_of_customer = query(wallets.list_of_customer)
    terminate = command(wallets.terminate)
    terminate_of_customer = command(wallets.terminate_of_customer)
    replace_metadata = command(wallets.replace_metadata)
    replace_metadata_of_customer = command(wallets.replace_metadata_of_customer)
    merge_metadata = command(wallets.merge_metadata)
    merge_metadata_of_customer = command(wallets.merge_metadata_of_customer)
    delete_metadata = command(wallets.delete_metadata)
    delete_metadata_of_customer = command(wallets.delete_metadata_of_customer)
    delete_metadata_key = command(wallets.delete_metadata_key)
    delete_metadata_key_of_customer = command(wallets.delete_metadata_key_of_customer)


class WebhookEndpoints(Resource):
    """The webhook endpoints that messages go to."""

    views: ClassVar[Views] = {WebhookEndpoint: webhook_endpoint_view}

    create = command(webhook_endpoints.create)
    update = command(webhook_endpoints.update)
    get = query(webhook_endpoints.get)
    list = query(webhook_endpoints.list_all)
    delete = command(webhook_endpoints.delete)


class Webhooks(Resource):
    """The messages that tell it, and the key that signs them."""

    views: ClassVar[Views] = {WebhookMessage: webhook_message_view}

    get = query(webhooks.get)
    list = query(webhooks.list_all)
    resend = command(webhooks.resend)
    public_key = command(webhooks.public_key)


class Resources:
    """Every resource, as an attribute named for what it is about: one row each."""

    add_ons: AddOns
    alerts: Alerts
    applied_coupons: AppliedCoupons
    billable_metrics: BillableMetrics
    billing_entities: BillingEntities
    coupons: Coupons
    credit_notes: CreditNotes
    customers: Customers
    events: Events
    fees: Fees
    invoice_custom_sections: InvoiceCustomSections
    invoices: Invoices
    organizations: Organizations
    payments: Payments
    plans: Plans
    pricing_units: PricingUnits
    subscriptions: Subscriptions
    tax_connections: TaxConnections
    taxes: Taxes
    usage: Usage
    wallet_transactions: WalletTransactions
    wallets: Wallets
    webhook_endpoints: WebhookEndpoints
    webhooks: Webhooks

    def __init__(self, runner: Runner) -> None:
        for name, resource in RESOURCES.items():
            setattr(self, name, resource(runner))


# Name -> resource. The module of its requests (in `http/`) has the same name.
RESOURCES: Mapping[str, type[Resource]] = get_type_hints(Resources)

# Every type of webhook message that is sent, and what it carries.
MESSAGES: Messages = {name: message for resource in RESOURCES.values() for name, message in resource.messages.items()}

# Kind of record -> how it is shown as JSON.
VIEWS: Views = {kind: view for resource in RESOURCES.values() for kind, view in resource.views.items()}
