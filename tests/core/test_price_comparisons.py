"""Price lists compared: the month that is compared unless another period is named."""

from __future__ import annotations

from datetime import date

import pytest

from usagebill.core.price_comparisons import last_month


@pytest.mark.parametrize(
    ("today", "first", "last"),
    [
        (date(2024, 3, 31), date(2024, 2, 1), date(2024, 2, 29)),
        (date(2024, 3, 1), date(2024, 2, 1), date(2024, 2, 29)),
        (date(2024, 1, 15), date(2023, 12, 1), date(2023, 12, 31)),
    ],
)
def test_the_month_before_today(today: date, first: date, last: date) -> None:
    assert last_month(today) == (first, last)
