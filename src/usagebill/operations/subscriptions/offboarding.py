"""Offboarding of deleted customers."""

from __future__ import annotations

from datetime import timedelta

from usagebill.core.coupons import AppliedCoupon, CouponStatus
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import EndCustomer, FinalizeInvoice
from usagebill.operations.coupons import terminate_applied
from usagebill.operations.subscriptions import cancel_pending, terminate
from usagebill.operations.subscriptions.activation import cancel_waiting
from usagebill.operations.wallets.termination import end_wallets
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq

# Drafts are finalized a little later, so that the last invoices are among them.
_DRAFTS_WAIT = timedelta(minutes=5)


def end_customer(work: Work, task: EndCustomer) -> None:
    """Job: end the subscriptions of a deleted customer, cancel pending ones, and finalize drafts soon.

    Its coupons and wallets end too. Each subscription ends in its own transaction, so that a customer with many holds
    up nobody: the job reschedules itself until none is left.
    """
    of_customer = eq("customer_id", task.customer_id)
    order = [asc("created_at"), asc("id")]
    cancel_waiting(work, of_customer)
    active = work.tx.first(Subscription, of_customer, eq("status", SubscriptionStatus.ACTIVE), order=order)
    if active is not None:
        terminate(work, active)
        work.schedule(task, work.now)
        return
    for subscription in work.tx.find(Subscription, of_customer, eq("status", SubscriptionStatus.PENDING), order=order):
        cancel_pending(work, subscription)
    for applied in work.tx.find(AppliedCoupon, of_customer, eq("status", CouponStatus.ACTIVE)):
        terminate_applied(work, applied)
    end_wallets(work, task.customer_id)
    for draft in work.tx.find(Invoice, of_customer, eq("status", InvoiceStatus.DRAFT)):
        finalization = FinalizeInvoice(customer_id=draft.customer_id, invoice_id=draft.id)
        work.cancel(finalization)
        work.schedule(finalization, work.now + _DRAFTS_WAIT)
