"""Graduated pricing of a prorated quantity: the full units choose the ranges, the prorated units are priced.

Each stretch moves a running total of full units up or down. It is cut where it crosses from range to range, and each
slice is priced at its range's rate, scaled by the share of the period for which the stretch counts. Flat amounts are
due in full for every range that the running total ever reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.numbers import ZERO, add, divide, multiply, subtract, total
from usagebill.core.pricing.model import Price
from usagebill.core.pricing.ranges import Range, Ranges
from usagebill.core.usage import ProrationStep


def price(ranges: Ranges, units: Decimal, stretches: Iterable[ProrationStep]) -> Price:
    """The price of `stretches` in order of time; `units` are the prorated units that they add up to."""
    steps = tuple(stretches)
    divisor = total(step.full for step in steps)
    if units.is_zero():
        return Price(amount=ranges.ranges[0].flat_amount, divisor=divisor)
    parts = slices(ranges, steps)
    if parts and parts[-1].level < ZERO:
        return Price(amount=ZERO, divisor=divisor)
    amount = total(part.amount for part in parts)
    return Price(amount=add(max(amount, ZERO), flat_amount(ranges, parts)), divisor=divisor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A priced stretch: its full units would cost `listed`, its prorated ones cost `amount`; `level` is the running
    total of full units after it.
    """

    stretch: ProrationStep
    listed: Decimal
    amount: Decimal
    level: Decimal


def slices(ranges: Ranges, stretches: Iterable[ProrationStep]) -> list[Slice]:
    """The stretches with a cost, in order of time, without flat amounts."""
    level, cut = ZERO, []
    for step in stretches:
        after = add(level, step.full)
        if step.full.is_zero() or (step.prorated.is_zero() and (step.full > ZERO or after < ZERO)):
            continue
        listed = _between(ranges, min(level, after), max(level, after))
        amount = divide(multiply(listed, step.prorated), step.full.copy_abs())
        cut.append(Slice(stretch=step, listed=listed, amount=amount, level=after))
        level = after
    return cut


def flat_amount(ranges: Ranges, parts: Iterable[Slice]) -> Decimal:
    """The flat amounts of all ranges that the running total of full units ever reached."""
    return total(_flat_amounts(ranges, max((part.level for part in parts), default=ZERO)))


def _between(ranges: Ranges, low: Decimal, high: Decimal) -> Decimal:
    """The price of the full units from `low` to `high`, without flat amounts. The first range extends below zero."""
    amount = ZERO
    for position, price_range in enumerate(ranges.ranges):
        start = low if position == 0 else max(low, price_range.floor)
        end = high if price_range.to_value is None else min(high, price_range.to_value)
        if end > start:
            amount = add(amount, multiply(subtract(end, start), price_range.rate))
    return amount


def _flat_amounts(ranges: Ranges, highest: Decimal) -> Iterable[Decimal]:
    reached: list[Range] = []
    for price_range in ranges.ranges:
        reached.append(price_range)
        if price_range.to_value is None or highest <= price_range.to_value:
            break
    return (price_range.flat_amount for price_range in reached)
