"""Ends of trials."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
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

__all__ = ["bill_trial_end", "end_trial", "pass_trial"]


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
    ends_at = end_of_trial(work, subscription, contract.plan.trial_period)
    if ends_at is not None:
        bill_trial_end(work, contract, ends_at, at=work.now)


def bill_trial_end(
    work: Work, contract: Contract, ends_at: datetime, *, at: datetime, dated: datetime | None = None
) -> Contract:
    """End the trial, and bill the rest of the period at `at` in advance unless that is done; `dated` is for one billed
    belatedly.
    """
    contract, plan = pass_trial(work, contract, ends_at), contract.plan
    trigger = at_trial_end(
        pay_in_advance=plan.pay_in_advance,
        billed_since=billed_through_trial(_last_run_on(contract), ends_at, contract.zone),
        billed_at_start=plan.pay_in_advance and _billed_at_start(work, contract),
    )
    if trigger is not None:
        entries = [Entry(contract=contract, reason=InvoicingReason.STARTING)]
        bill(work, entries, at=at, trigger=trigger, dated=dated)
    ended = contract.subscription
    work.emit("subscription.trial_ended", lambda: subscription_webhook_view(work, ended), ended.id)
    return contract


def pass_trial(work: Work, contract: Contract, ends_at: datetime) -> Contract:
    """Note that the trial is over, so that its end is not billed any more."""
    ended = replace(contract.subscription, trial_ended_at=ends_at, updated_at=work.now)
    work.tx.replace(ended)
    return contract.of(ended)


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
