"""The subscription fee: when it is billed, for how many days, and how much is given back for unused time.

    amount = plan amount x billed days / days of the whole period

in exact decimals; a whole period is the plan amount itself. The day of an upgrade belongs to the new plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum

from usagebill.core.days import days_billed, local_date
from usagebill.core.numbers import ZERO, divide, multiply, subtract, truncate_to
from usagebill.core.periods import (
    LONG_INTERVALS,
    BillingTime,
    Boundaries,
    Cycle,
    Period,
    Succession,
    Window,
    day_start,
)

_DAY = timedelta(days=1)


class FeeRule(Enum):
    """How a fee's days are counted."""

    ENDED = "ended"  # the used days of a plan in arrears, except the day of an upgrade
    AFTER_UPGRADE = "after_upgrade"  # from the day of the upgrade
    FULL = "full"  # the whole period
    PARTIAL = "partial"  # the days of a first period


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeFacts:
    """The facts about a subscription when its fee may be billed with the record `boundaries`."""

    cycle: Cycle
    boundaries: Boundaries
    billed_since: datetime
    active: bool = True  # status active or incomplete
    predecessor: Succession | None = None  # the plan change that created this subscription
    first_invoice: bool = False  # this subscription has no other invoice than the present one
    fee_billed: bool = False  # a subscription fee of this subscription exists already
    fee_billed_today: bool = False  # one exists, on another invoice, created on the local date of this record
    starting: bool = False  # the record bills what is due in advance at a start
    ended_after_invoice: bool = False  # terminated after the invoice was created (a draft refreshed since)
    in_trial: bool = False
    trial_end: datetime | None = None

    @property
    def record_date(self) -> date:
        """The local date of the billing record."""
        return local_date(self.boundaries.timestamp, self.cycle.tz)

    @property
    def started_in_past(self) -> bool:
        """Whether it was created on a later local date than its start, and is not billed for the time before."""
        return self.cycle.start_date < local_date(self.billed_since, self.cycle.tz)

    @property
    def ended(self) -> bool:
        """Whether the subscription ended at or before the record."""
        ended = self.cycle.terminated_at
        return ended is not None and ended.replace(microsecond=0) <= self.boundaries.timestamp


def fee_is_due(facts: FeeFacts) -> bool:
    """Whether the record has a subscription fee at all. A fee of 0 (during a trial) is due too."""
    cycle = facts.cycle
    if cycle.pay_in_advance and facts.fee_billed_today:
        return False
    if cycle.interval in LONG_INTERVALS and not _long_interval_is_due(facts):
        return False
    if facts.in_trial and facts.trial_end is not None and local_date(facts.trial_end, cycle.tz) != facts.record_date:
        return False
    if facts.starting and not cycle.pay_in_advance:
        return False
    return facts.active or not cycle.pay_in_advance or facts.ended_after_invoice


def _long_interval_is_due(facts: FeeFacts) -> bool:
    """Yearly and half-yearly fees: once per interval, in its first month, whatever else is billed monthly."""
    cycle, first_month = facts.cycle, facts.boundaries.opens_interval
    if not cycle.pay_in_advance:
        return facts.ended or first_month
    if not facts.started_in_past:
        return first_month or not facts.fee_billed
    return first_month and cycle.period(facts.record_date) != cycle.period(cycle.anchor)


def fee_rule(facts: FeeFacts) -> FeeRule:
    """The rule that counts the days of the fee: the first one that applies."""
    cycle = facts.cycle
    if facts.ended and not cycle.pay_in_advance and cycle.succession is not Succession.DOWNGRADE:
        return FeeRule.ENDED
    if facts.predecessor is Succession.UPGRADE and facts.first_invoice:
        return FeeRule.AFTER_UPGRADE
    whole_first_period = (
        cycle.pay_in_advance and cycle.billing_time is BillingTime.ANNIVERSARY and facts.predecessor is None
    )
    previous = cycle.before(cycle.period(facts.record_date))
    started_long_ago = facts.started_in_past and (
        cycle.pay_in_advance or cycle.started_at < day_start(previous.start, cycle.tz)
    )
    if whole_first_period or facts.fee_billed or started_long_ago:
        return FeeRule.FULL
    return FeeRule.PARTIAL


def billed_days(
    rule: FeeRule, window: Window, tz: tzinfo, *, trial_end: datetime | None = None, upgraded: bool = False
) -> int:
    """The number of days of the whole period that the fee for `window` bills.

    Trial days are excluded; the day on which the trial ends is billed. `upgraded`: an upgrade ended the subscription.
    """
    if trial_end is not None and trial_end >= window.end:
        return 0
    first = window.start if trial_end is None else max(window.start, trial_end)
    if first == window.start and rule is FeeRule.FULL:
        return window.duration
    return days_billed(first, window.end, tz, upgraded=upgraded and rule is FeeRule.ENDED)


def prorated(amount_cents: int, days: int, duration: int) -> Decimal:
    """`amount_cents x days / duration`, unrounded: the fee of a plan for `billed_days`."""
    return divide(multiply(Decimal(amount_cents), Decimal(days)), Decimal(duration))


def unused_days(
    ended_at: datetime, period: Period, tz: tzinfo, *, upgraded: bool = False, trial_end: datetime | None = None
) -> int:
    """The number of unused days of a period paid in advance after an end: the day of the end is used, unless an upgrade
    ended it. During a trial, all days from the planned end of the trial on are unused.
    """
    ended_on = local_date(ended_at, tz)
    first = ended_on if upgraded else ended_on + _DAY
    if trial_end is not None and local_date(trial_end, tz) >= ended_on:
        first = local_date(trial_end, tz)
    return max((period.end - first).days + 1, 0)


def used_days(ended_at: datetime, window: Window, tz: tzinfo, *, trial_end: datetime | None = None) -> int:
    """The number of local dates of the subscription window (of its part after the trial) that have begun at an end."""
    first = window.start if trial_end is None else max(window.start, trial_end)
    return days_billed(first, ended_at, tz)


def unused_time_credit(
    plan_amount_cents: int, days: int, duration: int, *, fee_amount_cents: int, credited_cents: Decimal = ZERO
) -> Decimal:
    """Cents to give back for `days` unused days, before coupons and taxes, cut to five decimals.

    `plan_amount_cents` is the plan amount that the fee was billed with, `credited_cents` the amount already given back
    on that fee. At most the remaining amount of the fee; 0 if none remains.
    """
    base = min(prorated(plan_amount_cents, days, duration), Decimal(fee_amount_cents))
    return truncate_to(max(subtract(base, credited_cents), ZERO), 5)
