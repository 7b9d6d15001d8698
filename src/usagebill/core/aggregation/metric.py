"""The parts of a billable metric and of a period that aggregations need, and unit rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import Protocol

from usagebill.core.days import counted_from, days_billed, local_date
from usagebill.core.numbers import ceil_to, floor_to, round_to

_MOST_PLACES = 100  # no number has more digits to round

# Rounding functions of metrics: (units, decimals) -> rounded units.
ROUNDINGS: Mapping[str, Callable[[Decimal, int], Decimal]] = {"round": round_to, "ceil": ceil_to, "floor": floor_to}


class Metric(Protocol):
    """The fields of a billable metric that say how events become units."""

    @property
    def aggregation_type(self) -> str: ...

    @property
    def field_name(self) -> str | None: ...

    @property
    def recurring(self) -> bool: ...

    @property
    def rounding_function(self) -> str | None: ...

    @property
    def rounding_precision(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The charges period of a subscription: events from `start` to `end` (aware UTC instants, both inclusive).

    `period_days` is the full length of the billing period, not shortened by a late start or an early end; `tz` the
    customer's time zone. `ended_by_upgrade`: an upgrade ended the subscription at `end`, and its day belongs to the
    new plan; `begun_by_upgrade`: an upgrade started it at `start`, and the whole day belongs to it. `days_start` as for
    billing periods.
    """

    start: datetime
    end: datetime
    period_days: int
    tz: tzinfo
    ended_by_upgrade: bool = False
    begun_by_upgrade: bool = False
    days_start: datetime | None = None

    @property
    def days(self) -> int:
        """The billed days of the window."""
        return self.days_from(self.start)

    def days_from(self, at: datetime) -> int:
        """The billed days of the window from the day of `at` on; all of them if `at` is before its start."""
        first = counted_from(at, self.start, self.days_start)
        return days_billed(first, self.end, self.tz, upgraded=self.ended_by_upgrade)

    def day_of(self, at: datetime) -> date:
        """The local date as which `at` counts for what begins or ends then."""
        return local_date(at if at < self.start else counted_from(at, self.start, self.days_start), self.tz)

    def days_until(self, first: datetime, removed: datetime) -> int:
        """The billed days from the day of `first`, as `days_from`, to that of `removed`, inclusive."""
        begins, ends = (counted_from(at, self.start, self.days_start) for at in (first, removed))
        return min(days_billed(begins, ends, self.tz), self.days_from(first))

    def is_before(self, at: datetime) -> bool:
        """Whether no billed day of the window is left at `at`, because it precedes the window."""
        if self.begun_by_upgrade:
            return local_date(at, self.tz) < local_date(self.start, self.tz)
        return at < self.start

    @property
    def is_whole(self) -> bool:
        """Whether the window is billed in full."""
        return self.days == self.period_days


def round_units(units: Decimal, metric: Metric) -> Decimal:
    """`units` by the metric's rounding function (`round` is half away from zero) at its precision (None is 0).

    Applied after aggregation and proration, per filter and group, before pricing; never to single events that are
    billed in advance.
    """
    function = metric.rounding_function
    if function is None:
        return units
    places = min(metric.rounding_precision or 0, _MOST_PLACES)
    exponent = units.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return units
    return ROUNDINGS[function](units, places)
