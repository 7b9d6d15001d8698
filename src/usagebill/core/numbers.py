"""Numbers: the one decimal context, every rounding rule, and how decimals are read and printed.

Nothing else in the project rounds. Money is an `int` of cents (the currency's smallest unit) once rounded
and a `Decimal` before; units and rates are `Decimal`. Sums and products are never cut: the context below
only matters for quotients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)

__all__ = [
    "CONTEXT",
    "ONE",
    "ZERO",
    "add",
    "ceil_to",
    "decimal_text",
    "divide",
    "floor_to",
    "multiply",
    "multiply_add",
    "parse_decimal",
    "ratio",
    "round_cents",
    "round_to",
    "subtract",
    "total",
    "truncate_cents",
    "truncate_to",
]

# 100 significant digits: products of anything that fits an event (30-digit values, 15-decimal amounts) are exact;
# only divisions are cut, far below any cent. ROUND_HALF_UP is half away from zero.
CONTEXT = Context(
    prec=100,
    rounding=ROUND_HALF_UP,
    Emin=-999_999,
    Emax=999_999,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)

# Sums have room for the longest values of events on both sides of the point: none depends on the order of its parts.
_SUMS = Context(prec=300, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, Overflow])

ZERO = Decimal(0)
ONE = Decimal(1)

# Rounding never shortens the whole part of a number, however long: it must not fail where the 100 digits end.
_ROUNDING = Context(prec=100_000, Emin=-999_999, Emax=999_999, traps=[InvalidOperation])


def add(left: Decimal, right: Decimal) -> Decimal:
    """`left + right`, exactly."""
    return _SUMS.add(left, right)


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """`left - right`, exactly."""
    return _SUMS.subtract(left, right)


def multiply(left: Decimal, right: Decimal) -> Decimal:
    """`left * right` in the project's context."""
    return CONTEXT.multiply(left, right)


def multiply_add(left: Decimal, right: Decimal, addend: Decimal) -> Decimal:
    """`left * right + addend` in the project's context."""
    return CONTEXT.fma(left, right, addend)


def divide(left: Decimal, right: Decimal) -> Decimal:
    """`left / right` with 100 significant digits; raises `decimal.DivisionByZero` on a zero divisor."""
    return CONTEXT.divide(left, right)


def total(values: Iterable[Decimal]) -> Decimal:
    """The exact sum of `values`; zero when there are none."""
    result = ZERO
    for value in values:
        result = _SUMS.add(result, value)
    return result


# No parsed number and no product of four of them comes near: beyond, there are no decimals left to round.
_LONGEST_WHOLE_PART = 90_000


_STEPS = {places: Decimal((0, (1,), -places)) for places in range(-20, 21)}


def _quantize(value: Decimal, places: int, rounding: str) -> Decimal:
    if not value:
        return ZERO
    if value.adjusted() > _LONGEST_WHOLE_PART:
        return value
    return value.quantize(_STEPS.get(places) or Decimal((0, (1,), -places)), rounding, _ROUNDING)


def round_to(value: Decimal, places: int) -> Decimal:
    """`value` rounded half away from zero to `places` decimals (negative places round left of the point)."""
    return _quantize(value, places, ROUND_HALF_UP)


def ceil_to(value: Decimal, places: int) -> Decimal:
    """`value` rounded toward +infinity to `places` decimals."""
    return _quantize(value, places, ROUND_CEILING)


def floor_to(value: Decimal, places: int) -> Decimal:
    """`value` rounded toward -infinity to `places` decimals."""
    return _quantize(value, places, ROUND_FLOOR)


def truncate_to(value: Decimal, places: int) -> Decimal:
    """`value` cut toward zero to `places` decimals."""
    return _quantize(value, places, ROUND_DOWN)


def round_cents(value: Decimal) -> int:
    """An amount in (fractions of) cents as whole cents, half away from zero."""
    return int(_quantize(value, 0, ROUND_HALF_UP))


def truncate_cents(value: Decimal) -> int:
    """An amount in (fractions of) cents cut toward zero to whole cents."""
    return int(value)


def ratio(part: int, whole: int) -> Decimal:
    """`part / whole` rounded half away from zero to 20 decimals, as day ratios are (sheet 10, section 1.1)."""
    return round_to(divide(Decimal(part), Decimal(whole)), 20)


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LONGEST_NUMBER = 1000


def parse_decimal(text: str) -> Decimal | None:
    """The finite decimal that `text` spells (sign, digits, point, exponent), or None where it spells none.

    Blanks, digit groups, `NaN` and `Infinity` are not numbers here, and neither is a text of over 1,000
    characters or an exponent of over four digits: both would only serve to exhaust memory.
    """
    if len(text) > _LONGEST_NUMBER or not _DECIMAL.fullmatch(text):
        return None
    return Decimal(text)


def decimal_text(value: Decimal) -> str:
    """`value` in plain notation: no exponent, no trailing zeros, at least one decimal digit (`"10.0"`)."""
    if value.is_zero():
        return "0.0"
    text = format(value, "f")
    if "." not in text:
        return text + ".0"
    text = text.rstrip("0")
    return text + "0" if text.endswith(".") else text
