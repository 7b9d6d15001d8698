"""Documents as a caller gets them: made once, when asked for or at once, for what is finalized."""

from __future__ import annotations

import base64
from dataclasses import replace
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import pytest
import structlog.testing
from PIL import Image
from pypdf import PdfReader
from tests.asgi import send
from tests.scenarios import FRENCH_SELLER, GERMAN_SELLER, Scenario, charge_on, price_ranges

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.documents.files import Document, document_token
from usagebill.core.errors import Invalid, NotFound
from usagebill.http.app import create_app
from usagebill.operations.documents.files import download_invoice
from usagebill.operations.invoices.lifecycle import InvoiceVoid, void
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work

SETTINGS = Settings(public_url="https://billing.example/")


def words(text: str) -> str:
    return " ".join(text.split())


def pages(pdf: bytes) -> list[str]:
    return [words(page.extract_text()) for page in PdfReader(BytesIO(pdf)).pages]


def in_order(text: str, *parts: str) -> bool:
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def one_off(box: Scenario, **fields: Any) -> Any:
    """An invoice of two add-ons, at 20 %."""
    box.customer(**{"name": "Acme", "country": "FR", **fields})
    box.tax()
    for code, cents in (("setup", 10_000), ("training", 5_000)):
        box.add_on(code, cents)
    fees = [{"add_on_code": "setup", "description": "On site"}, {"add_on_code": "training", "units": "2.5"}]
    return box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]


def generated(box: Scenario, kind: str = "invoice") -> list[Any]:
    return [message[kind] for message in box.webhooks if message["webhook_type"] == f"{kind}.generated"]


@pytest.mark.parametrize("path", ["download", "download_pdf"])
def test_a_download_makes_the_pdf_once_and_then_gives_its_address(path: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z", settings=SETTINGS) as box:
        made = one_off(box)
        assert (made["file_url"], generated(box)) == (None, [])
        assert box.post(f"/invoices/{made['svc_id']}/{path}") is None
        first = box.post(f"/invoices/{made['svc_id']}/{path}")["invoice"]
        again = box.post(f"/invoices/{made['svc_id']}/{path}")["invoice"]
        assert first["file_url"] == again["file_url"]
        assert first["file_url"].startswith("https://billing.example/documents/")
        assert box.invoice(made["svc_id"])["file_url"] == first["file_url"]
        [announced] = generated(box)
        assert announced["file_url"] == first["file_url"]
        assert announced["customer"]["external_id"] == "acme"
        assert box.billing.reading(lambda work: work.tx.count(Document)) == 1


def test_two_requests_at_once_make_one_document() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        id = one_off(box)["svc_id"]
        box.billing.writing(lambda work: [download_invoice(work, id) for _ in range(2)])
        box.run_due()
        assert len(generated(box)) == 1
        assert box.billing.reading(lambda work: work.tx.count(Document)) == 1


def test_at_once_documents_are_made_when_the_invoice_is_issued() -> None:
    with Scenario(now="2024-01-05T00:00:00Z", settings=Settings(documents="at_once")) as box:
        made = one_off(box)
        assert len(generated(box)) == 1
        assert box.post(f"/invoices/{made['svc_id']}/download")["invoice"]["file_url"]
        credit_note(box, made)
        assert len(generated(box, "credit_note")) == 1


def test_drafts_voided_and_unknown_invoices_have_no_documents() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        made = one_off(box)
        box.post(f"/invoices/{made['svc_id']}/void")
        box.plan(code="b", amount_cents=100, pay_in_advance=True)
        box.customer("slow", billing_configuration={"invoice_grace_period": 3})
        box.subscribe("b", "s", customer="slow")
        draft = box.get("/invoices?external_customer_id=slow")["invoices"][0]
        assert draft["status"] == "draft"
        for id in (made["svc_id"], draft["svc_id"], "00000000-0000-7000-8000-000000000000", "nothing"):
            for path in ("download", "download_pdf", "download_xml"):
                assert box.post(f"/invoices/{id}/{path}", status=404)["code"] == "invoice_not_found"
                assert box.post(f"/credit_notes/{id}/{path}", status=404)["code"] == "credit_note_not_found"
        box.travel_to("2024-01-10T00:00:00Z")
        assert box.post(f"/invoices/{draft['svc_id']}/download") is None
        assert generated(box)[-1]["svc_id"] == draft["svc_id"]


def test_an_invoice_voided_before_its_document_was_made_gets_none() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        id = one_off(box)["svc_id"]

        def ask_and_void(work: Work) -> None:
            download_invoice(work, id)
            void(work, id, InvoiceVoid())

        box.billing.writing(ask_and_void)
        box.run_due()
        assert generated(box) == []


def test_one_off_invoice_as_a_pdf() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(name="Lumen", email="billing@lumen.example", billing_configuration={"invoice_footer": "Merci"})
        made = one_off(box)
        [text] = pages(box.billing.invoices.pdf(made["svc_id"]))
        assert in_order(
            text,
            *("Invoice", "Invoice number", made["number"], "Issue date", "Jan 5, 2024", "Payment term", "0 days"),
            *("From", "Lumen", "billing@lumen.example", "Bill to", "Acme", "€270.00", "Due Jan 5, 2024"),
            *("Item", "Units", "Unit price", "Tax rate", "Amount"),
            *("Setup", "On site", "1", "€100.00", "20%", "€100.00"),
            *("Training", "2.5", "€50.00", "20%", "€125.00"),
            *("Subtotal (excl. tax)", "€225.00", "VAT (20% on €225.00)", "€45.00"),
            *("Subtotal (incl. tax)", "€270.00", "Total", "€270.00", "Merci"),
        )


def test_language_is_the_customers_else_the_billing_entitys() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(country="DE", billing_configuration={"document_locale": "de"})
        made = one_off(box)
        [text] = pages(box.billing.invoices.pdf(made["svc_id"]))
        assert in_order(text, "Rechnung", "05.01.2024", "Deutschland", "270,00 €", "Zwischensumme (ohne Steuer)")
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(billing_configuration={"document_locale": "de"})
        made = one_off(box, billing_configuration={"document_locale": "zh-TW"}, name="東京 Łódź")
        [text] = pages(box.billing.invoices.pdf(made["svc_id"]))
        assert in_order(text, "發票", "2024年1月5日", "東京 Łódź", "€270.00", "總計")


def test_an_installation_may_keep_the_forms_of_the_reference() -> None:
    with Scenario(now="2024-01-05T00:00:00Z", settings=Settings(document_formats="reference")) as box:
        box.entity(zipcode="10115", city="Berlin", country="DE", billing_configuration={"document_locale": "de"})
        made = one_off(box)
        [text] = pages(box.billing.invoices.pdf(made["svc_id"]))
        assert in_order(text, "Rechnung", "05. Jan. 2024", "10115, Berlin", "Deutschland", "€270,00", "20%")


def test_texts_of_callers_are_shown_as_they_are() -> None:
    odd = "<b>A & B</b>\n" + "x" * 300 + "\u0000\t☃🙂"
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        made = one_off(box, name=odd[:255], address_line1=odd)
        [text] = pages(box.billing.invoices.pdf(made["svc_id"]))
        assert "<b>A & B</b>" in text


WORDS = "Delivered as agreed and billed to the cent. " * 120


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("description", WORDS),
        ("description", "\n".join(f"line {number}" for number in range(200))),
        ("description", "x" * 4000),
        ("description", "請求書の説明。" * 700),
        ("invoice_display_name", WORDS),
        ("tax", WORDS),
        ("address_line1", WORDS),
        ("address_line1", "\n".join(f"line {number}" for number in range(200))),
        ("legal_name", WORDS),
        ("name", WORDS),
    ],
)
def test_long_texts_flow_over_pages(field: str, text: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(**{"name": "Lumen", **({field: text} if field in ("address_line1", "legal_name", "name") else {})})
        box.customer(name="Acme", **{field: text} if field in ("address_line1", "legal_name") else {})
        box.tax(name=text if field == "tax" else "VAT")
        box.add_on("setup", 10_000)
        fee = {"add_on_code": "setup", **({field: text} if field in ("description", "invoice_display_name") else {})}
        made = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": [fee]})["invoice"]
        shown = pages(box.billing.invoices.pdf(made["svc_id"]))
    assert len(shown) > 1
    # Every word is there, whatever page it came to stand on.
    letters = "".join("".join(shown).split())
    for line in text.split("\n"):
        for word in line.split()[:: 1 + len(line) // 500]:
            assert word[:20] in letters
    assert in_order(" ".join(shown), "Invoice number", "Total", "€120.00")


def picture(size: tuple[int, int] = (30, 10), kind: str = "PNG", mode: str = "RGB") -> bytes:
    made = BytesIO()
    Image.new(mode, size).save(made, kind)
    return made.getvalue()


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n%%EOF\n"
UNSHOWN = {
    "PostScript labelled PNG": (POSTSCRIPT, "invalid_content_type"),
    "GIF": (picture(kind="GIF"), "invalid_content_type"),
    "no picture": (b"AAAA", "invalid_content_type"),
    "damaged": (picture((300, 300))[:120], "invalid_content_type"),
    "too many pixels": (picture((12_000, 12_000), mode="1"), "invalid_size"),
    "too many bytes": (b"0" * (800 * 1024 + 1), "invalid_size"),
}


@pytest.mark.parametrize(
    "logo",
    [
        data_url(picture()),
        data_url(picture((2000, 2000), mode="RGBA")),
        data_url(picture(mode="P")),
        data_url(picture(kind="JPEG"), "jpeg"),
        data_url(picture(kind="JPEG", mode="CMYK"), "jpg"),
    ],
)
def test_a_logo_is_shown(logo: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(logo=logo)
        pdf = box.billing.invoices.pdf(one_off(box)["svc_id"])
        assert len(PdfReader(BytesIO(pdf)).pages[0].images) == 1
        assert len(pdf) < 100_000


@pytest.mark.parametrize(("content", "code"), UNSHOWN.values(), ids=UNSHOWN.keys())
def test_what_is_no_logo_is_refused_when_it_is_stored(content: bytes, code: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        refused = box.put("/billing_entities/default", billing_entity={"logo": data_url(content)}, status=422)
        assert refused["error_details"] == {"logo": [code]}


@pytest.mark.parametrize(("content", "code"), UNSHOWN.values(), ids=UNSHOWN.keys())
def test_no_document_fails_for_its_logo(content: bytes, code: str) -> None:
    def store(work: Work) -> None:
        for entity in work.tx.find(BillingEntity):
            work.tx.replace(replace(entity, logo_url=data_url(content)))

    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.billing.writing(store)
        made = one_off(box)
        with structlog.testing.capture_logs() as logs:
            pdf = box.billing.invoices.pdf(made["svc_id"])
        assert len(PdfReader(BytesIO(pdf)).pages[0].images) == 0
        [warning] = [line for line in logs if line["event"] == "logo_left_out"]
        assert (warning["log_level"], warning["document"], warning["reason"]) == ("warning", made["number"], code)


def subscribe(box: Scenario, *codes: str) -> Any:
    """An invoice of January for as many subscriptions, each with a fee, graduated calls and a minimum of storage."""
    box.customer(name="Acme")
    metrics = [
        {"name": "Calls", "code": "calls", "aggregation_type": "count_agg"},
        {"name": "Archive", "code": "archive", "aggregation_type": "sum_agg", "field_name": "gb"},
    ]
    calls, archive = (
        box.post("/billable_metrics", billable_metric=metric)["billable_metric"]["svc_id"] for metric in metrics
    )
    ranges = price_ranges((0, 10, "0.5", "1"), (11, None, "0.1", "0"))
    charges = [
        charge_on(calls, "graduated", graduated_ranges=ranges),
        charge_on(archive, amount="1", min_amount_cents=500),
    ]
    for code in codes:
        box.plan(*charges, name=code.title(), code=code, amount_cents=4900)
        box.subscribe(code, code)
        event = {"external_subscription_id": code, "timestamp": box.now.timestamp()}
        for number in range(12):
            box.post("/events", event={**event, "code": "calls", "transaction_id": f"{code}{number}"})
        stored = {"code": "archive", "transaction_id": f"{code}s", "properties": {"gb": 2}}
        box.post("/events", event={**event, **stored})
    box.travel_to("2024-02-01T01:00:00Z")
    [invoice] = box.get("/invoices")["invoices"]
    return invoice


def test_subscription_invoice_as_a_pdf() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        invoice = subscribe(box, "basic")
        [text] = pages(box.billing.invoices.pdf(invoice["svc_id"]))
        assert in_order(
            text,
            *("Basic details", "Fees from Jan 1, 2024 to Jan 31, 2024"),
            *("Monthly subscription - Basic", "1", "€49.00", "0%", "€49.00"),
            *("Archive", "2", "€1.00", "0%", "€2.00"),
            *("Archive - True-up", "€3.00"),
            *("Calls", "Fee per unit for the first 10", "10", "€0.50", "€5.00"),
            *("Fee per unit for 11 and above", "2", "€0.10", "€0.20", "Flat fee for the first 10", "€1.00"),
            *("Subtotal", "€6.20", "Subtotal (excl. tax)", "€60.20", "Tax (0%)", "€0.00", "Total", "€60.20"),
        )


def test_several_subscriptions_get_a_page_each() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        invoice = subscribe(box, "pro", "basic")
        first, *rest = pages(box.billing.invoices.pdf(invoice["svc_id"]))
        assert in_order(first, "Basic", "€60.20", "Pro", "€60.20", "Total", "€120.40")
        assert [page.split(" details")[0].split()[-1] for page in rest] == ["Basic", "Pro"]
        assert all(in_order(page, "Fees from", "Total", "€60.20") for page in rest)


def credit_note(box: Scenario, invoice: Any) -> Any:
    fees = {fee["item"]["code"]: fee for fee in invoice["fees"]}
    items = [{"fee_id": fees["setup"]["svc_id"], "amount_cents": 5000}]
    body = {"invoice_id": invoice["svc_id"], "offset_amount_cents": 6000, "items": items}
    return box.post("/credit_notes", credit_note=body)["credit_note"]


def test_credit_note_as_a_pdf() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        invoice = one_off(box)
        note = credit_note(box, invoice)
        assert note["file_url"] is None
        assert box.post(f"/credit_notes/{note['svc_id']}/download_pdf") is None
        shown = box.post(f"/credit_notes/{note['svc_id']}/download")["credit_note"]
        [announced] = generated(box, "credit_note")
        assert shown["file_url"].startswith("http")
        assert announced["file_url"] == shown["file_url"]
        assert announced["customer"]["external_id"] == "acme"
        [text] = pages(box.billing.credit_notes.pdf(note["svc_id"]))
        assert in_order(
            text,
            *("Credit note", "Credit note number", note["number"], "Invoice number", invoice["number"]),
            *("Credit to", "Acme", "€60.00", f"Offset on invoice {invoice['number']} on Jan 5, 2024"),
            *("Setup", "20%", "€50.00", "Subtotal (excl. tax)", "€50.00", "VAT (20% on €50.00)", "€10.00"),
            *("Offset on the invoice", "€60.00", "Total", "€60.00"),
        )


def test_e_invoices_have_a_file_of_xml_and_one_within_the_pdf() -> None:
    with Scenario(now="2024-01-05T00:00:00Z", settings=SETTINGS) as box:
        box.entity(**FRENCH_SELLER)
        made = one_off(box)
        assert box.post(f"/invoices/{made['svc_id']}/download_xml") is None
        shown = box.post(f"/invoices/{made['svc_id']}/download_xml")["invoice"]
        assert (shown["file_url"], generated(box)) == (None, [])
        assert shown["xml_url"].startswith("https://billing.example/documents/")
        xml = box.billing.invoices.xml(made["svc_id"])
        assert ElementTree.fromstring(xml).tag.endswith("}Invoice")
        pdf = PdfReader(BytesIO(box.billing.invoices.pdf(made["svc_id"])))
        [embedded] = pdf.attachments["factur-x.xml"]
        assert ElementTree.fromstring(embedded).tag.endswith("}CrossIndustryInvoice")
        note = credit_note(box, made)
        assert box.post(f"/credit_notes/{note['svc_id']}/download_xml") is None
        assert box.post(f"/credit_notes/{note['svc_id']}/download_xml")["credit_note"]["xml_url"]
        assert ElementTree.fromstring(box.billing.credit_notes.xml(note["svc_id"])).tag.endswith("}CreditNote")


def test_the_pdf_of_an_e_invoice_comes_with_its_xml() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.entity(**GERMAN_SELLER)
        made = one_off(box)
        box.post(f"/invoices/{made['svc_id']}/download")
        shown = box.post(f"/invoices/{made['svc_id']}/download")["invoice"]
        assert shown["file_url"]
        assert shown["xml_url"]
        assert len(generated(box)) == 1


def test_other_invoices_have_no_xml() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        made = one_off(box)
        for _ in range(2):
            assert box.post(f"/invoices/{made['svc_id']}/download_xml") is None
        assert box.invoice(made["svc_id"])["xml_url"] is None
        with pytest.raises(NotFound):
            box.billing.invoices.xml(made["svc_id"])
        assert PdfReader(BytesIO(box.billing.invoices.pdf(made["svc_id"]))).attachments == {}


def test_an_incomplete_e_invoice_is_left_out_and_logged() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box, structlog.testing.capture_logs() as logs:
        box.entity(**FRENCH_SELLER)
        made = one_off(box, country=None)
        note = credit_note(box, made)
        lacking = {"customer.country": ["value_is_mandatory"]}
        for path in (f"/invoices/{made['svc_id']}", f"/credit_notes/{note['svc_id']}"):
            assert box.post(f"{path}/download_xml", status=422)["error_details"] == lacking
        for documents, id in ((box.billing.invoices, made["svc_id"]), (box.billing.credit_notes, note["svc_id"])):
            with pytest.raises(Invalid) as refused:
                documents.xml(id)
            assert refused.value.details == lacking
            assert PdfReader(BytesIO(documents.pdf(id))).attachments == {}
        left_out = [(line["document"], line["lacking"]) for line in logs if line["event"] == "einvoice_left_out"]
        assert set(map(repr, left_out)) == {repr((number, lacking)) for number in (made["number"], note["number"])}


def test_sellers_of_before_the_rules_can_change_and_their_invoices_have_no_xml() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:

        def of_before(work: Work) -> None:
            seller = work.tx.find(BillingEntity)[0]
            work.tx.replace(replace(seller, country="FR", einvoicing=True))

        box.billing.writing(of_before)
        box.entity(name="Renamed")
        refused = box.ask(
            "PUT", "/billing_entities/default", {"billing_entity": {"country": "DE", "name": "Moved"}}, status=422
        )
        assert "phone" in refused["error_details"]
        made = one_off(box)
        refused = box.post(f"/invoices/{made['svc_id']}/download_xml", status=422)
        assert refused["error_details"] == {"billing_entity.tax_identification_number": ["value_is_mandatory"]}


def test_a_document_stays_as_it_was_made() -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        made = one_off(box)
        before = box.billing.invoices.pdf(made["svc_id"])
        box.entity(name="Renamed")
        box.travel_to("2024-03-05T00:00:00Z")
        assert box.billing.invoices.pdf(made["svc_id"]) == before


@pytest.mark.parametrize(("country", "code"), [(None, "country_must_be_present"), ("IT", "country_not_supported")])
def test_e_invoicing_needs_a_country_that_has_it(country: str | None, code: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        name = box.get("/billing_entities")["billing_entities"][0]["code"]
        body = {"billing_entity": {"einvoicing": True, "country": country}}
        refused = box.ask("PUT", f"/billing_entities/{name}", body, status=422)
        assert refused["error_details"] == {"einvoicing": [code]}


def test_the_address_of_a_document_needs_no_key_but_every_character_of_it() -> None:
    with Scenario(now="2024-01-05T00:00:00Z", settings=SETTINGS) as box:
        box.entity(**FRENCH_SELLER)
        made = one_off(box)
        pdf, xml = box.billing.invoices.pdf(made["svc_id"]), box.billing.invoices.xml(made["svc_id"])
        shown = box.invoice(made["svc_id"])
        app = create_app(box.billing)
        paths = [shown[name].removeprefix("https://billing.example") for name in ("file_url", "xml_url")]
        for path, content, kind, ending in zip(paths, (pdf, xml), ("pdf", "xml"), ("pdf", "xml"), strict=True):
            answer = send(app, "GET", path)
            assert (answer.status_code, answer.content) == (200, content)
            assert answer.headers["content-type"].split(";")[0] == f"application/{kind}"
            assert answer.headers["content-disposition"].endswith(f"{made['number']}.{ending}")
        for wrong in (paths[0][:-1], paths[0] + "0", paths[0].partition(".")[0], "/documents/x", "/documents/é.ü"):
            answer = send(app, "GET", wrong)
            assert (answer.status_code, answer.json()["code"]) == (404, "document_not_found")
        swapped = paths[0].partition(".")[0] + "." + paths[1].partition(".")[2]
        assert send(app, "GET", swapped).status_code == 404
        # Receivers of webhooks know this key.
        id = paths[0].removeprefix("/documents/").partition(".")[0]
        forged = document_token(box.billing.organization.hmac_key, id)
        assert send(app, "GET", f"/documents/{forged}").status_code == 404
