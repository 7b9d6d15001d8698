"""Storing a bill: the one place where a computed invoice becomes records, messages and jobs."""

from __future__ import annotations

from typing import TypeVar

from usagebill.core.bills import Bill, Step
from usagebill.core.copies import replace
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import IN_ARREARS, WHOLE_REASONS
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.tax_providers import TaxSubject
from usagebill.operations import payment_receipts
from usagebill.operations.alert_watch import watch_lifetime_usage
from usagebill.operations.credit_notes.automatic import on_surplus
from usagebill.operations.credit_notes.drafts import follow
from usagebill.operations.invoices.issue import await_payment, draft, issue
from usagebill.operations.invoices.standalone_fees import keep_standalone
from usagebill.operations.tax_connections import ask_about
from usagebill.operations.wallet_ledger import pay, want_refresh
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

T = TypeVar("T")


def record(work: Work, bill: Bill) -> Invoice:
    """Store the bill, and take its invoice to its `step`. The invoice's number is taken last.

    The bill's lines replace those of a stored invoice; the credit notes of a draft follow them.
    """
    bill = _named_version(work, bill)
    invoice = bill.invoice
    former: list[Fee] = []
    if bill.is_new:
        work.tx.insert(invoice, *bill.periods)
    else:
        former = work.tx.find(Fee, eq("invoice_id", invoice.id), deleted=True)
        work.tx.delete(*former)
        work.tx.replace(invoice)
    work.tx.insert(*bill.fees)
    if invoice.tax_request_id is not None:
        ask_about(work, TaxSubject.INVOICE, invoice.id, request_id=invoice.tax_request_id)
    for changed in bill.changed:
        work.tx.replace(changed)
    pay(work, bill.prepaid)
    _give_back(work, bill)
    if not bill.is_new:
        follow(work, invoice, former)
    want_refresh(work, invoice.customer_id)
    work.tx.insert(*bill.ledger_entries)
    if bill.payment is not None:
        work.tx.insert(bill.payment)
    for fee in bill.standalone_fees:
        keep_standalone(work, fee)
    watch_lifetime_usage(work, invoice)
    if bill.step is not Step.STAY:
        work.divides_time |= any(map(_bills_usage, (*bill.periods, *bill.changed)))
    if bill.step is Step.DRAFT:
        return draft(work, invoice, bill.contracts)
    if bill.step is Step.AWAIT_PAYMENT:
        return await_payment(work, invoice)
    if bill.step is Step.ISSUE:
        invoice = issue(
            work,
            invoice,
            parties=bill.parties,
            contracts=bill.contracts,
            periods=bill.periods if bill.is_new else None,
            may_be_empty=bill.may_be_empty,
            message=bill.message,
        )
    if bill.payment is not None:
        payment_receipts.issue(work, bill.payment)
    return invoice


def _named_version(work: Work, bill: Bill) -> Bill:
    """The bill with the price version on those fees and billing periods that were computed now and have none yet."""
    version = work.price_version

    def named(record: T) -> T:
        if not isinstance(record, Fee | BillingPeriod) or record.price_version is not None:
            return record
        return replace(record, price_version=version)

    return replace(
        bill,
        fees=tuple(map(named, bill.fees)),
        periods=tuple(map(named, bill.periods)),
        changed=tuple(map(named, bill.changed)),
    )


def _bills_usage(record: object) -> bool:
    if not isinstance(record, BillingPeriod) or record.counted is None:
        return False
    return record.invoicing_reason in WHOLE_REASONS and IN_ARREARS[record.invoicing_reason].usage


def _give_back(work: Work, bill: Bill) -> None:
    for surplus in bill.surpluses:
        progressive = work.tx.get(Invoice, surplus.invoice_id)
        if progressive is not None:
            on_surplus(work, progressive, surplus)
