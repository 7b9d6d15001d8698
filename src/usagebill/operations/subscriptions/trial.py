"""Ends of trials."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from zoneinfo import ZoneInfo

from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoice_triggers import at_trial_end
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import EndTrial
from usagebill.core.trials import billed_at_start, billed_through_trial
from usagebill.operations.invoices.subscription import bill
from usagebill.queries.contracts import contract_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.storage.conditions import eq
from usagebill.views.subscriptions import subscription_webhook_view
from usagebill.work import Reader, Work

__all__ = ["end_trial"]


def end_trial(work: Work, task: EndTrial) -> None:
    """Job: at the end of a trial, bill the rest of the period in advance, unless a run or the start has done so."""
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
    trigger = at_trial_end(
        pay_in_advance=plan.pay_in_advance,
        billed_since=billed_through_trial(_last_run_on(contract), ends_at, contract.zone),
        billed_at_start=plan.pay_in_advance and _billed_at_start(work, contract),
    )
    if trigger is not None:
        bill(work, [Entry(contract=contract, reason=InvoicingReason.STARTING)], at=work.now, trigger=trigger)
    work.emit("subscription.trial_ended", lambda: subscription_webhook_view(work, ended), ended.id)


def _last_run_on(contract: Contract) -> date | None:
    """The local date of the last run, in the customer's time zone of that time."""
    last = contract.last_run
    return None if last is None else local_date(last.timestamp, ZoneInfo(last.timezone))


def _billed_at_start(reader: Reader, contract: Contract) -> bool:
    subscription = contract.subscription
    if subscription.started_at is None:
        return False
    of_subscription = eq("subscription_id", subscription.id)
    return billed_at_start(
        subscription.started_at,
        contract.zone,
        periods=reader.tx.find(BillingPeriod, of_subscription),
        subscription_fees=reader.tx.find(Fee, of_subscription, eq("fee_type", FeeType.SUBSCRIPTION)),
    )
