"""The audit of periods: until when a subscription and its fee must have been billed, in tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import contract, subscription

from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.life_audit import Wait, audited_wait, fee_until, last_run, life_of, open_period
from usagebill.core.periods import BillingTime, Cycle, Interval, Succession

START = datetime(2024, 5, 1, tzinfo=UTC)
MIDDLE = datetime(2024, 6, 15, 12, tzinfo=UTC)
BEFORE_JUNE = datetime(2024, 6, 1, tzinfo=UTC) - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("fields", "succession", "until"),
    [
        ({}, None, None),
        ({"terminated_at": MIDDLE}, None, MIDDLE),
        # Its end was not to be invoiced.
        ({"terminated_at": MIDDLE, "on_termination_invoice": "skip"}, None, None),
        # What a downgrade ends was billed until the period's first day; the rest is the successor's.
        ({"terminated_at": MIDDLE, "succession": "downgrade"}, Succession.DOWNGRADE, BEFORE_JUNE),
        ({"terminated_at": MIDDLE, "succession": "upgrade"}, Succession.UPGRADE, MIDDLE),
        # It ended where it began.
        ({"terminated_at": START}, None, None),
    ],
)
def test_until_when_a_subscription_must_have_been_billed(
    fields: dict[str, Any], succession: Succession | None, until: datetime | None
) -> None:
    of = subscription(started_at=START, created_at=START, **fields)
    periods = Cycle(
        interval=Interval.MONTHLY,
        billing_time=BillingTime.CALENDAR,
        pay_in_advance=False,
        subscription_at=START,
        started_at=START,
        tz=UTC,
        terminated_at=of.terminated_at,
        succession=succession,
    )
    assert life_of(of, periods).billed_until == until


def test_what_began_before_it_was_told_of_is_billed_from_then_on() -> None:
    created_at = START + timedelta(days=3)
    of = subscription(started_at=START, created_at=created_at)
    periods = contract(subscription_at=START, started_at=START).cycle()
    assert life_of(of, periods).billed_from == created_at


def period(month: int, **fields: Any) -> BillingPeriod:
    """A run's period, whose subscription fee is of that month; in arrears."""
    values: dict[str, Any] = {
        "id": f"period-{month}",
        "organization_id": "organization",
        "invoice_id": "invoice",
        "subscription_id": "subscription",
        "external_subscription_id": "sub",
        "plan_id": "plan",
        "invoicing_reason": "subscription_periodic",
        "timestamp": datetime(2024, month + 1, 1, tzinfo=UTC),
        "timezone": "UTC",
        "recurring": True,
        "opens_interval": True,
        "subscription_to_datetime": datetime(2024, month, 28, tzinfo=UTC),
        "created_at": START,
        **fields,
    }
    return BillingPeriod(**values)


JUNE = datetime(2024, 6, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "plan", "periods", "until"),
    [
        ({}, {}, [], None),
        ({}, {}, [period(5), period(6)], JUNE),
        # One that opens no interval carries no fee, nor does one in a trial.
        ({}, {}, [period(6), period(7, opens_interval=False)], JUNE),
        ({}, {"trial_period": Decimal(90)}, [period(6)], None),
        ({"trial_ended_at": datetime(2024, 6, 20, tzinfo=UTC)}, {"trial_period": Decimal(50)}, [period(6)], JUNE),
        ({"trial_ended_at": datetime(2024, 7, 20, tzinfo=UTC)}, {"trial_period": Decimal(80)}, [period(6)], None),
        # An end carries the fee in arrears; in advance it was paid before.
        ({}, {}, [period(6, recurring=False, invoicing_reason="subscription_terminating")], JUNE),
        (
            {},
            {"pay_in_advance": True},
            [period(6, recurring=False, invoicing_reason="subscription_terminating")],
            None,
        ),
    ],
)
def test_until_when_fees_must_have_been_billed(
    fields: dict[str, Any], plan: dict[str, Any], periods: list[BillingPeriod], until: datetime | None
) -> None:
    assert fee_until(subscription(**fields), contract(plan=plan).plan, periods) == until


HOUR = timedelta(hours=1)
JULY_1 = datetime(2024, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("periods", "now", "since", "due"),
    [
        # Nothing is billed yet: the first run, and never sooner than within the hour.
        ([], START, START, datetime(2024, 6, 1, tzinfo=UTC)),
        ([], JULY_1, START, JULY_1 + HOUR),
        ([period(5), period(6)], JULY_1, JULY_1, datetime(2024, 8, 1, tzinfo=UTC)),
        # A bill of single events closes no period.
        ([period(6), period(7, recurring=False)], JULY_1, JULY_1, datetime(2024, 8, 1, tzinfo=UTC)),
    ],
)
def test_when_the_open_period_is_due(
    periods: list[BillingPeriod], now: datetime, since: datetime, due: datetime
) -> None:
    of = subscription(started_at=START, created_at=START)
    cycle = contract(subscription_at=START, started_at=START).cycle()
    last = last_run(periods)
    wait = open_period(of, cycle, last, None if last is None else UTC, now)
    assert (wait.since, wait.due.date()) == (since, due.date())
    assert abs(wait.due - due) <= HOUR


@pytest.mark.parametrize(
    ("run_at", "detected"),
    [
        (None, "none"),
        (JULY_1 - HOUR, None),
        (JULY_1, None),
        (JULY_1 + HOUR, "one due at 2024-07-01T01:00:00+00:00"),
    ],
)
def test_a_run_that_is_missing_or_late_is_reported(run_at: datetime | None, detected: str | None) -> None:
    findings = audited_wait(subscription(), "basic", Wait(since=START, due=JULY_1), run_at)
    assert [finding.found for finding in findings] == ([] if detected is None else [detected])
