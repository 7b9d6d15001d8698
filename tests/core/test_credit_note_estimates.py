"""Estimates of credit notes: what a note over some items could credit, refund and offset, in tables."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.core.builders import NOW, ids
from tests.core.test_credit_note_balance import FEES_CENTS, NET_CENTS, PAID, PAID_TOP_UP, TOTAL_CENTS, balance

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_note_estimates import estimate_of


@pytest.mark.parametrize(
    ("of", "items", "creditable", "refundable", "offsettable", "taxes"),
    [
        (balance(**PAID), ["1000"], 1200, 1200, 0, 200),
        (balance(), ["1000"], 1200, 0, 1200, 200),
        (balance(total_paid_amount_cents=TOTAL_CENTS - 500), ["1000"], 1200, 1200, 500, 200),
        # All of it, and fractions of cents, which count for nothing.
        (balance(**PAID), [str(cents) for cents in FEES_CENTS], TOTAL_CENTS, TOTAL_CENTS, 0, NET_CENTS * 20 // 100),
        (balance(**PAID), ["1000.9"], 1200, 1200, 0, 200),
        # Credits of a wallet that holds 2500 of them: money only, and without taxes.
        (balance(unused_cents=2500, **PAID_TOP_UP), ["1000"], 0, 1000, 0, 0),
        (balance(unused_cents=2500, **PAID_TOP_UP), ["6000"], 0, 2500, 0, 0),
    ],
)
def test_what_a_note_could_give(
    of: Balance, items: list[str], creditable: int, refundable: int, offsettable: int, taxes: int
) -> None:
    sent = [(fee, Decimal(amount)) for fee, amount in zip(of.fees, items, strict=False)]
    estimate = estimate_of(of, sent, now=NOW, new_id=ids())
    amounts = estimate.amounts
    assert (amounts.max_creditable_cents, amounts.max_refundable_cents) == (creditable, refundable)
    assert (estimate.max_offsettable_cents, amounts.taxes_cents) == (offsettable, taxes)
    assert [cents for _, cents in estimate.items] == [int(Decimal(amount)) for amount in items]
