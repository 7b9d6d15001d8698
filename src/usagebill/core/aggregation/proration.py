"""Proration of recurring quantities: units are weighted by the days of the period for which they were active."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.unique_count import Operation, operation_of
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.numbers import (
    ONE,
    ZERO,
    add,
    ceil_to,
    divide,
    multiply,
    multiply_exactly,
    ratio,
    round_to,
    subtract,
    total,
)
from usagebill.core.usage import ProrationStep

_UNIT_DECIMALS = 5
_RATIO_DECIMALS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Prorated:
    """A prorated quantity: `units` rounded up to 5 decimals, and the `stretches` it grew by, in order of time."""

    units: Decimal
    stretches: tuple[ProrationStep, ...]


def persisted_units(units: Decimal, window: Window) -> Decimal:
    """The part of `units` that falls on the billed days of `window`: units x days / period_days, with 20 decimals."""
    return round_to(divide(multiply(units, Decimal(window.days)), Decimal(window.period_days)), _RATIO_DECIMALS)


def prorated_sum(events: Iterable[Event], field_name: str | None, window: Window) -> Prorated:
    """The sum of `field_name` over all history up to the end of `window`, prorated.

    The sum before the window is weighted by the billed days. Each event inside is weighted by the local days from its
    own to the last, inclusive, divided by the period's days (20 decimals). A negative value is refunded from its day
    on. The first stretch is the sum before the window, unless that is 0.
    """
    start = cut_to_seconds(window.start)
    before, current = ZERO, []
    for event in sorted(events, key=lambda event: event.order):
        value = numeric_value(event, field_name)
        if value is None or event.timestamp > window.end:
            continue
        if event.timestamp < start:
            before = add(before, value)
        elif days := window.days_from(event.timestamp):
            share = ratio(days, window.period_days)
            current.append(ProrationStep(full=value, prorated=multiply(value, share)))
    persisted = [] if before.is_zero() else [ProrationStep(full=before, prorated=persisted_units(before, window))]
    stretches = (*persisted, *current)
    return Prorated(
        units=ceil_to(total(stretch.prorated for stretch in stretches), _UNIT_DECIMALS), stretches=stretches
    )


def prorated_by_day(before: Decimal, sums: Iterable[tuple[datetime, Decimal]], window: Window) -> Prorated:
    """What `prorated_sum` returns, without stretches, from the sum before the window and those of its local days, each
    with an instant of that day.
    """
    parts = [] if before.is_zero() else [persisted_units(before, window)]
    for at, value in sums:
        share = ratio(window.days_from(at), window.period_days)
        # Exact: sums may be longer than the numbers of single events.
        parts.append(multiply_exactly(value, share))
    return Prorated(units=ceil_to(total(parts), _UNIT_DECIMALS), stretches=())


def prorated_additions(additions: Iterable[tuple[datetime, int]], window: Window) -> Prorated:
    """What `prorated_unique_count` returns if no value was ever removed, from the numbers of values that were added, in
    order of time: each with an instant of the local day, or of any time before the window.
    """
    shares: list[Decimal] = []
    stretches: list[ProrationStep] = []
    for at, values in additions:
        if not (days := window.days_from(at)):
            continue
        share = ratio(days, window.period_days)
        shares.append(multiply_exactly(share, Decimal(values)))
        stretches += [ProrationStep(full=ONE, prorated=ceil_to(share, _UNIT_DECIMALS))] * values
    return Prorated(units=ceil_to(total(shares), _UNIT_DECIMALS), stretches=tuple(stretches))


def prorated_unique_count(events: Iterable[Event], field_name: str | None, window: Window) -> Prorated:
    """The distinct values of `field_name` over all history up to the end of `window`, prorated.

    A value is weighted by the local days from its addition (or the window's start) to its removal (or the window's
    end), inclusive: added and removed on one day counts one day, and so does a value added again on the day of its
    removal. Values removed before the window weigh nothing and have no stretch.
    """
    by_value: defaultdict[str, list[tuple[Event, Operation]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.order):
        value, operation = property_of(event, field_name), operation_of(event)
        if value is not None and operation is not None and event.timestamp <= window.end:
            by_value[value].append((event, operation))

    shares: list[Decimal] = []
    placed: list[tuple[Event, str, ProrationStep]] = []
    for value, operations in by_value.items():
        for added, removed in _spells(operations, window):
            if removed is not None and window.is_before(removed.timestamp):
                continue
            added_at = added.timestamp
            days = window.days_from(added_at) if removed is None else window.days_until(added_at, removed.timestamp)
            if not days:
                continue
            share = ratio(days, window.period_days)
            shares.append(share)
            placed.append((added, value, ProrationStep(full=ONE, prorated=ceil_to(share, _UNIT_DECIMALS))))
            if removed is not None:
                placed.append((removed, value, ProrationStep(full=subtract(ZERO, ONE), prorated=ZERO)))
    placed.sort(key=lambda item: (item[0].timestamp, item[1], item[0].order))
    return Prorated(units=ceil_to(total(shares), _UNIT_DECIMALS), stretches=tuple(stretch for _, _, stretch in placed))


def _spells(operations: list[tuple[Event, Operation]], window: Window) -> list[tuple[Event, Event | None]]:
    """The spans in which one value was active: each addition with the removal that ended it, if any."""
    last_adding: dict[date, Event] = {}
    for event, operation in operations:
        if operation is Operation.ADD:
            last_adding[window.day_of(event.timestamp)] = event

    spells: list[tuple[Event, Event | None]] = []
    added: Event | None = None
    for event, operation in operations:
        if operation is Operation.ADD:
            added = added or event
            continue
        adding = last_adding.get(window.day_of(event.timestamp))
        added_again = adding is not None and adding.order > event.order
        if added is not None and not added_again:
            spells.append((added, event))
            added = None
    if added is not None:
        spells.append((added, None))
    return spells
