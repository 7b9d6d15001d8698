"""Estimates of credit notes: the most that a note over given items of an invoice's fees could credit."""

from __future__ import annotations

from dataclasses import dataclass

from usagebill.core.credit_notes import Credited, Estimate
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice

__all__ = ["CreditNoteEstimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNoteEstimate:
    """The most that a note over `items` (fees with cents before taxes and coupons) could credit, in cents."""

    invoice: Invoice
    items: tuple[tuple[Fee, int], ...]
    result: Credited
    amounts: Estimate
    max_offsettable_cents: int
