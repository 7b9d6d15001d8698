"""The schedule of a subscription: every job that time brings about for it.

All of them name the customer as their subject, so that `settle_backlog` finds what a customer still waits for. A job
whose moment has moved (a new time zone, another `ending_at`) does nothing: whatever moved it has scheduled another.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from usagebill.core.contracts import Contract
from usagebill.core.periods.schedule import (
    activation_at,
    ending_at_instant,
    next_billing_run,
    termination_alerts,
    trial_end_run,
)
from usagebill.core.subscriptions import UNENDED, Subscription, SubscriptionStatus, known_since
from usagebill.core.tasks import ActivateSubscription, AnnounceTermination, BillCustomer, EndSubscription, EndTrial
from usagebill.queries.billing_periods import billed_through_day
from usagebill.queries.contracts import contract_of
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.storage.conditions import eq, within
from usagebill.work import Reader, Work

__all__ = [
    "awaits_run",
    "ending_of",
    "forget",
    "has_overdue_end",
    "is_due",
    "next_run",
    "reschedule_customer",
    "schedule",
    "schedule_alert",
    "schedule_billing",
]

_INSTANT = timedelta(microseconds=1)
_A_DAY = timedelta(days=1)
_ALERT_MINUTE = 50
_END_OF_TIME = datetime(9999, 12, 30, tzinfo=UTC)


def ending_of(subscription: Subscription) -> datetime | None:
    """The `ending_at` to go by: the end of time has a date in every time zone a little earlier."""
    return None if subscription.ending_at is None else min(subscription.ending_at, _END_OF_TIME)


def schedule(work: Work, contract: Contract, *, overdue: bool = False) -> None:
    """Schedule everything that time brings about for the subscription as it is now.

    With `overdue`, what was due before now and is not done yet stays as it is.
    """
    subscription = contract.subscription
    forget(work, subscription, but_overdue=overdue)
    if subscription.status == SubscriptionStatus.PENDING and subscription.previous_subscription_id is None:
        _at(work, subscription, ActivateSubscription, activation_at(subscription.subscription_at, contract.zone))
    if subscription.status == SubscriptionStatus.ACTIVE:
        schedule_billing(work, contract)
        _schedule_trial_end(work, contract)
    ending_at = ending_of(subscription)
    if subscription.status == SubscriptionStatus.ACTIVE and ending_at is not None:
        _at(work, subscription, EndSubscription, ending_at_instant(ending_at, contract.zone))
        schedule_alert(work, subscription)


def forget(work: Work, subscription: Subscription, *, but_overdue: bool = False) -> None:
    """Drop the schedule of a subscription. Runs of the customer stay: they look at what is due when they come."""
    for task_type in (ActivateSubscription, EndSubscription, EndTrial, AnnounceTermination):
        task = task_type(customer_id=subscription.customer_id, subscription_id=subscription.id)
        waiting = work.tx.jobs.get(task.key) if but_overdue else None
        if waiting is None or waiting.due_at >= work.now:
            work.cancel(task)


def reschedule_customer(work: Work, customer_id: str) -> None:
    """Move everything the customer's subscriptions wait for, after its time zone has changed.

    What is overdue, because it fails, stays: it is done as of the instant at which it was due in the zone of that time.
    """
    for subscription in work.tx.find(Subscription, eq("customer_id", customer_id), within("status", UNENDED)):
        schedule(work, contract_of(work, subscription), overdue=True)


def schedule_billing(work: Work, contract: Contract) -> None:
    """Schedule the customer's run at which the subscription is due next, after now."""
    work.schedule(BillCustomer(customer_id=contract.customer.id), next_run(work, contract))


def next_run(reader: Reader, contract: Contract) -> datetime:
    """When the customer's run comes at which the subscription is due next, after now."""
    return _next_run(reader, contract, after=reader.now)


def is_due(reader: Reader, contract: Contract) -> bool:
    """Whether a run at this instant bills the subscription."""
    return _next_run(reader, contract, after=reader.now - _INSTANT) == reader.now


def awaits_run(reader: Reader, subscription: Subscription, start: datetime) -> bool:
    """Whether the run that bills what closed when the period from `start` opened is still to come."""
    due = _next_run(reader, contract_of(reader, subscription), after=start - _INSTANT)
    run = BillCustomer(customer_id=subscription.customer_id).job_key("", due)
    return due < start + _A_DAY and reader.tx.jobs.get(run) is not None


def has_overdue_end(contract: Contract, now: datetime) -> bool:
    """Whether the active subscription should have ended by now, and what ends it has failed: nothing is to be billed
    beyond that end, which is still to come.
    """
    if contract.customer.deleted_at is not None or contract.plan.deleted_at is not None:
        return True
    ending_at = ending_of(contract.subscription)
    return ending_at is not None and ending_at_instant(ending_at, contract.zone) < now


def _next_run(reader: Reader, contract: Contract, *, after: datetime) -> datetime:
    subscription, periods = contract.subscription, contract.cycle()
    return next_billing_run(
        periods,
        after,
        billed_on=billed_through_day(reader, contract, periods),
        known_since=known_since(subscription),
        ending_at=ending_of(subscription),
    )


def _schedule_trial_end(work: Work, contract: Contract) -> None:
    subscription = contract.subscription
    ends_at = end_of_trial(work, subscription, contract.plan.trial_period)
    if subscription.trial_ended_at is None and ends_at is not None:
        _at(work, subscription, EndTrial, trial_end_run(max(ends_at, work.now)))


def schedule_alert(work: Work, subscription: Subscription) -> None:
    """The next announcement of the end: on its UTC date at minute 50, once a date."""
    ending_at = ending_of(subscription)
    if ending_at is None:
        return
    today = work.now.astimezone(UTC).date()
    announced = subscription.termination_announced_at
    for alert in termination_alerts(ending_at, work.settings.termination_alert_days):
        if alert.date() == today and alert <= work.now and (announced is None or announced.date() < today):
            alert = work.now.replace(minute=_ALERT_MINUTE, second=0, microsecond=0)
            alert += timedelta(hours=1) if alert <= work.now else timedelta(0)
        if alert > work.now and (alert.date() > today or announced is None or announced.date() < today):
            _at(work, subscription, AnnounceTermination, alert)
            return


def _at(
    work: Work,
    subscription: Subscription,
    task_type: type[ActivateSubscription | EndSubscription | EndTrial | AnnounceTermination],
    due_at: datetime,
) -> None:
    task = task_type(customer_id=subscription.customer_id, subscription_id=subscription.id)
    work.schedule(task, max(due_at, work.now))
