"""A charge in advance prices the events that come once it is there. Those that had come before have no fee of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from usagebill.core.aggregation import Window
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import cut_to_seconds
from usagebill.core.instants import MICROSECOND
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription, begins_at, bills_at_once_since, known_since
from usagebill.queries.past_starts import caught_up_from
from usagebill.queries.subscriptions import paid_in_advance_until
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import Arrival, EventQuery, EventRange, Exclusion


def priced_events(
    reader: Reader, subscription: Subscription, charge: Charge, window: Window, question: EventQuery
) -> EventQuery:
    """`question` about the usage of a charge in advance in `window`, without the events that came too early for it.

    A recurring metric carries those over: from the next period on they are renewed like all others.
    """
    begun = bills_at_once_since(subscription)
    since = begun if charge.created_at < begun else max(begun, _first_made(reader, charge) + MICROSECOND)
    caught_up = caught_up_from(reader, subscription) if since == begun else None
    start = cut_to_seconds(window.start)
    if caught_up is not None:
        return question if caught_up < start else _without(question, since, None, caught_up)
    is_late = since > begun or (
        subscription.started_at is not None and subscription.started_at < known_since(subscription)
    )
    if is_late and start < since:
        # What it carries from before is not billed either.
        ahead = _latest_ahead(reader, question, since, window.end, received_before=since)
        return _without(question, since, None, since if ahead is None else ahead + MICROSECOND)
    if subscription.origin is not None and window.start == begins_at(subscription):
        start = window.start  # The second before is that of the plan before, with which this one opens.
    latest = _latest_ahead(reader, question, start, window.end, received_before=since)
    if latest is None and start < since:
        latest = _latest(reader, question, start, since - MICROSECOND, received_before=since)
    return question if latest is None else _without(question, since, start, latest + MICROSECOND)


def unpaid_events(
    reader: Reader, subscription: Subscription, metric: BillableMetric, window: Window, question: EventQuery
) -> EventQuery:
    """`question` about usage in arrears in `window`, without the events that came before a change of plan and lay ahead
    of it, if a plan before billed them in advance and nothing else of them.
    """
    if subscription.origin is None or metric.recurring:
        return question
    begun = bills_at_once_since(subscription)
    if _latest_ahead(reader, question, window.start, window.end, received_before=begun) is None:
        return question
    since = paid_in_advance_until(reader, subscription, metric)
    if since is None:
        return question
    latest = _latest_ahead(reader, question, window.start, window.end, received_before=since)
    return question if latest is None else _without(question, since, window.start, latest + MICROSECOND)


def _without(question: EventQuery, since: datetime, start: datetime | None, end: datetime) -> EventQuery:
    """`question` without the events dated from `start` to before `end` that were received before `since`."""
    exclusion = Exclusion(start=start, end=end, received_to=Arrival(at=since, id=""))
    return replace(question, excluded=(*question.excluded, exclusion))


def _latest_ahead(
    reader: Reader, question: EventQuery, earliest: datetime, latest: datetime, *, received_before: datetime
) -> datetime | None:
    """The latest timestamp of the events that came before an instant and lay ahead of the clock."""
    name, code = question.external_subscription_id, question.code
    return reader.cached(
        ("latest ahead", name, code, earliest, latest, received_before),
        lambda: reader.tx.events.latest_ahead(name, code, earliest, latest, received_before),
    )


def _latest(
    reader: Reader, question: EventQuery, earliest: datetime, latest: datetime, *, received_before: datetime
) -> datetime | None:
    """The latest timestamp of the events of a second that came before an instant."""
    wanted = EventRange(
        external_subscription_id=question.external_subscription_id,
        code=question.code,
        earliest=earliest,
        latest=latest,
        received_before=received_before,
    )
    found = reader.cached(("latest", wanted), lambda: reader.tx.events.in_ranges([wanted], limit=1))
    return found[0][1].timestamp if found else None


def _first_made(reader: Reader, charge: Charge) -> datetime:
    """When the charge was made, or the one that it overrides, whose ledger it continues."""
    parent = reader.tx.get(Charge, charge.parent_id, deleted=True) if charge.parent_id else None
    return charge.created_at if parent is None else min(charge.created_at, parent.created_at)
