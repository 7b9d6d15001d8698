"""Starting levels of recurring weighted sums: what the events before the period leave."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import cut_to_seconds
from usagebill.core.grouping import Group
from usagebill.core.instants import MICROSECOND
from usagebill.core.subscriptions import Subscription
from usagebill.rating.handover import own_since
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog


def starting_levels(
    reader: Reader, metric: BillableMetric, subscription: Subscription, question: EventQuery
) -> dict[Group, Decimal]:
    """The level of each group that has one; empty for any metric but a recurring weighted sum.

    `question` selects the events of the period. The level is the sum of all events before the period that are known to
    it, so an event dated back into a billed period counts from the next one on. It goes back to the start of the
    subscription, or, after a plan change, of the ones before it.
    """
    start = question.earliest
    if (
        AGGREGATIONS[metric.aggregation_type].accumulation is not Accumulation.LEVEL
        or not metric.recurring
        or start is None
    ):
        return {}
    started_at = subscription.started_at
    if subscription.previous_subscription_id is not None:
        begins = own_since(reader, subscription)
    elif started_at is not None and cut_to_seconds(started_at) < cut_to_seconds(start):
        begins = cut_to_seconds(started_at)
    else:
        return {}
    earlier = replace(question, earliest=begins, latest=cut_to_seconds(start) - MICROSECOND, until=None, held_from=None)

    def count(log: EventLog) -> dict[Group, Decimal]:
        tallies = log.tallies(earlier)
        return {group: tally.units for group, tally in tallies.items() if tally.events_count}

    return reader.counted([earlier], count, inputs=("levels", metric, earlier, start))
