"""Units of fixed charges over time: what a period bills, what a change bills, what a plan change deducts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from tests.money import share

from usagebill.core.days import local_date
from usagebill.core.fixed_charges import (
    days_left,
    days_paid_and_left,
    fixed_charge_is_due,
    next_period_start,
    units_effective_at,
    units_in,
)
from usagebill.core.numbers import multiply, round_cents, round_to, total
from usagebill.core.periods import (
    BillingTime,
    Cycle,
    Interval,
    Window,
    advance_window,
    billing_boundaries,
    day_end,
    day_start,
)
from usagebill.core.plans import FixedChargeUnits
from usagebill.core.pricing import parse_properties
from usagebill.core.pricing.fees import FeeAmounts
from usagebill.core.pricing.fixed_charges import units_change_amounts, unused_cents


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def month(year: int, number: int, start: str = "") -> Window:
    first = date(year, number, 1)
    following = date(year + number // 12, number % 12 + 1, 1)
    return Window(
        start=instant(start) if start else day_start(first, UTC),
        end=day_end(following - timedelta(days=1), UTC),
        duration=(following - first).days,
    )


def decided(amount: Decimal, effective: datetime, created: datetime, id: str = "") -> FixedChargeUnits:
    return FixedChargeUnits(
        id=id,
        organization_id="o",
        subscription_id="s",
        fixed_charge_id="f",
        units=amount,
        effective_at=effective,
        created_at=created,
    )


def units(amount: int, effective: str, created: str = "", id: str = "") -> FixedChargeUnits:
    return decided(Decimal(amount), instant(effective), instant(created or effective), id)


JANUARY = [
    units(30, "2023-12-01"),
    units(77, "2024-01-22", "2024-01-07"),
    units(10, "2024-01-01", "2024-01-09"),
    units(7, "2024-01-20", "2024-01-10"),
]


def test_a_later_decision_that_takes_effect_earlier_cancels_a_planned_one() -> None:
    usage = units_in(JANUARY, month(2024, 1), UTC, prorated=True)
    assert usage.units == Decimal("6.129032") + Decimal("2.709677")  # 10 x 19/31 + 7 x 12/31
    assert usage.full_units == 7


def test_what_is_decided_last_counts_for_the_whole_period_where_nothing_is_prorated() -> None:
    assert units_in(JANUARY, month(2024, 1), UTC, prorated=False).units == 7
    assert units_in(JANUARY, month(2024, 2), UTC, prorated=False).units == 7
    assert units_in(JANUARY, month(2023, 12), UTC, prorated=False).units == 30
    assert units_in(JANUARY, month(2023, 11), UTC, prorated=False).units == 0


@pytest.mark.parametrize(
    ("year", "number", "whole", "prorated"),
    [(2024, 12, "30", "30"), (2025, 1, "7", "8.84"), (2025, 2, "70", "49.75"), (2025, 3, "70", "70")],
)
def test_the_latest_of_many_decisions_cancels_those_that_were_to_come(
    year: int, number: int, whole: str, prorated: str
) -> None:
    decisions = [
        units(30, "2024-01-01", "2025-01-01"),
        units(10, "2025-01-01", "2025-01-09"),
        units(5, "2025-02-01", "2025-01-05"),
        units(77, "2025-01-22", "2025-01-07"),
        units(7, "2025-01-20", "2025-01-10"),
        units(12, "2025-03-01", "2025-01-20"),
        units(70, "2025-02-10", "2025-01-30"),
    ]
    window = month(year, number)
    assert units_in(decisions, window, UTC, prorated=False).units == Decimal(whole)
    assert round_to(units_in(decisions, window, UTC, prorated=True).units, 2) == Decimal(prorated)


def test_no_events_no_units() -> None:
    usage = units_in([], month(2024, 1), UTC, prorated=True)
    assert usage.units == 0
    assert usage.full_units == 0


def test_a_late_start_is_prorated_over_the_whole_period() -> None:
    start = "2024-02-04T00:00:00"
    events = [decided(Decimal(10), instant(start), instant(start))]
    usage = units_in(events, month(2024, 2, start), UTC, prorated=True)
    assert usage.units == Decimal("8.965517")  # 10 x 26/29
    assert round_cents(multiply(usage.units, Decimal(20_000))) == share(10 * 20_000, 26, 29)
    assert units_in(events, month(2024, 2, start), UTC, prorated=False).units == 10


def test_units_that_become_none_are_billed_until_the_day_before() -> None:
    events = [units(10, "2024-01-01"), units(0, "2024-01-11T15:00:00")]
    usage = units_in(events, month(2024, 1), UTC, prorated=True)
    assert usage.units == Decimal("3.225806")
    assert usage.full_units == 0


def test_the_day_of_a_change_is_a_local_date() -> None:
    events = [units(0, "2023-12-01"), units(31, "2024-01-30T23:30:00")]
    window = month(2024, 1)
    assert units_in(events, window, UTC, prorated=True).units == 2
    paris = ZoneInfo("Europe/Paris")
    paris_january = Window(start=day_start(date(2024, 1, 1), paris), end=day_end(date(2024, 1, 31), paris), duration=31)
    assert units_in(events, paris_january, paris, prorated=True).units == 1


def test_units_decided_at_one_instant_follow_each_other_by_id() -> None:
    first, second = units(5, "2024-01-05", id="018d-1"), units(8, "2024-01-05", id="018d-2")
    assert units_in([first, second], month(2024, 1), UTC, prorated=False).units == 8
    assert units_in([second, first], month(2024, 1), UTC, prorated=False).units == 8


@pytest.mark.parametrize(
    ("ended", "cents"), [("2023-08-21T12:00:00", 677), ("2023-08-31T23:00:00", 1_000), ("2023-08-01T05:00:00", 32)]
)
def test_an_end_counts_its_own_day(ended: str, cents: int) -> None:
    window = Window(start=instant("2023-08-01"), end=instant(ended), duration=31)
    usage = units_in([units(1, "2023-05-01")], window, UTC, prorated=True)
    assert round_cents(multiply(usage.units, Decimal(1_000))) == cents


def added(new: int, billed: int, at: datetime, window: Window, *, prorated: bool = True) -> FeeAmounts:
    """The fee for units added at `at`, at 10.00 a unit."""
    return units_change_amounts(
        "standard",
        parse_properties("standard", {"amount": "10"}, subunits=100),
        "EUR",
        new_units=Decimal(new),
        paid_units=Decimal(billed),
        days=days_left(at, window, UTC, prorated=prorated),
        period_days=window.duration,
    )


@pytest.mark.parametrize(
    ("interval", "billing_time", "started", "cents"),
    [
        ("monthly", "calendar", "2024-03-15T09:00:00", share(10 * 10_00, 17, 31)),
        ("weekly", "calendar", "2024-03-07T09:00:00", share(10 * 10_00, 4, 7)),
        ("yearly", "calendar", "2024-07-01T00:00:00", share(10 * 10_00, 184, 366)),
        ("monthly", "anniversary", "2024-03-15T09:00:00", 10 * 10_00),
    ],
)
def test_ten_units_added_in_mid_period(interval: str, billing_time: str, started: str, cents: int) -> None:
    at = instant(started)
    cycle = Cycle(
        interval=Interval(interval),
        billing_time=BillingTime(billing_time),
        pay_in_advance=False,
        subscription_at=at,
        started_at=at,
        tz=UTC,
    )
    assert added(10, 0, at, advance_window(cycle, at)).amount_cents == cents


@pytest.mark.parametrize(
    ("new", "billed", "changed", "cents"),
    [
        (15, 10, "2024-03-20T10:00:00", share(5 * 10_00, 12, 31)),
        (20, 15, "2024-03-25T10:00:00", share(5 * 10_00, 7, 31)),
        (5, 10, "2024-03-20T10:00:00", 0),
    ],
)
def test_more_units_at_once_bill_the_days_that_are_left(new: int, billed: int, changed: str, cents: int) -> None:
    fee = added(new, billed, instant(changed), month(2024, 3))
    assert (fee.units, fee.amount_cents) == (max(new - billed, 0), cents)


def test_units_that_were_billed_once_are_not_billed_again_after_a_reduction() -> None:
    at = instant("2024-03-20")
    fees = [added(new, billed, at, month(2024, 3), prorated=False) for new, billed in [(5, 10), (15, 10), (20, 15)]]
    assert [fee.amount_cents for fee in fees] == [0, (15 - 10) * 1_000, (20 - 15) * 1_000]


def test_the_day_of_an_addition_is_a_local_date() -> None:
    angeles = ZoneInfo("America/Los_Angeles")
    march = Window(start=day_start(date(2024, 3, 1), angeles), end=day_end(date(2024, 3, 31), angeles), duration=31)
    assert days_left(instant("2024-04-01T01:00:00"), march, angeles, prorated=True) == 1
    assert days_left(instant("2024-04-01T08:00:00"), march, angeles, prorated=True) == 0
    assert days_left(instant("2024-04-01T01:00:00"), march, angeles, prorated=False) == 31


@pytest.mark.parametrize(
    ("new", "billed", "billed_at", "until", "upgraded", "cents"),
    [
        (3_548, 1_500, "2023-08-01T00:10:00", "2023-08-31T23:59:59", "2023-08-21T12:00:00", 3_016),
        (3_226, 1_065, "2025-12-10T12:00:00", "2025-12-31T23:59:59", "2025-12-22T12:00:00", 2_742),
        (3_226, 484, "2025-12-22T12:12:01", "2025-12-31T23:59:59", "2025-12-22T13:12:00", 2_742),
        (3_226, 500, "2025-12-31T23:59:59", "2025-12-30T00:00:00", "2025-12-31T23:59:59", 3_226),
    ],
)
def test_a_plan_change_deducts_the_days_already_paid(
    new: int, billed: int, billed_at: str, until: str, upgraded: str, cents: int
) -> None:
    window = Window(start=instant(upgraded), end=instant(until), duration=31)
    paid, left = days_paid_and_left(instant(billed_at), instant(until), window, UTC)
    assert new - unused_cents(billed, days=left, paid_days=paid) == cents


def test_the_next_period_starts_where_the_window_of_the_fixed_charge_ends() -> None:
    started = instant("2024-03-05T10:00:00")
    cycle = Cycle(
        interval=Interval.YEARLY,
        billing_time=BillingTime.CALENDAR,
        pay_in_advance=False,
        subscription_at=started,
        started_at=started,
        tz=UTC,
        bill_fixed_charges_monthly=True,
    )
    following = next_period_start(cycle, started)
    assert following == instant("2024-04-01")
    closed = billing_boundaries(cycle, instant("2024-04-01T00:10:00")).fixed_charges
    assert closed is not None
    events = [
        units(10, "2024-03-05T10:00:01"),
        units(99, following.strftime("%Y-%m-%d"), "2024-03-10"),
    ]
    assert units_in(events, closed, UTC, prorated=False).units == 10
    assert units_in(events, advance_window(cycle, following), UTC, prorated=False).units == 99


@pytest.mark.parametrize(
    ("pay_in_advance", "ended", "closes", "billed_before", "due"),
    [
        (False, False, True, False, True),
        (False, False, False, False, False),
        (False, True, True, False, True),
        (True, False, False, False, True),
        (True, False, True, True, False),
        (True, True, True, False, False),
    ],
)
def test_which_fixed_charges_a_record_bills(
    pay_in_advance: bool, ended: bool, closes: bool, billed_before: bool, due: bool
) -> None:
    assert (
        fixed_charge_is_due(
            pay_in_advance=pay_in_advance, ended=ended, closes=closes, billed_before=billed_before, days=1
        )
        is due
    )


@pytest.mark.parametrize(("days", "is_due"), [(0, False), (1, True)])
def test_a_window_of_which_no_day_is_the_plans_bills_nothing_in_arrears(days: int, is_due: bool) -> None:
    due = fixed_charge_is_due(pay_in_advance=False, ended=True, closes=True, billed_before=False, days=days)
    assert due is is_due


def test_a_draft_made_before_the_end_keeps_its_fixed_charges_in_advance() -> None:
    assert fixed_charge_is_due(
        pay_in_advance=True, ended=True, closes=True, billed_before=False, days=1, ended_after_invoice=True
    )


seconds = st.integers(0, 70 * 86_400).map(lambda since: instant("2023-12-15") + timedelta(seconds=since))
event_lists = st.lists(
    st.builds(decided, st.integers(0, 10**6).map(Decimal), seconds, seconds),
    max_size=8,
    unique_by=lambda event: event.created_at,
)


@given(event_lists, st.data(), st.booleans())
def test_the_order_in_which_events_are_read_does_not_matter(
    events: list[FixedChargeUnits], data: st.DataObject, prorated: bool
) -> None:
    shuffled = data.draw(st.permutations(events))
    window = month(2024, 1)
    assert units_in(events, window, UTC, prorated=prorated) == units_in(shuffled, window, UTC, prorated=prorated)


@given(event_lists)
def test_prorated_units_never_exceed_the_most_units_decided(events: list[FixedChargeUnits]) -> None:
    usage = units_in(events, month(2024, 1), UTC, prorated=True)
    assert 0 <= usage.units <= max((event.units for event in events), default=Decimal(0)) + Decimal("1e-5")


@given(event_lists, st.integers(1, 30))
def test_two_parts_of_a_period_hold_as_many_units_as_the_whole(events: list[FixedChargeUnits], cut: int) -> None:
    settled = [event for event in events if event.created_at < instant("2024-01-01")]
    whole = month(2024, 1)
    middle = instant("2024-01-01") + timedelta(days=cut)
    left = Window(start=whole.start, end=middle - timedelta(microseconds=1), duration=31)
    right = Window(start=middle, end=whole.end, duration=31)
    parts = total(units_in(settled, window, UTC, prorated=True).units for window in (left, right))
    assert abs(parts - units_in(settled, whole, UTC, prorated=True).units) <= Decimal("1e-5")


@given(st.integers(0, 30), st.integers(0, 23), st.booleans())
def test_days_before_and_after_an_addition_make_up_the_period(day: int, hour: int, prorated: bool) -> None:
    at, march = instant("2024-03-01") + timedelta(days=day, hours=hour), month(2024, 3)
    left = days_left(at, march, UTC, prorated=prorated)
    assert left == (march.duration - day if prorated else march.duration)
    assert local_date(at, UTC).day == day + 1


@given(seconds, seconds, seconds, st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata"]))
def test_no_more_days_are_left_than_were_paid(
    billed_at: datetime, upgraded: datetime, until: datetime, zone: str
) -> None:
    window = Window(start=upgraded, end=until, duration=31)
    paid, left = days_paid_and_left(billed_at, until, window, ZoneInfo(zone))
    assert 0 <= left <= paid


@pytest.mark.parametrize(
    ("is_active", "immediately", "effective_at"),
    [
        (True, True, "2024-01-15T09:00"),
        (True, False, "2024-02-01"),
        # While its first payment is awaited, nothing changes before the next period.
        (False, True, "2024-02-01"),
        (False, False, "2024-02-01"),
    ],
)
def test_new_units_count_at_once_or_from_the_next_period(is_active: bool, immediately: bool, effective_at: str) -> None:
    cycle = Cycle(
        interval=Interval.MONTHLY,
        billing_time=BillingTime.CALENDAR,
        pay_in_advance=True,
        subscription_at=instant("2024-01-10"),
        started_at=instant("2024-01-10"),
        tz=UTC,
    )
    now = instant("2024-01-15T09:00")
    assert units_effective_at(cycle, now, is_active=is_active, immediately=immediately) == instant(effective_at)
