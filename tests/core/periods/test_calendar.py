"""Periods tile the calendar, and local days tile time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.days import local_date
from usagebill.core.periods import (
    BillingTime,
    Interval,
    Period,
    add_months,
    day_end,
    day_start,
    next_period,
    period_containing,
    previous_period,
)

DAY = timedelta(days=1)
dates = st.dates(date(1990, 1, 1), date(2100, 12, 31))
month_ends = st.dates(date(2000, 1, 1), date(2050, 12, 31)).map(lambda day: day.replace(day=1) - DAY)
anchors = dates | month_ends
intervals = st.sampled_from(Interval)
billing_times = st.sampled_from(BillingTime)


@given(dates, intervals, billing_times, anchors)
def test_every_day_lies_in_exactly_one_period(
    day: date, interval: Interval, billing_time: BillingTime, anchor: date
) -> None:
    period = period_containing(day, interval, billing_time, anchor)
    assert period.start <= day <= period.end
    for edge in (period.start, period.end):
        assert period_containing(edge, interval, billing_time, anchor) == period
    following = next_period(period, interval, billing_time, anchor)
    assert following.start == period.end + DAY
    assert previous_period(following, interval, billing_time, anchor) == period


@given(intervals, anchors)
def test_an_anniversary_period_starts_on_the_anchor(interval: Interval, anchor: date) -> None:
    assert period_containing(anchor, interval, BillingTime.ANNIVERSARY, anchor).start == anchor


@given(dates, intervals, anchors)
def test_an_anniversary_keeps_the_day_of_its_anchor_or_the_last_of_a_shorter_month(
    day: date, interval: Interval, anchor: date
) -> None:
    start = period_containing(day, interval, BillingTime.ANNIVERSARY, anchor).start
    if interval is Interval.WEEKLY:
        assert start.weekday() == anchor.weekday()
    else:
        assert start.day == anchor.day or (start.day < anchor.day and (start + DAY).day == 1)
        assert ((start.year - anchor.year) * 12 + start.month - anchor.month) % interval.months == 0


@given(dates, anchors, st.sampled_from([i for i in Interval if i is not Interval.WEEKLY]), billing_times)
def test_long_periods_are_made_of_whole_months(
    day: date, anchor: date, interval: Interval, billing_time: BillingTime
) -> None:
    period = period_containing(day, interval, billing_time, anchor)
    days = 0
    month = period_containing(period.start, Interval.MONTHLY, billing_time, anchor)
    for _ in range(interval.months):
        days += month.days
        last, month = month, next_period(month, Interval.MONTHLY, billing_time, anchor)
    assert (days, last.end) == (period.days, period.end)


@pytest.mark.parametrize(
    ("day", "interval", "start", "end"),
    [
        ("2024-06-12", Interval.WEEKLY, "2024-06-10", "2024-06-16"),
        ("2024-02-29", Interval.MONTHLY, "2024-02-01", "2024-02-29"),
        ("2024-06-30", Interval.QUARTERLY, "2024-04-01", "2024-06-30"),
        ("2024-07-01", Interval.SEMIANNUAL, "2024-07-01", "2024-12-31"),
        ("2024-06-12", Interval.YEARLY, "2024-01-01", "2024-12-31"),
    ],
)
def test_calendar_periods(day: str, interval: Interval, start: str, end: str) -> None:
    period = period_containing(date.fromisoformat(day), interval, BillingTime.CALENDAR, date(2023, 5, 17))
    assert period == Period(start=date.fromisoformat(start), end=date.fromisoformat(end))


@pytest.mark.parametrize(("interval", "times"), list(zip(Interval, [52, 12, 4, 2, 1], strict=True)))
def test_a_year_has_fifty_two_weeks_or_twelve_months(interval: Interval, times: int) -> None:
    assert interval.per_year == times


def test_months_are_added_to_the_last_day_where_the_month_is_short() -> None:
    assert add_months(date(2024, 1, 31), 1) == date(2024, 2, 29)
    assert add_months(date(2024, 3, 31), -1) == date(2024, 2, 29)
    assert add_months(date(2024, 11, 30), 3) == date(2025, 2, 28)


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("UTC", "2024-03-01", "2024-03-01T00:00:00"),
        ("America/New_York", "2024-03-11", "2024-03-11T04:00:00"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00"),  # the clock jumps from 0:00 to 1:00
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30:00"),  # from 23:30 to 0:30
        ("America/Havana", "2024-11-03", "2024-11-03T04:00:00"),  # midnight comes twice: the first
        ("America/Nuuk", "2024-10-27", "2024-10-27T02:00:00"),  # 23:00 to 24:00 comes twice on the day before
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00"),  # the day that never was is empty
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00"),
    ],
)
def test_a_day_starts_at_its_first_instant(zone: str, day: str, start: str) -> None:
    assert day_start(date.fromisoformat(day), ZoneInfo(zone)) == datetime.fromisoformat(start).replace(tzinfo=UTC)


def test_a_day_ends_right_before_the_next_even_where_its_last_hour_comes_twice() -> None:
    end = day_end(date(2024, 10, 26), ZoneInfo("America/Nuuk"))
    assert end == datetime(2024, 10, 27, 1, 59, 59, 999999, tzinfo=UTC)


@given(
    st.dates(date(2000, 1, 1), date(2037, 12, 31)),
    st.sampled_from(["Africa/Cairo", "America/Havana", "America/Asuncion", "Asia/Amman", "Pacific/Apia", "UTC"]),
)
def test_every_instant_of_a_day_has_its_date(day: date, zone: str) -> None:
    tz = ZoneInfo(zone)
    start, end = day_start(day, tz), day_end(day, tz)
    assert end - start in {timedelta(hours=hours, microseconds=-1) for hours in (0, 23, 24, 25)}
    if start < end:
        assert local_date(start, tz) == local_date(end, tz) == day
    assert local_date(start - timedelta(microseconds=1), tz) < day
