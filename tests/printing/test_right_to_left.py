"""Arabic and Hebrew on documents: joined, drawn from right to left, within the available width."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given, strategies as st
from pypdf import PdfReader
from tests.core.documents.builders import fee, source
from tests.examples import examples

from usagebill.core.documents.invoices import invoice_content
from usagebill.printing.fonts import REGULAR, load_fonts, width_of
from usagebill.printing.pdf import pdf_bytes
from usagebill.printing.right_to_left import drawn_lines, is_mixed, visual

# As they are stored, and as they are drawn from left to right.
DRAWN = {
    "Hebrew": ("שלום עולם", "םלוע םולש"),
    "a number in it": ("רחוב הרצל 12, תל אביב", "ביבא לת ,12 לצרה בוחר"),
    "Latin in brackets": ("בדיקות (Tests)", "(Tests) תוקידב"),
    "Hebrew within Latin": ("Tokens • מודל, input", "Tokens • לדומ, input"),
    "points are left out": ("שָׁלוֹם", "םולש"),
    "Arabic letters are joined": ("سلام", "\ufee1\ufefc\ufeb3"),
    "each word by itself": ("ب ب", "\ufe8f \ufe8f"),
    "Persian": ("پگ", "\ufb93\ufb58"),
}


def measured(text: str) -> float:
    load_fonts()
    return width_of(text, REGULAR, 8.5)


@pytest.mark.parametrize(("stored", "drawn"), DRAWN.values(), ids=DRAWN)
def test_a_line_is_drawn_as_it_is_read(stored: str, drawn: str) -> None:
    assert is_mixed(stored)
    (line,) = drawn_lines(stored, 1000, measured)
    assert line == drawn


def test_lines_are_broken_before_they_are_turned() -> None:
    first, second = drawn_lines("אחת שתיים שלוש", measured("אחת שתיים") + 1, measured)
    assert (first, second) == ("םייתש תחא", "שולש")


@examples(200)
@given(st.text(alphabet="אבגד هوز ab 12(),.•", min_size=1, max_size=120), st.floats(30, 400))
def test_no_line_is_too_wide_and_no_letter_is_lost(text: str, width: float) -> None:
    lines = drawn_lines(text, width, measured)
    assert all(measured(line) <= width + 0.01 for line in lines)
    hebrew = "אבגדab12"
    assert sorted(letter for letter in text if letter in hebrew) == sorted(
        letter for line in lines for letter in line if letter in hebrew
    )


def test_a_name_of_many_lines_flows_over_pages() -> None:
    name = "אחסון נתונים בענן " * 400
    plain = fee("a", 100)
    item = plain.item.__class__(type=plain.item.type, item_type="AddOn", id="a", code="a", name=name)
    drawn = PdfReader(BytesIO(pdf_bytes(invoice_content(source((fee("a", 100, item=item),)))))).pages
    assert len(drawn) > 1
    assert sum(page.extract_text().count("ןנעב") + page.extract_text().count("בענן") for page in drawn) == 400


def test_other_texts_are_no_concern_of_it() -> None:
    assert not any(is_mixed(text) for text in ("Ünïcødé", "東京", "서울", "Ελλάδα", "Москва", "12 € — 50 %"))


@pytest.mark.parametrize("sign", ["\u2066", "\u2067", "\u2068", "\u2069", "\U0001e960", "\U0001efff"])
def test_isolates_and_unassigned_signs_break_no_line(sign: str) -> None:
    shown = visual(f"{sign}אב{sign} GmbH")
    assert "בא" in shown
    assert "GmbH" in shown
