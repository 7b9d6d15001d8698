"""Aggregation: how the events of a bucket become units.

Each aggregation type is a fold (`tally.Aggregation`) in a module of its own; `registry` maps wire values (`"sum_agg"`)
to them. `fold` runs one over events; storage engines are tested against it. `usage` (from events) and `usage_of` (from
an engine's count) add proration, metric rounding and per-event lists, and return everything that a charge model prices.
`advance` is about events that are billed one by one.
"""

from __future__ import annotations

from usagebill.core.aggregation.advance import (
    AdvanceUsage as AdvanceUsage,
    EventUnits as EventUnits,
    LedgerRow as LedgerRow,
    advance_usage as advance_usage,
    current_usage as current_usage,
    event_units as event_units,
)
from usagebill.core.aggregation.bucket import (
    active_before as active_before,
    prorated as prorated,
    usage as usage,
    usage_of as usage_of,
)
from usagebill.core.aggregation.custom import (
    Program as Program,
    Running as Running,
)
from usagebill.core.aggregation.lists import (
    counted_totals as counted_totals,
    summed_totals as summed_totals,
)
from usagebill.core.aggregation.metric import (
    Metric as Metric,
    Window as Window,
    round_units as round_units,
)
from usagebill.core.aggregation.proration import (
    Prorated as Prorated,
    persisted_units as persisted_units,
    prorated_additions as prorated_additions,
    prorated_by_day as prorated_by_day,
)
from usagebill.core.aggregation.registry import (
    AGGREGATIONS as AGGREGATIONS,
    event_values as event_values,
    fold as fold,
    running_totals as running_totals,
)
from usagebill.core.aggregation.scope import (
    counts as counts,
    counts_history as counts_history,
    in_scope as in_scope,
    lacks_property as lacks_property,
    lower_bound as lower_bound,
)
from usagebill.core.aggregation.tally import (
    AggregateResult as AggregateResult,
    Aggregation as Aggregation,
    fold_events as fold_events,
)
from usagebill.core.aggregation.traits import (
    Accumulation as Accumulation,
    AggregationType as AggregationType,
    EventEffect as EventEffect,
    FieldUse as FieldUse,
    Question as Question,
    RunningTotals as RunningTotals,
)
from usagebill.core.aggregation.unique_count import (
    Operation as Operation,
    operation_of as operation_of,
)
from usagebill.core.aggregation.weighted_sum import (
    Changes as Changes,
    weighed as weighed,
)
