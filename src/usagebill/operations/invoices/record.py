"""What rating an invoice leaves to be stored besides the invoice itself."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.charge_ledger import CarriedLevel, LevelReached
from usagebill.storage.conditions import eq
from usagebill.work import Work

__all__ = ["keep_levels"]


def keep_levels(work: Work, levels: Iterable[LevelReached]) -> None:
    """Store where recurring weighted sums stand, in place of what was kept of the same windows before."""
    for reached in levels:
        level = reached.level
        former = work.tx.find(
            CarriedLevel,
            eq("charge_id", level.charge_id),
            eq("subscription_id", level.subscription_id),
            eq("charge_filter_id", level.charge_filter_id),
            eq("group", level.group),
            eq("period_end", level.period_end),
        )
        work.tx.delete(*former)
        if reached.moved:
            work.tx.insert(level)
