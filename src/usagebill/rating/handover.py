"""The second in which one subscription follows another: it lies in both periods, but only one bills its events."""

from __future__ import annotations

from datetime import datetime

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.copies import replace
from usagebill.core.handover import handover, own_since as handover_own_since
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.periods import Succession
from usagebill.core.subscriptions import Subscription
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq, ne
from usagebill.storage.event_queries import Arrival, EventQuery, Exclusion


class Neighbours:
    """The other subscriptions of the same external id, of any customer, looked up once for all charges."""

    def __init__(self, reader: Reader, subscription: Subscription) -> None:
        self._reader = reader
        self._arrivals: dict[str, Arrival | None] = {}
        self.others = reader.tx.find(
            Subscription, eq("external_id", subscription.external_id), ne("id", subscription.id)
        )

    def billed(self, ended: Subscription, otherwise: Arrival | None = None) -> Arrival | None:
        """The arrival up to which the very end of `ended` was billed; `otherwise` if it was not."""
        # The periods of the old plan end before the midnight of a downgrade.
        if ended.succession == Succession.DOWNGRADE:
            return None
        if ended.id not in self._arrivals:
            self._arrivals[ended.id] = _billed(self._reader, ended)
        return self._arrivals[ended.id] or otherwise


def own_events(
    reader: Reader,
    subscription: Subscription,
    metric: BillableMetric,
    question: EventQuery,
    billed_at: Arrival | None = None,
    neighbours: Neighbours | None = None,
) -> EventQuery:
    """`question` about the subscription's usage, without the events of other subscriptions of the same external id.

    After an upgrade, or if an id is subscribed again right after its end, the old subscription bills the events of that
    second that had been received when its end was billed, and the new one those received later: timestamps in whole
    seconds, as most senders have them, do not say which side of the change an event was on. A recurring metric is
    carried over, and counts on both. If the id was another customer's before, none of their usage is carried over.
    `billed_at` is the instant at which the end is being billed, None if it is not. `neighbours` are looked up unless
    passed.
    """
    neighbours = neighbours or Neighbours(reader, subscription)
    met = handover(
        subscription,
        neighbours.others,
        recurring=metric.recurring,
        earliest=question.earliest,
        latest=question.latest,
    )
    before = [
        (other.terminated_at, arrival)
        for other in met.predecessors
        if other.terminated_at
        and (
            arrival := neighbours.billed(other)
            if other.customer_id == subscription.customer_id
            else _made(subscription)
        )
    ]
    question = replace(question, earliest=met.earliest)
    if before:
        exclusion = Exclusion(
            end=max(ended for ended, _ in before) + MICROSECOND,
            received_to=max((arrival for _, arrival in before), key=lambda arrival: (arrival.at, arrival.id)),
        )
        question = replace(question, excluded=(*question.excluded, exclusion))
    return replace(question, until=neighbours.billed(subscription, billed_at)) if met.is_followed else question


def own_since(reader: Reader, subscription: Subscription) -> datetime | None:
    """The instant at which the external id stopped being another customer's; None if it never was."""
    return handover_own_since(subscription, Neighbours(reader, subscription).others)


def _made(subscription: Subscription) -> Arrival:
    """The creation of the subscription. Events received before it are not its customer's, billed or not."""
    return Arrival(at=subscription.created_at, id=subscription.id)


def _billed(reader: Reader, ended: Subscription) -> Arrival | None:
    period = reader.tx.first(
        BillingPeriod,
        eq("subscription_id", ended.id),
        eq("invoicing_reason", InvoicingReason.TERMINATING),
        eq("charges_to_datetime", ended.terminated_at),
        order=[asc("created_at"), asc("id")],
    )
    if period is None:
        return None
    counted = period.counted
    return bill_of_end(period, period.created_at if counted is None else counted.known_at)


def bill_of_end(period: BillingPeriod, known_at: datetime) -> Arrival:
    """The arrival up to which the bill of an end counts the second that it shares, if it knows the events received by
    `known_at`. A draft that is counted again later leaves out what has come since it was made.
    """
    return Arrival(at=min(period.created_at, known_at), id=period.id)
