"""E-invoices: what their two XML forms tell machines, for French and German billing entities."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st
from tests.core.documents.builders import entity, fee, note_source, period, source

from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.electronic import credit_note_document, invoice_document, is_eligible
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource
from usagebill.core.documents.ubl import ubl_text

GERMAN = entity(country="DE")
NAMES = {
    "cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
    "qdt": "urn:un:unece:uncefact:data:standard:QualifiedDataType:100",
}


class Form:
    """A parsed XML form, asked by path."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)

    def all(self, path: str) -> list[str | None]:
        return [element.text for element in self.root.findall(path, NAMES)]

    def text_at(self, path: str) -> str | None:
        [text] = self.all(path)
        return text

    def attribute(self, path: str, name: str) -> str | None:
        element = self.root.find(path, NAMES)
        return None if element is None else element.get(name)

    def order(self) -> list[str]:
        """The names of the root's children, repeated ones once."""
        return list(dict.fromkeys(child.tag.partition("}")[2] for child in self.root))


def ubl(of: InvoiceSource | CreditNoteSource) -> Form:
    document = invoice_document(of) if isinstance(of, InvoiceSource) else credit_note_document(of)
    return Form(ubl_text(document))


def cii(of: InvoiceSource | CreditNoteSource) -> Form:
    document = invoice_document(of) if isinstance(of, InvoiceSource) else credit_note_document(of)
    return Form(cii_text(document))


AGREEMENT = "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeAgreement"
DELIVERY = "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeDelivery"
SETTLEMENT = "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeSettlement"
LINES = "rsm:SupplyChainTradeTransaction/ram:IncludedSupplyChainTradeLineItem"
SUMS = f"{SETTLEMENT}/ram:SpecifiedTradeSettlementHeaderMonetarySummation"


def taxed(**fields: Any) -> InvoiceSource:
    """100.00 at 20 % and 50.00 at 0 %, 15.00 of coupons over both, 5.00 prepaid and 6.00 of credit notes."""
    values: dict[str, Any] = {
        "coupons_amount_cents": 1500,
        "sub_total_excluding_taxes_amount_cents": 13_500,
        "taxes_amount_cents": 1800,
        "sub_total_including_taxes_amount_cents": 15_300,
        "prepaid_credit_amount_cents": 500,
        "credit_notes_amount_cents": 600,
        "total_amount_cents": 14_200,
        "purchase_order_number": "PO-9",
        **fields,
    }
    return source((fee("a", 10_000, coupons="1000"), fee("b", 5000, "0", coupons="500")), **values)


@pytest.mark.parametrize(
    ("on", "country", "eligible"), [(True, "FR", True), (True, "DE", True), (False, "FR", False), (True, "IT", False)]
)
def test_only_french_and_german_entities_that_want_it_issue_them(on: bool, country: str, eligible: bool) -> None:
    assert is_eligible(entity(einvoicing=on, country=country)) is eligible


def test_profiles_and_buyer_reference_are_those_of_the_country() -> None:
    french, german = ubl(taxed()), ubl(taxed(entity=GERMAN))
    assert french.text_at("cbc:UBLVersionID") == "2.1"
    assert french.text_at("cbc:CustomizationID") == "urn:cen.eu:en16931:2017"
    assert french.all("cbc:ProfileID") == french.all("cbc:BuyerReference") == []
    assert german.text_at("cbc:CustomizationID") == (
        "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"
    )
    assert german.text_at("cbc:ProfileID") == "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
    assert german.text_at("cbc:BuyerReference") == "acme"
    context = "rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID"
    for seller in (entity(), GERMAN):
        assert cii(taxed(entity=seller)).text_at(context) == "urn:cen.eu:en16931:2017"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "380"),
        ({"invoice_type": "subscription"}, "380"),
        ({"invoice_type": "credit"}, "386"),
        ({"self_billed": True}, "389"),
    ],
)
def test_type_code_says_the_kind(fields: dict[str, Any], code: str) -> None:
    assert ubl(taxed(**fields)).text_at("cbc:InvoiceTypeCode") == code
    assert cii(taxed(**fields)).text_at("rsm:ExchangedDocument/ram:TypeCode") == code


def test_head_of_both_forms() -> None:
    invoice_ubl, in_cii = ubl(taxed()), cii(taxed())
    assert invoice_ubl.order() == [
        "UBLVersionID",
        "CustomizationID",
        "ID",
        "IssueDate",
        "InvoiceTypeCode",
        "DocumentCurrencyCode",
        "OrderReference",
        "AccountingSupplierParty",
        "AccountingCustomerParty",
        "Delivery",
        "PaymentMeans",
        "PaymentTerms",
        "AllowanceCharge",
        "TaxTotal",
        "LegalMonetaryTotal",
        "InvoiceLine",
    ]
    assert (invoice_ubl.text_at("cbc:ID"), invoice_ubl.text_at("cbc:IssueDate")) == ("LUM-001-001", "2024-02-01")
    assert invoice_ubl.text_at("cbc:DocumentCurrencyCode") == "EUR"
    assert invoice_ubl.text_at("cac:OrderReference/cbc:ID") == "PO-9"
    assert ubl(taxed(purchase_order_number=None)).all("cac:OrderReference") == []
    document = "rsm:ExchangedDocument"
    assert in_cii.text_at(f"{document}/ram:ID") == "LUM-001-001"
    assert in_cii.text_at(f"{document}/ram:IssueDateTime/udt:DateTimeString") == "20240201"
    assert in_cii.attribute(f"{document}/ram:IssueDateTime/udt:DateTimeString", "format") == "102"
    assert in_cii.text_at(f"{document}/ram:IncludedNote/ram:Content") == "Invoice ID: invoice-1"
    assert in_cii.text_at(f"{AGREEMENT}/ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID") == "PO-9"
    assert in_cii.text_at(f"{SETTLEMENT}/ram:InvoiceCurrencyCode") == "EUR"


def test_supplier_in_ubl() -> None:
    party = "cac:AccountingSupplierParty/cac:Party"
    form, german = ubl(taxed()), ubl(taxed(entity=GERMAN))
    assert form.text_at(f"{party}/cbc:EndpointID") == "billing@lumen.example"
    assert form.attribute(f"{party}/cbc:EndpointID", "schemeID") == "EM"
    assert form.text_at(f"{party}/cac:PostalAddress/cbc:StreetName") == "1 rue de la Paix"
    assert form.text_at(f"{party}/cac:PostalAddress/cac:Country/cbc:IdentificationCode") == "FR"
    assert form.text_at(f"{party}/cac:PartyTaxScheme/cbc:CompanyID") == "FR123456789"
    assert form.text_at(f"{party}/cac:PartyTaxScheme/cac:TaxScheme/cbc:ID") == "VAT"
    assert form.text_at(f"{party}/cac:PartyLegalEntity/cbc:RegistrationName") == "Lumen SAS"
    assert form.all(f"{party}/cac:Contact/cbc:Telephone") == []
    assert german.text_at(f"{party}/cac:Contact/cbc:Telephone") == "+33 1 00 00 00 00"
    assert ubl(taxed(invoice_type="credit")).all(f"{party}/cac:PartyTaxScheme") == []


def test_customer_in_ubl() -> None:
    party = "cac:AccountingCustomerParty/cac:Party"
    form = ubl(taxed())
    assert form.text_at(f"{party}/cbc:EndpointID") == "ada@acme.example"
    assert form.text_at(f"{party}/cac:PostalAddress/cbc:CityName") == "Berlin"
    assert form.text_at(f"{party}/cac:PartyLegalEntity/cbc:RegistrationName") == "Acme GmbH - Ada Byron"


def test_parties_in_cii() -> None:
    seller, buyer = f"{AGREEMENT}/ram:SellerTradeParty", f"{AGREEMENT}/ram:BuyerTradeParty"
    form = cii(taxed())
    assert (form.text_at(f"{seller}/ram:ID"), form.text_at(f"{seller}/ram:Name")) == ("lumen", "Lumen SAS")
    assert form.text_at(f"{seller}/ram:PostalTradeAddress/ram:PostcodeCode") == "75002"
    assert form.text_at(f"{seller}/ram:SpecifiedTaxRegistration/ram:ID") == "FR123456789"
    assert form.attribute(f"{seller}/ram:SpecifiedTaxRegistration/ram:ID", "schemeID") == "VA"
    assert (form.text_at(f"{buyer}/ram:Name"), form.text_at(f"{buyer}/ram:PostalTradeAddress/ram:CountryID")) == (
        "Acme GmbH",
        "DE",
    )
    assert cii(taxed(invoice_type="credit")).all(f"{seller}/ram:SpecifiedTaxRegistration") == []


def test_self_billed_invoices_are_the_customers_own() -> None:
    form = ubl(taxed(self_billed=True))
    supplier = "cac:AccountingSupplierParty/cac:Party/cac:PartyLegalEntity/cbc:RegistrationName"
    assert form.text_at(supplier) == "Acme GmbH"


def test_delivery_is_the_oldest_usage_or_the_day_of_the_invoice() -> None:
    periods = (period("s2", datetime(2024, 1, 15, tzinfo=UTC)), period("s1", datetime(2024, 1, 3, tzinfo=UTC)))
    for kind, day in (("subscription", "2024-01-03"), ("progressive_billing", "2024-01-03"), ("one_off", "2024-02-01")):
        of = taxed(invoice_type=kind, periods=periods)
        assert ubl(of).text_at("cac:Delivery/cbc:ActualDeliveryDate") == day
        occurrence = f"{DELIVERY}/ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime/udt:DateTimeString"
        assert cii(of).text_at(occurrence) == day.replace("-", "")


def test_payment_means_and_terms() -> None:
    in_ubl, in_cii = ubl(taxed()), cii(taxed())
    terms = "Payment term 30 days, prepaid credits of €5.00 applied, credit notes of €6.00 applied"
    assert in_ubl.text_at("cac:PaymentMeans/cbc:PaymentMeansCode") == "1"
    assert in_ubl.text_at("cac:PaymentTerms/cbc:Note") == terms
    means = f"{SETTLEMENT}/ram:SpecifiedTradeSettlementPaymentMeans/ram:TypeCode"
    # Several ways break CII-SR-467: what was paid already stands in the terms.
    assert in_cii.all(means) == ["1"]
    assert cii(source((fee("a", 100),), total_amount_cents=120)).all(means) == ["1"]
    assert cii(source((fee("a", 100),), total_amount_cents=0, prepaid_credit_amount_cents=120)).all(means) == ["57"]
    assert cii(source((fee("a", 100),), total_amount_cents=0, credit_notes_amount_cents=120)).all(means) == ["97"]
    assert cii(source((fee("a", 0),), total_amount_cents=0)).all(means) == []
    assert in_cii.text_at(f"{SETTLEMENT}/ram:SpecifiedTradePaymentTerms/ram:Description") == terms
    due = f"{SETTLEMENT}/ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime/udt:DateTimeString"
    assert in_cii.text_at(due) == "20240302"


def test_allowances_and_taxes_stand_by_rate() -> None:
    in_ubl, in_cii = ubl(taxed()), cii(taxed())
    assert in_ubl.all("cac:AllowanceCharge/cbc:ChargeIndicator") == ["false", "false"]
    assert in_ubl.all("cac:AllowanceCharge/cbc:Amount") == ["10.00", "5.00"]
    assert in_ubl.all("cac:AllowanceCharge/cbc:AllowanceChargeReason") == [
        "Discount 20% portion",
        "Discount 0% portion",
    ]
    assert in_ubl.text_at("cac:TaxTotal/cbc:TaxAmount") == "18.00"
    subtotal = "cac:TaxTotal/cac:TaxSubtotal"
    assert in_ubl.all(f"{subtotal}/cbc:TaxableAmount") == ["90.00", "45.00"]
    assert in_ubl.all(f"{subtotal}/cbc:TaxAmount") == ["18.00", "0.00"]
    assert in_ubl.all(f"{subtotal}/cac:TaxCategory/cbc:ID") == ["S", "Z"]
    assert in_ubl.all(f"{subtotal}/cac:TaxCategory/cbc:Percent") == ["20.00", "0.00"]
    tax, allowance = f"{SETTLEMENT}/ram:ApplicableTradeTax", f"{SETTLEMENT}/ram:SpecifiedTradeAllowanceCharge"
    assert in_cii.all(f"{tax}/ram:CalculatedAmount") == ["18.00", "0.00"]
    assert in_cii.all(f"{tax}/ram:BasisAmount") == ["90.00", "45.00"]
    assert in_cii.all(f"{tax}/ram:CategoryCode") == ["S", "Z"]
    assert in_cii.all(f"{tax}/ram:RateApplicablePercent") == ["20.00", "0.00"]
    assert in_cii.all(f"{allowance}/ram:ChargeIndicator/udt:Indicator") == ["false", "false"]
    assert in_cii.all(f"{allowance}/ram:ActualAmount") == ["10.00", "5.00"]


def test_without_discounts_there_are_no_allowances() -> None:
    plain = source((fee("a", 100), fee("b", 0, "0")), total_amount_cents=120)
    assert ubl(plain).all("cac:AllowanceCharge") == []
    assert cii(plain).all(f"{SETTLEMENT}/ram:SpecifiedTradeAllowanceCharge") == []


def test_top_ups_lie_outside_the_tax() -> None:
    top_up = source((fee("a", 1000, "0", fee_type="credit"),), invoice_type="credit", total_amount_cents=1000)
    category = "cac:TaxTotal/cac:TaxSubtotal/cac:TaxCategory"
    in_ubl, in_cii = ubl(top_up), cii(top_up)
    assert (in_ubl.text_at(f"{category}/cbc:ID"), in_ubl.all(f"{category}/cbc:Percent")) == ("O", [])
    assert in_ubl.text_at(f"{category}/cbc:TaxExemptionReasonCode") == "VATEX-EU-O"
    line = "cac:InvoiceLine/cac:Item/cac:ClassifiedTaxCategory"
    assert (in_ubl.text_at(f"{line}/cbc:ID"), in_ubl.all(f"{line}/cbc:Percent")) == ("O", [])
    tax = f"{SETTLEMENT}/ram:ApplicableTradeTax"
    assert (in_cii.text_at(f"{tax}/ram:CategoryCode"), in_cii.all(f"{tax}/ram:RateApplicablePercent")) == ("O", [])
    assert in_cii.text_at(f"{tax}/ram:ExemptionReasonCode") == "VATEX-EU-O"


def test_totals_are_the_invoices_own() -> None:
    in_ubl, in_cii = ubl(taxed()), cii(taxed())
    sums = {
        name: in_ubl.text_at(f"cac:LegalMonetaryTotal/cbc:{name}")
        for name in (
            "LineExtensionAmount",
            "AllowanceTotalAmount",
            "ChargeTotalAmount",
            "TaxExclusiveAmount",
            "TaxInclusiveAmount",
            "PrepaidAmount",
            "PayableAmount",
        )
    }
    assert list(sums.values()) == ["150.00", "15.00", "0.00", "135.00", "153.00", "11.00", "142.00"]
    assert [child.tag.partition("}")[2] for child in in_cii.root.find(SUMS, NAMES) or ()] == [
        "LineTotalAmount",
        "ChargeTotalAmount",
        "AllowanceTotalAmount",
        "TaxBasisTotalAmount",
        "TaxTotalAmount",
        "GrandTotalAmount",
        "TotalPrepaidAmount",
        "DuePayableAmount",
    ]
    assert in_cii.all(f"{SUMS}/*") == ["150.00", "0.00", "15.00", "135.00", "18.00", "153.00", "11.00", "142.00"]


def test_lines_go_up_by_amount() -> None:
    of = source(
        (
            fee("big", 1000, units=Decimal("2.5"), precise_unit_amount=Decimal(4)),
            fee("small", 5, units=Decimal(1000), precise_unit_amount=Decimal("0.00005")),
        )
    )
    in_ubl, in_cii = ubl(of), cii(of)
    line = "cac:InvoiceLine"
    assert in_ubl.all(f"{line}/cbc:ID") == ["1", "2"]
    assert in_ubl.all(f"{line}/cac:Item/cbc:Name") == ["Item small", "Item big"]
    assert in_ubl.all(f"{line}/cac:Item/cbc:Description") == ["Shown small", "Shown big"]
    assert in_ubl.all(f"{line}/cbc:LineExtensionAmount") == ["0.05", "10.00"]
    assert in_ubl.all(f"{line}/cbc:InvoicedQuantity") == ["1000.00", "2.50"]
    assert in_ubl.attribute(f"{line}/cbc:InvoicedQuantity", "unitCode") == "C62"
    # Two decimals would make the price of the small one nothing.
    assert in_ubl.all(f"{line}/cac:Price/cbc:PriceAmount") == ["0.00005", "4.00"]
    assert in_cii.all(f"{LINES}/ram:AssociatedDocumentLineDocument/ram:LineID") == ["1", "2"]
    assert in_cii.all(f"{LINES}/ram:SpecifiedTradeProduct/ram:Name") == ["Item small", "Item big"]
    assert in_cii.all(f"{LINES}/ram:SpecifiedLineTradeDelivery/ram:BilledQuantity") == ["1000.00", "2.50"]
    settlement = f"{LINES}/ram:SpecifiedLineTradeSettlement"
    assert in_cii.all(f"{settlement}/ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount") == [
        "0.05",
        "10.00",
    ]


def credit_note() -> CreditNoteSource:
    return note_source(
        taxed(),
        {"a": 5000},
        coupons_adjustment_amount_cents=500,
        sub_total_excluding_taxes_amount_cents=4500,
        taxes_amount_cents=900,
        precise_total_amount_cents=Decimal(5400),
        total_amount_cents=5400,
        credit_amount_cents=3400,
        refund_amount_cents=2000,
    )


def test_credit_notes_say_what_they_take_back() -> None:
    form, other = ubl(credit_note()), cii(credit_note())
    assert form.root.tag.endswith("CreditNote-2}CreditNote")
    assert form.text_at("cbc:CreditNoteTypeCode") == "381"
    assert other.text_at("rsm:ExchangedDocument/ram:TypeCode") == "381"
    reference = "cac:BillingReference/cac:InvoiceDocumentReference"
    assert (form.text_at(f"{reference}/cbc:ID"), form.text_at(f"{reference}/cbc:IssueDate")) == (
        "LUM-001-001",
        "2024-02-01",
    )
    referenced = f"{SETTLEMENT}/ram:InvoiceReferencedDocument"
    assert other.text_at(f"{referenced}/ram:IssuerAssignedID") == "LUM-001-001"
    assert other.text_at(f"{referenced}/ram:FormattedIssueDateTime/qdt:DateTimeString") == "20240201"
    assert form.all("cbc:Note") == ["Credit Note ID: note-1", "Original Invoice: LUM-001-001", "Reason: other"]
    assert form.text_at("cac:PaymentTerms/cbc:Note") == "Credit note - immediate settlement"
    # A credit note that takes back a negative amount would be an invoice.
    assert form.text_at("cac:CreditNoteLine/cbc:LineExtensionAmount") == "50.00"
    assert form.text_at("cac:CreditNoteLine/cbc:CreditedQuantity") == "0.50"
    assert (
        form.text_at("cac:AllowanceCharge/cbc:ChargeIndicator"),
        form.text_at("cac:AllowanceCharge/cbc:Amount"),
    ) == (
        "false",
        "5.00",
    )
    assert form.text_at("cac:TaxTotal/cac:TaxSubtotal/cbc:TaxableAmount") == "45.00"
    assert form.text_at("cac:TaxTotal/cac:TaxSubtotal/cbc:TaxAmount") == "9.00"
    totals = [child.text for child in form.root.find("cac:LegalMonetaryTotal", NAMES) or ()]
    assert totals == ["50.00", "45.00", "54.00", "5.00", "0.00", "0.00", "54.00"]
    assert other.all(f"{SUMS}/*") == ["50.00", "0.00", "5.00", "45.00", "9.00", "54.00", "0.00", "54.00"]


@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
@pytest.mark.slow
def test_any_name_leaves_the_forms_well_formed(name: str) -> None:
    of = taxed(customer={"external_id": "x", "name": name}, entity=entity(country="DE", legal_name=name))
    for form in (ubl(of), cii(of)):
        assert form.root is not None


@pytest.mark.parametrize(
    ("base_rate", "taxes", "stated"),
    # Half of 20.00 is taxed; or all of it, with a tax that is less by a rounding.
    [("0.5", "200", ("10.00", "20.00", "2.00")), ("0.998", "399.2", ("20.00", "20.00", "3.99"))],
)
def test_what_is_taxed_in_part_has_the_rate_that_it_comes_to(
    base_rate: str, taxes: str, stated: tuple[str, str, str]
) -> None:
    taxed_fee = fee("a", 2000, taxes_base_rate=Decimal(base_rate), taxes_precise_amount_cents=Decimal(taxes))
    of = source((taxed_fee,), taxes_amount_cents=int(Decimal(taxes)))
    (group,) = invoice_document(of).groups
    assert group.allowance == 0
    subtotal = "cac:TaxTotal/cac:TaxSubtotal"
    for form in (ubl(of), ubl(note_source(of, {"a": 2000}, taxes_amount_cents=int(Decimal(taxes))))):
        shown = (
            form.text_at(f"{subtotal}/cac:TaxCategory/cbc:Percent"),
            form.text_at(f"{subtotal}/cbc:TaxableAmount"),
            form.text_at(f"{subtotal}/cbc:TaxAmount"),
        )
        assert shown == stated
