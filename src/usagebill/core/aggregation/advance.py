"""Pay in advance: the units that one event adds to those a charge has billed in the period, and the charge's ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import assert_never

from usagebill.core.aggregation.metric import Metric, Window, round_units
from usagebill.core.aggregation.proration import persisted_units
from usagebill.core.aggregation.registry import AGGREGATIONS
from usagebill.core.aggregation.tally import AggregateResult
from usagebill.core.aggregation.traits import COUNTED_FROM_FIRST, Accumulation
from usagebill.core.aggregation.unique_count import Operation, operation_of
from usagebill.core.events import Event, numeric_value
from usagebill.core.numbers import ONE, ZERO, add, ceil_to, divide, multiply, subtract
from usagebill.core.usage import Usage

_UNIT_DECIMALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """The state of one charge, filter and group of a subscription in a period, after an event.

    `current` is the sum of the period's events, `maximum` the highest sum billed so far, `maximum_prorated` the same
    after proration; `paid_events` counts the events that paid the fixed amount of a percentage charge. Each period
    starts without a row, because the quantity that a recurring metric carries over was billed at renewal. The row
    before an event is the one with the latest timestamp (then the latest created) in the period, other than the event's
    own.
    """

    current: Decimal
    maximum: Decimal
    maximum_prorated: Decimal = ZERO
    paid_events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventUnits:
    """An event's units, `billed` and as `shown` on its fee, and the ledger row after it (None without a ledger)."""

    billed: Decimal
    shown: Decimal
    row: LedgerRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceUsage:
    """An event's units, and the two usages whose prices differ by its price (`with_event` - `without_event`)."""

    units: EventUnits
    with_event: Usage
    without_event: Usage


def event_units(
    metric: Metric, event: Event, previous: LedgerRow | None, window: Window, *, was_active: bool = False
) -> EventUnits:
    """The units that `event` adds, given the ledger row before it.

    `was_active`: whether the event's value of a unique count was already active. A decrease is never refunded within a
    period, and growing back to the highest sum billed is free. A prorated maximum grows by the units billed, for the
    days from the event's to the last of `window`, rounded up to 5 decimals.
    """
    accumulation = AGGREGATIONS[metric.aggregation_type].accumulation
    match accumulation:
        case Accumulation.SUM:
            units = _summed(numeric_value(event, metric.field_name) or ZERO, previous)
        case Accumulation.VALUES:
            units = _unique(operation_of(event), previous, was_active=was_active)
        case Accumulation.NOTHING | Accumulation.LEVEL:
            return EventUnits(billed=ONE, shown=ONE)
        case _:
            assert_never(accumulation)
    if units.row is None:
        return units
    prorated = add(previous.maximum_prorated if previous else ZERO, _prorated(units.billed, event, window))
    paid_events = previous.paid_events if previous else 0
    return replace(units, row=replace(units.row, maximum_prorated=prorated, paid_events=paid_events))


def advance_usage(
    metric: Metric,
    event: Event,
    tally: AggregateResult,
    previous: LedgerRow | None,
    window: Window,
    *,
    prorated: bool = False,
    was_active: bool = False,
    running_totals: tuple[Decimal, ...] = (),
    event_values: tuple[Decimal, ...] = (),
) -> AdvanceUsage:
    """The usage up to and including `event`, and the same without it.

    `tally`, `running_totals` and `event_values` cover all events of the event's bucket and group that the aggregation
    counts, up to and including the event (`events.up_to`). Both sides have the same running totals; the side without
    the event leaves it out of the event values and counts one event less. A prorated charge (standard only) prices only
    the prorated units of the event. Units are not rounded by the metric.
    """
    units = event_units(metric, event, previous, window, was_active=was_active)
    if prorated:
        with_event = Usage(
            units=_prorated(units.billed, event, window), full_units=units.billed, events_count=tally.events_count
        )
        return AdvanceUsage(
            units=units,
            with_event=with_event,
            without_event=Usage(units=ZERO, full_units=ZERO, events_count=max(tally.events_count - 1, 0)),
        )
    with_event = Usage(
        units=tally.units,
        events_count=tally.events_count,
        amount_cents=tally.amount_cents,
        running_totals=running_totals,
        event_values=event_values,
    )
    without_event = replace(
        with_event,
        units=subtract(tally.units, units.billed),
        events_count=max(tally.events_count - 1, 0),
        amount_cents=subtract(tally.amount_cents, event.precise_total_amount_cents or ZERO),
        event_values=event_values[:-1],
    )
    return AdvanceUsage(units=units, with_event=with_event, without_event=without_event)


def current_usage(
    metric: Metric,
    tally: AggregateResult,
    row: LedgerRow | None,
    window: Window,
    *,
    prorated: Decimal | None = None,
    running_totals: tuple[Decimal, ...] = (),
    event_values: tuple[Decimal, ...] = (),
) -> Usage:
    """The usage of a pay-in-advance charge so far: shows the current units, prices the billed ones.

    `tally` is the aggregation up to the end of `window` without proration, `row` the period's latest ledger row,
    `prorated` the prorated aggregation (None if the charge is not prorated). Nothing is below 0; metric rounding
    applies.
    """
    present = tally.units
    if AGGREGATIONS[metric.aggregation_type].accumulation not in COUNTED_FROM_FIRST:
        priced = present
    elif prorated is None:
        priced = present if row is None else add(subtract(present, row.current), row.maximum)
    elif row is None:
        priced = present if window.is_whole else prorated
    else:
        renewed = subtract(present, row.current)
        if not window.is_whole:
            renewed = ceil_to(persisted_units(renewed, window), _UNIT_DECIMALS)
        priced = add(renewed, row.maximum_prorated)
    return Usage(
        units=round_units(max(priced, ZERO), metric),
        full_units=round_units(max(present, ZERO), metric),
        events_count=tally.events_count,
        amount_cents=tally.amount_cents,
        running_totals=running_totals,
        event_values=event_values,
    )


def _prorated(billed: Decimal, event: Event, window: Window) -> Decimal:
    days = Decimal(window.days_from(event.timestamp))
    return ceil_to(divide(multiply(billed, days), Decimal(window.period_days)), _UNIT_DECIMALS)


def _summed(value: Decimal, previous: LedgerRow | None) -> EventUnits:
    positive = max(value, ZERO)
    if previous is None:
        return EventUnits(billed=positive, shown=positive, row=LedgerRow(current=value, maximum=value))
    current = add(previous.current, value)
    if current <= previous.maximum:
        row = LedgerRow(current=current, maximum=previous.maximum)
        return EventUnits(billed=ZERO, shown=positive, row=row)
    billed = subtract(current, previous.maximum)
    return EventUnits(billed=billed, shown=billed, row=LedgerRow(current=current, maximum=max(current, billed)))


def _unique(operation: Operation | None, previous: LedgerRow | None, *, was_active: bool) -> EventUnits:
    adds = ONE if operation is Operation.ADD and not was_active else ZERO
    removes = ONE if operation is Operation.REMOVE and was_active else ZERO
    if previous is None:
        return EventUnits(billed=adds, shown=adds, row=LedgerRow(current=adds, maximum=adds))
    current = subtract(add(previous.current, adds), removes)
    if current <= previous.maximum:
        row = LedgerRow(current=current, maximum=previous.maximum)
        return EventUnits(billed=ZERO, shown=adds, row=row)
    return EventUnits(billed=ONE, shown=ONE, row=LedgerRow(current=current, maximum=current))
