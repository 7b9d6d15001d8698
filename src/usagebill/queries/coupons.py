"""Coupons: what they took off invoices."""

from __future__ import annotations

from usagebill.core.coupons import AppliedCoupon
from usagebill.core.invoices.records import Credit, Invoice
from usagebill.storage.conditions import asc, eq, has_item
from usagebill.work import Reader

__all__ = ["UNDONE", "coupon_credits"]


# What such invoices took of a coupon is free again.
UNDONE = ("voided", "closed", "deleted")


def coupon_credits(reader: Reader, applied: AppliedCoupon) -> list[tuple[Invoice, Credit]]:
    """The lines of invoices that an applied coupon has reduced, oldest first."""
    invoices = reader.tx.find(
        Invoice,
        eq("customer_id", applied.customer_id),
        has_item("credits", source_id=applied.id, item_type="coupon"),
        order=[asc("created_at")],
    )
    return [
        (invoice, credit)
        for invoice in invoices
        for credit in invoice.credits
        if credit.item_type == "coupon" and credit.source_id == applied.id
    ]
