"""What a payment of several invoices pays of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from usagebill.core.payment_requests import distributed

_CENTS = st.integers(0, 10**12)


@given(st.lists(_CENTS, min_size=1, max_size=8), _CENTS)
def test_all_that_was_paid_is_distributed_and_nothing_more(dues: list[int], amount: int) -> None:
    shares = distributed(amount, dues)
    assert sum(shares) == amount
    assert len(shares) == len(dues)
    assert min(shares) >= 0
    for position, (share, due) in enumerate(zip(shares, dues, strict=True)):
        # Only the last gets more than is due, and nobody gets anything before those ahead have all of it.
        assert share <= due or position == len(dues) - 1
        assert share == 0 or shares[:position] == dues[:position]


@given(st.lists(_CENTS, min_size=1, max_size=8))
def test_what_was_asked_for_pays_every_invoice(dues: list[int]) -> None:
    assert distributed(sum(dues), dues) == dues
