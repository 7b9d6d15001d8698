"""Estimates: the amounts of a credit note over some items, with nothing stored."""

from __future__ import annotations

from usagebill.core.credit_note_estimates import CreditNoteEstimate, estimate_of
from usagebill.core.credit_note_requests import requested_items
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.statuses import PaymentStatus
from usagebill.operations.credit_notes.creation import credited_invoice
from usagebill.operations.credit_notes.inputs import CreditNoteEstimateInput
from usagebill.queries.credit_note_balance import balance_of
from usagebill.runtime.work import Work


def estimate(work: Work, request: CreditNoteEstimateInput) -> CreditNoteEstimate:
    """The estimate of a note over these items. Raises as `create` does for the invoice and the items."""
    invoice = credited_invoice(work, request.invoice_id)
    if invoice.invoice_type == InvoiceType.CREDIT and invoice.payment_status != PaymentStatus.SUCCEEDED:
        raise NotAllowed(
            "invalid_type_or_status", f"a {invoice.invoice_type} invoice, its payment {invoice.payment_status}"
        )
    balance = balance_of(work, invoice)
    sent = requested_items(balance, request.items, together=False)
    return estimate_of(balance, sent, now=work.now, new_id=work.new_id)
