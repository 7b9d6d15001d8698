"""Billing entities as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from usagebill.core.billing_entities import BillingEntity
from usagebill.queries.billing_entities import default_entity
from usagebill.queries.dunning import campaign_code
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text
from usagebill.views.invoice_custom_sections import CustomSectionView, sections_view
from usagebill.views.taxes import TaxView, taxes_view


class EmailTextView(TypedDict):
    kind: str
    locale: str
    subject: str | None
    intro: str | None
    closing: str | None


class BillingEntityView(TypedDict):
    svc_id: Id
    code: str
    name: str
    default_currency: str
    document_locale: str
    document_numbering: str
    document_number_prefix: str
    finalize_zero_amount_invoice: bool
    invoice_footer: str | None
    invoice_grace_period: int
    subscription_invoice_issuing_date_anchor: str
    subscription_invoice_issuing_date_adjustment: str
    is_default: bool
    net_payment_term: int
    address_line1: str | None
    address_line2: str | None
    city: str | None
    state: str | None
    country: str | None
    zipcode: str | None
    email: str | None
    phone: str | None
    legal_name: str | None
    legal_number: str | None
    tax_identification_number: str | None
    timezone: str
    email_settings: list[str]
    einvoicing: bool
    eu_tax_management: bool
    logo_url: str | None
    portal_color: str | None
    portal_frame_origins: list[str]
    portal_spend_limits: bool
    email_texts: list[EmailTextView]
    created_at: Instant
    updated_at: Instant


class BillingEntityDetails(BillingEntityView):
    taxes: list[TaxView]
    selected_invoice_custom_sections: list[CustomSectionView]
    applied_dunning_campaign_code: str | None


def billing_entity_view(reader: Reader, entity: BillingEntity) -> BillingEntityView:
    """The entity's own fields."""
    default = default_entity(reader)
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
        "portal_color": entity.portal_color,
        "portal_frame_origins": list(entity.portal_frame_origins),
        "portal_spend_limits": entity.portal_spend_limits,
        "email_texts": [
            {
                "kind": text.kind,
                "locale": text.locale,
                "subject": text.subject,
                "intro": text.intro,
                "closing": text.closing,
            }
            for text in entity.email_texts
        ],
        "created_at": instant_text(entity.created_at),
        "updated_at": instant_text(entity.updated_at),
    }


def billing_entity_details(reader: Reader, entity: BillingEntity) -> BillingEntityDetails:
    """The entity with its taxes and custom sections."""
    return {
        **billing_entity_view(reader, entity),
        "taxes": taxes_view(reader, entity.tax_ids),
        "selected_invoice_custom_sections": sections_view(reader, entity.invoice_custom_section_ids),
        "applied_dunning_campaign_code": campaign_code(reader, entity.applied_dunning_campaign_id),
    }


def billing_entities_view(reader: Reader, entities: Sequence[BillingEntity]) -> list[BillingEntityView]:
    return [billing_entity_view(reader, entity) for entity in entities]
