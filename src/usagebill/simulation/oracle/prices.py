"""Charge models: what units cost, in major units of the currency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

ZERO = Fraction(0)


def rounded(amount: Fraction) -> int:
    """To an integer, half away from zero."""
    magnitude = int(abs(amount) + Fraction(1, 2))
    return magnitude if amount >= 0 else -magnitude


def rounded_to(amount: Fraction, digits: int) -> Fraction:
    """To so many decimals, half away from zero."""
    return Fraction(rounded(amount * 10**digits), 10**digits)


def ceiled(amount: Fraction, digits: int) -> Fraction:
    """Up to so many decimals."""
    return Fraction(-((-amount * 10**digits).__floor__()), 10**digits)


class Used:
    """What a price is asked for: the units, the units before proration, and those of each event in order of time."""

    def __init__(
        self,
        units: Fraction,
        full: Fraction | None = None,
        values: Sequence[Fraction] = (),
        cents: Fraction = ZERO,
        parts: Sequence[tuple[Fraction, Fraction]] | None = None,
    ) -> None:
        self.units = units
        self.full = units if full is None else full
        self.values = values
        # The sum of the prices that events brought with them, in minor units.
        self.cents = cents
        # Prorated: the full and the prorated units of each change.
        self.parts = parts

    @property
    def count(self) -> int:
        """How many events count."""
        return len(self.values)


def price(model: str, terms: Mapping[str, Any], used: Used, metric_counts: bool, subunit: int) -> Fraction:
    """What the units cost. `metric_counts` when each event is one unit, as in a count."""
    if model == "graduated":
        return _graduated(terms["graduated_ranges"], used)
    if model == "graduated_percentage":
        return _tiers(terms["graduated_percentage_ranges"], used.units, "rate", 100)
    if model == "volume":
        return _volume(terms["volume_ranges"], used)
    if model == "package":
        beyond = used.units - Fraction(terms.get("free_units") or 0)
        packs = -((-beyond / Fraction(terms["package_size"])).__floor__()) if beyond > 0 else 0
        return packs * Fraction(terms["amount"])
    if model == "percentage":
        return _percentage(terms, used, metric_counts)
    if model == "dynamic":
        return used.cents / subunit if used.units else ZERO
    return used.units * Fraction(terms["amount"])


def _top(row: Mapping[str, Any]) -> Fraction | None:
    return None if row["to_value"] is None else Fraction(str(row["to_value"]))


def _tiers(rows: Sequence[Mapping[str, Any]], units: Fraction, unit: str, per: int) -> Fraction:
    total, below = ZERO, ZERO
    for row in rows:
        top = _top(row)
        inside = (units if top is None else min(units, top)) - below
        total += inside * Fraction(row[unit]) / per + Fraction(row["flat_amount"])
        if top is None or units <= top:
            break
        below = top
    return total


def _graduated(rows: Sequence[Mapping[str, Any]], used: Used) -> Fraction:
    if used.parts is None:
        return _tiers(rows, used.units, "per_unit_amount", 1)
    # The full units decide on the range, the prorated ones are priced.
    if not used.units:
        return Fraction(rows[0]["flat_amount"])
    level, most, total = ZERO, ZERO, ZERO
    for full, prorated in used.parts:
        if (full > 0 and not prorated) or (full < 0 and not prorated and level + full < 0):
            continue
        low, high = min(level, level + full), max(level, level + full)
        below: Fraction | None = None
        for row in rows:
            top = _top(row)
            inside = (high if top is None else min(high, top)) - (low if below is None else max(low, below))
            if inside > 0:
                total += (1 if full > 0 else -1) * inside * (prorated / full) * Fraction(row["per_unit_amount"])
            below = top
        level += full
        most = max(most, level)
    if level < 0:
        return ZERO
    total = max(total, ZERO)
    for row in rows:
        total += Fraction(row["flat_amount"])
        top = _top(row)
        if top is None or top >= most:
            break
    return total


def _volume(rows: Sequence[Mapping[str, Any]], used: Used) -> Fraction:
    if used.full < 0:
        return ZERO
    for row in rows:
        top = _top(row)
        if top is None or used.full <= top:
            return used.units * Fraction(row["per_unit_amount"]) + Fraction(row["flat_amount"])
    return ZERO


def _percentage(terms: Mapping[str, Any], used: Used, metric_counts: bool) -> Fraction:
    rate, fixed = Fraction(terms["rate"]) / 100, Fraction(terms.get("fixed_amount") or 0)
    free_events = int(terms.get("free_units_per_events") or 0)
    free_units = Fraction(terms.get("free_units_per_total_aggregation") or 0)
    least, most = terms.get("per_transaction_min_amount"), terms.get("per_transaction_max_amount")
    if least or most:
        return _each_event(used.values, rate, fixed, free_events, free_units, least, most)
    running: list[Fraction] = []
    if free_events or free_units:
        values = [Fraction(1)] * int(used.units) if metric_counts else list(used.values)
        for place, value in enumerate(values):
            running.append(value + (running[-1] if running else ZERO))
            if not metric_counts and (place + 1 == free_events if free_events else running[-1] > free_units):
                break
    last = running[-1] if running else ZERO
    if not last:
        free = ZERO
    elif 0 < free_events < len(running):
        free = running[free_events - 1]
    else:
        free = last if not free_units else min(last, free_units)
    below = sum(total < free_units for total in running)
    not_counted = min([number for number in (free_events, below) if number], default=0)
    by_units = ZERO if free > used.units else (used.units - free) * rate
    by_events = ZERO if not used.units or not_counted >= used.count else (used.count - not_counted) * fixed
    return by_units + by_events


def _each_event(
    values: Sequence[Fraction],
    rate: Fraction,
    fixed: Fraction,
    free_events: int,
    free_units: Fraction,
    least: str | None,
    most: str | None,
) -> Fraction:
    total, left = ZERO, free_units
    for place, value in enumerate(values):
        paid = value
        if free_units:
            if left > 0 and value < left:
                left -= value
                continue
            paid, left = value - left, ZERO
        elif place < free_events:
            continue
        cost = paid * rate + fixed
        if least and cost < Fraction(least):
            cost = Fraction(least)
        elif most and cost > Fraction(most):
            cost = Fraction(most)
        total += cost
    return total
