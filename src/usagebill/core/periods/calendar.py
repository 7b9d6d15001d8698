"""Periods as local dates, and local dates as instants.

Weeks start on Monday, quarters in January, April, July and October, half-years in January and July. An anniversary
period starts on the anchor's weekday or day of the month; if the month is too short, on its last day. The day is
recomputed from the anchor each time, so a short month does not shift later ones.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache

from usagebill.core.days import local_date
from usagebill.core.instants import MICROSECOND

_DAY = timedelta(days=1)
_NEW_YEAR = date(2000, 1, 1)
_MONDAY = date(2000, 1, 3)


class Interval(StrEnum):
    """How often a plan is billed."""

    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    SEMIANNUAL = "semiannual"
    YEARLY = "yearly"

    @property
    def months(self) -> int:
        """Months in the interval; 0 for a week, which is counted in days."""
        return _MONTHS[self]

    @property
    def per_year(self) -> int:
        """The number of these intervals in a year: 52 weeks, 12 months, 4 quarters, 2 half-years."""
        return 12 // self.months if self.months else 52


_MONTHS = {
    Interval.WEEKLY: 0,
    Interval.MONTHLY: 1,
    Interval.QUARTERLY: 3,
    Interval.SEMIANNUAL: 6,
    Interval.YEARLY: 12,
}

# Plans with these intervals can have their charges billed monthly.
LONG_INTERVALS = (Interval.SEMIANNUAL, Interval.YEARLY)


class BillingTime(StrEnum):
    """Whether periods start with the calendar's weeks, months and years, or with the subscription's own."""

    CALENDAR = "calendar"
    ANNIVERSARY = "anniversary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A run of local days, both ends included."""

    start: date
    end: date

    @property
    def days(self) -> int:
        """The number of days in the period, the denominator of every proration."""
        return (self.end - self.start).days + 1


def _month(day: date) -> int:
    return day.year * 12 + day.month - 1


def _in_month(month: int, day: int) -> date:
    year, index = divmod(month, 12)
    return date(year, index + 1, min(day, monthrange(year, index + 1)[1]))


def add_months(day: date, months: int) -> date:
    """`day`, `months` later (earlier if negative), on the last day of the month if it has no such day."""
    return _in_month(_month(day) + months, day.day)


@lru_cache(maxsize=4096)
def period_containing(day: date, interval: Interval, billing_time: BillingTime, anchor: date) -> Period:
    """The period that local date `day` belongs to. `anchor` is the local date of `subscription_at`."""
    calendar = billing_time is BillingTime.CALENDAR
    if interval is Interval.WEEKLY:
        first = _MONDAY if calendar else anchor
        start = day - timedelta(days=(day - first).days % 7)
        return Period(start=start, end=start + timedelta(days=6))
    first = _NEW_YEAR if calendar else anchor
    length = interval.months
    month = _month(day) - (_month(day) - _month(first)) % length
    if _in_month(month, first.day) > day:
        month -= length
    return Period(start=_in_month(month, first.day), end=_in_month(month + length, first.day) - _DAY)


def next_period(period: Period, interval: Interval, billing_time: BillingTime, anchor: date) -> Period:
    """The period that starts the day after `period`."""
    return period_containing(period.end + _DAY, interval, billing_time, anchor)


def previous_period(period: Period, interval: Interval, billing_time: BillingTime, anchor: date) -> Period:
    """The period that ended the day before `period`."""
    return period_containing(period.start - _DAY, interval, billing_time, anchor)


def day_start(day: date, tz: tzinfo) -> datetime:
    """The first instant (UTC) of local date `day`: its midnight, the earlier one if the clock shows two.

    If the clock skips midnight, it is the instant right after the jump, even when the jump skips the whole day.
    """
    midnight = datetime.combine(day, time(), tz)
    instant = midnight.astimezone(UTC)
    if instant.astimezone(tz).replace(tzinfo=None) == midnight.replace(tzinfo=None):
        return instant
    # The two readings of a skipped midnight enclose the jump: search for its second.
    earliest = midnight.replace(fold=1).astimezone(UTC)
    before, after = 0, int((instant - earliest).total_seconds())
    while before < after:
        middle = (before + after) // 2
        if local_date(earliest + timedelta(seconds=middle), tz) < day:
            before = middle + 1
        else:
            after = middle
    return earliest + timedelta(seconds=after)


def day_end(day: date, tz: tzinfo) -> datetime:
    """The last instant (UTC) of local date `day`: one microsecond before the next day starts."""
    return day_start(day + _DAY, tz) - MICROSECOND
