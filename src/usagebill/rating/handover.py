"""The second in which one subscription follows another: both periods hold some of it, and one of the two bills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import cut_to_seconds, share_second
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Succession
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import asc, eq
from usagebill.storage.event_queries import Arrival, EventQuery
from usagebill.work import Reader

__all__ = ["own_events", "own_since"]

_INSTANT = timedelta(microseconds=1)


def own_events(
    reader: Reader,
    subscription: Subscription,
    metric: BillableMetric,
    question: EventQuery,
    billed_at: Arrival | None = None,
) -> EventQuery:
    """`question`, about usage of the subscription, without what belongs to others of the same external id.

    After an upgrade, or where an id is subscribed anew as soon as it has been ended, the old subscription bills what
    had been received of that second when its end was billed, and the new one what came later: whole seconds, as most
    senders have them, do not say on which side of the change something was. A recurring metric is
    carried over, and counts on both. Where the id was another customer's before, nothing of theirs is carried over.
    `billed_at` is when the end of the subscription is billed, if that is what is going on.
    """
    others = _others(reader, subscription)
    earliest = question.earliest
    if metric.recurring:
        others = [other for other in others if other.customer_id != subscription.customer_id]
        own = own_since(reader, subscription)
        earliest = max((at for at in (earliest, own) if at is not None), default=None)
    if earliest is not None:
        earliest = cut_to_seconds(earliest)
        before = [
            (other.terminated_at, arrival)
            for other in _before(subscription, others)
            if other.terminated_at
            and cut_to_seconds(other.terminated_at) == earliest
            and (
                arrival := _billed(reader, other)
                if other.customer_id == subscription.customer_id
                else _made(subscription)
            )
        ]
        question = replace(question, earliest=earliest)
        if before:
            question = replace(
                question,
                after=max((arrival for _, arrival in before), key=lambda arrival: (arrival.at, arrival.id)),
                first_end=max(ended for ended, _ in before) + _INSTANT,
            )
    ended = subscription.terminated_at
    if ended is None or question.latest != ended:
        return question
    if any(share_second(ended, other.started_at) for other in others):
        question = replace(question, until=_billed(reader, subscription, billed_at))
    return question


def own_since(reader: Reader, subscription: Subscription) -> datetime | None:
    """When the external id ceased to be another customer's, None where it never was one's."""
    ended = _before(subscription, _others(reader, subscription))
    return max(
        (
            other.terminated_at
            for other in ended
            if other.terminated_at and other.customer_id != subscription.customer_id
        ),
        default=None,
    )


def _before(subscription: Subscription, others: Sequence[Subscription]) -> list[Subscription]:
    """Those of `others` that had ended when the subscription started."""
    started = subscription.started_at
    if started is None:
        return []
    # One that ended as soon as it had started, at the same instant, came before where it was made before.
    ended = [other for other in others if other.terminated_at is not None and other.terminated_at <= started]
    return [other for other in ended if other.started_at != started or other.id < subscription.id]


def _others(reader: Reader, subscription: Subscription) -> list[Subscription]:
    """The other subscriptions of the same external id, of whatever customer."""
    found = reader.tx.find(Subscription, eq("external_id", subscription.external_id))
    return [other for other in found if other.id != subscription.id]


def _made(subscription: Subscription) -> Arrival:
    """When the subscription was asked for: what was received before is not its customer's, billed or not."""
    return Arrival(at=subscription.created_at, id=subscription.id)


def _billed(reader: Reader, ended: Subscription, billed_at: Arrival | None = None) -> Arrival | None:
    """When the usage up to the very end of a subscription was billed, else `billed_at`."""
    # The periods of the old plan end before the midnight of a downgrade.
    if ended.succession == Succession.DOWNGRADE:
        return None
    period = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", ended.id),
        eq("invoicing_reason", InvoicingReason.TERMINATING),
        eq("charges_to_datetime", ended.terminated_at),
        order=[asc("created_at"), asc("id")],
    )
    return billed_at if period is None else Arrival(at=period.created_at, id=period.id)
