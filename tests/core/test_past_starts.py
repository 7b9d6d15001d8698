"""What a start in the past is billed at once, as of which instants, in a table."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from usagebill.core.invoice_triggers import Trigger
from usagebill.core.limits import MOST_PAST_RUNS
from usagebill.core.past_starts import TooManyRuns, open_since, past_billings
from usagebill.core.periods import BillingTime, Cycle, Interval
from usagebill.core.subscriptions import BillFrom

START, RUN, TRIAL_END = Trigger.START, Trigger.RUN, Trigger.TRIAL_END


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cycle(started: str, *, anniversary: bool = False, interval: str = "monthly", tz: str = "UTC") -> Cycle:
    return Cycle(
        interval=Interval(interval),
        billing_time=BillingTime.ANNIVERSARY if anniversary else BillingTime.CALENDAR,
        pay_in_advance=True,
        bill_charges_monthly=False,
        bill_fixed_charges_monthly=False,
        subscription_at=instant(started),
        started_at=instant(started),
        terminated_at=None,
        succession=None,
        tz=ZoneInfo(tz),
    )


@pytest.mark.parametrize(
    ("bill_from", "now", "trial_end", "billed"),
    [
        ("now", "2024-03-20T12:00", None, []),
        ("current_period", "2024-03-20T12:00", None, [("2024-03-01T00:00", START)]),
        ("current_period", "2024-03-01T00:05", None, [("2024-03-01T00:00", START)]),
        ("current_period", "2024-01-20T12:00", None, [("2024-01-10T08:00", START)]),
        ("current_period", "2024-03-20T12:00", "2024-02-20T08:00", [("2024-03-01T00:00", START)]),
        ("current_period", "2024-03-20T12:00", "2024-03-15T08:00", [("2024-03-15T08:00", START)]),
        ("current_period", "2024-03-20T12:00", "2024-03-25T08:00", [("2024-03-01T00:00", START)]),
        ("start", "2024-01-20T12:00", None, [("2024-01-10T08:00", START)]),
        (
            "start",
            "2024-03-20T12:00",
            None,
            [("2024-01-10T08:00", START), ("2024-02-01T00:00", RUN), ("2024-03-01T00:00", RUN)],
        ),
        (
            "start",
            "2024-03-01T00:05",
            "2024-02-20T08:00",
            [
                ("2024-01-10T08:00", START),
                ("2024-02-01T00:00", RUN),
                ("2024-02-20T08:00", TRIAL_END),
                ("2024-03-01T00:00", RUN),
            ],
        ),
        (
            "start",
            "2024-02-20T12:00",
            "2024-02-01T00:00",
            [("2024-01-10T08:00", START), ("2024-02-01T00:00", RUN), ("2024-02-01T00:00", TRIAL_END)],
        ),
        ("start", "2024-01-20T12:00", "2024-01-25T08:00", [("2024-01-10T08:00", START)]),
    ],
)
def test_what_is_billed_of_a_start_on_10_january(
    bill_from: str, now: str, trial_end: str | None, billed: list[tuple[str, Trigger]]
) -> None:
    ends = None if trial_end is None else instant(trial_end)
    billings = past_billings(cycle("2024-01-10T08:00"), instant(now), bill_from=BillFrom(bill_from), trial_end=ends)
    assert billings == [(instant(at), trigger) for at, trigger in billed]


def test_days_are_the_customers() -> None:
    los_angeles = cycle("2024-01-10T08:00", tz="America/Los_Angeles")
    assert open_since(los_angeles, instant("2024-03-01T07:59")) == instant("2024-02-01T08:00")
    assert open_since(los_angeles, instant("2024-03-01T08:00")) == instant("2024-03-01T08:00")
    assert open_since(cycle("2024-01-10T08:00", anniversary=True), instant("2024-03-09T00:00")) == instant(
        "2024-02-10T00:00"
    )


def test_a_start_too_long_ago_is_none() -> None:
    # A Monday, and the last Monday that is near enough: the runs are those of the Mondays after the start.
    weekly = cycle("2022-01-03T00:00", interval="weekly")
    assert len(past_billings(weekly, instant("2024-04-28T00:00"), bill_from=BillFrom.START)) == 1 + MOST_PAST_RUNS
    with pytest.raises(TooManyRuns):
        past_billings(weekly, instant("2024-04-29T00:00"), bill_from=BillFrom.START)
