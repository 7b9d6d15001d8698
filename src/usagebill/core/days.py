"""Days: the number of days between two instants, on the wall clock of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from usagebill.core.instants import MICROSECOND

_DAY = timedelta(days=1)


def local_date(instant: datetime, tz: tzinfo) -> date:
    """The date that the wall clock of `tz` shows at `instant` (aware)."""
    return instant.astimezone(tz).date()


def days_billed(first: datetime, last: datetime, tz: tzinfo, *, upgraded: bool = False) -> int:
    """The number of local dates from that of `first` to that of `last`, both included: the days of everything that is
    prorated by days, whatever the hours. Zero if `last` falls on an earlier date.

    `upgraded`: an upgrade ended them at `last`. Its day belongs to the new plan, and does not count.
    """
    days = (local_date(last, tz) - local_date(first, tz)).days + 1
    return max(days - 1 if upgraded else days, 0)


def counted_from(at: datetime, start: datetime, days_start: datetime | None) -> datetime:
    """The instant from whose local date on the days of a window that begins at `start` are counted for what begins at
    `at`.

    `days_start` is the midnight at which the first of its days begins, if a change of time zone has put another one
    between the window's start and that: whatever the clock shows until then belongs to the first day.
    """
    first = start if days_start is None else days_start
    return first if at <= start else max(at, first)


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
        yield begins, change - MICROSECOND
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
            before = midnight - MICROSECOND
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
    while after - before > MICROSECOND:
        middle = before + (after - before) // 2
        if local_date(middle, tz) == date_before:
            before = middle
        else:
            after = middle
    return after
