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


@given(st.lists(st.tuples(_CENTS, st.booleans()), min_size=1, max_size=8), _CENTS)
def test_what_was_asked_for_voided_invoices_comes_after_what_is_due_of_the_others(
    requested: list[tuple[int, bool]], amount: int
) -> None:
    voided = {place: cents for place, (cents, is_voided) in enumerate(requested) if is_voided}
    dues = [0 if is_voided else cents for cents, is_voided in requested]
    shares = distributed(amount, dues, voided)
    assert sum(shares) == amount
    assert min(shares) >= 0
    payable = [place for place in range(len(requested)) if place not in voided]
    wanted, unwanted = sum(dues), sum(voided.values())
    # The rest is given back, up to what was asked for voided ones; beyond that it stays where a note can refund it.
    returned = sum(shares[place] for place in voided)
    assert returned == (min(max(0, amount - wanted), unwanted) if payable else amount)
    assert sum(shares[place] for place in payable) == amount - returned
