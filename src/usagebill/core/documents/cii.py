"""CII (Cross Industry Invoice): an e-invoice as the XML that is embedded in its PDF."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from xml.etree.ElementTree import Element

from usagebill.core.documents.electronic import ElectronicDocument, ElectronicLine, TaxGroup
from usagebill.core.documents.elements import amount_text, document_text, element, exact_text, leaf, number_text
from usagebill.core.documents.parties import Contact

__all__ = ["cii_text"]

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
            element("ram:NetPriceProductTradePrice", leaf("ram:ChargeAmount", exact_text(line.price))),
        ),
        element(
            "ram:SpecifiedLineTradeDelivery", leaf("ram:BilledQuantity", exact_text(line.units), {"unitCode": "C62"})
        ),
        element(
            "ram:SpecifiedLineTradeSettlement",
            _tax("ram:ApplicableTradeTax", line.category, line.rate),
            element(
                "ram:SpecifiedTradeSettlementLineMonetarySummation",
                leaf("ram:LineTotalAmount", amount_text(line.amount, document.currency)),
            ),
        ),
    )


def _tax(name: str, category: str, rate: Decimal, *before: Element | None, exemption: bool = False) -> Element:
    """A tax; `before` is its amount and, after its type, what it is taken of."""
    amount, basis = before or (None, None)
    outside = category == "O"
    return element(
        name,
        amount,
        leaf("ram:TypeCode", "VAT"),
        basis,
        leaf("ram:CategoryCode", category),
        leaf("ram:ExemptionReasonCode", "VATEX-EU-O" if outside and exemption else None),
        leaf("ram:RateApplicablePercent", None if outside else number_text(rate)),
    )


def _agreement(document: ElectronicDocument) -> Element:
    seller, buyer, order = document.seller, document.buyer, document.order_number
    number = seller.tax_number if document.seller_pays_tax else None
    return element(
        "ram:ApplicableHeaderTradeAgreement",
        element(
            "ram:SellerTradeParty",
            leaf("ram:ID", seller.code),
            leaf("ram:Name", seller.legal_name or seller.name),
            _address(seller),
            element("ram:SpecifiedTaxRegistration", leaf("ram:ID", number, {"schemeID": "VA"})) if number else None,
        ),
        element("ram:BuyerTradeParty", leaf("ram:Name", buyer.legal_name or buyer.display_name), _address(buyer)),
        element("ram:BuyerOrderReferencedDocument", leaf("ram:IssuerAssignedID", order)) if order else None,
    )


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
    def amount(name: str, cents: Decimal) -> Element | None:
        return leaf(name, amount_text(cents, document.currency))

    yield leaf("ram:InvoiceCurrencyCode", document.currency)
    for means in document.means:
        yield element(
            "ram:SpecifiedTradeSettlementPaymentMeans",
            leaf("ram:TypeCode", means.code),
            leaf("ram:Information", means.text),
        )
    for group in document.groups:
        calculated = amount("ram:CalculatedAmount", group.tax)
        basis = amount("ram:BasisAmount", group.taxable)
        yield _tax("ram:ApplicableTradeTax", group.category, group.rate, calculated, basis, exemption=True)
    for group in document.groups:
        if not group.allowance.is_zero():
            yield _allowance(document, group)
    yield element(
        "ram:SpecifiedTradePaymentTerms",
        leaf("ram:Description", document.terms),
        None if document.due is None else _instant("ram:DueDateDateTime", document.due),
    )
    taxes = leaf(
        "ram:TaxTotalAmount", amount_text(document.taxes, document.currency), {"currencyID": document.currency}
    )
    yield element(
        "ram:SpecifiedTradeSettlementHeaderMonetarySummation",
        amount("ram:LineTotalAmount", document.line_total),
        amount("ram:ChargeTotalAmount", document.charges),
        amount("ram:AllowanceTotalAmount", document.allowances),
        amount("ram:TaxBasisTotalAmount", document.tax_exclusive),
        taxes,
        amount("ram:GrandTotalAmount", document.tax_inclusive),
        amount("ram:TotalPrepaidAmount", document.prepaid),
        amount("ram:DuePayableAmount", document.payable_cii),
    )
    if document.corrects is not None:
        number, issued = document.corrects
        yield element(
            "ram:InvoiceReferencedDocument",
            leaf("ram:IssuerAssignedID", number),
            _instant("ram:FormattedIssueDateTime", issued, "qdt"),
        )


def _allowance(document: ElectronicDocument, group: TaxGroup) -> Element:
    # What a credit note takes back of a discount is a charge.
    charged = document.is_credit_note
    cents = group.allowance.copy_abs() if charged else group.allowance
    return element(
        "ram:SpecifiedTradeAllowanceCharge",
        element("ram:ChargeIndicator", leaf("udt:Indicator", "true" if charged else "false")),
        leaf("ram:ActualAmount", amount_text(cents, document.currency)),
        leaf("ram:Reason", group.allowance_reason),
        _tax("ram:CategoryTradeTax", group.category, group.rate),
    )
