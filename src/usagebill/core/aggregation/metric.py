"""What an aggregation needs to know of a billable metric and of the period; which events it sees; unit rounding."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Protocol

from usagebill.core.aggregation.unique_count import operation_of
from usagebill.core.days import days_between
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.numbers import ceil_to, floor_to, round_to

__all__ = [
    "Metric",
    "Window",
    "billable_in_advance",
    "counts",
    "counts_history",
    "in_scope",
    "lacks_property",
    "lower_bound",
    "round_units",
]

_NUMERIC_TYPES = frozenset({"sum_agg", "max_agg", "latest_agg", "weighted_sum_agg"})
_MOST_PLACES = 100  # beyond the digits of any number there is nothing to round


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
    customer's time zone; `ended_by_upgrade` whether an upgrade ended the subscription at `end`.
    """

    start: datetime
    end: datetime
    period_days: int
    tz: tzinfo
    ended_by_upgrade: bool = False

    @property
    def days(self) -> int:
        """Days of the window that are billed: one less, but not below 0, when an upgrade ended it (the day of an
        upgrade belongs to the new plan).
        """
        days = days_between(self.start, self.end, self.tz)
        return max(days - 1, 0) if self.ended_by_upgrade else days

    @property
    def is_whole(self) -> bool:
        """Whether the window is billed in full."""
        return self.days == self.period_days


def counts_history(aggregation_type: str, *, recurring: bool) -> bool:
    """Whether all earlier events of the external subscription id count, those of earlier subscriptions included.

    True for recurring sum and unique count. A recurring weighted sum takes its history from its initial
    level instead.
    """
    return recurring and aggregation_type in ("sum_agg", "unique_count_agg")


def lower_bound(aggregation_type: str, *, recurring: bool, start: datetime) -> datetime | None:
    """The timestamp from which on (inclusive) events count, None where all history does.

    It is the whole second of `start`: senders mostly have whole seconds, and a subscription may start within one.
    """
    return None if counts_history(aggregation_type, recurring=recurring) else cut_to_seconds(start)


def in_scope(metric: Metric, event: Event, window: Window) -> bool:
    """Whether the timestamp of `event` lies where `metric` looks for the period `window`."""
    earliest = lower_bound(metric.aggregation_type, recurring=metric.recurring, start=window.start)
    return (earliest is None or earliest <= event.timestamp) and event.timestamp <= window.end


def counts(aggregation_type: str, field_name: str | None, event: Event) -> bool:
    """Whether the aggregation sees anything in `event`: what does not count belongs to no group either.

    A number where one is added up or compared; a value and an operation that is known for a unique count; any event
    for the other types.
    """
    if aggregation_type in _NUMERIC_TYPES:
        return numeric_value(event, field_name) is not None
    if aggregation_type == "unique_count_agg":
        return property_of(event, field_name) is not None and operation_of(event) is not None
    return True


def lacks_property(metric: Metric, event: Event) -> bool:
    """Whether `event` cannot count for `metric` (`missing_aggregation_property` of the hourly check).

    Its field is missing or null, or is not numeric where a number is needed. Never for count_agg.
    """
    if metric.aggregation_type == "count_agg" or metric.field_name is None:
        return False
    if metric.aggregation_type in _NUMERIC_TYPES:
        return numeric_value(event, metric.field_name) is None
    return property_of(event, metric.field_name) is None


def billable_in_advance(metric: Metric, event: Event) -> bool:
    """Whether `event` is priced at once by pay-in-advance charges on `metric`.

    For count and custom always; otherwise its field must hold something (not null, empty or false), which is a number
    where one is needed, and a unique count's operation must be `add` or `remove`.
    """
    if metric.aggregation_type in ("count_agg", "custom_agg") or metric.field_name is None:
        return True
    value = event.properties.get(metric.field_name)
    if value is None or value is False or value == "" or lacks_property(metric, event):
        return False
    return metric.aggregation_type != "unique_count_agg" or operation_of(event) is not None


def round_units(units: Decimal, metric: Metric) -> Decimal:
    """`units` by the metric's rounding function (`round` is half away from zero) at its precision (None is 0).

    Applied after aggregation and proration, per filter and group, before pricing; never to single events that are
    billed in advance.
    """
    places = min(metric.rounding_precision or 0, _MOST_PLACES)
    exponent = units.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return units
    match metric.rounding_function:
        case "round":
            return round_to(units, places)
        case "ceil":
            return ceil_to(units, places)
        case "floor":
            return floor_to(units, places)
        case _:
            return units
