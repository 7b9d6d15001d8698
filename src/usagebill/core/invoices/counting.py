"""How events became units: the aggregation of a usage line step by step, and its pricing by the charge model.

The lines let a reader recompute an amount from the events of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import islice

from usagebill.core.aggregation import (
    AGGREGATIONS,
    AggregateResult,
    Metric,
    Window,
    counts_history,
    fold,
    in_scope,
    operation_of,
    prorated,
)
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import ONE, ZERO, add, decimal_text, divide, multiply, round_to, total
from usagebill.core.pricing import Properties
from usagebill.core.pricing.dynamic import DynamicProperties
from usagebill.core.pricing.graduated import GraduatedProperties
from usagebill.core.pricing.percentage import PercentageProperties, event_costs
from usagebill.core.pricing.prorated_graduated import flat_amount, slices
from usagebill.core.pricing.ranges import Ranges
from usagebill.core.pricing.standard import StandardProperties
from usagebill.core.pricing.volume import VolumeProperties, range_of
from usagebill.core.usage import Usage

# The most terms of a sum that are listed; the rest is added up.
MOST_TERMS = 100
_SHOWN_DECIMALS = 15
_SECOND = timedelta(seconds=1)


def _text(number: Decimal) -> str:
    return decimal_text(round_to(number, _SHOWN_DECIMALS))


def _sum(terms: Sequence[Decimal]) -> str:
    """The terms with plus signs, those beyond `MOST_TERMS` as one."""
    shown = [_text(term) for term in terms[:MOST_TERMS]]
    unlisted = terms[MOST_TERMS:]
    if unlisted:
        shown.append(f"{_text(total(unlisted))} ({len(unlisted)} more)")
    return " + ".join(shown) or "0.0"


def _listed(lines: Iterable[str]) -> list[str]:
    """At most `MOST_TERMS` lines, and the number of lines left out."""
    all_lines = list(lines)
    unlisted = len(all_lines) - MOST_TERMS
    return all_lines if unlisted <= 0 else [*islice(all_lines, MOST_TERMS), f"{unlisted} more of the same kind"]


def counting(
    metric: Metric, events: Iterable[Event], window: Window, *, is_prorated: bool, initial_level: Decimal = ZERO
) -> tuple[str, ...]:
    """The steps from the `events` of a line to its units over `window`, the metric's rounding last.

    Events out of the metric's scope are left out. `initial_level` is the start level of a recurring weighted sum.
    """
    counted = sorted((event for event in events if in_scope(metric, event, window)), key=lambda event: event.order)
    count = _COUNTS.get(metric.aggregation_type, _in_words)
    lines = count(metric, counted, window, is_prorated and metric.recurring, initial_level)
    if metric.rounding_function is not None:
        lines.append(_rounding(metric))
    return tuple(lines)


_Count = Callable[[Metric, list[Event], Window, bool, Decimal], list[str]]


def _numbers(metric: Metric, events: Iterable[Event]) -> list[tuple[Event, Decimal]]:
    values = ((event, numeric_value(event, metric.field_name)) for event in events)
    return [(event, value) for event, value in values if value is not None]


def _count(_metric: Metric, events: list[Event], _window: Window, _prorated: bool, _level: Decimal) -> list[str]:
    return [f"number of events: {len(events)}"]


def _added(metric: Metric, events: list[Event], window: Window, is_prorated: bool, _level: Decimal) -> list[str]:
    start = cut_to_seconds(window.start)
    numbers = _numbers(metric, events)
    before = total(value for event, value in numbers if event.timestamp < start)
    inside = [(event, value) for event, value in numbers if event.timestamp >= start]
    if is_prorated:
        lines = [f"from before the period: {_text(before)} x {window.days} / {window.period_days} days"]
        for event, value in inside:
            days = window.days_from(event.timestamp)
            lines.append(f"{_text(value)} x {days} / {window.period_days} days")
        proration = prorated(metric, events, window)
        units = ZERO if proration is None else proration.units
        return [*_listed(lines), f"sum, rounded up to 5 decimals: {_text(units)} prorated units"]
    whole = total(value for _, value in numbers)
    sums = _sum([value for _, value in inside])
    if counts_history(metric.aggregation_type, recurring=metric.recurring):
        return [f"sum of all events: from before the period {_text(before)} + {sums} = {_text(whole)}"]
    return [f"sum of {metric.field_name}: {sums} = {_text(whole)}"]


def _largest(metric: Metric, events: list[Event], _window: Window, _prorated: bool, _level: Decimal) -> list[str]:
    values = [value for _, value in _numbers(metric, events)]
    return [f"largest {metric.field_name} of {len(values)} events: {_text(max(values, default=ZERO))}"]


def _last(metric: Metric, events: list[Event], _window: Window, _prorated: bool, _level: Decimal) -> list[str]:
    numbers = _numbers(metric, events)
    if not numbers:
        return [f"latest {metric.field_name}: no event"]
    event, value = numbers[-1]
    return [f"latest {metric.field_name} of {len(numbers)} events, that of {event.transaction_id}: {_text(value)}"]


def _distinct(metric: Metric, events: list[Event], window: Window, is_prorated: bool, _level: Decimal) -> list[str]:
    by_value: dict[str, list[Event]] = {}
    for event in events:
        value = property_of(event, metric.field_name)
        if value is not None and operation_of(event) is not None:
            by_value.setdefault(value, []).append(event)
    if is_prorated:
        lines = []
        for value, events_of_value in by_value.items():
            proration = prorated(metric, events_of_value, window)
            units = ZERO if proration is None else proration.units
            # A share is a number of days divided by the period's; 5 decimals determine it.
            days = round_to(multiply(units, Decimal(window.period_days)), 0)
            if days > ZERO:
                lines.append(f"{value}: {int(days)} / {window.period_days} days")
        whole = prorated(metric, events, window)
        units = ZERO if whole is None else whole.units
        return [*_listed(lines), f"sum, rounded up to 5 decimals: {_text(units)} prorated units"]
    active = [
        value
        for value, events_of_value in by_value.items()
        if fold(metric.aggregation_type, events_of_value, field_name=metric.field_name, window=window).units == ONE
    ]
    shown = ", ".join(active[:MOST_TERMS]) + (f" and {len(active) - MOST_TERMS} more" if active[MOST_TERMS:] else "")
    return [f"distinct values of {metric.field_name}: {shown or 'none'}", f"number of them: {len(active)}"]


def _weighed(metric: Metric, events: list[Event], window: Window, _prorated: bool, level: Decimal) -> list[str]:
    end = window.end + (_SECOND if window.end.microsecond else timedelta(0))
    end = end.replace(microsecond=0)
    changes = [(window.start, level)] if level else []
    for event, value in _numbers(metric, events):
        level = add(level, value)
        changes.append((event.timestamp, level))
    area = ZERO
    lines = []
    for place, (since, held) in enumerate(changes):
        until = changes[place + 1][0] if place + 1 < len(changes) else end
        seconds = divide(Decimal((until - since) // MICROSECOND), Decimal(1_000_000))
        area = add(area, multiply(held, seconds))
        lines.append(f"level of {_text(held)} from {since.isoformat()} on: x {_text(seconds)} seconds")
    return [*_listed(lines), f"sum {_text(area)} / ({window.period_days} x 86400 seconds), the period, rounded up"]


def _in_words(metric: Metric, events: list[Event], window: Window, _prorated: bool, _level: Decimal) -> list[str]:
    aggregation = AGGREGATIONS[metric.aggregation_type]
    if aggregation.is_program:
        return [f"{metric.aggregation_type} over {len(events)} events"]
    tally = fold(metric.aggregation_type, events, field_name=metric.field_name, window=window)
    return [aggregation.words.format(field=metric.field_name, events=tally.events_count, units=_text(tally.units))]


def summary(metric: Metric, tally: AggregateResult, usage: Usage) -> tuple[str, ...]:
    """The steps from events to the units of a line with too many events to list; rounding comes last.

    `tally` is their aggregate, `usage` the billed usage.
    """
    units, events, field = _text(tally.units), tally.events_count, metric.field_name
    words = AGGREGATIONS[metric.aggregation_type].words
    lines = [words.format(field=field, events=events, units=units)]
    if usage.full_units is not None:
        lines.append(f"sum, rounded up to 5 decimals: {_text(usage.units)} prorated units")
    if metric.rounding_function is not None:
        lines.append(_rounding(metric))
    return tuple(lines)


def _rounding(metric: Metric) -> str:
    return f"{metric.rounding_function} to {metric.rounding_precision or 0} decimals"


_COUNTS: Mapping[str, _Count] = {
    "count_agg": _count,
    "sum_agg": _added,
    "max_agg": _largest,
    "latest_agg": _last,
    "unique_count_agg": _distinct,
    "weighted_sum_agg": _weighed,
}


def pricing(properties: Properties, usage: Usage, events: Iterable[Event] | None = ()) -> tuple[str, ...]:
    """The pricing of `usage`, in major units, if the fee's own details do not show it.

    That is for prorated quantities, bounds on single events, and events with prices of their own (`events`, None if
    there are too many).
    """
    if isinstance(properties, DynamicProperties) and events is None:
        return (f"prices of {usage.events_count} events: {_text(usage.amount_cents)} cents",)
    if isinstance(properties, DynamicProperties):
        counted = list(events or ())
        prices = [event.precise_total_amount_cents for event in counted if event.precise_total_amount_cents is not None]
        line = f"prices of the events: {_sum(prices) or '0'} = {_text(total(prices))} cents"
        unpriced = len(counted) - len(prices)
        return (
            (line, f"without a price that is a number, and not billed: {unpriced} of {len(counted)} events")
            if (unpriced)
            else (line,)
        )
    if isinstance(properties, PercentageProperties):
        return tuple(_event_lines(properties, usage)) if properties.is_bounded else ()
    if usage.full_units is None:
        return ()
    if isinstance(properties, StandardProperties):
        amount = multiply(usage.units, properties.amount)
        return (f"{_text(usage.units)} prorated units x {_text(properties.amount)} = {_text(amount)}",)
    if isinstance(properties, GraduatedProperties) and usage.stretches is not None:
        return tuple(_stretch_lines(properties.ranges, usage))
    if isinstance(properties, VolumeProperties):
        price_range = range_of(properties.ranges, usage.full_units)
        return (
            f"{_text(usage.full_units)} full units choose the range: {_text(usage.units)} prorated units "
            f"x {_text(price_range.rate)} + flat amount of {_text(price_range.flat_amount)}",
        )
    return (f"{_text(usage.units)} prorated units are priced",)


def _event_lines(properties: PercentageProperties, usage: Usage) -> list[str]:
    bounds = [
        f"{name} of {_text(bound)}"
        for name, bound in (("at least", properties.least), ("at most", properties.most))
        if bound is not None
    ]
    costs = list(event_costs(properties, usage.event_values))
    lines = [
        f"event of {_text(paid)}: {_text(paid)} x {_text(properties.rate)} % + {_text(properties.fixed_amount)}, "
        f"{' and '.join(bounds)}: {_text(cost)}"
        for paid, cost in costs
    ]
    return [*_listed(lines), f"events that are not free, each by itself: {_text(total(cost for _, cost in costs))}"]


def _stretch_lines(ranges: Ranges, usage: Usage) -> list[str]:
    parts = slices(ranges, usage.stretches or ())
    if not parts:
        return [f"nothing to price, flat amount of the first range: {_text(ranges.ranges[0].flat_amount)}"]
    level = ZERO
    lines = []
    for part in parts:
        share = divide(part.stretch.prorated, part.stretch.full)
        lines.append(
            f"full units {_text(level)} to {_text(part.level)} cost {_text(part.listed)} by their ranges; "
            f"x {_text(part.stretch.prorated)} prorated / {_text(part.stretch.full)} full units ({_text(share)}) "
            f"= {_text(part.amount)}"
        )
        level = part.level
    whole, flat = total(part.amount for part in parts), flat_amount(ranges, parts)
    return [*_listed(lines), f"sum {_text(whole)} + flat amounts of the ranges reached {_text(flat)}"]
