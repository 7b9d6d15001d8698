"""Days: the number of days between two instants, on the wall clock of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

__all__ = ["calendar_days", "days_between", "local_date", "next_time_of_day", "stretches_of_days"]

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)


def local_date(instant: datetime, tz: tzinfo) -> date:
    """The date that the wall clock of `tz` shows at `instant` (aware)."""
    return instant.astimezone(tz).date()


def calendar_days(a: datetime, b: datetime, tz: tzinfo) -> int:
    """The number of local dates from `a` to `b`, both included: 1 if both fall on one day, zero or negative if `b`
    falls on an earlier day.
    """
    return (local_date(b, tz) - local_date(a, tz)).days + 1


def days_between(a: datetime, b: datetime, tz: tzinfo) -> int:
    """The days of a period from `a` to `b`: started 24-hour blocks of wall clock time.

    A `b` at exactly local midnight counts the day that starts there. Clock changes do not count, so the result equals
    `calendar_days` if `a` is a local midnight. Zero or negative if `b` is before `a`.
    """
    end = b.astimezone(tz)
    if end.time() == time.min:
        end = (b + _SECOND).astimezone(tz)
    wall_clock = end.replace(tzinfo=None) - a.astimezone(tz).replace(tzinfo=None)
    return -(-wall_clock // _DAY)


def next_time_of_day(at: time, now: datetime) -> datetime:
    """The next instant after `now` at which the clock shows `at`, a time of day with a fixed offset such as UTC."""
    today = datetime.combine(now.astimezone(at.tzinfo).date(), at)
    return today if today > now else today + _DAY


def stretches_of_days(first: datetime, last: datetime, tz: tzinfo) -> Iterator[tuple[datetime, datetime]]:
    """The instants from `first` to `last`, both included, in stretches of one local date each, in order.

    A day is more than one stretch if a clock change returns to it after midnight.
    """
    begins = first.astimezone(UTC)
    for change in _changes_of_date(first, last, tz):
        yield begins, change - _INSTANT
        begins = change
    yield begins, last.astimezone(UTC)


def _changes_of_date(first: datetime, last: datetime, tz: tzinfo) -> Iterator[datetime]:
    """The instants after `first`, up to `last`, at which another local date begins."""
    day, end = local_date(first, tz), local_date(last, tz) + _DAY
    known = first.astimezone(UTC)
    while day <= end:
        # Both midnights, if there are two; if there is none, the instant at which the clock skips it.
        midnights = [datetime.combine(day, time.min, tz).replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
        for midnight in sorted(midnights):
            if midnight <= known:
                continue
            before = midnight - _INSTANT
            if local_date(before, tz) != local_date(known, tz):
                # The clock was set back beyond midnight in between.
                change = _change_between(known, before, tz)
                if change > last:
                    return
                yield change
            if midnight > last:
                return
            if local_date(before, tz) != local_date(midnight, tz):
                yield midnight
            known = midnight
        day += _DAY


def _change_between(before: datetime, after: datetime, tz: tzinfo) -> datetime:
    """The instant of the only change of the local date between the two."""
    date_before = local_date(before, tz)
    while after - before > _INSTANT:
        middle = before + (after - before) // 2
        if local_date(middle, tz) == date_before:
            before = middle
        else:
            after = middle
    return after
