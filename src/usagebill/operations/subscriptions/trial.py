"""Trials: what happens when the days end in which a subscription's fee is free."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from usagebill.core.contracts import Contract
from usagebill.core.dates import Occasion
from usagebill.core.days import local_date
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import EndTrial
from usagebill.operations.invoices.subscription import bill
from usagebill.queries.contracts import contract_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.storage.conditions import eq
from usagebill.views.subscriptions import subscription_webhook_view
from usagebill.work import Reader, Work

__all__ = ["end_trial"]


def end_trial(work: Work, task: EndTrial) -> None:
    """Job: a trial is over. In advance, the rest of the period is billed, unless a run or the start has done so."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    if (
        subscription is None
        or subscription.status != SubscriptionStatus.ACTIVE
        or subscription.trial_ended_at is not None
    ):
        return
    contract = contract_of(work, subscription)
    plan = contract.plan
    ends_at = end_of_trial(work, subscription, plan.trial_period)
    if ends_at is None:
        return
    ended = replace(subscription, trial_ended_at=ends_at, updated_at=work.now)
    contract = contract.of(ended)
    work.tx.replace(ended)
    if plan.pay_in_advance and not _billed_since(contract, ends_at) and not _billed_at_start(work, contract):
        bill(
            work,
            [Entry(contract=contract, reason=InvoicingReason.STARTING)],
            at=work.now,
            occasion=Occasion.SUBSCRIPTION,
            skip_charges=True,
        )
    work.emit("subscription.trial_ended", lambda: subscription_webhook_view(work, ended), ended.id)


def _billed_since(contract: Contract, ends_at: datetime) -> bool:
    """Whether a run on the day of the trial's end, or later, has billed the subscription: it billed that day too.

    The end is noticed within the hour after it, which may be the next day.
    """
    last = contract.last_run
    if last is None:
        return False
    day = local_date(ends_at, contract.zone)
    return local_date(last.timestamp, ZoneInfo(last.timezone)) >= day


def _billed_at_start(reader: Reader, contract: Contract) -> bool:
    """Whether an invoice of the day of the start carries a subscription fee."""
    subscription, tz = contract.subscription, contract.zone
    if subscription.started_at is None:
        return False
    started_on = local_date(subscription.started_at, tz)
    billed = {
        fee.invoice_id
        for fee in reader.tx.find(Fee, eq("subscription_id", subscription.id), eq("fee_type", FeeType.SUBSCRIPTION))
    }
    return any(
        period.invoice_id in billed and local_date(period.timestamp, tz) == started_on
        for period in reader.tx.find(BillingPeriod, eq("subscription_id", subscription.id))
    )
