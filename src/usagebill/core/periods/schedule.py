"""The schedule: when everything that time triggers is due.

Time zones reach midnight at different times, so events that start with a local day run a few minutes after its
midnight: subscriptions end at minute 5 and are billed at minute 10. Events that follow from an instant or from a UTC
date run at a fixed minute of each hour. A late worker runs each of these as of its own instant, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from usagebill.core.days import local_date
from usagebill.core.instants import MICROSECOND
from usagebill.core.periods.boundaries import MIDNIGHT_MOVE, Cycle, max_zone_shift
from usagebill.core.periods.calendar import day_start

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_ENDING = timedelta(minutes=5)
_BILLING = timedelta(minutes=10)
_FINALIZATION = timedelta(minutes=20)
_OVERDUE = timedelta(minutes=25)
_TRIAL_END = timedelta(minutes=35)
_DUNNING = timedelta(minutes=45)
_ALERT = timedelta(minutes=50)


def is_billing_day(cycle: Cycle, day: date) -> bool:
    """Whether a run on local date `day` bills the subscription: a period starts on that day, after the subscription's
    start.
    """
    return cycle.start_date < day and cycle.period(day, cycle.billing_interval).start == day


def billing_days(cycle: Cycle, *, until: date) -> Iterator[date]:
    """The local days up to `until`, inclusive, on which runs bill a subscription, earliest first."""
    day = cycle.period(cycle.start_date, cycle.billing_interval).end + _DAY
    while day <= until:
        yield day
        day = cycle.period(day, cycle.billing_interval).end + _DAY


def is_unbilled(cycle: Cycle, now: datetime, *, billed_on: date | None = None, known_since: datetime) -> bool:
    """Whether no run has billed the subscription yet for the billing day that opened the period of `now`.

    That day is today, or a change of time zone has put it in the past. `billed_on` and `known_since` as in
    `next_billing_run`.
    """
    today = local_date(now, cycle.tz)
    day = cycle.period(today, cycle.billing_interval).start
    if day != today:
        return _is_missed(cycle, day, now, billed_on, known_since)
    return is_billing_day(cycle, today) and (billed_on is None or billed_on < today)


def _is_missed(cycle: Cycle, day: date, now: datetime, billed_on: date | None, known_since: datetime | None) -> bool:
    """Whether the past billing day `day` was no billing day in the time zone in which it passed.

    A change of time zone that only moves midnights never puts a billing day that far in the past.
    """
    earliest = cycle.start_date if billed_on is None else billed_on
    was_known = billed_on is not None or (known_since is not None and known_since < day_start(day, cycle.tz))
    across_months = max_zone_shift(cycle) > MIDNIGHT_MOVE
    return across_months and was_known and day > earliest and now - day_start(day, cycle.tz) < max_zone_shift(cycle)


def next_billing_run(
    cycle: Cycle,
    after: datetime,
    *,
    billed_on: date | None = None,
    known_since: datetime | None = None,
    ending_at: datetime | None = None,
) -> datetime:
    """The first instant after `after` at which a run bills the subscription.

    That is ten minutes after the local midnight of a billing day. It is minute 10 of the next hour if that moment has
    passed and the day is not over (a backdated start, entered on a billing day), or if only a new time zone has put it
    in the past. `billed_on` is the local date of the last run that billed it, None before the first. Runs have included
    the subscription since `known_since`, None if that is now. The day of `ending_at` is left to the end itself.
    """
    spared = None if ending_at is None else local_date(ending_at, cycle.tz)
    earliest = cycle.start_date if billed_on is None else billed_on
    day = cycle.period(local_date(after, cycle.tz), cycle.billing_interval).start
    while True:
        run = day_start(day, cycle.tz) + _BILLING
        if run <= after:
            run = _hourly(after + MICROSECOND, _BILLING)
        in_time = run < day_start(day + _DAY, cycle.tz)
        if day > earliest and day != spared and (in_time or _is_missed(cycle, day, after, billed_on, known_since)):
            return run
        day = cycle.period(day, cycle.billing_interval).end + _DAY


def downgraded_at(
    cycle: Cycle, now: datetime, *, asked_at: datetime, billed_on: date | None, phase_from: date | None = None
) -> datetime | None:
    """The local midnight at which a downgrade, scheduled at `asked_at`, has taken effect though the run that applies it
    is still to come; None if its interval is not over yet, or was over before it was asked for or, for a phase, began
    before `phase_from`.

    `billed_on` is the local date of the last run that billed the subscription, None before the first.
    """
    day = cycle.period(local_date(now, cycle.tz)).start
    midnight = day_start(day, cycle.tz)
    # A phase may have been asked for before its predecessor started, which lasts for a period at least.
    if phase_from is not None and (day < phase_from or midnight <= cycle.started_at):
        return None
    return midnight if asked_at < midnight and (billed_on is None or billed_on < day) else None


def awaited_run(midnight: datetime, now: datetime) -> datetime:
    """When a run may have billed what closed at a local `midnight`: ten minutes later, or every hour while it fails."""
    run = run_after(midnight)
    return run if run > now else _hourly(now + MICROSECOND, _BILLING)


def run_after(midnight: datetime) -> datetime:
    """When a run bills what closed at a local `midnight`: ten minutes later."""
    return midnight + _BILLING


def next_close(cycle: Cycle, now: datetime, *, billed_on: date | None, known_since: datetime) -> datetime:
    """The local midnight at which the next period to be billed closes: today's if no run has billed it yet, else that
    of the open period. Before the subscription starts, its first period is the open one.
    """
    day = max(local_date(now, cycle.tz), cycle.start_date)
    period = cycle.period(day, cycle.billing_interval)
    if is_unbilled(cycle, max(now, day_start(day, cycle.tz)), billed_on=billed_on, known_since=known_since):
        return day_start(period.start, cycle.tz)
    return day_start(period.end + _DAY, cycle.tz)


def run_is_past(cycle: Cycle, now: datetime) -> bool:
    """Whether the run of the billing day that opened the period of `now` is in the past."""
    day = cycle.period(local_date(now, cycle.tz), cycle.billing_interval).start
    return now >= run_after(day_start(day, cycle.tz))


def latest_boundary(cycle: Cycle, now: datetime) -> datetime | None:
    """The local midnight of the latest billing day up to `now`, None before the first.

    A subscription whose first payment took longer than that is billed once with this timestamp when it becomes active.
    """
    day = cycle.period(local_date(now, cycle.tz), cycle.billing_interval).start
    return day_start(day, cycle.tz) if day > cycle.start_date else None


def activation_at(subscription_at: datetime, tz: tzinfo) -> datetime:
    """When a future subscription becomes active: the first multiple of five minutes on its local date."""
    midnight = day_start(local_date(subscription_at, tz), tz)
    late = timedelta(minutes=midnight.minute % 5, seconds=midnight.second, microseconds=midnight.microsecond)
    return midnight + (timedelta(minutes=5) - late if late else late)


def ending_at_instant(ending_at: datetime, tz: tzinfo) -> datetime:
    """When a subscription with an `ending_at` ends: five minutes into that local date."""
    return day_start(local_date(ending_at, tz), tz) + _ENDING


def trial_end_run(trial_end: datetime) -> datetime:
    """When the end of a trial is processed and billed: minute 35 at or after it."""
    return _hourly(trial_end, _TRIAL_END)


def end_before_run(ending_at: datetime, run: datetime, now: datetime, tz: tzinfo) -> datetime | None:
    """When a subscription ends instead of being billed by the next `run`, now at the earliest; None if it ends later.

    An end on the local day of the run comes first.
    """
    if local_date(ending_at, tz) > local_date(run, tz):
        return None
    return max(ending_at_instant(ending_at, tz), now)


def trial_end_before_run(trial_end: datetime, run: datetime, now: datetime) -> datetime | None:
    """When the end of a trial is billed, now at the earliest; None if the next `run` comes first."""
    noticed = trial_end_run(max(trial_end, now))
    return noticed if noticed < run else None


def draft_finalization_at(expected_finalization_date: date) -> datetime:
    """When a draft is finalized automatically: minute 20 of that UTC date."""
    return _utc_midnight(expected_finalization_date) + _FINALIZATION


def change_follow_up_at(changed_at: datetime) -> datetime:
    """When outdated drafts and new thresholds are processed: the first multiple of five minutes after the change."""
    late = timedelta(minutes=changed_at.minute % 5, seconds=changed_at.second, microseconds=changed_at.microsecond)
    return changed_at - late + timedelta(minutes=5)


def overdue_at(payment_due_date: date) -> datetime:
    """When an unpaid invoice becomes overdue: minute 25 of the UTC date after its due date."""
    return _utc_midnight(payment_due_date + _DAY) + _OVERDUE


def dunning_run_at(instant: datetime) -> datetime:
    """When it is checked whether a customer is to be asked to pay overdue amounts: minute 45 at or after `instant`."""
    return _hourly(instant, _DUNNING)


def gate_expiry_at(expires_at: datetime) -> datetime:
    """When an activation that waits for its payment is given up: minute 20 at or after `expires_at`."""
    return _hourly(expires_at, _FINALIZATION)


def termination_alerts(ending_at: datetime, days: Iterable[int] = (45, 15)) -> tuple[datetime, ...]:
    """When termination alerts are sent: minute 50 of the UTC date that many days before, earliest first."""
    ending = ending_at.astimezone(UTC).date()
    return tuple(_utc_midnight(ending - timedelta(days=ahead)) + _ALERT for ahead in sorted(set(days), reverse=True))


def next_termination_alert(
    ending_at: datetime, now: datetime, *, days: Iterable[int] = (45, 15), announced_at: datetime | None
) -> datetime | None:
    """When the next termination alert is due, None if none is left.

    There is at most one per UTC date; `announced_at` is when the last was sent. One that should have been sent today is
    due at the next minute 50 of an hour.
    """
    today = now.astimezone(UTC).date()
    is_open_today = announced_at is None or announced_at.astimezone(UTC).date() < today
    for alert in termination_alerts(ending_at, days):
        if alert.date() == today and is_open_today:
            return alert if alert > now else _hourly(now + MICROSECOND, _ALERT)
        if alert.date() > today:
            return alert
    return None


def _utc_midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _hourly(instant: datetime, minute: timedelta) -> datetime:
    """The first instant at or after `instant` that lies `minute` into an hour (UTC)."""
    run = instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + minute
    return run if run >= instant else run + _HOUR
