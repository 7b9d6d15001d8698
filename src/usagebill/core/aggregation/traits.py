"""Traits of aggregation types: everything that other code needs to know about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from usagebill.core.aggregation.custom import Program
from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.tally import AggregateResult
from usagebill.core.events import Event


class FieldUse(Enum):
    """How an aggregation uses the metric's `field_name`."""

    NONE = "none"  # no property of events is read; the name is dropped
    OPTIONAL = "optional"
    NEEDED = "needed"


class Accumulation(Enum):
    """The quantity that events accumulate: a recurring metric carries it over, and a charge in advance keeps a ledger
    of it.
    """

    NOTHING = "nothing"
    SUM = "sum"  # the sum of all events
    VALUES = "values"  # the active values; events add and remove them
    LEVEL = "level"  # a level held over time; it is carried over as a number and not recounted


# Accumulations that are recounted from the first event on.
COUNTED_FROM_FIRST = (Accumulation.SUM, Accumulation.VALUES)


class RunningTotals(Enum):
    """The running totals that the free units of a percentage charge are compared with."""

    NONE = "none"
    COUNTED = "counted"  # 1, 2, 3 ... up to the units
    SUMMED = "summed"  # the running sums of the events


class EventEffect(Enum):
    """The most that one more event can do to the units, wherever it falls in time."""

    ONE = "adds_one"
    VALUE = "adds_value"
    REPLACES = "becomes_units"  # the units may become its value
    WEIGHTED = "adds_value_over_time"  # its value, held from the start of the period to its end
    UNKNOWN = "unknown"  # no such bound exists: usage is recounted


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything an aggregation may be built from."""

    field_name: str | None
    window: Window | None
    initial_level: Decimal
    program: Program


# (the events of a period in order of time, the metric's field name) -> one value per event.
EventValues = Callable[[Sequence[Event], str | None], tuple[Decimal, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationType:
    """An aggregation type. No trait has a default: adding a type means deciding each of them.

    `fold` counts events. `numeric`: an event without a number in its field does not count. `may_recur`: a metric may
    carry over into later periods. `in_advance`: events may be billed as they come. `by_percentage`: percentages may
    price it. `event_values` returns the values that per-transaction prices need; None forbids per-transaction bounds.
    `effect` bounds the effect of one more event. `sums_event_prices`: the result adds up the prices sent with events.
    `is_program`: the seller's own program decides. `words` explain the units, with `{field}`, `{events}` and `{units}`
    filled in.
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
