"""Progressive billing invoices: the thresholds they record, and the usage they have billed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import datetime

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.life_cycle import UNDONE, InvoiceType
from usagebill.core.invoices.records import AppliedThreshold, CreditType, Invoice
from usagebill.core.plans import UsageThreshold


def billed_so_far(last: Invoice | None) -> int:
    """The usage of the running period, in cents, for which its `last` progressive billing invoice was created."""
    if last is None:
        return 0
    applied = last.applied_usage_thresholds
    current_usage_cents = applied[0].current_usage_amount_cents if applied else None
    return last.fees_amount_cents if current_usage_cents is None else current_usage_cents


def is_invoiced_already(invoices: Iterable[Invoice], invoiced_cents: int, passed: Sequence[UsageThreshold]) -> bool:
    """Whether one of these invoices, voided or not, was created for the thresholds that are passed now.

    `invoiced_cents` is the invoiced lifetime usage, including the running period's.
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
    """The threshold as recorded by the invoice created because it was passed; amounts as in `passed_thresholds`."""
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


def billed_ahead_by(billed: Invoice, notes: Iterable[CreditNote]) -> int:
    """The cents of usage that a progressive billing invoice has billed itself: its fees before coupons, less what it
    deducted for other invoices and the surplus that its `notes` gave back.

    Coupons are carried with the usage that they discounted: a deduction less coupons would bill the discount again. A
    note made by hand forgives a part of what was billed; it was billed all the same.
    """
    surplus = sum(note.sub_total_excluding_taxes_amount_cents for note in notes if note.automatic)
    return billed.fees_amount_cents - billed.progressive_billing_credit_amount_cents - surplus


def deducted_cents(progressive_ids: Container[str], invoices: Iterable[Invoice]) -> int:
    """The cents that those of `invoices` in force which are no progressive billing invoices have deducted for these."""
    return sum(
        credit.amount_cents
        for invoice in invoices
        if invoice.status not in UNDONE and invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING
        for credit in invoice.credits
        if credit.item_type == CreditType.INVOICE and credit.source_id in progressive_ids
    )
