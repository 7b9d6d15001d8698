"""The payment status of an invoice, which its fees follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import Payment
from usagebill.core.statuses import PaymentStatus
from usagebill.core.tasks import SettleTopUp
from usagebill.operations.dunning_progress import was_paid
from usagebill.storage.conditions import eq
from usagebill.views.invoices import invoice_webhook_view
from usagebill.work import Reader, Work

__all__ = ["payment_of", "set_payment_status"]

_UPDATED = "invoice.payment_status_updated"


def payment_of(reader: Reader, invoice: Invoice, amount_cents: int, reference: str, paid_at: datetime) -> Payment:
    """A payment of the invoice made by hand, not stored yet; the invoice itself does not change here."""
    return Payment(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        customer_id=invoice.customer_id,
        invoice_id=invoice.id,
        amount_cents=amount_cents,
        amount_currency=invoice.currency,
        reference=reference,
        created_at=paid_at,
        updated_at=reader.now,
        is_shown=invoice.status != InvoiceStatus.OPEN,
    )


def set_payment_status(work: Work, invoice: Invoice, status: PaymentStatus) -> Invoice:
    """Store that the invoice is pending, succeeded or failed, and send its messages where that is news.

    Once it has succeeded it is no longer overdue. The credits of a top-up follow its invoice.
    """
    changed = replace(
        invoice,
        payment_status=status,
        payment_overdue=invoice.payment_overdue and status != PaymentStatus.SUCCEEDED,
        updated_at=work.now,
    )
    work.tx.replace(changed)
    if invoice.payment_overdue and status == PaymentStatus.SUCCEEDED:
        was_paid(work, invoice)
    for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)):
        if fee.payment_status != status:
            work.tx.replace(replace(fee, payment_status=status, updated_at=work.now))
    if invoice.payment_status != status and invoice.status in VISIBLE:
        work.emit(_UPDATED, lambda: invoice_webhook_view(work, _UPDATED, changed), changed.id)
    if invoice.invoice_type == InvoiceType.CREDIT and status != PaymentStatus.PENDING:
        # The credits follow right after.
        task = SettleTopUp(customer_id=invoice.customer_id, invoice_id=invoice.id, payment_status=status.value)
        work.schedule(task, work.now)
    return changed
