"""Organizations as JSON, with the settings of their default billing entity and their webhook URLs."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from usagebill.core.organizations import Organization
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.organizations import webhook_endpoints
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.taxes import TaxView, taxes_view


class OrganizationBillingView(TypedDict):
    invoice_footer: str | None
    invoice_grace_period: int
    document_locale: str


class OrganizationView(TypedDict):
    svc_id: Id
    name: str
    created_at: Instant
    webhook_url: str
    webhook_urls: list[str]
    country: str | None
    default_currency: str
    address_line1: str | None
    address_line2: str | None
    state: str | None
    zipcode: str | None
    email: str | None
    city: str | None
    legal_name: str | None
    legal_number: str | None
    timezone: str
    net_payment_term: int
    email_settings: list[str]
    document_numbering: str
    document_number_prefix: str
    tax_identification_number: str | None
    finalize_zero_amount_invoice: bool
    events_store: str
    event_retention_months: NotRequired[int]
    billing_configuration: OrganizationBillingView
    taxes: list[TaxView]


def organization_view(reader: Reader, organization: Organization) -> OrganizationView:
    """The organization with the settings of its default billing entity."""
    entity = default_entity(reader)
    if entity is None:
        raise LookupError(f"organization {organization.id} has no billing entity")
    urls = [endpoint.webhook_url for endpoint in webhook_endpoints(reader)]
    shown: OrganizationView = {
        "svc_id": organization.id,
        "name": organization.name,
        "created_at": instant_text(organization.created_at),
        "webhook_url": urls[0] if urls else "",
        "webhook_urls": urls,
        "country": entity.country,
        "default_currency": entity.default_currency,
        "address_line1": entity.address_line1,
        "address_line2": entity.address_line2,
        "state": entity.state,
        "zipcode": entity.zipcode,
        "email": entity.email,
        "city": entity.city,
        "legal_name": entity.legal_name,
        "legal_number": entity.legal_number,
        "timezone": entity.timezone,
        "net_payment_term": entity.net_payment_term,
        "email_settings": list(entity.email_settings),
        "document_numbering": "per_customer" if entity.document_numbering == "per_customer" else "per_organization",
        "document_number_prefix": organization.document_number_prefix,
        "tax_identification_number": entity.tax_identification_number,
        "finalize_zero_amount_invoice": entity.finalize_zero_amount_invoice,
        "events_store": "postgres",
        "billing_configuration": {
            "invoice_footer": entity.invoice_footer,
            "invoice_grace_period": entity.invoice_grace_period,
            "document_locale": entity.document_locale,
        },
        "taxes": taxes_view(reader, entity.tax_ids),
    }
    if organization.event_retention_months is not None:
        shown["event_retention_months"] = organization.event_retention_months
    return shown
