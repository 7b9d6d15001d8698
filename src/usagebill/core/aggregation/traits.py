"""Traits: what an aggregation type is like, which is all that other code asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from usagebill.core.aggregation.custom import Program
from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.tally import AggregateResult
from usagebill.core.events import Event

__all__ = ["Accumulation", "AggregationType", "EventValues", "FieldUse", "Question", "RunningTotals"]


class FieldUse(Enum):
    """What the metric's `field_name` is to an aggregation."""

    NONE = "none"  # no property of events is read: the name is dropped
    OPTIONAL = "optional"
    NEEDED = "needed"


class Accumulation(Enum):
    """What events leave behind: a recurring metric carries it over, and a charge in advance keeps a ledger of it."""

    NOTHING = "nothing"
    SUM = "sum"  # the sum of all events
    VALUES = "values"  # the values that are active; events add and remove them
    LEVEL = "level"  # a level that is held over time; it is carried as a number and not counted again


class RunningTotals(Enum):
    """What a percentage charge takes its free units from."""

    NONE = "none"
    COUNTED = "counted"  # 1, 2, 3 ... up to the units
    SUMMED = "summed"  # the sums of the events, one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that any aggregation is built from."""

    field_name: str | None
    window: Window | None
    initial_level: Decimal
    program: Program


# The events of a period in order of time, and the metric's field name -> one value an event.
EventValues = Callable[[Sequence[Event], str | None], tuple[Decimal, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationType:
    """An aggregation type. There are no defaults: whoever adds one decides all of it.

    `fold` counts events. `numeric`: an event whose field holds no number does not count. `may_recur`: a metric may
    carry over into later periods. `in_advance`: events may be billed as they come. `by_percentage`: percentages may
    price it.
    `event_values` gives what a price for each transaction needs; None forbids bounds on single transactions.
    `sums_event_prices`: the result adds up the prices that events bring along. `is_program`: the seller's own program
    decides. `words` say in an explanation what the units are, of `{field}`, `{events}` and `{units}`.
    """

    fold: Callable[[Question, Iterable[Event]], AggregateResult]
    field: FieldUse
    numeric: bool
    may_recur: bool
    in_advance: bool
    by_percentage: bool
    accumulation: Accumulation
    running_totals: RunningTotals
    event_values: EventValues | None
    sums_event_prices: bool
    is_program: bool
    words: str
