"""Usage: the result of an aggregation over a bucket of events, with everything that a charge model needs to
price it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class ProrationStep:
    """One step of a prorated quantity: `full` units decide the tier, `prorated` units are priced."""

    full: Decimal
    prorated: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of one bucket (a charge, one of its filters, one group) over one period.

    `units` are the billable units after proration and metric rounding. `full_units` are the units without proration,
    None if nothing is prorated. `running_totals` and `event_values` are built only for the properties that need them
    (free units, per-transaction bounds), in order of time; `stretches` only for prorated graduated charges.
    `paid_events` are the events that paid the fixed amount of a percentage charge, if that differs from `events_count`:
    in advance, one that adds no units may pay it. `amount_cents` is the sum of the events' own prices (dynamic) or of
    the program's (custom).
    """

    units: Decimal
    full_units: Decimal | None = None
    events_count: int = 0
    total_aggregated_units: Decimal | None = None
    amount_cents: Decimal = ZERO
    running_totals: tuple[Decimal, ...] = ()
    event_values: tuple[Decimal, ...] = ()
    stretches: tuple[ProrationStep, ...] | None = None
    paid_events: int | None = None

    @property
    def shown_units(self) -> Decimal:
        """The units that fees show and by which unit amounts are divided: never prorated."""
        return self.units if self.full_units is None else self.full_units
