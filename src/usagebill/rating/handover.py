"""The second in which one subscription follows another: it lies in both periods, and its events are billed by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.handover import handover
from usagebill.core.handover import own_since as handover_own_since
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
    """`question` about the subscription's usage, without the events that belong to others of the same external id.

    After an upgrade, or if an id is subscribed again right after its end, the old subscription bills the events of that
    second that had been received when its end was billed, and the new one those received later: timestamps in whole
    seconds, as most senders have them, do not say which side of the change an event was on. A recurring metric is
    carried over, and counts on both. If the id was another customer's before, none of their usage is carried over.
    `billed_at` is when the end of the subscription is billed, if that is being done.
    """
    met = handover(
        subscription,
        _others(reader, subscription),
        recurring=metric.recurring,
        earliest=question.earliest,
        latest=question.latest,
    )
    before = [
        (other.terminated_at, arrival)
        for other in met.predecessors
        if other.terminated_at
        and (
            arrival := _billed(reader, other) if other.customer_id == subscription.customer_id else _made(subscription)
        )
    ]
    question = replace(question, earliest=met.earliest)
    if before:
        question = replace(
            question,
            after=max((arrival for _, arrival in before), key=lambda arrival: (arrival.at, arrival.id)),
            first_end=max(ended for ended, _ in before) + _INSTANT,
        )
    return replace(question, until=_billed(reader, subscription, billed_at)) if met.is_followed else question


def own_since(reader: Reader, subscription: Subscription) -> datetime | None:
    """When the external id stopped being another customer's; None if it never was."""
    return handover_own_since(subscription, _others(reader, subscription))


def _others(reader: Reader, subscription: Subscription) -> list[Subscription]:
    """The other subscriptions of the same external id, of any customer."""
    subscriptions = reader.tx.find(Subscription, eq("external_id", subscription.external_id))
    return [other for other in subscriptions if other.id != subscription.id]


def _made(subscription: Subscription) -> Arrival:
    """When the subscription was created. Events received before are not its customer's, billed or not."""
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
