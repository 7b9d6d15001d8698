"""The dates of a contract's phases: when each begins, and which dates are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise

from usagebill.core.days import local_date
from usagebill.core.periods import Cycle, first_opening

# A year beyond, the period after the last phase's begin can still be computed.
_LATEST_YEAR = 9998


def day_of(sent: object) -> date | None:
    """The day that was sent, as a text "2027-01-01" or a date; None for anything else, also for an instant."""
    if isinstance(sent, date):
        return None if isinstance(sent, datetime) else sent
    if not isinstance(sent, str) or len(sent) != len("2027-01-01") or "W" in sent:
        return None
    try:
        return date.fromisoformat(sent)
    except ValueError:
        return None


def until_problems(cycle: Cycle, untils: Sequence[object], now: datetime) -> Mapping[str, Sequence[str]]:
    """Errors in the `until` of each phase (None for none), by field: each but the last needs a day, after today and
    after the start, and a period must begin between two of them.
    """
    problems: dict[str, Sequence[str]] = {}
    days: list[date] = []
    for place, sent in enumerate(untils):
        is_last, day = place == len(untils) - 1, day_of(sent)
        code = None
        if is_last:
            code = None if sent is None else "last_phase_has_no_end"
        elif sent is None:
            code = "value_is_mandatory"
        elif day is None or day.year > _LATEST_YEAR:
            code = "invalid_date"
        elif day <= local_date(now, cycle.tz):
            code = "cannot_be_in_past"
        elif day <= cycle.start_date:
            code = "phase_too_short"
        else:
            days.append(day)
        if code is not None:
            problems[f"phases[{place}].until"] = [code]
    if problems:
        return problems
    openings = [first_opening(cycle, day) for day in days]
    return {
        f"phases[{place}].until": ["phase_too_short"]
        for place, (before, after) in enumerate(pairwise(openings), start=1)
        if after <= before
    }


def begins_after(ending_at: datetime | None, opening: date, cycle: Cycle) -> bool:
    """Whether a phase that begins on `opening` would begin on the last day of the contract or later."""
    return ending_at is not None and local_date(ending_at, cycle.tz) <= opening
