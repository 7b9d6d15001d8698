"""Progressive billing invoices: the thresholds they record, and the usage they have billed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime

from usagebill.core.copies import replace
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
    deducted for other invoices and the surplus that it gave back: its `notes` to the customer, its lines to coupons.

    Coupons are carried with the usage that they discounted: a deduction less coupons would bill the discount again. A
    note made by hand forgives a part of what was billed; it was billed all the same.
    """
    surplus = sum(note.sub_total_excluding_taxes_amount_cents for note in notes if note.automatic)
    surplus += sum(line.returned_cents for line in billed.credits if line.item_type == CreditType.COUPON)
    return billed.fees_amount_cents - billed.progressive_billing_credit_amount_cents - surplus


def discounts(invoices: Iterable[Invoice]) -> dict[str, int]:
    """The cents that coupons gave on these invoices and did not get back, by applied coupon; without those that got
    all of it back.
    """
    given: dict[str, int] = {}
    for invoice in invoices:
        for line in invoice.credits:
            if line.item_type == CreditType.COUPON and line.source_id and not line.is_given_back:
                given[line.source_id] = given.get(line.source_id, 0) + line.used_cents
    return given


def uses(invoices: Iterable[Invoice]) -> set[str]:
    """The applied coupons of which these invoices have a use, rather than continue that of others."""
    return {
        line.source_id
        for invoice in invoices
        for line in invoice.credits
        if line.item_type == CreditType.COUPON and line.source_id and line.is_use and not line.is_given_back
    }


def with_use(invoices: Iterable[Invoice], applied_id: str) -> Invoice | None:
    """The first of these invoices in force that continue a coupon's use, now that the one which they continued is
    undone: the use is its own. None if one of them has it already, or none takes anything off.
    """
    lines = [
        (invoice, line)
        for invoice in invoices
        for line in invoice.credits
        if line.item_type == CreditType.COUPON and line.source_id == applied_id and not line.is_given_back
    ]
    if not lines or any(line.is_use for _, line in lines):
        return None
    invoice, first = lines[0]
    credits = tuple(replace(line, inherits_use=True) if line.id == first.id else line for line in invoice.credits)
    return replace(invoice, credits=credits)


def without_use(invoice: Invoice, applied_id: str) -> Invoice:
    """The invoice, continuing the use of a coupon that another invoice has taken over from it."""
    credits = tuple(
        replace(line, continues=True, inherits_use=False)
        if line.item_type == CreditType.COUPON and line.source_id == applied_id and line.is_use
        else line
        for line in invoice.credits
    )
    return invoice if credits == invoice.credits else replace(invoice, credits=credits)


def with_returned(invoices: Sequence[Invoice], cents_of: Mapping[str, int]) -> list[Invoice]:
    """Those of these progressive billing invoices that give cents back to coupons (by applied coupon), with their
    lines: the last invoice first, each what its line still uses.
    """
    left = dict(cents_of)
    changed = []
    for invoice in reversed(invoices):
        lines = []
        for line in invoice.credits:
            cents = min(left.get(line.source_id or "", 0), line.used_cents)
            if line.item_type == CreditType.COUPON and cents > 0:
                left[line.source_id or ""] -= cents
                line = replace(line, returned_cents=line.returned_cents + cents)
            lines.append(line)
        if tuple(lines) != invoice.credits:
            changed.append(replace(invoice, credits=tuple(lines)))
    return changed


def deducted_cents(progressive_ids: Container[str], invoices: Iterable[Invoice]) -> int:
    """The cents that those of `invoices` in force which are no progressive billing invoices have deducted for these."""
    return sum(
        credit.amount_cents
        for invoice in invoices
        if invoice.status not in UNDONE and invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING
        for credit in invoice.credits
        if credit.item_type == CreditType.INVOICE and credit.source_id in progressive_ids
    )
