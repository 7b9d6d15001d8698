"""PDFs as seen by readers (numbers, totals and page breaks) and as checked by archives."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from io import BytesIO

import pikepdf
import pytest
from facturx.facturx import get_xml_from_pdf
from hypothesis import example, given
from hypothesis.strategies import text
from page import validate_pdf_bytes
from pypdf import PdfReader
from tests.core.documents.builders import fee, source, tax
from tests.examples import examples, mostly_slow

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.cii import cii_text
from usagebill.core.documents.content import Content
from usagebill.core.documents.electronic import invoice_document
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.sources import InvoiceSource
from usagebill.printing.fonts import HANGUL
from usagebill.printing.pdf import pdf_bytes


def invoice(lines: int, locale: str = "en", cents: int = 123_456, units: str = "2469135780") -> InvoiceSource:
    fees = tuple(
        fee(f"{at}", cents, units=Decimal(units), precise_unit_amount=Decimal("0.000012")) for at in range(lines)
    )
    whole = sum(line.amount_cents for line in fees)
    return source(
        fees,
        locale=locale,
        sub_total_excluding_taxes_amount_cents=whole,
        taxes_amount_cents=whole // 5,
        applied_taxes=(tax("20", whole, whole // 5, name="A tax with a name of many words that asks for room"),),
        sub_total_including_taxes_amount_cents=whole + whole // 5,
        total_amount_cents=whole + whole // 5,
    )


def named(name: str) -> InvoiceSource:
    plain = fee("a", 100)
    item = plain.item.__class__(type=plain.item.type, item_type="AddOn", id="a", code="a", name=name)
    return source((fee("a", 100, item=item),))


def pages(content: Content) -> list[list[str]]:
    """The lines of each page, each drawn text a line."""
    return [page.extract_text().split("\n") for page in PdfReader(BytesIO(pdf_bytes(content))).pages]


def spaced(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize("locale", mostly_slow(LOCALES, "fr", "zh-TW"))
@pytest.mark.parametrize("units", ["2469135780", "123456789012.345678", "1" + "0" * 40])
def test_numbers_stay_in_one_piece(locale: str, units: str) -> None:
    of = invoice_content(invoice(2, locale, cents=98_765_432_109_876, units=units))
    drawn = {spaced(line) for page in pages(of) for line in page}
    rows = [row for page in of.pages for table in page.tables for row in table.rows]
    amounts = {text for row in rows for text in (row.units, row.unit_price, row.amount)}
    amounts |= {total.amount for page in of.pages for total in page.totals}
    for amount in amounts:
        assert any(spaced(amount) in line for line in drawn), amount


@pytest.mark.slow
def test_totals_are_never_alone_on_a_page_and_never_split() -> None:
    for lines in (1, *range(20, 34), 150):
        of = invoice_content(invoice(lines))
        (text,) = (text for text in map("\n".join, pages(of)) if "Subtotal (excl. tax)" in text)
        assert all(total.amount in text for page in of.pages for total in page.totals), lines
        # An item stands above them, below the heads of its columns.
        assert text.index("Item") < text.index("Shown ") < text.index("Subtotal (excl. tax)"), lines


@pytest.mark.slow
def test_no_item_and_no_footer_is_alone_on_a_page_and_tiers_stay_with_their_subtotal() -> None:
    ranges = [
        {"from_value": at, "to_value": at + 1, "units": "1", "per_unit_amount": "1", "per_unit_total_amount": "1"}
        for at in range(5)
    ]
    for lines in range(18, 40):
        plain = invoice(lines)
        tiers = fee("tiers", 500, fee_type="charge", amount_details={"graduated_ranges": ranges})
        drawn = pages(invoice_content(replace(plain, fees=(*plain.fees, tiers))))
        (tiered,) = (text for text in map("\n".join, drawn) if "Shown tiers" in text)
        assert tiered.count("Fee per unit") == len(ranges), lines
        assert re.search(r"Subtotal\s", tiered), lines
        assert all(page.count("Shown ") >= 1 for page in map("\n".join, drawn)), lines


def test_every_page_says_which_of_how_many_it_is() -> None:
    drawn = pages(invoice_content(invoice(150)))
    assert len(drawn) > 3
    for page, lines in enumerate(drawn, start=1):
        assert f"LUM-001-001 - Page {page} of {len(drawn)}" in lines
    assert "LUM-001-001 - Seite 1 von 1" in pages(invoice_content(invoice(1, "de")))[0]


def test_every_letter_is_drawn_in_a_font_that_has_it() -> None:
    drawn: list[tuple[str, str]] = []

    def note(text: str, _: object, __: object, font: dict[str, str] | None, ___: object) -> None:
        if font is not None:
            drawn.append((text, font["/BaseFont"]))

    (page,) = PdfReader(BytesIO(pdf_bytes(invoice_content(invoice(1, "zh-TW"))))).pages
    page.extract_text(visitor_text=note)
    chinese = [(text, font) for text, font in drawn if any(ord(letter) > 0x2E80 for letter in text)]
    # The foot of the page as well.
    assert any("頁" in text for text, _ in chinese)
    assert all("DroidSansFallback" in font for _, font in chinese), chinese


def test_headings_of_short_numbers_stay_in_one_piece() -> None:
    lines = {line.strip() for line in pages(invoice_content(invoice(1, "zh-TW", cents=1, units="1")))[0]}
    assert {"數量", "單價", "稅率", "金額"} <= lines


def test_a_name_has_the_room_that_numbers_leave() -> None:
    name = "A name of thirteen words that fits into a single line of this table"
    assert name in pages(invoice_content(named(name)))[0]


def archival(of: InvoiceSource) -> bytes:
    return pdf_bytes(invoice_content(of), cii_text(invoice_document(of)))


def test_the_xml_is_the_alternative_of_an_archival_file() -> None:
    of = invoice(30, "zh-TW")
    made = archival(of)
    assert made == archival(of)
    with pikepdf.open(BytesIO(made)) as pdf:
        assert pdf.check_pdf_syntax() == []
        with pdf.open_metadata() as described:
            assert described.pdfa_status == "3B"
            fx = "{urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#}"
            assert {
                name: described[fx + name] for name in ("DocumentType", "DocumentFileName", "ConformanceLevel")
            } == {
                "DocumentType": "INVOICE",
                "DocumentFileName": "factur-x.xml",
                "ConformanceLevel": "EN 16931",
            }
            assert described["dc:title"] == pdf.docinfo["/Title"]
            assert described["pdf:Producer"] == pdf.docinfo["/Producer"]
        (intent,) = pdf.Root.OutputIntents
        assert intent.S == "/GTS_PDFA1"
        assert intent.DestOutputProfile.read_bytes()[36:40] == b"acsp"
        (attached,) = pdf.Root.AF
        assert attached.AFRelationship == "/Alternative"
        assert (attached.F, attached.UF) == ("factur-x.xml", "factur-x.xml")
        assert attached.EF.F.Subtype == "/text/xml"
        assert attached.EF.F.Params.ModDate
        assert attached.EF.F.read_bytes() == cii_text(invoice_document(of)).encode()
        assert len(pdf.trailer.ID) == 2
        fonts = [font for page in pdf.pages for font in page.Resources.Font.values()]
        assert fonts
        for font in fonts:
            assert "/FontFile2" in font.FontDescriptor, font.BaseFont
            assert "/ToUnicode" in font


def broken_rules(made: bytes) -> set[str]:
    """The rules of PDF/A-3b that a file breaks."""
    report = validate_pdf_bytes(made, profile="pdfa3b")
    assert report.rules.total > 100
    findings = {f"{failure.rule_id}: {failure.message}" for failure in report.failures}
    # It takes a stream that ends with a CR, and the LF before `endstream`, for one end of line.
    return {rule for rule in findings if "STREAM-LENGTH" not in rule or not lengths_are_right(made)}


def lengths_are_right(made: bytes) -> bool:
    """Whether each stream has `endstream` on a line of its own just behind its length."""
    streams = list(re.finditer(rb"/Length (\d+)\b[^>]*>>\nstream\n", made))
    ends = [made[stream.end() + int(stream[1]) :][:10] for stream in streams]
    return len(ends) > 3 and set(ends) == {b"\nendstream"}


@pytest.mark.parametrize("count", [1, 150])
@pytest.mark.parametrize("locale", mostly_slow(LOCALES, "fr", "zh-TW"))
def test_an_archival_file_is_valid_in_every_language(locale: str, count: int) -> None:
    assert broken_rules(archival(invoice(count, locale))) == set()


@examples(50, deadline=None)
@given(text(max_size=60))
@example("\u2068\u05d0\u05d1\u2069 GmbH")
@example("\U0001e960")
@example("\u00d9\u00fe")
def test_an_archival_file_is_valid_whatever_a_name_holds(name: str) -> None:
    made = archival(named(name))
    if HANGUL.encode() not in made:
        assert broken_rules(made) == set()


def test_the_validator_refuses_what_is_not_archival() -> None:
    assert any("ID-SCHEMA" in rule for rule in broken_rules(pdf_bytes(invoice_content(invoice(1)))))
    assert any(
        "RGB" in rule for rule in broken_rules(archival(invoice(1)).replace(b"/OutputIntents", b"/OutputIntentz"))
    )
    assert any("FONT-EMBEDDING" in rule for rule in broken_rules(archival(named("이름"))))


@pytest.mark.parametrize("name", ["Plain", "東京 • נתונים • سلام", "Party \U0001f389 ไทย \x07 \u200d"])
def test_an_archival_file_has_nothing_that_archives_forbid(name: str) -> None:
    made = archival(named(name))
    head, mark = made.split(b"\n", 2)[:2]
    assert head == b"%PDF-1.7"
    assert mark[0:1] == b"%"
    assert min(mark[1:5]) > 127
    with pikepdf.open(BytesIO(made)) as pdf:
        assert "/Encrypt" not in pdf.trailer
        assert not {"/OpenAction", "/AA", "/AcroForm", "/OCProperties"} & set(pdf.Root.keys())
        assert set(pdf.Root.Names.keys()) == {"/EmbeddedFiles"}
        for made_object in pdf.objects:
            if isinstance(made_object, pikepdf.Stream):
                assert "LZW" not in str(made_object.get("/Filter"))
                assert "/F" not in made_object
            elif isinstance(made_object, pikepdf.Dictionary):
                assert made_object.get("/S") not in ("/JavaScript", "/Launch", "/Movie", "/Sound")
        for page in pdf.pages:
            assert "/Annots" not in page
            for font in page.Resources.Font.values():
                # Symbolic, so that codes are those of the font itself.
                assert font.Subtype == "/TrueType"
                assert (int(font.FontDescriptor.Flags) & 4, "/Encoding" in font) == (4, False)
                assert len(font.Widths) == font.LastChar - font.FirstChar + 1
        with pdf.open_metadata() as described:
            assert described["dc:title"] == str(pdf.docinfo["/Title"])
            assert described["dc:creator"] == [str(pdf.docinfo["/Author"])]


def test_what_no_font_has_is_marked_as_such() -> None:
    assert "Party \ufffd \ufffd\ufffd\ufffd" in pages(invoice_content(named("Party \U0001f389 ไทย")))[0]


def test_readers_of_factur_x_find_and_accept_the_xml() -> None:
    name, xml = get_xml_from_pdf(archival(invoice(1)), check_xsd=True, check_schematron=False)
    assert name == "factur-x.xml"
    assert xml.startswith(b"<?xml")


def test_a_file_whose_korean_is_left_to_its_reader_is_not_called_archival() -> None:
    with pikepdf.open(BytesIO(archival(named("이름")))) as pdf, pdf.open_metadata() as described:
        assert described.pdfa_status == ""
        assert len(pdf.Root.AF) == 1
