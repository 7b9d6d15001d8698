"""Payment disputes lost to the customer's bank."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.operations import synced_documents
from usagebill.runtime.work import Work
from usagebill.views.invoices import payment_dispute_lost_view

_LOST = "invoice.payment_dispute_lost"


def lose(work: Work, invoice: Invoice, lost_at: datetime, reason: str | None = None) -> Invoice:
    """Record that a dispute over an issued invoice was lost; only the first time counts and sends a message."""
    if invoice.status not in ISSUED or invoice.payment_dispute_lost_at is not None:
        return invoice
    lost = replace(invoice, payment_dispute_lost_at=lost_at, payment_overdue=False, updated_at=work.now)
    work.tx.replace(lost)
    synced_documents.invoice_changed(work, lost)
    work.emit(_LOST, lambda: payment_dispute_lost_view(work, lost, reason), lost.id)
    return lost
