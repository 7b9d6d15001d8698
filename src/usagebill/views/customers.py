"""Customers as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict, cast

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer, IntegrationCustomer, links_of, timezone
from usagebill.core.error_details import TAX_ERROR, ErrorDetail
from usagebill.core.invoice_custom_sections import customer_section_ids
from usagebill.core.sync_connections import sync_error
from usagebill.core.vat import NotRegistered, Registered, Unavailable
from usagebill.queries.customers import entity_of
from usagebill.queries.dunning import campaign_code
from usagebill.queries.sync_connections import failed_documents_of
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.invoice_custom_sections import CustomSectionView, sections_view
from usagebill.views.taxes import TaxView, taxes_view


class ProviderAccountView(TypedDict):
    """Present while a payment provider is linked; `provider_payment_methods` only for Stripe."""

    provider_customer_id: NotRequired[str | None]
    sync_with_provider: NotRequired[bool | None]
    provider_payment_methods: NotRequired[list[str]]


class BillingConfigurationView(ProviderAccountView):
    invoice_grace_period: int | None
    payment_provider: str | None
    payment_provider_code: str | None
    document_locale: str | None
    subscription_invoice_issuing_date_anchor: str | None
    subscription_invoice_issuing_date_adjustment: str | None


class AddressView(TypedDict):
    address_line1: str | None
    address_line2: str | None
    city: str | None
    state: str | None
    zipcode: str | None
    country: str | None


class CustomerMetadataView(TypedDict):
    svc_id: Id
    key: str
    value: str
    display_in_invoice: bool
    created_at: Instant


class IntegrationCustomerView(TypedDict):
    svc_id: Id
    type: str
    integration_code: str
    code: str
    external_customer_id: str
    sync_with_provider: bool
    category: str
    is_default: bool
    subsidiary_id: NotRequired[str]
    targeted_object: NotRequired[str]
    email: NotRequired[str]


class CustomerSummary(AddressView):
    svc_id: Id
    sequential_id: int
    slug: str
    external_id: str
    billing_entity_code: str
    account_type: str
    customer_type: str | None
    name: str | None
    firstname: str | None
    lastname: str | None
    currency: str | None
    email: str | None
    phone: str | None
    url: str | None
    logo_url: str | None
    legal_name: str | None
    legal_number: str | None
    tax_identification_number: str | None
    timezone: str | None
    applicable_timezone: str
    net_payment_term: int | None
    external_salesforce_id: None
    finalize_zero_amount_invoice: str
    skip_invoice_custom_sections: bool
    created_at: Instant
    updated_at: Instant
    billing_configuration: BillingConfigurationView
    shipping_address: AddressView
    metadata: list[CustomerMetadataView]
    integration_customers: list[IntegrationCustomerView]


class CustomerItem(CustomerSummary):
    taxes: list[TaxView]
    applied_dunning_campaign_code: str | None
    exclude_from_dunning_campaign: bool


class ErrorDetailView(TypedDict):
    svc_id: Id
    error_code: str
    details: Mapping[str, object]


class CustomerView(CustomerItem):
    applicable_invoice_custom_sections: list[CustomSectionView]
    error_details: list[ErrorDetailView]


class VatCheckView(TypedDict):
    valid: bool
    valid_format: bool
    error: NotRequired[str]
    country_code: NotRequired[str]
    vat_number: NotRequired[str]
    name: NotRequired[str]
    address: NotRequired[str]
    request_date: NotRequired[str]
    request_identifier: NotRequired[str]


class CheckedCustomer(CustomerSummary):
    """The message about the check of a customer's VAT number."""

    vies_check: VatCheckView


def customer_summary(reader: Reader, customer: Customer, entity: BillingEntity | None = None) -> CustomerSummary:
    """The customer's own fields, as other objects and messages show them. `entity` is its billing entity, if known."""
    entity = entity or entity_of(reader, customer)
    address = customer.shipping_address
    return {
        "svc_id": customer.id,
        "sequential_id": customer.sequential_id,
        "slug": customer.slug,
        "external_id": customer.external_id,
        "billing_entity_code": entity.code,
        "account_type": customer.account_type,
        "customer_type": customer.customer_type,
        "name": customer.name,
        "firstname": customer.firstname,
        "lastname": customer.lastname,
        "address_line1": customer.address_line1,
        "address_line2": customer.address_line2,
        "city": customer.city,
        "state": customer.state,
        "zipcode": customer.zipcode,
        "country": customer.country,
        "currency": customer.currency,
        "email": customer.email,
        "phone": customer.phone,
        "url": customer.url,
        "logo_url": customer.logo_url,
        "legal_name": customer.legal_name,
        "legal_number": customer.legal_number,
        "tax_identification_number": customer.tax_identification_number,
        "timezone": customer.timezone,
        "applicable_timezone": timezone(customer, entity),
        "net_payment_term": customer.net_payment_term,
        "external_salesforce_id": None,
        "finalize_zero_amount_invoice": customer.finalize_zero_amount_invoice,
        "skip_invoice_custom_sections": customer.skip_invoice_custom_sections,
        "created_at": instant_text(customer.created_at),
        "updated_at": instant_text(customer.updated_at),
        "billing_configuration": {
            "invoice_grace_period": customer.invoice_grace_period,
            "payment_provider": customer.payment_provider,
            "payment_provider_code": customer.payment_provider_code,
            **_account(customer),
            "document_locale": customer.document_locale,
            "subscription_invoice_issuing_date_anchor": customer.subscription_invoice_issuing_date_anchor,
            "subscription_invoice_issuing_date_adjustment": customer.subscription_invoice_issuing_date_adjustment,
        },
        "shipping_address": {
            "address_line1": address.address_line1,
            "address_line2": address.address_line2,
            "city": address.city,
            "state": address.state,
            "zipcode": address.zipcode,
            "country": address.country,
        },
        "metadata": [
            {
                "svc_id": item.id,
                "key": item.key,
                "value": item.value,
                "display_in_invoice": item.display_in_invoice,
                "created_at": instant_text(item.created_at),
            }
            for item in customer.metadata
        ],
        "integration_customers": [_integration_customer(customer, link) for link in customer.integration_customers],
    }


def _account(customer: Customer) -> ProviderAccountView:
    """The customer's account at its payment provider, if it has one."""
    if customer.payment_connection_id is None:
        return {}
    account: ProviderAccountView = {
        "provider_customer_id": customer.provider_customer_id,
        "sync_with_provider": customer.sync_with_provider,
    }
    if customer.payment_provider == "stripe":
        account["provider_payment_methods"] = list(customer.provider_payment_methods)
    return account


def _integration_customer(customer: Customer, link: IntegrationCustomer) -> IntegrationCustomerView:
    shown: IntegrationCustomerView = {
        "svc_id": link.id,
        "type": link.integration_type,
        "integration_code": link.integration_code,
        "code": link.integration_code,
        "external_customer_id": link.external_customer_id,
        "sync_with_provider": link.sync_with_provider,
        "category": link.category.value,
        "is_default": link == links_of(customer, link.category)[0],
    }
    if link.subsidiary_id is not None:
        shown["subsidiary_id"] = link.subsidiary_id
    if link.targeted_object is not None:
        shown["targeted_object"] = link.targeted_object
    if link.email is not None:
        shown["email"] = link.email
    return shown


def customer_item(reader: Reader, customer: Customer) -> CustomerItem:
    """The customer as lists show it: with its own taxes, and whether it is excluded from dunning."""
    return {
        **customer_summary(reader, customer),
        "taxes": taxes_view(reader, customer.tax_ids),
        "applied_dunning_campaign_code": campaign_code(reader, customer.applied_dunning_campaign_id),
        "exclude_from_dunning_campaign": customer.exclude_from_dunning_campaign,
    }


def customer_view(reader: Reader, customer: Customer) -> CustomerView:
    """The customer as a single-record response shows it."""
    sections = customer_section_ids(customer, entity_of(reader, customer))
    return {
        **customer_item(reader, customer),
        "applicable_invoice_custom_sections": sections_view(reader, sections),
        "error_details": [*tax_errors(customer), *_sync_errors(reader, customer)],
    }


def _sync_errors(reader: Reader, customer: Customer) -> list[ErrorDetailView]:
    """Errors of accounting systems and CRMs that refused the customer."""
    if not customer.integration_customers:
        return []
    links = {link.connection_id: link for link in customer.integration_customers}
    return [
        error_detail_view(sync_error(links[document.connection_id], document))
        for document in failed_documents_of(reader, customer.id)
        if document.connection_id in links
    ]


def tax_errors(customer: Customer) -> list[ErrorDetailView]:
    """The reasons for unknown taxes: the last errors of the tax provider and of the VAT number's check."""
    errors = [] if customer.tax_error is None else [error_detail_view(customer.tax_error)]
    return [*errors, *vat_errors(customer)]


def vat_errors(customer: Customer) -> list[ErrorDetailView]:
    """The last error of a VAT number's check that is still being retried."""
    check = customer.vat_check
    if check is None or check.last_error is None:
        return []
    details = {"tax_error": check.last_error, "tax_error_message": check.last_message or ""}
    return [{"svc_id": check.id, "error_code": TAX_ERROR, "details": details}]


def error_detail_view(detail: ErrorDetail) -> ErrorDetailView:
    """An error of a record."""
    return {"svc_id": detail.id, "error_code": detail.error_code, "details": dict(detail.details)}


def checked_customer(
    reader: Reader, customer: Customer, answer: Registered | NotRegistered | Unavailable
) -> CheckedCustomer:
    """The customer, with the registry's response about its VAT number."""
    return {**customer_summary(reader, customer), "vies_check": _answer_view(answer)}


def _answer_view(answer: Registered | NotRegistered | Unavailable) -> VatCheckView:
    if isinstance(answer, Registered):
        identity = {"country_code": answer.country_code, "vat_number": answer.vat_number}
        return cast(VatCheckView, {"valid": True, "valid_format": True, **answer.details, **identity})
    if isinstance(answer, Unavailable):
        return {"valid": False, "valid_format": True, "error": answer.message}
    refused: VatCheckView = {"valid": False, "valid_format": answer.valid_format}
    return refused if answer.reason is None else {**refused, "error": answer.reason}
