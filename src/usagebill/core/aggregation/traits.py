"""Traits of aggregation types: all that other code needs to know of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from usagebill.core.aggregation.custom import Program
from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.tally import AggregateResult
from usagebill.core.events import Event

__all__ = [
    "COUNTED_FROM_FIRST",
    "Accumulation",
    "AggregationType",
    "EventEffect",
    "EventValues",
    "FieldUse",
    "Question",
    "RunningTotals",
]


class FieldUse(Enum):
    """What an aggregation uses the metric's `field_name` for."""

    NONE = "none"  # no property of events is read: the name is dropped
    OPTIONAL = "optional"
    NEEDED = "needed"


class Accumulation(Enum):
    """What events accumulate: a recurring metric carries it over, and a charge in advance keeps a ledger of it."""

    NOTHING = "nothing"
    SUM = "sum"  # the sum of all events
    VALUES = "values"  # the values that are active; events add and remove them
    LEVEL = "level"  # a level that is held over time; it is carried as a number and not counted again


# What events accumulate is counted again from the first of them on.
COUNTED_FROM_FIRST = (Accumulation.SUM, Accumulation.VALUES)


class RunningTotals(Enum):
    """What the free units of a percentage charge are counted against."""

    NONE = "none"
    COUNTED = "counted"  # 1, 2, 3 ... up to the units
    SUMMED = "summed"  # the sums of the events, one by one


class EventEffect(Enum):
    """What one more event can do to the units at most, wherever it stands in time."""

    ONE = "adds_one"
    VALUE = "adds_value"
    REPLACES = "becomes_units"  # the units may become its value
    WEIGHTED = "adds_value_over_time"  # its value, held from the start of the period to its end
    UNKNOWN = "unknown"  # there is no such bound: usage is counted again


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything an aggregation may be built from."""

    field_name: str | None
    window: Window | None
    initial_level: Decimal
    program: Program


# The events of a period in order of time, and the metric's field name -> one value an event.
EventValues = Callable[[Sequence[Event], str | None], tuple[Decimal, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationType:
    """An aggregation type. No trait has a default: adding a type means deciding each.

    `fold` counts events. `numeric`: an event whose field holds no number does not count. `may_recur`: a metric may
    carry over into later periods. `in_advance`: events may be billed as they come. `by_percentage`: percentages may
    price it. `event_values` gives the values that per-transaction prices need; None forbids per-transaction bounds.
    `effect` bounds what one more event adds. `sums_event_prices`: the result adds up the prices sent with events.
    `is_program`: the seller's own program decides.
    `words` explain the units, with `{field}`, `{events}` and `{units}` filled in.
    """

    fold: Callable[[Question, Iterable[Event]], AggregateResult]
    field: FieldUse
    numeric: bool
    may_recur: bool
    in_advance: bool
    by_percentage: bool
    accumulation: Accumulation
    effect: EventEffect
    running_totals: RunningTotals
    event_values: EventValues | None
    sums_event_prices: bool
    is_program: bool
    words: str
