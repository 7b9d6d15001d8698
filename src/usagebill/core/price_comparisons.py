"""Comparison of two price lists: the amounts of each line of one period under both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from usagebill.core.numbers import ZERO, add, decimal_text
from usagebill.core.periods.calendar import Interval, add_months

_WEEK = 7

# The columns of a comparison in a file, a line of a subscription in each row (`cells`).
COLUMNS = (
    *("external_customer_id", "external_subscription_id", "from", "to", "kind", "code", "units", "currency"),
    *("old_cents", "new_cents", "difference_cents"),
)


class LineKind(StrEnum):
    """The subject of a line."""

    PLAN = "plan"
    CHARGE = "charge"
    FIXED_CHARGE = "fixed_charge"
    MINIMUM_COMMITMENT = "minimum_commitment"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedLine:
    """An amount under one price list. `code` is that of the priced metric or add-on; empty for other lines."""

    kind: LineKind
    code: str
    units: Decimal
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLine:
    """A line under both price lists: the sum of everything that prices this metric or add-on, in cents.

    `units` are those under the old price list, or under the new one if only the new one prices them.
    """

    kind: LineKind
    code: str
    units: Decimal
    old_cents: int
    new_cents: int

    @property
    def difference_cents(self) -> int:
        """The difference in price; negative if the new price list is cheaper."""
        return self.new_cents - self.old_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSubscription:
    """One subscription under both price lists, from `start` to `end`, both included, in the customer's time zone.

    `overridden`: the old prices are those of the subscription's own override. `ending_at` is its agreed end, if any.
    """

    external_customer_id: str
    external_subscription_id: str
    start: date
    end: date
    currency: str
    overridden: bool
    ending_at: datetime | None = None
    lines: tuple[ComparedLine, ...]

    @property
    def old_cents(self) -> int:
        """The amount under the old price list."""
        return sum(line.old_cents for line in self.lines)

    @property
    def new_cents(self) -> int:
        """The amount under the new price list."""
        return sum(line.new_cents for line in self.lines)

    @property
    def difference_cents(self) -> int:
        """The difference in price; negative if the new price list is cheaper."""
        return self.new_cents - self.old_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSummary:
    """Subscriptions under both price lists, from `start` to `end`, both included: in total, and those that matter most.

    `rise_cents` is what those pay more that pay more; `lines` are the sums of all. `largest` are those whose amount
    differs most, the largest difference first; `fixed_terms` are those whose amount differs, although they run until an
    agreed end that is still to come.
    """

    start: date
    end: date
    currency: str
    subscriptions_count: int
    more_count: int
    less_count: int
    rise_cents: int
    overridden_count: int
    lines: tuple[ComparedLine, ...]
    largest: tuple[ComparedSubscription, ...]
    fixed_terms: tuple[ComparedSubscription, ...]

    @property
    def old_cents(self) -> int:
        """The amount under the old price list."""
        return sum(line.old_cents for line in self.lines)

    @property
    def new_cents(self) -> int:
        """The amount under the new price list."""
        return sum(line.new_cents for line in self.lines)

    @property
    def difference_cents(self) -> int:
        """The difference in price; negative if the new price list is cheaper."""
        return self.new_cents - self.old_cents


def summary(
    rows: Iterable[ComparedSubscription], start: date, end: date, currency: str, *, now: datetime, most: int = 10
) -> ComparisonSummary:
    """These subscriptions in total, with at most `most` of the largest differences."""
    compared = tuple(rows)
    lines: dict[tuple[LineKind, str], ComparedLine] = {}
    for row in compared:
        lines = summed(lines, row.lines)
    changed = sorted((row for row in compared if row.difference_cents), key=lambda row: -abs(row.difference_cents))
    return ComparisonSummary(
        start=start,
        end=end,
        currency=currency,
        subscriptions_count=len(compared),
        more_count=sum(row.difference_cents > 0 for row in changed),
        less_count=sum(row.difference_cents < 0 for row in changed),
        rise_cents=sum(max(0, row.difference_cents) for row in changed),
        overridden_count=sum(row.overridden for row in compared),
        lines=tuple(lines.values()),
        largest=tuple(changed[:most]),
        fixed_terms=tuple(row for row in changed if row.ending_at is not None and row.ending_at > now),
    )


def cells(row: ComparedSubscription) -> Iterator[tuple[object, ...]]:
    """The rows of a subscription in a file, by `COLUMNS`."""
    for line in row.lines:
        yield (
            *(row.external_customer_id, row.external_subscription_id, row.start, row.end),
            *(line.kind.value, line.code, decimal_text(line.units), row.currency),
            *(line.old_cents, line.new_cents, line.difference_cents),
        )


def interval_days(start: date, interval: str) -> int:
    """The number of days in a plan's interval that begins on `start`."""
    months = Interval(interval).months
    return (add_months(start, months) - start).days if months else _WEEK


def compared_lines(old: Iterable[PricedLine], new: Iterable[PricedLine]) -> tuple[ComparedLine, ...]:
    """The lines of both, each kind and code once: the plan first, then in the order in which they are priced."""
    sides = [_by_name(old), _by_name(new)]
    names = sorted({**sides[0], **sides[1]}, key=lambda name: [*LineKind].index(name[0]))
    return tuple(_compared(name, sides[0].get(name), sides[1].get(name)) for name in names)


def _by_name(lines: Iterable[PricedLine]) -> dict[tuple[LineKind, str], tuple[Decimal, int]]:
    amounts: dict[tuple[LineKind, str], tuple[Decimal, int]] = {}
    for line in lines:
        units, cents = amounts.get((line.kind, line.code), (ZERO, 0))
        amounts[line.kind, line.code] = add(units, line.units), cents + line.amount_cents
    return amounts


def _compared(
    name: tuple[LineKind, str], old: tuple[Decimal, int] | None, new: tuple[Decimal, int] | None
) -> ComparedLine:
    units = (old or new or (ZERO, 0))[0]
    kind, code = name
    return ComparedLine(
        kind=kind,
        code=code,
        units=units,
        old_cents=0 if old is None else old[1],
        new_cents=0 if new is None else new[1],
    )


def summed(
    totals: Mapping[tuple[LineKind, str], ComparedLine], lines: Iterable[ComparedLine]
) -> dict[tuple[LineKind, str], ComparedLine]:
    """`totals` with these lines added to those of the same kind and code."""
    sums = dict(totals)
    for line in lines:
        name = line.kind, line.code
        before = sums.get(name)
        sums[name] = (
            line
            if before is None
            else ComparedLine(
                kind=line.kind,
                code=line.code,
                units=add(before.units, line.units),
                old_cents=before.old_cents + line.old_cents,
                new_cents=before.new_cents + line.new_cents,
            )
        )
    return sums


def last_month(today: date) -> tuple[date, date]:
    """The first and the last day of the calendar month before that of `today`."""
    first = today.replace(day=1)
    return add_months(first, -1), first - timedelta(days=1)
