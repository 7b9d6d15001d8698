"""A charge in advance prices the events that come once it is there. Those that had come before have no fee of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.aggregation import Window
from usagebill.core.events import cut_to_seconds
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription, known_since
from usagebill.queries.past_starts import caught_up_from
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import Arrival, EventQuery


def priced_events(
    reader: Reader, subscription: Subscription, charge: Charge, window: Window, question: EventQuery
) -> EventQuery:
    """`question` about the usage of a charge in advance in `window`, without the events that came too early for it.

    A recurring metric carries those over: from the next period on they are renewed like all others.
    """
    came_before, dated_before = _too_early(reader, subscription, charge)
    if dated_before is None or dated_before < cut_to_seconds(window.start):
        return question
    since = Arrival(at=came_before, id="")
    if question.after is not None and question.first_end is not None:
        since = max(question.after, since, key=lambda arrival: (arrival.at, arrival.id))
        dated_before = max(question.first_end, dated_before)
    return replace(question, after=since, first_end=dated_before)


def _too_early(reader: Reader, subscription: Subscription, charge: Charge) -> tuple[datetime, datetime | None]:
    """Events that came before the first instant and are dated before the second have no fee; None: all have one."""
    begun = known_since(subscription)
    if charge.created_at > begun:
        made = _first_made(reader, charge)
        if made > begun:
            return made, made
    if subscription.started_at is None or subscription.started_at >= begun:
        return begun, None
    return begun, caught_up_from(reader, subscription) or begun


def _first_made(reader: Reader, charge: Charge) -> datetime:
    """When the charge was made, or the one that it overrides, whose ledger it continues."""
    parent = reader.tx.get(Charge, charge.parent_id, deleted=True) if charge.parent_id else None
    return charge.created_at if parent is None else min(charge.created_at, parent.created_at)
