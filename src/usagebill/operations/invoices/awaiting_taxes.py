"""Invoices that wait for their taxes, because it is not known yet what their customer is taxed with.

They are made as any other: their fees, and the coupons that they use, stay what they are. What follows from the taxes
is added once these are known, and the invoice is issued then, with the dates of that day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from usagebill.core.customers import Customer
from usagebill.core.error_details import TAX_ERROR, without
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceEvent, transition
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.operations.credit_notes.drafts import follow
from usagebill.operations.invoices.issue import copy_subscriptions, issue, redated, tell_ready
from usagebill.operations.invoices.subscription import compute
from usagebill.operations.invoices.totals import settle_taxes, waits_for_vat_check, with_request
from usagebill.queries.customers import customer_of
from usagebill.queries.tax_connections import connection_of
from usagebill.storage.conditions import asc, eq
from usagebill.work import Work

__all__ = ["issue_taxed", "tax_waiting", "wait_again"]


def wait_again(work: Work, invoice: Invoice) -> Invoice:
    """Have an invoice that failed for want of its taxes wait for them again: they are asked for anew.

    Raises `NotAllowed` for any other invoice.
    """
    customer = customer_of(work, invoice)
    again = replace(
        invoice,
        status=transition(invoice.status, InvoiceEvent.RETRY),
        tax_status="pending",
        error_details=without(invoice.error_details, TAX_ERROR),
        updated_at=work.now,
    )
    again = with_request(work, customer, again)
    work.tx.replace(again)
    if again.tax_request_id is None:
        # Its customer has no provider any more, which does not mean that its taxes are known.
        work.schedule("tax_waiting_invoices", customer.id, work.now)
    return again


def tax_waiting(work: Work, job: Job) -> None:
    """Job: the taxes of a customer are known, so its invoices that wait for them go on. Drafts stay drafts.

    Where a tax provider decides on them by now, it is asked about each.
    """
    customer = work.tx.get(Customer, job.subject_id, deleted=True)
    if customer is None:
        return
    provider = connection_of(work, customer)
    if provider is None and waits_for_vat_check(work, customer):
        return
    waiting = work.tx.find(
        Invoice,
        eq("customer_id", customer.id),
        eq("tax_status", "pending"),
        order=[asc("created_at"), asc("id")],
    )
    for invoice in waiting:
        if provider is not None:
            work.tx.replace(with_request(work, customer, invoice))
        elif invoice.status == "draft":
            _tax_draft(work, invoice)
        elif invoice.status == "pending":
            fees = work.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at"), asc("id")])
            issue_taxed(work, invoice, fees, fees)


def _tax_draft(work: Work, invoice: Invoice) -> None:
    taxed = compute(work, invoice, finalizing=False)
    copy_subscriptions(work, taxed)
    tell_ready(work, taxed)


def issue_taxed(
    work: Work, invoice: Invoice, before: Sequence[Fee], fees: Sequence[Fee], *, provided: bool = False
) -> None:
    """Issue an invoice that has waited for its taxes, now that they are known: `provided`, where the fees have them.

    `before` are the fees as they are stored.
    """
    taxed, fees = settle_taxes(work, invoice, fees, provided=provided)
    for fee in fees:
        work.tx.replace(fee)
    work.tx.replace(taxed)
    follow(work, taxed, before)
    one_off = invoice.invoice_type == "one_off"
    issue(
        work,
        redated(work, taxed),
        may_be_empty=invoice.invoice_type != "progressive_billing",
        message="invoice.one_off_created" if one_off else "invoice.created",
    )
