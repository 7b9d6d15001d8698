"""Arithmetic of expected amounts, in integers of its own: what a test expects is not computed by what it tests."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["gross", "percent", "share"]


def _rounded(cents: Fraction) -> int:
    """To a whole cent, halves up; amounts here are not negative."""
    return int(cents + Fraction(1, 2))


def share(cents: int, days: int, period_days: int) -> int:
    """What so many days of a period of so many days cost, at `cents` for all of it."""
    return _rounded(Fraction(cents * days, period_days))


def percent(cents: int, rate: int | str) -> int:
    """So many percent of an amount."""
    return _rounded(cents * Fraction(rate) / 100)


def gross(cents: int, rate: int | str) -> int:
    """An amount with a tax of so many percent on it."""
    return cents + percent(cents, rate)
