"""What each billing record covers: the reference tables, row by row, and what holds for every subscription."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.days import days_billed, local_date
from usagebill.core.periods import (
    BillingTime,
    Boundaries,
    Cycle,
    Interval,
    Succession,
    Window,
    advance_window,
    after_last_billed,
    billed_through,
    billing_boundaries,
    current_billing_period,
    current_boundaries,
    day_end,
    day_start,
    downgrade_plan_date,
    ended_on_boundary_day,
    reenters_billed_period,
    usage_windows,
)
from usagebill.core.periods.schedule import next_billing_run

INSTANT = timedelta(microseconds=1)

# Instants are UTC. A window is "from to", both included; a date alone is the day's first second as `from` and its last
# as `to`; an instant alone is a window of no length. Rows are
#     billed at | subscription | days/duration | usage charges           (all intervals, time zones)
#     billed at | subscription | usage charges | fixed charges           (split plans)

INTERVALS = """
weekly calendar arrears
  2024-01-22 | 2024-01-17 2024-01-21 | 5/7 | 2024-01-17T10:00:00 2024-01-21
  2024-01-29 | 2024-01-22 2024-01-28 | 7/7 | 2024-01-22 2024-01-28
weekly calendar in advance
  2024-01-17 | 2024-01-17 2024-01-21 | 5/7 | 2024-01-17T10:00:00
  2024-01-22 | 2024-01-22 2024-01-28 | 7/7 | 2024-01-17T10:00:00 2024-01-21
weekly anniversary arrears
  2024-01-24 | 2024-01-17 2024-01-23 | 7/7 | 2024-01-17T10:00:00 2024-01-23
  2024-01-31 | 2024-01-24 2024-01-30 | 7/7 | 2024-01-24 2024-01-30
weekly anniversary in advance
  2024-01-17 | 2024-01-17 2024-01-23 | 7/7 | 2024-01-17T10:00:00
  2024-01-24 | 2024-01-24 2024-01-30 | 7/7 | 2024-01-17T10:00:00 2024-01-23
monthly calendar arrears
  2024-02-01 | 2024-01-17 2024-01-31 | 15/31 | 2024-01-17T10:00:00 2024-01-31
  2024-03-01 | 2024-02-01 2024-02-29 | 29/29 | 2024-02-01 2024-02-29
monthly calendar in advance
  2024-01-17 | 2024-01-17 2024-01-31 | 15/31 | 2024-01-17T10:00:00
  2024-02-01 | 2024-02-01 2024-02-29 | 29/29 | 2024-01-17T10:00:00 2024-01-31
monthly anniversary arrears
  2024-02-17 | 2024-01-17 2024-02-16 | 31/31 | 2024-01-17T10:00:00 2024-02-16
  2024-03-17 | 2024-02-17 2024-03-16 | 29/29 | 2024-02-17 2024-03-16
monthly anniversary in advance
  2024-01-17 | 2024-01-17 2024-02-16 | 31/31 | 2024-01-17T10:00:00
  2024-02-17 | 2024-02-17 2024-03-16 | 29/29 | 2024-01-17T10:00:00 2024-02-16
quarterly calendar arrears
  2024-04-01 | 2024-01-17 2024-03-31 | 75/91 | 2024-01-17T10:00:00 2024-03-31
  2024-07-01 | 2024-04-01 2024-06-30 | 91/91 | 2024-04-01 2024-06-30
quarterly calendar in advance
  2024-01-17 | 2024-01-17 2024-03-31 | 75/91 | 2024-01-17T10:00:00
  2024-04-01 | 2024-04-01 2024-06-30 | 91/91 | 2024-01-17T10:00:00 2024-03-31
quarterly anniversary arrears
  2024-04-17 | 2024-01-17 2024-04-16 | 91/91 | 2024-01-17T10:00:00 2024-04-16
  2024-07-17 | 2024-04-17 2024-07-16 | 91/91 | 2024-04-17 2024-07-16
quarterly anniversary in advance
  2024-01-17 | 2024-01-17 2024-04-16 | 91/91 | 2024-01-17T10:00:00
  2024-04-17 | 2024-04-17 2024-07-16 | 91/91 | 2024-01-17T10:00:00 2024-04-16
semiannual calendar arrears
  2024-07-01 | 2024-01-17 2024-06-30 | 166/182 | 2024-01-17T10:00:00 2024-06-30
  2025-01-01 | 2024-07-01 2024-12-31 | 184/184 | 2024-07-01 2024-12-31
semiannual calendar in advance
  2024-01-17 | 2024-01-17 2024-06-30 | 166/182 | 2024-01-17T10:00:00
  2024-07-01 | 2024-07-01 2024-12-31 | 184/184 | 2024-01-17T10:00:00 2024-06-30
semiannual anniversary arrears
  2024-07-17 | 2024-01-17 2024-07-16 | 182/182 | 2024-01-17T10:00:00 2024-07-16
  2025-01-17 | 2024-07-17 2025-01-16 | 184/184 | 2024-07-17 2025-01-16
semiannual anniversary in advance
  2024-01-17 | 2024-01-17 2024-07-16 | 182/182 | 2024-01-17T10:00:00
  2024-07-17 | 2024-07-17 2025-01-16 | 184/184 | 2024-01-17T10:00:00 2024-07-16
yearly calendar arrears
  2025-01-01 | 2024-01-17 2024-12-31 | 350/366 | 2024-01-17T10:00:00 2024-12-31
  2026-01-01 | 2025-01-01 2025-12-31 | 365/365 | 2025-01-01 2025-12-31
yearly calendar in advance
  2024-01-17 | 2024-01-17 2024-12-31 | 350/366 | 2024-01-17T10:00:00
  2025-01-01 | 2025-01-01 2025-12-31 | 365/365 | 2024-01-17T10:00:00 2024-12-31
yearly anniversary arrears
  2025-01-17 | 2024-01-17 2025-01-16 | 366/366 | 2024-01-17T10:00:00 2025-01-16
  2026-01-17 | 2025-01-17 2026-01-16 | 365/365 | 2025-01-17 2026-01-16
yearly anniversary in advance
  2024-01-17 | 2024-01-17 2025-01-16 | 366/366 | 2024-01-17T10:00:00
  2025-01-17 | 2025-01-17 2026-01-16 | 365/365 | 2024-01-17T10:00:00 2025-01-16
"""

ZONES = """
America/New_York monthly calendar arrears from 2024-02-10T15:00:00
  2024-03-01T05:10:00 | 2024-02-10T05:00:00 2024-03-01T04:59:59 | 20/29 | 2024-02-10T15:00:00 2024-03-01T04:59:59
  2024-04-01T04:10:00 | 2024-03-01T05:00:00 2024-04-01T03:59:59 | 31/31 | 2024-03-01T05:00:00 2024-04-01T03:59:59
America/New_York monthly calendar arrears from 2024-10-05T15:00:00
  2024-11-01T04:10:00 | 2024-10-05T04:00:00 2024-11-01T03:59:59 | 27/31 | 2024-10-05T15:00:00 2024-11-01T03:59:59
  2024-12-01T05:10:00 | 2024-11-01T04:00:00 2024-12-01T04:59:59 | 30/30 | 2024-11-01T04:00:00 2024-12-01T04:59:59
Europe/Paris monthly calendar arrears from 2024-03-10T15:00:00
  2024-03-31T22:10:00 | 2024-03-09T23:00:00 2024-03-31T21:59:59 | 22/31 | 2024-03-10T15:00:00 2024-03-31T21:59:59
  2024-04-30T22:10:00 | 2024-03-31T22:00:00 2024-04-30T21:59:59 | 30/30 | 2024-03-31T22:00:00 2024-04-30T21:59:59
America/New_York weekly calendar arrears from 2024-03-01T15:00:00
  2024-03-04T05:10:00 | 2024-03-01T05:00:00 2024-03-04T04:59:59 | 3/7 | 2024-03-01T15:00:00 2024-03-04T04:59:59
  2024-03-11T04:10:00 | 2024-03-04T05:00:00 2024-03-11T03:59:59 | 7/7 | 2024-03-04T05:00:00 2024-03-11T03:59:59
Asia/Tokyo monthly anniversary advance from 2024-02-29T23:30:00
  2024-02-29T23:30:00 | 2024-02-29T15:00:00 2024-03-31T14:59:59 | 31/31 | 2024-02-29T23:30:00
  2024-03-31T15:10:00 | 2024-03-31T15:00:00 2024-04-30T14:59:59 | 30/30 | 2024-02-29T23:30:00 2024-03-31T14:59:59
  2024-04-30T15:10:00 | 2024-04-30T15:00:00 2024-05-31T14:59:59 | 31/31 | 2024-03-31T15:00:00 2024-04-30T14:59:59
America/Los_Angeles monthly anniversary advance from 2024-03-01T03:00:00
  2024-03-01T03:00:00 | 2024-02-29T08:00:00 2024-03-29T06:59:59 | 29/29 | 2024-03-01T03:00:00
  2024-03-29T07:10:00 | 2024-03-29T07:00:00 2024-04-29T06:59:59 | 31/31 | 2024-03-01T03:00:00 2024-03-29T06:59:59
  2024-04-29T07:10:00 | 2024-04-29T07:00:00 2024-05-29T06:59:59 | 30/30 | 2024-03-29T07:00:00 2024-04-29T06:59:59
Asia/Kolkata yearly calendar arrears from 2024-02-10T08:00:00
  2024-12-31T18:40:00 | 2024-02-09T18:30:00 2024-12-31T18:29:59 | 326/366 | 2024-02-10T08:00:00 2024-12-31T18:29:59
"""

SPLIT = """
yearly anniversary C arrears from 2024-01-31T01:00:00
  2024-02-29 | 2024-01-31 2024-01-31T01:00:00 | 2024-01-31T01:00:00 2024-02-28 | null
  2024-03-31 | 2024-01-31 2024-01-31T01:00:00 | 2024-02-29 2024-03-30 | null
  2025-01-31 | 2024-01-31 2025-01-30 | 2024-12-31 2025-01-30 | 2024-01-31T01:00:00 2025-01-30
  2025-02-28 | 2024-01-31 2025-01-30 | 2025-01-31 2025-02-27 | null
yearly anniversary F arrears from 2024-01-31T01:00:00
  2024-02-29 | 2024-01-31 2024-01-31T01:00:00 | null | 2024-01-31T01:00:00 2024-02-28
  2024-03-31 | 2024-01-31 2024-01-31T01:00:00 | null | 2024-02-29 2024-03-30
  2025-01-31 | 2024-01-31 2025-01-30 | 2024-01-31T01:00:00 2025-01-30 | 2024-12-31 2025-01-30
  2025-02-28 | 2024-01-31 2025-01-30 | null | 2025-01-31 2025-02-27
yearly anniversary C advance from 2024-01-31T01:00:00
  2024-01-31T01:00:00 | 2024-01-31 2025-01-30 | 2024-01-31T01:00:00 | 2024-01-31T01:00:00
  2024-02-29 | 2024-01-31 2025-01-30 | 2024-01-31T01:00:00 2024-02-28 | null
  2024-03-31 | 2024-01-31 2025-01-30 | 2024-02-29 2024-03-30 | null
  2025-01-31 | 2025-01-31 2026-01-30 | 2024-12-31 2025-01-30 | 2024-01-31T01:00:00 2025-01-30
  2025-02-28 | 2025-01-31 2026-01-30 | 2025-01-31 2025-02-27 | null
yearly anniversary F advance from 2024-01-31T01:00:00
  2024-01-31T01:00:00 | 2024-01-31 2025-01-30 | 2024-01-31T01:00:00 | 2024-01-31T01:00:00
  2024-02-29 | 2024-01-31 2025-01-30 | null | 2024-01-31T01:00:00 2024-02-28
  2024-03-31 | 2024-01-31 2025-01-30 | null | 2024-02-29 2024-03-30
  2025-01-31 | 2025-01-31 2026-01-30 | 2024-01-31T01:00:00 2025-01-30 | 2024-12-31 2025-01-30
  2025-02-28 | 2025-01-31 2026-01-30 | null | 2025-01-31 2025-02-27
yearly calendar C arrears from 2024-03-05T10:00:00
  2024-04-01 | 2024-03-05 2024-03-05T10:00:00 | 2024-03-05T10:00:00 2024-03-31 | null
  2025-01-01 | 2024-03-05 2024-12-31 | 2024-12-01 2024-12-31 | 2024-03-05T10:00:00 2024-12-31
  2025-02-01 | 2024-03-05 2024-12-31 | 2025-01-01 2025-01-31 | null
yearly calendar C advance from 2024-03-05T10:00:00
  2024-03-05T10:00:00 | 2024-03-05 2024-12-31 | 2024-03-05T10:00:00 | 2024-03-05T10:00:00
  2024-04-01 | 2024-03-05 2024-12-31 | 2024-03-05T10:00:00 2024-03-31 | null
  2025-01-01 | 2025-01-01 2025-12-31 | 2024-12-01 2024-12-31 | 2024-03-05T10:00:00 2024-12-31
  2025-02-01 | 2025-01-01 2025-12-31 | 2025-01-01 2025-01-31 | null
semiannual calendar C arrears from 2024-03-05T10:00:00
  2024-04-01 | 2024-03-05 2024-03-05T10:00:00 | 2024-03-05T10:00:00 2024-03-31 | null
  2024-07-01 | 2024-03-05 2024-06-30 | 2024-06-01 2024-06-30 | 2024-03-05T10:00:00 2024-06-30
  2024-08-01 | 2024-03-05 2024-06-30 | 2024-07-01 2024-07-31 | null
semiannual calendar C advance from 2024-03-05T10:00:00
  2024-03-05T10:00:00 | 2024-03-05 2024-06-30 | 2024-03-05T10:00:00 | 2024-03-05T10:00:00
  2024-04-01 | 2024-03-05 2024-06-30 | 2024-03-05T10:00:00 2024-03-31 | null
  2024-07-01 | 2024-07-01 2024-12-31 | 2024-06-01 2024-06-30 | 2024-03-05T10:00:00 2024-06-30
  2024-08-01 | 2024-07-01 2024-12-31 | 2024-07-01 2024-07-31 | null
"""


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(window: Window | None) -> str:
    """The window as the tables write it."""
    if window is None:
        return "null"
    start, end = (moment.strftime("%Y-%m-%dT%H:%M:%S") for moment in (window.start, window.end))
    if start == end:
        return start
    return f"{start.removesuffix('T00:00:00')} {end.removesuffix('T23:59:59')}"


def rows(table: str) -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    plan = ""
    for line in table.strip().splitlines():
        if line.startswith(" "):
            rows.append((plan, line.strip().split(" | ")))
        else:
            plan = line
    return rows


def subscription(plan: str, started_at: str, tz: tzinfo = UTC, *, anchor: str | None = None) -> Cycle:
    words = plan.split()
    return Cycle(
        interval=Interval(words[0]),
        billing_time=BillingTime(words[1]),
        pay_in_advance="advance" in words,
        bill_charges_monthly="C" in words,
        bill_fixed_charges_monthly="F" in words,
        subscription_at=instant(anchor or started_at),
        started_at=instant(started_at),
        tz=tz,
    )


def billed_days(record: Boundaries, tz: tzinfo = UTC) -> str:
    fee = record.subscription
    return f"{days_billed(fee.start, fee.end, tz)}/{fee.duration}"


@pytest.mark.parametrize(("plan", "row"), rows(INTERVALS))
def test_every_interval_billed_at_its_start_and_by_its_runs(plan: str, row: list[str]) -> None:
    at, fee, days, charges = row
    cycle = subscription(plan, "2024-01-17T10:00:00")
    billed_at = cycle.started_at if at == "2024-01-17" else instant(at) + timedelta(minutes=10)
    record = billing_boundaries(cycle, billed_at)
    assert [shown(record.subscription), billed_days(record), shown(record.charges)] == [fee, days, charges]
    assert record.fixed_charges == record.charges


@pytest.mark.parametrize(("plan", "row"), rows(ZONES))
def test_periods_follow_the_local_midnight_through_clock_changes(plan: str, row: list[str]) -> None:
    at, fee, days, charges = row
    zone, terms, start = plan.split(" ", 1)[0], *plan.split(" ", 1)[1].split(" from ")
    tz = ZoneInfo(zone)
    record = billing_boundaries(subscription(terms, start, tz), instant(at))
    assert [shown(record.subscription), billed_days(record, tz), shown(record.charges)] == [fee, days, charges]
    assert record.fixed_charges == record.charges


@pytest.mark.parametrize(("plan", "row"), rows(SPLIT))
def test_plans_that_bill_a_part_of_themselves_monthly(plan: str, row: list[str]) -> None:
    at, *windows = row
    terms, start = plan.split(" from ")
    cycle = subscription(terms, start)
    record = billing_boundaries(cycle, instant(at) if "T" in at else instant(at) + timedelta(minutes=10))
    assert [shown(record.subscription), shown(record.charges), shown(record.fixed_charges)] == windows


@pytest.mark.parametrize("advance", ["arrears", "advance"])
@pytest.mark.parametrize("day", ["2024-02-29", "2024-03-31", "2025-01-31", "2025-02-28"])
def test_usage_and_fixed_charges_are_both_monthly_with_both_flags(advance: str, day: str) -> None:
    at = instant(day) + timedelta(minutes=10)
    both = billing_boundaries(subscription(f"yearly anniversary C F {advance}", "2024-01-31T01:00:00"), at)
    usage = billing_boundaries(subscription(f"yearly anniversary C {advance}", "2024-01-31T01:00:00"), at)
    assert both.charges == both.fixed_charges == usage.charges
    assert both.subscription == usage.subscription


# Consecutive windows of arrears plans, each with its duration: the windows start on each of these days.
SHORT_MONTHS = {
    "monthly 2024-01-29": "2024-02-29 31, 2024-03-29 29, 2024-04-29 31",
    "monthly 2024-01-30": "2024-02-29 30, 2024-03-30 30, 2024-04-30 31, 2024-05-30 30",
    "monthly 2024-01-31": "2024-02-29 29, 2024-03-31 31, 2024-04-30 30, 2024-05-31 31, 2024-06-30 30",
    "quarterly 2022-11-30": "2023-02-28 90, 2023-05-30 91, 2023-08-30 92, 2023-11-30 92, 2024-02-29 91",
    "quarterly 2022-01-31": "2022-04-30 89, 2022-07-31 92, 2022-10-31 92",
    "semiannual 2023-08-31": "2024-02-29 182, 2024-08-31 184, 2025-02-28 181, 2025-08-31 184",
    "yearly 2024-02-29": "2025-02-28 365, 2026-02-28 365, 2027-02-28 365, 2028-02-29 366, 2029-02-28 365",
}


@pytest.mark.parametrize("plan", SHORT_MONTHS)
@pytest.mark.parametrize("advance", ["arrears", "advance"])
def test_a_short_month_never_drags_later_anniversaries_along(plan: str, advance: str) -> None:
    interval, anchor = plan.split()
    cycle = subscription(f"{interval} anniversary {advance}", anchor)
    start, run = instant(anchor), cycle.started_at
    for closed in SHORT_MONTHS[plan].split(", "):
        day, duration = closed.split()
        run = next_billing_run(cycle, run, billed_on=run.date())
        assert run == instant(day) + timedelta(minutes=10)
        record = billing_boundaries(cycle, run)
        assert record.charges == Window(start=start, end=instant(day) - INSTANT, duration=int(duration))
        if advance == "arrears":
            assert record.subscription == record.charges
        else:
            assert record.subscription.start == instant(day)
        start = instant(day)


ENDED = """
weekly calendar
  2024-08-19 2024-08-21T12:00:00 | 3/7
weekly anniversary
  2024-08-21 2024-08-21T12:00:00 | 1/7
monthly calendar
  2024-08-01 2024-08-21T12:00:00 | 21/31
monthly anniversary
  2024-08-17 2024-08-21T12:00:00 | 5/31
quarterly calendar
  2024-07-01 2024-08-21T12:00:00 | 52/92
quarterly anniversary
  2024-07-17 2024-08-21T12:00:00 | 36/92
semiannual calendar
  2024-07-01 2024-08-21T12:00:00 | 52/184
semiannual anniversary
  2024-07-17 2024-08-21T12:00:00 | 36/184
yearly calendar
  2024-01-17 2024-08-21T12:00:00 | 218/366
yearly anniversary
  2024-01-17 2024-08-21T12:00:00 | 218/366
"""


@pytest.mark.parametrize("succession", [None, Succession.UPGRADE])
@pytest.mark.parametrize("advance", ["arrears", "advance"])
@pytest.mark.parametrize(("plan", "row"), rows(ENDED))
def test_an_end_and_an_upgrade_bill_the_open_period_up_to_that_instant(
    plan: str, row: list[str], advance: str, succession: Succession | None
) -> None:
    end = instant("2024-08-21T12:00:00")
    cycle = replace(subscription(f"{plan} {advance}", "2024-01-17T10:00:00"), terminated_at=end, succession=succession)
    record = billing_boundaries(cycle, end + timedelta(seconds=1), period_billed=True)
    assert [shown(record.subscription), billed_days(record)] == row
    if plan.startswith("yearly"):
        assert shown(record.charges) == "2024-01-17T10:00:00 2024-08-21T12:00:00"
    else:
        assert shown(record.charges) == row[0]
    assert record.fixed_charges == record.charges


@pytest.mark.parametrize(
    ("plan", "at", "fee", "usage"),
    [
        ("monthly calendar arrears", "2024-09-01T00:10:00", "2024-08-01 2024-08-31", "2024-08-01 2024-08-31"),
        ("monthly calendar advance", "2024-09-01T00:10:00", "2024-09-01 2024-09-01T00:10:00", "2024-08-01 2024-08-31"),
        ("monthly anniversary arrears", "2024-08-17T00:10:00", "2024-07-17 2024-08-16", "2024-07-17 2024-08-16"),
    ],
)
def test_an_applied_downgrade_bills_the_closed_period_whole(plan: str, at: str, fee: str, usage: str) -> None:
    cycle = subscription(plan, "2024-01-17T10:00:00")
    ended = replace(cycle, terminated_at=instant(at), succession=Succession.DOWNGRADE)
    record = billing_boundaries(ended, instant(at))
    assert [shown(record.subscription), shown(record.charges), shown(record.fixed_charges)] == [fee, usage, usage]


@pytest.mark.parametrize("succession", [None, Succession.UPGRADE])
@pytest.mark.parametrize(
    ("flags", "usage", "fixed"),
    [
        ("C", "2024-08-17 2024-08-21T12:00:00", "2024-01-17T10:00:00 2024-08-21T12:00:00"),
        ("F", "2024-01-17T10:00:00 2024-08-21T12:00:00", "2024-08-17 2024-08-21T12:00:00"),
        ("C F", "2024-08-17 2024-08-21T12:00:00", "2024-08-17 2024-08-21T12:00:00"),
    ],
)
def test_an_end_bills_what_no_monthly_run_has_billed_yet(
    flags: str, usage: str, fixed: str, succession: Succession | None
) -> None:
    end = instant("2024-08-21T12:00:00")
    cycle = subscription(f"yearly anniversary {flags} arrears", "2024-01-17T10:00:00")
    record = billing_boundaries(replace(cycle, terminated_at=end, succession=succession), end)
    assert [shown(record.charges), shown(record.fixed_charges)] == [usage, fixed]


def test_an_end_on_a_boundary_day_bills_the_closed_period_and_of_the_day_its_usage_alone() -> None:
    paris = ZoneInfo("Europe/Paris")
    cycle = replace(
        subscription("monthly anniversary arrears", "2023-09-05T00:00:00", paris),
        terminated_at=instant("2023-10-05T00:15:00"),
    )
    assert ended_on_boundary_day(cycle)
    record = billing_boundaries(cycle, instant("2023-10-05T00:15:00"))
    assert shown(record.subscription) == "2023-09-04T22:00:00 2023-10-04T21:59:59"
    assert billed_days(record, paris) == "30/30"
    assert shown(record.charges) == "2023-09-05 2023-10-05T00:15:00"
    closed, day = usage_windows(cycle, record)
    assert (shown(closed), closed.duration) == ("2023-09-05 2023-10-04T21:59:59", 30)
    assert (shown(day), day.duration) == ("2023-10-04T22:00:00 2023-10-05T00:15:00", 31)


def test_an_end_on_a_boundary_day_already_billed_by_a_run_bills_the_day() -> None:
    end = instant("2023-10-01T15:00:00")
    cycle = replace(subscription("monthly calendar arrears", "2023-07-01T08:00:00"), terminated_at=end)
    record = billing_boundaries(cycle, end, period_billed=True)
    assert shown(record.subscription) == shown(record.charges) == "2023-10-01 2023-10-01T15:00:00"
    assert billed_days(record) == "1/31"


@pytest.mark.parametrize(
    ("started", "ended", "on_boundary"),
    [
        ("2023-10-01T08:00:00", "2023-10-01T20:00:00", False),  # its first day opens a period, but closes none
        ("2023-09-30T20:00:00", "2023-10-01T10:00:00", True),  # less than a day old, yet September is billable
        ("2023-09-01T00:00:00", "2023-10-02T00:00:00", False),
        ("2023-09-01T00:00:00", "2023-10-01T23:59:59", True),
    ],
)
def test_which_ends_lie_on_a_boundary_day(started: str, ended: str, on_boundary: bool) -> None:
    cycle = replace(subscription("monthly calendar arrears", started), terminated_at=instant(ended))
    assert ended_on_boundary_day(cycle) is on_boundary
    assert ended_on_boundary_day(replace(cycle, succession=Succession.UPGRADE)) is on_boundary
    assert not ended_on_boundary_day(replace(cycle, succession=Succession.DOWNGRADE))


def test_an_end_on_a_monthly_boundary_of_a_yearly_plan_bills_the_year_so_far_and_the_closed_month() -> None:
    end = instant("2024-05-17T06:00:00")
    cycle = replace(subscription("yearly anniversary C arrears", "2024-01-17T10:00:00"), terminated_at=end)
    record = billing_boundaries(cycle, end)
    assert shown(record.subscription) == "2024-01-17 2024-05-16"
    assert billed_days(record) == "121/366"
    assert shown(record.charges) == "2024-04-17 2024-05-17T06:00:00"
    assert shown(record.fixed_charges) == "2024-01-17T10:00:00 2024-05-16"


def test_an_end_after_the_billing_timestamp_changes_nothing() -> None:
    cycle = subscription("monthly calendar arrears", "2024-01-17T10:00:00")
    run = instant("2024-03-01T00:10:00")
    later = replace(cycle, terminated_at=instant("2024-03-02T00:00:00"))
    assert billing_boundaries(later, run) == billing_boundaries(cycle, run)


def test_an_arrears_plan_billed_at_its_start_has_empty_windows() -> None:
    cycle = subscription("monthly calendar arrears", "2024-01-17T10:00:00")
    record = billing_boundaries(cycle, cycle.started_at)
    assert shown(record.subscription) == "2024-01-17 2024-01-17T10:00:00"
    assert shown(record.charges) == shown(record.fixed_charges) == "2024-01-17T10:00:00"


def test_a_subscription_created_again_keeps_its_anniversary_and_bills_nothing_twice() -> None:
    cycle = subscription("yearly anniversary arrears", "2026-03-13T09:00:00", anchor="2025-03-15")
    record = billing_boundaries(cycle, instant("2026-03-15T00:10:00"))
    assert shown(record.subscription) == "2026-03-13 2026-03-14"
    assert billed_days(record) == "2/365"
    assert shown(record.charges) == "2026-03-13T09:00:00 2026-03-14"


def test_a_record_of_whole_seconds_finds_an_end_within_its_second() -> None:
    end = instant("2024-08-21T12:00:00") + timedelta(milliseconds=250)
    cycle = replace(subscription("monthly calendar arrears", "2024-01-17T10:00:00"), terminated_at=end)
    record = billing_boundaries(cycle, end)
    assert billing_boundaries(cycle, record.timestamp) == record


def after(cycle: Cycle, fresh: Boundaries, last: Boundaries) -> Boundaries:
    """`fresh`, where `last` billed the windows before it in another time zone."""
    return after_last_billed(cycle, fresh, charges=last.charges, fixed_charges=last.fixed_charges)


def test_a_new_time_zone_resumes_where_the_old_one_stopped() -> None:
    old = subscription("monthly calendar arrears", "2021-11-05T00:00:00")
    new = replace(old, tz=ZoneInfo("America/Los_Angeles"))
    last = billing_boundaries(old, instant("2022-02-01T00:10:00"))
    fresh = billing_boundaries(new, instant("2022-03-01T08:10:00"))
    assert shown(fresh.charges) == "2022-02-01T08:00:00 2022-03-01T07:59:59"
    record = after(new, fresh, last)
    assert shown(record.charges) == shown(record.fixed_charges) == "2022-02-01 2022-03-01T07:59:59"
    assert record.subscription == fresh.subscription


def test_a_new_time_zone_changes_nothing_after_a_pause_or_a_first_invoice() -> None:
    old = subscription("monthly calendar advance", "2022-01-05T10:00:00")
    new = replace(old, tz=ZoneInfo("America/Los_Angeles"))
    fresh = billing_boundaries(new, instant("2022-03-01T08:10:00"))
    assert after(new, fresh, billing_boundaries(old, instant("2022-01-05T10:00:00"))) == fresh
    early = billing_boundaries(new, instant("2022-02-01T08:10:00"))
    assert after(new, early, billing_boundaries(old, old.started_at)) == early


def test_each_kind_of_window_resumes_after_its_own_last_one() -> None:
    old = subscription("monthly calendar arrears", "2021-11-05T00:00:00")
    new = replace(old, tz=ZoneInfo("America/Los_Angeles"))
    last = billing_boundaries(old, instant("2022-02-01T00:10:00"))
    fresh = billing_boundaries(new, instant("2022-03-01T08:10:00"))
    record = after_last_billed(new, fresh, charges=last.charges, fixed_charges=None)
    assert shown(record.charges) == "2022-02-01 2022-03-01T07:59:59"
    assert record.fixed_charges == fresh.fixed_charges


def test_a_billing_day_stays_billed_in_another_time_zone() -> None:
    utc, tokyo, los_angeles = ZoneInfo("UTC"), ZoneInfo("Asia/Tokyo"), ZoneInfo("America/Los_Angeles")
    run = instant("2024-01-04T00:10:00")
    cycle = subscription("monthly calendar arrears", "2023-11-05T00:00:00")

    def billed(tz: ZoneInfo) -> date:
        return billed_through(replace(cycle, tz=tz), run_at=run, run_tz=utc)

    assert billed(utc) == date(2024, 1, 4)
    # Billed on 4 January in UTC: the boundary may be told as of the 3rd or the 4th further west, the 5th further east.
    assert billed(los_angeles) >= date(2024, 1, 4)
    assert date(2024, 1, 4) <= billed(tokyo) < date(2024, 1, 10)


def test_fixed_charges_in_advance_cover_the_period_that_opens() -> None:
    cycle = subscription("monthly calendar arrears", "2024-03-05T10:00:00")
    assert shown(advance_window(cycle, cycle.started_at)) == "2024-03-05T10:00:00 2024-03-31"
    assert shown(advance_window(cycle, instant("2024-04-01T00:10:00"))) == "2024-04-01 2024-04-30"
    yearly = subscription("yearly calendar F arrears", "2024-03-05T10:00:00")
    assert advance_window(yearly, instant("2024-05-01T00:10:00")).duration == 31
    usage_monthly = subscription("yearly calendar C arrears", "2024-03-05T10:00:00")
    assert shown(advance_window(usage_monthly, usage_monthly.started_at)) == "2024-03-05T10:00:00 2024-12-31"


def test_the_current_billing_period_is_the_usage_window() -> None:
    cycle = subscription("yearly calendar C advance", "2024-03-05T10:00:00")
    assert shown(current_billing_period(cycle, instant("2024-03-01"))) == "2024-03-05T10:00:00 2024-03-31"
    assert shown(current_billing_period(cycle, instant("2024-04-15"))) == "2024-04-01 2024-04-30"


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Tokyo"])
def test_a_downgrade_takes_effect_the_day_after_the_whole_interval(zone: str) -> None:
    cycle = subscription("yearly calendar C advance", "2024-03-05T10:00:00", ZoneInfo(zone))
    assert downgrade_plan_date(cycle, instant("2024-04-15T12:00:00")) == date(2025, 1, 1)


ZONES_OF_THE_WORLD = [
    "UTC",
    "America/Havana",  # midnight is skipped and repeated
    "Africa/Cairo",  # midnight is skipped
    "America/Sao_Paulo",
    "America/New_York",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour of daylight saving
    "Europe/Paris",
    "Pacific/Apia",  # 30 December 2011 never was
    "Pacific/Kiritimati",
]
instants = st.timedeltas(timedelta(0), timedelta(days=9000)).map(lambda since: datetime(2010, 1, 1, tzinfo=UTC) + since)
zones = st.sampled_from(ZONES_OF_THE_WORLD).map(ZoneInfo)


@st.composite
def cycles(draw: st.DrawFn) -> Cycle:
    started_at = draw(instants)
    return Cycle(
        interval=draw(st.sampled_from(Interval)),
        billing_time=draw(st.sampled_from(BillingTime)),
        pay_in_advance=draw(st.booleans()),
        bill_charges_monthly=draw(st.booleans()),
        bill_fixed_charges_monthly=draw(st.booleans()),
        subscription_at=started_at - draw(st.sampled_from([0, 0, 17, 400])) * timedelta(days=1),
        started_at=started_at,
        tz=draw(zones),
    )


def runs(cycle: Cycle, count: int) -> list[datetime]:
    days = [cycle.started_at]
    for _ in range(count):
        days.append(next_billing_run(cycle, days[-1], billed_on=local_date(days[-1], cycle.tz)))
    return days[1:]


@given(cycles())
def test_consecutive_runs_bill_every_instant_once(cycle: Cycle) -> None:
    fee, usage, fixed = [], [], []
    for run in runs(cycle, 15):
        record = billing_boundaries(cycle, run)
        if record.opens_interval:
            fee.append(record.subscription)
        usage += [record.charges] if record.charges else []
        fixed += [record.fixed_charges] if record.fixed_charges else []
        for window in (usage, fixed):
            assert window == [] or window[-1].end < run
    for windows in (usage, fixed):
        if windows:
            assert windows[0].start == cycle.started_at
        for before, after in pairwise(windows):
            assert after.start == before.end + INSTANT
    for before, after in pairwise(fee):
        assert after.start == before.end + INSTANT


@given(cycles())
def test_whole_periods_are_billed_as_many_days_as_they_have(cycle: Cycle) -> None:
    for run in runs(cycle, 15)[1:]:
        record = billing_boundaries(cycle, run)
        whole = cycle.period(cycle.start_date).end
        for window in (record.subscription, record.charges, record.fixed_charges):
            if window is not None and local_date(window.start, cycle.tz) > whole:
                first, last = local_date(window.start, cycle.tz), local_date(window.end, cycle.tz)
                assert day_start(first, cycle.tz) == window.start
                assert window.end == day_end(last, cycle.tz)
                assert (last - first).days + 1 == window.duration or skips_a_day(cycle.tz, first, last)


def skips_a_day(tz: tzinfo, first: date, last: date) -> bool:
    return str(tz) == "Pacific/Apia" and first <= date(2011, 12, 31) and last >= date(2011, 12, 29)


@given(cycles(), st.integers(0, 8))
def test_a_run_closes_what_was_open_the_instant_before(cycle: Cycle, number: int) -> None:
    run = runs(cycle, number + 1)[-1]
    record = billing_boundaries(cycle, run)
    opened = day_start(local_date(run, cycle.tz), cycle.tz)
    current = current_boundaries(cycle, opened - INSTANT)
    for closed, was_open in ((record.charges, current.charges), (record.fixed_charges, current.fixed_charges)):
        assert closed is None or closed == was_open


@given(cycles(), st.timedeltas(timedelta(0), timedelta(days=900)))
def test_an_end_bills_all_that_the_runs_before_it_have_not(cycle: Cycle, lived: timedelta) -> None:
    end = cycle.started_at + lived
    usage, fixed = [], []
    run = next_billing_run(cycle, cycle.started_at)
    billed_today = False
    while run <= end:
        record = billing_boundaries(cycle, run)
        usage += [record.charges] if record.charges else []
        fixed += [record.fixed_charges] if record.fixed_charges else []
        billed_today = local_date(run, cycle.tz) == local_date(end, cycle.tz)
        run = next_billing_run(cycle, run, billed_on=local_date(run, cycle.tz))
    ended = replace(cycle, terminated_at=end)
    record = billing_boundaries(ended, end, period_billed=billed_today)
    for windows, last in ((usage, record.charges), (fixed, record.fixed_charges)):
        assert last is not None
        assert last.start == (windows[-1].end + INSTANT if windows else cycle.started_at)
        if ended_on_boundary_day(ended) and not billed_today:
            assert last.end == day_start(local_date(end, cycle.tz), cycle.tz) - INSTANT
        else:
            assert last.end == end


@pytest.mark.parametrize(
    ("zone", "at", "back"),
    [
        ("UTC", "2024-02-01T00:10", False),
        ("America/Los_Angeles", "2024-02-01T00:10", True),
        ("America/Los_Angeles", "2024-02-01T08:00", False),
        ("Asia/Tokyo", "2024-02-01T00:10", False),
        # A late event, of the month that was billed.
        ("UTC", "2024-01-20T00:00", True),
    ],
)
def test_a_move_can_lead_back_into_a_period_that_a_run_has_closed(zone: str, at: str, back: bool) -> None:
    started_at = datetime(2024, 1, 1, 12, tzinfo=UTC)
    moved = Cycle(
        interval=Interval.MONTHLY,
        billing_time=BillingTime.CALENDAR,
        pay_in_advance=False,
        subscription_at=started_at,
        started_at=started_at,
        tz=ZoneInfo(zone),
    )
    instant = datetime.fromisoformat(at).replace(tzinfo=UTC)
    run_at = datetime(2024, 2, 1, 0, 10, tzinfo=UTC)
    assert reenters_billed_period(moved, instant, run_at=run_at, run_tz=ZoneInfo("UTC")) is back
