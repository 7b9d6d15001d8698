"""Ends: by request, at `ending_at`, or before the start."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import Invalid, NotFound
from usagebill.core.invoice_triggers import at_end
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.periods.schedule import ending_at_instant
from usagebill.core.subscription_changes import canceled, ended, with_termination_options
from usagebill.core.subscription_requests import termination_problems
from usagebill.core.subscriptions import (
    Subscription,
    SubscriptionStatus,
    TerminationCredit,
)
from usagebill.core.tasks import AnnounceTermination, EndSubscription
from usagebill.operations.alert_watch import check_before_end
from usagebill.operations.backlog import after_backlog, of_subscriptions
from usagebill.operations.draft_invoices import keep_plan
from usagebill.operations.invoices.advance_charges import regroup
from usagebill.operations.invoices.subscription import bill
from usagebill.operations.subscriptions.activation import cancel_waiting
from usagebill.operations.subscriptions.change import bill_closed_period, cancel_downgrade
from usagebill.operations.subscriptions.inputs import SubscriptionTermination
from usagebill.operations.subscriptions.reading import get_of_status
from usagebill.operations.subscriptions.schedule import forget, schedule, schedule_alert
from usagebill.operations.subscriptions.trial import bill_ended_trial
from usagebill.operations.subscriptions.unused_time import credit_unused_time
from usagebill.operations.wallet_ledger import want_refresh
from usagebill.queries.contracts import contract_of
from usagebill.rating.invoice import Entry
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.views.subscriptions import entitled_subscription, subscription_webhook_view


@after_backlog(of_subscriptions, needed=True)
def delete(work: Work, external_id: str, options: SubscriptionTermination) -> Subscription:
    """End the active subscription with this external id now, or cancel the pending one (`status`).

    Raises `NotFound`, `Invalid` for unknown options, and `NotAllowed` while the taxes of a fee to be credited are
    unknown.
    """
    if options.status == SubscriptionStatus.PENDING:
        return cancel_pending(work, get_of_status(work, external_id, SubscriptionStatus.PENDING))
    active = get_of_status(work, external_id)
    return terminate(
        work,
        active,
        credit_note=options.on_termination_credit_note or None,
        invoice=options.on_termination_invoice or None,
        by_request=True,
    )


def termination_options(advance: bool, credit_note: object, invoice: object) -> None:
    """Raises `Invalid` for unknown options. In arrears there is nothing to credit, so that option is not checked."""
    problems = termination_problems(credit_note, invoice, pay_in_advance=advance)
    if problems:
        raise Invalid(problems)


def terminate(
    work: Work,
    subscription: Subscription,
    *,
    credit_note: str | None = None,
    invoice: str | None = None,
    by_request: bool = False,
) -> Subscription:
    """End an active subscription now: bill its open periods and credit unused prepaid days.

    Options default to those stored on the subscription, then to credit and generate. A scheduled downgrade is canceled.
    """
    if work.tx.first(
        Subscription, eq("previous_subscription_id", subscription.id), eq("status", SubscriptionStatus.INCOMPLETE)
    ):
        raise Invalid(base="next_subscription_incomplete")
    contract = contract_of(work, subscription)
    advance = contract.plan.pay_in_advance
    termination_options(advance, credit_note, invoice)
    contract = bill_ended_trial(work, bill_closed_period(work, contract))
    subscription = contract.subscription
    check_before_end(work, subscription)
    chosen = with_termination_options(subscription, credit_note=credit_note, invoice=invoice, pay_in_advance=advance)
    last = ended(chosen, work.now)
    contract = contract.of(last)
    entries = [Entry(contract=contract, reason=InvoicingReason.TERMINATING)]
    trigger = at_end(last.on_termination_invoice)
    if chosen != subscription:
        work.tx.replace(chosen)
        work.emit("subscription.updated", lambda: entitled_subscription(work, chosen), chosen.id)
    work.tx.replace(last)
    keep_plan(work, last)
    forget(work, last)
    cancel_downgrade(work, last)
    work.emit("subscription.terminated", lambda: subscription_webhook_view(work, last), last.id)
    if advance:
        credit_unused_time(
            work, contract, option=last.on_termination_credit_note or TerminationCredit.CREDIT, by_request=by_request
        )
    if trigger is not None:
        bill(work, entries, at=work.now, trigger=trigger)
    regroup(work, [last], work.now, renewing=False)
    want_refresh(work, last.customer_id)
    return last


def cancel_pending(work: Work, pending: Subscription) -> Subscription:
    """Cancel a subscription that has not started, with its phases: one for a later date, a scheduled downgrade, or the
    phases from this one on.
    """
    dropped = canceled(pending, work.now)
    work.tx.replace(dropped)
    cancel_downgrade(work, dropped)
    forget(work, dropped)
    work.emit("subscription.terminated", lambda: subscription_webhook_view(work, dropped), dropped.id)
    if pending.previous_subscription_id is not None:
        previous = work.tx.get(Subscription, pending.previous_subscription_id)
        if previous is None:
            raise NotFound("subscription", pending.previous_subscription_id)
        work.emit("subscription.updated", lambda: entitled_subscription(work, previous), previous.id)
    return dropped


def end_due(work: Work, task: EndSubscription) -> None:
    """Job: end a subscription on the local date of its `ending_at`."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    ending_at = None if subscription is None else subscription.ends_at
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE or ending_at is None:
        return
    contract = contract_of(work, subscription)
    if ending_at_instant(ending_at, contract.zone) > work.now:
        schedule(work, contract)
        return
    # A successor that waits for its payment would have ended with it.
    cancel_waiting(work, eq("previous_subscription_id", subscription.id))
    terminate(work, subscription)


def announce_due(work: Work, task: AnnounceTermination) -> None:
    """Job: announce the coming end of a subscription."""
    subscription = work.tx.get(Subscription, task.subscription_id)
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE:
        return
    announced = replace(subscription, termination_announced_at=work.now)
    work.tx.replace(announced)
    work.emit("subscription.termination_alert", lambda: subscription_webhook_view(work, announced), announced.id)
    schedule_alert(work, announced)
