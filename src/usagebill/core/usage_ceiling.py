"""Usage ceilings: an upper bound of a period's usage since it was last counted, event by event.

Counting a period costs in proportion to its events, a ceiling only to the new events: each adds the most it can add to
the charge parts it falls into, whatever its place in time and whatever came before. A ceiling is never below a count,
so a check against an amount counts only once the ceiling has reached it.

Some charges have no known ceiling: see `TermsOfPart.has_ceiling` and `is_volatile`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import assert_never

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, EventEffect, Window, counts, round_units
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargeResult
from usagebill.core.currencies import cents_from_major
from usagebill.core.events import Event, numeric_value
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import CONTEXT, ONE, ZERO, add, ceil_to, divide, multiply, subtract, total
from usagebill.core.plans import Charge
from usagebill.core.pricing import Price, Properties, price
from usagebill.core.pricing.custom import CustomProperties
from usagebill.core.pricing.dynamic import DynamicProperties
from usagebill.core.pricing.fees import fee_amounts
from usagebill.core.pricing.graduated import GraduatedProperties
from usagebill.core.pricing.graduated_percentage import GraduatedPercentageProperties
from usagebill.core.pricing.package import PackageProperties
from usagebill.core.pricing.percentage import PercentageProperties, bounded
from usagebill.core.pricing.standard import StandardProperties
from usagebill.core.pricing.volume import VolumeProperties
from usagebill.core.usage import Usage

_PERCENT = Decimal("0.01")
_HUNDRED = Decimal(100)
# A charge with more parts than this, or with groups, is stored as one sum, to keep the record small.
_PARTS_KEPT = 50
# A weighted sum has at least 12 decimals below this many units, and is whole above.
_FINE_UNITS = Decimal(10) ** 7
_FINE_STEP = Decimal("0.00000001")
_SECONDS_OF_A_DAY = 86400
# Where checks are behind, usage received within this time shares one.
_GATHERED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The most that new events can have added to one part of a charge.

    `units` is the sum of their largest additions, `largest` the highest possible maximum or latest value, and
    `own_cents` are the events' own prices. `amount` is the sum of prices of events that are priced one by one, in major
    units; for a pooled charge it is everything that they add, in cents of the plan's currency.
    """

    units: Decimal = ZERO
    events: int = 0
    largest: Decimal = ZERO
    own_cents: Decimal = ZERO
    amount: Decimal = ZERO

    def __add__(self, other: Growth) -> Growth:
        return Growth(
            units=add(self.units, other.units),
            events=self.events + other.events,
            largest=max(self.largest, other.largest),
            own_cents=add(self.own_cents, other.own_cents),
            amount=add(self.amount, other.amount),
        )


NO_GROWTH = Growth()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCount:
    """One part of a charge as counted, and its growth since.

    `cents` is its amount, `units` and `own_cents` what was counted, `amount` the price in major units before it was
    rounded or cut at zero.
    """

    position: int
    cents: int
    units: Decimal
    events: int
    own_cents: Decimal
    amount: Decimal
    growth: Growth = NO_GROWTH


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeCount:
    """One charge as counted: `cents` is the sum of its parts. Without a ceiling it has no parts to grow.

    A charge with many parts, or with groups, is pooled: it has no `parts` of its own, `cents` is their sum without
    cutting any at zero, and `growth` is the growth since.
    """

    charge_id: str
    cents: int
    has_ceiling: bool
    is_pooled: bool = False
    parts: tuple[PartCount, ...] = ()
    growth: Growth = NO_GROWTH


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCount:
    """The amount of a subscription's running period when it was last counted (`amount_cents`), charge by charge.

    It is valid while `fingerprint` is, a digest of everything that the count depends on except the events. Every event
    is counted, included in the growth of a charge, or named by a `NewUsage`.
    """

    id: str
    organization_id: str
    subscription_id: str
    fingerprint: str
    amount_cents: int
    is_volatile: bool
    charges: tuple[ChargeCount, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUsage:
    """Events of a subscription that were received together and are not counted yet.

    `transaction_ids` is None if there are so many that counting everything is cheaper.
    """

    id: str
    organization_id: str
    subscription_id: str
    transaction_ids: tuple[str, ...] | None
    created_at: datetime


# With more events than this, no ceiling is computed: counting everything is cheaper.
MOST_EVENTS = 2000


def names_of(noted: Iterable[NewUsage]) -> list[str] | None:
    """The transaction ids of the events that are not counted yet; None if there are too many for a ceiling."""
    names: list[str] = []
    for new in noted:
        if new.transaction_ids is None:
            return None
        names += new.transaction_ids
    return names if len(names) <= MOST_EVENTS else None


def received_after(noted: Iterable[NewUsage], known_at: datetime) -> list[NewUsage]:
    """The usage received after a check that counts what was known at this instant."""
    return [new for new in noted if new.created_at > known_at]


def next_check_at(later: Iterable[NewUsage]) -> datetime:
    """When usage that no check has counted is checked: what came within a minute of the first of it, together."""
    received = [new.created_at for new in later]
    return max(at for at in received if at <= min(received) + _GATHERED)


def renewed(stored: UsageCount | None, count: UsageCount, now: datetime) -> UsageCount:
    """The record that keeps `count` in place of `stored`, which stays as it is if nothing has changed."""
    if stored is None or count == stored:
        return count
    return replace(count, id=stored.id, created_at=stored.created_at, updated_at=now)


def is_volatile(charge: Charge, metric: BillableMetric) -> bool:
    """Whether the usage of a charge can change without an event.

    Charges in advance depend on their ledger, a recurring weighted sum on the level carried over.
    """
    aggregation = AGGREGATIONS[metric.aggregation_type]
    keeps_ledger = aggregation.accumulation is not Accumulation.NOTHING or aggregation.is_program
    if charge.pay_in_advance and keeps_ledger:
        return True
    return aggregation.accumulation is Accumulation.LEVEL and metric.recurring


def _effect(metric: BillableMetric) -> EventEffect:
    return AGGREGATIONS[metric.aggregation_type].effect


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsOfPart:
    """How one part of a charge is counted and priced; `currency` is the plan's."""

    charge: Charge
    metric: BillableMetric
    properties: Properties
    currency: str

    @property
    def conversion_rate(self) -> Decimal | None:
        """The plan's currency for one pricing unit, if it is priced in one."""
        unit = self.charge.applied_pricing_unit
        return None if unit is None else unit.conversion_rate

    def has_ceiling(self, *, is_pooled: bool) -> bool:
        """Whether the most that one event can add is known.

        It is unknown for prorated quantities and aggregations of unknown effect, and for transactions with bounds if
        some are free or only the largest or latest one counts. For a volume price it is known only together with the
        units.
        """
        effect = _effect(self.metric)
        if self.charge.prorated or effect is EventEffect.UNKNOWN:
            return False
        match self.properties:
            case PercentageProperties() as terms if terms.is_bounded:
                is_free = bool(terms.free_events or terms.free_total)
                return not is_free and effect is not EventEffect.REPLACES
            case VolumeProperties():
                return not is_pooled
            case (
                StandardProperties()
                | GraduatedProperties()
                | GraduatedPercentageProperties()
                | PackageProperties()
                | PercentageProperties()
                | DynamicProperties()
            ):
                return True
            case CustomProperties():
                return False
            case _:
                assert_never(self.properties)


def charge_count(charge: Charge, terms: Iterable[TermsOfPart], results: Iterable[ChargeResult]) -> ChargeCount:
    """The count of a charge: `terms` are those of its parts, `results` their results."""
    listed, by_part = list(results), list(terms)
    is_pooled = len(by_part) > _PARTS_KEPT or any(result.grouped_by for result in listed)
    has_ceiling = all(part.has_ceiling(is_pooled=is_pooled) for part in by_part)
    parts = [(by_part[result.part.position], _part_count(result)) for result in listed]
    if not is_pooled or not has_ceiling:
        return ChargeCount(
            charge_id=charge.id,
            cents=sum(part.cents for _, part in parts),
            has_ceiling=has_ceiling,
            parts=tuple(part for _, part in parts) if has_ceiling else (),
        )
    return ChargeCount(
        charge_id=charge.id,
        cents=sum(max(part.cents, _cents(of, _uncut(part))) for of, part in parts),
        has_ceiling=True,
        is_pooled=True,
    )


def _part_count(result: ChargeResult) -> PartCount:
    tally, units = result.tally, result.tally.units
    if isinstance(result.properties, PercentageProperties) and _effect(result.metric) is EventEffect.VALUE:
        units = add(units, _negative_free_units(result.usage))
    return PartCount(
        position=result.part.position,
        cents=result.amounts.amount_cents,
        units=units,
        events=result.usage.events_count,
        own_cents=tally.amount_cents,
        amount=result.price.amount,
    )


def _negative_free_units(usage: Usage) -> Decimal:
    """The sum of decreases among the first events of a sum: after other events, they may no longer be free."""
    steps = zip(usage.running_totals, (ZERO, *usage.running_totals), strict=False)
    return total(max(subtract(before, after), ZERO) for after, before in steps)


def _uncut(part: PartCount) -> PartCount:
    """The part with negative values raised to zero, as they count once more is added."""
    return replace(
        part,
        units=max(part.units, ZERO),
        own_cents=max(part.own_cents, ZERO),
        amount=max(part.amount, ZERO),
    )


def grown(count: ChargeCount, position: int, terms: TermsOfPart, event: Event, window: Window) -> ChargeCount:
    """`count` with one more event in the part at `position`, whose terms are `terms`."""
    growth = _growth(terms, event, window)
    if growth is None:
        return count
    if count.is_pooled:
        return replace(count, growth=count.growth + Growth(events=1, amount=_pooled_cents(terms, growth)))
    return replace(
        count,
        parts=tuple(
            replace(part, growth=part.growth + growth) if part.position == position else part for part in count.parts
        ),
    )


def _growth(terms: TermsOfPart, event: Event, window: Window) -> Growth | None:
    """The most that one event adds; None if it does not count."""
    metric, properties = terms.metric, terms.properties
    if not counts(metric.aggregation_type, metric.field_name, event):
        return None
    value = ONE
    if _effect(metric) is not EventEffect.ONE:
        value = numeric_value(event, metric.field_name) or ZERO
    amount = ZERO
    if isinstance(properties, PercentageProperties) and properties.is_bounded:
        amount = max(bounded(properties, value), ZERO)
    units = max(value, ZERO)
    if _effect(metric) is EventEffect.WEIGHTED:
        units = multiply(units, _whole_window(window))
    return Growth(
        units=units,
        events=1,
        largest=units,
        own_cents=max(event.precise_total_amount_cents or ZERO, ZERO),
        amount=amount,
    )


def _whole_window(window: Window) -> Decimal:
    """The weight of a value held from the start of the window to its end: about 1, more if clocks go back in the
    window.
    """
    held = window.end - window.start + timedelta(seconds=1)
    return divide(Decimal(held // MICROSECOND), Decimal(window.period_days * _SECONDS_OF_A_DAY * 1_000_000))


def ceiling_cents(count: ChargeCount, terms: dict[int, TermsOfPart]) -> int:
    """The highest possible amount of a charge, in cents; `terms` are those of the parts that have grown, by
    position.
    """
    if count.is_pooled or not count.has_ceiling:
        return count.cents + int(ceil_to(count.growth.amount, 0))
    return sum(
        part.cents if part.growth == NO_GROWTH else max(part.cents, _cents(terms[part.position], part))
        for part in count.parts
    )


def _cents(terms: TermsOfPart, part: PartCount) -> int:
    """The highest possible amount of a part, in cents, including its growth."""
    growth, metric, properties, model = part.growth, terms.metric, terms.properties, terms.charge.charge_model
    units = _most_units(metric, part)
    events = part.events + growth.events
    usage = Usage(
        units=round_units(units, metric), events_count=events, amount_cents=add(part.own_cents, growth.own_cents)
    )
    match properties:
        case PercentageProperties() if properties.is_bounded:
            # Each event has its own price; their sum counts as soon as there are units.
            top, usage = Price(amount=add(part.amount, growth.amount), divisor=ONE), replace(usage, units=ONE)
        case PercentageProperties():
            top = Price(amount=_most_of_percentage(properties, metric, usage, units), divisor=ONE)
            usage = replace(usage, units=max(usage.units, ZERO))
        case DynamicProperties():
            top, usage = price(model, properties, replace(usage, units=ONE)), replace(usage, units=ONE)
        case VolumeProperties():
            return max(_fee_cents(terms, price(model, properties, at), at) for at in _volumes(properties, usage))
        case StandardProperties() | GraduatedProperties() | GraduatedPercentageProperties() | PackageProperties():
            top = price(model, properties, usage)
        case CustomProperties():
            raise _unbounded_charge(model)
        case _:
            assert_never(properties)
    return _fee_cents(terms, top, usage)


def _unbounded_charge(charge_model: str) -> ValueError:
    return ValueError(f"what an event adds to a {charge_model} charge is not bounded")


def _unbounded_metric(metric: BillableMetric) -> ValueError:
    return ValueError(f"what an event adds to a {metric.aggregation_type} is not bounded")


def _fee_cents(terms: TermsOfPart, top: Price, usage: Usage) -> int:
    return fee_amounts(top, usage, terms.currency, conversion_rate=terms.conversion_rate).amount_cents


def _most_units(metric: BillableMetric, part: PartCount) -> Decimal:
    growth, effect = part.growth, _effect(metric)
    match effect:
        case EventEffect.REPLACES:
            return max(part.units, growth.largest) if growth.events else part.units
        case EventEffect.WEIGHTED:
            units = add(part.units, growth.units)
            # It is rounded before and after: by less than this.
            return add(units, _FINE_STEP if units < _FINE_UNITS else Decimal(2))
        case EventEffect.ONE | EventEffect.VALUE:
            return add(part.units, growth.units)
        case EventEffect.UNKNOWN:
            raise _unbounded_metric(metric)
        case _:
            assert_never(effect)


def _volumes(properties: VolumeProperties, usage: Usage) -> list[Usage]:
    """The usages up to these units whose volume price may be highest: all units, and the end of each range before."""
    ends = [price_range.to_value for price_range in properties.ranges.ranges if price_range.to_value is not None]
    return [usage, *(replace(usage, units=end) for end in ends if end < usage.units)]


def _most_of_percentage(
    properties: PercentageProperties, metric: BillableMetric, usage: Usage, counted: Decimal
) -> Decimal:
    """The highest price of at most these units and events.

    Free units are deducted only if they can only grow. With both limits on free units they may shrink, and so they may
    if other events of a sum become the first ones: then none are deducted.
    """
    events_free, units_free, is_rounded = (
        properties.free_events,
        properties.free_total,
        metric.rounding_function is not None,
    )
    units, events = max(usage.units, ZERO), usage.events_count
    free, paid_events = ZERO, events
    effect = _effect(metric)
    match effect:
        case EventEffect.ONE if not is_rounded and not (events_free and units_free):
            free = min(counted, Decimal(events_free) if events_free else units_free)
            within = Decimal(events_free) if events_free else max(subtract(ceil_to(units_free, 0), ONE), ZERO)
            paid_events = events - int(min(within, counted, Decimal(events)))
        case EventEffect.VALUE if not is_rounded and not events_free and not properties.fixed_amount:
            free = min(counted, units_free)
        case EventEffect.REPLACES | EventEffect.WEIGHTED:
            paid_events = events - min(events_free, events)
        case EventEffect.ONE | EventEffect.VALUE:
            pass  # no unit and no event is certain to stay free
        case EventEffect.UNKNOWN:
            raise _unbounded_metric(metric)
        case _:
            assert_never(effect)
    paid = max(subtract(units, max(free, ZERO)), ZERO)
    percentage = multiply(multiply(paid, properties.rate), _PERCENT)
    return add(percentage, multiply(Decimal(max(paid_events, 0)), properties.fixed_amount))


def _pooled_cents(terms: TermsOfPart, growth: Growth) -> Decimal:
    """The most that one event adds to a part, in whichever group: in cents of the plan's currency.

    A cent is added, as the amount of each group is rounded, and so is its quantity if the metric rounds.
    """
    units = growth.units
    if terms.metric.rounding_function is not None:
        units = add(units, CONTEXT.scaleb(ONE, -(terms.metric.rounding_precision or 0)))
    if _effect(terms.metric) is EventEffect.WEIGHTED:
        units = add(units, Decimal(2))
    match terms.properties:
        case StandardProperties(amount=rate):
            amount = multiply(units, rate)
        case GraduatedProperties(ranges=ranges) | GraduatedPercentageProperties(ranges=ranges):
            amount = multiply(units, max(price_range.rate for price_range in ranges.ranges))
            amount = add(amount, total(price_range.flat_amount for price_range in ranges.ranges))
        case PackageProperties() as package:
            amount = multiply(add(divide(units, package.package_size), ONE), package.amount)
        case PercentageProperties() as terms_of_events:
            amount = growth.amount
            if not terms_of_events.is_bounded:
                rated = multiply(multiply(units, terms_of_events.rate), _PERCENT)
                amount = add(rated, terms_of_events.fixed_amount)
        case DynamicProperties(subunits=subunits):
            amount = divide(growth.own_cents, subunits)
        case VolumeProperties() | CustomProperties():
            raise _unbounded_charge(terms.charge.charge_model)
        case _:
            assert_never(terms.properties)
    conversion_rate = terms.conversion_rate
    if conversion_rate is None:
        return add(cents_from_major(amount, terms.currency), ONE)
    unit_cents = add(multiply(amount, _HUNDRED), ONE)
    return add(cents_from_major(divide(multiply(unit_cents, conversion_rate), _HUNDRED), terms.currency), ONE)
