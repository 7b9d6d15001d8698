"""Fixed charges: the units that a subscription has over time, and the days they are billed for when they change.

Units are a list of events, each with the instant from which it counts and the instant of the decision. A later decision
that takes effect earlier cancels a planned one. The day of a change belongs to the new units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Protocol

from usagebill.core.days import days_billed
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import ZERO, divide, multiply, round_to, total
from usagebill.core.periods import Cycle, Window, advance_window
from usagebill.core.usage import Usage


class UnitEvent(Protocol):
    """From `effective_at` on, the subscription has `units` (never negative) of the fixed charge.

    `plans.FixedChargeUnits` is one. Decisions at the same instant are ordered by their time-ordered ids.
    """

    @property
    def id(self) -> str: ...
    @property
    def units(self) -> Decimal: ...
    @property
    def effective_at(self) -> datetime: ...
    @property
    def created_at(self) -> datetime: ...


def next_period_start(cycle: Cycle, now: datetime) -> datetime:
    """The instant from which units count that change with the next period of the fixed charge."""
    return advance_window(cycle, now).end + MICROSECOND


def units_effective_at(cycle: Cycle, now: datetime, *, is_active: bool, immediately: bool) -> datetime:
    """The instant from which new units count: now, or the start of the fixed charges' next period.

    Always the latter while the first payment is awaited: the subscription is not active yet.
    """
    return now if immediately and is_active else next_period_start(cycle, now)


def units_in(
    events: Sequence[UnitEvent], window: Window, tz: tzinfo, *, prorated: bool, upgraded: bool = False
) -> Usage:
    """The units to bill for `window`: those decided last, or if `prorated`, each for the days it was in force.

    Without proration the last decision counts for the whole window. Prorated terms are rounded to six decimals each;
    `full_units` are then the units at the end of the window. `upgraded` as in `terms_in`.
    """
    considered = _considered(events, window)
    if not prorated:
        return Usage(units=considered[-1].units if considered else ZERO)
    terms = terms_in(events, window, tz, upgraded=upgraded)
    full = terms[-1].units if terms else ZERO
    return Usage(units=total(max(term.prorated, ZERO) for term in terms), full_units=full)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """`units` that were in force for `days` of a period, and their weight: units x days / period, six decimals."""

    units: Decimal
    days: int
    prorated: Decimal


def terms_in(events: Sequence[UnitEvent], window: Window, tz: tzinfo, *, upgraded: bool = False) -> list[Term]:
    """The units in force during `window`, one term after the other.

    `upgraded`: an upgrade ended the subscription with the window. Its day belongs to the new plan.
    """
    considered = _considered(events, window)
    standing = [
        event
        for place, event in enumerate(considered)
        if all(later.effective_at >= event.effective_at for later in considered[place + 1 :])
    ]
    # The days from each decision to the end of the window, as `days_billed` counts them.
    left = [
        days_billed(window.counted_from(event.effective_at), window.end, tz, upgraded=upgraded) for event in standing
    ]
    terms = []
    for event, since, until in zip(standing, left, [*left, 0][1:], strict=True):
        held = since - until
        share = divide(multiply(event.units, Decimal(held)), Decimal(window.duration))
        terms.append(Term(units=event.units, days=held, prorated=round_to(share, 6)))
    return terms


def _considered(events: Sequence[UnitEvent], window: Window) -> list[UnitEvent]:
    """The events that take effect in the window, and the last decision before it, in order of decision."""
    ordered = sorted(events, key=lambda event: (event.created_at, event.id))
    before = [event for event in ordered if event.effective_at < window.start][-1:]
    inside = [event for event in ordered if window.start <= event.effective_at <= window.end]
    return sorted(before + inside, key=lambda event: (event.created_at, event.id))


def days_left(changed_at: datetime, window: Window, tz: tzinfo, *, prorated: bool) -> int:
    """The days of a `window` already paid in advance that are billed for units added at once: from the local date of
    the change on if `prorated`, else all of them.
    """
    return days_billed(changed_at, window.end, tz) if prorated else window.duration


def days_paid_and_left(
    billed_at: datetime, billed_until: datetime, window: Window, tz: tzinfo, *, upgraded: bool = False
) -> tuple[int, int]:
    """For an old plan's prorated fee in advance: the days it paid for, and how many of them are in the new plan's
    `window`.

    The fee was `billed_at` for the time up to `billed_until`. Started days count as whole ones; neither is negative.
    `upgraded` as in `terms_in`.
    """
    paid = days_billed(billed_at, billed_until, tz)
    upgraded = upgraded and window.end <= billed_until
    return paid, min(days_billed(window.start, min(window.end, billed_until), tz, upgraded=upgraded), paid)


def fixed_charge_is_due(
    *,
    pay_in_advance: bool,
    ended: bool,
    closes: bool,
    billed_before: bool,
    days: int,
    ended_after_invoice: bool = False,
) -> bool:
    """Whether a record bills a fixed charge: in arrears from the first closed period on; in advance while the
    subscription is active, once per window. `closes`: the record bills the fixed charges of its closed window, of which
    `days` belong to the plan; if none does, the whole window is the next plan's.
    """
    if pay_in_advance:
        return not billed_before and (not ended or ended_after_invoice)
    return closes and days > 0
