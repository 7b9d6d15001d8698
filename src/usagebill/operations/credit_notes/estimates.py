"""Estimates: what a credit note over given items would come to, with nothing stored."""

from __future__ import annotations

from usagebill.core.credit_note_estimates import CreditNoteEstimate
from usagebill.core.credit_note_requests import requested_items
from usagebill.core.credit_notes import CreditNoteItem, Estimate, estimated
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.numbers import truncate_to
from usagebill.core.statuses import PaymentStatus
from usagebill.operations.credit_notes.creation import credited_invoice
from usagebill.operations.credit_notes.inputs import CreditNoteEstimateInput
from usagebill.queries.credit_note_balance import balance_of
from usagebill.work import Work

__all__ = ["estimate"]


def estimate(work: Work, request: CreditNoteEstimateInput) -> CreditNoteEstimate:
    """What a note over these items would come to. Raises as `create` does for the invoice and the items."""
    invoice = credited_invoice(work, request.invoice_id)
    if invoice.invoice_type == InvoiceType.CREDIT and invoice.payment_status != PaymentStatus.SUCCEEDED:
        raise NotAllowed(
            "invalid_type_or_status", f"a {invoice.invoice_type} invoice, its payment {invoice.payment_status}"
        )
    balance = balance_of(work, invoice)
    sent = requested_items(balance, request.items, together=False)
    items = [(fee, truncate_to(amount, 0)) for fee, amount in sent]
    empties = sum(int(amount) for _, amount in items) == sum(balance.left_of_fees().values())
    pending = [
        CreditNoteItem(
            id="",
            fee_id=fee.id,
            amount_cents=int(amount),
            precise_amount_cents=amount,
            amount_currency=invoice.currency,
            created_at=work.now,
        )
        for fee, amount in items
    ]
    result = balance.credited(items, pending if empties else None, now=work.now, new_id=work.new_id)
    amounts = estimated(result, balance.refundable)
    if invoice.invoice_type == InvoiceType.CREDIT:
        left = min(int(sum(amount for _, amount in items)), invoice.total_paid_amount_cents)
        amounts = Estimate(max_creditable_cents=0, max_refundable_cents=min(left, balance.refundable), taxes_cents=0)
    return CreditNoteEstimate(
        invoice=invoice,
        items=tuple((fee, int(amount)) for fee, amount in items),
        result=result,
        amounts=amounts,
        max_offsettable_cents=max(0, min(balance.offsettable, amounts.max_creditable_cents)),
    )
