"""Estimates of credit notes: the most that a note over some of an invoice's fees could credit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import Credited, CreditNoteItem, Estimate, estimated
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import truncate_cents


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNoteEstimate:
    """The most that a note over `items` (fees with cents before taxes and coupons) could credit, in cents."""

    invoice: Invoice
    items: tuple[tuple[Fee, int], ...]
    result: Credited
    amounts: Estimate
    max_offsettable_cents: int


def estimate_of(
    balance: Balance, sent: Sequence[tuple[Fee, Decimal]], *, now: datetime, new_id: Callable[[], str]
) -> CreditNoteEstimate:
    """The most that a note over these items, cut to whole cents, could credit, refund and offset.

    A top-up is refunded without taxes, up to the amount that was paid and is still in the wallet; none of it is
    credited.
    """
    invoice = balance.invoice
    items = [(fee, truncate_cents(amount)) for fee, amount in sent]
    requested_cents = sum(cents for _, cents in items)
    pending = [
        CreditNoteItem(
            id="",
            fee_id=fee.id,
            amount_cents=cents,
            precise_amount_cents=Decimal(cents),
            amount_currency=invoice.currency,
            created_at=now,
        )
        for fee, cents in items
    ]
    result = balance.credited(
        [(fee, Decimal(cents)) for fee, cents in items],
        pending,
        now=now,
        new_id=new_id,
    )
    amounts = estimated(result, balance.refundable)
    if invoice.invoice_type == InvoiceType.CREDIT:
        refundable_cents = min(requested_cents, invoice.total_paid_amount_cents, balance.refundable)
        amounts = Estimate(max_creditable_cents=0, max_refundable_cents=refundable_cents, taxes_cents=0)
    return CreditNoteEstimate(
        invoice=invoice,
        items=tuple(items),
        result=result,
        amounts=amounts,
        max_offsettable_cents=max(0, min(balance.offsettable, amounts.max_creditable_cents)),
    )
