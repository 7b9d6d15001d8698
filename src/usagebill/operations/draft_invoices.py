"""Draft invoices after changes of the catalog, of a customer or of a billing entity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from usagebill.core.dates import DatingSettings, InvoiceDates, dates_with_new_settings, dates_with_new_term
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.periods.schedule import change_follow_up_at, draft_finalization_at
from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import FinalizeInvoice, RefreshInvoice
from usagebill.queries.billing_periods import billing_context
from usagebill.queries.invoices import occasion_of
from usagebill.runtime.work import Work
from usagebill.storage.conditions import Condition, eq, has, related, within


def flag(work: Work, *conditions: Condition) -> None:
    """Have the matching drafts recomputed within five minutes."""
    for invoice in work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), eq("refresh_wanted", False), *conditions):
        work.tx.replace(replace(invoice, refresh_wanted=True, updated_at=work.now))
        task = RefreshInvoice(customer_id=invoice.customer_id, invoice_id=invoice.id)
        work.schedule(task, change_follow_up_at(work.now))


def drafts_of_plans(plan_ids: Iterable[str]) -> Condition:
    """Conditions for invoices that bill a subscription of one of these plans."""
    return has(BillingPeriod, "invoice_id", within("plan_id", plan_ids))


def drafts_of_subscription(subscription_id: str) -> Condition:
    """Conditions for invoices that bill this subscription, whichever plan it was on."""
    return has(BillingPeriod, "invoice_id", eq("subscription_id", subscription_id))


def drafts_of_customers(customer_ids: Iterable[str]) -> Condition:
    """Conditions for invoices of these customers."""
    return within("customer_id", customer_ids)


def keep_plan(work: Work, ended: Subscription) -> None:
    """Have the drafts of a subscription that ends bill its plan as it is now."""
    of_draft = related(Invoice, "invoice_id", eq("status", InvoiceStatus.DRAFT))
    for period in work.tx.find(BillingPeriod, eq("subscription_id", ended.id), of_draft):
        invoice = work.tx.get(Invoice, period.invoice_id)
        if invoice is not None:
            definition = billing_context(work, invoice, replace(period, definition=None)).definition
            work.tx.replace(replace(period, definition=definition))


def shift(work: Work, customer_id: str, old: DatingSettings, new: DatingSettings) -> None:
    """Move the dates of a customer's drafts by as much as its settings moved, and finalize those that become due.

    Nothing moves if grace period, anchor and adjustment are unchanged.
    """
    if (old.grace_period, old.anchor, old.adjustment) == (new.grace_period, new.anchor, new.adjustment):
        return
    for invoice in work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), eq("customer_id", customer_id)):
        dates = dates_with_new_settings(_dates(invoice), occasion_of(work, invoice), old, new)
        shifted = _dated(work, invoice, dates, new.net_payment_term)
        watch_draft(work, shifted)


def redate(work: Work, customer_id: str, net_payment_term: int) -> None:
    """Move the due dates of the customer's drafts to this many days after their issuing date."""
    for invoice in work.tx.find(Invoice, eq("status", InvoiceStatus.DRAFT), eq("customer_id", customer_id)):
        _dated(work, invoice, dates_with_new_term(_dates(invoice), net_payment_term), net_payment_term)


def _dates(invoice: Invoice) -> InvoiceDates:
    return InvoiceDates(
        issuing=invoice.issuing_date,
        payment_due=invoice.payment_due_date,
        expected_finalization=invoice.finalization_day,
    )


def _dated(work: Work, invoice: Invoice, dates: InvoiceDates, net_payment_term: int) -> Invoice:
    dated = replace(
        invoice,
        issuing_date=dates.issuing,
        payment_due_date=dates.payment_due,
        expected_finalization_date=dates.expected_finalization,
        net_payment_term=net_payment_term,
        updated_at=work.now,
    )
    work.tx.replace(dated)
    return dated


def watch_draft(work: Work, invoice: Invoice) -> None:
    """Reschedule the draft's finalization to its expected date."""
    task = FinalizeInvoice(customer_id=invoice.customer_id, invoice_id=invoice.id)
    work.cancel(task)
    day = invoice.finalization_day
    work.schedule(task, max(draft_finalization_at(day), work.now))
