"""Admission: events are stored as long as spend limits, quotas and prepaid credits leave room for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.checks import Admitted, EventBeyond
from usagebill.core.events import Event
from usagebill.core.ingestion import Received
from usagebill.core.spend_limits import Standing, refusing
from usagebill.core.subscriptions import SubscriptionStatus
from usagebill.operations.backlog import catch_up, of_named_subscriptions
from usagebill.operations.bounds import Asked, Bounds, Used, bounds_of, standings, used_now, with_held
from usagebill.operations.held_usage import EventOfUsage, subscription_of
from usagebill.operations.subscriptions.reading import find_by_external_id
from usagebill.queries.customers import customer_of
from usagebill.queries.takeovers import in_force
from usagebill.runtime.work import Work
from usagebill.storage.conditions import within


class _Beyond(Exception):
    """Events do not fit."""

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.code)
        self.standing = standing


def admit(work: Work, received: Sequence[Received], store: Callable[[Sequence[int]], list[Event]]) -> Admitted:
    """Those of the events that fit, stored, and those that do not, each with what refuses it. `store` stores the events
    of these positions.

    If all events fit, they are stored together, and otherwise each half of them is tried by itself. So of usage that
    only grows, the same ones are stored as one by one in their order.
    """
    names = {event.external_subscription_id for event in received if event.external_subscription_id}
    events: dict[int, Event] = {}
    refused: list[EventBeyond] = []
    parts = [range(len(received))]
    while parts:
        part = parts.pop()
        # What the part before has brought is billed first if it is billed at once.
        catch_up(work, of_named_subscriptions(work, names))
        try:
            stored = work.attempt(partial(_stored, work, [received[place] for place in part], partial(store, part)))
        except _Beyond as beyond:
            if len(part) > 1:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
            else:
                id = received[part[0]].transaction_id
                refused.append(EventBeyond(position=part[0], transaction_id=id, standing=beyond.standing))
        else:
            events.update(zip(part, stored, strict=True))
    return Admitted(events=[events[place] for place in sorted(events)], refused=refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What bounds the new events of a subscription, and how far that was used up before them."""

    bounds: Bounds
    now: Used
    with_held: Used


def _stored(work: Work, received: Sequence[Received], store: Callable[[], list[Event]]) -> list[Event]:
    """The events stored. Raises `_Beyond` if they are more than is left."""
    codes = sorted({event.code for event in received})
    metrics = {metric.code: metric for metric in work.tx.find(BillableMetric, within("code", codes))}
    bounded = work.dry_run(partial(_bounded, received=received, metrics=metrics), counts_ahead=False)
    events = store()
    if bounded:
        refused = partial(_refusing, bounded=bounded, events=events, metrics=metrics)
        standing = work.dry_run(refused, counts_ahead=False)
        if standing is not None:
            raise _Beyond(standing)
    return events


def _bounded(work: Work, received: Sequence[Received], metrics: Mapping[str, BillableMetric]) -> list[_Before]:
    by_name: dict[str, list[Asked]] = {}
    for event in received:
        if event.external_subscription_id and event.code in metrics:
            asked = (metrics[event.code], event.properties)
            by_name.setdefault(event.external_subscription_id, []).append(asked)
    found = []
    for name, asked_of in by_name.items():
        active = find_by_external_id(work, name, SubscriptionStatus.ACTIVE)
        if not active:
            continue
        subscription = in_force(work, active[0])
        bounds = bounds_of(work, subscription, customer_of(work, subscription), asked_of)
        if bounds:
            now = used_now(work.for_one_question(), bounds)
            found.append(_Before(bounds=bounds, now=now, with_held=with_held(work, bounds)))
    return found


def _refusing(
    work: Work, bounded: Sequence[_Before], events: Sequence[Event], metrics: Mapping[str, BillableMetric]
) -> Standing | None:
    """What refuses the events, now that they are stored."""
    owned = [
        EventOfUsage(subscription=subscription, metric=metrics[event.code], event=event)
        for event in events
        if event.code in metrics and (subscription := subscription_of(work, event)) is not None
    ]
    found: list[Standing] = []
    for before in bounded:
        bounds = before.bounds
        own = [one for one in owned if one.subscription.customer_id == bounds.customer.id]
        with_all = with_held(work, bounds, own)
        found += standings(work, bounds, now=before.now, with_held=before.with_held, with_all=with_all)
    return refusing(found)
