"""Usage that open holds reserve, as the events it may become, where its price depends on what else is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import Invalid
from usagebill.core.event_batches import events_of, uncounted_ids
from usagebill.core.events import Event
from usagebill.core.holds import Hold
from usagebill.core.ingestion import receive
from usagebill.core.spend_limits import SpendLimit
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations.subscriptions.reading import find_by_external_id
from usagebill.queries.holds import metric_of_hold
from usagebill.queries.takeovers import in_force
from usagebill.rating.spending import prices_alike, used_of
from usagebill.runtime.work import Reader, Work

Usage = tuple[Subscription, BillableMetric]


def adds_up(reader: Reader, holds: Iterable[Hold], usage: Iterable[Usage]) -> bool:
    """Whether the usage and what the holds reserve cost the same whatever was used before, so that what each hold added
    when it was made is what it adds now, to any limit.
    """
    kinds = {(subscription.external_id, metric.id): (subscription, metric) for subscription, metric in usage}
    for hold in holds:
        key = (hold.external_subscription_id, hold.billable_metric_id or "")
        if hold.is_amount or key in kinds:
            continue
        held = _held(reader, hold)
        if held is not None:
            kinds[key] = held
    return all(prices_alike(reader, subscription, metric) for subscription, metric in kinds.values())


def use_held(work: Work, holds: Iterable[Hold]) -> None:
    """Store the events that the holds reserve, as of now: for dry runs. Bare amounts have none."""
    events: list[Event] = []
    metrics: dict[str, BillableMetric] = {}
    for hold in holds:
        held = None if hold.is_amount else _held(work, hold)
        if held is not None:
            subscription, metric = held
            metrics[metric.code] = metric
            events.append(event_of(work, subscription.external_id, metric, hold.properties))
    if events:
        work.tx.events.append(events, uncounted=uncounted_ids(events, metrics))


def all_used(reader: Reader, limits: Sequence[SpendLimit], subscription: Subscription) -> list[Decimal]:
    """What has been used of each of these limits of the subscription's usage."""
    return [used_of(reader, limit, subscription) for limit in limits]


def used_with(
    work: Work, holds: Sequence[Hold], limits: Sequence[SpendLimit], subscription: Subscription
) -> list[Decimal]:
    """What would be used of each of these limits if the usage of the holds happened."""

    def play(trial: Work) -> list[Decimal]:
        use_held(trial, holds)
        return all_used(trial, limits, subscription)

    return work.dry_run(play, counts_ahead=False)


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


def _held(reader: Reader, hold: Hold) -> Usage | None:
    """Whose usage of which metric is held; None for a bare amount, and once the subscription has ended."""
    metric = metric_of_hold(reader, hold)
    active = find_by_external_id(reader, hold.external_subscription_id, SubscriptionStatus.ACTIVE)
    return (in_force(reader, active[0]), metric) if active and metric is not None else None
