"""Parties: the issuer and the recipient of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.documents.content import Party
from usagebill.core.documents.locales import REFERENCE
from usagebill.core.documents.words import words_of

# Countries that write the postal code after the town and state; elsewhere it comes first.
_CITY_FIRST = "AU BR CA CN CO ID IN KR MX NZ PH SA TH TW US ZA"
_CODE_LAST = frozenset({"GB", "IE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A company or a person as named in a document. `code` identifies it in the seller's own books."""

    code: str
    name: str
    display_name: str
    legal_name: str | None = None
    legal_number: str | None = None
    address_line1: str | None = None
    address_line2: str | None = None
    city: str | None = None
    state: str | None = None
    zipcode: str | None = None
    country: str | None = None
    email: str | None = None
    phone: str | None = None
    tax_number: str | None = None
    local_address: bool = False


def entity_contact(entity: BillingEntity) -> Contact:
    """The billing entity."""
    return Contact(
        code=entity.code,
        name=entity.name,
        display_name=entity.legal_name or entity.name,
        legal_name=entity.legal_name,
        legal_number=entity.legal_number,
        address_line1=entity.address_line1,
        address_line2=entity.address_line2,
        city=entity.city,
        state=entity.state,
        zipcode=entity.zipcode,
        country=entity.country,
        email=entity.email,
        phone=entity.phone,
        tax_number=entity.tax_identification_number,
    )


def customer_contact(customer: Mapping[str, object]) -> Contact:
    """The customer as the document stores it: `legal name or name - first and last name`."""

    def text(name: str) -> str | None:
        value = customer.get(name)
        return value if isinstance(value, str) and value.strip() else None

    company = text("legal_name") or text("name")
    person = " ".join(part for part in (text("firstname"), text("lastname")) if part)
    name = " - ".join(part for part in (company, person) if part)
    return Contact(
        code=text("external_id") or "",
        name=text("name") or name,
        display_name=name or text("external_id") or "",
        legal_name=text("legal_name"),
        legal_number=text("legal_number"),
        address_line1=text("address_line1"),
        address_line2=text("address_line2"),
        city=text("city"),
        state=text("state"),
        zipcode=text("zipcode"),
        country=text("country"),
        email=text("email"),
        phone=text("phone"),
        tax_number=text("tax_identification_number"),
        local_address=True,
    )


def customer_facts(customer: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """The customer's metadata to be shown on invoices, oldest first."""
    listed = customer.get("metadata")
    if not isinstance(listed, (list, tuple)):
        return ()
    shown = [item for item in listed if isinstance(item, Mapping) and item.get("display_in_invoice")]
    shown.sort(key=lambda item: str(item.get("created_at")))
    return tuple((str(item.get("key")), str(item.get("value"))) for item in shown)


def _place(contact: Contact, locale: str) -> list[str]:
    city, state, code = contact.city or "", contact.state or "", contact.zipcode or ""
    if locale.endswith(REFERENCE) and not contact.local_address:
        return [", ".join(part for part in (code, city) if part), state]
    if contact.country and contact.country in _CITY_FIRST.split():
        return [", ".join(part for part in (city, " ".join(part for part in (state, code) if part)) if part)]
    if contact.country in _CODE_LAST:
        return [city, state, code]
    return [" ".join(part for part in (code, city) if part), state]


def party(heading: str, contact: Contact, locale: str, country_names: Mapping[str, str]) -> Party:
    """The block of a contact: name, legal number, address, e-mail, tax number."""
    country = contact.country or ""
    lines = [
        contact.legal_number or "",
        contact.address_line1 or "",
        contact.address_line2 or "",
        *_place(contact, locale),
        country_names.get(country, country),
        ", ".join(part.strip() for part in (contact.email or "").split(",")),
        words_of(locale).tax_id.format(number=contact.tax_number) if contact.tax_number else "",
    ]
    return Party(heading=heading, name=contact.display_name, lines=tuple(line for line in lines if line))
