"""Progressive billing invoices: where a surplus goes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import NOW

from usagebill.core.invoices.progressive import passed_on
from usagebill.core.invoices.records import Credit, CreditType


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
