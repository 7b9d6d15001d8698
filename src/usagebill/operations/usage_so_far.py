"""Usage so far in a running period, counted only if it may have reached a relevant amount."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from usagebill.core.events import Event
from usagebill.core.periods.schedule import change_follow_up_at
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckUsageThresholds
from usagebill.core.usage_ceiling import (
    MOST_EVENTS,
    NewUsage,
    UsageCount,
    names_of,
    next_check_at,
    received_after,
    renewed,
)
from usagebill.rating.usage_ceiling import UsageCeiling, usage_ceiling, usage_count
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, eq


def note_events(work: Work, subscription: Subscription, events: Sequence[Event]) -> None:
    """Record new events of a subscription, for the next `amount_if`.

    Every watcher of a subscription records all of its events, from the moment it has something to wait for.
    """
    names = tuple(event.transaction_id for event in events)
    work.tx.insert(
        NewUsage(
            id=work.new_id(),
            organization_id=work.organization.id,
            subscription_id=subscription.id,
            transaction_ids=names if len(names) <= MOST_EVENTS else None,
            created_at=work.now,
        )
    )


def check_new_thresholds(work: Work, *conditions: Condition) -> None:
    """Schedule a check of the matching active subscriptions, whose thresholds have changed.

    It runs at the next multiple of five minutes.
    """
    for subscription in work.tx.find(Subscription, eq("status", SubscriptionStatus.ACTIVE), *conditions):
        task = CheckUsageThresholds(subscription_id=subscription.id, thresholds_changed=True)
        work.schedule(task, change_follow_up_at(work.now))


def stop_watching(work: Work, subscription_id: str) -> None:
    """Drop the recorded usage of a subscription, because nothing waits for it."""
    work.tx.delete(*work.tx.find(NewUsage, eq("subscription_id", subscription_id)))
    work.tx.delete(*work.tx.find(UsageCount, eq("subscription_id", subscription_id)))


def amount_if(
    work: Work,
    subscription: Subscription,
    matters: Callable[[int], bool],
) -> int | None:
    """The amount of the usage of the running charges period known so far, in cents without taxes, if it `matters`.

    None if it certainly does not, which mostly takes no count. If an amount matters, every larger one must too. Much
    usage is counted on a snapshot, before the write lock is taken. What was received after the check was due has a
    check of its own.
    """
    stored = work.tx.first(UsageCount, eq("subscription_id", subscription.id))
    noted = work.tx.find(NewUsage, eq("subscription_id", subscription.id))
    later = received_after(noted, work.known_at)
    known = [new for new in noted if new not in later]
    if later:
        at = next_check_at(later)
        work.at(at).schedule(CheckUsageThresholds(subscription_id=subscription.id), at)
    if stored is not None:
        ceiling = _ceiling(work, subscription, stored, known)
        if ceiling is not None and not matters(ceiling.cents):
            _keep(work, stored, ceiling.count, known)
            return None
    count = work.computed(
        ("usage count", subscription.id),
        partial(usage_count, subscription=subscription),
        inputs=subscription,
        customer_id=subscription.customer_id,
    )
    _keep(work, stored, count, known)
    return count.amount_cents if matters(count.amount_cents) else None


def _ceiling(
    reader: Reader, subscription: Subscription, count: UsageCount, noted: Sequence[NewUsage]
) -> UsageCeiling | None:
    names = names_of(noted)
    if names is None:
        return None
    events = reader.tx.events.named(subscription.external_id, names) if names else []
    return usage_ceiling(reader, subscription, count, events)


def _keep(work: Work, stored: UsageCount | None, count: UsageCount, noted: Sequence[NewUsage]) -> None:
    """Store a count that includes all of the `noted` events."""
    work.tx.delete(*noted)
    record = renewed(stored, count, work.now)
    if stored is None:
        work.tx.insert(record)
    elif record != stored:
        work.tx.replace(record)
