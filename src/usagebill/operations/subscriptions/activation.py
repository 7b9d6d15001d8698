"""Subscriptions that wait for their first payment: activated or canceled once it succeeds, fails or times out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.life_cycle import (
    InvoiceEvent,
    InvoiceStatus,
    InvoicingReason,
    transition as invoice_transition,
)
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.payment_tasks import ExpireActivation, SettleActivation
from usagebill.core.periods import day_start
from usagebill.core.periods.schedule import billing_days
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscription_changes import activated, activation_canceled
from usagebill.core.subscriptions import Event, Subscription, SubscriptionStatus
from usagebill.operations import credit_notes
from usagebill.operations.alert_watch import watch_subscription
from usagebill.operations.backlog import catch_up_before
from usagebill.operations.invoices.issue import issue
from usagebill.operations.invoices.subscription import bill
from usagebill.operations.invoices.undoing import release
from usagebill.operations.payment_status import due_changed
from usagebill.operations.subscriptions.change import cancel_downgrade, end_for
from usagebill.operations.subscriptions.schedule import schedule
from usagebill.operations.subscriptions.start import bill_start, divide_time
from usagebill.operations.wallet_ledger import want_refresh
from usagebill.queries.contracts import contract_of, refreshed
from usagebill.queries.invoices import find_invoice
from usagebill.rating.invoice import Entry
from usagebill.rating.top_ups import paid_today
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq
from usagebill.views.subscriptions import entitled_subscription, subscription_webhook_view


def settle_activation(work: Work, task: SettleActivation) -> None:
    """Job: the invoice that a subscription waits for was paid, or its payment failed.

    The customer's backlog comes first: the previous plan may have a period to bill.
    """
    if _waiting_for(work, task.invoice_id) is None:
        return
    catch_up_before(work, (task.customer_id,))
    subscription, invoice = _waiting_for(work, task.invoice_id), find_invoice(work, task.invoice_id)
    if subscription is None or invoice is None:
        return
    if task.payment_status == PaymentStatus.SUCCEEDED:
        _activate(work, subscription, invoice)
    else:
        _cancel(work, subscription, invoice, Event.PAYMENT_FAILED)


def expire_activation(work: Work, task: ExpireActivation) -> None:
    """Job: cancel a subscription that has waited for its first payment as long as its rule allows."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is not None and subscription.status == SubscriptionStatus.INCOMPLETE:
        _give_up(work, subscription, Event.PAYMENT_TIMED_OUT)


def cancel_waiting(work: Work, *conditions: Condition) -> None:
    """Cancel the matching subscriptions that wait for their first payment, with that payment."""
    waiting = eq("status", SubscriptionStatus.INCOMPLETE)
    for subscription in work.tx.find(Subscription, waiting, *conditions, order=[asc("created_at"), asc("id")]):
        _give_up(work, subscription, Event.CANCEL)


def _give_up(work: Work, subscription: Subscription, event: Event) -> None:
    """Cancel a subscription that waits for its first payment, and the payment with it."""
    invoice = _awaited(work, subscription)
    if invoice is None:
        raise LookupError(f"subscription {subscription.id} waits for no invoice")
    _cancel(work, subscription, invoice, event)


def _waiting_for(reader: Reader, invoice_id: str) -> Subscription | None:
    invoice = find_invoice(reader, invoice_id)
    period = reader.tx.first(BillingPeriod, eq("invoice_id", invoice_id))
    subscription = None if period is None else reader.tx.get(Subscription, period.subscription_id)
    is_open = invoice is not None and invoice.status == InvoiceStatus.OPEN
    if not is_open or subscription is None or subscription.status != SubscriptionStatus.INCOMPLETE:
        return None
    return subscription


def _awaited(reader: Reader, subscription: Subscription) -> Invoice | None:
    periods = reader.tx.find(BillingPeriod, eq("subscription_id", subscription.id))
    invoices = [find_invoice(reader, period.invoice_id) for period in periods]
    return next((invoice for invoice in invoices if invoice is not None and invoice.status == InvoiceStatus.OPEN), None)


def _activate(work: Work, subscription: Subscription, invoice: Invoice) -> None:
    """Make the subscription active and issue its first invoice; the subscription that it replaces ends now."""
    previous = None
    if subscription.previous_subscription_id is not None:
        previous = work.tx.get(Subscription, subscription.previous_subscription_id)
    follows = previous is not None and previous.status == SubscriptionStatus.ACTIVE
    active = activated(subscription, work.now, takes_over=follows)
    work.tx.replace(active)
    work.cancel(ExpireActivation(customer_id=active.customer_id, subscription_id=active.id))
    if follows and previous is not None:
        end_for(work, contract_of(work, previous))
    contract = contract_of(work, active)
    divide_time(work, contract)
    issue(work, paid_today(work, invoice), contracts=[contract], may_be_empty=False)
    work.emit("subscription.started", partial(entitled_subscription, work, active), active.id)
    contract = _billed_from_now(work, contract) if follows else _billed_since(work, contract)
    schedule(work, contract)
    watch_subscription(work, active)
    want_refresh(work, active.customer_id)


def _billed_from_now(work: Work, contract: Contract) -> Contract:
    """Bill from today on, as the previous plan was billed until today. Days that both cover are credited; if the paid
    period is over, the current one is billed.
    """
    periods, active = contract.cycle(), contract.subscription
    today = local_date(work.now, periods.tz)
    if active.started_at is None:
        return contract
    credit_notes.on_late_activation(work, contract, until=today)
    if periods.period(local_date(active.started_at, periods.tz), periods.billing_interval).end >= today:
        return contract
    bill_start(work, contract.of(replace(active, started_at=work.now)))
    return refreshed(work, contract)


def _billed_since(work: Work, contract: Contract) -> Contract:
    """Bill every period that has begun since the subscription started, as the run of each day would have."""
    periods = contract.cycle()
    for day in billing_days(periods, until=local_date(work.now, periods.tz)):
        entries = [Entry(contract=contract, reason=InvoicingReason.PERIODIC)]
        bill(work, entries, at=day_start(day, periods.tz), trigger=Trigger.RUN)
        contract = refreshed(work, contract)
    return contract


def _cancel(work: Work, subscription: Subscription, invoice: Invoice, event: Event) -> None:
    """Cancel the subscription, close its invoice and release the credits it used. The previous plan continues."""
    canceled = activation_canceled(subscription, event, work.now)
    work.tx.replace(canceled)
    cancel_downgrade(work, canceled)
    work.cancel(ExpireActivation(customer_id=canceled.customer_id, subscription_id=canceled.id))
    closed = replace(invoice, status=invoice_transition(invoice.status, InvoiceEvent.CLOSE), updated_at=work.now)
    work.tx.replace(closed)
    due_changed(work, closed)
    release(work, closed)
    work.emit("subscription.canceled", partial(subscription_webhook_view, work, canceled), canceled.id)
