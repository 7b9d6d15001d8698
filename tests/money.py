"""Arithmetic of expected amounts, in integers and independent of the code under test."""

from __future__ import annotations

from fractions import Fraction


def _rounded(cents: Fraction) -> int:
    """A whole cent, halves rounded up; amounts here are not negative."""
    return int(cents + Fraction(1, 2))


def share(cents: int, days: int, period_days: int) -> int:
    """The cost of `days` of a period of `period_days` that costs `cents` in full."""
    return _rounded(Fraction(cents * days, period_days))


def percent(cents: int, rate: int | str) -> int:
    """`rate` percent of an amount."""
    return _rounded(cents * Fraction(rate) / 100)


def gross(cents: int, rate: int | str) -> int:
    """An amount with a tax of `rate` percent added."""
    return cents + percent(cents, rate)
