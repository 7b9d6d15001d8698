"""Progressive billing invoices: which surplus of them goes back where."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.invoices.records import Credit

__all__ = ["passed_on"]


def passed_on(cents: int, credits: Iterable[Credit]) -> list[tuple[Credit, int]]:
    """How much of `cents` of surplus each earlier invoice gives back: as much as was credited for it, in order."""
    shares = []
    for credit in credits:
        share = min(cents, credit.amount_cents)
        if share > 0:
            shares.append((credit, share))
        cents -= share
    return shares
