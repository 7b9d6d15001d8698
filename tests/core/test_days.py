from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.days import days_billed, local_date, next_time_of_day, stretches_of_days

PARIS = ZoneInfo("Europe/Paris")
NEW_YORK = ZoneInfo("America/New_York")
ZONES = st.sampled_from(
    [ZoneInfo(name) for name in ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Pacific/Apia")]
)
INSTANTS = st.datetimes(min_value=datetime(2019, 1, 1), max_value=datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def test_local_date_follows_the_zone() -> None:
    assert local_date(utc(2024, 3, 1, 1), NEW_YORK) == date(2024, 2, 29)


@pytest.mark.parametrize(
    ("first", "last", "tz", "days"),
    [
        (utc(2024, 2, 1), utc(2024, 2, 29, 23, 59, 59, 999999), UTC, 29),
        # The hours of the first and the last day do not matter.
        (utc(2024, 2, 1, 18), utc(2024, 2, 10, 12), UTC, 10),
        (utc(2024, 2, 1, 6), utc(2024, 2, 10, 12), UTC, 10),
        (utc(2024, 2, 1, 12), utc(2024, 2, 1, 12), UTC, 1),
        # The day that begins at the end counts.
        (utc(2024, 2, 1), utc(2024, 2, 10), UTC, 10),
        (utc(2024, 1, 31, 23), utc(2024, 2, 9, 23), PARIS, 10),
        # Clock changes add or lose no day.
        (datetime(2024, 3, 1, tzinfo=PARIS), datetime(2024, 3, 31, 23, 59, 59, tzinfo=PARIS), PARIS, 31),
        (datetime(2024, 10, 1, tzinfo=PARIS), datetime(2024, 10, 31, 23, 59, 59, tzinfo=PARIS), PARIS, 31),
        # The offset in which an instant is written does not matter.
        (utc(2025, 1, 1, 5), utc(2025, 2, 1, 4, 59, 59), NEW_YORK, 31),
        (utc(2025, 1, 1, 5).astimezone(PARIS), utc(2025, 2, 1, 4, 59, 59).astimezone(PARIS), NEW_YORK, 31),
        (utc(2024, 2, 2), utc(2024, 2, 1, 23), UTC, 0),
    ],
)
def test_days_are_local_dates(first: datetime, last: datetime, tz: tzinfo, days: int) -> None:
    assert days_billed(first, last, tz) == days
    # The day of an upgrade belongs to the new plan.
    assert days_billed(first, last, tz, upgraded=True) == max(days - 1, 0)


@given(tz=ZONES, instants=st.lists(INSTANTS, min_size=3, max_size=3))
def test_an_upgrade_divides_days_without_remainder(tz: ZoneInfo, instants: list[datetime]) -> None:
    a, upgrade, b = sorted(instants)
    old, new = days_billed(a, upgrade, tz, upgraded=True), days_billed(upgrade, b, tz)
    assert old + new == days_billed(a, b, tz)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2024-05-01T05:59:59+00:00", "2024-05-01T06:00:00+00:00"),
        ("2024-05-01T06:00:00+00:00", "2024-05-02T06:00:00+00:00"),
        ("2024-05-31T23:00:00+00:00", "2024-06-01T06:00:00+00:00"),
        # Days are those of the time of day's own zone.
        ("2024-05-02T01:00:00+05:00", "2024-05-02T06:00:00+00:00"),
    ],
)
def test_the_next_time_that_it_is_six_o_clock(now: str, expected: str) -> None:
    assert next_time_of_day(time(6, tzinfo=UTC), datetime.fromisoformat(now)) == datetime.fromisoformat(expected)


# St. John's set its clock back at 00:01, so that the day before went on; Havana and Beirut at midnight; Apia skipped a
# day, Sao Paulo the first hour of one.
ODD_ZONES = st.sampled_from(
    [
        (ZoneInfo(name), datetime.fromisoformat(change).replace(tzinfo=UTC))
        for name, change in (
            ("America/St_Johns", "2010-11-07T02:31"),
            ("America/Havana", "2023-11-05T05:00"),
            ("Asia/Beirut", "2023-10-28T21:00"),
            ("Pacific/Apia", "2011-12-30T10:00"),
            ("America/Sao_Paulo", "2018-11-04T03:00"),
            ("America/Scoresbysund", "2024-03-31T01:00"),
            ("Asia/Kathmandu", "2024-03-31T01:00"),
            ("UTC", "2024-02-29T00:00"),
        )
    ]
)
HOURS = st.integers(-50 * 3_600_000_000, 50 * 3_600_000_000).map(lambda number: timedelta(microseconds=number))
MINUTES = st.integers(-200, 200).map(lambda number: timedelta(minutes=number))


@given(ODD_ZONES, st.one_of(HOURS, MINUTES), st.one_of(HOURS, MINUTES), st.lists(st.one_of(HOURS, MINUTES), max_size=5))
def test_stretches_of_days_lie_on_one_date_each(
    odd: tuple[ZoneInfo, datetime], one_end: timedelta, other_end: timedelta, within: list[timedelta]
) -> None:
    zone, change = odd
    first, last = sorted((change + one_end, change + other_end))
    stretches = list(stretches_of_days(first, last, zone))
    assert (stretches[0][0], stretches[-1][1]) == (first, last)
    for (_, end), (begin, _) in pairwise(stretches):
        assert begin - end == timedelta(microseconds=1)
        assert local_date(begin, zone) != local_date(end, zone)
    for begin, end in stretches:
        inside = [min(max(change + place, begin), end) for place in within]
        assert {local_date(instant, zone) for instant in (begin, end, *inside)} == {local_date(begin, zone)}


def test_a_day_that_is_returned_to_is_two_stretches() -> None:
    zone = ZoneInfo("America/St_Johns")
    stretches = list(stretches_of_days(utc(2010, 11, 6, 12), utc(2010, 11, 7, 12), zone))
    assert [local_date(begin, zone).day for begin, _ in stretches] == [6, 7, 6, 7]
