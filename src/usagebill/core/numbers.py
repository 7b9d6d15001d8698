"""Numbers: the one decimal context, every rounding rule, and how decimals are read and printed.

Nothing else in the project rounds. Money is an `int` of cents (the currency's smallest unit) once rounded and a
`Decimal` before; units and rates are `Decimal`. Sums and products are never cut; the context below only matters for
quotients.
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

# 100 significant digits: products of anything that fits an event (30-digit values, 15-decimal amounts) are exact; only
# divisions are cut, far below any cent. ROUND_HALF_UP is half away from zero.
CONTEXT = Context(
    prec=100,
    rounding=ROUND_HALF_UP,
    Emin=-999_999,
    Emax=999_999,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)

# Sums have room for the longest event values on both sides of the point, so none depends on the order of its parts.
_SUMS = Context(prec=300, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, Overflow])

ZERO = Decimal(0)
ONE = Decimal(1)

# Rounding never shortens the whole part of a number: it must not fail for numbers of over 100 digits.
_ROUNDING = Context(prec=100_000, Emin=-999_999, Emax=999_999, traps=[InvalidOperation])


# The project's arithmetic, never a float's nor cut at the 28 digits of the default context: the exact `left + right`
# and `left - right`; `left * right` and `left * right + addend` in the context above; and `left / right` with 100
# significant digits, which raises `decimal.DivisionByZero` on a zero divisor. `multiply_exactly` and
# `multiply_add_exactly` are for sums of the longest values, which may have more than 100 digits. Bound methods, as they
# price every unit of usage.
add = _SUMS.add
subtract = _SUMS.subtract
multiply = CONTEXT.multiply
multiply_add = CONTEXT.fma
multiply_exactly = _SUMS.multiply
multiply_add_exactly = _SUMS.fma
divide = CONTEXT.divide


def total(values: Iterable[Decimal]) -> Decimal:
    """The exact sum of `values`; zero if there are none."""
    result = ZERO
    for value in values:
        result = _SUMS.add(result, value)
    return result


_STEPS = {places: Decimal((0, (1,), -places)) for places in range(-20, 21)}


def _quantize(value: Decimal, places: int, rounding: str) -> Decimal:
    if not value:
        return ZERO
    try:
        return value.quantize(_STEPS.get(places) or Decimal((0, (1,), -places)), rounding, _ROUNDING)
    except InvalidOperation:
        # Its whole part alone has 100,000 digits; none of our numbers has decimals left to round there.
        return value


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
    return int(value.to_integral_value(ROUND_HALF_UP))


def truncate_cents(value: Decimal) -> int:
    """An amount in (fractions of) cents cut toward zero to whole cents."""
    return int(value)


def ratio(part: int, whole: int) -> Decimal:
    """`part / whole` rounded half away from zero to 20 decimals."""
    return round_to(divide(Decimal(part), Decimal(whole)), 20)


MOST_DIGITS = 400
_BEYOND: int = 10**MOST_DIGITS
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LONGEST_TEXT = 1000
_SURELY_BOUNDED = 100


def is_bounded(number: int | Decimal) -> bool:
    """Whether `number` is finite, with at most 400 digits, the first of them within 400 places of the point.

    Numbers from outside must be: `1e9999999` takes nine bytes to send and gigabytes to compute with.
    """
    if isinstance(number, int):
        return -_BEYOND < number < _BEYOND
    if not number.is_finite() or not -MOST_DIGITS <= number.adjusted() <= MOST_DIGITS:
        return False
    return len(number.as_tuple().digits) <= MOST_DIGITS


def parse_decimal(text: str) -> Decimal | None:
    """The finite decimal in `text` (sign, digits, point, exponent), or None if it is not one.

    Blanks, digit groups, `NaN` and `Infinity` are not accepted; neither are texts of over 1,000 characters nor numbers
    that are not bounded.
    """
    if len(text) > _LONGEST_TEXT or not _DECIMAL.fullmatch(text):
        return None
    number = Decimal(text)
    return number if is_bounded(number) else None


def parse_json_fraction(text: str) -> Decimal:
    """The number of the JSON literal `text`, with a point or an exponent. Raises `ValueError` unless it is bounded."""
    if len(text) < _SURELY_BOUNDED and "e" not in text and "E" not in text:
        return Decimal(text)
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond every decimal
        number = Decimal("NaN")
    if not is_bounded(number):
        raise ValueError(f"numbers have at most {MOST_DIGITS} digits, within as many places of the point")
    return number


def decimal_text(value: Decimal) -> str:
    """`value` in plain notation: no exponent, no trailing zeros, at least one decimal digit (`"10.0"`)."""
    if value.is_zero():
        return "0.0"
    text = format(value, "f")
    if "." not in text:
        return text + ".0"
    text = text.rstrip("0")
    return text + "0" if text.endswith(".") else text
