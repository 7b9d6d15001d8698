"""How organizations are shown: with the settings of their default billing entity, and those who listen."""

from __future__ import annotations

from usagebill.core.organizations import Organization
from usagebill.core.webhooks import WebhookEndpoint
from usagebill.storage.conditions import asc
from usagebill.views.default_entity import default_entity
from usagebill.views.formats import instant_text
from usagebill.views.taxes import taxes_view
from usagebill.work import JsonObject, Work

__all__ = ["organization_view"]


def organization_view(work: Work, organization: Organization) -> JsonObject:
    entity = default_entity(work)
    if entity is None:
        raise LookupError(f"organization {organization.id} has no billing entity")
    endpoints = work.tx.find(WebhookEndpoint, order=[asc("created_at"), asc("id")])
    urls = [endpoint.webhook_url for endpoint in endpoints]
    return {
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
        "taxes": taxes_view(work, entity.tax_ids),
    }
