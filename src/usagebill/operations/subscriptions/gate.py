"""Gates: subscriptions that wait for their first payment before they become active."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from usagebill.core.activation import is_waiting, started_rules
from usagebill.core.contracts import Contract
from usagebill.core.payment_tasks import ExpireActivation, SettleActivation
from usagebill.core.periods.schedule import gate_expiry_at
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscription_changes import awaiting_payment
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import ActivateSubscription
from usagebill.operations.subscriptions.start import bill_start, note_units, owed_at_start, start
from usagebill.queries.contracts import contract_of
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.settlement import waits_for_vat_check
from usagebill.runtime.work import Reader, Work
from usagebill.views.subscriptions import subscription_webhook_view


def begin(work: Work, pending: Subscription, started_at: datetime) -> Subscription:
    """Start a subscription today and bill its fees in advance, or have it wait for their payment."""
    waiting = gated(work, pending, started_at)
    if waiting.status == SubscriptionStatus.INCOMPLETE:
        return waiting
    contract = start(work, waiting, started_at)
    bill_start(work, contract)
    return contract.subscription


def gated(work: Work, pending: Subscription, started_at: datetime) -> Subscription:
    """The subscription, waiting for the payment of its first invoice if it has a rule that applies.

    Its units count, and its period runs, from `started_at`; no usage is billed before it is active. An invoice of zero
    counts as paid.
    """
    if not pending.activation_rules:
        return pending
    started = replace(pending, started_at=started_at)
    rules = started_rules(pending.activation_rules, work.now, applies=_owes_something(work, contract_of(work, started)))
    if not is_waiting(rules):
        return replace(pending, activation_rules=rules)
    waiting = awaiting_payment(pending, rules, started_at, work.now)
    work.tx.replace(waiting)
    contract = contract_of(work, waiting)
    note_units(work, contract)
    work.emit("subscription.incomplete", partial(subscription_webhook_view, work, waiting), waiting.id)
    for rule in rules:
        if rule.expires_at is not None:
            task = ExpireActivation(customer_id=waiting.customer_id, subscription_id=waiting.id)
            work.schedule(task, gate_expiry_at(rule.expires_at))
    invoice = bill_start(work, contract, hidden=True)
    if invoice is not None and invoice.payment_status == PaymentStatus.SUCCEEDED:
        paid = PaymentStatus.SUCCEEDED.value
        task_of_invoice = SettleActivation(customer_id=waiting.customer_id, invoice_id=invoice.id, payment_status=paid)
        work.schedule(task_of_invoice, work.now)
    return waiting


def _owes_something(reader: Reader, contract: Contract) -> bool:
    """Whether a known amount is due in advance; taxes from a provider are not known yet."""
    if connection_of(reader, contract.customer) is not None or waits_for_vat_check(reader, contract.customer):
        return False
    started_at = contract.subscription.started_at
    return started_at is not None and owed_at_start(reader, contract, started_at) is not None


def activate_due(work: Work, task: ActivateSubscription) -> None:
    """Job: start a pending subscription on its local start date."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is not None and subscription.status == SubscriptionStatus.PENDING:
        begin(work, subscription, work.now)
