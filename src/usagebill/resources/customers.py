"""Customers, their subscriptions, and the billing entities that bill them."""

from __future__ import annotations

from typing import ClassVar

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.customers import Customer
from usagebill.core.invoice_custom_sections import InvoiceCustomSection
from usagebill.core.organizations import Organization
from usagebill.core.subscriptions import Subscription
from usagebill.operations import (
    applied_coupons,
    billing_entities,
    customer_archives,
    customers,
    erasure,
    invoice_custom_sections,
    organizations,
    payment_pages,
    portal,
    progressive_billing,
    subscription_charges,
    subscriptions,
)
from usagebill.queries.customers import customer_by_external_id
from usagebill.resources.bindings import Message, Messages, Resource, Views, command, query
from usagebill.resources.result_views import lifetime_usage_view, setup_page_view
from usagebill.views.billing_entities import billing_entity_details
from usagebill.views.coupons import applied_coupon_view
from usagebill.views.customers import CheckedCustomer, CustomerSummary, customer_view
from usagebill.views.invoice_custom_sections import section_view
from usagebill.views.organizations import organization_view
from usagebill.views.payment_providers import CheckoutUrlView, CustomerErrorView
from usagebill.views.subscriptions import (
    EntitledSubscription,
    SubscriptionMessage,
    ThresholdReached,
    subscription_and_plan_view,
)
from usagebill.views.sync_connections import CustomerSyncErrorView
from usagebill.views.tax_providers import CustomerTaxErrorView


class AppliedCoupons(Resource):
    """Coupons of customers."""

    permission = "applied_coupon"

    views: ClassVar[Views] = {AppliedCoupon: applied_coupon_view}

    apply = command(applied_coupons.apply)
    list = query(applied_coupons.list_all)
    list_of_customer = query(applied_coupons.list_of_customer)
    terminate = command(applied_coupons.terminate)


class BillingEntities(Resource):
    """Who issues invoices."""

    permission = "billing_entity"

    views: ClassVar[Views] = {BillingEntity: billing_entity_details}

    create = command(billing_entities.create)
    update = command(billing_entities.update)
    get = query(billing_entities.get)
    list = query(billing_entities.list_all)


class Customers(Resource):
    """Who is billed."""

    permission = "customer"

    views: ClassVar[Views] = {Customer: customer_view, payment_pages.SetupPage: setup_page_view}
    messages: ClassVar[Messages] = {
        "customer.created": Message("A customer was created.", CustomerSummary),
        "customer.accounting_provider_created": Message(
            "A customer was created in an accounting system.", CustomerSummary
        ),
        "customer.accounting_provider_error": Message(
            "An accounting system rejected a customer, or one of its documents.", CustomerSyncErrorView
        ),
        "customer.crm_provider_created": Message("A customer was created in a CRM.", CustomerSummary),
        "customer.crm_provider_error": Message(
            "A CRM rejected a customer, or one of its invoices.", CustomerSyncErrorView
        ),
        "customer.tax_provider_error": Message(
            "A tax provider returned no taxes for an invoice.", CustomerTaxErrorView
        ),
        "customer.payment_provider_created": Message("A customer was created at a payment provider.", CustomerSummary),
        "customer.payment_provider_error": Message("A payment provider rejected a customer.", CustomerErrorView),
        "customer.checkout_url_generated": Message(
            "A page where the customer can save a payment method is available.", CheckoutUrlView
        ),
        "customer.updated": Message("A customer was sent again or edited, even without changes.", CustomerSummary),
        "customer.anonymized": Message(
            "A customer was anonymized, and nothing but its issued documents says who it was.", CustomerSummary
        ),
        "customer.vies_check": Message("The VAT number of a customer was checked, or could not be.", CheckedCustomer),
    }

    upsert = command(customers.upsert)
    get = query(customer_by_external_id)
    list = query(customers.list_all)
    delete = command(customers.delete)
    archive = query(customer_archives.archive)
    anonymize = command(erasure.anonymize)
    portal_url = query(portal.portal_url)
    checkout_url = command(payment_pages.checkout_url)


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

    permission = "organization"

    views: ClassVar[Views] = {Organization: organization_view}

    get = query(organizations.get)
    update = command(organizations.update)
    set_limits = command(organizations.set_limits)


class Subscriptions(Resource):
    """Customers on plans."""

    permission = "subscription"

    views: ClassVar[Views] = {
        Subscription: subscription_and_plan_view,
        progressive_billing.LifetimeUsageNow: lifetime_usage_view,
    }
    messages: ClassVar[Messages] = {
        "subscription.incomplete": Message("A subscription waits for its first payment.", SubscriptionMessage),
        "subscription.canceled": Message(
            "A subscription that waited for its first payment was canceled.", SubscriptionMessage
        ),
        "subscription.started": Message("A subscription became active.", EntitledSubscription),
        "subscription.terminated": Message(
            "A subscription ended, or was canceled while it waited.", SubscriptionMessage
        ),
        "subscription.termination_alert": Message("The planned end of a subscription is near.", SubscriptionMessage),
        "subscription.trial_ended": Message("The trial of a subscription ended.", SubscriptionMessage),
        "subscription.updated": Message("A subscription changed, or a change was scheduled.", EntitledSubscription),
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
    lifetime_usage = query(progressive_billing.get, permission="lifetime_usage")
    set_lifetime_usage = command(progressive_billing.put, permission="lifetime_usage")
