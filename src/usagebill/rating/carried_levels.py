"""Starting levels of recurring weighted sums: saved by an earlier period, or else computed from events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import CarriedLevel, group_pairs
from usagebill.core.events import cut_to_seconds
from usagebill.core.grouping import Group
from usagebill.core.numbers import ZERO, add
from usagebill.core.plans import Charge, ChargeFilter
from usagebill.core.subscriptions import Subscription
from usagebill.rating.handover import own_since
from usagebill.storage.conditions import desc, eq, less
from usagebill.storage.event_queries import EventQuery
from usagebill.storage.ports import EventLog
from usagebill.work import Reader

__all__ = ["starting_levels"]

_INSTANT: Final = timedelta(microseconds=1)


def starting_levels(
    reader: Reader,
    charge: Charge,
    charge_filter: ChargeFilter | None,
    metric: BillableMetric,
    subscription: Subscription,
    question: EventQuery,
    group_keys: Sequence[str],
) -> dict[Group, Decimal]:
    """The level of each group that has one; empty for any metric but a recurring weighted sum.

    `question` selects the events of the period. `group_keys` are the keys that the charge is billed by: the question
    may group by fewer keys, or select some of the groups. A charge without a saved level starts from the events before
    the period if another charge billed them: one of an earlier subscription, or the charge it overrides. A saved level
    comes first, so an event dated back into a billed period does not affect later ones.
    """
    start = question.earliest
    if (
        AGGREGATIONS[metric.aggregation_type].accumulation is not Accumulation.LEVEL
        or not metric.recurring
        or start is None
    ):
        return {}
    saved = _saved(reader, charge.id, charge_filter.id if charge_filter else None, subscription, question)
    if saved and set(question.only) <= set(group_keys):
        return _regrouped(saved, question)
    succeeds = subscription.previous_subscription_id is not None
    if not saved and not succeeds and not _was_billed(reader, charge.parent_id, subscription, question):
        return {}
    begins = (
        own_since(reader, subscription)
        if succeeds
        else subscription.started_at and cut_to_seconds(subscription.started_at)
    )
    latest = cut_to_seconds(start) - _INSTANT
    earlier = replace(question, earliest=begins, latest=latest, until=None, held_from=None)

    def count(log: EventLog) -> dict[Group, Decimal]:
        tallies = log.tallies(earlier)
        return {group: tally.units for group, tally in tallies.items() if tally.events_count}

    return reader.counted([earlier], count, inputs=("levels", metric, earlier, start))


def _saved(
    reader: Reader, charge_id: str, filter_id: str | None, subscription: Subscription, question: EventQuery
) -> dict[str, Decimal]:
    """The latest saved level of each group before the period."""
    levels: dict[str, Decimal] = {}
    for level in reader.tx.find(
        CarriedLevel,
        eq("charge_id", charge_id),
        eq("subscription_id", subscription.id),
        eq("charge_filter_id", filter_id),
        less("period_end", question.earliest),
        order=[desc("period_end"), desc("created_at")],
    ):
        levels.setdefault(level.group, level.level)
    return levels


def _was_billed(reader: Reader, charge_id: str | None, subscription: Subscription, question: EventQuery) -> bool:
    return charge_id is not None and (
        reader.tx.first(
            CarriedLevel,
            eq("charge_id", charge_id),
            eq("subscription_id", subscription.id),
            less("period_end", question.earliest),
        )
        is not None
    )


def _regrouped(saved: Mapping[str, Decimal], question: EventQuery) -> dict[Group, Decimal]:
    """The saved levels by group, merged for the requested groups."""
    levels: dict[Group, Decimal] = {}
    for text, level in saved.items():
        values = group_pairs(text)
        if all(values.get(key) in accepted for key, accepted in question.only.items()):
            group = tuple(values.get(key) for key in question.group_keys)
            levels[group] = add(levels.get(group, ZERO), level)
    return levels
