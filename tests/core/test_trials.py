"""Trials count from the first start, in days of 24 hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from tests.core.builders import fee

from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.trials import billed_at_start, billed_through_trial, in_trial, trial_end, trial_start

START = datetime(2024, 3, 5, 12, 12, tzinfo=UTC)


def test_a_trial_counts_from_the_earliest_start_under_the_external_id() -> None:
    assert trial_start([START, None, START - timedelta(days=3)], START) == START - timedelta(days=3)
    assert trial_start([None], START) == START


@pytest.mark.parametrize(
    ("days", "end"),
    [
        ("10", datetime(2024, 3, 15, 12, 12, tzinfo=UTC)),
        ("0.5", datetime(2024, 3, 6, 0, 12, tzinfo=UTC)),
        ("0", None),
        ("1e9", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_trial_ends_so_many_days_of_24_hours_later(days: str, end: datetime | None) -> None:
    assert trial_end(START, Decimal(days)) == end


def test_a_plan_without_a_trial_has_no_end_of_it() -> None:
    assert trial_end(START, None) is None
    assert not in_trial(START, None, START, None)


def test_a_trial_lasts_from_its_start_until_right_before_its_end() -> None:
    end = START + timedelta(days=10)
    ten = Decimal(10)
    assert in_trial(START, ten, START, None)
    assert in_trial(START, ten, end - timedelta(microseconds=1), None)
    assert not in_trial(START, ten, end, None)
    assert not in_trial(START, ten, START - timedelta(seconds=1), None)
    assert not in_trial(START, ten, START + timedelta(days=1), end)


PARIS = ZoneInfo("Europe/Paris")


def billed(timestamp: datetime, *, invoice_id: str) -> BillingPeriod:
    return BillingPeriod(
        id="period",
        organization_id="organization",
        invoice_id=invoice_id,
        subscription_id="subscription",
        external_subscription_id="sub",
        plan_id="plan",
        timestamp=timestamp,
        timezone="Europe/Paris",
        invoicing_reason=InvoicingReason.PERIODIC,
        created_at=timestamp,
    )


@pytest.mark.parametrize(
    ("last_run_on", "is_billed"),
    [(None, False), (date(2024, 3, 14), False), (date(2024, 3, 15), True), (date(2024, 3, 16), True)],
)
def test_a_run_on_the_day_of_the_end_or_later_has_billed_the_day(last_run_on: date | None, is_billed: bool) -> None:
    # In Paris it is the 15th already.
    assert billed_through_trial(last_run_on, datetime(2024, 3, 14, 23, tzinfo=UTC), PARIS) is is_billed


@pytest.mark.parametrize(
    ("billed_at", "invoice_id", "is_billed"),
    [
        (START, "invoice", True),
        (START + timedelta(hours=10), "invoice", True),
        (START + timedelta(hours=11), "invoice", False),  # the next day, in Paris
        (START, "another", False),  # an invoice without a subscription fee
    ],
)
def test_the_start_is_billed_by_an_invoice_of_its_day_with_a_subscription_fee(
    billed_at: datetime, invoice_id: str, is_billed: bool
) -> None:
    periods = [billed(billed_at, invoice_id=invoice_id)]
    fees = [fee(100, fee_type="subscription", invoice_id="invoice")]
    assert billed_at_start(START, PARIS, periods=periods, subscription_fees=fees) is is_billed
    assert not billed_at_start(START, PARIS, periods=periods, subscription_fees=[])
