"""Progressive billing invoices: what they keep of the thresholds they were made for, and where a surplus goes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from usagebill.core.invoices.records import AppliedThreshold, Credit, Invoice
from usagebill.core.plans import UsageThreshold

__all__ = ["applied_threshold", "billed_so_far", "is_invoiced_already", "passed_on"]


def billed_so_far(last: Invoice | None) -> int:
    """The usage of the running period that its `last` progressive billing invoice was made for, in cents."""
    if last is None:
        return 0
    applied = last.applied_usage_thresholds
    known = applied[0].current_usage_amount_cents if applied else None
    return last.fees_amount_cents if known is None else known


def is_invoiced_already(invoices: Iterable[Invoice], invoiced_cents: int, passed: Sequence[UsageThreshold]) -> bool:
    """Whether one of these invoices, voided since or not, was made for the thresholds that are passed now.

    `invoiced_cents` is lifetime usage that was invoiced, the running period's included.
    """
    highest = max(threshold.amount_cents for threshold in passed)
    return any(
        applied[0].invoiced_usage_amount_cents == invoiced_cents
        and max(threshold.amount_cents for threshold in applied) == highest
        for invoice in invoices
        if (applied := invoice.applied_usage_thresholds)
    )


def applied_threshold(
    threshold: UsageThreshold, *, id: str, now: datetime, invoiced_cents: int, current_cents: int, billed_cents: int
) -> AppliedThreshold:
    """The threshold as the invoice keeps it that is made because it was passed; amounts as `passed_thresholds`."""
    return AppliedThreshold(
        id=id,
        usage_threshold_id=threshold.id,
        amount_cents=threshold.amount_cents,
        recurring=threshold.recurring,
        threshold_display_name=threshold.threshold_display_name,
        lifetime_usage_amount_cents=invoiced_cents + current_cents,
        created_at=now,
        threshold_created_at=threshold.created_at,
        threshold_updated_at=threshold.updated_at,
        invoiced_usage_amount_cents=invoiced_cents + billed_cents,
        current_usage_amount_cents=current_cents,
    )


def passed_on(cents: int, credits: Iterable[Credit]) -> list[tuple[Credit, int]]:
    """How much of `cents` of surplus each earlier invoice gives back: as much as was credited for it, in order."""
    shares = []
    for credit in credits:
        share = min(cents, credit.amount_cents)
        if share > 0:
            shares.append((credit, share))
        cents -= share
    return shares
