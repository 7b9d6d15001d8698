"""Days: how many days lie between two instants, on the wall clock of a time zone."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo

__all__ = ["calendar_days", "days_between", "local_date", "next_time_of_day"]

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def local_date(instant: datetime, tz: tzinfo) -> date:
    """The date that the wall clock of `tz` shows at `instant` (aware)."""
    return instant.astimezone(tz).date()


def calendar_days(a: datetime, b: datetime, tz: tzinfo) -> int:
    """Local dates from that of `a` to that of `b`, both counted: 1 when both lie on one day, negative or zero
    when `b` lies on an earlier day.
    """
    return (local_date(b, tz) - local_date(a, tz)).days + 1


def days_between(a: datetime, b: datetime, tz: tzinfo) -> int:
    """The days of a period from `a` to `b`: started 24-hour blocks of wall clock time.

    A `b` at exactly local midnight counts the day that starts there. Clock changes do not count, so the result equals
    `calendar_days` if `a` is a local midnight. Not positive when `b` lies before `a`.
    """
    end = b.astimezone(tz)
    if end.time() == time.min:
        end = (b + _SECOND).astimezone(tz)
    wall_clock = end.replace(tzinfo=None) - a.astimezone(tz).replace(tzinfo=None)
    return -(-wall_clock // _DAY)


def next_time_of_day(at: time, now: datetime) -> datetime:
    """The next instant after `now` at which it is `at`, a time of day with a fixed offset such as UTC."""
    today = datetime.combine(now.astimezone(at.tzinfo).date(), at)
    return today if today > now else today + _DAY
