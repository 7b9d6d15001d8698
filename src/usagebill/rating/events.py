"""The price of one event paid in advance: its addition to the usage of its charge, filter and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import chain

from usagebill.core.aggregation import (
    AGGREGATIONS,
    Accumulation,
    AdvanceUsage,
    AggregateResult,
    LedgerRow,
    RunningTotals,
    Window,
    advance_usage,
    counted_totals,
    counts,
    event_values,
    fold,
    lower_bound,
    running_totals,
    summed_totals,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import LedgerEntry, group_text
from usagebill.core.charge_parts import ChargePart, charge_parts, parsed_properties
from usagebill.core.events import Event, cut_to_seconds, numeric_value, property_of
from usagebill.core.grouping import TARGET_WALLET_KEY, group_of, grouped_by
from usagebill.core.numbers import ZERO, subtract
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing import MODELS, Properties
from usagebill.core.pricing.advance import AdvancePrice, pay_in_advance_price
from usagebill.core.pricing.fees import FeeAmounts, advance_fee_amounts
from usagebill.core.pricing.percentage import PercentageProperties
from usagebill.core.subscriptions import Subscription
from usagebill.rating.handover import own_events
from usagebill.rating.ledger import Ledger
from usagebill.rating.priced_events import priced_events
from usagebill.rating.running_usage import BroughtForward, bring_forward
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import COUNTED, EventQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPrice:
    """The price of one event under one charge. `group` is that of its ledger, `grouped_by` that of its fee."""

    charge: Charge
    metric: BillableMetric
    part: ChargePart
    group: str
    grouped_by: Mapping[str, str | None]
    usage: AdvanceUsage
    price: AdvancePrice
    amounts: FeeAmounts
    brought_forward: BroughtForward | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An event, perhaps not stored yet, within the usage of a charge, and the events it is counted with."""

    subscription_id: str
    charge: Charge
    metric: BillableMetric
    part: ChargePart
    window: Window
    event: Event
    is_stored: bool
    question: EventQuery
    brought_forward: BroughtForward | None = None

    @property
    def up_to(self) -> EventQuery:
        """The events counted up to and including this one."""
        return replace(self.question, up_to=self.event)

    @property
    def before(self) -> EventQuery:
        """The events counted before this one."""
        return replace(self.question, before=self.event)


def advance_charges(definition: PlanDefinition, event: Event) -> list[Charge]:
    """The charges of a plan that price `event` at once."""
    return [
        charge
        for charge in definition.charges
        if charge.pay_in_advance
        and (metric := definition.metrics[charge.billable_metric_id]).code == event.code
        and counts(metric.aggregation_type, metric.field_name, event)
    ]


def part_for(charge: Charge, metric: BillableMetric, event: Event) -> ChargePart:
    """The part of the charge that prices `event`.

    That is the matching filter with the most keys (the first of equals), else the charge itself.
    """
    parts = charge_parts(charge, metric)
    counting = [parts[position] for position in parts[-1].filters.of_event(event)] or [parts[-1]]
    return max(counting, key=lambda part: len(part.filter.values) if part.filter else 0)


def event_price(
    reader: Reader,
    charge: Charge,
    metric: BillableMetric,
    event: Event,
    window: Window,
    *,
    currency: str,
    subscription: Subscription,
    is_stored: bool = True,
    known_at: datetime | None = None,
    as_of: LedgerEntry | None = None,
    from_running_usage: bool = False,
) -> EventPrice:
    """The increase of the price of everything up to `event` that it causes under `charge`.

    `window` is the charges period that contains the event, `currency` the plan's. An event that is not stored is priced
    as if it came after all that are. Only events received by `known_at` count, by default by the instant at which the
    event was received. `as_of` is the event's own row of the ledger, if it has been billed before.

    With `from_running_usage`, counting continues from the running usage kept with the previous event, and
    `brought_forward` is to be stored with the fee; otherwise everything is counted.
    """
    part = part_for(charge, metric, event)
    keys = part.group_keys
    group = grouped_by(keys, group_of(event, keys))
    question = EventQuery(
        code=metric.code,
        external_subscription_id=subscription.external_id,
        aggregation_type=metric.aggregation_type,
        field_name=metric.field_name,
        earliest=lower_bound(metric.aggregation_type, recurring=metric.recurring, start=window.start),
        known_at=known_at or event.created_at,
        bucket=part.bucket,
        only={key: (value,) for key, value in group.items()},
    )
    place = _Place(
        subscription_id=subscription.id,
        charge=charge,
        metric=metric,
        part=part,
        window=window,
        event=event,
        is_stored=is_stored,
        question=priced_events(
            reader, subscription, charge, window, _after_end_before(reader, subscription, metric, question, event)
        ),
    )
    if from_running_usage and _needs_running_usage(charge, metric):
        brought_forward = bring_forward(reader, charge, metric, part, keys, place.question, event, subscription.id)
        place = replace(place, brought_forward=brought_forward)
    properties = parsed_properties(charge, part, currency)
    usage = _usage(reader, place, properties, _previous(reader, place, group_text(group), as_of))
    price = pay_in_advance_price(charge.charge_model, properties, usage.with_event, usage.without_event)
    unit = charge.applied_pricing_unit
    return EventPrice(
        charge=charge,
        metric=metric,
        part=part,
        group=group_text(group),
        grouped_by={key: value for key, value in group.items() if key != TARGET_WALLET_KEY or value is not None},
        usage=usage,
        price=price,
        amounts=advance_fee_amounts(
            price.amount,
            usage.units.shown,
            currency,
            conversion_rate=None if unit is None else unit.conversion_rate,
        ),
        brought_forward=place.brought_forward,
    )


def _needs_running_usage(charge: Charge, metric: BillableMetric) -> bool:
    """Whether the price depends on anything besides the event and the ledger."""
    has_values = AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES
    return has_values or not MODELS[charge.charge_model].is_linear


def _after_end_before(
    reader: Reader, subscription: Subscription, metric: BillableMetric, question: EventQuery, event: Event
) -> EventQuery:
    """`question` without events of the first instant that another subscription has billed, unless `event` is such."""
    billing = own_events(reader, subscription, metric, question)
    if any((event.created_at, event.id) <= (one.received_to.at, one.received_to.id) for one in billing.excluded):
        return question
    return billing


def ledger_entry(reader: Reader, priced: EventPrice, event: Event, subscription_id: str) -> LedgerEntry | None:
    """The ledger row of the charge, filter and group after `event`; None for a charge without a ledger."""
    row = priced.usage.units.row
    if row is None:
        return None
    return LedgerEntry(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        subscription_id=subscription_id,
        charge_id=priced.charge.id,
        charge_filter_id=priced.part.filter.id if priced.part.filter else None,
        group=priced.group,
        event_id=event.id,
        timestamp=event.timestamp,
        event_created_at=event.created_at,
        current=row.current,
        maximum=row.maximum,
        maximum_prorated=row.maximum_prorated,
        paid_events=row.paid_events + _fixed_amounts(priced.price),
        created_at=reader.now,
        updated_at=reader.now,
    )


def _fixed_amounts(price: AdvancePrice) -> int:
    """The number of fixed amounts of a percentage charge for the event: 0 or 1. Adding no units still costs one."""
    paid = price.amount_details.get("paid_events")
    return paid if isinstance(paid, int) else 0


def _previous(reader: Reader, place: _Place, group: str, as_of: LedgerEntry | None) -> LedgerRow | None:
    """The latest ledger row of the charge, filter and group in the period that is not the event's own."""
    ledger = Ledger(
        reader=reader,
        subscription_id=place.subscription_id,
        charge=place.charge,
        charge_filter=place.part.filter,
        window=place.window,
    )
    return ledger.before(place.event.id, group) if as_of is None else ledger.made_before(as_of)


def _usage(reader: Reader, place: _Place, properties: Properties, previous: LedgerRow | None) -> AdvanceUsage:
    """The usage with and without the event, as far as the charge model needs it."""
    metric, event = place.metric, place.event
    terms = properties if isinstance(properties, PercentageProperties) else None
    # If every unit costs the same, an event's price follows from its own units alone.
    counted = _Counted() if MODELS[place.charge.charge_model].is_linear else _counted(reader, place, terms)
    return advance_usage(
        metric,
        event,
        counted.tally,
        previous,
        place.window,
        prorated=place.charge.prorated,
        was_active=AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES
        and _was_active(reader, place),
        running_totals=counted.totals,
        event_values=counted.values,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """The usage up to and including an event: aggregated, as running totals, and value by value."""

    tally: AggregateResult = field(default_factory=AggregateResult)
    totals: tuple[Decimal, ...] = ()
    values: tuple[Decimal, ...] = ()


def _counted(reader: Reader, place: _Place, terms: PercentageProperties | None) -> _Counted:
    metric = place.metric
    if place.brought_forward is not None:
        return _from_running_usage(reader, place, place.brought_forward.tally, terms)
    if place.is_stored and not _needs_events(metric, terms):
        question = replace(place.up_to, amounts=MODELS[place.charge.charge_model].by_event_prices)
        tally = next(iter(reader.tx.events.tallies(question).values()))
        if terms is None or AGGREGATIONS[metric.aggregation_type].running_totals is not RunningTotals.COUNTED:
            return _Counted(tally=tally)
        totals = counted_totals(tally.units, free_events=terms.free_events, free_units=terms.free_total)
        return _Counted(tally=tally, totals=totals)
    events = list(_events(reader, place))
    tally = fold(metric.aggregation_type, events, field_name=metric.field_name, window=place.window)
    if terms is None:
        return _Counted(tally=tally)
    return _Counted(
        tally=tally,
        totals=running_totals(metric, events, tally.units, free_events=terms.free_events, free_units=terms.free_total),
        values=event_values(metric, events, place.window.start) if terms.is_bounded else (),
    )


def _from_running_usage(
    reader: Reader, place: _Place, tally: AggregateResult, terms: PercentageProperties | None
) -> _Counted:
    """The usage that a percentage charge needs besides the tally; reads only the events that may be free."""
    if terms is None:
        return _Counted(tally=tally)
    free_events, free_units = terms.free_events, terms.free_total
    if AGGREGATIONS[place.metric.aggregation_type].running_totals is RunningTotals.SUMMED:
        numbers = (numeric_value(event, place.metric.field_name) for event in reader.tx.events.scan(place.up_to))
        counting = (number for number in numbers if number is not None)
        totals = summed_totals(counting, free_events=free_events, free_units=free_units)
    else:
        totals = counted_totals(tally.units, free_events=free_events, free_units=free_units)
    return _Counted(
        tally=tally,
        totals=totals,
        values=_values_that_tell(reader, place, terms) if terms.is_bounded else (),
    )


def _values_that_tell(reader: Reader, place: _Place, terms: PercentageProperties) -> tuple[Decimal, ...]:
    """The values of the events up to the one that exhausts the free units, and the event's own.

    Events in between cost the same with and without the event.
    """
    start = cut_to_seconds(place.window.start)
    question = place.up_to if place.question.earliest is not None else replace(place.up_to, earliest=start)
    first: list[Decimal] = []
    free_left = terms.free_total
    for event in reader.tx.events.scan(question):
        if event.id == place.event.id or (free_left <= ZERO and len(first) >= terms.free_events):
            break
        for value in event_values(place.metric, [event], place.window.start):
            first.append(value)
            if free_left > ZERO:
                free_left = subtract(free_left, value) if value < free_left else ZERO
    return (*first, *event_values(place.metric, [place.event], place.window.start))


def _needs_events(metric: BillableMetric, terms: PercentageProperties | None) -> bool:
    if metric.aggregation_type not in COUNTED:
        return True
    if terms is None:
        return False
    sums = AGGREGATIONS[metric.aggregation_type].running_totals is RunningTotals.SUMMED
    has_free_units = bool(terms.free_events or terms.free_total)
    return terms.is_bounded or (sums and has_free_units)


def _events(reader: Reader, place: _Place) -> Iterator[Event]:
    if place.is_stored:
        return reader.tx.events.scan(place.up_to)
    new_event: Iterable[Event] = (place.event,)
    return chain(reader.tx.events.scan(place.before), new_event)


def _was_active(reader: Reader, place: _Place) -> bool:
    """Whether the event's value of a unique count was active before the event."""
    if place.brought_forward is not None:
        return place.brought_forward.was_active
    name = place.metric.field_name
    value = property_of(place.event, name)
    if name is None or value is None:
        return False
    question = place.before
    question = replace(question, only={**question.only, name: (value,)})
    return any(tally.units > 0 for tally in reader.tx.events.tallies(question).values())
