"""Periods that follow on from what has been billed: facts about the last run and the time zones, and the windows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from usagebill.core.periods import BillingTime, Boundaries, Cycle, Interval, Succession, Window, billing_boundaries
from usagebill.core.periods.continuation import BilledWindow, continued

LOS_ANGELES = ZoneInfo("America/Los_Angeles")
STARTED_AT = datetime(2022, 1, 5, 10, tzinfo=UTC)
MONTHLY = Cycle(
    interval=Interval.MONTHLY,
    billing_time=BillingTime.CALENDAR,
    pay_in_advance=False,
    subscription_at=STARTED_AT,
    started_at=STARTED_AT,
    tz=UTC,
)
MOVED = replace(MONTHLY, tz=LOS_ANGELES)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def run(at: str, cycle: Cycle = MONTHLY) -> Boundaries:
    return billing_boundaries(cycle, instant(at))


def billed(window: Window | None, cycle: Cycle = MONTHLY) -> BilledWindow | None:
    return None if window is None else BilledWindow(window=window, tz=cycle.tz)


def after(cycle: Cycle, fresh: Boundaries, last: Boundaries | None, created_at: datetime = STARTED_AT) -> Boundaries:
    """`fresh` after `last`, which a run billed in UTC."""
    return continued(
        cycle,
        fresh,
        created_at=created_at,
        fee=billed(last.subscription) if last else None,
        charges=billed(last.charges) if last else None,
        fixed_charges=billed(last.fixed_charges) if last else None,
    )


@pytest.mark.parametrize(
    ("cycle", "at", "last_run", "charges_start"),
    [
        # In the same time zone, windows lie side by side already.
        (MONTHLY, "2022-03-01T00:10", "2022-02-01T00:10", "2022-02-01T00:00"),
        # West of the last run the month begins later, but what was used until then is not lost.
        (MOVED, "2022-03-01T08:10", "2022-02-01T00:10", "2022-02-01T00:00"),
        # Much earlier runs decide nothing.
        (MOVED, "2022-05-01T07:10", "2022-02-01T00:10", "2022-04-01T07:00"),
        # Before the first run, the window begins with the start.
        (MOVED, "2022-02-01T08:10", None, "2022-01-05T10:00"),
    ],
)
def test_usage_continues_right_after_the_last_run(
    cycle: Cycle, at: str, last_run: str | None, charges_start: str
) -> None:
    boundaries = after(cycle, run(at, cycle), None if last_run is None else run(last_run))
    for window in (boundaries.charges, boundaries.fixed_charges):
        assert window is not None
        assert window.start == instant(charges_start)
    assert boundaries.subscription == run(at, cycle).subscription


@pytest.mark.parametrize(
    ("created_at", "charges_start"),
    [
        # 1 February, 05:00 UTC, is 31 January in Los Angeles: nothing has billed what lies before midnight there.
        ("2022-02-01T05:00", "2022-02-01T05:00"),
        # Entered after that midnight, with a start before it: what lies before is not billed.
        ("2022-02-01T09:00", "2022-02-01T08:00"),
    ],
)
def test_the_first_window_begins_with_the_start_if_only_a_new_zone_put_a_billing_day_in_between(
    created_at: str, charges_start: str
) -> None:
    cycle = replace(MOVED, subscription_at=instant("2022-02-01T05:00"), started_at=instant("2022-02-01T05:00"))
    boundaries = after(cycle, run("2022-03-01T08:10", cycle), None, instant(created_at))
    assert boundaries.charges is not None
    assert boundaries.charges.start == instant(charges_start)


@pytest.mark.parametrize(
    ("ended", "succession", "pay_in_advance", "fee_start"),
    [
        (True, None, False, "2022-01-31T08:00"),
        (True, Succession.UPGRADE, False, "2022-01-31T08:00"),
        (True, Succession.DOWNGRADE, False, "2022-01-05T08:00"),
        (True, None, True, "2022-01-05T08:00"),
        (False, None, False, "2022-01-05T08:00"),
    ],
)
def test_only_an_end_in_arrears_leaves_out_the_days_that_a_run_billed_in_another_zone(
    ended: bool, succession: Succession | None, pay_in_advance: bool, fee_start: str
) -> None:
    """January as the run of 1 February (UTC) billed it ends in Los Angeles on the afternoon of the 31st."""
    cycle = replace(
        MOVED,
        terminated_at=instant("2022-02-02T20:00") if ended else None,
        succession=succession,
        pay_in_advance=pay_in_advance,
    )
    fresh = run("2022-02-01T08:10", MOVED)
    assert fresh.subscription.start == instant("2022-01-05T08:00")
    last = run("2022-02-01T00:10")
    boundaries = continued(
        cycle, fresh, created_at=STARTED_AT, fee=billed(last.subscription), charges=None, fixed_charges=None
    )
    assert boundaries.subscription.start == instant(fee_start)
