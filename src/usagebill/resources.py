"""Groups: the operations as a library user calls them, `billing.customers.upsert(external_id="acme")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any

from usagebill.bindings import Group, Runner, exact, reads, unix_seconds, writes
from usagebill.core.add_ons import AddOn
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
    webhook_endpoints,
    webhooks,
)
from usagebill.operations.documents import files as documents
from usagebill.operations.emails import resending as emails
from usagebill.operations.invoices import drafts as invoice_drafts
from usagebill.operations.invoices import lifecycle as invoice_lifecycle
from usagebill.operations.invoices import line_edits, payment_links
from usagebill.operations.invoices import listing as invoice_listing
from usagebill.operations.invoices import one_off as invoice_one_off
from usagebill.operations.invoices.preview import preview
from usagebill.queries.customers import customer_by_external_id
from usagebill.rating import current_usage, estimates, past_usage
from usagebill.rating.explain import explain
from usagebill.rating.fee_events import events_of_fee
from usagebill.views.add_ons import add_on_view
from usagebill.views.billable_metrics import billable_metric_view
from usagebill.views.billing_entities import billing_entity_details
from usagebill.views.coupons import applied_coupon_view, coupon_view
from usagebill.views.credit_notes import credit_note_view
from usagebill.views.customers import customer_view
from usagebill.views.events import event_view
from usagebill.views.fees import fee_view
from usagebill.views.invoice_custom_sections import section_view
from usagebill.views.invoices import invoice_view
from usagebill.views.organizations import organization_view
from usagebill.views.payments import payment_view
from usagebill.views.plans import charge_view, fixed_charge_view, plan_view
from usagebill.views.subscriptions import subscription_and_plan_view
from usagebill.views.tax_providers import tax_connection_view
from usagebill.views.taxes import tax_details
from usagebill.views.webhooks import webhook_endpoint_view, webhook_message_view
from usagebill.work import Work

__all__ = ["VIEWS", "Groups"]


class AddOns(Group):
    """What one-off invoices and fixed charges sell."""

    create = writes(add_ons.create)
    update = writes(add_ons.update)
    get = reads(add_ons.get)
    list = reads(add_ons.list_all)
    delete = writes(add_ons.delete)


class AppliedCoupons(Group):
    """Coupons of customers."""

    apply = writes(applied_coupons.apply)
    list = reads(applied_coupons.list_all)
    list_of_customer = reads(applied_coupons.list_of_customer)
    terminate = writes(applied_coupons.terminate)


class BillableMetrics(Group):
    """What is counted of events."""

    create = writes(billable_metrics.create)
    update = writes(billable_metrics.update)
    get = reads(billable_metrics.get)
    list = reads(billable_metrics.list_all)
    delete = writes(billable_metrics.delete)
    evaluate_expression = reads(billable_metrics.evaluate_expression)


class BillingEntities(Group):
    """Who issues invoices."""

    create = writes(billing_entities.create)
    update = writes(billing_entities.update)
    get = reads(billing_entities.get)
    list = reads(billing_entities.list_all)


class Coupons(Group):
    """What may be taken off invoices."""

    create = writes(coupons.create)
    update = writes(coupons.update)
    get = reads(coupons.get)
    list = reads(coupons.list_all)
    delete = writes(coupons.delete)


class CreditNotes(Group):
    """What is taken back of invoices."""

    create = writes(credit_notes.create)
    estimate = reads(credit_notes.estimate)
    update = writes(credit_notes.update)
    get = reads(credit_notes.get)
    list = reads(credit_notes.list_all)
    list_of_customer = reads(credit_notes.list_of_customer)
    void = writes(credit_notes.void)
    replace_metadata = writes(credit_notes.replace_metadata)
    merge_metadata = writes(credit_notes.merge_metadata)
    delete_metadata = writes(credit_notes.delete_metadata)
    delete_metadata_key = writes(credit_notes.delete_metadata_key)
    download = writes(documents.download_credit_note)
    download_xml = writes(documents.download_credit_note_xml)
    pdf = writes(documents.credit_note_pdf)
    xml = writes(documents.credit_note_xml)
    resend_email = writes(emails.resend_credit_note)


class Customers(Group):
    """Who is billed."""

    upsert = writes(customers.upsert)
    get = reads(customer_by_external_id)
    list = reads(customers.list_all)
    delete = writes(customers.delete)
    checkout_url = writes(customers.checkout_url)


class Events(Group):
    """What customers did."""

    get = reads(events.get)
    list = reads(events.list_all)

    def create(self, **fields: object) -> Event:
        """Take in one event; its `timestamp` is a `datetime`, Unix seconds, or now."""
        given = read(events.EventInput, _event(fields))
        return self._runner.writing(lambda work: events.create(work, given))

    def ingest(self, given: Iterable[Mapping[str, object]]) -> Sequence[Event]:
        """Take in any number of events in one durable commit, all or none.

        Raises `Invalid`, its details by the position (as text) of each event refused.
        """
        sent = [_event(one) for one in given]
        return self._runner.writing(lambda work: events.ingest(work, sent))

    def estimate_fees(self, **fields: object) -> Sequence[Fee]:
        """The fees, with their taxes, that an event would bring about now; nothing is stored."""
        given = read(events.EventInput, _event(fields))
        return self._runner.reading(lambda work: estimates.estimate_fees(work, given))

    def estimate_instant_fees(self, **fields: object) -> Sequence[estimates.InstantFee]:
        """What an event costs by itself, whatever was used before it."""
        given = read(events.EventInput, _event(fields))
        return self._runner.reading(lambda work: estimates.estimate_instant_fees(work, given))


# What ingestion takes as it is; whatever else stands in properties is first made what JSON would hold.
_PLAIN = frozenset({str, int, bool, float, Decimal, NoneType})


def _event(given: Mapping[str, object]) -> Mapping[str, object]:
    """An event as its caller wrote it, its time in Unix seconds as the API takes it."""
    timestamp, properties = given.get("timestamp"), given.get("properties")
    if isinstance(timestamp, datetime):
        given = {**given, "timestamp": unix_seconds(timestamp)}
    if isinstance(properties, Mapping) and not all(type(value) in _PLAIN for value in properties.values()):
        given = {**given, "properties": exact(properties)}
    return given


class Fees(Group):
    """The lines of invoices."""

    update = writes(fees.update)
    get = reads(fees.get)
    list = reads(fees.list_all)
    events = reads(events_of_fee)
    delete = writes(fees.delete)


class InvoiceCustomSections(Group):
    """Texts that invoices end with."""

    create = writes(invoice_custom_sections.create)
    update = writes(invoice_custom_sections.update)
    get = reads(invoice_custom_sections.get)
    list = reads(invoice_custom_sections.list_all)
    delete = writes(invoice_custom_sections.delete)


class Organizations(Group):
    """The organization itself."""

    get = reads(organizations.get)
    update = writes(organizations.update)


class Invoices(Group):
    """What customers owe."""

    get = reads(invoice_listing.get)
    list = reads(invoice_listing.list_all)
    list_of_customer = reads(invoice_listing.list_of_customer)
    update = writes(invoice_lifecycle.update)
    finalize = writes(invoice_drafts.finalize)
    refresh = writes(invoice_drafts.refresh)
    delete = writes(invoice_drafts.delete)
    void = writes(invoice_lifecycle.void)
    lose_dispute = writes(invoice_lifecycle.lose_dispute)
    preview = writes(preview)
    adjust_fee = writes(line_edits.adjust_fee)
    reset_fee = writes(line_edits.reset_fee)
    estimate_adjusted_fee = writes(line_edits.estimate_adjusted_fee)
    regenerate = writes(line_edits.regenerate)
    create_one_off = writes(invoice_one_off.create)
    retry = writes(invoice_lifecycle.retry)
    retry_payment = writes(payment_links.retry_payment)
    payment_url = writes(payment_links.payment_url)
    download = writes(documents.download_invoice)
    download_xml = writes(documents.download_invoice_xml)
    pdf = writes(documents.invoice_pdf)
    xml = writes(documents.invoice_xml)
    resend_email = writes(emails.resend_invoice)
    explain = reads(explain)


class Payments(Group):
    """What was paid of invoices."""

    create = writes(payments.create)
    get = reads(payments.get)
    list = reads(payments.list_all)
    list_of_customer = reads(payments.list_of_customer)


class Plans(Group):
    """Price lists, with their charges, filters and fixed charges."""

    create = writes(plans.create)
    update = writes(plans.update)
    get = reads(plans.get)
    list = reads(plans.list_all)
    delete = writes(plans.delete)
    create_charge = writes(plans.create_charge)
    update_charge = writes(plans.update_charge)
    get_charge = reads(plans.get_charge)
    list_charges = reads(plans.list_charges)
    delete_charge = writes(plans.delete_charge)
    create_filter = writes(plans.create_filter)
    update_filter = writes(plans.update_filter)
    get_filter = reads(plans.get_filter)
    list_filters = reads(plans.list_filters)
    delete_filter = writes(plans.delete_filter)
    create_fixed_charge = writes(plans.create_fixed_charge)
    update_fixed_charge = writes(plans.update_fixed_charge)
    get_fixed_charge = reads(plans.get_fixed_charge)
    list_fixed_charges = reads(plans.list_fixed_charges)
    delete_fixed_charge = writes(plans.delete_fixed_charge)
    replace_metadata = writes(plans.replace_metadata)
    merge_metadata = writes(plans.merge_metadata)
    delete_metadata = writes(plans.delete_metadata)
    delete_metadata_key = writes(plans.delete_metadata_key)


class PricingUnits(Group):
    """Currencies of the seller's own."""

    create = writes(pricing_units.create)
    list = reads(pricing_units.list_all)


class Subscriptions(Group):
    """Customers on plans."""

    create = writes(subscriptions.create)
    update = writes(subscriptions.update)
    get = reads(subscriptions.get)
    list = reads(subscriptions.list_all)
    list_of_customer = reads(subscriptions.list_of_customer)
    terminate = writes(subscriptions.delete)
    list_charges = reads(subscription_charges.list_charges)
    get_charge = reads(subscription_charges.get_charge)
    update_charge = writes(subscription_charges.update_charge)
    list_filters = reads(subscription_charges.list_filters)
    get_filter = reads(subscription_charges.get_filter)
    create_filter = writes(subscription_charges.create_filter)
    update_filter = writes(subscription_charges.update_filter)
    delete_filter = writes(subscription_charges.delete_filter)
    list_fixed_charges = reads(subscription_charges.list_fixed_charges)
    get_fixed_charge = reads(subscription_charges.get_fixed_charge)
    update_fixed_charge = writes(subscription_charges.update_fixed_charge)
    lifetime_usage = reads(progressive_billing.get)
    set_lifetime_usage = writes(progressive_billing.put)


class TaxConnections(Group):
    """Tax providers that customers can be linked to."""

    create = writes(tax_connections.create)
    update = writes(tax_connections.update)
    get = reads(tax_connections.get)
    list = reads(tax_connections.list_all)
    delete = writes(tax_connections.delete)


class Taxes(Group):
    """Rates, and where they apply."""

    create = writes(taxes.create)
    update = writes(taxes.update)
    get = reads(taxes.get)
    list = reads(taxes.list_all)
    delete = writes(taxes.delete)


class Usage(Group):
    """What customers have used, and what it comes to."""

    current = reads(current_usage.current)
    projected = reads(current_usage.projected)
    past = reads(past_usage.past)


class WebhookEndpoints(Group):
    """Who is told of what happens."""

    create = writes(webhook_endpoints.create)
    update = writes(webhook_endpoints.update)
    get = reads(webhook_endpoints.get)
    list = reads(webhook_endpoints.list_all)
    delete = writes(webhook_endpoints.delete)


class Webhooks(Group):
    """The messages that tell it, and the key that signs them."""

    get = reads(webhooks.get)
    list = reads(webhooks.list_all)
    resend = writes(webhooks.resend)
    public_key = writes(webhooks.public_key)


class Groups:
    """Every group, as an attribute named for what it is about."""

    def __init__(self, runner: Runner) -> None:
        self.add_ons = AddOns(runner)
        self.applied_coupons = AppliedCoupons(runner)
        self.billable_metrics = BillableMetrics(runner)
        self.billing_entities = BillingEntities(runner)
        self.coupons = Coupons(runner)
        self.credit_notes = CreditNotes(runner)
        self.customers = Customers(runner)
        self.events = Events(runner)
        self.fees = Fees(runner)
        self.invoice_custom_sections = InvoiceCustomSections(runner)
        self.invoices = Invoices(runner)
        self.organizations = Organizations(runner)
        self.payments = Payments(runner)
        self.plans = Plans(runner)
        self.pricing_units = PricingUnits(runner)
        self.subscriptions = Subscriptions(runner)
        self.tax_connections = TaxConnections(runner)
        self.taxes = Taxes(runner)
        self.usage = Usage(runner)
        self.webhook_endpoints = WebhookEndpoints(runner)
        self.webhooks = Webhooks(runner)


# Kind of record -> how it is shown as JSON.
VIEWS: Mapping[type, Callable[[Work, Any], Mapping[str, Any]]] = {
    AddOn: add_on_view,
    AppliedCoupon: applied_coupon_view,
    BillableMetric: billable_metric_view,
    BillingEntity: billing_entity_details,
    Charge: charge_view,
    Coupon: coupon_view,
    CreditNote: credit_note_view,
    Customer: customer_view,
    FixedCharge: fixed_charge_view,
    InvoiceCustomSection: section_view,
    Organization: organization_view,
    Event: event_view,
    Fee: fee_view,
    Invoice: invoice_view,
    Payment: payment_view,
    Plan: plan_view,
    Subscription: subscription_and_plan_view,
    Tax: tax_details,
    TaxConnection: tax_connection_view,
    WebhookEndpoint: webhook_endpoint_view,
    WebhookMessage: webhook_message_view,
}
