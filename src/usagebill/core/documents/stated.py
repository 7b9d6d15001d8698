"""Stated amounts: the figures of an e-invoice, which add up as the rules of EN 16931 require.

All are major units of the currency with two decimals, the most that the standard allows. Each figure of ours is rounded
once: remainders are spread by largest share, so that every sum equals the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.currencies import major_from_cents
from usagebill.core.numbers import ZERO, add, divide, multiply, round_to, subtract, total

# A category (UNCL 5305) and a rate in percent, which group lines taxed alike.
Kind = tuple[str, Decimal]

_HUNDRED = Decimal(100)
# A tax may deviate from its rate times its base by less than this, in major units (BR-CO-17).
_TOLERANCE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The contribution of a line: its amount, and its precise shares of reductions and taxes, all in (fractions of)
    cents.
    """

    kind: Kind
    amount: Decimal
    reduction: Decimal
    tax: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedGroup:
    """Lines taxed alike: `taxable` is their sum less the group's part of the reductions."""

    kind: Kind
    taxable: Decimal
    tax: Decimal
    reduction: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """`lines` are in the order of the lines, `groups` by rate, the highest first.

    `payable` is the amount that the document asks for. It differs by `rounding` from the sum of its figures if two
    decimals cannot express them: fractions of hundredths (KWD), or taxes on lines that round to nothing.
    """

    lines: tuple[Decimal, ...]
    groups: tuple[StatedGroup, ...]
    line_total: Decimal
    reductions: Decimal
    tax_exclusive: Decimal
    taxes: Decimal
    tax_inclusive: Decimal
    prepaid: Decimal
    rounding: Decimal
    payable: Decimal


def stated(lines: Sequence[Line], *, currency: str, reductions: int, taxes: int, prepaid: int, payable: int) -> Stated:
    """The figures of a document with these lines (at least one), given amounts in cents."""

    def major(cents: Decimal) -> Decimal:
        return round_to(major_from_cents(cents, currency), 2)

    line_total = major(total(line.amount for line in lines))
    amounts = [major(line.amount) for line in lines]
    if total(amounts) != line_total:
        amounts = _spread(line_total, [line.amount for line in lines])
    kinds = sorted({line.kind for line in lines}, key=lambda kind: (kind[1], kind[0]), reverse=True)
    of_kind = {kind: [line for line in lines if line.kind == kind] for kind in kinds}
    gross = {
        kind: total(amount for line, amount in zip(lines, amounts, strict=True) if line.kind == kind) for kind in kinds
    }
    shares = [total(line.reduction for line in of_kind[kind]) for kind in kinds]
    reduced = major(Decimal(reductions))
    cut = _spread(reduced, shares if any(shares) else list(gross.values()))
    bases = [subtract(gross[kind], part) for kind, part in zip(kinds, cut, strict=True)]
    taxed = _taxed(kinds, bases, major(Decimal(taxes)), [total(line.tax for line in of_kind[kind]) for kind in kinds])
    exclusive = subtract(line_total, reduced)
    inclusive = add(exclusive, total(taxed))
    paid, due = major(Decimal(prepaid)), major(Decimal(payable))
    return Stated(
        lines=tuple(amounts),
        groups=tuple(
            StatedGroup(kind=kind, taxable=base, tax=tax, reduction=part)
            for kind, base, tax, part in zip(kinds, bases, taxed, cut, strict=True)
        ),
        line_total=line_total,
        reductions=reduced,
        tax_exclusive=exclusive,
        taxes=total(taxed),
        tax_inclusive=inclusive,
        prepaid=paid,
        rounding=subtract(due, subtract(inclusive, paid)),
        payable=due,
    )


def _spread(whole: Decimal, weights: Sequence[Decimal]) -> list[Decimal]:
    """`whole` split into parts of two decimals that add up to it, as close to their weights as possible."""
    sum_of_weights = total(weights)
    if sum_of_weights.is_zero():
        # Without weights, the first part gets all of it.
        return [whole if not at else ZERO for at in range(len(weights))]
    parts, spent, weighed = [], ZERO, ZERO
    for weight in weights:
        weighed = add(weighed, weight)
        reached = round_to(divide(multiply(whole, weighed), sum_of_weights), 2)
        parts.append(subtract(reached, spent))
        spent = reached
    return parts


def _taxed(
    kinds: Sequence[Kind], bases: Sequence[Decimal], taxes: Decimal, weights: Sequence[Decimal]
) -> list[Decimal]:
    """The taxes of the groups: the document's own, or by their rates if the document's deviate too far from them."""
    rates = [rate for _, rate in kinds]
    by_rate = [round_to(divide(multiply(base, rate), _HUNDRED), 2) for base, rate in zip(bases, rates, strict=True)]
    stated_taxes = _spread(taxes, [ZERO if rate.is_zero() else part for rate, part in zip(rates, weights, strict=True)])
    for rate, tax, due in zip(rates, stated_taxes, by_rate, strict=True):
        off = subtract(tax, due).copy_abs()
        if off >= _TOLERANCE or (rate.is_zero() and not tax.is_zero()):
            return by_rate
    return stated_taxes
