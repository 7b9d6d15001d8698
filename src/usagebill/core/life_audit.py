"""The audit of periods: until when a subscription and its fee must have been billed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from usagebill.core.audit import Finding, Life
from usagebill.core.days import local_date
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Cycle, Succession, billed_through, day_start, ended_on_boundary_day
from usagebill.core.periods.schedule import next_billing_run
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription, TerminationInvoice

_HOUR = timedelta(hours=1)


def life_of(subscription: Subscription, cycle: Cycle) -> Life:
    """The span from the start of its cycle to its end.

    The days of `cycle` begin and end in the time zone of its last invoice.
    """
    begins, ends = cycle.started_at, subscription.terminated_at
    if subscription.succession is None and subscription.on_termination_invoice == TerminationInvoice.SKIP:
        ends = None
    elif ends is not None and (cycle.succession is Succession.DOWNGRADE or ended_on_boundary_day(cycle)):
        # Everything is billed by that day's run: the day itself belongs to the successor, or is free.
        opened = cycle.period(local_date(ends, cycle.tz), cycle.billing_interval).start
        ends = day_start(opened, cycle.tz) - MICROSECOND
    return Life(
        subscription_id=subscription.id,
        external_id=subscription.external_id,
        billed_from=max(begins, subscription.created_at),
        billed_until=None if ends is None or ends <= begins else ends,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A period that is open `since`, and the latest instant at which it must be billed."""

    since: datetime
    due: datetime


def last_run(periods: Iterable[BillingPeriod]) -> BillingPeriod | None:
    """The last of these periods, in order, that a run billed."""
    return next((period for period in reversed([*periods]) if period.recurring), None)


def open_period(
    subscription: Subscription, cycle: Cycle, last: BillingPeriod | None, run_tz: tzinfo | None, now: datetime
) -> Wait:
    """The unbilled period of an active subscription, after the one that its last run billed in `run_tz`; None if no run
    has billed it.
    """
    since = max(cycle.started_at, subscription.created_at) if last is None else last.timestamp
    billed_on = None if run_tz is None else billed_through(cycle, run_at=since, run_tz=run_tz)
    due = next_billing_run(cycle, since, billed_on=billed_on, ending_at=subscription.ends_at)
    if run_tz != cycle.tz:
        # A billing day that is past only in a new time zone is billed within the hour.
        due = max(due, now + _HOUR)
    return Wait(since=since, due=due)


def audited_wait(subscription: Subscription, plan_code: str, wait: Wait, run_at: datetime | None) -> Iterator[Finding]:
    """A run is scheduled at `run_at` for the open period, no later than it is due."""
    if run_at is None or run_at > wait.due:
        yield Finding(
            check="period_never_billed",
            subject=f"subscription {subscription.external_id}",
            subject_id=subscription.id,
            detail=f"the period open since {wait.since.isoformat()} (plan {plan_code})",
            expected=f"a run that waits, due by {wait.due.isoformat()}",
            found="none" if run_at is None else f"one due at {run_at.isoformat()}",
        )


def fee_until(subscription: Subscription, plan: Plan, periods: Iterable[BillingPeriod]) -> datetime | None:
    """The instant until which fees must have been billed: the end of the last period whose invoice has one, None if
    none has.

    No fee is required during a trial, nor for the periods that it covers.
    """
    free_until = subscription.trial_ended_at
    if plan.trial_period and free_until is None:
        return None
    ends = [
        period.subscription_to_datetime
        for period in periods
        if period.subscription_to_datetime is not None
        and (free_until is None or period.timestamp > free_until)
        and (
            (period.recurring and period.opens_interval)
            or (period.invoicing_reason == InvoicingReason.TERMINATING and not plan.pay_in_advance)
        )
    ]
    return max(ends, default=None)
