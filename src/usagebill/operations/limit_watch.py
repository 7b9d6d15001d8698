"""Spend limits that are reached and start over, told once each.

Usage is measured some seconds after the events, as for alerts. A limit that was reached is noted until it starts over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.spend_limits import ReachedLimit, SpendLimit
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.tasks import CheckSpendLimits
from usagebill.operations.backlog import catch_up_before
from usagebill.queries.contracts import contract_of
from usagebill.queries.spend_limits import limits_of_usage
from usagebill.queries.takeovers import in_force
from usagebill.rating.spending import span_of, used_of
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, asc, eq, within
from usagebill.views.spend_limits import reached_limit_view

# Events within a few seconds share one check.
GATHERED = timedelta(seconds=5)
REACHED, RESET = "limit.reached", "limit.reset"
_ACTIVE = eq("status", SubscriptionStatus.ACTIVE)


@dataclass(frozen=True, slots=True)
class Measured:
    """What is used of a limit now; the subscription is "" for a customer's."""

    limit: SpendLimit
    external_subscription_id: str
    used: Decimal
    resets_at: datetime | None


def watch_limits(work: Work, events: Sequence[Event]) -> None:
    """Schedule a check of the limits whose usage the new events may change, if anybody listens."""
    if work.tx.first(SpendLimit) is None or not _is_heard(work):
        return
    names = {event.external_subscription_id for event in events if event.external_subscription_id}
    _watch(work, [within("external_id", sorted(names))])


def watch_limit(work: Work, limit: SpendLimit) -> None:
    """Schedule a check of a new or changed limit, if anybody listens. That of a plan waits for the next usage."""
    if limit.customer_id is not None and _is_heard(work):
        _watch(work, [eq("customer_id", limit.customer_id)])


def forget(work: Work, limit: SpendLimit) -> None:
    """Forget that the limit was reached: it has changed, and is told of anew."""
    work.tx.delete(*work.tx.find(ReachedLimit, eq("spend_limit_id", limit.id)))


def _is_heard(work: Work) -> bool:
    return work.is_heard(REACHED) or work.is_heard(RESET)


def _watch(work: Work, whose: Sequence[Condition]) -> None:
    owners = {subscription.customer_id for subscription in work.tx.find(Subscription, *whose, _ACTIVE)}
    for customer_id in sorted(owners):
        work.schedule(CheckSpendLimits(customer_id=customer_id), work.now + GATHERED)


def check(work: Work, task: CheckSpendLimits) -> None:
    """Job: tell of the customer's limits that have been reached, and of those that start over."""
    catch_up_before(work, (task.customer_id,))
    customer = work.tx.get(Customer, task.customer_id)
    if customer is None:
        return
    measured = work.computed(
        ("spend limits", customer.id),
        partial(_measured, customer=customer),
        inputs=customer,
        customer_id=customer.id,
    )
    current = {(one.limit.id, one.external_subscription_id): one for one in measured}
    reached = set()
    for noted in work.tx.find(ReachedLimit, eq("customer_id", customer.id), order=[asc("created_at"), asc("id")]):
        key = (noted.spend_limit_id, noted.external_subscription_id)
        if noted.resets_at is None or work.now < noted.resets_at:
            reached.add(key)
            continue
        work.tx.delete(noted)
        if key in current:
            work.emit(RESET, partial(reached_limit_view, work, noted), noted.id)
    for key, one in current.items():
        if key not in reached and one.used >= one.limit.most:
            _tell(work, customer, one)


def _measured(reader: Reader, customer: Customer) -> list[Measured]:
    """The limits in force for the customer's subscriptions; one of the customer itself is measured once."""
    running = reader.tx.find(
        Subscription, eq("customer_id", customer.id), _ACTIVE, order=[asc("created_at"), asc("id")]
    )
    found: dict[tuple[str, str], Measured] = {}
    for subscription in (in_force(reader, one) for one in running):
        for limit in limits_of_usage(reader, subscription, customer):
            key = (limit.id, "" if limit.is_customers else subscription.external_id)
            if key not in found:
                span = span_of(reader, limit, contract_of(reader, subscription))
                found[key] = Measured(limit, key[1], used_of(reader, limit, subscription), span.resets_at)
    return list(found.values())


def _tell(work: Work, customer: Customer, one: Measured) -> None:
    reached = ReachedLimit(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=customer.id,
        spend_limit_id=one.limit.id,
        external_subscription_id=one.external_subscription_id,
        used=one.used,
        created_at=work.now,
        resets_at=one.resets_at,
    )
    work.tx.insert(reached)
    work.emit(REACHED, partial(reached_limit_view, work, reached), reached.id)
    if one.resets_at is not None:
        work.schedule(CheckSpendLimits(customer_id=customer.id, resets_at=one.resets_at), one.resets_at)
