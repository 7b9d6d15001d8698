"""The subscription fee: worked examples, and what proration conserves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from tests.money import share

from usagebill.core.days import local_date
from usagebill.core.numbers import round_cents, total
from usagebill.core.periods import (
    BillingTime,
    Cycle,
    Interval,
    Period,
    Succession,
    Window,
    billing_boundaries,
    day_end,
    day_start,
)
from usagebill.core.subscription_fees import (
    FeeFacts,
    FeeRule,
    billed_days,
    fee_is_due,
    fee_rule,
    prorated,
    unused_days,
    unused_time_credit,
    used_days,
)

RUN = timedelta(minutes=10)


def fee_amount(cents: int, rule: FeeRule, window: Window, tz: tzinfo, **facts: Any) -> Decimal:
    return prorated(cents, billed_days(rule, window, tz, **facts), window.duration)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cycle(plan: str, started: str, *, anchor: str = "", zone: str = "UTC", ended: str = "") -> Cycle:
    """`plan` is interval, billing time, "advance" or "arrears", then C, F, and how it ended."""
    words = plan.split()
    return Cycle(
        interval=Interval(words[0]),
        billing_time=BillingTime(words[1]),
        pay_in_advance=words[2] == "advance",
        bill_charges_monthly="C" in words,
        bill_fixed_charges_monthly="F" in words,
        subscription_at=instant(anchor or started),
        started_at=instant(started),
        tz=ZoneInfo(zone),
        terminated_at=instant(ended) if ended else None,
        succession=next((succession for succession in Succession if succession.value in words), None),
    )


def facts(
    subscription: Cycle,
    at: datetime,
    *,
    first: bool = True,
    predecessor: Succession | None = None,
    created: str = "",
    trial_end: datetime | None = None,
    period_billed: bool = False,
) -> FeeFacts:
    return FeeFacts(
        cycle=subscription,
        boundaries=billing_boundaries(subscription, at, period_billed=period_billed),
        billed_since=instant(created) if created else subscription.started_at,
        active=subscription.terminated_at is None,
        predecessor=predecessor,
        first_invoice=first,
        fee_billed=not first,
        starting=at == subscription.started_at,
        trial_end=trial_end,
        in_trial=trial_end is not None and at < trial_end,
    )


def fee(amount: int, known: FeeFacts) -> int | None:
    if not fee_is_due(known):
        return None
    upgraded = known.cycle.succession is Succession.UPGRADE
    return round_cents(
        fee_amount(
            amount,
            fee_rule(known),
            known.boundaries.subscription,
            known.cycle.tz,
            trial_end=known.trial_end,
            upgraded=upgraded,
        )
    )


@pytest.mark.parametrize(
    ("amount", "plan", "started", "run", "cents"),
    [
        (5_000_000, "monthly calendar arrears", "2024-02-04T00:00:00", "2024-03-01", share(5_000_000, 26, 29)),
        (100, "weekly calendar arrears", "2022-06-22T00:00:00", "2022-06-27", share(100, 5, 7)),
        (100, "monthly calendar arrears", "2022-03-15T00:00:00", "2022-04-01", share(100, 17, 31)),
        (1_000, "monthly anniversary arrears", "2023-06-29T00:00:00", "2023-07-29", 1_000),
    ],
)
def test_a_first_period_is_billed_by_its_days(amount: int, plan: str, started: str, run: str, cents: int) -> None:
    subscription = cycle(plan, started)
    assert fee(amount, facts(subscription, instant(run) + RUN)) == cents


@pytest.mark.parametrize(
    ("amount", "plan", "started", "ended", "zone", "cents"),
    [
        (100, "monthly calendar arrears", "2022-01-01", "2022-03-20T23:59:59", "UTC", share(100, 20, 31)),
        (100, "monthly calendar arrears upgrade", "2022-01-01", "2022-03-20T23:59:59", "UTC", share(100, 19, 31)),
        (100, "monthly calendar arrears upgrade", "2023-01-01", "2023-08-21T12:00:00", "UTC", share(100, 20, 31)),
        (91_000, "quarterly calendar arrears", "2024-05-20", "2024-06-20", "UTC", share(91_000, 32, 91)),
        (100, "monthly anniversary arrears", "2023-04-10T08:00:00", "2023-04-10T13:00:00", "UTC", share(100, 1, 30)),
        (
            1_000,
            "monthly anniversary arrears",
            "2023-09-05",
            "2023-09-06T00:15:00",
            "Europe/Paris",
            share(1_000, 2, 30),
        ),
        (
            1_000,
            "monthly anniversary arrears",
            "2023-09-05",
            "2023-09-06T00:15:00",
            "America/Bogota",
            share(1_000, 2, 30),
        ),
        (1_000, "monthly anniversary arrears", "2023-09-05", "2023-10-05T00:15:00", "Europe/Paris", 1_000),
        (10_000, "monthly calendar arrears downgrade", "2024-03-01", "2024-06-01T00:15:49", "UTC", 10_000),
    ],
)
def test_an_end_in_arrears_bills_the_used_days(
    amount: int, plan: str, started: str, ended: str, zone: str, cents: int
) -> None:
    subscription = cycle(plan, started, ended=ended, zone=zone)
    first = subscription.succession is None
    assert fee(amount, facts(subscription, instant(ended), first=first)) == cents


def test_the_days_after_a_run_are_billed_by_an_end_on_the_same_day() -> None:
    subscription = cycle("monthly calendar arrears", "2023-07-01", ended="2023-10-01T15:00:00")
    assert fee(1_000, facts(subscription, instant("2023-10-01T15:00:00"), first=False, period_billed=True)) == share(
        1_000, 1, 31
    )


def test_several_upgrades_on_one_day_bill_the_plan_between_nothing() -> None:
    between = cycle("monthly calendar arrears upgrade", "2024-03-12T12:12:00", ended="2024-03-12T13:12:00")
    assert fee(1_500, facts(between, instant("2024-03-12T13:12:01"), predecessor=Succession.UPGRADE)) == 0


@pytest.mark.parametrize(
    ("amount", "plan", "anchor", "started", "at", "cents"),
    [
        (
            100,
            "monthly calendar advance",
            "2022-01-01",
            "2022-03-15T10:00:00",
            "2022-03-15T10:00:01",
            share(100, 17, 31),
        ),
        (
            12_000,
            "yearly anniversary advance",
            "2023-06-29",
            "2023-09-28T05:00:00",
            "2023-09-28T05:00:01",
            share(12_000, 275, 366),
        ),
        (
            1_500,
            "monthly calendar advance",
            "2024-03-05",
            "2024-03-12T12:12:00",
            "2024-03-12T12:12:01",
            share(1_500, 20, 31),
        ),
        (
            1_900,
            "monthly calendar advance",
            "2024-03-05",
            "2024-03-12T13:12:00",
            "2024-03-12T13:12:01",
            share(1_900, 20, 31),
        ),
        (
            1_500,
            "monthly anniversary advance",
            "2024-03-05",
            "2024-03-12T12:12:00",
            "2024-03-12T12:12:01",
            share(1_500, 24, 31),
        ),
        (
            1_900,
            "monthly anniversary advance",
            "2024-03-05",
            "2024-03-12T13:12:00",
            "2024-03-12T13:12:01",
            share(1_900, 24, 31),
        ),
    ],
)
def test_an_upgrade_bills_the_rest_of_the_period_from_its_own_day(
    amount: int, plan: str, anchor: str, started: str, at: str, cents: int
) -> None:
    subscription = cycle(plan, started, anchor=anchor)
    assert fee(amount, facts(subscription, instant(at), predecessor=Succession.UPGRADE)) == cents


def test_an_upgraded_plan_in_arrears_that_ends_is_billed_by_its_own_days() -> None:
    subscription = cycle(
        "quarterly anniversary arrears", "2024-05-20T09:00:00", anchor="2024-01-15", ended="2024-06-20T10:00:00"
    )
    known = facts(subscription, instant("2024-06-20T10:00:00"), predecessor=Succession.UPGRADE)
    assert fee(91_000, known) == share(91_000, 32, 91)


def test_a_downgrade_to_another_interval_is_billed_from_the_day_it_applies() -> None:
    new = cycle("yearly anniversary advance", "2023-11-19T00:10:00", anchor="2023-07-19T12:12:00")
    known = facts(new, instant("2023-11-19T00:10:00"), predecessor=Succession.DOWNGRADE)
    assert fee(118_800, known) == share(118_800, 243, 366)
    old = cycle("monthly anniversary advance downgrade", "2023-07-19T12:12:00", ended="2023-11-19T00:10:00")
    assert fee(12_900, facts(old, instant("2023-11-19T00:10:00"), first=False)) is None


@pytest.mark.parametrize(
    ("plan", "started", "zone", "cents"),
    [
        ("monthly calendar advance", "2024-03-05T00:00:00", "UTC", share(1_000, 27, 31)),
        ("monthly anniversary advance", "2024-03-05T00:00:00", "UTC", 1_000),
        ("monthly calendar advance", "2023-02-08T00:00:00", "UTC", share(1_000, 21, 28)),
        ("monthly calendar advance", "2023-02-08T00:00:00", "America/Los_Angeles", share(1_000, 22, 28)),
    ],
)
def test_a_plan_in_advance_is_billed_at_its_start(plan: str, started: str, zone: str, cents: int) -> None:
    subscription = cycle(plan, started, zone=zone)
    assert fee(1_000, facts(subscription, subscription.started_at)) == cents


@pytest.mark.parametrize(
    ("plan", "started", "created", "run", "cents"),
    [
        ("monthly calendar advance", "2024-01-10", "2024-03-20", "2024-04-01", 1_000),
        ("monthly calendar arrears", "2024-01-10", "2024-03-20", "2024-04-01", 1_000),
        ("monthly calendar arrears", "2024-03-10", "2024-03-20", "2024-04-01", share(1_000, 22, 31)),
        ("yearly calendar advance", "2024-01-10", "2024-03-20", "2025-01-01", 1_000),
        ("semiannual calendar advance", "2024-02-10", "2024-03-20", "2024-07-01", 1_000),
        ("semiannual calendar advance C", "2024-02-10", "2024-03-20", "2024-04-01", None),
    ],
)
def test_a_start_in_the_past_is_billed_by_its_first_run(
    plan: str, started: str, created: str, run: str, cents: int | None
) -> None:
    subscription = cycle(plan, started)
    assert fee(1_000, facts(subscription, instant(run) + RUN, created=created)) == cents


@pytest.mark.parametrize(
    ("plan", "run", "due"),
    [
        ("yearly anniversary arrears C", "2024-02-17", False),
        ("yearly anniversary arrears C", "2025-01-17", True),
        ("yearly anniversary advance C", "2024-02-17", False),
        ("yearly anniversary advance F", "2025-01-17", True),
        ("semiannual calendar arrears C", "2024-02-01", False),
        ("semiannual calendar arrears C", "2024-07-01", True),
        ("quarterly calendar arrears", "2024-04-01", True),
    ],
)
def test_monthly_runs_of_long_plans_bill_the_fee_once_an_interval(plan: str, run: str, due: bool) -> None:
    subscription = cycle(plan, "2024-01-17T10:00:00")
    later = subscription.pay_in_advance
    assert fee_is_due(facts(subscription, instant(run) + RUN, first=not later)) is due


def test_no_fee_twice_on_one_day_in_advance() -> None:
    subscription = cycle("monthly calendar advance", "2024-01-17T10:00:00")
    known = facts(subscription, instant("2024-02-01") + RUN, first=False)
    assert fee_is_due(known)
    assert not fee_is_due(replace(known, fee_billed_today=True))


def test_a_plan_in_arrears_has_no_fee_at_its_start() -> None:
    subscription = cycle("monthly calendar arrears", "2024-01-17T10:00:00")
    assert not fee_is_due(facts(subscription, subscription.started_at))


def test_an_ended_plan_in_advance_keeps_its_fee_only_on_drafts_older_than_the_end() -> None:
    subscription = cycle("monthly calendar advance", "2024-01-17T10:00:00", ended="2024-02-20T10:00:00")
    known = facts(subscription, instant("2024-02-01") + RUN, first=False)
    assert not fee_is_due(known)
    assert fee_is_due(replace(known, ended_after_invoice=True))


TEN, THIRTEEN, FORTY_FIVE = timedelta(days=10), timedelta(days=13), timedelta(days=45)


@pytest.mark.parametrize(
    ("plan", "started", "zone", "trial", "at", "amount", "cents"),
    [
        ("monthly calendar advance", "2024-03-05T12:12:00", "UTC", TEN, "2024-03-05T12:12:00", 5_000_000, None),
        (
            "monthly calendar advance",
            "2024-03-05T12:12:00",
            "UTC",
            TEN,
            "2024-03-15T12:35:00",
            5_000_000,
            share(5_000_000, 17, 31),
        ),
        ("monthly calendar advance", "2024-03-05T12:12:00", "UTC", FORTY_FIVE, "2024-04-01T00:10:00", 5_000_000, None),
        (
            "monthly calendar advance",
            "2024-03-05T12:12:00",
            "UTC",
            FORTY_FIVE,
            "2024-04-19T12:35:00",
            5_000_000,
            share(5_000_000, 12, 30),
        ),
        (
            "monthly calendar advance",
            "2024-03-22T01:12:00",
            "Europe/Paris",
            TEN,
            "2024-03-31T22:10:00",
            5_000_000,
            5_000_000,
        ),
        ("monthly calendar advance", "2024-03-22T18:12:00", "Asia/Tokyo", TEN, "2024-03-31T15:10:00", 5_000_000, None),
        (
            "monthly calendar advance",
            "2024-03-22T18:12:00",
            "Asia/Tokyo",
            TEN,
            "2024-04-01T18:35:00",
            5_000_000,
            share(5_000_000, 29, 30),
        ),
        (
            "monthly anniversary advance",
            "2022-08-31",
            "UTC",
            timedelta(days=15),
            "2022-09-15T00:35:00",
            3_000,
            share(3_000, 15, 30),
        ),
    ],
)
def test_a_trial_makes_the_fee_free_until_the_day_it_ends(
    plan: str, started: str, zone: str, trial: timedelta, at: str, amount: int, cents: int | None
) -> None:
    subscription = cycle(plan, started, zone=zone)
    known = facts(subscription, instant(at), trial_end=subscription.started_at + trial)
    assert fee(amount, known) == cents


def test_a_whole_period_is_cut_by_the_trial_too() -> None:
    window = Window(start=instant("2022-08-31"), end=instant("2022-09-30T23:59:59"), duration=30)
    assert fee_amount(3_000, FeeRule.FULL, window, UTC, trial_end=instant("2022-09-15")) == share(3_000, 16, 30)


def test_an_upgrade_during_a_trial_is_billed_when_the_trial_of_the_new_plan_ends() -> None:
    new = cycle("monthly calendar advance", "2024-03-10T12:12:00", anchor="2024-03-05T12:12:00")
    known = facts(
        new,
        instant("2024-03-18T12:35:00"),
        predecessor=Succession.UPGRADE,
        trial_end=instant("2024-03-05T12:12:00") + THIRTEEN,
    )
    assert fee(10_000_000, known) == share(10_000_000, 14, 31)  # from the 18th on


def test_a_plan_in_arrears_bills_nothing_for_a_period_all_in_trial() -> None:
    subscription = cycle("monthly calendar arrears", "2024-03-05T12:12:00")
    trial_end = instant("2024-04-10T12:12:00")
    assert fee(3_000, replace(facts(subscription, instant("2024-04-11") + RUN, trial_end=trial_end))) == 0


@pytest.mark.parametrize(
    ("amount", "period", "ended", "zone", "upgraded", "days", "cents"),
    [
        (10_000, "2025-02-01 2025-02-28", "2025-02-21T09:00:00", "UTC", False, 7, "2500"),
        (10_000, "2025-02-01 2025-02-28", "2025-02-08T20:00:00", "UTC", False, 20, "7142.85714"),
        (5_000, "2023-02-01 2023-02-28", "2023-02-08T00:00:00", "UTC", False, 20, "3571.42857"),
        (5_000, "2023-02-01 2023-02-28", "2023-02-08T00:00:00", "America/Los_Angeles", False, 21, "3750"),
        (5_000, "2023-02-08 2023-03-07", "2023-02-08T00:00:00", "UTC", False, 27, "4821.42857"),
        (999, "2023-02-28 2023-03-29", "2023-03-14T10:00:00", "UTC", False, 15, "499.5"),
        (3_100, "2022-10-01 2022-10-31", "2022-10-15T10:00:00", "UTC", False, 16, "1600"),
        (3_100, "2022-10-01 2022-10-31", "2022-10-15T10:00:00", "UTC", True, 17, "1700"),
        (3_100, "2022-10-01 2022-10-31", "2022-10-15T01:00:00", "America/Los_Angeles", False, 17, "1700"),
        (3_100, "2022-10-01 2022-10-31", "2022-10-15T01:00:00", "Europe/Paris", False, 16, "1600"),
        (1_000, "2023-08-29 2023-09-28", "2023-09-28T05:00:00", "UTC", True, 1, "32.25806"),
    ],
)
def test_the_unused_days_of_a_fee_in_advance_are_given_back(
    amount: int, period: str, ended: str, zone: str, upgraded: bool, days: int, cents: str
) -> None:
    start, end = (date.fromisoformat(day) for day in period.split())
    left = unused_days(instant(ended), Period(start=start, end=end), ZoneInfo(zone), upgraded=upgraded)
    assert left == days
    duration = (end - start).days + 1
    assert unused_time_credit(amount, left, duration, fee_amount_cents=amount) == Decimal(cents)


def test_an_end_during_a_trial_gives_back_every_day_that_was_to_be_paid() -> None:
    march = Period(start=date(2024, 3, 1), end=date(2024, 3, 31))
    ended = instant("2024-03-10T10:00:00")
    assert unused_days(ended, march, UTC, trial_end=instant("2024-03-15T12:12:00")) == 17
    assert unused_days(ended, march, UTC, trial_end=instant("2024-03-09T12:12:00")) == 21
    assert unused_days(ended, march, UTC, trial_end=instant("2024-04-15T12:12:00")) == 0


def test_never_more_is_given_back_than_is_left_of_the_fee() -> None:
    assert unused_time_credit(3_000, 20, 30, fee_amount_cents=1_500) == 1_500
    assert unused_time_credit(3_000, 20, 30, fee_amount_cents=1_500, credited_cents=Decimal(1_400)) == 100
    assert unused_time_credit(3_000, 20, 30, fee_amount_cents=1_500, credited_cents=Decimal(1_600)) == 0


@pytest.mark.parametrize(
    ("zone", "start", "days"), [("UTC", "2022-10-01", 15), ("Asia/Tokyo", "2022-09-30T15:00:00", 15)]
)
def test_used_days_are_local_dates(zone: str, start: str, days: int) -> None:
    window = Window(start=instant(start), end=instant("2022-10-31T14:59:59"), duration=31)
    ended = instant("2022-10-15T10:00:00")
    assert used_days(ended, window, ZoneInfo(zone)) == days
    assert used_days(ended, window, ZoneInfo(zone), trial_end=instant("2022-10-10T12:00:00")) == 6
    assert used_days(ended, window, ZoneInfo(zone), trial_end=instant("2022-10-20T12:00:00")) == 0


amounts = st.integers(0, 10**15)
zones = st.sampled_from(["UTC", "Europe/Paris", "America/Havana", "Africa/Cairo", "Asia/Kolkata"]).map(ZoneInfo)


@given(amounts, st.dates(date(2010, 1, 1), date(2035, 1, 1)), st.integers(2, 366), st.data(), zones)
def test_two_parts_of_a_period_cost_as_much_as_the_whole(
    amount: int, first: date, duration: int, data: st.DataObject, tz: tzinfo
) -> None:
    cut = data.draw(st.integers(1, duration - 1))
    last = first + timedelta(days=duration - 1)
    middle = first + timedelta(days=cut)
    parts = [(first, middle - timedelta(days=1)), (middle, last)]
    windows = [Window(start=day_start(a, tz), end=day_end(b, tz), duration=duration) for a, b in parts]
    costs = [fee_amount(amount, FeeRule.PARTIAL, window, tz) for window in windows]
    whole = fee_amount(amount, FeeRule.FULL, Window(start=windows[0].start, end=windows[1].end, duration=duration), tz)
    assert abs(total(costs) - whole) < Decimal("1e-70")
    assert sum(round_cents(cost) for cost in costs) - amount in (-1, 0, 1)


@given(amounts, st.integers(1, 366), st.integers(0, 366))
def test_a_fee_grows_with_its_days_and_is_never_more_than_the_plan(amount: int, duration: int, days: int) -> None:
    days = min(days, duration)
    cost = prorated(amount, days, duration)
    assert 0 <= cost <= amount
    assert prorated(amount, duration, duration) == amount
    assert days == 0 or prorated(amount, days - 1, duration) <= cost


@given(amounts, st.dates(date(2010, 1, 1), date(2035, 1, 1)), st.integers(1, 366), st.data(), zones, st.booleans())
def test_what_is_used_and_what_is_given_back_make_up_the_fee(
    amount: int, first: date, duration: int, data: st.DataObject, tz: tzinfo, upgraded: bool
) -> None:
    last = first + timedelta(days=duration - 1)
    window = Window(start=day_start(first, tz), end=day_end(last, tz), duration=duration)
    ended = data.draw(st.timedeltas(timedelta(0), window.end - window.start).map(lambda lived: window.start + lived))
    left = unused_days(ended, Period(start=first, end=last), tz, upgraded=upgraded)
    used = fee_amount(amount, FeeRule.ENDED, replace(window, end=ended), tz, upgraded=upgraded)
    assert abs(used + prorated(amount, left, duration) - amount) < Decimal("1e-70")
    assert used_days(ended, window, tz) + left == duration + upgraded
    assert local_date(ended, tz) <= last
