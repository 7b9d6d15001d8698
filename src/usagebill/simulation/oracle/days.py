"""Local days, and the periods that a plan is billed for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)
_MONTHS = {"monthly": 1, "quarterly": 3, "semiannual": 6, "yearly": 12}
# How many periods a year has, by which plans are compared.
A_YEAR = {"weekly": 52, "monthly": 12, "quarterly": 4, "semiannual": 2, "yearly": 1}


def parsed(text: str) -> datetime:
    """An instant of the log or of a paper."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def local_day(instant: datetime, zone: ZoneInfo) -> date:
    """The day of the place."""
    return instant.astimezone(zone).date()


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When the day begins there: its first instant that exists."""
    begins = datetime.combine(day, time(0), tzinfo=zone).astimezone(UTC)
    while local_day(begins, zone) < day:
        begins += timedelta(minutes=30)
    return begins


def run_of(day: date, zone: ZoneInfo) -> datetime:
    """When the periods that end with the day before are billed: at ten past the hour, hourly."""
    begins = midnight(day, zone)
    hour = begins.replace(minute=0, second=0, microsecond=0) + timedelta(minutes=10)
    return hour if hour >= begins else hour + timedelta(hours=1)


def _of_month(base: date, months: int, anchor_day: int) -> date:
    year, month = divmod(base.year * 12 + base.month - 1 + months, 12)
    last = (date(year + month // 11, (month + 1) % 12 + 1, 1) - DAY).day
    return date(year, month + 1, min(anchor_day, last))


def period_of(interval: str, anchor: date | None, day: date) -> tuple[date, date]:
    """The first day of the period that the day lies in, and that of the next. Without an anchor, calendar periods."""
    if interval == "weekly":
        start = day - DAY * ((day - anchor).days % 7 if anchor else day.weekday())
        return start, start + DAY * 7
    base = anchor or date(2000, 1, 1)
    months = _MONTHS[interval]
    number = ((day.year - base.year) * 12 + day.month - base.month) // months
    if _of_month(base, number * months, base.day) > day:
        number -= 1
    return _of_month(base, number * months, base.day), _of_month(base, (number + 1) * months, base.day)
