"""Starts in the past: what a subscription is billed at once when it is created, and as of which instants."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from usagebill.core.days import local_date
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.limits import MOST_PAST_RUNS
from usagebill.core.periods import Cycle, day_start
from usagebill.core.periods.schedule import billing_days, latest_boundary
from usagebill.core.subscriptions import BillFrom


class PastBilling(NamedTuple):
    """What would have been billed at `at`: the start, the run of a billing day, or the end of the trial."""

    at: datetime
    trigger: Trigger


class TooManyRuns(Exception):
    """A start lies more than `MOST_PAST_RUNS` billing days back."""


def open_since(cycle: Cycle, now: datetime) -> datetime:
    """The start of the period open at `now`: its local midnight, or the start of the subscription in it."""
    return latest_boundary(cycle, now) or cycle.started_at


def past_billings(
    cycle: Cycle, now: datetime, *, bill_from: BillFrom, trial_end: datetime | None = None
) -> list[PastBilling]:
    """What to bill at `now` for a subscription that starts in the past, earliest first.

    From its current period on, that is what the period is billed in advance: as of its first instant, or of the end of
    the trial if that was later. From its start on it is all that it would have been billed until now. Raises
    `TooManyRuns`.
    """
    is_over = trial_end is not None and cycle.started_at < trial_end <= now
    if bill_from is BillFrom.NOW:
        return []
    if bill_from is BillFrom.CURRENT_PERIOD:
        since = open_since(cycle, now)
        return [PastBilling(max(since, trial_end) if is_over and trial_end else since, Trigger.START)]
    runs: list[PastBilling] = []
    for day in billing_days(cycle, until=local_date(now, cycle.tz)):
        if len(runs) == MOST_PAST_RUNS:
            raise TooManyRuns
        runs.append(PastBilling(day_start(day, cycle.tz), Trigger.RUN))
    ends = [PastBilling(trial_end, Trigger.TRIAL_END)] if is_over and trial_end else []
    return [PastBilling(cycle.started_at, Trigger.START), *sorted((*runs, *ends), key=lambda billing: billing.at)]
