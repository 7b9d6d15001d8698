"""Aggregation: how the events of a bucket become units.

Each aggregation type is a fold (`tally.Aggregation`) in a module of its own; `registry` maps wire values (`"sum_agg"`)
to them. `fold` runs one over events; storage engines are tested against it. `usage` (from events) and `usage_of` (from
an engine's count) add proration, metric rounding and per-event lists, and return everything that a charge model prices.
`advance` is about events that are billed one by one.
"""

from __future__ import annotations

from usagebill.core.aggregation.advance import (
    AdvanceUsage,
    EventUnits,
    LedgerRow,
    advance_usage,
    current_usage,
    event_units,
)
from usagebill.core.aggregation.bucket import active_before, prorated, usage, usage_of
from usagebill.core.aggregation.custom import Program, Running
from usagebill.core.aggregation.lists import counted_totals, summed_totals
from usagebill.core.aggregation.metric import Metric, Window, round_units
from usagebill.core.aggregation.proration import Prorated, persisted_units, prorated_additions, prorated_by_day
from usagebill.core.aggregation.registry import AGGREGATIONS, event_values, fold, running_totals
from usagebill.core.aggregation.scope import (
    billable_in_advance,
    counts,
    counts_history,
    in_scope,
    lacks_property,
    lower_bound,
)
from usagebill.core.aggregation.tally import AggregateResult, Aggregation, fold_events
from usagebill.core.aggregation.traits import (
    Accumulation,
    AggregationType,
    EventEffect,
    FieldUse,
    Question,
    RunningTotals,
)
from usagebill.core.aggregation.unique_count import Operation, operation_of
from usagebill.core.aggregation.weighted_sum import Changes, weighed

__all__ = [
    "AGGREGATIONS",
    "Accumulation",
    "AdvanceUsage",
    "AggregateResult",
    "Aggregation",
    "AggregationType",
    "Changes",
    "EventEffect",
    "EventUnits",
    "FieldUse",
    "LedgerRow",
    "Metric",
    "Operation",
    "Program",
    "Prorated",
    "Question",
    "Running",
    "RunningTotals",
    "Window",
    "active_before",
    "advance_usage",
    "billable_in_advance",
    "counted_totals",
    "counts",
    "counts_history",
    "current_usage",
    "event_units",
    "event_values",
    "fold",
    "fold_events",
    "in_scope",
    "lacks_property",
    "lower_bound",
    "operation_of",
    "persisted_units",
    "prorated",
    "prorated_additions",
    "prorated_by_day",
    "round_units",
    "running_totals",
    "summed_totals",
    "usage",
    "usage_of",
    "weighed",
]
