"""Progress of dunning: when customers are asked next, and what makes their attempts count afresh."""

from __future__ import annotations

from usagebill.core.customers import Customer
from usagebill.core.dunning import next_run_at, reset
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import ChaseCustomer, ReviewDunning
from usagebill.queries.customers import find_customer
from usagebill.queries.dunning import applicable_campaign, progress_of
from usagebill.queries.payment_requests import requests_of_invoice
from usagebill.work import Work

__all__ = ["clear", "paid_in", "review", "was_paid", "watch"]


def watch(work: Work, customer_id: str) -> None:
    """Have it looked at whether the customer is to be asked, at the next run at which it may be.

    Call it when more is overdue, or when something else that decides it has changed.
    """
    customer = find_customer(work, customer_id)
    campaign = None if customer is None else applicable_campaign(work, customer)
    task = ChaseCustomer(customer_id=customer_id)
    work.cancel(task)
    if campaign is not None:
        work.schedule(task, next_run_at(campaign, progress_of(work, customer_id), work.now))


def review(work: Work) -> None:
    """Have it looked at for every customer with overdue invoices: a campaign, or where one applies, has changed."""
    work.schedule(ReviewDunning(organization_id=work.organization.id), work.now)


def was_paid(work: Work, invoice: Invoice) -> None:
    """An overdue invoice was paid: if a campaign had asked for it, attempts in its currency count afresh."""
    if any(request.dunning_campaign_id is not None for request in requests_of_invoice(work, invoice.id)):
        paid_in(work, invoice.customer_id, invoice.currency)


def paid_in(work: Work, customer_id: str, currency: str) -> None:
    """What a campaign asked for in a currency was paid: attempts count afresh in it."""
    progress = progress_of(work, customer_id)
    if progress is None or not progress.attempts.get(currency):
        return
    work.tx.replace(reset(progress, currency, work.now))
    watch(work, customer_id)


def clear(work: Work, customer: Customer) -> None:
    """All attempts of the customer count afresh: another campaign asks, or none."""
    progress = progress_of(work, customer.id)
    if progress is not None:
        work.tx.delete(progress)
