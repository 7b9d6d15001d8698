"""Trials: the days during which a plan's subscription fee is free. Usage, fixed charges and commitments are not.

A trial counts from the customer's first start with the same external id: a subscription that is created again, or
changed to another plan, has no new trial.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from usagebill.core.fees import Fee
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import multiply

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
    room = (_LAST_INSTANT - start) // MICROSECOND
    return start + timedelta(microseconds=min(int(multiply(trial_period, _MICROSECONDS_A_DAY)), room))


def is_billed_after(ends_at: datetime, subscription_fees: Iterable[Fee]) -> bool:
    """Whether one of the subscription's fees bills the period in which its trial ends.

    The end is noticed within an hour. A run in between may bill the next period, but not the last day of this one.
    """
    return any(
        fee.from_datetime is not None
        and fee.to_datetime is not None
        and fee.from_datetime <= ends_at <= fee.to_datetime
        for fee in subscription_fees
    )
