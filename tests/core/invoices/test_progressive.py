"""Progressive billing invoices: which thresholds they were made for, and where a surplus goes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import NOW, invoice

from usagebill.core.invoices.progressive import applied_threshold, billed_so_far, is_invoiced_already, passed_on
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
