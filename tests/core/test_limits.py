"""Ranges of numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core import limits
from usagebill.core.limits import TABLE, Range
from usagebill.core.numbers import add, subtract


@pytest.mark.parametrize("limit", TABLE, ids=lambda limit: limit.label)
def test_both_ends_are_in_the_range(limit: Range) -> None:
    step = Decimal((0, (1,), -limit.decimals))
    assert limit.holds(limit.least)
    assert limit.holds(limit.most)
    assert not limit.holds(subtract(limit.least, step))
    assert not limit.holds(add(limit.most, step))


def test_zeros_at_the_end_are_no_decimals() -> None:
    assert limits.PAYMENT_TERM.holds(Decimal("30.000"))
    assert not limits.PAYMENT_TERM.holds(Decimal("30.5"))
    assert limits.CHARGE_AMOUNT.holds(Decimal("0.1" + "0" * 60))
    assert not limits.CHARGE_AMOUNT.holds(Decimal("0.1" + "0" * 60 + "1"))


@given(st.sampled_from(TABLE), st.decimals(allow_nan=False, allow_infinity=False))
def test_what_a_range_holds_is_never_beyond_it(limit: Range, number: Decimal) -> None:
    assert not (limit.holds(number) and limit.is_beyond(number))
    assert limit.holds(number) or limit.is_beyond(number) or number < limit.least
