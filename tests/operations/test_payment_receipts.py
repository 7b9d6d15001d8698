"""Payment receipts: one for each payment that succeeded, numbered, drawn, listed and sent."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from pypdf import PdfReader
from tests.examples import mostly_slow
from tests.scenarios import Scenario, charge_in_advance_on

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.files import Document
from usagebill.core.documents.words import words_of
from usagebill.core.emails import Email
from usagebill.core.payments import Payment
from usagebill.operations import payment_receipts
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work

SENT = ["payment_receipt.created"]


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T00:00:00Z", settings=Settings(public_url="https://billing.example")) as box:
        box.entity(name="Lumen", email="billing@lumen.example", email_settings=SENT)
        box.customer(name="Acme", email="anna@acme.example")
        box.add_on("setup", 10_000)
        yield box


def one_off(box: Scenario, customer: str = "acme", **fields: Any) -> Any:
    body = {"external_customer_id": customer, "fees": [{"add_on_code": "setup", **fields}]}
    return box.post("/invoices", invoice=body)["invoice"]


def pay(box: Scenario, invoice: Any, cents: int = 10_000, **fields: Any) -> Any:
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "transfer", **fields}
    return box.post("/payments", payment=payment)["payment"]


def receipts(box: Scenario, query: str = "") -> list[Any]:
    return list(box.get(f"/payment_receipts{query}")["payment_receipts"])


def announced(box: Scenario, webhook_type: str) -> list[Any]:
    return [message["payment_receipt"] for message in box.webhooks if message["webhook_type"] == webhook_type]


def pages(pdf: bytes) -> list[str]:
    return [" ".join(page.extract_text().split()) for page in PdfReader(BytesIO(pdf)).pages]


def pdf_of(box: Scenario, receipt: Any) -> str:
    return " ".join(pages(box.billing.payment_receipts.pdf(receipt["svc_id"])))


# Issued


def test_every_payment_gets_the_next_number_of_its_customer(box: Scenario) -> None:
    other = box.customer("other")
    invoice, of_other = one_off(box), one_off(box, "other")
    payments = [pay(box, invoice, 100), pay(box, of_other, 100), pay(box, invoice, 200)]
    slug = box.get("/customers/acme")["customer"]["slug"]
    assert {receipt["payment"]["svc_id"]: receipt["number"] for receipt in receipts(box)} == {
        payments[0]["svc_id"]: f"{slug}-RCPT-000001",
        payments[1]["svc_id"]: f"{other['slug']}-RCPT-000001",
        payments[2]["svc_id"]: f"{slug}-RCPT-000002",
    }
    assert [receipt["number"] for receipt in receipts(box, f"?invoice_id={of_other['svc_id']}")] == [
        f"{other['slug']}-RCPT-000001"
    ]
    assert [receipt["number"] for receipt in announced(box, "payment_receipt.created")] == [
        f"{slug}-RCPT-000001",
        f"{other['slug']}-RCPT-000001",
        f"{slug}-RCPT-000002",
    ]


def test_a_refused_payment_takes_no_number(box: Scenario) -> None:
    invoice = one_off(box)
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": 10_001, "reference": "r"}
    box.post("/payments", payment=payment, status=422)
    pay(box, invoice)
    (receipt,) = receipts(box)
    assert receipt["number"].endswith("-RCPT-000001")


def test_a_payment_is_receipted_once_however_often_it_is_asked(box: Scenario) -> None:
    pay(box, one_off(box))

    def again(work: Work) -> list[Any]:
        (payment,) = work.tx.find(Payment)
        return [payment_receipts.issue(work, payment) for _ in range(2)]

    first, second = box.billing.writing(again)
    assert first == second
    assert len(receipts(box)) == len(announced(box, "payment_receipt.created")) == 1


def test_a_partner_gets_no_receipt(box: Scenario) -> None:
    box.customer("partner", account_type="partner", email="p@partner.example")
    pay(box, one_off(box, "partner"))
    assert receipts(box) == []
    assert box.emails == []


def test_fees_that_were_paid_before_are_receipted_with_their_invoice(box: Scenario) -> None:
    seats = charge_in_advance_on(box.metric("seats"), amount="1", regroup_paid_fees="invoice")
    box.plan(seats)
    box.subscribe()
    box.event("seats", value=3)
    (fee,) = box.get("/fees?fee_type=charge")["fees"]
    box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "advance_charges"]
    (receipt,) = receipts(box)
    assert receipt["payment"]["invoice_numbers"] == [invoice["number"]]
    assert "Already paid €3.00" in pdf_of(box, receipt)


def test_unknown_receipts_and_bad_filters_are_named(box: Scenario) -> None:
    unknown = "7b199d93-2663-4e68-beca-203aefcd019b"
    for answer in (
        box.get(f"/payment_receipts/{unknown}", status=404),
        box.post(f"/payment_receipts/{unknown}/download", status=404),
        box.post(f"/payment_receipts/{unknown}/resend_email", status=404),
    ):
        assert answer["code"] == "payment_receipt_not_found"
    refused = box.get("/payment_receipts?invoice_id=x", status=422)
    assert refused["error_details"] == {"invoice_id": ["is in invalid format"]}


# Drawn


def test_a_receipt_says_what_was_paid_and_what_is_left(box: Scenario) -> None:
    box.tax(20)
    invoice = one_off(box, units=2)
    pay(box, invoice, 4_000, paid_at="2024-02-15")
    (receipt,) = receipts(box)
    text = pdf_of(box, receipt)
    expected = (
        *("Receipt", "Receipt number", receipt["number"], "Invoice number", invoice["number"]),
        *("Payment date", "Feb 15, 2024", "From", "Lumen", "Bill to", "Acme", "€40.00"),
        "Paid on Feb 15, 2024 (Remaining to pay: €200.00)",
        *("Setup", "VAT (20% on €200.00)", "Total", "€240.00"),
    )
    at = 0
    for part in expected:
        at = text.find(part, at)
        assert at >= 0, (part, text)
    (generated,) = announced(box, "payment_receipt.generated")
    assert generated["file_url"].startswith("https://billing.example/documents/")
    assert box.get(f"/payment_receipts/{receipt['svc_id']}")["payment_receipt"] == generated


def test_a_receipt_says_the_same_whenever_it_is_drawn(box: Scenario) -> None:
    invoice = one_off(box)
    pay(box, invoice, 1_000)
    pay(box, invoice, 2_000)
    box.customer(name="Acme (renamed)")
    box.entity(name="Renamed")
    first, second = sorted(receipts(box), key=lambda receipt: str(receipt["number"]))
    for receipt, left in ((first, "€90.00"), (second, "€70.00")):
        text = pdf_of(box, receipt)
        assert f"Remaining to pay: {left}" in text
        assert "enamed" not in text


def test_a_download_makes_the_pdf_once(box: Scenario) -> None:
    pay(box, one_off(box))
    (receipt,) = receipts(box)
    box.entity(email_settings=[])
    path = f"/payment_receipts/{receipt['svc_id']}/download"
    answers = [box.post(path) for _ in range(3)]
    assert answers[1] == answers[2]
    assert answers[1]["payment_receipt"]["file_url"]
    assert announced(box, "payment_receipt.generated") == [answers[1]["payment_receipt"]]


@pytest.mark.parametrize("locale", mostly_slow(LOCALES, "fr", "zh-TW"))
def test_a_receipt_is_in_the_language_of_its_customer(box: Scenario, locale: str) -> None:
    box.customer(name="東京 Łódź Straße", billing_configuration={"document_locale": locale})
    pay(box, one_off(box))
    (receipt,) = receipts(box)
    text, words = pdf_of(box, receipt), words_of(locale)
    for label in (words.receipt, words.receipt_number, words.payment_date, words.excluding_taxes):
        assert label in text
    assert "東京 Łódź Straße" in text
    (email,) = box.emails
    assert email.language == locale
    assert email.subject == words.receipt_email.format(entity="Lumen", number=receipt["number"])
    assert words.receipt_attached in email.text


# Sent


def names(email: Email) -> list[str]:
    return [file.name for file in email.attachments]


def test_a_receipt_goes_out_with_the_invoice_that_was_paid(box: Scenario) -> None:
    invoice = one_off(box)
    pay(box, invoice, 2_500)
    (receipt,) = receipts(box)
    (email,) = box.emails
    assert (email.to, email.subject) == (
        ("anna@acme.example",),
        f"Your payment receipt from Lumen #{receipt['number']}",
    )
    assert names(email) == [f"receipt-{receipt['number']}.pdf", f"invoice-{invoice['number']}.pdf"]
    assert "Amount paid: €25.00" in email.text
    assert "Remaining to pay: €75.00" in email.text
    assert "Receipt number" in pages(email.attachments[0].content)[0]
    assert email.attachments[1].content == box.billing.invoices.pdf(invoice["svc_id"])


@pytest.mark.parametrize("settings", [[], ["invoice.finalized", "credit_note.created"]])
def test_nothing_is_sent_unless_it_is_switched_on(box: Scenario, settings: list[str]) -> None:
    invoice = one_off(box)
    box.entity(email_settings=settings)
    pay(box, invoice)
    assert box.emails == []
    (receipt,) = receipts(box)
    refused = box.post(f"/payment_receipts/{receipt['svc_id']}/resend_email", status=405)
    assert refused["code"] == "email_settings_disabled"


def test_a_receipt_is_sent_again_when_asked_for(box: Scenario) -> None:
    pay(box, one_off(box))
    (receipt,) = receipts(box)
    box.billing.payment_receipts.resend_email(receipt["svc_id"], to=["books@acme.example"], cc=["cfo@acme.example"])
    box.run_due()
    sent = box.emails[-1]
    assert (sent.to, sent.cc) == (("books@acme.example",), ("cfo@acme.example",))
    assert sent.attachments == box.emails[0].attachments
    refused = box.post(f"/payment_receipts/{receipt['svc_id']}/resend_email", to=["nobody"], status=422)
    assert refused["error_details"] == {"to": ["invalid email format: nobody"]}


def test_the_receipt_of_an_invoice_that_was_voided_goes_out_alone(box: Scenario) -> None:
    invoice = one_off(box)
    pay(box, invoice, 100)
    box.post(f"/invoices/{invoice['svc_id']}/void", generate_credit_note=True, refund_amount=100)
    (receipt,) = receipts(box)
    box.post(f"/payment_receipts/{receipt['svc_id']}/resend_email")
    assert names(box.emails[-1]) == [f"receipt-{receipt['number']}.pdf"]


# As XML

UBL = {
    "": "urn:oasis:names:specification:ubl:schema:xsd:ApplicationResponse-2",
    "cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
}


def xml_of(box: Scenario, receipt: Any) -> Element:
    id = str(receipt["xml_url"]).rpartition("/")[2].partition("?")[0]
    document = box.billing.reading(lambda reader: reader.tx.get(Document, id.partition(".")[0]))
    assert document is not None
    return fromstring(document.content)


def texts(root: Element, path: str) -> list[str | None]:
    return [element.text for element in root.findall(path, UBL)]


def test_receipts_of_an_entity_with_e_invoices_say_in_xml_which_invoices_were_paid(box: Scenario) -> None:
    box.entity(country="FR", tax_identification_number="FR12345678901", einvoicing=True)
    box.customer(country="FR")
    invoices = [one_off(box), one_off(box)]
    pay(box, invoices[0], 2_550)
    (receipt,) = receipts(box)
    root = xml_of(box, receipt)
    assert root.tag == f"{{{UBL['']}}}ApplicationResponse"
    assert texts(root, "cbc:ID") == [receipt["number"]]
    assert texts(root, "cbc:Note") == ["Payment received: 25.50 EUR"]
    assert texts(root, "cac:SenderParty/cac:PartyTaxScheme/cbc:CompanyID") == ["FR12345678901"]
    assert texts(root, "cac:ReceiverParty/cbc:EndpointID") == ["anna@acme.example"]
    assert texts(root, "cac:DocumentResponse/cac:Response/cbc:ResponseCode") == ["PD"]
    assert texts(root, "cac:DocumentResponse/cac:DocumentReference/cbc:ID") == [invoices[0]["number"]]
    assert texts(root, "cac:DocumentResponse/cac:DocumentReference/cbc:DocumentTypeCode") == ["380"]


def test_receipts_of_other_entities_have_no_xml(box: Scenario) -> None:
    pay(box, one_off(box))
    assert [receipt["xml_url"] for receipt in receipts(box)] == [None]
