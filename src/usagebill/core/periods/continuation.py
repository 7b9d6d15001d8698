"""Continuation: periods that follow on from what runs have billed, even in another time zone of the customer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from usagebill.core.periods.boundaries import (
    Boundaries,
    Cycle,
    Succession,
    Window,
    after_last_billed,
    from_start,
    without_days_billed,
)
from usagebill.core.periods.schedule import run_after


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledWindow:
    """The last window of its kind that a run billed, and the time zone in which the run counted days."""

    window: Window
    tz: tzinfo


def continued(
    cycle: Cycle,
    fresh: Boundaries,
    *,
    created_at: datetime,
    fee: BilledWindow | None,
    charges: BilledWindow | None,
    fixed_charges: BilledWindow | None,
) -> Boundaries:
    """`fresh`, moved so that it leaves no gap after what has been billed and bills nothing twice.

    `fee`, `charges` and `fixed_charges` are the last windows that runs billed, None if there are none; `created_at` is
    when the subscription was created.
    """
    first = replace(
        fresh,
        subscription=_fee(cycle, fresh.subscription, fee),
        charges=fresh.charges if charges else _first(cycle, fresh.charges, created_at, fresh.timestamp),
        fixed_charges=fresh.fixed_charges
        if fixed_charges
        else _first(cycle, fresh.fixed_charges, created_at, fresh.timestamp),
    )
    return after_last_billed(
        cycle, first, charges=_in_another_zone(cycle, charges), fixed_charges=_in_another_zone(cycle, fixed_charges)
    )


def _in_another_zone(cycle: Cycle, billed: BilledWindow | None) -> Window | None:
    return None if billed is None or billed.tz == cycle.tz else billed.window


def _fee(cycle: Cycle, window: Window, billed: BilledWindow | None) -> Window:
    """The window of the fee. An end does not bill days again that a run billed in arrears in another time zone."""
    closed = _in_another_zone(cycle, billed)
    is_ended = cycle.terminated_at is not None and cycle.succession is not Succession.DOWNGRADE
    if closed is None or not is_ended or cycle.pay_in_advance:
        return window
    return without_days_billed(cycle, window, closed)


def _first(cycle: Cycle, window: Window | None, created_at: datetime, at: datetime) -> Window | None:
    """The window at `at` where no run has billed one. A billing day that only a new time zone has put between the start
    and now was never billed; in the minutes from midnight to its run, another one will be.
    """
    if window is None or created_at >= window.start or at < run_after(window.start):
        return window
    return from_start(cycle, window)
