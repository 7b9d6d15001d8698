"""Subscription invoices: one or more subscriptions of a customer billed at a start, run, change or end."""

from __future__ import annotations

from collections.abc import Sequence
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
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


def bill(
    work: Work,
    entries: Sequence[Entry],
    *,
    at: datetime,
    trigger: Trigger,
    hidden: bool = False,
    dated: datetime | None = None,
) -> Invoice | None:
    """Invoice `entries` (of one customer, currency and billing entity) with billing timestamp `at`.

    The invoice is a draft during the customer's grace period, and issued at once without one; with `hidden` it stays
    hidden until it is paid. It is dated for `at`, or for `dated` if that time is billed belatedly. None if a run has
    billed one of the subscriptions for the same periods already.
    """
    make = partial(subscription_bill, entries=entries, at=at, trigger=trigger, hidden=hidden, dated=dated)
    owed = work.computed(
        ("bill", *((entry.contract.subscription.id, entry.reason) for entry in entries)),
        make,
        inputs=(entries, at, trigger, hidden, dated),
        customer_id=entries[0].contract.customer.id,
        subscriptions=lambda: len(entries),
    )
    return None if owed is None else record(work, owed)


def bill_added_units(
    work: Work,
    contract: Contract,
    charges: Sequence[FixedCharge],
    *,
    at: datetime,
    hidden: bool = False,
    dated: datetime | None = None,
) -> Invoice:
    """Invoice at once the units of `charges` (fixed, paid in advance) beyond those billed for the period.

    `at` is the instant of the change, or of the start; `dated` is for one billed belatedly. The invoice is never a
    draft; with `hidden` it stays hidden until it is paid.
    """
    owed = added_units_bill(work, contract, charges, at=at, dated=dated)
    grace_period = contract.parties.dating.grace_period
    return record(work, replace(owed, step=step_of(Trigger.ADDED_UNITS, grace_period=grace_period, hidden=hidden)))


def compute(work: Work, invoice: Invoice, *, finalizing: bool) -> Invoice:
    """The draft, recomputed from current records and stored."""
    make = partial(recomputed_bill, draft=invoice, finalizing=finalizing)
    key = ("draft", invoice.id, finalizing)
    billed = partial(_billed, work, invoice)
    owed = work.computed(key, make, inputs=invoice, customer_id=invoice.customer_id, subscriptions=billed)
    return record(work, owed)


def finalize(work: Work, invoice: Invoice) -> Invoice:
    """Finalize a draft now, recomputed from current records, dated today unless it keeps its anchor."""
    owed = work.computed(
        ("finalized", invoice.id),
        partial(finalized_bill, draft=invoice),
        inputs=invoice,
        customer_id=invoice.customer_id,
        subscriptions=partial(_billed, work, invoice),
    )
    work.cancel(FinalizeInvoice(customer_id=invoice.customer_id, invoice_id=invoice.id))
    return record(work, owed)


def _billed(reader: Reader, invoice: Invoice) -> int:
    """The number of subscriptions that the invoice bills."""
    return reader.tx.count(BillingPeriod, eq("invoice_id", invoice.id))


def finalize_due(work: Work, task: FinalizeInvoice) -> None:
    """Job: finalize a draft at the end of its grace period."""
    invoice = work.tx.get(Invoice, task.invoice_id)
    if invoice is not None and invoice.status == InvoiceStatus.DRAFT:
        finalize(work, invoice)
