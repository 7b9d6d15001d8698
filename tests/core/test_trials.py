"""Trials count from the first start, in days of 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from usagebill.core.trials import in_trial, trial_end, trial_start

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
    assert not in_trial(START, None, START, None)


def test_a_trial_lasts_from_its_start_until_right_before_its_end() -> None:
    end = START + timedelta(days=10)
    ten = Decimal(10)
    assert in_trial(START, ten, START, None)
    assert in_trial(START, ten, end - timedelta(microseconds=1), None)
    assert not in_trial(START, ten, end, None)
    assert not in_trial(START, ten, START - timedelta(seconds=1), None)
    assert not in_trial(START, ten, START + timedelta(days=1), end)
