"""Minimum commitments: which period is settled, what it asks for, what fills it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import fee
from tests.money import share

from usagebill.core.commitments import (
    Settlement,
    commitment_due,
    counts_toward,
    fee_counts,
    settlement,
    true_up,
    true_up_precise,
)
from usagebill.core.numbers import round_cents
from usagebill.core.periods import (
    BillingTime,
    Cycle,
    Interval,
    Succession,
    Window,
    billing_boundaries,
    day_end,
    day_start,
)
from usagebill.core.subscription_fees import FeeRule, billed_days, prorated

MILLION = 1_000_000


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cycle(plan: str, started: str, *, ended: str = "", succession: Succession | None = None) -> Cycle:
    words = plan.split()
    return Cycle(
        interval=Interval(words[0]),
        billing_time=BillingTime(words[1]),
        pay_in_advance=words[2] == "advance",
        bill_charges_monthly="C" in words,
        subscription_at=instant(started),
        started_at=instant(started),
        tz=UTC,
        terminated_at=instant(ended) if ended else None,
        succession=succession,
    )


def settled(subscription: Cycle, at: str, *, last_fee: str = "", period_billed: bool = False) -> Settlement | None:
    record = billing_boundaries(subscription, instant(at), period_billed=period_billed)
    return settlement(subscription, record, last_fee_at=instant(last_fee) if last_fee else None)


def due(settlement: Settlement | None, amount: int = MILLION) -> int:
    assert settlement is not None
    return commitment_due(amount, settlement, UTC)


def owed(days: int, period_days: int) -> int:
    """What is left of a commitment of 10,000.00 for these days, once they were billed at 1,000.00 a period."""
    return share(MILLION, days, period_days) - share(100_000, days, period_days)


@pytest.mark.parametrize(
    ("plan", "started", "run", "expected"),
    [
        ("weekly calendar arrears", "2023-02-01", "2023-02-06T00:10:00", owed(5, 7)),
        ("monthly calendar arrears", "2023-02-04", "2023-03-01T00:10:00", owed(25, 28)),
        ("quarterly calendar arrears", "2023-02-04", "2023-04-01T00:10:00", owed(56, 90)),
        ("yearly calendar arrears", "2022-02-01", "2023-01-01T00:10:00", owed(334, 365)),
        ("weekly anniversary arrears", "2023-02-01", "2023-02-08T00:10:00", MILLION - 100_000),
        ("monthly anniversary arrears", "2023-02-04", "2023-03-04T00:10:00", MILLION - 100_000),
        ("quarterly anniversary arrears", "2023-02-04", "2023-05-04T00:10:00", MILLION - 100_000),
        ("yearly anniversary arrears", "2022-02-01", "2023-02-01T00:10:00", MILLION - 100_000),
    ],
)
def test_a_first_period_in_arrears_owes_its_share(plan: str, started: str, run: str, expected: int) -> None:
    subscription = cycle(plan, started)
    settlement = settled(subscription, run)
    assert settlement is not None
    fee = round_cents(
        prorated(100_000, billed_days(FeeRule.PARTIAL, settlement.window, UTC), settlement.window.duration)
    )
    assert true_up(due(settlement), [fee]) == expected


def test_a_plan_in_advance_settles_each_period_when_it_is_over() -> None:
    subscription = cycle("weekly calendar advance", "2023-02-01")
    assert settled(subscription, "2023-02-06T00:10:00") is None
    first = settled(subscription, "2023-02-06T00:10:00", last_fee="2023-02-01T00:00:00")
    assert true_up(due(first), [share(100_000, 5, 7)]) == owed(5, 7)
    second = settled(subscription, "2023-02-13T00:10:00", last_fee="2023-02-06T00:10:00")
    assert true_up(due(second), [100_000]) == MILLION - 100_000
    ended = replace(subscription, terminated_at=instant("2023-02-15T10:00:00"))
    last = settled(ended, "2023-02-15T10:00:00", last_fee="2023-02-13T00:10:00")
    assert true_up(due(last), [100_000]) == share(MILLION, 3, 7) - 100_000


def test_all_fees_of_the_period_count() -> None:
    arrears = cycle("monthly calendar arrears", "2024-02-28T10:00:00")
    first = settled(arrears, "2024-03-01T00:10:00")
    assert true_up(due(first), [690, 1_000, 1_000, 1_000]) == share(MILLION, 2, 29) - 690 - 3 * 1_000
    assert true_up(due(settled(arrears, "2024-04-01T00:10:00")), [10_000, 1_000]) == MILLION - 11_000
    advance = cycle("monthly calendar advance", "2024-02-28T10:00:00")
    first = settled(advance, "2024-03-01T00:10:00", last_fee="2024-02-28T10:00:00")
    assert true_up(due(first), [690, 2_500, 3_000, 1_500]) == share(MILLION, 2, 29) - 690 - 7_000


def test_a_plan_that_bills_usage_monthly_settles_the_whole_interval() -> None:
    subscription = cycle("yearly calendar arrears C", "2024-03-05T10:00:00")
    assert settled(subscription, "2024-04-01T00:10:00") is None
    settlement = settled(subscription, "2025-01-01T00:10:00")
    assert due(settlement) == share(MILLION, 302, 366)
    assert true_up(due(settlement), [8_251, 8_800]) == share(MILLION, 302, 366) - 8_251 - 8_800


def test_a_downgrade_settles_the_period_that_it_closes() -> None:
    ended = "2024-06-01T00:15:49"
    for plan in ("monthly calendar arrears", "monthly calendar advance"):
        subscription = cycle(plan, "2024-03-01", ended=ended, succession=Succession.DOWNGRADE)
        settlement = settled(subscription, ended, last_fee="2024-05-01T00:10:00")
        assert settlement is not None
        assert (settlement.window.start, settlement.window.end) == (
            instant("2024-05-01"),
            day_end(date(2024, 5, 31), UTC),
        )
        assert true_up(due(settlement), [10_000]) == MILLION - 10_000


def test_a_downgrade_at_the_first_boundary_settles_the_days_lived() -> None:
    ended = "2024-06-01T00:10:00"
    subscription = cycle("monthly calendar advance", "2024-05-16", ended=ended, succession=Succession.DOWNGRADE)
    assert due(settled(subscription, ended, last_fee="2024-05-16T00:00:00")) == share(MILLION, 16, 31)
    same_day = replace(subscription, started_at=instant("2024-06-01T00:00:00"))
    assert settled(same_day, ended, last_fee="2024-06-01T00:00:00") is None


def test_an_end_settles_the_period_open_and_on_a_boundary_day_the_one_closed() -> None:
    subscription = cycle("monthly calendar advance", "2024-03-01", ended="2024-06-01T06:00:00")
    closed = settled(subscription, "2024-06-01T06:00:00", last_fee="2024-05-01T00:10:00")
    assert due(closed) == MILLION
    opened = settled(subscription, "2024-06-01T06:00:00", last_fee="2024-06-01T00:10:00", period_billed=True)
    assert due(opened) == share(MILLION, 1, 30)


def test_a_yearly_plan_in_advance_is_settled_whenever_it_ends() -> None:
    subscription = cycle("yearly calendar advance", "2024-01-01", ended="2024-06-30T10:00:00")
    assert due(settled(subscription, "2024-06-30T10:00:00", last_fee="2024-01-01T00:00:00")) == share(MILLION, 182, 366)


@pytest.mark.parametrize(("ended", "days"), [("2024-06-01T10:00:00", 0), ("2024-06-16T23:59:59", 15)])
def test_the_day_of_an_upgrade_is_the_new_plans(ended: str, days: int) -> None:
    subscription = cycle("monthly calendar arrears", "2024-03-01", ended=ended, succession=Succession.UPGRADE)
    assert due(settled(subscription, ended, period_billed=True)) == share(MILLION, days, 30)


def test_an_upgrade_before_the_run_settles_the_closed_period_whole() -> None:
    ended = "2024-06-01T00:05:00"
    subscription = cycle("monthly calendar arrears", "2024-03-01", ended=ended, succession=Succession.UPGRADE)
    assert due(settled(subscription, ended)) == MILLION


def test_fees_count_in_the_period_that_holds_the_middle_of_their_window() -> None:
    settlement = settled(cycle("monthly calendar arrears", "2024-02-28T10:00:00"), "2024-03-01T00:10:00")
    assert settlement is not None
    assert counts_toward(settlement.period, instant("2024-02-28T10:00:00"), day_end(date(2024, 2, 29), UTC))
    assert counts_toward(settlement.period, settlement.period.start, settlement.period.end)
    assert counts_toward(settlement.period, instant("2024-02-01T00:10:00"), instant("2024-02-01T00:10:00"))
    assert not counts_toward(settlement.period, instant("2024-01-01"), day_end(date(2024, 1, 31), UTC))
    # February, as it was billed of a customer who has moved west or east since.
    assert counts_toward(settlement.period, instant("2024-01-31T15:00:00"), instant("2024-03-01T07:59:59"))
    assert counts_toward(settlement.period, instant("2024-02-01T08:00:00"), instant("2024-03-01T07:59:59"))
    assert not counts_toward(settlement.period, instant("2024-01-01T08:00:00"), instant("2024-02-01T07:59:59"))


def test_the_unrounded_true_up_counts_unrounded_fees() -> None:
    assert true_up_precise(100, [Decimal("33.3"), Decimal("0.05")]) == Decimal("66.65")
    assert true_up_precise(100, [Decimal("100.5")]) == 0


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**12)))
def test_fees_and_true_up_reach_the_commitment(commitment: int, fees: list[int]) -> None:
    gap = true_up(commitment, fees)
    assert gap >= 0
    assert sum(fees) + gap == max(commitment, sum(fees))


@given(st.integers(0, 10**12), st.dates(date(2010, 1, 1), date(2035, 1, 1)), st.integers(2, 366), st.data())
def test_two_parts_of_a_period_owe_as_much_as_the_whole(
    amount: int, first: date, duration: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, duration - 1))
    days = [first, first + timedelta(days=cut), first + timedelta(days=duration)]
    whole = Window(
        start=day_start(days[0], UTC), end=day_start(days[2], UTC) - timedelta(microseconds=1), duration=duration
    )
    left = replace(whole, end=day_start(days[1], UTC) - timedelta(microseconds=1))
    right = replace(whole, start=day_start(days[1], UTC))
    assert due(Settlement(window=whole, period=whole), amount) == amount
    parts = [due(Settlement(window=part, period=whole), amount) for part in (left, right)]
    assert sum(parts) - amount in (0, 1)


JANUARY = Window(start=instant("2024-01-01"), end=instant("2024-01-31T23:59:59"), duration=31)
IN, OUT = (instant("2024-01-01"), instant("2024-01-31")), (instant("2023-12-01"), instant("2023-12-31"))


@pytest.mark.parametrize(
    ("fee_type", "fee_window", "charges_window", "is_counted"),
    [
        ("subscription", IN, (None, None), True),
        ("subscription", OUT, (None, None), False),
        ("subscription", (None, None), (None, None), False),
        ("fixed_charge", IN, (None, None), True),
        ("charge", IN, IN, True),
        ("charge", OUT, IN, True),
        # A renewal shows the period that closed, and counts in the one it was renewed for.
        ("charge", IN, OUT, True),
        ("charge", (None, None), OUT, False),
        ("commitment", IN, IN, False),
        ("add_on", IN, IN, False),
    ],
)
def test_fees_count_toward_the_commitment_of_the_period_they_bill(
    fee_type: str,
    fee_window: tuple[datetime | None, datetime | None],
    charges_window: tuple[datetime | None, datetime | None],
    is_counted: bool,
) -> None:
    fields: dict[str, Any] = {
        "fee_type": fee_type,
        "from_datetime": fee_window[0],
        "to_datetime": fee_window[1],
        "charges_from_datetime": charges_window[0],
        "charges_to_datetime": charges_window[1],
    }
    assert fee_counts(fee(100, **fields), JANUARY) is is_counted
