"""Usage billed ahead is audited: billed once, and deducted in full by the invoice of its period."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import NOW, fee, invoice, item, note

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.records import Credit, CreditType
from usagebill.core.progressive_audit import InvoiceOfPeriod, ProgressivePeriod, audited_progressive


def ahead(id: str, usage: int, deducted: int = 0, *notes: CreditNote, status: str = "finalized") -> InvoiceOfPeriod:
    """A progressive billing invoice of `usage`, less what it deducted."""
    billed = invoice(
        id=id,
        number=id,
        status=status,
        invoice_type="progressive_billing",
        fees_amount_cents=usage,
        progressive_billing_credit_amount_cents=deducted,
    )
    return InvoiceOfPeriod(
        invoice=billed, fees=[fee(usage, id=f"fee {id}", charge_id="calls", subscription_id="sub")], notes=notes
    )


def closing(usage: int, deducted: int, *, status: str = "finalized", source_id: str = "P1") -> InvoiceOfPeriod:
    """The period's invoice."""
    line = Credit(
        id="credit",
        amount_cents=deducted,
        amount_currency="EUR",
        before_taxes=True,
        item_id=source_id,
        item_type=CreditType.INVOICE,
        item_code=source_id,
        item_name=source_id,
        created_at=NOW,
        source_id=source_id,
    )
    fees = [
        fee(usage, id="usage", charge_id="calls", subscription_id="sub"),
        fee(500, id="other usage", charge_id="seats", subscription_id="sub"),
        fee(700, id="base", fee_type="subscription", subscription_id="sub"),
    ]
    return InvoiceOfPeriod(invoice=invoice(id="I", number="I", status=status, credits=(line,)), fees=fees)


SURPLUS = note(
    "surplus", 400, automatic=True, items=(item("fee P1", "400"),), sub_total_excluding_taxes_amount_cents=400
)
BY_HAND = note("by hand", 400, items=(item("fee P1", "400"),), sub_total_excluding_taxes_amount_cents=400)
ALL_BY_HAND = replace(BY_HAND, items=(item("fee P1", "1000"),), sub_total_excluding_taxes_amount_cents=1000)


def found(of_ahead: list[InvoiceOfPeriod], *of_closing: InvoiceOfPeriod) -> list[tuple[str, str, str]]:
    period = ProgressivePeriod(subscription_id="sub", external_id="sub", ahead=of_ahead, closing=of_closing)
    return [(finding.detail, finding.expected, finding.found) for finding in audited_progressive(period)]


@pytest.mark.parametrize(
    ("of_ahead", "of_closing"),
    [
        ([ahead("P1", 1000)], [closing(3000, 1000)]),
        ([ahead("P1", 1000), ahead("P2", 2000, 1000)], [closing(3000, 2000, source_id="P2")]),
        # 10.00, regenerated after 20.00 had been billed in full, bills nothing.
        ([ahead("P2", 2000), ahead("P1", 1000, 1000)], [closing(3000, 2000)]),
        # Usage fell to 6.00: 4.00 were given back.
        ([ahead("P1", 1000, 0, SURPLUS)], [closing(600, 600)]),
        # A note made by hand is not billed again.
        ([ahead("P1", 1000, 0, BY_HAND)], [closing(3000, 1000)]),
        # It leaves less to give back of a surplus.
        ([ahead("P1", 1000, 0, ALL_BY_HAND), ahead("P2", 2000)], []),
        # One was voided after its period had deducted it: regenerated, it is deducted already.
        ([ahead("P1", 1000, status="voided"), ahead("P2", 2000, 1000)], [closing(3000, 2000)]),
        # A draft is computed again.
        ([ahead("P1", 1000)], [closing(3000, 400, status="draft")]),
        ([], [closing(3000, 0)]),
    ],
)
def test_nothing_is_found_in_right_books(of_ahead: list[InvoiceOfPeriod], of_closing: list[InvoiceOfPeriod]) -> None:
    assert found(of_ahead, *of_closing) == []


@pytest.mark.parametrize(
    ("of_ahead", "of_closing", "findings"),
    [
        # 20.00 in full and 10.00 of them once more.
        (
            [ahead("P2", 2000), ahead("P1", 1000)],
            [closing(4000, 3000)],
            [("usage billed ahead, invoice P1", "at most 2000", "3000")],
        ),
        ([ahead("P1", 1000), ahead("P2", 2000, 1000)], [closing(4000, 1000)], [("", "2000", "1000")]),
        # The 4.00 of a note made by hand are billed again.
        ([ahead("P1", 1000, 0, BY_HAND)], [closing(3000, 600)], [("", "1000", "600")]),
        # A surplus is given back twice.
        ([ahead("P1", 1000, 0, SURPLUS)], [closing(1000, 1000)], [("", "600", "1000")]),
        # Usage that the period does not have is deducted.
        ([ahead("P1", 1000)], [closing(600, 1000)], [("", "600", "1000")]),
    ],
)
def test_wrong_sums_are_found(of_ahead: Any, of_closing: Any, findings: list[tuple[str, str, str]]) -> None:
    deducted = "deducted of usage billed ahead, invoice I"
    assert found(of_ahead, *of_closing) == [(detail or deducted, expected, is_) for detail, expected, is_ in findings]


def test_a_surplus_on_an_invoice_with_deductions_counts_after_them() -> None:
    given_back = replace(SURPLUS, sub_total_excluding_taxes_amount_cents=400, items=(item("fee P2", "800"),))
    books = [ahead("P1", 1000), ahead("P2", 2000, 1000, given_back)]
    assert found(books, closing(1600, 1600)) == []
    assert found(books, closing(1600, 1200)) == [("deducted of usage billed ahead, invoice I", "1600", "1200")]
