"""The usage of one charge over a window: its events in filters and groups, aggregated and priced.

The store aggregates what it can; only what needs single events (prorated quantities, bounds on single transactions,
custom aggregations) is read event by event. Prorated sums and unique counts of many events are put together from those
of days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from usagebill.core.aggregation import (
    AGGREGATIONS,
    Accumulation,
    AggregateResult,
    LedgerRow,
    Operation,
    Prorated,
    RunningTotals,
    counted_totals,
    counts,
    current_usage,
    event_values,
    fold,
    in_scope,
    lower_bound,
    operation_of,
    prorated,
    round_units,
    running_totals,
    usage_of,
    weighed,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart, ChargeResult, charge_parts, parsed_properties, presentation_keys
from usagebill.core.copies import maker, replace
from usagebill.core.events import Event
from usagebill.core.filters import EventScope, FilterIndex
from usagebill.core.grouping import Breakdown, Group, group_of, grouped, grouped_by
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.plans import Charge
from usagebill.core.pricing import MODELS, Properties, price
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.percentage import PercentageProperties, free_events_of
from usagebill.core.usage import Usage
from usagebill.queries.removed_events import check_events_are_there
from usagebill.rating.carried_levels import starting_levels
from usagebill.rating.charge_scope import ChargeScope
from usagebill.rating.free_usage import Totals, first_totals
from usagebill.rating.handover import own_events
from usagebill.rating.ledger import Ledger
from usagebill.rating.priced_events import priced_events, unpaid_events
from usagebill.rating.prorated_usage import count_by_day, is_counted_by_day
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import ALL_EVENTS, COUNTED, EventQuery
from usagebill.storage.ports import EventLog

# Fewer events are read faster than a query for each day takes.
_WORTH_DAYS: Final = 5_000


def _count_of(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    parts: Sequence[ChargePart],
    keys: tuple[str, ...],
    scope: ChargeScope,
    *,
    amounts: bool,
) -> tuple[EventQuery, FilterIndex | None]:
    """The query that counts these parts in one pass; with an index, it is for each of its buckets."""
    bucket, filters = (parts[0].bucket, None) if len(parts) == 1 else (ALL_EVENTS, parts[0].filters)
    return replace(_question(reader, charge, metric, bucket, keys, scope), amounts=amounts), filters


def charge_results(reader: Reader, charge: Charge, metric: BillableMetric, scope: ChargeScope) -> list[ChargeResult]:
    """The usage of `charge` in `scope`: one result per filter and group, then per group of events that match no filter.

    Without any event there is one result of zero units, which is priced too, as a first flat amount may be due.
    """
    results = []
    parts = charge_parts(charge, metric)
    breakdowns = _breakdowns(reader, charge, metric, parts, scope)
    for part, usages in zip(parts, _usages(reader, charge, metric, parts, scope), strict=True):
        keys, properties = _group_keys(part, scope), parsed_properties(charge, part, scope.currency)
        for group, (tally, usage) in usages.items():
            breakdown = breakdowns.get((part.position, group), ()) if breakdowns else ()
            by = grouped_by(keys, group) if keys else {}
            results.append(_result(charge, metric, part, by, tally, usage, scope.currency, properties, breakdown))
    return results


def with_event(
    charge: Charge, metric: BillableMetric, results: Sequence[ChargeResult], event: Event, currency: str
) -> list[ChargeResult]:
    """The usage of a charge in arrears with another event, as `charge_results` would have it, if units just add up."""
    if not counts(metric.aggregation_type, metric.field_name, event):
        return list(results)
    own = fold(metric.aggregation_type, [event], field_name=metric.field_name)
    parts = charge_parts(charge, metric)
    after = list(results)
    for part in (parts[position] for position in parts[-1].filters.of_event(event)):
        by = grouped_by(part.group_keys, group_of(event, part.group_keys))
        place = next(
            (place for place, one in enumerate(after) if one.part.position == part.position and one.grouped_by == by),
            None,
        )
        before = AggregateResult() if place is None else after.pop(place).tally
        tally = AggregateResult(units=add(before.units, own.units), events_count=before.events_count + own.events_count)
        properties = parsed_properties(charge, part, currency)
        after.append(_result(charge, metric, part, by, tally, usage_of(metric, tally), currency, properties, ()))
    return after


_made_result = maker(ChargeResult)


def _result(
    charge: Charge,
    metric: BillableMetric,
    part: ChargePart,
    by: Mapping[str, str | None],
    tally: AggregateResult,
    usage: Usage,
    currency: str,
    properties: Properties,
    breakdown: Breakdown,
) -> ChargeResult:
    own_price = price(charge.charge_model, properties, usage)
    unit = charge.applied_pricing_unit
    rate = None if unit is None else unit.conversion_rate
    amounts = fee_amounts(own_price, usage, currency, conversion_rate=rate)
    # In the order of its fields.
    result: ChargeResult = _made_result(
        charge, metric, part, by, tally, usage, own_price, properties, amounts, breakdown
    )
    return result


def part_usages(
    reader: Reader, charge: Charge, metric: BillableMetric, part: ChargePart, scope: ChargeScope
) -> Mapping[Group, tuple[AggregateResult, Usage]]:
    """The aggregated usage of one part of a charge, by the values of its group keys, as `charge_results` prices it."""
    return _usages(reader, charge, metric, [part], scope)[0]


def _breakdowns(
    reader: Reader, charge: Charge, metric: BillableMetric, parts: Sequence[ChargePart], scope: ChargeScope
) -> dict[tuple[int, Group], Breakdown]:
    """The units of each group, split by the charge's presentation keys that do not price them."""
    if metric.aggregation_type not in COUNTED or _is_level(metric):
        return {}
    shown_keys = [
        key for key in presentation_keys(charge.properties) if scope.presented is None or key in scope.presented
    ]
    rows: dict[tuple[int, Group], Breakdown] = {}
    for keys, alike in _by_keys(parts, scope).items() if shown_keys else ():
        presented = tuple(key for key in shown_keys if key not in keys)
        if not presented:
            continue
        tallies_by_part = _tallies(reader, charge, metric, alike, (*keys, *presented), scope)
        for position, tallies in tallies_by_part.items():
            for group, tally in tallies.items():
                place = position, group[: len(keys)]
                units = round_units(tally.units, metric)
                rows[place] = (*rows.get(place, ()), (grouped_by(presented, group[len(keys) :]), units))
    return rows


def _by_keys(parts: Sequence[ChargePart], scope: ChargeScope) -> dict[tuple[str, ...], list[ChargePart]]:
    """The parts by their group keys; parts with equal keys are counted together."""
    alike: dict[tuple[str, ...], list[ChargePart]] = {}
    for part in parts:
        alike.setdefault(_group_keys(part, scope), []).append(part)
    return alike


def _tallies(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    parts: Sequence[ChargePart],
    keys: tuple[str, ...],
    scope: ChargeScope,
    *,
    amounts: bool = False,
) -> dict[int, dict[Group, AggregateResult]]:
    """The aggregate of each part, by position and group, in one pass over the events."""
    question, index = _count_of(reader, charge, metric, parts, keys, scope, amounts=amounts)
    if index is None:
        return {
            parts[0].position: reader.counted([question], lambda log: log.tallies(question), inputs=("one", question))
        }
    tallies_by_position = reader.counted(
        [question],
        lambda log: log.tallies_by_bucket(question, index),
        inputs=("by bucket", question, charge.filters, metric.filters),
    )
    nothing: dict[Group, AggregateResult] = {(None,) * len(keys): AggregateResult()}
    return {part.position: tallies_by_position.get(part.position, nothing) for part in parts}


def _group_keys(part: ChargePart, scope: ChargeScope) -> tuple[str, ...]:
    """The properties by which the scope splits the usage of the part."""
    if scope.ungrouped:
        return ()
    return tuple(key for key in part.group_keys if key not in scope.only) if scope.only else part.group_keys


def _question(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    bucket: EventScope,
    keys: Sequence[str],
    scope: ChargeScope,
) -> EventQuery:
    question = EventQuery(
        code=metric.code,
        external_subscription_id=scope.subscription.external_id,
        aggregation_type=metric.aggregation_type,
        field_name=metric.field_name,
        earliest=lower_bound(metric.aggregation_type, recurring=metric.recurring, start=scope.window.start),
        latest=scope.window.end,
        known_at=scope.known_at,
        bucket=bucket,
        only=scope.only,
        group_keys=tuple(keys),
        held_from=scope.window.start if _is_level(metric) else None,
    )
    window = scope.window
    check_events_are_there(reader, scope.subscription.external_id, metric.code, window.start, window.end)
    question = own_events(reader, scope.subscription, metric, question, scope.billed_at, scope.neighbours)
    if charge.pay_in_advance and scope.current:
        question = priced_events(reader, scope.subscription, charge, scope.window, question)
    elif not charge.pay_in_advance:
        question = unpaid_events(reader, scope.subscription, metric, scope.window, question)
    return question if scope.counted_until is None else replace(question, latest=scope.counted_until)


def _usages(
    reader: Reader, charge: Charge, metric: BillableMetric, parts: Sequence[ChargePart], scope: ChargeScope
) -> list[dict[Group, tuple[AggregateResult, Usage]]]:
    """The usage of each part, by group; all parts are counted or read in one pass."""
    terms: dict[int, PercentageProperties | None]
    if MODELS[charge.charge_model].by_percentage:
        terms = {part.position: _terms(charge, part, scope) for part in parts}
        read = [part for part in parts if _needs_events(charge, metric, terms[part.position])]
    else:
        terms = dict.fromkeys(part.position for part in parts)
        read = list(parts) if _needs_events(charge, metric, None) else []
    is_level = _is_level(metric)
    usages = _read_usages(reader, charge, metric, read, scope)
    counted = [part for part in parts if part.position not in usages]
    for keys, alike in _by_keys(counted, scope).items():
        tallies_by_part = _tallies(
            reader, charge, metric, alike, keys, scope, amounts=MODELS[charge.charge_model].by_event_prices
        )
        totals = _first_totals(reader, charge, metric, alike, keys, scope, terms, tallies_by_part)
        for part in alike:
            rows = _ledger_rows(reader, charge, metric, part, scope)
            first = totals.get(part.position, {})
            tallies = tallies_by_part[part.position]
            if is_level:
                tallies = _weighed(reader, charge, metric, part, keys, scope, tallies)
            usages[part.position] = {
                group: (
                    tally,
                    _from_tally(
                        charge, metric, tally, terms[part.position], scope, rows.get(group), first.get(group, ())
                    ),
                )
                for group, tally in tallies.items()
            }
    return [usages[part.position] for part in parts]


def _is_level(metric: BillableMetric) -> bool:
    return AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.LEVEL


def _weighed(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    part: ChargePart,
    keys: tuple[str, ...],
    scope: ChargeScope,
    tallies: Mapping[Group, AggregateResult],
) -> dict[Group, AggregateResult]:
    """The weighted sum of each group that has changes or starts from a level."""
    question = _question(reader, charge, metric, part.bucket, keys, scope)
    levels = starting_levels(reader, metric, scope.subscription, question)
    changed = {group: tally for group, tally in tallies.items() if tally.events_count or not levels}
    return {
        group: weighed(tally, scope.window, levels.get(group, ZERO))
        for group, tally in {**dict.fromkeys(levels, AggregateResult()), **changed}.items()
    }


def _first_totals(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    parts: Sequence[ChargePart],
    keys: tuple[str, ...],
    scope: ChargeScope,
    terms: Mapping[int, PercentageProperties | None],
    tallies: Mapping[int, Mapping[Group, AggregateResult]],
) -> Totals:
    """By position, the running totals of the parts of a sum with a free part."""
    if AGGREGATIONS[metric.aggregation_type].running_totals is not RunningTotals.SUMMED:
        return {}
    free = {
        position: part_terms
        for position, part_terms in terms.items()
        if part_terms is not None and (part_terms.free_events or part_terms.free_total)
    }
    read = [part for part in parts if part.position in free]
    if not read:
        return {}
    question = _question(reader, charge, metric, read[0].bucket if len(read) == 1 else ALL_EVENTS, keys, scope)
    limits = [(part.position, free[part.position].free_events, free[part.position].free_total) for part in read]
    return reader.counted(
        [question],
        lambda log: first_totals(log, question, read, free, keys, tallies),
        inputs=("first", question, limits, charge.filters, metric.filters),
    )


def _terms(charge: Charge, part: ChargePart, scope: ChargeScope) -> PercentageProperties | None:
    if not MODELS[charge.charge_model].by_percentage:
        return None
    properties = parsed_properties(charge, part, scope.currency)
    return properties if isinstance(properties, PercentageProperties) else None


def _read_usages(
    reader: Reader, charge: Charge, metric: BillableMetric, parts: Sequence[ChargePart], scope: ChargeScope
) -> dict[int, dict[Group, tuple[AggregateResult, Usage]]]:
    """The usage of the parts that are computed event by event, by position: one pass over the events for all."""
    if not parts:
        return {}
    alone = len(parts) == 1
    question = _question(reader, charge, metric, parts[0].bucket if alone else ALL_EVENTS, (), scope)
    starts = [_start_of(reader, charge, metric, part, scope) for part in parts]

    def count(log: EventLog) -> dict[int, dict[Group, tuple[AggregateResult, Usage]]]:
        events = {parts[0].position: list(log.scan(question))} if alone else _events_by_part(log, question, parts)
        return {
            start.part.position: _read_part(charge, metric, start, events[start.part.position], scope)
            for start in starts
        }

    def count_days(log: EventLog) -> dict[int, dict[Group, tuple[AggregateResult, Usage]]]:
        if log.size(question, at_most=_WORTH_DAYS) < _WORTH_DAYS:
            return count(log)
        by_part: dict[int, Mapping[Group, tuple[AggregateResult, Prorated]]] = {}
        for keys, alike in _by_keys(parts, scope).items():
            prorated_by_part = count_by_day(log, replace(question, group_keys=keys), alike, scope.window)
            if prorated_by_part is None:
                return count(log)
            by_part |= prorated_by_part
        return {
            start.part.position: {
                group: (tally, _used(charge, metric, tally, proration, scope, start.rows.get(group)))
                for group, (tally, proration) in by_part[start.part.position].items()
            }
            for start in starts
        }

    facts = ("read", charge, metric, question, [start.known for start in starts], scope.window, scope.current)
    act = count_days if is_counted_by_day(charge, metric) else count
    return reader.counted([question], act, inputs=(*facts, scope.currency, scope.ungrouped))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The starting point of a part's usage, by group: levels and, for usage so far, rows of the ledger in advance."""

    part: ChargePart
    keys: tuple[str, ...]
    levels: Mapping[Group, Decimal]
    rows: Mapping[Group, LedgerRow]

    @property
    def known(self) -> tuple[object, ...]:
        """All of it, the part by its position."""
        return self.part.position, self.keys, self.levels, self.rows


def _start_of(reader: Reader, charge: Charge, metric: BillableMetric, part: ChargePart, scope: ChargeScope) -> _Start:
    keys = _group_keys(part, scope)
    levels: dict[Group, Decimal] = {}
    if _is_level(metric):
        question = _question(reader, charge, metric, part.bucket, keys, scope)
        levels = starting_levels(reader, metric, scope.subscription, question)
    return _Start(part=part, keys=keys, levels=levels, rows=_ledger_rows(reader, charge, metric, part, scope))


def _events_by_part(log: EventLog, question: EventQuery, parts: Sequence[ChargePart]) -> dict[int, list[Event]]:
    """The events of each of the parts, in order of time."""
    events: dict[int, list[Event]] = {part.position: [] for part in parts}
    index = parts[0].filters
    for event in log.scan(question):
        for position in index.of_event(event):
            if position in events:
                events[position].append(event)
    return events


def _read_part(
    charge: Charge, metric: BillableMetric, start: _Start, events: Sequence[Event], scope: ChargeScope
) -> dict[Group, tuple[AggregateResult, Usage]]:
    """The usage of one part, from its events."""
    terms, levels = _terms(charge, start.part, scope), start.levels
    groups = _counted_groups(charge, metric, events, start.keys)
    if levels and not any(groups.values()):
        groups = {}
    carried: dict[Group, list[Event]] = {group: [] for group in levels}
    return {
        group: _from_events(charge, metric, members, terms, scope, levels.get(group, ZERO), start.rows.get(group))
        for group, members in {**carried, **groups}.items()
    }


def _counted_groups(
    charge: Charge, metric: BillableMetric, events: Iterable[Event], keys: Sequence[str]
) -> dict[Group, list[Event]]:
    """The events that count, by group. A prorated unique count has no group for values that were only ever removed."""
    groups = grouped((event for event in events if counts(metric.aggregation_type, metric.field_name, event)), keys)
    if keys and charge.prorated and AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES:
        groups = {
            group: members
            for group, members in groups.items()
            if any(operation_of(event) is Operation.ADD for event in members)
        }
    return groups or {(None,) * len(keys): []}


def _needs_events(charge: Charge, metric: BillableMetric, terms: PercentageProperties | None) -> bool:
    if metric.aggregation_type not in COUNTED or charge.prorated:
        return True
    return terms is not None and terms.is_bounded


def _from_tally(
    charge: Charge,
    metric: BillableMetric,
    tally: AggregateResult,
    terms: PercentageProperties | None,
    scope: ChargeScope,
    row: LedgerRow | None,
    totals: tuple[Decimal, ...] = (),
) -> Usage:
    if terms is not None and AGGREGATIONS[metric.aggregation_type].running_totals is RunningTotals.COUNTED:
        totals = counted_totals(tally.units, free_events=terms.free_events, free_units=terms.free_total)
    if charge.pay_in_advance and scope.current:
        usage = current_usage(metric, tally, row, scope.window, running_totals=totals)
        return usage if terms is None else _as_billed(metric, usage, tally, terms, row)
    return usage_of(metric, tally, running_totals=totals)


def _as_billed(
    metric: BillableMetric, usage: Usage, tally: AggregateResult, terms: PercentageProperties, row: LedgerRow | None
) -> Usage:
    """`usage` of a percentage charge in advance, with as many fixed amounts as were billed.

    A removal pays one; what was carried into the period paid its own at renewal.
    """
    if AGGREGATIONS[metric.aggregation_type].accumulation is not Accumulation.VALUES or row is None:
        return usage
    carried = max(int(subtract(tally.units, row.current)), 0)
    paid = max(carried - free_events_of(terms, usage.running_totals), 0)
    return replace(usage, paid_events=paid + row.paid_events)


def _from_events(
    charge: Charge,
    metric: BillableMetric,
    events: Iterable[Event],
    terms: PercentageProperties | None,
    scope: ChargeScope,
    level: Decimal,
    row: LedgerRow | None,
) -> tuple[AggregateResult, Usage]:
    window = scope.window
    counted = [event for event in events if in_scope(metric, event, window)]
    tally = fold(metric.aggregation_type, counted, field_name=metric.field_name, window=window, initial_level=level)
    totals: tuple[Decimal, ...] = ()
    values: tuple[Decimal, ...] = ()
    if terms is not None:
        totals = running_totals(
            metric, counted, tally.units, free_events=terms.free_events, free_units=terms.free_total
        )
        values = event_values(metric, counted, window.start) if terms.is_bounded else ()
    proration = prorated(metric, counted, window) if charge.prorated else None
    return tally, _used(charge, metric, tally, proration, scope, row, totals, values)


def _used(
    charge: Charge,
    metric: BillableMetric,
    tally: AggregateResult,
    proration: Prorated | None,
    scope: ChargeScope,
    row: LedgerRow | None,
    totals: tuple[Decimal, ...] = (),
    values: tuple[Decimal, ...] = (),
) -> Usage:
    if not (charge.pay_in_advance and scope.current):
        return usage_of(metric, tally, proration=proration, running_totals=totals, event_values=values)
    units = None if proration is None else proration.units
    return current_usage(metric, tally, row, scope.window, prorated=units, running_totals=totals, event_values=values)


def _ledger_rows(
    reader: Reader, charge: Charge, metric: BillableMetric, part: ChargePart, scope: ChargeScope
) -> dict[Group, LedgerRow]:
    """The latest ledger rows of a part's groups, for usage so far of a charge paid in advance."""
    if not charge.pay_in_advance or not scope.current:
        return {}
    ledger = Ledger(
        reader=reader,
        subscription_id=scope.subscription.id,
        charge=charge,
        charge_filter=part.filter,
        window=scope.window if scope.counted_until is None else replace(scope.window, end=scope.counted_until),
    )
    question = _question(reader, charge, metric, ALL_EVENTS, _group_keys(part, scope), scope)
    return ledger.latest(question, part.group_keys)


def initial_level_of(
    reader: Reader,
    charge: Charge,
    part: ChargePart,
    metric: BillableMetric,
    scope: ChargeScope,
    group: Mapping[str, str | None],
) -> Decimal:
    """The level at which one group of a recurring weighted sum starts `scope`'s window; zero for any other metric."""
    keys = tuple(group)
    question = _question(reader, charge, metric, part.bucket, keys, scope)
    levels = starting_levels(reader, metric, scope.subscription, question)
    return levels.get(tuple(group.values()), ZERO)
