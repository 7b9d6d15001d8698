"""The schedule of a subscription: all its jobs that time makes due.

Their subject is the customer, so that `settle_backlog` finds a customer's overdue jobs. If the due instant moves (a new
time zone, another `ending_at`), the old job does nothing: the change has scheduled another.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from usagebill.core.contracts import Contract
from usagebill.core.instants import MICROSECOND
from usagebill.core.periods.schedule import (
    activation_at,
    ending_at_instant,
    next_billing_run,
    next_termination_alert,
    trial_end_run,
)
from usagebill.core.subscriptions import UNENDED, Subscription, SubscriptionStatus, known_since
from usagebill.core.tasks import ActivateSubscription, AnnounceTermination, BillCustomer, EndSubscription, EndTrial
from usagebill.queries.billing_periods import billed_through_day
from usagebill.queries.contracts import contract_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, within

_A_DAY = timedelta(days=1)


def schedule(work: Work, contract: Contract, *, overdue: bool = False) -> None:
    """Schedule all jobs of the subscription in its current state.

    With `overdue`, jobs that were due before now stay.
    """
    subscription = contract.subscription
    forget(work, subscription, but_overdue=overdue)
    if subscription.status == SubscriptionStatus.PENDING and subscription.previous_subscription_id is None:
        _at(work, subscription, ActivateSubscription, activation_at(subscription.subscription_at, contract.zone))
    if subscription.status == SubscriptionStatus.ACTIVE:
        schedule_billing(work, contract)
        _schedule_trial_end(work, contract)
    ending_at = subscription.ends_at
    if subscription.status == SubscriptionStatus.ACTIVE and ending_at is not None:
        _at(work, subscription, EndSubscription, ending_at_instant(ending_at, contract.zone))
        schedule_alert(work, subscription)


def forget(work: Work, subscription: Subscription, *, but_overdue: bool = False) -> None:
    """Drop the jobs of a subscription. Runs of the customer stay: they find out themselves what is due."""
    for task_type in (ActivateSubscription, EndSubscription, EndTrial, AnnounceTermination):
        task = task_type(customer_id=subscription.customer_id, subscription_id=subscription.id)
        waiting = work.tx.jobs.get(task.key) if but_overdue else None
        if waiting is None or waiting.due_at >= work.now:
            work.cancel(task)


def reschedule_customer(work: Work, customer_id: str) -> None:
    """Reschedule the customer's subscriptions after a change of its time zone.

    Overdue (failing) jobs stay: they run as of their due instant in the time zone of that time.
    """
    for subscription in work.tx.find(Subscription, eq("customer_id", customer_id), within("status", UNENDED)):
        schedule(work, contract_of(work, subscription), overdue=True)


def schedule_billing(work: Work, contract: Contract) -> None:
    """Schedule the customer's next run, after now, that bills the subscription."""
    work.schedule(BillCustomer(customer_id=contract.customer.id), next_run(work, contract))


def next_run(reader: Reader, contract: Contract) -> datetime:
    """The instant of the customer's next run, after now, that bills the subscription."""
    return _next_run(reader, contract, after=reader.now)


def is_due(reader: Reader, contract: Contract) -> bool:
    """Whether a run at this instant bills the subscription."""
    return _next_run(reader, contract, after=reader.now - MICROSECOND) == reader.now


def awaits_run(reader: Reader, subscription: Subscription, start: datetime) -> bool:
    """Whether the run at the opening of the period from `start`, which bills the closed one, is still to come."""
    due = _next_run(reader, contract_of(reader, subscription), after=start - MICROSECOND)
    run = BillCustomer(customer_id=subscription.customer_id).job_key("", due)
    return due < start + _A_DAY and reader.tx.jobs.get(run) is not None


def _next_run(reader: Reader, contract: Contract, *, after: datetime) -> datetime:
    subscription, periods = contract.subscription, contract.cycle()
    return next_billing_run(
        periods,
        after,
        billed_on=billed_through_day(reader, contract, periods),
        known_since=known_since(subscription),
        ending_at=subscription.ends_at,
    )


def _schedule_trial_end(work: Work, contract: Contract) -> None:
    subscription = contract.subscription
    ends_at = end_of_trial(work, subscription, contract.plan.trial_period)
    if subscription.trial_ended_at is None and ends_at is not None:
        _at(work, subscription, EndTrial, trial_end_run(max(ends_at, work.now)))


def schedule_alert(work: Work, subscription: Subscription) -> None:
    """Schedule the next termination alert of the subscription."""
    ending_at = subscription.ends_at
    if ending_at is None:
        return
    alert = next_termination_alert(
        ending_at,
        work.now,
        days=work.settings.termination_alert_days,
        announced_at=subscription.termination_announced_at,
    )
    if alert is not None:
        _at(work, subscription, AnnounceTermination, alert)


def _at(
    work: Work,
    subscription: Subscription,
    task_type: type[ActivateSubscription | EndSubscription | EndTrial | AnnounceTermination],
    due_at: datetime,
) -> None:
    task = task_type(customer_id=subscription.customer_id, subscription_id=subscription.id)
    work.schedule(task, max(due_at, work.now))
