"""Usage that open holds reserve, as the events that it may become now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.event_batches import events_of, uncounted_ids
from usagebill.core.events import Event
from usagebill.core.holds import Hold
from usagebill.core.ingestion import receive
from usagebill.core.price_versions import PriceChange
from usagebill.core.subscriptions import STARTED, Subscription, SubscriptionStatus, subscription_at
from usagebill.operations.subscriptions.reading import find_by_external_id
from usagebill.queries.contracts import contract_of
from usagebill.queries.holds import metric_of_hold, open_holds
from usagebill.queries.takeovers import in_force
from usagebill.rating.current_usage import contract_window
from usagebill.rating.spending import prices_alike
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import desc

Usage = tuple[Subscription, BillableMetric]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOfUsage:
    """An event, and whose usage of which metric it is."""

    subscription: Subscription
    metric: BillableMetric
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldUsage:
    """What a customer's open holds reserve: `events` at what they cost now, and `amounts` at what they added when they
    were made: bare amounts, and usage that can be no event now, because its subscription has ended or its properties no
    longer fit its metric.

    `adds_up` says that it is the same either way, also for the usage in question; then all holds are amounts.
    """

    events: Sequence[EventOfUsage]
    amounts: Sequence[Hold]
    adds_up: bool = False


def held_usage(reader: Reader, customer: Customer, usage: Iterable[Usage], *, to_the_cent: bool) -> HeldUsage:
    """What the customer's open holds reserve, beside the `usage` in question. `to_the_cent`: as bills will be, which
    round each fee.
    """
    holds = open_holds(reader, customer)
    held = [(hold, None if hold.is_amount else _usage_of(reader, hold)) for hold in holds]
    if not to_the_cent and _adds_up(reader, held, usage):
        return HeldUsage(events=(), amounts=holds, adds_up=True)
    events, amounts = [], []
    for hold, held_of in held:
        event = None if held_of is None else _event(reader, hold, *held_of)
        if event is None:
            amounts.append(hold)
        else:
            events.append(event)
    return HeldUsage(events=events, amounts=amounts)


def use(work: Work, events: Sequence[EventOfUsage]) -> None:
    """Store the events, for dry runs."""
    if events:
        metrics = {one.metric.code: one.metric for one in events}
        whole = [one.event for one in events]
        work.tx.events.append(whole, uncounted=uncounted_ids(whole, metrics))


def subscription_of(reader: Reader, event: Event) -> Subscription | None:
    """The subscription whose usage the event is; None if there was none at its instant."""
    started = find_by_external_id(reader, str(event.external_subscription_id), *STARTED)
    subscription = subscription_at(started, event.timestamp, event.created_at)
    if subscription is None or subscription.status != SubscriptionStatus.ACTIVE:
        return subscription
    return in_force(reader.at(event.timestamp), subscription)


def event_of(
    reader: Reader,
    external_subscription_id: str,
    metric: BillableMetric,
    properties: object,
    timestamp: object = None,
) -> Event:
    """The event that usage of a metric would be, by default now. Raises `Invalid`."""
    id = reader.new_id()
    sent = {
        "transaction_id": id,
        "code": metric.code,
        "external_subscription_id": external_subscription_id,
        "properties": properties,
        "timestamp": timestamp,
    }
    received = receive(sent, reader.now)
    made, problems = events_of(
        [received], [id], {metric.code: metric}, organization_id=reader.organization.id, now=reader.now
    )
    if problems:
        raise Invalid(problems[0])
    return made[0]


def _adds_up(reader: Reader, held: Iterable[tuple[Hold, Usage | None]], usage: Iterable[Usage]) -> bool:
    """Whether the usage and what the holds reserve cost the same whatever is used before, and prices stand as they did
    when the holds were made. So what each hold added then is what it adds now, to any limit.
    """
    oldest = {(subscription.id, metric.id): ((subscription, metric), reader.now) for subscription, metric in usage}
    changed_at: datetime | None = None
    for hold, held_of in held:
        if held_of is None:
            continue
        if changed_at is None:
            latest = reader.tx.first(PriceChange, order=[desc("version")])
            changed_at = hold.created_at if latest is None else latest.created_at
            if latest is not None and hold.created_at <= changed_at:
                # Holds come oldest first.
                return False
        subscription, metric = held_of
        key = (subscription.id, metric.id)
        if key not in oldest or hold.created_at < oldest[key][1]:
            oldest[key] = (held_of, hold.created_at)
    return all(
        prices_alike(reader, subscription, metric) and (at == reader.now or at > _priced_from(reader, subscription))
        for (subscription, metric), at in oldest.values()
    )


def _priced_from(reader: Reader, subscription: Subscription) -> datetime:
    """Since when the subscription has had its plan, or its prices if changes of them wait for the next period."""
    contract = contract_of(reader, subscription)
    began = subscription.started_at or subscription.created_at
    return began if contract.plan.has_one_price else max(began, contract_window(reader, contract).start)


def _usage_of(reader: Reader, hold: Hold) -> Usage | None:
    """Whose usage of which metric is held; None for a bare amount, and once the subscription has ended."""
    metric = metric_of_hold(reader, hold)
    active = find_by_external_id(reader, hold.external_subscription_id, SubscriptionStatus.ACTIVE)
    return (in_force(reader, active[0]), metric) if active and metric is not None else None


def _event(reader: Reader, hold: Hold, subscription: Subscription, metric: BillableMetric) -> EventOfUsage | None:
    try:
        event = event_of(reader, subscription.external_id, metric, hold.properties)
    except Invalid:
        return None
    return EventOfUsage(subscription=subscription, metric=metric, event=event)
