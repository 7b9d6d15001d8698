"""Invoices that wait for their taxes, because the customer's taxes are not known yet.

Their fees and the coupons they use are final. Once the taxes are known, taxes and the credits after them are added, and
the invoice is issued with the dates of that day.
"""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.customers import Customer
from usagebill.core.error_details import TAX_ERROR, without
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceEvent, InvoiceStatus, transition
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import TaxStatus
from usagebill.core.tasks import TaxWaitingInvoices
from usagebill.core.tax_providers import TaxSubject
from usagebill.operations.invoices.issue import copy_subscriptions, tell_ready
from usagebill.operations.invoices.record import record
from usagebill.operations.invoices.subscription import compute
from usagebill.operations.tax_connections import ask_about
from usagebill.queries.customers import customer_of
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.invoice import taxed_bill
from usagebill.rating.settlement import waits_for_vat_check, with_request
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq


def wait_again(work: Work, invoice: Invoice) -> Invoice:
    """Put an invoice that failed for lack of taxes back to waiting, and request them again.

    Raises `NotAllowed` for any other invoice.
    """
    customer = customer_of(work, invoice)
    again = replace(
        invoice,
        status=transition(invoice.status, InvoiceEvent.RETRY),
        tax_status=TaxStatus.PENDING,
        error_details=without(invoice.error_details, TAX_ERROR),
        updated_at=work.now,
    )
    again = with_request(work, customer, again)
    _ask(work, again)
    if again.tax_request_id is None:
        # Its customer has lost its provider, which does not make its taxes known.
        work.schedule(TaxWaitingInvoices(customer_id=customer.id), work.now)
    return again


def tax_waiting(work: Work, task: TaxWaitingInvoices) -> None:
    """Job: the taxes of a customer are known, so its waiting invoices are taxed. Drafts stay drafts.

    If a tax provider decides on them by now, it is asked about each.
    """
    customer = work.tx.get(Customer, task.customer_id, deleted=True)
    if customer is None:
        return
    provider = connection_of(work, customer)
    if provider is None and waits_for_vat_check(work, customer):
        return
    waiting = work.tx.find(
        Invoice,
        eq("customer_id", customer.id),
        eq("tax_status", TaxStatus.PENDING),
        order=[asc("created_at"), asc("id")],
    )
    for invoice in waiting:
        if provider is not None:
            _ask(work, with_request(work, customer, invoice))
        elif invoice.status == InvoiceStatus.DRAFT:
            _tax_draft(work, invoice)
        elif invoice.status == InvoiceStatus.PENDING:
            fees = work.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at"), asc("id")])
            record(work, taxed_bill(work, invoice, fees))


def _tax_draft(work: Work, invoice: Invoice) -> None:
    taxed = compute(work, invoice, finalizing=False)
    copy_subscriptions(work, taxed)
    tell_ready(work, taxed)


def _ask(work: Work, invoice: Invoice) -> None:
    """Store the invoice, and schedule the request to its customer's tax provider, if there is one."""
    work.tx.replace(invoice)
    if invoice.tax_request_id is not None:
        ask_about(work, TaxSubject.INVOICE, invoice.id, request_id=invoice.tax_request_id)
