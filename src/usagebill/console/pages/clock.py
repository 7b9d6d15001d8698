"""The clock of a sandbox, moved from any page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from starlette.responses import Response

from usagebill.console.visits import Visit
from usagebill.core.instants import parse_instant
from usagebill.core.periods.calendar import add_months
from usagebill.runtime.clock import MovedByHand, move

_STEPS = {"day": timedelta(days=1), "week": timedelta(days=7)}


def moved_by(visit: Visit, sandbox: MovedByHand) -> Response:
    """Move the clock as the form says, and return to its page. Raises `Forbidden` and `Invalid`."""
    visit.seat.require("jobs.retry")
    move(sandbox, _target(sandbox.now, visit.form))
    here = visit.form.get("here", "")
    return visit.to(here if here.startswith("/") else "/")


def _target(now: datetime, form: Mapping[str, str]) -> datetime | None:
    """A step from now, or the instant that was typed, in UTC."""
    step = form.get("step", "")
    if step == "month":
        return datetime.combine(add_months(now.date(), 1), now.timetz())
    return now + _STEPS[step] if step in _STEPS else parse_instant(form.get("now", "").strip())
