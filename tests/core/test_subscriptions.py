"""The life cycle of subscriptions, and which plan change is which."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.life_cycles import TransitionError
from usagebill.core.periods import BillingTime, Cycle, Interval, Succession
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import (
    TRANSITIONS,
    Event,
    Start,
    Subscription,
    SubscriptionStatus,
    cycle_of,
    is_upgrade,
    start_of,
    start_of_moved,
    started_in_past_at,
    transition,
    yearly_amount,
)


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([Event.ACTIVATE, Event.TERMINATE], SubscriptionStatus.TERMINATED),
        ([Event.AWAIT_PAYMENT, Event.PAYMENT_SUCCEEDED, Event.TERMINATE], SubscriptionStatus.TERMINATED),
        ([Event.AWAIT_PAYMENT, Event.PAYMENT_FAILED], SubscriptionStatus.CANCELED),
        ([Event.AWAIT_PAYMENT, Event.PAYMENT_TIMED_OUT], SubscriptionStatus.CANCELED),
        ([Event.CANCEL], SubscriptionStatus.CANCELED),
    ],
)
def test_a_life(events: list[Event], status: SubscriptionStatus) -> None:
    reached = SubscriptionStatus.PENDING
    for event in events:
        reached = transition(reached, event)
    assert reached == status


@pytest.mark.parametrize(
    ("status", "event"), [pair for pair in product(SubscriptionStatus, Event) if pair not in TRANSITIONS]
)
def test_nothing_else_can_happen(status: SubscriptionStatus, event: Event) -> None:
    with pytest.raises(TransitionError) as refusal:
        transition(status, event)
    assert (refusal.value.status, refusal.value.event) == (status, event)


@pytest.mark.parametrize("ended", [SubscriptionStatus.TERMINATED, SubscriptionStatus.CANCELED])
def test_an_ended_subscription_stays_as_it_is(ended: SubscriptionStatus) -> None:
    assert not any(status is ended for status, _ in TRANSITIONS)


def test_a_start_is_today_by_the_local_date() -> None:
    now = datetime(2024, 3, 1, 3, tzinfo=UTC)
    angeles = ZoneInfo("America/Los_Angeles")
    assert start_of(datetime(2024, 2, 29, 20, tzinfo=UTC), now, angeles) is Start.TODAY
    assert start_of(datetime(2024, 2, 29, 20, tzinfo=UTC), now, UTC) is Start.PAST
    assert start_of(datetime(2024, 3, 1, 9, tzinfo=UTC), now, UTC) is Start.TODAY
    assert start_of(datetime(2024, 3, 1, 9, tzinfo=UTC), now, angeles) is Start.FUTURE


@pytest.mark.parametrize(
    ("moved_to", "has_rules", "begins"),
    [
        ("2024-03-11T01:00:00Z", False, Start.TODAY),
        ("2024-03-11T01:00:00Z", True, Start.FUTURE),
        ("2024-03-11T00:00:00Z", False, Start.TODAY),
        ("2024-03-10T23:59:59Z", False, Start.PAST),
        ("2024-03-10T23:59:59Z", True, Start.PAST),
        ("2024-03-11T01:00:01Z", False, Start.FUTURE),
        ("2024-03-11T02:00:00+02:00", False, Start.TODAY),
        ("2024-03-11T01:30:00+02:00", False, Start.PAST),
    ],
)
def test_a_moved_start_is_today_by_the_date_in_utc(moved_to: str, has_rules: bool, begins: Start) -> None:
    now = datetime(2024, 3, 11, 1, tzinfo=UTC)
    assert start_of_moved(datetime.fromisoformat(moved_to), now, has_rules=has_rules) is begins


def test_a_start_in_the_past_never_overlaps_time_already_billed() -> None:
    wanted_start, ended = datetime(2025, 3, 15, tzinfo=UTC), datetime(2026, 3, 13, 9, tzinfo=UTC)
    assert started_in_past_at(wanted_start, [datetime(2025, 1, 1, tzinfo=UTC), ended]) == ended
    assert started_in_past_at(wanted_start, []) == wanted_start


def test_plan_changes_compare_yearly_amounts() -> None:
    assert yearly_amount(100, Interval.WEEKLY) == 100 * 52
    assert is_upgrade(12_000, Interval.YEARLY, 1_000, Interval.MONTHLY)
    assert not is_upgrade(12_900, Interval.MONTHLY, 118_800, Interval.YEARLY)
    assert is_upgrade(100, Interval.WEEKLY, 2_600, Interval.SEMIANNUAL)


@given(st.integers(0, 10**12), st.sampled_from(Interval), st.integers(0, 10**12), st.sampled_from(Interval))
def test_of_two_different_prices_one_change_is_the_upgrade(a: int, left: Interval, b: int, right: Interval) -> None:
    there, back = is_upgrade(a, left, b, right), is_upgrade(b, right, a, left)
    assert there or back
    assert (there and back) == (yearly_amount(a, left) == yearly_amount(b, right))


def test_periods_follow_from_the_subscription_and_its_plan() -> None:
    at, later = datetime(2024, 3, 1, 3, tzinfo=UTC), datetime(2024, 5, 1, 3, tzinfo=UTC)
    plan = Plan(
        id="p",
        organization_id="o",
        name="Plan",
        code="plan",
        interval="yearly",
        amount_cents=100,
        amount_currency="EUR",
        pay_in_advance=True,
        bill_charges_monthly=True,
        created_at=at,
        updated_at=at,
    )
    waiting = Subscription(
        id="s",
        organization_id="o",
        external_id="e",
        customer_id="c",
        plan_id="p",
        status=SubscriptionStatus.PENDING,
        billing_time="anniversary",
        subscription_at=at,
        created_at=at,
        updated_at=at,
    )
    with pytest.raises(ValueError, match="before it starts"):
        cycle_of(waiting, plan, UTC)
    ended = replace(waiting, status=SubscriptionStatus.TERMINATED, started_at=at, terminated_at=later)
    assert cycle_of(ended, plan, UTC, succession=Succession.UPGRADE) == Cycle(
        interval=Interval.YEARLY,
        billing_time=BillingTime.ANNIVERSARY,
        pay_in_advance=True,
        bill_charges_monthly=True,
        subscription_at=at,
        started_at=at,
        tz=UTC,
        terminated_at=later,
        succession=Succession.UPGRADE,
    )
