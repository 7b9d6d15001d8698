"""The six boundaries of a billing record: the time that each invoice of a subscription covers.

A record bills three windows: the subscription fee, the usage charges and the fixed charges. Which ones it bills
follows from the moment of billing:

    billing                         subscription fee        usage charges, fixed charges
    a run, or the start             arrears: period closed  period closed
                                    in advance: period open
    now (current usage)             period open             period open
    an end, or an upgrade           period open, up to it   period open, up to it
    either, before a day's run      period closed           period closed, and usage up to the end
    a downgrade, at a period's end  as a run                period closed

The start of the subscription cuts each window from below. A yearly or half-yearly plan may bill its usage or its fixed
charges every month: those windows are then months of the same calendar or anniversary, and what is not billed
monthly has no window on the runs in between.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from enum import StrEnum

from usagebill.core.days import counted_from, local_date
from usagebill.core.instants import MICROSECOND
from usagebill.core.periods.calendar import (
    LONG_INTERVALS,
    BillingTime,
    Interval,
    Period,
    day_end,
    day_start,
    period_containing,
    previous_period,
)

_DAY = timedelta(days=1)
# A change of time zone moves a midnight by at most 26 hours.
_WESTERNMOST, _EASTERNMOST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))
MIDNIGHT_MOVE = timedelta(hours=26)
_LONGEST_MONTH = 31


class Succession(StrEnum):
    """How a plan change ended a subscription: at once (same or higher yearly price), or at a period's end."""

    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Everything that decides a subscription's periods: its plan's interval and flags, its dates, its time zone.

    `subscription_at` is the anchor of anniversary periods. `succession` says how a terminated subscription was
    replaced, None if it was not. The two monthly flags count on yearly and semiannual plans only.
    """

    interval: Interval
    billing_time: BillingTime
    pay_in_advance: bool
    subscription_at: datetime
    started_at: datetime
    tz: tzinfo
    bill_charges_monthly: bool = False
    bill_fixed_charges_monthly: bool = False
    terminated_at: datetime | None = None
    succession: Succession | None = None

    @property
    def anchor(self) -> date:
        """The local date that anniversary periods are counted from."""
        return local_date(self.subscription_at, self.tz)

    @property
    def start_date(self) -> date:
        """The local date on which the subscription started."""
        return local_date(self.started_at, self.tz)

    @property
    def charges_interval(self) -> Interval:
        """How often usage charges are billed."""
        return self._part(self.bill_charges_monthly)

    @property
    def fixed_charges_interval(self) -> Interval:
        """How often fixed charges are billed."""
        return self._part(self.bill_fixed_charges_monthly)

    @property
    def billing_interval(self) -> Interval:
        """How often anything is billed: monthly if the plan bills a part of itself monthly."""
        return self._part(self.bill_charges_monthly or self.bill_fixed_charges_monthly)

    def _part(self, monthly: bool) -> Interval:
        splittable = self.interval in LONG_INTERVALS
        return Interval.MONTHLY if monthly and splittable else self.interval

    def period(self, day: date, interval: Interval | None = None) -> Period:
        """The period of `interval` (the plan's own if None) that local date `day` belongs to."""
        return period_containing(day, interval or self.interval, self.billing_time, self.anchor)

    def before(self, period: Period, interval: Interval | None = None) -> Period:
        """The period of `interval` that ended the day before `period`."""
        return previous_period(period, interval or self.interval, self.billing_time, self.anchor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Two instants, both included, and the days of the whole period they lie in (never of the clipped window).

    `days_start`: the midnight from which its days count, None if from the local date of `start` (`with_days`).
    """

    start: datetime
    end: datetime
    duration: int
    days_start: datetime | None = None

    def counted_from(self, at: datetime) -> datetime:
        """The instant from whose local date on days are counted for what begins at `at`."""
        return counted_from(at, self.start, self.days_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """The windows of one billing record. None means that nothing of that kind is billed.

    A window of no length (start = end) bills no usage; fixed charges paid in advance replace it (`advance_window`).
    `opens_interval` is true in the first month of the plan's interval, and always for plans without monthly parts.
    """

    timestamp: datetime
    subscription: Window
    charges: Window | None
    fixed_charges: Window | None
    opens_interval: bool


def opens_interval(cycle: Cycle, day: date) -> bool:
    """Whether local date `day` lies in the first month (week) of the plan's interval."""
    smallest = Interval.WEEKLY if cycle.interval is Interval.WEEKLY else Interval.MONTHLY
    return cycle.period(day, smallest).start == cycle.period(day).start


def ended_on_boundary_day(cycle: Cycle) -> bool:
    """Whether the subscription ended for good, or with an upgrade, on the first day of a billing period later than its
    first day.

    Such an end bills the period closed the day before, and of the day just started only its usage, unless a run has
    already billed that period: nothing is due in advance for a period that is not the plan's.
    """
    if cycle.terminated_at is None or cycle.succession is Succession.DOWNGRADE:
        return False
    day = local_date(cycle.terminated_at, cycle.tz)
    return cycle.period(day, cycle.billing_interval).start == day and cycle.start_date < day


def billing_boundaries(cycle: Cycle, at: datetime, *, period_billed: bool = False) -> Boundaries:
    """The record of an invoice with billing timestamp `at`: a start, a run, or an end at or before `at`.

    `period_billed` tells an end on the first day of a period that a run has billed the period before it: only then is
    the day just started billed like any other. If not, nothing is billed of it but its usage (`usage_windows`).
    """
    ended = cycle.terminated_at
    # Timestamps of records are whole seconds: an end within that second is the one being billed.
    if ended is None or ended.replace(microsecond=0) > at:
        return _closed(cycle, at)
    day = local_date(ended, cycle.tz)
    if cycle.succession is Succession.DOWNGRADE:
        record = _closed(cycle, at, day)
        subscription = replace(record.subscription, end=min(record.subscription.end, ended))
        return replace(record, subscription=subscription)
    if ended_on_boundary_day(cycle) and not period_billed:
        closed = _open(cycle, day - _DAY, day_end(day - _DAY, cycle.tz), at)
        # No other record would count the usage of the day just started.
        return closed if closed.charges is None else replace(closed, charges=replace(closed.charges, end=ended))
    return _open(cycle, day, ended, at)


def ends_with_upgrade(cycle: Cycle, window: Window) -> bool:
    """Whether an upgrade ended the subscription within `window`: the last day of the window belongs to the new plan."""
    ended = cycle.terminated_at
    return cycle.succession is Succession.UPGRADE and ended is not None and window.end >= ended


def usage_windows(cycle: Cycle, record: Boundaries) -> tuple[Window, ...]:
    """The windows of `record` whose usage is counted and priced each by itself, in order: its usage window, and if the
    subscription ended before the run of a billing day, that day apart from the period that closed before it.
    """
    charges, closes = record.charges, record.subscription.end
    if charges is None:
        return ()
    if not (ended_on_boundary_day(cycle) and charges.start <= closes < charges.end):
        return (charges,)
    day = local_date(charges.end, cycle.tz)
    opened = cycle.period(day, cycle.charges_interval)
    if opened.start != day:
        return (charges,)
    return (
        replace(charges, end=closes),
        Window(start=closes + MICROSECOND, end=charges.end, duration=opened.days),
    )


def current_boundaries(cycle: Cycle, at: datetime) -> Boundaries:
    """The periods open at `at` (at the start if that is later, at the end if that is earlier), all three whole."""
    at = max(at, cycle.started_at)
    ended = cycle.terminated_at
    if ended is not None and ended <= at:
        return _open(cycle, local_date(ended, cycle.tz), ended, at)
    return _open(cycle, local_date(at, cycle.tz), None, at)


def advance_window(cycle: Cycle, at: datetime) -> Window:
    """The window of a fixed charge paid in advance when billed at `at`: its period that contains `at`."""
    period = cycle.period(local_date(at, cycle.tz), cycle.fixed_charges_interval)
    return _exact(cycle, period, None)


def max_zone_shift(cycle: Cycle) -> timedelta:
    """The upper bound (exclusive) of the shift of a billing day of `cycle` by changes of the time zone.

    That is 26 hours, as for any midnight. If the anchor of an anniversary is one of the last days of a short month in
    one time zone and the first of the next month in another, the billing day moves across the end of longer months: it
    is 29 March or 1 April for an anchor on the evening of 29 February.
    """
    if cycle.billing_time is BillingTime.CALENDAR or cycle.interval is Interval.WEEKLY:
        return MIDNIGHT_MOVE
    first = local_date(cycle.subscription_at, _WESTERNMOST)
    if first.month == local_date(cycle.subscription_at, _EASTERNMOST).month:
        return MIDNIGHT_MOVE
    return MIDNIGHT_MOVE + (_LONGEST_MONTH - monthrange(first.year, first.month)[1]) * _DAY


def after_last_billed(
    cycle: Cycle, fresh: Boundaries, *, charges: Window | None, fixed_charges: Window | None
) -> Boundaries:
    """`fresh`, of `cycle`, without gap or overlap after the last windows that were billed in another time zone.

    Usage and fixed charges start right after their last window if a change of time zone can have moved its end to the
    start of the new one. Pass None for windows last billed in the time zone of `fresh`.
    """
    return replace(
        fresh,
        charges=_resumed(cycle, fresh.charges, charges),
        fixed_charges=_resumed(cycle, fresh.fixed_charges, fixed_charges),
    )


def with_days(cycle: Cycle, record: Boundaries) -> Boundaries:
    """`record`, of `cycle`, with the first day of each window for everything that is prorated by days.

    A window that resumes where one of another time zone ended begins hours before or after the midnight of its first
    day. The day before was billed by its name there: 31 January of Tokyo is no day of February in Los Angeles.
    """
    charges, fixed_charges = record.charges, record.fixed_charges
    if charges is not None:
        # Usage of the day of an end may be billed with the period that closed before it.
        closes = min(charges.end, record.subscription.end) if ended_on_boundary_day(cycle) else charges.end
        charges = _with_days(cycle, charges, cycle.period(local_date(closes, cycle.tz), cycle.charges_interval))
    if fixed_charges is not None:
        ends_in = cycle.period(local_date(fixed_charges.end, cycle.tz), cycle.fixed_charges_interval)
        fixed_charges = _with_days(cycle, fixed_charges, ends_in)
    return replace(record, charges=charges, fixed_charges=fixed_charges)


def _with_days(cycle: Cycle, window: Window, period: Period) -> Window:
    moved = window.start - day_start(period.start, cycle.tz)
    is_start = window.start == cycle.started_at and moved >= timedelta(0)
    if not moved or is_start or abs(moved) >= MIDNIGHT_MOVE:
        return window
    # A move that puts the billing day into another month can leave a whole day between the two.
    first = period.start if moved > -_DAY else min(period.start, local_date(window.start, _EASTERNMOST))
    return replace(window, days_start=day_start(first, cycle.tz))


def without_days_billed(cycle: Cycle, fee: Window, closed: Window) -> Window:
    """The `fee` window of a subscription in arrears that has ended, without the days of `closed`: the window that a run
    billed last in another time zone, whose last days may belong to the open period in the new one.
    """
    return replace(fee, start=max(fee.start, day_start(local_date(closed.end + MICROSECOND, cycle.tz), cycle.tz)))


def day_before_next(cycle: Cycle, end: datetime) -> date:
    """A local date before the billing day of `cycle` that follows a period which ended at `end` in another time zone.

    The day is later than any billing day that the period has left behind.
    """
    return local_date(end + MICROSECOND - max_zone_shift(cycle), cycle.tz)


def from_start(cycle: Cycle, window: Window | None) -> Window | None:
    """The first `window` billed after the start; it begins at the start itself if a change of time zone may have put
    the billing day in between.
    """
    if window is None or not timedelta(0) < window.start - cycle.started_at < max_zone_shift(cycle):
        return window
    return replace(window, start=cycle.started_at)


def is_empty(start: datetime, end: datetime, tz: tzinfo, *, ends: bool) -> bool:
    """Whether a window covers nothing, because its period was over before the start of the subscription.

    It is then shown as the instant of the start. A window of one instant is billed if that is the last of a local day
    (of `tz`), or if the subscription `ends` with it.
    """
    is_last = local_date(end + MICROSECOND, tz) > local_date(end, tz)
    return start > end or (start == end and not ends and not is_last)


def is_same_end(cycle: Cycle, window: Window, end: datetime) -> bool:
    """Whether a period that ends at `end` ends with `window`, in whichever time zone its end was determined."""
    return abs(end - window.end) < max_zone_shift(cycle)


def is_same_period(cycle: Cycle, window: Window, start: datetime, end: datetime) -> bool:
    """Whether `start` to `end` is the period of `window`, in whichever time zone its bounds were determined."""
    return abs(start - window.start) < max_zone_shift(cycle) and is_same_end(cycle, window, end)


def billed_through(cycle: Cycle, *, run_at: datetime, run_tz: tzinfo) -> date:
    """The local date up to which a run at `run_at` bills the billing days of `cycle`, if its days were those of
    `run_tz`.

    A change of time zone moves the billing day that was billed; it stays billed.
    """
    if run_tz == cycle.tz:
        return local_date(run_at, cycle.tz)
    return local_date(run_at + max_zone_shift(cycle), cycle.tz)


def reenters_billed_period(cycle: Cycle, at: datetime, *, run_at: datetime, run_tz: tzinfo) -> bool:
    """Whether `at` lies, by `cycle`, in a billing period that a run at `run_at` closed, if its days were those of
    `run_tz`.
    """
    period = cycle.period(local_date(at, cycle.tz), cycle.billing_interval)
    return day_start(local_date(run_at, run_tz), run_tz) - day_start(period.start, cycle.tz) >= max_zone_shift(cycle)


def current_billing_period(cycle: Cycle, now: datetime) -> Window:
    """The period shown on a subscription: the usage window that contains `now` (the start, if that is later)."""
    record = current_boundaries(cycle, now)
    assert record.charges is not None, "the open period always has a usage window"
    return record.charges


def downgrade_plan_date(cycle: Cycle, now: datetime, phase_from: date | None = None) -> date:
    """The local date on which a pending downgrade takes effect: the day after the interval open at `now`; for a phase
    the first such day from `phase_from` on.
    """
    day = cycle.period(local_date(max(now, cycle.started_at), cycle.tz)).end + _DAY
    return day if phase_from is None else max(day, first_opening(cycle, phase_from))


def first_opening(cycle: Cycle, day: date) -> date:
    """The first local date from `day` on at which an interval begins."""
    period = cycle.period(day)
    return day if period.start == day else period.end + _DAY


def _closed(cycle: Cycle, at: datetime, day: date | None = None) -> Boundaries:
    """The record of a run on local date `day`: the periods that closed before it, the fee's open one in advance."""
    day = local_date(at, cycle.tz) if day is None else day
    opens = opens_interval(cycle, day)
    # Nothing was billed before the start: its record has every window, even if only to be replaced.
    whole = opens or day == cycle.start_date
    current = cycle.period(day)
    fee = current if cycle.pay_in_advance else cycle.before(current)

    def window(interval: Interval) -> Window | None:
        if not whole and interval is not cycle.billing_interval:
            return None
        return _exact(cycle, cycle.before(cycle.period(day, interval), interval), None)

    return Boundaries(
        timestamp=at.replace(microsecond=0),
        subscription=_fee(cycle, fee, None),
        charges=window(cycle.charges_interval),
        fixed_charges=window(cycle.fixed_charges_interval),
        opens_interval=opens,
    )


def _open(cycle: Cycle, day: date, end: datetime | None, at: datetime) -> Boundaries:
    """The record of the periods that contain local date `day`, up to `end`."""
    return Boundaries(
        timestamp=at.replace(microsecond=0),
        subscription=_fee(cycle, cycle.period(day), end),
        charges=_exact(cycle, cycle.period(day, cycle.charges_interval), end),
        fixed_charges=_exact(cycle, cycle.period(day, cycle.fixed_charges_interval), end),
        opens_interval=opens_interval(cycle, day),
    )


def _fee(cycle: Cycle, period: Period, end: datetime | None) -> Window:
    """The window of the subscription fee: whole local days, from the day of the start."""
    first = max(period.start, cycle.start_date)
    return Window(start=day_start(first, cycle.tz), end=_end(cycle, period, end), duration=cycle.period(first).days)


def _exact(cycle: Cycle, period: Period, end: datetime | None) -> Window:
    """A window of usage or fixed charges: from the very instant of the start."""
    return Window(
        start=max(day_start(period.start, cycle.tz), cycle.started_at),
        end=_end(cycle, period, end),
        duration=period.days,
    )


def _end(cycle: Cycle, period: Period, end: datetime | None) -> datetime:
    whole = max(day_end(period.end, cycle.tz), cycle.started_at)
    return whole if end is None else min(whole, end)


def _resumed(cycle: Cycle, fresh: Window | None, last: Window | None) -> Window | None:
    if fresh is None or last is None or last.start >= last.end:
        return fresh
    start = last.end + MICROSECOND
    if abs(start - fresh.start) >= max_zone_shift(cycle):
        return fresh
    return replace(fresh, start=max(start, cycle.started_at))
