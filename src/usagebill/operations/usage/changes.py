"""The instant at which one subscription follows another: both periods hold it, and one of the two bills its events."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import cut_to_milliseconds
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Succession
from usagebill.core.subscriptions import Subscription
from usagebill.storage.conditions import asc, eq
from usagebill.storage.questions import Arrival, EventQuestion
from usagebill.work import Work

__all__ = ["billed_once"]


def billed_once(
    work: Work, subscription: Subscription, metric: BillableMetric, question: EventQuestion
) -> EventQuestion:
    """`question`, about a period of the subscription, without what another subscription bills of its first and its last
    instant.

    After an upgrade, or where an id is subscribed anew as soon as it has been ended, the old subscription bills what
    had been received of that instant when its end was billed, and the new one what came later. A recurring metric is
    carried over, and counts on both.
    """
    if metric.recurring:
        return question
    started, ended = subscription.started_at, subscription.terminated_at
    if started is not None and question.earliest == cut_to_milliseconds(started):
        before = [_billed(work, other) for other in _same(work, subscription) if other.terminated_at == started]
        known = [arrival for arrival in before if arrival is not None]
        question = replace(question, after=max(known, key=lambda arrival: (arrival.at, arrival.id), default=None))
    if ended is None or question.latest != ended:
        return question
    if any(other.started_at == ended for other in _same(work, subscription)):
        question = replace(question, until=_billed(work, subscription))
    return question


def _same(work: Work, subscription: Subscription) -> list[Subscription]:
    """The other subscriptions of the same customer and external id."""
    found = work.tx.find(
        Subscription, eq("external_id", subscription.external_id), eq("customer_id", subscription.customer_id)
    )
    return [other for other in found if other.id != subscription.id]


def _billed(work: Work, ended: Subscription) -> Arrival | None:
    """When the usage up to the very end of a subscription was billed; None where it was not."""
    # The periods of the old plan end before the midnight of a downgrade.
    if ended.succession == Succession.DOWNGRADE:
        return None
    period = work.tx.first(
        BillingPeriod,
        eq("subscription_id", ended.id),
        eq("invoicing_reason", "subscription_terminating"),
        eq("charges_to_datetime", ended.terminated_at),
        order=[asc("created_at"), asc("id")],
    )
    return None if period is None else Arrival(at=period.created_at, id=period.id)
