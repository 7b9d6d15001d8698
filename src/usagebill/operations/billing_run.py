"""Billing runs: a customer's subscriptions due at one instant, grouped into invoices.

Each customer has its own job per instant at which something is due, so that one customer's failure never delays
another. A late run acts as of its due instant.
"""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.contracts import Contract
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.sharing import sharing
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import BillCustomer
from usagebill.operations.invoices.advance_charges import regroup
from usagebill.operations.invoices.subscription import bill
from usagebill.operations.subscriptions.change import apply_downgrade
from usagebill.operations.subscriptions.schedule import is_due, schedule_billing
from usagebill.queries.contracts import contract_of, refreshed
from usagebill.queries.takeovers import takeover
from usagebill.rating.invoice import Entry
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq


def bill_customer(work: Work, task: BillCustomer) -> None:
    """Job: bill every subscription of the customer that is due now, and schedule the next run of each."""
    active = work.tx.find(
        Subscription,
        eq("customer_id", task.customer_id),
        eq("status", SubscriptionStatus.ACTIVE),
        order=[asc("created_at"), asc("id")],
    )
    contracts = [contract_of(work, subscription) for subscription in active]
    due = [contract for contract in contracts if is_due(work, contract) and not contract.has_overdue_end(work.now)]
    changing = [(contract, change) for contract in due if (change := takeover(work, contract)) is not None]
    # A subscription whose successor has to be paid first continues until that payment.
    changed = [
        contract
        for contract, change in changing
        if apply_downgrade(work, contract, change).status != SubscriptionStatus.INCOMPLETE
    ]
    for entries in _grouped(contract for contract in due if contract not in changed):
        bill(work, entries, at=work.now, trigger=Trigger.RUN)
        regroup(work, [entry.contract.subscription for entry in entries], work.now, renewing=True)
    for contract in contracts:
        if contract not in changed:
            schedule_billing(work, refreshed(work, contract))


def _grouped(contracts: Iterable[Contract]) -> list[list[Entry]]:
    """The entries of each invoice."""
    return [
        [Entry(contract=contract, reason=InvoicingReason.PERIODIC) for contract in group]
        for group in sharing(list(contracts))
    ]
