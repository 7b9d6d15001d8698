"""What credit notes say to people."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.documents.builders import fee, note_source, source, tax

from usagebill.core.credit_notes import CreditNoteReason
from usagebill.core.documents.credit_notes import credit_note_content

INVOICE = source((fee("a", 1000), fee("b", 500, "0")))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"credit_amount_cents": 500}, "Credited on customer balance on Feb 10, 2024"),
        ({"refund_amount_cents": 500}, "Refunded on Feb 10, 2024"),
        ({"offset_amount_cents": 500}, "Offset on invoice LUM-001-001 on Feb 10, 2024"),
        ({"credit_amount_cents": 200, "refund_amount_cents": 300}, "Issued on Feb 10, 2024"),
    ],
)
def test_it_says_how_it_was_given(parts: dict[str, Any], expected: str) -> None:
    content = credit_note_content(note_source(INVOICE, {"a": 500}, total_amount_cents=500, **parts))
    assert content.about == (expected,)
    assert (content.title, content.amount, content.recipient.heading) == ("Credit note", "€5.00", "Credit to")
    assert content.facts == (
        ("Credit note number", "LUM-001-001-CN001"),
        ("Invoice number", "LUM-001-001"),
        ("Issue date", "Feb 10, 2024"),
        ("Reason", "Other"),
    )


@pytest.mark.parametrize("reason", CreditNoteReason)
def test_it_says_why(reason: CreditNoteReason) -> None:
    of = source((fee("a", 100),), locale="de")
    content = credit_note_content(note_source(of, {"a": 100}, reason=reason, description="Two lines\nof why"))
    (shown_reason,) = (value for label, value in content.facts if label == "Grund")
    assert shown_reason != reason
    assert content.notes == ("Two lines\nof why",)
    assert credit_note_content(note_source(of, {"a": 100}, reason=reason, description=" ")).notes == ()


def test_items_and_totals_stand_in_order() -> None:
    of = note_source(
        INVOICE,
        {"b": 500, "a": 700},
        coupons_adjustment_amount_cents=100,
        sub_total_excluding_taxes_amount_cents=1100,
        taxes_amount_cents=120,
        applied_taxes=(tax("20", 600, 120),),
        total_amount_cents=1220,
        credit_amount_cents=1000,
        refund_amount_cents=120,
        offset_amount_cents=100,
    )
    [page] = credit_note_content(of).pages
    [table] = page.tables
    assert table.columns == ("Item", "Tax rate", "Amount")
    assert [(row.name, row.tax_rate, row.amount) for row in table.rows] == [
        ("Shown a", "20%", "€7.00"),
        ("Shown b", "0%", "€5.00"),
    ]
    assert [(total.label, total.amount) for total in page.totals] == [
        ("Coupons", "-€1.00"),
        ("Subtotal (excl. tax)", "€11.00"),
        ("VAT (20% on €6.00)", "€1.20"),
        ("Offset on the invoice", "€1.00"),
        ("Credited on customer balance", "€10.00"),
        ("Refunded", "€1.20"),
        ("Total", "€12.20"),
    ]


def test_of_a_top_up_it_has_one_line_and_no_taxes() -> None:
    top_up = source((fee("a", 1000, "0", fee_type="credit"),), invoice_type="credit")
    of = note_source(top_up, {"a": 400}, total_amount_cents=400, refund_amount_cents=400)
    [page] = credit_note_content(of).pages
    assert [(row.name, row.amount) for row in page.tables[0].rows] == [("Shown a", "€4.00")]
    assert [total.label for total in page.totals] == ["Refunded", "Total"]
