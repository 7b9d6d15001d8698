"""Random lives of a subscription: what is billed covers the life once, whenever the work is done.

A life is a start, plan changes, ends and new starts, at any hour of any day, in any time zone, on plans of any kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import asc, eq

pytestmark = pytest.mark.slow

ZONES = ("UTC", "America/Los_Angeles", "Asia/Tokyo", "Europe/Paris", "Asia/Kolkata")
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

PLANS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("weekly", {"interval": "weekly", "amount_cents": 700}),
    ("monthly", {"interval": "monthly", "amount_cents": 3100}),
    ("monthly-ahead", {"interval": "monthly", "amount_cents": 3000, "pay_in_advance": True}),
    ("quarterly-ahead", {"interval": "quarterly", "amount_cents": 12_000, "pay_in_advance": True}),
    ("semiannual", {"interval": "semiannual", "amount_cents": 18_000, "bill_charges_monthly": False}),
    ("yearly-split", {"interval": "yearly", "amount_cents": 24_000, "bill_charges_monthly": True}),
    ("yearly-ahead-split", {"interval": "yearly", "amount_cents": 52_000, "pay_in_advance": True,
                            "bill_charges_monthly": True}),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Something done `after` the step before."""

    after: timedelta
    action: str  # a plan's code, `end`, or `cancel` (a scheduled downgrade)


@dataclass(frozen=True)
class Life:
    zone: str
    start: datetime
    billing_time: str
    first: str
    steps: tuple[Step, ...]
    tail: timedelta


def durations(days: int) -> st.SearchStrategy[timedelta]:
    minutes = st.integers(0, 24 * 60 - 1) | st.sampled_from([0, 1, 5, 10, 59, 60])
    return st.builds(lambda whole, part: timedelta(days=whole, minutes=part), st.integers(0, days), minutes)


codes = st.sampled_from([code for code, _ in PLANS])
lives = st.builds(
    Life,
    zone=st.sampled_from(ZONES),
    start=durations(120).map(lambda after: datetime(2023, 11, 20, tzinfo=UTC) + after),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
    first=codes,
    steps=st.lists(
        st.builds(Step, after=durations(45), action=codes | st.sampled_from(["end", "cancel"])), max_size=4
    ).map(tuple),
    tail=durations(70),
)


def live(life: Life, *, daily: bool) -> tuple[list[BillingPeriod], list[Subscription], list[object]]:
    """The billing periods of the life, its subscriptions, and all that its invoices say.

    Day by day each job runs at its own instant; otherwise nothing runs until something is asked for.
    """
    with Scenario(now=life.start) as box:
        _run(box, life, daily=daily)
        return box.billing.reading(_everything)


def _run(box: Scenario, life: Life, *, daily: bool) -> None:
    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": "acme", "timezone": life.zone}})
    for code, fields in PLANS:
        box.plan(code=code, **fields)
    _subscribe(box, life, life.first)
    now = life.start
    for step in life.steps:
        now += step.after
        _move(box, now, daily=daily)
        _act(box, life, step)
    _move(box, now + life.tail, daily=daily)
    box.run_due()


def _move(box: Scenario, to: datetime, *, daily: bool) -> None:
    if daily:
        box.travel_to(to)
    else:
        box.jump_to(to)


def _act(box: Scenario, life: Life, step: Step) -> None:
    if step.action == "end":
        box.request("DELETE", "/api/v1/subscriptions/sub")
    elif step.action == "cancel":
        box.request("DELETE", "/api/v1/subscriptions/sub?status=pending")
    else:
        _subscribe(box, life, step.action)


def _subscribe(box: Scenario, life: Life, plan: str) -> None:
    body = {
        "external_customer_id": "acme",
        "external_id": "sub",
        "plan_code": plan,
        "billing_time": life.billing_time,
    }
    status, answer = box.request("POST", "/api/v1/subscriptions", json={"subscription": body})
    assert status == 200, answer


def _everything(work: Any) -> tuple[list[BillingPeriod], list[Subscription], list[object]]:
    order = [asc("created_at"), asc("id")]
    invoices = work.tx.find(Invoice, order=order)
    periods = work.tx.find(BillingPeriod, order=order)
    fees = work.tx.find(Fee, order=order)
    answers: list[object] = [
        (
            invoice.number.rpartition("-")[2],
            invoice.created_at,
            invoice.issuing_date,
            invoice.status,
            invoice.total_amount_cents,
            [
                (period.timestamp, period.invoicing_reason, period.charges_from_datetime, period.charges_to_datetime)
                for period in periods
                if period.invoice_id == invoice.id
            ],
            [
                (fee.fee_type, fee.amount_cents, fee.from_datetime, fee.to_datetime)
                for fee in fees
                if fee.invoice_id == invoice.id
            ],
        )
        for invoice in invoices
    ]
    return periods, work.tx.find(Subscription, order=order), answers


@examples(30, deadline=None)
@given(lives)
def test_working_late_gives_the_same_invoices(life: Life) -> None:
    assert live(life, daily=True)[2] == live(life, daily=False)[2]


@examples(30, deadline=None)
@given(lives)
def test_usage_is_billed_once_and_without_holes(life: Life) -> None:
    """The usage windows of all billing periods lie side by side from each start to each end (or to the last run)."""
    periods, subscriptions, _ = live(life, daily=True)
    for subscription in subscriptions:
        if subscription.started_at is None:
            continue
        windows = sorted(
            (period.charges_from_datetime, period.charges_to_datetime)
            for period in periods
            if period.subscription_id == subscription.id
            and period.charges_from_datetime is not None
            and period.charges_to_datetime is not None
            and period.charges_from_datetime < period.charges_to_datetime
        )
        covered = _start(life, subscription)
        for starts, ends in windows:
            assert abs(starts - covered) <= timedelta(milliseconds=1), (subscription.started_at, windows)
            covered = ends
        if subscription.terminated_at is not None:
            _assert_reached(life, subscription, covered)


@examples(30, deadline=None)
@given(lives)
def test_every_day_of_a_plan_in_arrears_is_billed_once(life: Life) -> None:
    """The days of the subscription fees follow each other from the start on; an upgrade's day is the new plan's."""
    zone = ZoneInfo(life.zone)
    arrears = {code for code, fields in PLANS if not fields.get("pay_in_advance")}
    for subscription, code, fees, _ in _fees(life):
        if code not in arrears or subscription.started_at is None:
            continue
        days: list[date] = []
        for fee in fees:
            assert fee.from_datetime is not None
            assert fee.to_datetime is not None
            first, last = fee.from_datetime.astimezone(zone).date(), fee.to_datetime.astimezone(zone).date()
            if subscription.succession == "upgrade" and fee.to_datetime == subscription.terminated_at:
                last -= DAY
            days += [first + DAY * number for number in range((last - first).days + 1)]
        started_on = subscription.started_at.astimezone(zone).date()
        assert days == [started_on + DAY * number for number in range(len(days))]


@examples(30, deadline=None)
@given(lives)
def test_what_is_kept_of_a_plan_in_advance_is_the_days_used(life: Life) -> None:
    """Fees less the credit notes for unused days: each used day at the price of its period, to a cent a line."""
    zone = ZoneInfo(life.zone)
    advance = {code for code, fields in PLANS if fields.get("pay_in_advance")}
    for subscription, code, fees, credited in _fees(life):
        if code not in advance:
            continue
        kept = sum(fee.amount_cents for fee in fees) - credited
        used = Fraction(0)
        for fee in fees:
            assert fee.from_datetime is not None
            assert fee.to_datetime is not None
            first, last = fee.from_datetime.astimezone(zone).date(), fee.to_datetime.astimezone(zone).date()
            days = (last - first).days + 1
            lived = _lived_until(subscription, zone)
            used_days = days if lived is None else min(max((lived - first).days + 1, 0), days)
            used += Fraction(fee.amount_cents * used_days, days)
        assert abs(used - kept) <= 2 * len(fees), (subscription, fees, kept)


def _lived_until(subscription: Subscription, zone: ZoneInfo) -> date | None:
    """The last day that is used: that of the end, or the one before it where another plan takes the day."""
    if subscription.terminated_at is None:
        return None
    day = subscription.terminated_at.astimezone(zone).date()
    return day - DAY if subscription.succession else day


def _fees(life: Life) -> list[tuple[Subscription, str, list[Fee], int]]:
    """Each subscription of the life, the code of its plan, its subscription fees by time, and the cents that credit
    notes gave back of them before taxes.
    """
    with Scenario(now=life.start) as box:
        _run(box, life, daily=True)

        def read(work: Any) -> list[tuple[Subscription, str, list[Fee], int]]:
            fees = work.tx.find(Fee, eq("fee_type", "subscription"), order=[asc("from_datetime"), asc("id")])
            items = [item for note in work.tx.find(CreditNote) for item in note.items]
            billed = []
            for subscription in work.tx.find(Subscription):
                of_subscription = [fee for fee in fees if fee.subscription_id == subscription.id]
                ids = {fee.id for fee in of_subscription}
                credited = sum(item.amount_cents for item in items if item.fee_id in ids)
                billed.append((subscription, work.tx.get(Plan, subscription.plan_id).code, of_subscription, credited))
            return billed

        return box.billing.reading(read)


def _start(life: Life, subscription: Subscription) -> datetime:
    """Where the first usage window begins: a downgrade takes over at the midnight before the run that applies it."""
    started = subscription.started_at
    assert started is not None
    if subscription.origin != "downgrade":
        return started
    return started.astimezone(ZoneInfo(life.zone)).replace(hour=0, minute=0).astimezone(UTC)


def _assert_reached(life: Life, subscription: Subscription, covered: datetime) -> None:
    """What is billed reaches the end; only what a boundary day has begun may be free."""
    ended = subscription.terminated_at
    assert ended is not None
    zone = ZoneInfo(life.zone)
    if subscription.succession is None:
        same_day = covered.astimezone(zone).date() == ended.astimezone(zone).date()
        assert covered >= ended - SECOND if same_day else ended - covered < DAY + timedelta(hours=1)
    elif subscription.succession == "upgrade":
        assert covered >= ended - SECOND
    else:
        assert (covered + timedelta(microseconds=1)).astimezone(zone).date() == ended.astimezone(zone).date()
