"""UBL 2.1: an e-invoice as the XML file beside its PDF."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from xml.etree.ElementTree import Element

from usagebill.core.documents.electronic import EXEMPTIONS, ElectronicDocument, ElectronicLine, TaxGroup
from usagebill.core.documents.elements import cleaned, element, exact_text, leaf, number_text
from usagebill.core.documents.parties import Contact
from usagebill.core.documents.ubl_parts import address, email_of, endpoint, scheme, whole
from usagebill.core.numbers import ZERO
from usagebill.core.vat import is_vat_number

_PROFILE = "urn:cen.eu:en16931:2017"
_GERMAN_PROFILE = f"{_PROFILE}#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"
_PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
_PAYMENT_MEANS = "1"


def ubl_text(document: ElectronicDocument) -> str:
    """The UBL form of an invoice (`Invoice`) or a credit note (`CreditNote`)."""
    kind = "CreditNote" if document.is_credit_note else "Invoice"
    return whole(kind, *_header(document, kind), *_body(document, kind))


def _header(document: ElectronicDocument, kind: str) -> Iterable[Element | None]:
    yield leaf("cbc:CustomizationID", _GERMAN_PROFILE if document.is_xrechnung else _PROFILE)
    yield leaf("cbc:ProfileID", _PROCESS if document.is_xrechnung else None)
    yield leaf("cbc:ID", document.number)
    yield leaf("cbc:IssueDate", document.issued.isoformat())
    yield leaf(f"cbc:{kind}TypeCode", document.type_code)
    # The first note of an invoice only repeats its id.
    for note in document.notes if document.is_credit_note else document.notes[1:]:
        yield leaf("cbc:Note", note)
    yield leaf("cbc:DocumentCurrencyCode", document.currency)
    yield leaf("cbc:BuyerReference", document.buyer_reference)
    if document.order_number:
        yield element("cac:OrderReference", leaf("cbc:ID", document.order_number))
    if document.corrects is not None:
        number, issued = document.corrects
        reference = element(
            "cac:InvoiceDocumentReference", leaf("cbc:ID", number), leaf("cbc:IssueDate", issued.isoformat())
        )
        yield element("cac:BillingReference", reference)


def _body(document: ElectronicDocument, kind: str) -> Iterable[Element | None]:
    yield element("cac:AccountingSupplierParty", _party(document, document.seller))
    yield element("cac:AccountingCustomerParty", _party(document, document.buyer))
    yield element("cac:Delivery", leaf("cbc:ActualDeliveryDate", document.delivered.isoformat()))
    yield element("cac:PaymentMeans", leaf("cbc:PaymentMeansCode", _PAYMENT_MEANS))
    yield element("cac:PaymentTerms", leaf("cbc:Note", document.terms))
    for group in document.groups:
        if not group.allowance.is_zero():
            yield _allowance(document, group)
    yield element(
        "cac:TaxTotal",
        _amount(document, "cbc:TaxAmount", document.taxes),
        *(_tax_subtotal(document, group) for group in document.groups),
    )
    yield element(
        "cac:LegalMonetaryTotal",
        _amount(document, "cbc:LineExtensionAmount", document.line_total),
        _amount(document, "cbc:TaxExclusiveAmount", document.tax_exclusive),
        _amount(document, "cbc:TaxInclusiveAmount", document.tax_inclusive),
        _amount(document, "cbc:AllowanceTotalAmount", document.allowances),
        _amount(document, "cbc:ChargeTotalAmount", ZERO),
        _amount(document, "cbc:PrepaidAmount", document.prepaid),
        None if document.rounding.is_zero() else _amount(document, "cbc:PayableRoundingAmount", document.rounding),
        _amount(document, "cbc:PayableAmount", document.payable),
    )
    for position, line in enumerate(document.lines, start=1):
        yield _line(document, line, position, kind)


def _amount(document: ElectronicDocument, name: str, amount: Decimal) -> Element | None:
    return leaf(name, number_text(amount), {"currencyID": document.currency})


def _party(document: ElectronicDocument, contact: Contact) -> Element:
    sells = contact is document.seller
    legal_name = cleaned(contact.legal_name) or contact.name if sells else contact.display_name
    # Outside the scope of the tax, no VAT number may be named.
    taxed = document.seller_pays_tax and is_vat_number(contact.tax_number)
    return element(
        "cac:Party",
        endpoint(contact),
        None if sells else element("cac:PartyName", leaf("cbc:Name", contact.display_name)),
        address(contact),
        element("cac:PartyTaxScheme", leaf("cbc:CompanyID", contact.tax_number), scheme()) if taxed else None,
        element(
            "cac:PartyLegalEntity",
            leaf("cbc:RegistrationName", legal_name),
            leaf("cbc:CompanyID", contact.tax_number if sells else None),
        ),
        element(
            "cac:Contact",
            leaf("cbc:Name", contact.display_name),
            leaf("cbc:Telephone", contact.phone if sells and document.is_xrechnung else None),
            leaf("cbc:ElectronicMail", email_of(contact)),
        ),
    )


def _category(name: str, category: str, rate: Decimal) -> Element:
    percent = None if category == "O" else exact_text(rate)
    return element(name, leaf("cbc:ID", category), leaf("cbc:Percent", percent), scheme())


def _allowance(document: ElectronicDocument, group: TaxGroup) -> Element:
    return element(
        "cac:AllowanceCharge",
        leaf("cbc:ChargeIndicator", "false"),
        leaf("cbc:AllowanceChargeReason", group.allowance_reason),
        _amount(document, "cbc:Amount", group.allowance),
        _category("cac:TaxCategory", group.category, group.rate),
    )


def _tax_subtotal(document: ElectronicDocument, group: TaxGroup) -> Element:
    # XRechnung requires a rate even if there is no tax; EN 16931 does not.
    stated = group.category != "O" or document.is_xrechnung
    return element(
        "cac:TaxSubtotal",
        _amount(document, "cbc:TaxableAmount", group.taxable),
        _amount(document, "cbc:TaxAmount", group.tax),
        element(
            "cac:TaxCategory",
            leaf("cbc:ID", group.category),
            leaf("cbc:Percent", exact_text(group.rate) if stated else None),
            leaf("cbc:TaxExemptionReasonCode", EXEMPTIONS.get(group.category)),
            leaf("cbc:TaxExemptionReason", group.reason),
            scheme(),
        ),
    )


def _line(document: ElectronicDocument, line: ElectronicLine, position: int, kind: str) -> Element:
    quantity = "cbc:CreditedQuantity" if document.is_credit_note else "cbc:InvoicedQuantity"
    return element(
        f"cac:{kind}Line",
        leaf("cbc:ID", str(position)),
        leaf(quantity, exact_text(line.units), {"unitCode": "C62"}),
        _amount(document, "cbc:LineExtensionAmount", line.amount),
        element(
            "cac:Item",
            leaf("cbc:Description", line.description),
            leaf("cbc:Name", line.name),
            _category("cac:ClassifiedTaxCategory", line.category, line.rate),
        ),
        element(
            "cac:Price",
            leaf("cbc:PriceAmount", exact_text(line.price), {"currencyID": document.currency}),
            leaf("cbc:BaseQuantity", None if line.base is None else exact_text(line.base), {"unitCode": "C62"}),
        ),
    )
