"""Payment disputes: lost to the customer's bank, and won after all."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import DISPUTE_WON, GIVEN_BACK, SURPLUS_BACK, Payment, TakenBack
from usagebill.operations import synced_documents
from usagebill.operations.payment_status import watch_payment
from usagebill.queries.payments import paid_invoices, payments_of_invoice
from usagebill.runtime.work import Work
from usagebill.views.invoices import invoice_webhook_view, payment_dispute_lost_view

_LOST = "invoice.payment_dispute_lost"
_WON = "invoice.payment_dispute_won"


def lose(work: Work, invoice: Invoice, lost_at: datetime, reason: str | None = None) -> Invoice:
    """Record that a dispute over an issued invoice was lost; only the first time counts and sends a message."""
    if invoice.status not in ISSUED or invoice.payment_dispute_lost_at is not None:
        return invoice
    lost = replace(invoice, payment_dispute_lost_at=lost_at, payment_overdue=False, updated_at=work.now)
    work.tx.replace(lost)
    synced_documents.invoice_changed(work, lost)
    work.emit(_LOST, lambda: payment_dispute_lost_view(work, lost, reason), lost.id)
    return lost


def lose_payment(work: Work, payment: Payment, lost_at: datetime, reason: str | None) -> None:
    """Record that the bank took a payment back as the customer wanted: its invoices have a lost dispute."""
    lost = replace(payment, status=TakenBack.DISPUTED.value, disputed_at=lost_at, updated_at=work.now)
    work.tx.replace(lost)
    for invoice in paid_invoices(work, lost):
        lose(work, invoice, lost_at, reason)


def win_payment(work: Work, payment: Payment, won_at: datetime) -> bool:
    """Record that a dispute about a payment was won, and if it was lost before, that the bank has given the money back.
    False if that is known.
    """
    if payment.status == DISPUTE_WON:
        work.tx.replace(replace(payment, disputed_at=won_at, updated_at=work.now))
        return False
    invoices = [item for item in paid_invoices(work, payment) if item.payment_dispute_lost_at is not None]
    status = payment.status if payment.status in (*GIVEN_BACK, *SURPLUS_BACK) else DISPUTE_WON
    work.tx.replace(replace(payment, status=status, disputed_at=won_at, updated_at=work.now))
    for invoice in invoices:
        if any(other.status == TakenBack.DISPUTED for other in payments_of_invoice(work, invoice.id)):
            continue
        won = replace(invoice, payment_dispute_lost_at=None, updated_at=work.now)
        work.tx.replace(won)
        watch_payment(work, won)
        synced_documents.invoice_changed(work, won)
        work.emit(_WON, partial(invoice_webhook_view, work, _WON, won), won.id)
    return True
