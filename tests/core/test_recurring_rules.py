"""Recurring top-up rules: how much they add, and on which days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, wallet

from usagebill.core.recurring_rules import (
    RecurringTransactionRule,
    RuleInterval,
    RuleMethod,
    RuleTrigger,
    breaks_limits,
    earliest_top_up_day,
    holds_back,
    is_running,
    is_top_up_day,
    next_top_up,
    rule_is_sound,
    threshold_is_passed,
    top_up_credits,
)

PARIS = ZoneInfo("Europe/Paris")


def rule(**fields: Any) -> RecurringTransactionRule:
    numbers = ("paid_credits", "granted_credits", "threshold_credits", "target_ongoing_balance")
    values: dict[str, Any] = {
        "id": "rule",
        "organization_id": "organization",
        "wallet_id": "wallet",
        "trigger": RuleTrigger.THRESHOLD,
        "created_at": NOW,
        "updated_at": NOW,
        **{name: Decimal(value) if name in numbers else value for name, value in fields.items()},
    }
    return RecurringTransactionRule(**values)


def added(ongoing: str, pending: str = "0", *, wallet_fields: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    held = wallet(credits_ongoing_balance=Decimal(ongoing), **(wallet_fields or {}))
    credits = top_up_credits(rule(**fields), held, Decimal(pending))
    return [f"{credits.paid.normalize():f}", f"{credits.granted.normalize():f}"]


def test_a_fixed_threshold_rule_buys_until_the_threshold_is_passed() -> None:
    fixed: dict[str, Any] = {"threshold_credits": "10", "paid_credits": "50"}
    assert added("-429.8", **fixed) == ["450", "0"]
    assert added("-429.8", "50", **fixed) == ["400", "0"]
    assert added("-429.8", granted_credits="50", **fixed) == ["400", "50"]
    limited = {"paid_top_up_max_amount_cents": 10_000}
    assert added("-429.8", wallet_fields=limited, **fixed) == ["100", "0"]
    assert added("-429.8", wallet_fields=limited, ignore_paid_top_up_limits=True, **fixed) == ["450", "0"]
    assert [added(ongoing, **fixed)[0] for ongoing in ("-50", "-100", "5.5")] == ["100", "150", "50"]


def test_a_target_rule_adds_what_is_missing() -> None:
    target: dict[str, Any] = {"method": RuleMethod.TARGET, "target_ongoing_balance": "200"}
    assert added("5.5", wallet_fields={"paid_top_up_min_amount_cents": 20_550}, **target) == ["205.5", "0"]
    assert added("5.5", wallet_fields={"paid_top_up_max_amount_cents": 10_000}, **target) == ["194.5", "0"]
    assert added("5.5", grants_target_top_up=True, **target) == ["0", "194.5"]
    assert added("200", **target) == ["0", "0"]
    unlimited = {**target, "ignore_paid_top_up_limits": True}
    assert added("5.5", wallet_fields={"paid_top_up_min_amount_cents": 20_550}, **unlimited) == ["194.5", "0"]
    # What waits for its payment does not count towards a target.
    assert added("5.5", "100", **target) == ["194.5", "0"]
    cheap = {"rate": "0.5", "paid_top_up_min_amount_cents": 2500}
    near: dict[str, Any] = {"method": RuleMethod.TARGET, "target_ongoing_balance": "101"}
    assert added("100", wallet_fields=cheap, **near) == ["50", "0"]
    assert added("100", wallet_fields=cheap, grants_target_top_up=True, **near) == ["0", "1"]


@given(
    st.decimals(-(10**6), 10**6, places=2),
    st.decimals("0.01", 10**4, places=2),
    st.decimals(-100, 100, places=2),
    st.decimals(0, 100, places=2),
)
def test_a_fixed_rule_passes_its_threshold_with_no_purchase_too_many(
    ongoing: Decimal, paid: Decimal, threshold: Decimal, pending: Decimal
) -> None:
    buying = rule(paid_credits=paid, threshold_credits=threshold)
    held = wallet(credits_ongoing_balance=ongoing)
    bought = top_up_credits(buying, held, pending).paid
    assert bought % paid == 0
    assert ongoing + pending + bought >= threshold
    if bought > paid:
        assert ongoing + pending + bought - paid <= threshold


@pytest.mark.parametrize(("pending", "passed"), [("0", True), ("0.5", True), ("1", False)])
def test_credits_that_wait_for_their_payment_count_against_the_threshold(pending: str, passed: bool) -> None:
    held = wallet(credits_ongoing_balance=Decimal("5.5"))
    assert threshold_is_passed(rule(threshold_credits="6"), held, Decimal(pending)) is passed


@pytest.mark.parametrize(
    ("interval", "anchor", "due", "not_due"),
    [
        ("weekly", "2021-03-31", ["2025-01-01", "2025-01-08"], ["2025-01-02"]),
        ("monthly", "2021-03-31", ["2021-04-30", "2021-05-31", "2023-02-28"], ["2021-05-30", "2024-02-28"]),
        ("monthly", "2025-04-15", ["2025-05-15"], ["2025-04-30"]),
        ("quarterly", "2021-03-31", ["2022-06-30", "2022-12-31"], ["2022-05-31", "2022-07-31"]),
        ("quarterly", "2021-03-15", ["2022-09-15", "2022-12-15"], ["2022-08-15"]),
        ("semiannual", "2021-08-31", ["2022-02-28", "2022-08-31"], ["2022-05-31"]),
        ("yearly", "2020-02-29", ["2022-02-28", "2024-02-29"], ["2024-02-28", "2022-03-01"]),
    ],
)
def test_days_of_top_ups(interval: str, anchor: str, due: list[str], not_due: list[str]) -> None:
    days = [*due, *not_due]
    instants = [
        day
        for day in days
        if is_top_up_day(RuleInterval(interval), date.fromisoformat(anchor), date.fromisoformat(day))
    ]
    assert instants == due


def monthly(**fields: Any) -> RecurringTransactionRule:
    return rule(trigger=RuleTrigger.INTERVAL, interval=RuleInterval.MONTHLY, **fields)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_rule_follows_the_days_of_the_customer_and_skips_that_of_the_creation() -> None:
    held = wallet(created_at=instant("2025-03-31T23:30:00"))
    # In Paris the wallet was created on 1 April.
    due = next_top_up(monthly(), held, PARIS, first_day=date(2025, 4, 1), now=instant("2025-04-01T00:00:00"))
    assert due == instant("2025-04-30T22:55:00")
    due = next_top_up(monthly(), held, ZoneInfo("UTC"), first_day=date(2025, 4, 1), now=instant("2025-04-01T00:00:00"))
    assert due == instant("2025-04-30T00:55:00")


def test_a_rule_starts_on_the_day_that_it_names_and_ends_before_it_expires() -> None:
    held = wallet(created_at=instant("2025-03-31T10:00:00"))
    later = monthly(started_at=instant("2025-04-15T09:30:00"))
    now, utc = instant("2025-04-01T00:00:00"), ZoneInfo("UTC")
    assert next_top_up(later, held, utc, first_day=now.date(), now=now) == instant("2025-04-15T09:30:00")
    assert next_top_up(later, held, utc, first_day=date(2025, 4, 16), now=now) == instant("2025-05-15T00:55:00")
    ended = monthly(expiration_at=instant("2025-04-30T00:55:00"))
    assert next_top_up(ended, held, utc, first_day=now.date(), now=now) is None
    assert next_top_up(rule(), held, utc, first_day=now.date(), now=now) is None


@given(
    st.sampled_from(RuleInterval),
    st.integers(0, 5 * 366 * 24 * 60).map(lambda minutes: instant("2020-01-01T00:00:00") + timedelta(minutes=minutes)),
    st.sampled_from(["UTC", "Europe/Paris", "Pacific/Apia", "America/Los_Angeles", "Asia/Kathmandu"]),
)
def test_one_top_up_follows_another_without_end(interval: RuleInterval, created: datetime, zone_name: str) -> None:
    zone = ZoneInfo(zone_name)
    held = wallet(created_at=created)
    acting = rule(trigger=RuleTrigger.INTERVAL, interval=interval)
    shortest, longest = {
        RuleInterval.WEEKLY: (7, 7),
        RuleInterval.MONTHLY: (28, 31),
        RuleInterval.QUARTERLY: (89, 92),
        RuleInterval.SEMIANNUAL: (181, 184),
        RuleInterval.YEARLY: (365, 366),
    }[interval]
    day, now = created.astimezone(zone).date(), created
    for _ in range(8):
        due = next_top_up(acting, held, zone, first_day=day, now=now)
        assert due is not None
        local = due.astimezone(zone).date()
        if day != created.astimezone(zone).date():
            assert shortest <= (local - day).days + 1 <= longest
        day, now = local + timedelta(days=1), due


def test_a_rule_that_cannot_work_is_unsound() -> None:
    assert rule_is_sound(rule(threshold_credits="-5", granted_credits="1"))
    # It would never top up anything.
    assert not rule_is_sound(rule(threshold_credits="-5"))
    assert rule_is_sound(monthly())
    assert not rule_is_sound(rule(trigger=RuleTrigger.INTERVAL))
    assert not rule_is_sound(rule(method=RuleMethod.TARGET))
    assert not rule_is_sound(rule(method=RuleMethod.TARGET, target_ongoing_balance="9", threshold_credits="10"))
    assert rule_is_sound(rule(method=RuleMethod.TARGET, target_ongoing_balance="10", threshold_credits="10"))
    assert not rule_is_sound(rule(grants_target_top_up=True))


def test_limits_are_those_of_the_currency() -> None:
    buying = rule(paid_credits="200")
    assert not breaks_limits(buying, wallet(currency="JPY", paid_top_up_max_amount_cents=5000))
    assert breaks_limits(buying, wallet(paid_top_up_max_amount_cents=5000))
    assert not breaks_limits(
        rule(paid_credits="200", ignore_paid_top_up_limits=True), wallet(paid_top_up_max_amount_cents=5000)
    )


def test_a_rule_runs_until_it_expires() -> None:
    until = rule(expiration_at=NOW)
    assert is_running(until, NOW - timedelta(seconds=1))
    assert not is_running(until, NOW)


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("failed_at", "settled_at", "held_back"),
    [
        (None, None, False),
        (None, NOW, False),
        (NOW - 5 * MINUTE, None, True),
        (NOW - 60 * MINUTE, None, True),
        (NOW - 61 * MINUTE, None, False),
        (NOW - 5 * MINUTE, NOW - 6 * MINUTE, True),
        (NOW - 5 * MINUTE, NOW - 5 * MINUTE, False),
        (NOW - 5 * MINUTE, NOW - 4 * MINUTE, False),
    ],
)
def test_a_rule_buys_nothing_for_an_hour_after_a_failure_unless_something_is_paid(
    failed_at: datetime | None, settled_at: datetime | None, held_back: bool
) -> None:
    assert holds_back(failed_at, settled_at, NOW) is held_back


@pytest.mark.parametrize(
    ("last_at", "zone", "day"),
    [
        (None, UTC, date(2024, 5, 1)),
        (datetime(2024, 4, 20, 12, tzinfo=UTC), UTC, date(2024, 5, 1)),
        (datetime(2024, 4, 30, 23, tzinfo=UTC), UTC, date(2024, 5, 1)),
        (datetime(2024, 4, 30, 23, tzinfo=UTC), PARIS, date(2024, 5, 2)),  # 1 May in Paris
        (datetime(2024, 5, 1, 12, tzinfo=UTC), UTC, date(2024, 5, 2)),
    ],
)
def test_a_day_has_one_top_up(last_at: datetime | None, zone: tzinfo, day: date) -> None:
    assert earliest_top_up_day(date(2024, 5, 1), last_at, zone) == day
