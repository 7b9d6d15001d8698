"""Recurring revenue: how a fee is spread over the months that it is for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from usagebill.core.analytics import RecurringFee, cents, months_between, recurring_revenue, spread


def fee(
    amount: int | Decimal,
    issued: str,
    interval: str = "monthly",
    start: str = "2024-01-01",
    last: str = "2024-01-31",
    *,
    in_advance: bool = True,
    count: int = 1,
) -> RecurringFee:
    """A fee for the days from `start` to `last`."""
    begins = datetime.fromisoformat(start).replace(tzinfo=UTC)
    ends = datetime.fromisoformat(last).replace(tzinfo=UTC) + timedelta(days=1, microseconds=-1)
    return RecurringFee(
        issued=date.fromisoformat(issued),
        currency="EUR",
        interval=interval,
        in_advance=in_advance,
        start=begins,
        end=ends,
        amount=Decimal(amount),
        count=count,
    )


def rounded(parts: dict[date, Fraction]) -> dict[str, str]:
    """Month -> amount with two decimals."""
    return {f"{month:%Y-%m}": f"{float(part):.2f}" for month, part in sorted(parts.items())}


def test_a_year_in_advance_of_a_leap_year_reaches_into_a_thirteenth_month() -> None:
    parts = rounded(spread(fee(120_000, "2024-01-01", "yearly", "2024-01-01", "2024-12-31")))
    assert parts.pop("2025-01") == "235.84"
    assert parts == {f"2024-{month:02}": "9980.35" for month in range(1, 13)}


def test_a_year_in_advance_of_any_other_year() -> None:
    parts = rounded(spread(fee(120_000, "2023-01-01", "yearly", "2023-01-01", "2023-12-31")))
    assert parts.pop("2023-12") == "9915.41"
    assert parts == {f"2023-{month:02}": "10007.69" for month in range(1, 12)}


def test_a_quarter_in_advance_from_the_middle_of_a_month() -> None:
    parts = rounded(spread(fee(30_000, "2024-01-16", "quarterly", "2024-01-16", "2024-04-15")))
    assert parts == {"2024-01": "5179.48", "2024-02": "10035.24", "2024-03": "14785.28"}


def test_arrears_end_with_the_month_of_the_invoice() -> None:
    parts = rounded(spread(fee(30_000, "2024-04-01", "quarterly", "2024-01-01", "2024-03-31", in_advance=False)))
    assert parts == {"2024-02": "9929.52", "2024-03": "10035.24", "2024-04": "10035.24"}


def test_a_short_first_period_is_of_the_month_of_its_invoice() -> None:
    assert spread(fee(500, "2024-12-20", "yearly", "2024-12-20", "2024-12-31")) == {date(2024, 12, 1): 500}


def test_a_fee_whose_period_is_not_known_is_of_the_month_of_its_invoice() -> None:
    unknown = RecurringFee(
        issued=date(2024, 5, 6),
        currency="EUR",
        interval="yearly",
        in_advance=True,
        start=None,
        end=None,
        amount=Decimal(7),
        count=1,
    )
    assert spread(unknown) == {date(2024, 5, 1): 7}


def test_weekly_fees_count_as_their_mean_more_than_four_times() -> None:
    fees = [fee(1000, "2024-03-04", "weekly", count=2), fee(200, "2024-03-25", "weekly"), fee(50, "2024-03-01")]
    assert recurring_revenue(fees) == {(date(2024, 3, 1), "EUR"): Fraction(1200, 3) * Fraction(433, 100) + 50}


def test_weekly_plans_count_each_customer() -> None:
    # Five customers at 10.00 a week, four or five weeks each: 5 x 10.00 x 4.33 = 216.50.
    fees = [
        replace(fee(1000, f"2024-03-{day:02}", "weekly"), subscription_id=str(customer))
        for customer in range(5)
        for day in range(1 + customer, 32, 7)
    ]
    assert recurring_revenue(fees) == {(date(2024, 3, 1), "EUR"): 21_650}


@given(
    amount=st.decimals(-(10**6), 10**9, places=5),
    issued=st.dates(date(2000, 1, 1), date(2100, 1, 1)),
    interval=st.sampled_from(["monthly", "quarterly", "semiannual", "yearly"]),
    start=st.dates(date(2000, 1, 1), date(2100, 1, 1)),
    days=st.integers(0, 400),
    in_advance=st.booleans(),
)
def test_the_parts_of_a_fee_add_up_to_it_over_months_without_a_gap(
    amount: Decimal, issued: date, interval: str, start: date, days: int, in_advance: bool
) -> None:
    last = start + timedelta(days=days)
    parts = spread(
        fee(amount, issued.isoformat(), interval, start.isoformat(), last.isoformat(), in_advance=in_advance)
    )
    assert sum(parts.values()) == Fraction(amount)
    months = sorted(parts)
    assert months == months_between(months[0], months[-1])
    assert (months[0] if in_advance else months[-1]) == date(issued.year, issued.month, 1)
    # A month is 30.44 days, and one that has only begun counts.
    assert interval == "monthly" or len(parts) == max(1, -(-(days + 1) * 100 // 3044))


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(Fraction(1, 2), 1), (Fraction(-1, 2), -1), (Fraction(1, 3), 0), (Fraction(2, 3), 1), (Fraction(10**40), 10**40)],
)
def test_amounts_are_rounded_once_and_half_away_from_zero(amount: Fraction, expected: int) -> None:
    assert cents(amount) == expected
