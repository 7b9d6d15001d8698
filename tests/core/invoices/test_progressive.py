"""Progressive billing invoices: which thresholds they were made for, and where a surplus goes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import NOW, invoice, item, note

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.progressive import (
    applied_threshold,
    billed_less_surplus,
    billed_so_far,
    credited_cents,
    is_invoiced_already,
    left_to_credit,
    passed_on,
)
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.plans import UsageThreshold


@given(st.lists(st.integers(0, 10**9), max_size=6), st.integers(0, 10**9))
def test_a_surplus_goes_back_through_the_earlier_invoices_in_order(credited: list[int], surplus: int) -> None:
    credits = [
        Credit(
            id=str(place),
            amount_cents=cents,
            amount_currency="EUR",
            before_taxes=True,
            item_id=str(place),
            item_type=CreditType.INVOICE,
            item_code="",
            item_name="",
            created_at=NOW,
        )
        for place, cents in enumerate(credited)
    ]
    shares = dict.fromkeys(range(len(credited)), 0) | {
        int(credit.id): cents for credit, cents in passed_on(surplus, credits)
    }
    assert sum(shares.values()) == min(surplus, sum(credited))
    for place, cents in enumerate(credited):
        assert 0 <= shares[place] <= cents
        # Nobody gives back anything before those ahead have given back all.
        assert shares[place] == 0 or all(shares[ahead] == credited[ahead] for ahead in range(place))


def threshold(amount_cents: int) -> UsageThreshold:
    return UsageThreshold(
        id=str(amount_cents), amount_cents=amount_cents, recurring=False, created_at=NOW, updated_at=NOW
    )


def made_for(*amounts: int, invoiced_cents: int = 0, current_cents: int | None = 0, **fields: Any) -> Invoice:
    """A progressive billing invoice for the thresholds of these amounts."""
    applied = [
        applied_threshold(
            threshold(amount),
            id=f"applied-{amount}",
            now=NOW,
            invoiced_cents=invoiced_cents,
            current_cents=current_cents or 0,
            billed_cents=0,
        )
        for amount in amounts
    ]
    kept = tuple(replace(line, current_usage_amount_cents=current_cents) for line in applied)
    return invoice(applied_usage_thresholds=kept, **fields)


def test_an_invoice_keeps_what_usage_came_to_when_it_passed_a_threshold() -> None:
    applied = applied_threshold(
        threshold(1000), id="applied", now=NOW, invoiced_cents=700, current_cents=450, billed_cents=100
    )
    assert applied.lifetime_usage_amount_cents == 700 + 450
    assert applied.invoiced_usage_amount_cents == 700 + 100
    assert (applied.amount_cents, applied.current_usage_amount_cents) == (1000, 450)


@pytest.mark.parametrize(
    ("last", "billed"),
    [
        (None, 0),
        (made_for(1000, current_cents=1200, fees_amount_cents=1150), 1200),
        # Older invoices do not say what usage came to: their fees do.
        (made_for(1000, current_cents=None, fees_amount_cents=1150), 1150),
        (made_for(fees_amount_cents=1150), 1150),
    ],
)
def test_what_the_last_invoice_was_made_for(last: Invoice | None, billed: int) -> None:
    assert billed_so_far(last) == billed


@pytest.mark.parametrize(
    ("invoices", "invoiced", "passed", "expected"),
    [
        ([], 0, [1000], False),
        ([made_for(1000)], 0, [1000], True),
        ([made_for(500, 1000)], 0, [1000], True),
        ([made_for(500)], 0, [500, 1000], False),
        # It was passed from another amount: usage was invoiced since.
        ([made_for(1000, invoiced_cents=300)], 0, [1000], False),
        ([made_for(1000, invoiced_cents=300)], 300, [1000], True),
        ([made_for()], 0, [1000], False),
    ],
)
def test_no_threshold_is_invoiced_twice_from_the_same_amount(
    invoices: list[Invoice], invoiced: int, passed: list[int], expected: bool
) -> None:
    assert is_invoiced_already(invoices, invoiced, [threshold(amount) for amount in passed]) is expected


def progressive_credit(cents: int, source_id: str) -> Credit:
    return Credit(
        id="credit",
        amount_cents=cents,
        amount_currency="EUR",
        before_taxes=False,
        item_id="item",
        item_type=CreditType.INVOICE,
        item_code="INV-001",
        item_name="",
        created_at=NOW,
        source_id=source_id,
    )


BILLED = invoice(id="billed", fees_amount_cents=1000, coupons_amount_cents=100)
SURPLUS = note("surplus", 0, automatic=True, items=(item("fee", "120.6"),), sub_total_excluding_taxes_amount_cents=90)
BY_HAND = note("by hand", 0, items=(item("fee", "50"),), sub_total_excluding_taxes_amount_cents=40)


@pytest.mark.parametrize(
    ("status", "source_id", "credited"),
    [
        ("finalized", "billed", 200),
        ("draft", "billed", 200),
        ("generating", "billed", 200),
        ("finalized", "another", 0),
        ("voided", "billed", 0),
        ("closed", "billed", 0),
        ("deleted", "billed", 0),
    ],
)
def test_what_stands_has_credited_a_progressive_invoice(status: str, source_id: str, credited: int) -> None:
    crediting = invoice(id="final", status=status, credits=(progressive_credit(200, source_id),))
    assert credited_cents(BILLED, [crediting]) == credited
    assert left_to_credit(BILLED, [crediting], [], unbilled_cents=0) == 1000 - 100 - credited


@pytest.mark.parametrize(
    ("credits", "notes", "unbilled_cents", "left", "billed_cents"),
    [
        ((), [], 0, 1000 - 100, 1000 - 100),
        ((), [], 250, 1000 - 100 - 250, 1000 - 100),
        # A surplus counts in full, rounded once; what a person credits was billed, and counts after coupons.
        ((), [SURPLUS], 0, 1000 - 100 - 121, 1000 - 100 - 121),
        ((), [BY_HAND], 0, 1000 - 100 - 40, 1000 - 100),
        ((), [SURPLUS, BY_HAND], 0, 1000 - 100 - 121 - 40, 1000 - 100 - 121),
        # On an invoice that had credits itself, a surplus counts after them.
        ((progressive_credit(300, "earlier"),), [SURPLUS], 0, 1000 - 100 - 90, 1000 - 100 - 90),
        ((), [], 2000, 0, 1000 - 100),
    ],
)
def test_what_is_left_to_credit_of_a_progressive_invoice(
    credits: tuple[Credit, ...], notes: list[CreditNote], unbilled_cents: int, left: int, billed_cents: int
) -> None:
    billed = replace(BILLED, credits=credits)
    assert left_to_credit(billed, [], notes, unbilled_cents=unbilled_cents) == left
    assert billed_less_surplus(billed, notes) == billed_cents
