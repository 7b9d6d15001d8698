"""Progressive billing invoices: which thresholds they were made for, and what they have billed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import NOW, invoice, item, note

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.progressive import (
    applied_threshold,
    billed_ahead_by,
    billed_so_far,
    deducted_cents,
    discounts,
    is_invoiced_already,
    with_returned,
)
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.plans import UsageThreshold


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


@pytest.mark.parametrize(
    ("status", "invoice_type", "source_id", "deducted"),
    [
        ("finalized", "subscription", "billed", 200),
        ("draft", "subscription", "billed", 200),
        ("generating", "subscription", "billed", 200),
        # The period's invoice keeps what it deducted for one that was voided since.
        ("finalized", "subscription", "voided", 200),
        ("finalized", "subscription", "another", 0),
        # Progressive billing invoices say themselves what they bill.
        ("finalized", "progressive_billing", "billed", 0),
        ("voided", "subscription", "billed", 0),
        ("closed", "subscription", "billed", 0),
        ("deleted", "subscription", "billed", 0),
    ],
)
def test_what_stands_has_deducted_what_was_billed_ahead(
    status: str, invoice_type: str, source_id: str, deducted: int
) -> None:
    deducting = invoice(
        id="final", status=status, invoice_type=invoice_type, credits=(progressive_credit(200, source_id),)
    )
    assert deducted_cents({"billed", "voided"}, [deducting]) == deducted


BILLED = invoice(id="billed", fees_amount_cents=1000, coupons_amount_cents=100)
SURPLUS = note("surplus", 0, automatic=True, items=(item("fee", "120.6"),), sub_total_excluding_taxes_amount_cents=90)
BY_HAND = note("by hand", 0, items=(item("fee", "50"),), sub_total_excluding_taxes_amount_cents=40)


@pytest.mark.parametrize(
    ("credited_cents", "notes", "billed_cents"),
    [
        # Coupons are carried with what they discounted.
        (0, [], 1000),
        # A surplus counts less coupons.
        (0, [SURPLUS], 1000 - 90),
        # What a person credits was billed all the same: the period does not bill it again.
        (0, [BY_HAND], 1000),
        (0, [SURPLUS, BY_HAND], 1000 - 90),
        (300, [SURPLUS], 1000 - 300 - 90),
    ],
)
def test_what_a_progressive_invoice_has_billed_itself(
    credited_cents: int, notes: list[CreditNote], billed_cents: int
) -> None:
    billed = replace(BILLED, progressive_billing_credit_amount_cents=credited_cents)
    assert billed_ahead_by(billed, notes) == billed_cents


def _discounted(id: str, *lines: tuple[str, int, int]) -> Invoice:
    """An invoice on which coupons gave and got back cents: applied coupon, given, returned."""
    credits = [
        replace(progressive_credit(cents, source_id), item_type=CreditType.COUPON, returned_cents=returned)
        for source_id, cents, returned in lines
    ]
    return invoice(id=id, fees_amount_cents=1000, credits=tuple(credits))


def test_usage_whose_discount_went_back_to_the_coupon_is_not_billed() -> None:
    assert billed_ahead_by(_discounted("billed", ("five", 500, 300), ("half", 100, 0)), [SURPLUS]) == 1000 - 90 - 300


def test_a_discount_that_went_back_whole_is_none() -> None:
    billed = [
        _discounted("first", ("five", 500, 300), ("none", 0, 0), ("gone", 70, 70)),
        _discounted("last", ("five", 9, 0)),
    ]
    assert discounts(billed) == {"five": 209, "none": 0}


@pytest.mark.parametrize(
    ("cents", "returned"),
    [
        (0, {}),
        (9, {"last": [9]}),
        (10, {"last": [9], "first": [301, 0]}),
        (209, {"last": [9], "first": [500, 0]}),
    ],
)
def test_the_last_invoice_gives_back_first(cents: int, returned: dict[str, list[int]]) -> None:
    billed = [_discounted("first", ("five", 500, 300), ("half", 100, 0)), _discounted("last", ("five", 9, 0))]
    changed = with_returned(billed, {"five": cents})
    assert {after.id: [line.returned_cents for line in after.credits] for after in changed} == returned
