"""Percentage: a rate on the units and a fixed amount for each event, after free units and free events.

With a minimum or a maximum for one transaction, every event is priced alone and the prices are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from usagebill.core.limits import CHARGE_AMOUNT, CHARGE_RATE, FREE_EVENTS, FREE_UNITS
from usagebill.core.numbers import ZERO, add, decimal_text, multiply, subtract, total
from usagebill.core.pricing.model import Model, Price
from usagebill.core.pricing.properties import amount, amount_or_zero, is_blank, is_whole, optional_amount, whole
from usagebill.core.usage import Usage

_PERCENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentageProperties:
    """The agreed terms; zero means no free units, None no bound.

    `rate` is in percent. `free_events` (`free_units_per_events`) and `free_total` (`free_units_per_total_aggregation`)
    end the free part, whichever is used up first.
    """

    rate: Decimal
    fixed_amount: Decimal
    free_events: int
    free_total: Decimal
    least: Decimal | None
    most: Decimal | None

    @property
    def is_bounded(self) -> bool:
        """Whether single transactions have a minimum or a maximum."""
        return self.least is not None or self.most is not None


class Shares(NamedTuple):
    """The parts of a percentage price: free units, paid units, and the effect of the bounds."""

    units: Decimal
    free_units: Decimal
    free_events: int
    paid_units: Decimal
    paid_events: int
    percentage_amount: Decimal
    fixed_amount: Decimal
    adjustment: Decimal


def price(properties: PercentageProperties, usage: Usage) -> Price:
    """The percentage part plus the fixed part, or the sum of the events' own prices if they have bounds."""
    if properties.is_bounded:
        amount = total(cost for _, cost in event_costs(properties, usage.event_values))
        return Price(amount=amount, divisor=usage.shown_units)
    parts = _unbounded(properties, usage)
    return Price(amount=add(parts.percentage_amount, parts.fixed_amount), divisor=usage.shown_units)


def split(properties: PercentageProperties, usage: Usage) -> Shares:
    """The parts that `price` adds up to."""
    parts = _unbounded(properties, usage)
    if not properties.is_bounded:
        return parts
    bounded_total = total(cost for _, cost in event_costs(properties, usage.event_values))
    return parts._replace(adjustment=subtract(bounded_total, add(parts.percentage_amount, parts.fixed_amount)))


def _unbounded(properties: PercentageProperties, usage: Usage) -> Shares:
    free_units = _free_units(properties, usage.running_totals)
    free_events = min(free_events_of(properties, usage.running_totals), usage.events_count)
    paid_units = max(subtract(usage.units, free_units), ZERO)
    paid_events = usage.events_count - free_events if usage.paid_events is None else usage.paid_events
    fixed = ZERO if usage.units.is_zero() else multiply(Decimal(paid_events), properties.fixed_amount)
    return Shares(
        units=usage.units,
        free_units=free_units,
        free_events=free_events,
        paid_units=paid_units,
        paid_events=paid_events,
        percentage_amount=multiply(multiply(paid_units, properties.rate), _PERCENT),
        fixed_amount=fixed,
        adjustment=ZERO,
    )


def _free_units(properties: PercentageProperties, running_totals: tuple[Decimal, ...]) -> Decimal:
    last = running_totals[-1] if running_totals else ZERO
    if last.is_zero():
        return ZERO
    if 0 < properties.free_events < len(running_totals):
        return running_totals[properties.free_events - 1]
    return last if properties.free_total.is_zero() else min(last, properties.free_total)


def free_events_of(properties: PercentageProperties, running_totals: tuple[Decimal, ...]) -> int:
    """The number of events that the terms leave free of the fixed amount, given the running totals of the units."""
    if not running_totals:
        return properties.free_events
    within = sum(1 for running in running_totals if running < properties.free_total)
    return min((count for count in (properties.free_events, within) if count), default=0)


def event_costs(properties: PercentageProperties, values: tuple[Decimal, ...]) -> Iterator[tuple[Decimal, Decimal]]:
    """The charged units and the price of each event that is not free, in order of time."""
    if properties.free_total > ZERO:
        free_left = properties.free_total
        for value in values:
            if free_left > ZERO and value < free_left:
                free_left = subtract(free_left, value)
                continue
            paid = subtract(value, free_left)
            yield paid, bounded(properties, paid)
            free_left = ZERO
        return
    for value in values[properties.free_events :]:
        yield value, bounded(properties, value)


def bounded(properties: PercentageProperties, value: Decimal) -> Decimal:
    """The price of one event of `value` paid units: rate and fixed amount, raised to the minimum, cut to the
    maximum.
    """
    cost = add(multiply(multiply(value, properties.rate), _PERCENT), properties.fixed_amount)
    if properties.least is not None and cost < properties.least:
        return properties.least
    if properties.most is not None and cost > properties.most:
        return properties.most
    return cost


def amount_details(properties: PercentageProperties, usage: Usage) -> dict[str, object]:
    """The free and the paid units, and the amount of each part."""
    parts = split(properties, usage)
    return {
        "units": decimal_text(parts.units),
        "free_units": decimal_text(parts.free_units),
        "free_events": parts.free_events,
        "paid_units": decimal_text(parts.paid_units),
        "rate": decimal_text(properties.rate),
        "per_unit_total_amount": decimal_text(parts.percentage_amount),
        "paid_events": parts.paid_events,
        "fixed_fee_unit_amount": decimal_text(properties.fixed_amount if parts.paid_events else ZERO),
        "fixed_fee_total_amount": decimal_text(parts.fixed_amount),
        "min_max_adjustment_total_amount": decimal_text(parts.adjustment),
    }


def difference_details(properties: PercentageProperties, with_usage: Usage, without_usage: Usage) -> dict[str, object]:
    """The addition of one event to each part."""
    after, before = split(properties, with_usage), split(properties, without_usage)
    units = subtract(after.units, before.units)
    paid_units = subtract(after.paid_units, before.paid_units)
    return {
        "units": decimal_text(units),
        "free_units": decimal_text(subtract(units, paid_units)),
        "free_events": after.free_events - before.free_events,
        "paid_units": decimal_text(paid_units),
        "rate": decimal_text(properties.rate),
        "per_unit_total_amount": decimal_text(subtract(after.percentage_amount, before.percentage_amount)),
        "paid_events": after.paid_events - before.paid_events,
        "fixed_fee_unit_amount": decimal_text(properties.fixed_amount if after.paid_events else ZERO),
        "fixed_fee_total_amount": decimal_text(subtract(after.fixed_amount, before.fixed_amount)),
        "min_max_adjustment_total_amount": decimal_text(subtract(after.adjustment, before.adjustment)),
    }


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties; only the rate is mandatory."""
    errors = []
    if amount(properties.get("rate"), CHARGE_RATE) is None:
        errors.append("invalid_rate")
    for key, limit in (
        ("fixed_amount", CHARGE_AMOUNT),
        ("free_units_per_events", FREE_EVENTS),
        ("free_units_per_total_aggregation", FREE_UNITS),
    ):
        value = properties.get(key)
        fits = is_whole(value, limit) if key == "free_units_per_events" else amount(value, limit) is not None
        if value is not None and not fits:
            errors.append(f"invalid_{key}")
    bounds = [properties.get("per_transaction_min_amount"), properties.get("per_transaction_max_amount")]
    errors.extend("invalid_amount" for value in bounds if not is_blank(value) and amount(value) is None)
    least, most = (optional_amount(value) for value in bounds)
    if least is not None and most is not None and least > most:
        errors.append("per_transaction_max_lower_than_per_transaction_min")
    return errors


def parse(properties: Mapping[str, object], subunits: int) -> PercentageProperties:
    """The typed form of valid raw properties."""
    return PercentageProperties(
        rate=amount_or_zero(properties.get("rate")),
        fixed_amount=amount_or_zero(properties.get("fixed_amount")),
        free_events=whole(properties.get("free_units_per_events")),
        free_total=amount_or_zero(properties.get("free_units_per_total_aggregation")),
        least=optional_amount(properties.get("per_transaction_min_amount")),
        most=optional_amount(properties.get("per_transaction_max_amount")),
    )


def _bounds_events(properties: Mapping[str, object]) -> bool:
    bounds = (properties.get("per_transaction_min_amount"), properties.get("per_transaction_max_amount"))
    return not all(is_blank(bound) for bound in bounds)


PERCENTAGE: Model[PercentageProperties] = Model(
    name="percentage",
    keys=(
        "rate",
        "fixed_amount",
        "free_units_per_events",
        "free_units_per_total_aggregation",
        "per_transaction_min_amount",
        "per_transaction_max_amount",
    ),
    required=("rate",),
    defaults={"rate": "0"},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=False,
    prorated_in_advance=False,
    of_fixed_charges=False,
    by_units=False,
    by_quantity=False,
    is_linear=False,
    instant_price=bounded,
    difference_details=difference_details,
    costs_at_zero=False,
    prorated_by_step=False,
    by_percentage=True,
    by_event_prices=False,
    by_program=False,
    needs_event_values=_bounds_events,
)
