"""Customers: who is billed, and the settings they inherit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from usagebill.core.billing_entities import ADJUSTMENTS, ANCHORS, BillingEntity
from usagebill.core.contacts import LOCALES, LONGEST_NAME, is_email
from usagebill.core.countries import COUNTRIES
from usagebill.core.currencies import CURRENCIES
from usagebill.core.dates import DatingSettings, IssuingDateAdjustment, IssuingDateAnchor
from usagebill.core.error_details import ErrorDetail
from usagebill.core.limits import GRACE_PERIOD, PAYMENT_TERM
from usagebill.core.vat import VatCheck


class AccountType(StrEnum):
    """The direction of invoices: the customer is invoiced, or is a partner who invoices us (self-billed)."""

    CUSTOMER = "customer"
    PARTNER = "partner"


class ZeroAmountInvoices(StrEnum):
    """Whether an invoice is issued if its fees add up to zero."""

    INHERIT = "inherit"  # as the billing entity says
    SKIP = "skip"
    FINALIZE = "finalize"


ACCOUNT_TYPES = tuple(AccountType)
CUSTOMER_TYPES = ("company", "individual")
ZERO_AMOUNT_OPTIONS = tuple(ZeroAmountInvoices)
METADATA_AT_MOST = 5
_LONGEST_KEY = 20
_LONGEST_VALUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A postal address; `country` is an ISO 3166 code of two letters."""

    address_line1: str | None = None
    address_line2: str | None = None
    city: str | None = None
    state: str | None = None
    zipcode: str | None = None
    country: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataItem:
    """A value that the caller keeps with a customer."""

    id: str
    key: str
    value: str
    created_at: datetime
    display_in_invoice: bool = False


class IntegrationCategory(StrEnum):
    """The categories of external systems."""

    TAX = "tax"  # calculates the taxes of invoices
    ACCOUNTING = "accounting"  # keeps the books
    CRM = "crm"  # manages customer relationships


# The kinds of system that customers can be linked to, by their `integration_type`.
INTEGRATION_CATEGORIES: Mapping[str, IntegrationCategory] = {
    "anrok": IntegrationCategory.TAX,
    "avalara": IntegrationCategory.TAX,
    "netsuite": IntegrationCategory.ACCOUNTING,
    "xero": IntegrationCategory.ACCOUNTING,
    "hubspot": IntegrationCategory.CRM,
    "salesforce": IntegrationCategory.CRM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationCustomer:
    """A customer's account with a tax provider, accounting system or CRM, where its id is `external_customer_id`.

    `subsidiary_id` is the subsidiary in an accounting system, `targeted_object` the kind of object in a CRM, `email`
    the address by which it identifies a person.
    """

    id: str
    integration_type: str
    integration_code: str
    connection_id: str
    external_customer_id: str
    created_at: datetime
    sync_with_provider: bool = False
    subsidiary_id: str | None = None
    targeted_object: str | None = None
    email: str | None = None

    @property
    def category(self) -> IntegrationCategory:
        """The category of the system."""
        return INTEGRATION_CATEGORIES[self.integration_type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """Null settings are inherited from the billing entity. Grace period and payment term are in days.

    While a `vat_check` runs, the customer's invoices wait for their taxes. If `integration_customers` names a tax
    provider, the first one calculates the taxes instead; `tax_error` is its last error.

    `payment_connection_id` is the payment provider that collects its invoices, where the customer is
    `provider_customer_id`; `provider_payment_methods` are the kinds of method allowed there.

    One that was `anonymized_at` an instant says no more who it was, and is deleted (`core.erasure`).
    """

    id: str
    organization_id: str
    external_id: str
    billing_entity_id: str
    sequential_id: int
    slug: str
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    firstname: str | None = None
    lastname: str | None = None
    customer_type: str | None = None
    account_type: str = AccountType.CUSTOMER
    currency: str | None = None
    email: str | None = None
    phone: str | None = None
    url: str | None = None
    logo_url: str | None = None
    legal_name: str | None = None
    legal_number: str | None = None
    tax_identification_number: str | None = None
    address_line1: str | None = None
    address_line2: str | None = None
    city: str | None = None
    state: str | None = None
    zipcode: str | None = None
    country: str | None = None
    shipping_address: Address = field(default_factory=Address)
    timezone: str | None = None
    net_payment_term: int | None = None
    invoice_grace_period: int | None = None
    subscription_invoice_issuing_date_anchor: str | None = None
    subscription_invoice_issuing_date_adjustment: str | None = None
    document_locale: str | None = None
    payment_provider: str | None = None
    payment_provider_code: str | None = None
    provider_customer_id: str | None = None
    payment_connection_id: str | None = None
    provider_payment_methods: tuple[str, ...] = ()
    sync_with_provider: bool | None = None
    finalize_zero_amount_invoice: str = ZeroAmountInvoices.INHERIT
    skip_invoice_custom_sections: bool = False
    invoice_custom_section_ids: tuple[str, ...] = ()
    tax_ids: tuple[str, ...] = ()
    metadata: tuple[MetadataItem, ...] = ()
    vat_check: VatCheck | None = None
    integration_customers: tuple[IntegrationCustomer, ...] = ()
    tax_error: ErrorDetail | None = None
    applied_dunning_campaign_id: str | None = None
    exclude_from_dunning_campaign: bool = False
    anonymized_at: datetime | None = None
    deleted_at: datetime | None = None


def links_of(customer: Customer, category: IntegrationCategory) -> list[IntegrationCustomer]:
    """The customer's links to systems of a category, the default first."""
    return [link for link in customer.integration_customers if link.category is category]


def without_links(customer: Customer, connection_id: str) -> tuple[IntegrationCustomer, ...]:
    """The customer's links except those of this connection."""
    return tuple(link for link in customer.integration_customers if link.connection_id != connection_id)


def timezone(customer: Customer, entity: BillingEntity) -> str:
    """The IANA name of the zone in which the customer's days begin and end."""
    return customer.timezone or entity.timezone or "UTC"


def grace_period(customer: Customer, entity: BillingEntity) -> int:
    """Days for which a subscription invoice stays a draft."""
    return entity.invoice_grace_period if customer.invoice_grace_period is None else customer.invoice_grace_period


def net_payment_term(customer: Customer, entity: BillingEntity) -> int:
    """Days from the issuing date to the payment due date."""
    return entity.net_payment_term if customer.net_payment_term is None else customer.net_payment_term


def issuing_date_anchor(customer: Customer, entity: BillingEntity) -> str:
    """`next_period_start` or `current_period_end`."""
    return customer.subscription_invoice_issuing_date_anchor or entity.subscription_invoice_issuing_date_anchor


def issuing_date_adjustment(customer: Customer, entity: BillingEntity) -> str:
    """`align_with_finalization_date` or `keep_anchor`."""
    return customer.subscription_invoice_issuing_date_adjustment or entity.subscription_invoice_issuing_date_adjustment


def finalizes_zero_amount_invoices(customer: Customer, entity: BillingEntity) -> bool:
    """Whether an invoice is issued if its fees add up to zero."""
    if customer.finalize_zero_amount_invoice == ZeroAmountInvoices.INHERIT:
        return entity.finalize_zero_amount_invoice
    return customer.finalize_zero_amount_invoice == ZeroAmountInvoices.FINALIZE


def definition_errors(customer: Customer) -> dict[str, list[str]]:
    """Errors in the fields of a customer, as field -> codes; empty if there are none.

    Names of time zones are checked elsewhere.
    """
    errors: dict[str, list[str]] = {}

    def check(field: str, sound: bool, code: str) -> None:
        if not sound:
            errors[field] = [code]

    shipping = customer.shipping_address.country
    anchor = customer.subscription_invoice_issuing_date_anchor
    adjustment = customer.subscription_invoice_issuing_date_adjustment
    check("country", customer.country is None or customer.country in COUNTRIES, "not_a_valid_country_code")
    check("shipping_country", shipping is None or shipping in COUNTRIES, "not_a_valid_country_code")
    check("currency", customer.currency is None or customer.currency in CURRENCIES, "value_is_invalid")
    check("email", not customer.email or is_email(customer.email), "invalid_email_format")
    check("external_id", bool(customer.external_id), "value_is_mandatory")
    check("name", len(customer.name or "") <= LONGEST_NAME, "value_is_too_long")
    check("net_payment_term", PAYMENT_TERM.holds(customer.net_payment_term or 0), "value_is_out_of_range")
    check("invoice_grace_period", GRACE_PERIOD.holds(customer.invoice_grace_period or 0), "value_is_out_of_range")
    check("customer_type", customer.customer_type in (None, *CUSTOMER_TYPES), "value_is_invalid")
    check("account_type", customer.account_type in ACCOUNT_TYPES, "value_is_invalid")
    check("document_locale", customer.document_locale in (None, *LOCALES), "not_a_valid_language_code")
    check("subscription_invoice_issuing_date_anchor", anchor in (None, *ANCHORS), "value_is_invalid")
    check("subscription_invoice_issuing_date_adjustment", adjustment in (None, *ADJUSTMENTS), "value_is_invalid")
    return errors


def metadata_errors(item: MetadataItem, existing: Sequence[MetadataItem]) -> dict[str, list[str]]:
    """Errors in an item, given the `existing` ones of its customer, as field -> codes."""
    errors: dict[str, list[str]] = {}
    if not item.key:
        errors["key"] = ["value_is_mandatory"]
    elif len(item.key) > _LONGEST_KEY:
        errors["key"] = ["value_is_too_long"]
    elif any(present.key == item.key for present in existing):
        errors["key"] = ["value_already_exist"]
    if not item.value:
        errors["value"] = ["value_is_mandatory"]
    elif len(item.value) > _LONGEST_VALUE:
        errors["value"] = ["value_is_too_long"]
    return errors


def dating_settings(customer: Customer, entity: BillingEntity) -> DatingSettings:
    """The settings for the dates of the customer's invoices: its own values, else its billing entity's."""
    return DatingSettings(
        grace_period=grace_period(customer, entity),
        net_payment_term=net_payment_term(customer, entity),
        anchor=IssuingDateAnchor(issuing_date_anchor(customer, entity)),
        adjustment=IssuingDateAdjustment(issuing_date_adjustment(customer, entity)),
    )
