"""Deferred revenue: what was billed ahead is earned day by day over its period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from usagebill.core.numbers import divide, round_cents

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Cents that were billed for a period on this day; below zero, cents that a credit note or a void took back."""

    day: date
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """What was earned in a month, and what is still deferred at its end, in cents."""

    month: date
    earned_cents: int
    deferred_cents: int


def earned_by_month(first: date, last: date, changes: Sequence[Change]) -> Iterator[Earned]:
    """The months in which something billed for the days from `first` to `last`, both included, is earned or deferred.

    Every day earns the same. What is taken back lowers what is still deferred, evenly over the days left, and beyond
    that what was earned. Nothing is earned before it was billed.
    """
    days = sorted(changes, key=lambda change: change.day)
    if not days:
        return
    month, before = days[0].day.replace(day=1), 0
    end = max(last, days[-1].day)
    while month <= end:
        following = (month + 31 * _DAY).replace(day=1)
        earned, deferred = _standing(first, last, days, following - _DAY)
        if earned != before or deferred:
            yield Earned(month=month, earned_cents=earned - before, deferred_cents=deferred)
        month, before = following, earned


def _standing(first: date, last: date, changes: Sequence[Change], until: date) -> tuple[int, int]:
    """What is earned and what is deferred at the end of the day `until`."""
    earned = deferred = 0
    since = first
    for change in changes:
        if change.day > until:
            break
        at = min(max(change.day, since), last + _DAY)
        part = _part(deferred, since, at, last)
        earned, deferred = earned + part, deferred - part
        # The first amount is earned from the first day on, also if it was billed later.
        since = at if deferred else since
        deferred += change.cents
        if deferred < 0:
            earned, deferred = earned + deferred, 0
    part = _part(deferred, since, min(until, last) + _DAY, last)
    return earned + part, deferred - part


def _part(cents: int, since: date, until: date, last: date) -> int:
    """The part of `cents` for the days from `since` on that is earned before `until`."""
    left = (last - since).days + 1
    if left <= 0:
        return cents
    return round_cents(divide(Decimal(cents * max(0, (until - since).days)), Decimal(left)))
