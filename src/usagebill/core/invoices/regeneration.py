"""Regeneration: the lines of a voided invoice, as lines of the invoice that replaces it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO
from usagebill.core.statuses import PaymentStatus

__all__ = ["copied_line", "relinked"]


def copied_line(fee: Fee, invoice: Invoice, *, id: str, now: datetime) -> Fee:
    """A copy of the line for another invoice, without discounts, taxes and payments."""
    return replace(
        fee,
        id=id,
        invoice_id=invoice.id,
        self_billed=invoice.self_billed,
        original_fee_id=fee.original_fee_id or fee.id,
        payment_status=PaymentStatus.PENDING,
        succeeded_at=None,
        failed_at=None,
        refunded_at=None,
        applied_taxes=(),
        taxes_amount_cents=0,
        taxes_precise_amount_cents=ZERO,
        taxes_rate=ZERO,
        precise_coupons_amount_cents=ZERO,
        precise_credit_notes_amount_cents=ZERO,
        created_at=now,
        updated_at=now,
    )


def relinked(lines: Sequence[tuple[str | None, Fee]]) -> list[Fee]:
    """The lines, with true-ups to minimums and their parents linked to each other's copies.

    Each line comes with the id of the line it copies, None for a new one. A link to a line without a copy is dropped.
    """
    copies = {id: fee.id for id, fee in lines if id}
    return [
        replace(
            fee,
            true_up_fee_id=copies.get(fee.true_up_fee_id or ""),
            true_up_parent_fee_id=copies.get(fee.true_up_parent_fee_id or ""),
        )
        for _, fee in lines
    ]
