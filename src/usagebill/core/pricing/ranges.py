"""Ranges of units: how lists of ranges are checked, read, and searched.

A range covers the units above the previous range's `to_value`, up to and including its own. That holds both for lists
that count whole units (0-10, 11-20) and for lists whose ranges touch (0-10, 10-20), so a list of either kind, or a
mixture, prices each fraction of a unit exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.limits import CHARGE_AMOUNT, MOST_RANGES, RANGE_BOUND, Range as Limit
from usagebill.core.numbers import ONE, ZERO, add, multiply, multiply_add, subtract
from usagebill.core.pricing.properties import amount, amount_or_zero, number

# The amounts of a range that is priced by the unit, with their limits and codes.
UNIT_AMOUNTS = (
    ("per_unit_amount", CHARGE_AMOUNT, "invalid_amount"),
    ("flat_amount", CHARGE_AMOUNT, "invalid_amount"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """One range of units: above `floor` (exclusive) up to `to_value` (inclusive), open if that is None.

    `from_value` is as the caller sent it; `floor` is the end of the previous range. `rate` is the amount for one unit.
    """

    from_value: Decimal
    to_value: Decimal | None
    floor: Decimal
    rate: Decimal
    flat_amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Consecutive ranges that cover everything, the last one open.

    `lines` hold, for each range, its `to_value`, its rate and an offset, such that `units` that end in that range cost
    `units * rate + offset`: all ranges before it full, and every flat amount so far.
    """

    ranges: tuple[Range, ...]
    lines: tuple[tuple[Decimal | None, Decimal, Decimal], ...]

    @classmethod
    def read(cls, raw: object, *, rate_key: str, scale: Decimal = ONE) -> Ranges:
        """Valid raw ranges; each rate is multiplied by `scale`."""
        ranges: list[Range] = []
        lines: list[tuple[Decimal | None, Decimal, Decimal]] = []
        floor = full = ZERO
        for item in _items(raw):
            fields: Mapping[str, object] = item if isinstance(item, Mapping) else {}
            price_range = Range(
                from_value=number(fields.get("from_value")) or ZERO,
                to_value=number(fields.get("to_value")),
                floor=floor,
                rate=multiply(amount_or_zero(fields.get(rate_key)), scale),
                flat_amount=amount_or_zero(fields.get("flat_amount")),
            )
            offset = subtract(add(full, price_range.flat_amount), multiply(floor, price_range.rate))
            ranges.append(price_range)
            lines.append((price_range.to_value, price_range.rate, offset))
            if price_range.to_value is not None:
                floor, full = price_range.to_value, multiply_add(price_range.to_value, price_range.rate, offset)
        return cls(ranges=tuple(ranges), lines=tuple(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a quantity that falls into one range, and its price without the flat amount."""

    range: Range
    units: Decimal
    amount: Decimal


def shares(ranges: Ranges, units: Decimal) -> list[Share]:
    """How `units` spread over the ranges that they reach, in order. The first range is always reached."""
    result = []
    for range_ in ranges.ranges:
        last = range_.to_value is None or units <= range_.to_value
        inside = subtract(units if range_.to_value is None or last else range_.to_value, range_.floor)
        result.append(Share(range=range_, units=inside, amount=multiply(inside, range_.rate)))
        if last:
            break
    return result


def sum_over_ranges(ranges: Ranges, units: Decimal) -> Decimal:
    """The price of `units` if each range prices the units inside it and adds its flat amount once reached.

    Zero units pay the flat amount of the first range. Negative units stay in the first range.
    """
    # Lists are short: scanning the limits is faster than a bisection, and stops at the range that holds the units.
    for limit, rate, offset in ranges.lines:
        if limit is None or units <= limit:
            return multiply_add(units, rate, offset)
    return ZERO


def default_range(rate_key: str) -> dict[str, object]:
    """The single free range of a charge that is sent without properties."""
    return {"from_value": 0, "to_value": None, rate_key: "0", "flat_amount": "0"}


def range_errors(
    raw: object, *, missing: str, invalid: str, amounts: Sequence[tuple[str, Limit, str]], gap: Decimal
) -> list[str]:
    """The error codes of a raw list of ranges, range by range: first the amounts, then the bounds.

    `missing` is for a list that is absent or empty and `invalid` for wrong bounds or over 1,000 ranges; `amounts` give
    each amount's key with its limit and its code. A range must start `gap` above the end of the previous one, or one
    unit higher; the first at 0 or 1.
    """
    items = _items(raw)
    if not items:
        return [missing]
    if len(items) > MOST_RANGES:
        return [invalid]
    errors: list[str] = []
    expected: Decimal | None = ZERO
    for position, item in enumerate(items):
        fields: Mapping[str, object] = item if isinstance(item, Mapping) else {}
        errors.extend(code for key, limit, code in amounts if amount(fields.get(key), limit) is None)
        to_value = _bound(fields.get("to_value"))
        is_last = position == len(items) - 1
        if not _bounds_fit(number(fields.get("from_value")), fields.get("to_value"), expected, is_last=is_last):
            errors.append(invalid)
        expected = None if to_value is None else add(to_value, gap)
    return errors


def _bounds_fit(from_value: Decimal | None, to_value: object, expected: Decimal | None, *, is_last: bool) -> bool:
    if from_value is None or expected is None or from_value not in (expected, add(expected, ONE)):
        return False
    if is_last:
        return to_value is None
    end = _bound(to_value)
    return end is not None and end > from_value


def _bound(value: object) -> Decimal | None:
    parsed = number(value)
    return parsed if parsed is not None and RANGE_BOUND.holds(parsed) else None


def _items(raw: object) -> Sequence[object]:
    return raw if isinstance(raw, list | tuple) else ()
