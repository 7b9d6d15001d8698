"""Subscription invoices: what one or more subscriptions of a customer owe, at a start, a run, a change or an end."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from usagebill.core.contracts import Contract
from usagebill.core.invoice_triggers import Trigger, step_of
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import FixedCharge
from usagebill.core.tasks import FinalizeInvoice
from usagebill.operations.invoices.record import record
from usagebill.rating.invoice import Entry, added_units_bill, finalized_bill, recomputed_bill, subscription_bill
from usagebill.storage.conditions import eq
from usagebill.work import Reader, Work

__all__ = ["bill", "bill_added_units", "compute", "finalize", "finalize_due", "foresee_bill"]


def bill(
    work: Work,
    entries: Sequence[Entry],
    *,
    at: datetime,
    trigger: Trigger,
    hidden: bool = False,
) -> Invoice | None:
    """Invoice `entries` (of one customer, currency and billing entity) with billing timestamp `at`.

    The invoice is a draft while the customer's grace period lasts, and is issued at once without one; with `hidden`,
    nobody sees it until it is paid. None if a run has billed one of the subscriptions for the same periods already.
    """
    make = partial(subscription_bill, entries=entries, at=at, trigger=trigger, hidden=hidden)
    owed = work.worked_out(
        _key(entries),
        make,
        given=(entries, at, trigger, hidden),
        subscriptions=lambda: len(entries),
    )
    return None if owed is None else record(work, owed)


def foresee_bill(work: Work, entries: Sequence[Entry], *, at: datetime, trigger: Trigger) -> None:
    """Compute ahead what `bill` will be asked for, if nothing is written yet and that is possible."""
    make = partial(subscription_bill, entries=entries, at=at, trigger=trigger)
    work.foresee(_key(entries), make, given=(entries, at, trigger, False))


def _key(entries: Sequence[Entry]) -> Hashable:
    return ("bill", *((entry.contract.subscription.id, entry.reason) for entry in entries))


def bill_added_units(
    work: Work, contract: Contract, charges: Sequence[FixedCharge], *, at: datetime, hidden: bool = False
) -> Invoice:
    """Invoice at once what `charges` (fixed ones, paid in advance) have more units of than was billed for the period.

    `at` is the instant of the change, or of the start. The invoice is never a draft; with `hidden`, nobody sees it
    until it is paid.
    """
    owed = added_units_bill(work, contract, charges, at=at)
    grace_period = contract.parties.dating.grace_period
    return record(work, replace(owed, step=step_of(Trigger.ADDED_UNITS, grace_period=grace_period, hidden=hidden)))


def compute(work: Work, invoice: Invoice, *, finalizing: bool) -> Invoice:
    """The draft with the fees and totals that follow from what is known now, stored."""
    make = partial(recomputed_bill, draft=invoice, finalizing=finalizing)
    key = ("draft", invoice.id, finalizing)
    return record(work, work.worked_out(key, make, given=invoice, subscriptions=partial(_billed, work, invoice)))


def finalize(work: Work, invoice: Invoice) -> Invoice:
    """Finalize a draft now: with everything known by now, dated today unless it keeps its anchor."""
    owed = work.worked_out(
        ("finalized", invoice.id),
        partial(finalized_bill, draft=invoice),
        given=invoice,
        subscriptions=partial(_billed, work, invoice),
    )
    work.cancel(FinalizeInvoice(customer_id=invoice.customer_id, invoice_id=invoice.id))
    return record(work, owed)


def _billed(reader: Reader, invoice: Invoice) -> int:
    """How many subscriptions the invoice bills."""
    return reader.tx.count(BillingPeriod, eq("invoice_id", invoice.id))


def finalize_due(work: Work, task: FinalizeInvoice) -> None:
    """Job: the grace period of a draft is over."""
    invoice = work.tx.get(Invoice, task.invoice_id)
    if invoice is not None and invoice.status == InvoiceStatus.DRAFT:
        finalize(work, invoice)
