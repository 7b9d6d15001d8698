"""Progress of dunning: when customers are asked next, and when their attempts are reset."""

from __future__ import annotations

from usagebill.core.customers import Customer
from usagebill.core.dunning import next_run_at, reset
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import ChaseCustomer, ReviewDunning
from usagebill.queries.customers import find_customer
from usagebill.queries.dunning import applicable_campaign, progress_of
from usagebill.queries.payment_requests import requests_of_invoice
from usagebill.runtime.work import Work


def watch(work: Work, customer_id: str) -> None:
    """Schedule a check of whether the customer is to be asked, at the next possible run.

    Call it when more is overdue, or when anything else that decides it has changed.
    """
    customer = find_customer(work, customer_id)
    campaign = None if customer is None else applicable_campaign(work, customer)
    task = ChaseCustomer(customer_id=customer_id)
    work.cancel(task)
    if campaign is not None:
        work.schedule(task, next_run_at(campaign, progress_of(work, customer_id), work.now))


def review(work: Work) -> None:
    """Schedule a check of every customer with overdue invoices: a campaign, or its scope, has changed."""
    work.schedule(ReviewDunning(organization_id=work.organization.id), work.now)


def was_paid(work: Work, invoice: Invoice) -> None:
    """Reset the attempts in the invoice's currency, if a campaign had asked for the invoice that was now paid."""
    if any(request.dunning_campaign_id is not None for request in requests_of_invoice(work, invoice.id)):
        paid_in(work, invoice.customer_id, invoice.currency)


def paid_in(work: Work, customer_id: str, currency: str) -> None:
    """Reset the attempts in a currency: the amount that a campaign asked for was paid."""
    progress = progress_of(work, customer_id)
    if progress is None or not progress.attempts.get(currency):
        return
    work.tx.replace(reset(progress, currency, work.now))
    watch(work, customer_id)


def clear(work: Work, customer: Customer) -> None:
    """Reset all attempts of the customer: another campaign applies, or none."""
    progress = progress_of(work, customer.id)
    if progress is not None:
        work.tx.delete(progress)
