"""UBL 2.1: a payment receipt as the XML file beside its PDF, with a response to each paid invoice."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from usagebill.core.currencies import major_from_cents
from usagebill.core.days import local_date
from usagebill.core.documents.electronic import type_code_of
from usagebill.core.documents.elements import cleaned, element, exact_text, leaf
from usagebill.core.documents.parties import Contact, customer_contact, entity_contact
from usagebill.core.documents.sources import InvoiceSource, ReceiptSource
from usagebill.core.documents.ubl_parts import address, email_of, endpoint, scheme, whole
from usagebill.core.vat import is_vat_number

# The response code for "paid".
_PAID = "PD"


def receipt_ubl_text(source: ReceiptSource) -> str:
    """The receipt as an `ApplicationResponse` from the seller to the customer."""
    receipt, payment = source.receipt, source.payment
    paid = major_from_cents(payment.amount_cents, payment.amount_currency)
    return whole(
        "ApplicationResponse",
        leaf("cbc:ID", receipt.number),
        leaf("cbc:UUID", receipt.id),
        leaf("cbc:IssueDate", local_date(receipt.created_at, source.zone).isoformat()),
        leaf("cbc:ResponseDate", local_date(payment.created_at, source.zone).isoformat()),
        leaf("cbc:Note", f"Payment received: {exact_text(paid)} {payment.amount_currency}"),
        _party("cac:SenderParty", entity_contact(source.entity)),
        _party("cac:ReceiverParty", customer_contact(source.customer)),
        *(_response(invoice) for invoice in source.invoices),
    )


def _response(source: InvoiceSource) -> Element:
    """The statement that an invoice was paid, fully or partly, by this payment."""
    invoice = source.invoice
    return element(
        "cac:DocumentResponse",
        element("cac:Response", leaf("cbc:ResponseCode", _PAID)),
        element(
            "cac:DocumentReference",
            leaf("cbc:ID", invoice.number),
            leaf("cbc:UUID", invoice.id),
            leaf("cbc:IssueDate", invoice.issuing_date.isoformat()),
            leaf("cbc:DocumentTypeCode", type_code_of(invoice)),
        ),
    )


def _party(name: str, contact: Contact) -> Element:
    email = email_of(contact)
    tax_number = contact.tax_number if is_vat_number(contact.tax_number) else None
    return element(
        name,
        endpoint(contact),
        element("cac:PartyName", leaf("cbc:Name", contact.display_name)),
        address(contact),
        None if tax_number is None else element("cac:PartyTaxScheme", leaf("cbc:CompanyID", tax_number), scheme()),
        element(
            "cac:PartyLegalEntity",
            leaf("cbc:RegistrationName", cleaned(contact.legal_name) or contact.display_name),
            leaf("cbc:CompanyID", contact.tax_number),
        ),
        element("cac:Contact", leaf("cbc:ElectronicMail", email)) if email else None,
    )
