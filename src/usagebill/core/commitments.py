"""Minimum commitments: the least a plan must bring in per interval, and the true-up fee that fills the gap.

A commitment is settled once per interval, never for a month of a plan that bills only some of its parts monthly. In
arrears it is settled for the record's own period; in advance for the period of the last subscription fee, once it is
over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from decimal import Decimal

from usagebill.core.days import days_billed, local_date
from usagebill.core.fees import COMMITTED_TYPES, Fee, FeeType
from usagebill.core.numbers import ZERO, divide, multiply, round_cents, subtract, total
from usagebill.core.periods import (
    Boundaries,
    Cycle,
    Succession,
    Window,
    current_boundaries,
    day_end,
    day_start,
    ends_with_upgrade,
)

# The fee's name unless the plan sets another; documents translate it.
COMMITMENT_NAME = "Minimum commitment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The period whose commitment a record settles.

    `window` is the part of it in which the subscription was active, `period` the whole: fees of `period` count toward
    the commitment (`counts_toward`). `upgraded`: an upgrade ended the subscription with the window.
    """

    window: Window
    period: Window
    upgraded: bool = False

    def days(self, tz: tzinfo) -> int:
        """The days of the commitment. The day of an upgrade belongs to the new plan."""
        return days_billed(self.window.start, self.window.end, tz, upgraded=self.upgraded)


def settlement(cycle: Cycle, record: Boundaries, *, last_fee_at: datetime | None = None) -> Settlement | None:
    """The commitment period that `record` settles, None if it settles none.

    `last_fee_at` is the timestamp of the latest earlier record with a subscription fee: a plan in advance has nothing
    to settle before one. Not meant for starting records, which never settle anything.
    """
    ended_at = cycle.terminated_at
    ended = ended_at is not None and ended_at.replace(microsecond=0) <= record.timestamp
    if not ended and not record.opens_interval:
        return None
    upgraded = ended and ends_with_upgrade(cycle, record.subscription)
    if not cycle.pay_in_advance:
        return _settlement(cycle, record.subscription, upgraded=upgraded)
    if last_fee_at is None:
        return None
    if not ended:
        return _settlement(cycle, current_boundaries(cycle, last_fee_at).subscription)
    if cycle.succession is not Succession.DOWNGRADE:
        return _settlement(cycle, record.subscription, upgraded=upgraded)
    # A downgrade takes effect at a period's end: the fee of the period that it opens is the new plan's.
    closed = cycle.before(cycle.period(local_date(record.timestamp, cycle.tz)))
    if closed.end < cycle.start_date:
        return None
    lived = current_boundaries(replace(cycle, terminated_at=None), day_end(closed.end, cycle.tz))
    return _settlement(cycle, lived.subscription)


def settled_from(cycle: Cycle, record: Boundaries) -> datetime:
    """The first instant of the interval whose commitment `record` settles, if it settles one."""
    if not cycle.pay_in_advance or (cycle.terminated_at is not None and cycle.succession is not Succession.DOWNGRADE):
        return record.subscription.start
    return day_start(cycle.before(cycle.period(local_date(record.timestamp, cycle.tz))).start, cycle.tz)


def _settlement(cycle: Cycle, window: Window, *, upgraded: bool = False) -> Settlement:
    period = cycle.period(local_date(window.start, cycle.tz))
    whole = Window(start=day_start(period.start, cycle.tz), end=day_end(period.end, cycle.tz), duration=period.days)
    return Settlement(window=window, period=whole, upgraded=upgraded)


def commitment_due(amount_cents: int, settled: Settlement, tz: tzinfo) -> int:
    """The commitment for the settled window in cents: its share of the whole period by days, rounded to a cent."""
    days = Decimal(settled.days(tz))
    return round_cents(divide(multiply(Decimal(amount_cents), days), Decimal(settled.window.duration)))


def counts_toward(period: Window, start: datetime, end: datetime) -> bool:
    """Whether a fee whose own window is `start` to `end` counts toward the commitment of `period`.

    The middle of its window decides: a change of time zone moves either end by hours. For recurring usage renewed in
    advance, whose record shows the period that closed, pass the moment of the renewal as both. A fee counts with its
    amount before coupons, taxes and credits.
    """
    return period.start <= start + (end - start) / 2 <= period.end


def true_up(due_cents: int, counted_cents: Iterable[int]) -> int:
    """The true-up fee in cents: the gap between the counted fees and the commitment. There is no fee if it is 0."""
    return max(due_cents - sum(counted_cents), 0)


def true_up_precise(due_cents: int, counted_cents: Iterable[Decimal]) -> Decimal:
    """The same from unrounded amounts, unrounded."""
    return max(subtract(Decimal(due_cents), total(counted_cents)), ZERO)


def fee_counts(fee: Fee, period: Window) -> bool:
    """Whether the fee counts toward the commitment of `period`."""
    if fee.fee_type not in COMMITTED_TYPES:
        return False
    start, end = fee.from_datetime, fee.to_datetime
    if fee.fee_type == FeeType.CHARGE:
        start, end = fee.charges_from_datetime, fee.charges_to_datetime
        if start is not None and end is not None and fee.from_datetime is not None and fee.from_datetime > end:
            # A renewal of recurring usage counts in the period it was renewed for.
            start = end = fee.from_datetime
    return start is not None and end is not None and counts_toward(period, start, end)
