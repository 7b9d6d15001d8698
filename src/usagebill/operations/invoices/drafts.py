"""Drafts: recomputed, finalized and deleted by request, or recomputed after changes."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import Forbidden, NotFound
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceEvent, InvoiceStatus, InvoiceType, transition
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.statuses import TaxStatus
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import FinalizeInvoice, RefreshInvoice
from usagebill.operations.backlog import Unrelated, after_backlog, catch_up, of_record, without_backlog
from usagebill.operations.credit_notes.drafts import delete_drafts
from usagebill.operations.invoices import subscription
from usagebill.operations.invoices.issue import copy_subscriptions
from usagebill.queries.invoices import visible_invoice
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.views.invoices import invoice_webhook_view


@after_backlog(of_record(Invoice))
def refresh(work: Work, invoice_id: str) -> Invoice:
    """Recompute a draft from current records. Any other subscription invoice stays as it is.

    Raises `NotFound`, and `Forbidden` for other types of invoice.
    """
    invoice = visible_invoice(work, invoice_id)
    if invoice.invoice_type != InvoiceType.SUBSCRIPTION:
        raise Forbidden("feature_unavailable")
    return _computed(work, invoice) if invoice.status == InvoiceStatus.DRAFT else invoice


def _computed(work: Work, invoice: Invoice) -> Invoice:
    refreshed = subscription.compute(work, invoice, finalizing=False)
    copy_subscriptions(work, refreshed)
    return refreshed


@without_backlog(Unrelated.ITSELF)
def finalize(work: Work, invoice_id: str) -> Invoice:
    """Finalize a draft before its grace period is over; one whose period is over, as of its end.

    Raises `NotFound` for anything but a draft, and `Forbidden` while its taxes are not known.
    """
    draft = visible_invoice(work, invoice_id)
    catch_up(work, (draft.customer_id,))
    invoice = visible_invoice(work, invoice_id)
    if draft.status == InvoiceStatus.DRAFT and invoice.status in ISSUED:
        return invoice
    if invoice.status != InvoiceStatus.DRAFT:
        raise NotFound("invoice", invoice_id)
    if invoice.tax_status == TaxStatus.PENDING:
        raise Forbidden("cannot_finalize_with_pending_taxes")
    if invoice.invoice_type != InvoiceType.SUBSCRIPTION:
        raise Forbidden("feature_unavailable")
    return subscription.finalize(work, invoice)


@after_backlog(of_record(Invoice))
def delete(work: Work, invoice_id: str) -> Invoice:
    """Delete a draft, with its credit notes. Raises `NotFound` and `NotAllowed`."""
    invoice = visible_invoice(work, invoice_id)
    status = transition(invoice.status, InvoiceEvent.DELETE)
    delete_drafts(work, invoice)
    for task_type in (FinalizeInvoice, RefreshInvoice):
        work.cancel(task_type(customer_id=invoice.customer_id, invoice_id=invoice.id))
    deleted = replace(invoice, status=status, updated_at=work.now)
    work.tx.replace(deleted)
    work.emit("invoice.deleted", lambda: invoice_webhook_view(work, "invoice.deleted", deleted), deleted.id)
    return deleted


def refresh_wanted(work: Work, task: RefreshInvoice) -> None:
    """Job: recompute a draft after a change of its records; one of ended subscriptions only stays as it was."""
    invoice = work.tx.get(Invoice, task.invoice_id)
    if invoice is None or invoice.status != InvoiceStatus.DRAFT or not invoice.refresh_wanted:
        return
    periods = work.tx.find(BillingPeriod, eq("invoice_id", invoice.id))
    billed = (work.tx.get(Subscription, period.subscription_id) for period in periods)
    if any(subscription is not None and subscription.status == SubscriptionStatus.ACTIVE for subscription in billed):
        _computed(work, invoice)
