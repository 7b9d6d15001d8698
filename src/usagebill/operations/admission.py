"""Admission: events are stored as long as spend limits, quotas and prepaid credits leave room for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.checks import Admitted, EventBeyond
from usagebill.core.customers import Customer
from usagebill.core.events import Event
from usagebill.core.ingestion import Received
from usagebill.core.numbers import ZERO, subtract
from usagebill.core.ongoing import UnbilledKey
from usagebill.core.spend_limits import OnReached, Refusal, SpendLimit, Standing, concerns, refusing
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.operations.backlog import catch_up, of_named_subscriptions
from usagebill.operations.checks import credit_standings, has_hard_stop, net_key, standing_of
from usagebill.operations.held_usage import adds_up, all_used, used_with
from usagebill.operations.subscriptions.reading import find_by_external_id
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_of
from usagebill.queries.holds import open_holds
from usagebill.queries.spend_limits import limits_of_usage, quotas_of_usage
from usagebill.queries.takeovers import in_force
from usagebill.rating.current_usage import contract_window
from usagebill.rating.ongoing_usage import unbilled_nets
from usagebill.rating.spending import added_in_advance, currency_of
from usagebill.runtime.work import Reader, Work
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
class _Use:
    """A subscription with new events, what bounds them, and how far that was used before."""

    subscription: Subscription
    customer: Customer
    metrics: Mapping[str, BillableMetric]
    bounds: Sequence[tuple[Refusal, SpendLimit]]
    used: Sequence[Decimal]
    # What would be used with all open holds; None if they add what they added when they were made.
    with_holds: Sequence[Decimal] | None
    # None: no wallet refuses anything.
    nets: Mapping[UnbilledKey, Decimal] | None

    @property
    def is_bounded(self) -> bool:
        return bool(self.bounds) or self.nets is not None


def _stored(work: Work, received: Sequence[Received], store: Callable[[], list[Event]]) -> list[Event]:
    """The events stored. Raises `_Beyond` if they are more than is left."""
    uses = [use for use in work.dry_run(partial(_uses, received=received), counts_ahead=False) if use.is_bounded]
    events = store()
    if uses:
        standing = work.dry_run(partial(_refusing, uses=uses, events=events), counts_ahead=False)
        if standing is not None:
            raise _Beyond(standing)
    return events


def _uses(reader: Work, received: Sequence[Received]) -> list[_Use]:
    codes = sorted({event.code for event in received})
    metrics = {metric.code: metric for metric in reader.tx.find(BillableMetric, within("code", codes))}
    by_name: dict[str, list[Received]] = {}
    for event in received:
        if event.external_subscription_id and event.code in metrics:
            by_name.setdefault(event.external_subscription_id, []).append(event)
    uses = []
    for name, events in by_name.items():
        active = find_by_external_id(reader, name, SubscriptionStatus.ACTIVE)
        if active:
            uses.append(_use(reader, in_force(reader, active[0]), metrics, events))
    return uses


def _use(
    reader: Work, subscription: Subscription, metrics: Mapping[str, BillableMetric], events: Sequence[Received]
) -> _Use:
    customer = customer_of(reader, subscription)
    bounds = [
        (Refusal.SPEND_LIMIT, limit)
        for limit in limits_of_usage(reader, subscription, customer)
        if limit.on_reached is OnReached.REFUSE
        and any(concerns(limit, metrics[event.code].id, event.properties) for event in events)
    ]
    codes = dict.fromkeys(event.code for event in events)
    for code in codes:
        bounds += [(Refusal.QUOTA, quota) for quota in quotas_of_usage(reader, subscription, metrics[code])]
    limits = [limit for _, limit in bounds]
    holds = open_holds(reader, customer)
    usage = [(subscription, metrics[code]) for code in codes]
    plain = not holds or adds_up(reader, holds, usage)
    return _Use(
        subscription=subscription,
        customer=customer,
        metrics=metrics,
        bounds=bounds,
        used=all_used(reader, limits, subscription),
        with_holds=None if plain else used_with(reader, holds, limits, subscription),
        nets=unbilled_nets(reader, customer) if has_hard_stop(reader, customer) else None,
    )


def _refusing(reader: Work, uses: Sequence[_Use], events: Sequence[Event]) -> Standing | None:
    """What refuses the events, now that they are stored."""
    standings: list[Standing] = []
    for use in uses:
        holds = open_holds(reader, use.customer)
        limits = [limit for _, limit in use.bounds]
        if use.with_holds is None:
            after = all_used(reader, limits, use.subscription)
        else:
            after = used_with(reader, holds, limits, use.subscription)
        for place, (refusal, limit) in enumerate(use.bounds):
            with_holds = None if use.with_holds is None else use.with_holds[place]
            standings.append(
                standing_of(
                    reader,
                    refusal,
                    limit,
                    use.subscription,
                    holds,
                    used=use.used[place],
                    adds=subtract(after[place], use.used[place] if with_holds is None else with_holds),
                    with_holds=with_holds,
                )
            )
        if use.nets is not None:
            adds_to_nets = _added_nets(reader, use, uses, events)
            standings += credit_standings(reader, use.customer, holds, used=use.nets, adds=adds_to_nets)
    return refusing(standings)


def _added_nets(
    reader: Reader, use: _Use, uses: Sequence[_Use], events: Sequence[Event]
) -> list[tuple[UnbilledKey, Decimal]]:
    """What the events add to the customer's unbilled amounts; those that are billed by themselves are not in them."""
    nets = unbilled_nets(reader, use.customer)
    before = use.nets or {}
    added = [(key, subtract(net, before.get(key, ZERO))) for key, net in nets.items()]
    for one in uses:
        if one.customer.id != use.customer.id:
            continue
        window = contract_window(reader, contract_of(reader, one.subscription))
        for event in events:
            metric = one.metrics.get(event.code)
            if metric is not None and event.external_subscription_id == one.subscription.external_id:
                billed = added_in_advance(reader, one.customer, one.subscription, metric, event, window)
                key = net_key(metric.id, currency_of(reader, one.subscription), event.properties)
                added.append((key, billed.total_cents))
    return added
