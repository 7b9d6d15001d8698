"""Ends of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from usagebill.core.contracts import Contract
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoice_triggers import at_trial_end
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoicingReason
from usagebill.core.invoices.records import Invoice
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import EndTrial
from usagebill.core.trials import is_billed_after
from usagebill.operations.invoices.subscription import bill
from usagebill.queries.contracts import contract_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, ne, related
from usagebill.views.subscriptions import subscription_webhook_view


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
        # As of the end itself, which may lie in another period than now.
        bill_trial_end(work, contract, ends_at, at=ends_at, dated=work.now)


def bill_ended_trial(work: Work, contract: Contract) -> Contract:
    """Bill the end of a trial that is over before the subscription ends: the check that would notice it within the hour
    is dropped with it.
    """
    ends_at = end_of_trial(work, contract.subscription, contract.plan.trial_period)
    if contract.subscription.trial_ended_at is not None or ends_at is None or ends_at > work.now:
        return contract
    return bill_trial_end(work, contract, ends_at, at=ends_at, dated=work.now)


def bill_trial_end(
    work: Work, contract: Contract, ends_at: datetime, *, at: datetime, dated: datetime | None = None
) -> Contract:
    """End the trial, and bill the rest of the period at `at` in advance unless that is done; `dated` is for one billed
    belatedly.
    """
    contract, plan = pass_trial(work, contract, ends_at), contract.plan
    # A trial of the same external id may have ended before this subscription began.
    billed_from = max(ends_at, contract.subscription.started_at or ends_at)
    trigger = at_trial_end(
        pay_in_advance=plan.pay_in_advance,
        is_billed=plan.pay_in_advance and is_billed_after(billed_from, _subscription_fees(work, contract)),
    )
    if trigger is not None:
        entries = [Entry(contract=contract, reason=InvoicingReason.STARTING)]
        bill(work, entries, at=max(at, billed_from), trigger=trigger, dated=dated)
    ended = contract.subscription
    work.emit("subscription.trial_ended", lambda: subscription_webhook_view(work, ended), ended.id)
    return contract


def pass_trial(work: Work, contract: Contract, ends_at: datetime) -> Contract:
    """Note that the trial is over, so that its end is not billed any more."""
    ended = replace(contract.subscription, trial_ended_at=ends_at, updated_at=work.now)
    work.tx.replace(ended)
    return contract.of(ended)


def _subscription_fees(reader: Reader, contract: Contract) -> Sequence[Fee]:
    return reader.tx.find(
        Fee,
        eq("subscription_id", contract.subscription.id),
        eq("fee_type", FeeType.SUBSCRIPTION),
        related(Invoice, "invoice_id", ne("status", InvoiceStatus.DELETED)),
    )
