"""Progressive billing invoices: the thresholds they record, and the invoices to which a surplus goes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from usagebill.core.credit_notes import CreditNote
from usagebill.core.invoices.life_cycle import UNDONE
from usagebill.core.invoices.records import AppliedThreshold, Credit, CreditType, Invoice
from usagebill.core.numbers import round_cents, total
from usagebill.core.plans import UsageThreshold

__all__ = [
    "applied_threshold",
    "billed_less_surplus",
    "billed_so_far",
    "credited_cents",
    "is_invoiced_already",
    "left_to_credit",
    "passed_on",
    "taken_back_cents",
]


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


def passed_on(cents: int, credits: Iterable[Credit]) -> list[tuple[Credit, int]]:
    """The share of `cents` of surplus that each earlier invoice gives back: as much as was credited for it, in
    order.
    """
    shares = []
    for credit in credits:
        share = min(cents, credit.amount_cents)
        if share > 0:
            shares.append((credit, share))
        cents -= share
    return shares


def taken_back_cents(invoice: Invoice, note: CreditNote) -> int:
    """The cents that the note takes back from its invoice's fees, before taxes.

    A note for a surplus counts in full (`automatic`); any other note, and one for an invoice that has credits of
    earlier invoices, counts after coupons and credits.
    """
    if note.automatic and not any(credit.item_type == CreditType.INVOICE for credit in invoice.credits):
        return round_cents(total(item.precise_amount_cents for item in note.items))
    return note.sub_total_excluding_taxes_amount_cents


def billed_less_surplus(billed: Invoice, notes: Iterable[CreditNote]) -> int:
    """The fees of a progressive billing invoice after coupons, less the surplus that its `notes` gave back."""
    surplus = sum(taken_back_cents(billed, note) for note in notes if note.automatic)
    return billed.fees_amount_cents - billed.coupons_amount_cents - surplus


def credited_cents(billed: Invoice, invoices: Iterable[Invoice]) -> int:
    """The cents that those of `invoices` in force have credited of a progressive billing invoice."""
    return sum(
        credit.amount_cents
        for invoice in invoices
        if invoice.status not in UNDONE
        for credit in invoice.credits
        if credit.item_type == CreditType.INVOICE and credit.source_id == billed.id
    )


def left_to_credit(
    billed: Invoice, invoices: Iterable[Invoice], notes: Iterable[CreditNote], *, unbilled_cents: int
) -> int:
    """The cents of a progressive billing invoice that another invoice can credit: its fees after coupons, less the
    amounts that `invoices` have credited, `notes` taken back, and it did not bill itself; never below zero.
    """
    noted = sum(taken_back_cents(billed, note) for note in notes)
    used = credited_cents(billed, invoices) + noted + unbilled_cents
    return max(0, billed.fees_amount_cents - billed.coupons_amount_cents - used)
