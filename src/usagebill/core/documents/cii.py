"""CII (Cross Industry Invoice): an e-invoice as the XML that is embedded in its PDF."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from xml.etree.ElementTree import Element

from usagebill.core.documents.electronic import EXEMPTIONS, ElectronicDocument, ElectronicLine, TaxGroup
from usagebill.core.documents.elements import cleaned, document_text, element, exact_text, leaf, number_text
from usagebill.core.documents.parties import Contact
from usagebill.core.numbers import ZERO
from usagebill.core.vat import is_vat_number

_PROFILE = "urn:cen.eu:en16931:2017"
_STANDARD = "urn:un:unece:uncefact:data:standard"


def cii_text(document: ElectronicDocument) -> str:
    """The CII form of an invoice or a credit note."""
    context = element("ram:GuidelineSpecifiedDocumentContextParameter", leaf("ram:ID", _PROFILE))
    root = element(
        "rsm:CrossIndustryInvoice",
        element("rsm:ExchangedDocumentContext", context),
        element(
            "rsm:ExchangedDocument",
            leaf("ram:ID", document.number),
            leaf("ram:TypeCode", document.type_code),
            _instant("ram:IssueDateTime", document.issued),
            *(element("ram:IncludedNote", leaf("ram:Content", note)) for note in document.notes),
        ),
        element(
            "rsm:SupplyChainTradeTransaction",
            *(_line(document, line, position) for position, line in enumerate(document.lines, start=1)),
            _agreement(document),
            element(
                "ram:ApplicableHeaderTradeDelivery",
                element("ram:ActualDeliverySupplyChainEvent", _instant("ram:OccurrenceDateTime", document.delivered)),
            ),
            element("ram:ApplicableHeaderTradeSettlement", *_settlement(document)),
        ),
    )
    return document_text(
        root,
        {
            "rsm": f"{_STANDARD}:CrossIndustryInvoice:100",
            "ram": f"{_STANDARD}:ReusableAggregateBusinessInformationEntity:100",
            "udt": f"{_STANDARD}:UnqualifiedDataType:100",
            "qdt": f"{_STANDARD}:QualifiedDataType:100",
        },
    )


def _instant(name: str, day: date, prefix: str = "udt") -> Element:
    return element(name, leaf(f"{prefix}:DateTimeString", day.strftime("%Y%m%d"), {"format": "102"}))


def _line(document: ElectronicDocument, line: ElectronicLine, position: int) -> Element:
    return element(
        "ram:IncludedSupplyChainTradeLineItem",
        element("ram:AssociatedDocumentLineDocument", leaf("ram:LineID", str(position))),
        element("ram:SpecifiedTradeProduct", leaf("ram:Name", line.name), leaf("ram:Description", line.description)),
        element(
            "ram:SpecifiedLineTradeAgreement",
            element(
                "ram:NetPriceProductTradePrice",
                leaf("ram:ChargeAmount", exact_text(line.price)),
                leaf("ram:BasisQuantity", None if line.base is None else exact_text(line.base), {"unitCode": "C62"}),
            ),
        ),
        element(
            "ram:SpecifiedLineTradeDelivery", leaf("ram:BilledQuantity", exact_text(line.units), {"unitCode": "C62"})
        ),
        element(
            "ram:SpecifiedLineTradeSettlement",
            _tax("ram:ApplicableTradeTax", line.category, line.rate),
            element(
                "ram:SpecifiedTradeSettlementLineMonetarySummation",
                leaf("ram:LineTotalAmount", number_text(line.amount)),
            ),
        ),
    )


def _tax(name: str, category: str, rate: Decimal) -> Element:
    return element(
        name,
        leaf("ram:TypeCode", "VAT"),
        leaf("ram:CategoryCode", category),
        leaf("ram:RateApplicablePercent", None if category == "O" else exact_text(rate)),
    )


def _taxed(group: TaxGroup) -> Element:
    return element(
        "ram:ApplicableTradeTax",
        leaf("ram:CalculatedAmount", number_text(group.tax)),
        leaf("ram:TypeCode", "VAT"),
        leaf("ram:ExemptionReason", group.reason),
        leaf("ram:BasisAmount", number_text(group.taxable)),
        leaf("ram:CategoryCode", group.category),
        leaf("ram:ExemptionReasonCode", EXEMPTIONS.get(group.category)),
        leaf("ram:RateApplicablePercent", None if group.category == "O" else exact_text(group.rate)),
    )


def _agreement(document: ElectronicDocument) -> Element:
    seller, buyer, order = document.seller, document.buyer, document.order_number
    return element(
        "ram:ApplicableHeaderTradeAgreement",
        element(
            "ram:SellerTradeParty",
            leaf("ram:ID", seller.code),
            leaf("ram:Name", cleaned(seller.legal_name) or seller.name),
            _address(seller),
            _registration(document, seller),
        ),
        element(
            "ram:BuyerTradeParty",
            leaf("ram:Name", cleaned(buyer.legal_name) or buyer.display_name),
            _address(buyer),
            _registration(document, buyer),
        ),
        element("ram:BuyerOrderReferencedDocument", leaf("ram:IssuerAssignedID", order)) if order else None,
    )


def _registration(document: ElectronicDocument, contact: Contact) -> Element | None:
    # Outside the scope of the tax, no VAT number may be named.
    if not document.seller_pays_tax or not is_vat_number(contact.tax_number):
        return None
    return element("ram:SpecifiedTaxRegistration", leaf("ram:ID", contact.tax_number, {"schemeID": "VA"}))


def _address(contact: Contact) -> Element:
    return element(
        "ram:PostalTradeAddress",
        leaf("ram:PostcodeCode", contact.zipcode),
        leaf("ram:LineOne", contact.address_line1),
        leaf("ram:LineTwo", contact.address_line2),
        leaf("ram:CityName", contact.city),
        leaf("ram:CountryID", contact.country),
        leaf("ram:CountrySubDivisionName", contact.state),
    )


def _settlement(document: ElectronicDocument) -> Iterable[Element | None]:
    yield leaf("ram:InvoiceCurrencyCode", document.currency)
    if document.means is not None:
        yield element(
            "ram:SpecifiedTradeSettlementPaymentMeans",
            leaf("ram:TypeCode", document.means.code),
            leaf("ram:Information", document.means.text),
        )
    for group in document.groups:
        yield _taxed(group)
    for group in document.groups:
        if not group.allowance.is_zero():
            yield _allowance(group)
    yield element(
        "ram:SpecifiedTradePaymentTerms",
        leaf("ram:Description", document.terms),
        None if document.due is None else _instant("ram:DueDateDateTime", document.due),
    )
    rounding = None if document.rounding.is_zero() else number_text(document.rounding)
    yield element(
        "ram:SpecifiedTradeSettlementHeaderMonetarySummation",
        leaf("ram:LineTotalAmount", number_text(document.line_total)),
        leaf("ram:ChargeTotalAmount", number_text(ZERO)),
        leaf("ram:AllowanceTotalAmount", number_text(document.allowances)),
        leaf("ram:TaxBasisTotalAmount", number_text(document.tax_exclusive)),
        leaf("ram:TaxTotalAmount", number_text(document.taxes), {"currencyID": document.currency}),
        leaf("ram:RoundingAmount", rounding),
        leaf("ram:GrandTotalAmount", number_text(document.tax_inclusive)),
        leaf("ram:TotalPrepaidAmount", number_text(document.prepaid)),
        leaf("ram:DuePayableAmount", number_text(document.payable)),
    )
    if document.corrects is not None:
        number, issued = document.corrects
        yield element(
            "ram:InvoiceReferencedDocument",
            leaf("ram:IssuerAssignedID", number),
            _instant("ram:FormattedIssueDateTime", issued, "qdt"),
        )


def _allowance(group: TaxGroup) -> Element:
    return element(
        "ram:SpecifiedTradeAllowanceCharge",
        element("ram:ChargeIndicator", leaf("udt:Indicator", "false")),
        leaf("ram:ActualAmount", number_text(group.allowance)),
        leaf("ram:Reason", group.allowance_reason),
        _tax("ram:CategoryTradeTax", group.category, group.rate),
    )
