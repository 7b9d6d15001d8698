"""Billing entities: the legal person that issues invoices, with the defaults its customers inherit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.contacts import LOCALES, is_email
from usagebill.core.countries import COUNTRIES, EU_COUNTRIES
from usagebill.core.currencies import CURRENCIES
from usagebill.core.email_texts import EmailText, texts_errors
from usagebill.core.limits import GRACE_PERIOD, PAYMENT_TERM
from usagebill.core.vat import is_vat_number

ANCHORS = ("current_period_end", "next_period_start")
ADJUSTMENTS = ("keep_anchor", "align_with_finalization_date")
DOCUMENT_NUMBERINGS = ("per_customer", "per_billing_entity")
# The names of the numberings in an organization, which are those of its default entity.
ORGANIZATION_NUMBERINGS = ("per_customer", "per_organization")
EMAIL_SETTINGS = ("invoice.finalized", "credit_note.created", "payment_receipt.created")
_EINVOICING_COUNTRIES = ("FR", "DE")
_LONGEST_FOOTER = 600
_LONGEST_PREFIX = 10
_COLOR = re.compile(r"#[0-9a-f]{6}", re.ASCII)
_ORIGIN = re.compile(r"https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?", re.ASCII)
_LOGO_TYPES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/jpg;base64,")


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingEntity:
    """`document_numbering`: per_customer or per_billing_entity. Grace period and payment term are in days.

    The customer portal has the accents of `portal_color` (`#2f55d4`), and may be framed by pages of
    `portal_frame_origins` (`https://app.acme.example`). With `portal_spend_limits`, customers set limits of their own
    there.
    """

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
    portal_color: str | None = None
    portal_frame_origins: tuple[str, ...] = ()
    portal_spend_limits: bool = False
    email_texts: tuple[EmailText, ...] = ()
    tax_ids: tuple[str, ...] = ()
    invoice_custom_section_ids: tuple[str, ...] = ()
    applied_dunning_campaign_id: str | None = None
    archived_at: datetime | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingEntityVersion:
    """A version of a billing entity, stored once for everything issued under it.

    `created_at` is when it was last changed: late runs issue as of instants before that.
    """

    id: str
    organization_id: str
    billing_entity_id: str
    entity: BillingEntity
    created_at: datetime


def default_document_number_prefix(name: str, id: str) -> str:
    """The first three letters of the name and the last four characters of the id: `ACM-9F3A`."""
    letters = "".join(character for character in name if character.isalnum())[:3]
    return f"{letters}-{id[-4:]}".upper()


def definition_errors(entity: BillingEntity) -> dict[str, list[str]]:
    """Errors in the fields of a billing entity, as field -> codes; empty if there are none.

    Names of time zones are checked elsewhere.
    """
    errors: dict[str, list[str]] = {}

    def check(field: str, sound: bool, code: str) -> None:
        if not sound:
            errors.setdefault(field, []).append(code)

    anchor = entity.subscription_invoice_issuing_date_anchor
    adjustment = entity.subscription_invoice_issuing_date_adjustment
    check("name", bool(entity.name), "value_is_mandatory")
    check("code", bool(entity.code), "value_is_mandatory")
    check("country", entity.country is None or entity.country in COUNTRIES, "not_a_valid_country_code")
    check("default_currency", entity.default_currency in CURRENCIES, "value_is_invalid")
    check("document_locale", entity.document_locale in LOCALES, "not_a_valid_language_code")
    check("email", not entity.email or is_email(entity.email), "invalid_email_format")
    check("invoice_footer", len(entity.invoice_footer or "") <= _LONGEST_FOOTER, "value_is_too_long")
    check("document_number_prefix", len(entity.document_number_prefix) >= 1, "value_is_too_short")
    check("document_number_prefix", len(entity.document_number_prefix) <= _LONGEST_PREFIX, "value_is_too_long")
    check("invoice_grace_period", GRACE_PERIOD.holds(entity.invoice_grace_period), "value_is_out_of_range")
    check("net_payment_term", PAYMENT_TERM.holds(entity.net_payment_term), "value_is_out_of_range")
    check("email_settings", set(entity.email_settings) <= set(EMAIL_SETTINGS), "unsupported_value")
    check("portal_color", entity.portal_color is None or is_color(entity.portal_color), "color_is_invalid")
    check("portal_frame_origins", all(map(_ORIGIN.fullmatch, entity.portal_frame_origins)), "origin_is_invalid")
    check("subscription_invoice_issuing_date_anchor", anchor in ANCHORS, "value_is_invalid")
    check("subscription_invoice_issuing_date_adjustment", adjustment in ADJUSTMENTS, "value_is_invalid")
    if wrong := texts_errors(entity.email_texts):
        errors["email_texts"] = wrong
    if entity.einvoicing:
        check("einvoicing", entity.country is not None, "country_must_be_present")
        check("einvoicing", entity.country in (None, *_EINVOICING_COUNTRIES), "country_not_supported")
    if entity.eu_tax_management:
        check("eu_tax_management", entity.country in EU_COUNTRIES, "billing_entity_must_be_in_eu")
    return errors


def einvoicing_gaps(entity: BillingEntity) -> dict[str, list[str]]:
    """The details that the seller's country requires on e-invoices and the entity lacks, as field -> codes; empty if it
    issues none.

    EN 16931 requires a VAT number; XRechnung also a contact person and how to reach them.
    """
    lacking: dict[str, list[str]] = {}
    if not entity.einvoicing or entity.country not in _EINVOICING_COUNTRIES:
        return lacking
    number = (entity.tax_identification_number or "").strip()
    if not number:
        lacking["tax_identification_number"] = ["value_is_mandatory"]
    elif not is_vat_number(number):
        lacking["tax_identification_number"] = ["value_is_invalid"]
    if entity.country == "DE":
        for field in ("email", "phone", "city", "zipcode"):
            if not (getattr(entity, field) or "").strip():
                lacking[field] = ["value_is_mandatory"]
    return lacking


def is_color(text: str) -> bool:
    """Whether a text is a color as `#2f55d4`, in small letters."""
    return _COLOR.fullmatch(text) is not None


def is_logo(logo: str) -> bool:
    """Whether a text claims to be a data URL of a PNG or JPEG in base64."""
    return logo.startswith(_LOGO_TYPES)
