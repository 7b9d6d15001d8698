"""Dunning runs: customers are asked to pay overdue invoices, as their campaigns say."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.dunning import (
    DunningCampaign,
    DunningProgress,
    attempted,
    currencies_to_attempt,
    is_finished,
    next_run_at,
    overdue_balances,
    requested_together,
)
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import ChaseCustomer, ReviewDunning
from usagebill.operations import payment_requests
from usagebill.operations.dunning_progress import watch
from usagebill.queries.customers import find_customer
from usagebill.queries.dunning import applicable_campaign, overdue_invoices, progress_of
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq, more
from usagebill.views.dunning_campaigns import dunning_finished_view

_REVIEWED_AT_ONCE = 200


def chase(work: Work, task: ChaseCustomer) -> None:
    """Job: ask the customer to pay in each currency that reaches the threshold and has an attempt left.

    An attempt counts as soon as it begins. After the last one `dunning_campaign.finished` is sent; invoices that become
    overdue later trigger another check (`watch`).
    """
    customer = find_customer(work, task.customer_id)
    campaign = None if customer is None else applicable_campaign(work, customer)
    if customer is None or campaign is None:
        return
    current = progress_of(work, customer.id)
    if next_run_at(campaign, current, work.now) > work.now:
        watch(work, customer.id)
        return
    invoices = overdue_invoices(work, customer.id)
    balances = overdue_balances(invoices)
    progress = current or DunningProgress(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=customer.id,
        created_at=work.now,
        updated_at=work.now,
    )
    currencies = currencies_to_attempt(campaign, progress.attempts, balances)
    if not currencies:
        return
    progress = attempted(progress, currencies, work.now)
    if current is None:
        work.tx.insert(progress)
    else:
        work.tx.replace(progress)
    for currency in currencies:
        _attempt(work, customer, campaign, currency, invoices)
    if is_finished(campaign, progress.attempts, balances):
        work.emit(
            "dunning_campaign.finished",
            lambda: dunning_finished_view(work, customer, campaign, balances),
            campaign.id,
        )
    if currencies_to_attempt(campaign, progress.attempts, balances):
        watch(work, customer.id)


def _attempt(work: Work, customer: Customer, campaign: DunningCampaign, currency: str, invoices: list[Invoice]) -> None:
    """Create one payment request per billing entity, over invoices payable now, if they still reach the threshold."""
    by_entity = requested_together(campaign, currency, invoices)
    if not by_entity:
        return
    # Billing entities in the order of their creation, for a stable order of requests.
    for entity in work.tx.find(BillingEntity, order=[asc("created_at"), asc("id")], deleted=True):
        if entity.id in by_entity:
            payment_requests.make(
                work,
                customer,
                by_entity[entity.id],
                email=customer.email,
                bcc=campaign.bcc_emails,
                dunning_campaign_id=campaign.id,
            )


def review_dunning(work: Work, task: ReviewDunning) -> None:
    """Job: schedule checks of customers with overdue invoices, in batches."""
    overdue = work.tx.find(
        Invoice,
        eq("payment_overdue", True),
        more("customer_id", task.after),
        order=[asc("customer_id")],
        limit=_REVIEWED_AT_ONCE,
    )
    customers = list(dict.fromkeys(invoice.customer_id for invoice in overdue))
    for customer_id in customers:
        watch(work, customer_id)
    if len(overdue) == _REVIEWED_AT_ONCE:
        following = ReviewDunning(organization_id=task.organization_id, after=customers[-1])
        work.schedule(following, work.now)
