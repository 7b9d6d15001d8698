"""Parts that all UBL 2.1 documents share: namespaces, parties, addresses and identifiers."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from usagebill.core.documents.elements import cleaned, document_text, element, leaf
from usagebill.core.documents.parties import Contact

_SCHEMAS = "urn:oasis:names:specification:ubl:schema:xsd"
_VERSION = "2.1"


def whole(kind: str, *parts: Element | None) -> str:
    """A document of this kind (`Invoice`) as a text."""
    return document_text(
        element(kind, leaf("cbc:UBLVersionID", _VERSION), *parts),
        {
            "": f"{_SCHEMAS}:{kind}-2",
            "cac": f"{_SCHEMAS}:CommonAggregateComponents-2",
            "cbc": f"{_SCHEMAS}:CommonBasicComponents-2",
        },
    )


def email_of(contact: Contact) -> str:
    """The first of the contact's addresses."""
    return cleaned((contact.email or "").split(",")[0])


def endpoint(contact: Contact) -> Element | None:
    """The address to which documents are sent."""
    return leaf("cbc:EndpointID", email_of(contact), {"schemeID": "EM"})


def address(contact: Contact) -> Element:
    return element(
        "cac:PostalAddress",
        leaf("cbc:StreetName", contact.address_line1),
        leaf("cbc:AdditionalStreetName", contact.address_line2),
        leaf("cbc:CityName", contact.city),
        leaf("cbc:PostalZone", contact.zipcode),
        leaf("cbc:CountrySubentity", contact.state),
        element("cac:Country", leaf("cbc:IdentificationCode", contact.country)) if contact.country else None,
    )


def scheme() -> Element:
    return element("cac:TaxScheme", leaf("cbc:ID", "VAT"))
