"""Billing entities: the legal person that issues invoices, with the defaults its customers inherit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["BillingEntity", "default_document_number_prefix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingEntity:
    """`document_numbering`: per_customer or per_billing_entity. Grace period and payment term are in days."""

    id: str
    organization_id: str
    code: str
    name: str
    created_at: datetime
    updated_at: datetime
    document_number_prefix: str
    document_numbering: str = "per_customer"
    default_currency: str = "USD"
    document_locale: str = "en"
    timezone: str = "UTC"
    finalize_zero_amount_invoice: bool = True
    invoice_footer: str | None = None
    invoice_grace_period: int = 0
    net_payment_term: int = 0
    subscription_invoice_issuing_date_anchor: str = "next_period_start"
    subscription_invoice_issuing_date_adjustment: str = "align_with_finalization_date"
    address_line1: str | None = None
    address_line2: str | None = None
    city: str | None = None
    state: str | None = None
    country: str | None = None
    zipcode: str | None = None
    email: str | None = None
    phone: str | None = None
    legal_name: str | None = None
    legal_number: str | None = None
    tax_identification_number: str | None = None
    email_settings: tuple[str, ...] = ()
    einvoicing: bool = False
    eu_tax_management: bool = False
    logo_url: str | None = None
    tax_ids: tuple[str, ...] = ()
    invoice_custom_section_ids: tuple[str, ...] = ()
    archived_at: datetime | None = None
    deleted_at: datetime | None = None


def default_document_number_prefix(name: str, id: str) -> str:
    """The first three letters of the name and the last four characters of the id: `ACM-9F3A`."""
    letters = "".join(character for character in name if character.isalnum())[:3]
    return f"{letters}-{id[-4:]}".upper()
