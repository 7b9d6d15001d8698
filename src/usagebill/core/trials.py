"""Trials: the days during which a plan's subscription fee is free. Usage, fixed charges and commitments are not.

A trial counts from the customer's first start with the same external id: a subscription that is created again, or
changed to another plan, has no new trial.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

from usagebill.core.days import local_date
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.numbers import multiply

__all__ = ["billed_at_start", "billed_through_trial", "in_trial", "trial_end", "trial_start"]

_MICROSECONDS_A_DAY = Decimal(86_400_000_000)
_LAST_INSTANT = datetime.max.replace(tzinfo=UTC)


def trial_start(started_at: Iterable[datetime | None], subscription_at: datetime) -> datetime:
    """The earliest start of the customer's subscriptions with the external id, including ended and canceled ones;
    `subscription_at` while none has started.
    """
    return min((moment for moment in started_at if moment is not None), default=subscription_at)


def trial_end(start: datetime, trial_period: Decimal | None) -> datetime | None:
    """The instant at which a trial of `trial_period` days (24 hours each, fractions allowed) ends; None if there
    is none. A trial longer than the calendar ends with it.
    """
    if not trial_period or trial_period < 0:
        return None
    room = (_LAST_INSTANT - start) // timedelta(microseconds=1)
    return start + timedelta(microseconds=min(int(multiply(trial_period, _MICROSECONDS_A_DAY)), room))


def in_trial(start: datetime, trial_period: Decimal | None, now: datetime, trial_ended_at: datetime | None) -> bool:
    """Whether `now` lies in the trial. `trial_ended_at` is set once the end has been processed."""
    end = trial_end(start, trial_period)
    return trial_ended_at is None and end is not None and start <= now < end


def billed_through_trial(last_run_on: date | None, ends_at: datetime, tz: tzinfo) -> bool:
    """Whether the last run that billed the subscription was on the day of the trial's end or later, so that it also
    billed that day. The end is processed within an hour, which may be on the next day.

    `last_run_on` is the local date of that run; `tz` is the customer's time zone.
    """
    return last_run_on is not None and last_run_on >= local_date(ends_at, tz)


def billed_at_start(
    started_at: datetime, tz: tzinfo, *, periods: Iterable[BillingPeriod], subscription_fees: Iterable[Fee]
) -> bool:
    """Whether an invoice from the day of the start has a subscription fee; `periods` and `subscription_fees` are all
    those of the subscription.
    """
    invoice_ids = {fee.invoice_id for fee in subscription_fees}
    start = local_date(started_at, tz)
    return any(period.invoice_id in invoice_ids and local_date(period.timestamp, tz) == start for period in periods)
