"""Trials count from the first start, in days of 24 hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.core.builders import fee

from usagebill.core.trials import is_billed_after, trial_end, trial_start

START = datetime(2024, 3, 5, 12, 12, tzinfo=UTC)


def test_a_trial_counts_from_the_earliest_start_under_the_external_id() -> None:
    assert trial_start([START, None, START - timedelta(days=3)], START) == START - timedelta(days=3)
    assert trial_start([None], START) == START


@pytest.mark.parametrize(
    ("days", "end"),
    [
        ("10", datetime(2024, 3, 15, 12, 12, tzinfo=UTC)),
        ("0.5", datetime(2024, 3, 6, 0, 12, tzinfo=UTC)),
        ("0", None),
        ("1e9", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_trial_ends_so_many_days_of_24_hours_later(days: str, end: datetime | None) -> None:
    assert trial_end(START, Decimal(days)) == end


def test_a_plan_without_a_trial_has_no_end_of_it() -> None:
    assert trial_end(START, None) is None


@pytest.mark.parametrize(
    ("ends_at", "is_billed"),
    [
        ("2024-02-29T23:59:59.999999", False),  # noticed after the run that has billed March
        ("2024-03-01T00:00:00", True),
        ("2024-03-31T23:59:59.999999", True),
        ("2024-04-01T00:00:00", False),
    ],
)
def test_the_period_in_which_a_trial_ends_is_billed_by_a_fee_that_covers_the_end(ends_at: str, is_billed: bool) -> None:
    first, last = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 31, 23, 59, 59, 999999, tzinfo=UTC)
    march = replace(fee(100, fee_type="subscription"), from_datetime=first, to_datetime=last)
    at = datetime.fromisoformat(ends_at).replace(tzinfo=UTC)
    assert is_billed_after(at, [march]) is is_billed
    assert not is_billed_after(at, [])
