"""How billing entities are shown."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.billing_entities import BillingEntity
from usagebill.views.default_entity import default_entity
from usagebill.views.formats import instant_text
from usagebill.views.invoice_custom_sections import sections_view
from usagebill.views.taxes import taxes_view
from usagebill.work import JsonObject, Work

__all__ = ["billing_entities_view", "billing_entity_details", "billing_entity_view"]


def billing_entity_view(work: Work, entity: BillingEntity) -> JsonObject:
    """The entity's own fields."""
    default = default_entity(work)
    return {
        "svc_id": entity.id,
        "code": entity.code,
        "name": entity.name,
        "default_currency": entity.default_currency,
        "document_locale": entity.document_locale,
        "document_numbering": entity.document_numbering,
        "document_number_prefix": entity.document_number_prefix,
        "finalize_zero_amount_invoice": entity.finalize_zero_amount_invoice,
        "invoice_footer": entity.invoice_footer,
        "invoice_grace_period": entity.invoice_grace_period,
        "subscription_invoice_issuing_date_anchor": entity.subscription_invoice_issuing_date_anchor,
        "subscription_invoice_issuing_date_adjustment": entity.subscription_invoice_issuing_date_adjustment,
        "is_default": default is not None and default.id == entity.id,
        "net_payment_term": entity.net_payment_term,
        "address_line1": entity.address_line1,
        "address_line2": entity.address_line2,
        "city": entity.city,
        "state": entity.state,
        "country": entity.country,
        "zipcode": entity.zipcode,
        "email": entity.email,
        "phone": entity.phone,
        "legal_name": entity.legal_name,
        "legal_number": entity.legal_number,
        "tax_identification_number": entity.tax_identification_number,
        "timezone": entity.timezone,
        "email_settings": list(entity.email_settings),
        "einvoicing": entity.einvoicing,
        "eu_tax_management": entity.eu_tax_management,
        "logo_url": entity.logo_url,
        "created_at": instant_text(entity.created_at),
        "updated_at": instant_text(entity.updated_at),
    }


def billing_entity_details(work: Work, entity: BillingEntity) -> JsonObject:
    """The entity with the taxes and the custom sections of its invoices."""
    return {
        **billing_entity_view(work, entity),
        "taxes": taxes_view(work, entity.tax_ids),
        "selected_invoice_custom_sections": sections_view(work, entity.invoice_custom_section_ids),
    }


def billing_entities_view(work: Work, entities: Sequence[BillingEntity]) -> list[JsonObject]:
    return [billing_entity_view(work, entity) for entity in entities]
