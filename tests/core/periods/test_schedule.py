"""The instants at which things fall due."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.days import local_date
from usagebill.core.periods import BillingTime, Cycle, Interval
from usagebill.core.periods.schedule import (
    activation_at,
    billing_days,
    draft_finalization_at,
    end_before_run,
    ending_at_instant,
    gate_expiry_at,
    is_billing_day,
    latest_boundary,
    next_billing_run,
    next_close,
    next_termination_alert,
    overdue_at,
    termination_alerts,
    trial_end_before_run,
    trial_end_run,
)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cycle(plan: str, started_at: str, zone: str = "UTC") -> Cycle:
    words = plan.split()
    return Cycle(
        interval=Interval(words[0]),
        billing_time=BillingTime(words[1]),
        pay_in_advance=False,
        bill_charges_monthly="C" in words,
        bill_fixed_charges_monthly="F" in words,
        subscription_at=instant(started_at),
        started_at=instant(started_at),
        tz=ZoneInfo(zone),
    )


@pytest.mark.parametrize(
    ("plan", "days"),
    [
        ("weekly calendar", "01-22 01-29 02-05 02-12"),  # Mondays
        ("weekly anniversary", "01-24 01-31 02-07 02-14"),
        ("monthly calendar", "02-01 03-01 04-01 05-01"),
        ("monthly anniversary", "02-17 03-17 04-17"),
        ("quarterly calendar", "04-01 07-01 10-01"),
        ("quarterly anniversary", "04-17 07-17 10-17"),
        ("semiannual calendar", "07-01"),
        ("semiannual anniversary", "07-17"),
        ("semiannual calendar C", "02-01 03-01 04-01 05-01"),
        ("yearly anniversary F", "02-17 03-17 04-17"),
        ("yearly calendar", ""),
        ("yearly anniversary", ""),
    ],
)
def test_billing_days_of_every_interval(plan: str, days: str) -> None:
    subscription = cycle(plan, "2024-01-17T10:00:00")
    year = [date(2024, 1, 1) + timedelta(days=ahead) for ahead in range(366)]
    billing_days = [day.strftime("%m-%d") for day in year if is_billing_day(subscription, day)]
    assert billing_days[: len(days.split())] == days.split()
    assert days or billing_days == []


@pytest.mark.parametrize(
    ("anchor", "days"),
    [
        ("2024-02-29", ["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]),
        ("2023-02-28", ["2024-02-28", "2025-02-28", "2026-02-28"]),
    ],
)
def test_a_leap_day_is_celebrated_on_the_28th_in_common_years(anchor: str, days: list[str]) -> None:
    subscription = cycle("yearly anniversary", f"{anchor}T10:00:00")
    run, runs = subscription.started_at, []
    for _ in days:
        run = next_billing_run(subscription, run, billed_on=run.date())
        runs.append(run.date().isoformat())
    assert runs == days


@pytest.mark.parametrize(
    ("zone", "run"),
    [
        ("UTC", "2024-02-01T00:10:00"),
        ("America/Bogota", "2024-02-01T05:10:00"),
        ("Asia/Tokyo", "2024-01-31T15:10:00"),
        ("Asia/Kolkata", "2024-01-31T18:40:00"),
        ("Asia/Kathmandu", "2024-01-31T18:25:00"),
    ],
)
def test_a_run_comes_ten_minutes_after_the_local_midnight(zone: str, run: str) -> None:
    subscription = cycle("monthly calendar", "2024-01-17T10:00:00", zone)
    assert next_billing_run(subscription, subscription.started_at) == instant(run)


def test_a_start_in_the_past_told_of_on_a_billing_day_is_billed_within_the_hour() -> None:
    subscription = cycle("monthly calendar", "2024-01-17T10:00:00")
    assert next_billing_run(subscription, instant("2024-03-01T09:30:00")) == instant("2024-03-01T10:10:00")
    assert next_billing_run(subscription, instant("2024-03-01T23:30:00")) == instant("2024-04-01T00:10:00")
    assert next_billing_run(subscription, instant("2024-03-01T09:30:00"), billed_on=date(2024, 3, 1)) == instant(
        "2024-04-01T00:10:00"
    )


def test_a_late_first_payment_leaves_the_latest_boundary_to_bill() -> None:
    yearly = cycle("yearly calendar C", "2026-11-10T09:00:00")
    assert latest_boundary(yearly, instant("2027-01-05T12:00:00")) == instant("2027-01-01T00:00:00")
    assert latest_boundary(yearly, instant("2026-11-30T12:00:00")) is None
    tokyo = cycle("monthly calendar", "2026-03-01T09:00:00", "Asia/Tokyo")
    assert latest_boundary(tokyo, instant("2026-04-03T12:00:00")) == instant("2026-03-31T15:00:00")


def test_the_first_day_is_never_a_billing_day() -> None:
    subscription = cycle("monthly calendar", "2024-02-01T00:00:00")
    assert not is_billing_day(subscription, date(2024, 2, 1))
    assert next_billing_run(subscription, instant("2024-02-01T00:00:00")) == instant("2024-03-01T00:10:00")


def test_the_day_of_the_end_is_left_to_the_end() -> None:
    subscription = cycle("monthly calendar", "2024-01-17T10:00:00")
    run = next_billing_run(subscription, subscription.started_at, ending_at=instant("2024-02-01T18:00:00"))
    assert run == instant("2024-03-01T00:10:00")


@given(
    st.sampled_from(Interval),
    st.sampled_from(BillingTime),
    st.sampled_from(["UTC", "Asia/Kolkata", "America/Havana", "Pacific/Kiritimati", "America/New_York"]),
    st.timedeltas(timedelta(0), timedelta(days=3000)),
    st.timedeltas(timedelta(0), timedelta(days=800)),
)
def test_there_is_one_run_a_billing_day(
    interval: Interval, billing_time: BillingTime, zone: str, since: timedelta, later: timedelta
) -> None:
    started_at = datetime(2016, 1, 1, tzinfo=UTC) + since
    subscription = Cycle(
        interval=interval,
        billing_time=billing_time,
        pay_in_advance=False,
        subscription_at=started_at,
        started_at=started_at,
        tz=ZoneInfo(zone),
    )
    after = started_at + later
    run = next_billing_run(subscription, after)
    day = local_date(run, subscription.tz)
    assert run > after
    assert is_billing_day(subscription, day)
    between = (day - local_date(after, subscription.tz)).days
    assert not any(is_billing_day(subscription, day - timedelta(days=back)) for back in range(1, between))
    second = next_billing_run(subscription, run, billed_on=day)
    assert local_date(second, subscription.tz) > day


@pytest.mark.parametrize(
    ("subscription_at", "zone", "active"),
    [
        ("2023-08-25T10:00:00", "America/Bogota", "2023-08-25T05:00:00"),
        ("2023-08-25T10:00:00", "UTC", "2023-08-25T00:00:00"),
        ("2023-08-25T20:00:00", "Asia/Kathmandu", "2023-08-25T18:15:00"),
        ("1900-01-10T12:00:00", "Europe/Paris", "1900-01-09T23:55:00"),  # a midnight at 23:50:39
    ],
)
def test_a_future_subscription_starts_with_its_local_day(subscription_at: str, zone: str, active: str) -> None:
    assert activation_at(instant(subscription_at), ZoneInfo(zone)) == instant(active)


def test_an_end_comes_five_minutes_into_its_local_day() -> None:
    ending = instant("2023-09-06T00:00:00")
    assert ending_at_instant(ending, ZoneInfo("America/Bogota")) == instant("2023-09-05T05:05:00")
    assert ending_at_instant(ending, ZoneInfo("Europe/Paris")) == instant("2023-09-05T22:05:00")


def test_the_end_of_a_day_comes_before_its_billing() -> None:
    subscription = cycle("monthly calendar", "2024-01-17T10:00:00", "Asia/Kolkata")
    run = next_billing_run(subscription, subscription.started_at)
    assert ending_at_instant(run, subscription.tz) < run


def test_what_follows_an_instant_runs_at_its_minute_of_the_hour() -> None:
    assert trial_end_run(instant("2024-03-15T12:12:00")) == instant("2024-03-15T12:35:00")
    assert trial_end_run(instant("2024-03-15T12:35:00")) == instant("2024-03-15T12:35:00")
    assert trial_end_run(instant("2024-03-15T12:35:01")) == instant("2024-03-15T13:35:00")
    assert gate_expiry_at(instant("2024-03-15T23:30:00")) == instant("2024-03-16T00:20:00")


def test_what_follows_a_date_runs_at_its_minute_after_midnight() -> None:
    assert draft_finalization_at(date(2024, 6, 23)) == instant("2024-06-23T00:20:00")
    assert overdue_at(date(2024, 6, 23)) == instant("2024-06-24T00:25:00")
    alerts = termination_alerts(instant("2024-06-30T22:00:00"))
    assert alerts == (instant("2024-05-16T00:50:00"), instant("2024-06-15T00:50:00"))


@pytest.mark.parametrize(
    ("now", "announced", "due"),
    [
        ("2024-05-01T00:00:00", None, "2024-05-16T00:50:00"),
        # On the day of an alert: at its minute, or at the next minute 50 if that has passed.
        ("2024-05-16T00:49:00", None, "2024-05-16T00:50:00"),
        ("2024-05-16T00:50:00", None, "2024-05-16T01:50:00"),
        ("2024-05-16T23:55:00", None, "2024-05-17T00:50:00"),
        # Once a day.
        ("2024-05-16T00:50:00", "2024-05-16T00:50:00", "2024-06-15T00:50:00"),
        # A day that was missed stays missed.
        ("2024-05-17T00:00:00", None, "2024-06-15T00:50:00"),
        ("2024-06-15T00:50:00", "2024-06-15T00:50:00", None),
        ("2024-06-16T00:00:00", None, None),
    ],
)
def test_an_end_is_announced_once_on_each_day_of_an_alert(now: str, announced: str | None, due: str | None) -> None:
    alert = next_termination_alert(
        instant("2024-06-30T22:00:00"), instant(now), announced_at=None if announced is None else instant(announced)
    )
    assert alert == (None if due is None else instant(due))


@pytest.mark.parametrize(
    ("until", "days"), [("2024-01-31", 0), ("2024-02-01", 1), ("2024-02-29", 1), ("2024-03-01", 2), ("2024-12-01", 11)]
)
def test_billing_days_since_the_start(until: str, days: int) -> None:
    monthly = cycle("monthly calendar", "2024-01-17")
    listed = list(billing_days(monthly, until=date.fromisoformat(until)))
    assert listed == [date(2024, month, 1) for month in range(2, 2 + days)]
    assert all(is_billing_day(monthly, day) for day in listed)


@pytest.mark.parametrize(
    ("plan", "started_at", "now", "billed_on", "closes"),
    [
        # A period of a month that began on the first is open, and closes with the next one.
        ("monthly calendar", "2024-01-17T10:00", "2024-05-15T12:00", date(2024, 5, 1), "2024-06-01T00:00"),
        # Today is the first, and today's run has come already, or not yet.
        ("monthly calendar", "2024-01-17T10:00", "2024-05-01T12:00", date(2024, 5, 1), "2024-06-01T00:00"),
        ("monthly calendar", "2024-01-17T10:00", "2024-05-01T00:05", date(2024, 4, 1), "2024-05-01T00:00"),
        ("yearly anniversary", "2024-01-17T10:00", "2024-05-15T12:00", None, "2025-01-17T00:00"),
        ("yearly anniversary F", "2024-01-17T10:00", "2024-05-15T12:00", date(2024, 4, 17), "2024-05-17T00:00"),
        # It starts later: what closes first is its first period.
        ("monthly calendar", "2024-06-10T10:00", "2024-05-15T12:00", None, "2024-07-01T00:00"),
        ("monthly anniversary", "2024-06-10T10:00", "2024-05-15T12:00", None, "2024-07-10T00:00"),
    ],
)
def test_which_period_closes_next(plan: str, started_at: str, now: str, billed_on: date | None, closes: str) -> None:
    of = cycle(plan, started_at)
    assert next_close(of, instant(now), billed_on=billed_on, known_since=of.started_at) == instant(closes)


RUN = datetime(2024, 3, 1, 0, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ending_at", "now", "ends"),
    [
        # Before the run, and on its very day.
        (
            datetime(2024, 2, 20, 15, tzinfo=UTC),
            datetime(2024, 2, 10, tzinfo=UTC),
            datetime(2024, 2, 20, 0, 5, tzinfo=UTC),
        ),
        (
            datetime(2024, 3, 1, 15, tzinfo=UTC),
            datetime(2024, 2, 10, tzinfo=UTC),
            datetime(2024, 3, 1, 0, 5, tzinfo=UTC),
        ),
        (datetime(2024, 3, 2, tzinfo=UTC), datetime(2024, 2, 10, tzinfo=UTC), None),
        # Overdue: it ends now.
        (datetime(2024, 2, 9, 15, tzinfo=UTC), datetime(2024, 2, 10, tzinfo=UTC), datetime(2024, 2, 10, tzinfo=UTC)),
    ],
)
def test_an_end_by_the_day_of_the_next_run_comes_first(
    ending_at: datetime, now: datetime, ends: datetime | None
) -> None:
    assert end_before_run(ending_at, RUN, now, UTC) == ends


@pytest.mark.parametrize(
    ("trial_end", "now", "billed_at"),
    [
        (
            datetime(2024, 2, 20, 15, tzinfo=UTC),
            datetime(2024, 2, 10, tzinfo=UTC),
            datetime(2024, 2, 20, 15, 35, tzinfo=UTC),
        ),
        (datetime(2024, 2, 9, tzinfo=UTC), datetime(2024, 2, 10, tzinfo=UTC), datetime(2024, 2, 10, 0, 35, tzinfo=UTC)),
        # The run of 00:10 precedes minute 35.
        (datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 2, 10, tzinfo=UTC), None),
    ],
)
def test_the_end_of_a_trial_is_billed_unless_a_run_comes_first(
    trial_end: datetime, now: datetime, billed_at: datetime | None
) -> None:
    assert trial_end_before_run(trial_end, RUN, now) == billed_at
