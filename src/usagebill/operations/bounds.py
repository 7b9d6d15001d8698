"""What bounds a subscription's usage, and how far that is used up: spend limits, quotas and prepaid credits, with what
open holds reserve of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.ongoing import UnbilledKey, expected_use, net_key, summed_nets
from usagebill.core.recurring_rules import RuleTrigger
from usagebill.core.spend_limits import Measure, Refusal, SpendLimit, Standing, concerns, grace_of, held_against
from usagebill.core.subscriptions import Subscription
from usagebill.operations.held_usage import EventOfUsage, HeldUsage, held_usage, use
from usagebill.queries.contracts import contract_of
from usagebill.queries.spend_limits import limits_of_usage, quotas_of_usage
from usagebill.queries.wallets import active_wallets, running_rules
from usagebill.rating.ongoing_usage import needed_nets
from usagebill.rating.spending import added_in_advance, currency_of, span_of, used_of
from usagebill.runtime.work import Reader, Work

# Usage in question: a metric (None: a bare amount), and the properties of an event.
Asked = tuple[BillableMetric | None, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What bounds usage of a subscription, and what open holds reserve of it. `has_credits`: a wallet refuses what it
    cannot pay.
    """

    subscription: Subscription
    customer: Customer
    limits: Sequence[tuple[Refusal, SpendLimit]]
    has_credits: bool
    held: HeldUsage

    def __bool__(self) -> bool:
        return bool(self.limits) or self.has_credits


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What is used of each of the limits, and the credits that are needed, as far as these bound anything."""

    of_limits: Sequence[Decimal]
    nets: Mapping[UnbilledKey, Decimal]


def bounds_of(
    reader: Reader, subscription: Subscription, customer: Customer, asked: Collection[Asked] | None
) -> Bounds:
    """What bounds this usage of the subscription's, None for whatever it may be."""
    limits = [
        (Refusal.SPEND_LIMIT, limit)
        for limit in limits_of_usage(reader, subscription, customer)
        if asked is None
        or any(concerns(limit, None if metric is None else metric.id, properties) for metric, properties in asked)
    ]
    metrics = list({metric.id: metric for metric, _ in asked or () if metric is not None}.values())
    quotas = quotas_of_usage(reader, subscription, None if asked is None else metrics)
    limits += [(Refusal.QUOTA, quota) for quota in quotas]
    has_credits = any(wallet.hard_stop for wallet in active_wallets(reader, customer.id))
    usage = [(subscription, metric) for metric in metrics]
    return Bounds(
        subscription=subscription,
        customer=customer,
        limits=limits,
        has_credits=has_credits,
        held=held_usage(reader, customer, usage, to_the_cent=has_credits),
    )


def used_now(reader: Reader, bounds: Bounds) -> Used:
    """What is used of the bounds."""
    return Used(
        of_limits=[used_of(reader, limit, bounds.subscription) for _, limit in bounds.limits],
        nets=needed_nets(reader, bounds.customer) if bounds.has_credits else {},
    )


def used_with_held(reader: Reader, bounds: Bounds, events: Sequence[EventOfUsage] = ()) -> Used:
    """What would be used of the bounds if what is held was used too, whose events are stored (`use`); of limits, held
    amounts are left out. Other `events` that have been stored for this are in charges in advance not billed yet.
    """
    used = used_now(reader, bounds)
    if not bounds.has_credits:
        return used
    due = [
        (net_key(hold.billable_metric_id, hold.currency, hold.properties), hold.total_cents)
        for hold in bounds.held.amounts
    ]
    for one in [*bounds.held.events, *events]:
        key = net_key(one.metric.id, currency_of(reader, one.subscription), one.event.properties)
        billed = added_in_advance(reader, bounds.customer, one.subscription, one.metric, one.event)
        due.append((key, billed.total_cents))
    return replace(used, nets=summed_nets([*used.nets.items(), *due]))


def with_held(work: Work, bounds: Bounds, events: Sequence[EventOfUsage] = ()) -> Used:
    """What would be used with what is held, now that the `events` are stored."""

    def play(trial: Work) -> Used:
        use(trial, bounds.held.events)
        return used_with_held(trial.for_one_question(), bounds, events)

    return work.dry_run(play, counts_ahead=False)


def standings(reader: Reader, bounds: Bounds, *, now: Used, with_held: Used, with_all: Used) -> list[Standing]:
    """How far each of the bounds is used up: by what is used `now`, with what is held, and with the usage in question
    on top.
    """
    of_limits = [
        _of_limit(reader, bounds, refusal, limit, used=used, held=subtract(held, used), adds=subtract(whole, held))
        for (refusal, limit), used, held, whole in zip(
            bounds.limits, now.of_limits, with_held.of_limits, with_all.of_limits, strict=True
        )
    ]
    return of_limits + (_of_credits(reader, bounds, now, with_held, with_all) if bounds.has_credits else [])


def _of_limit(
    reader: Reader,
    bounds: Bounds,
    refusal: Refusal,
    limit: SpendLimit,
    *,
    used: Decimal,
    held: Decimal,
    adds: Decimal,
) -> Standing:
    amounts = [
        (hold.amount_cents, hold.units)
        for hold in bounds.held.amounts
        if concerns(limit, hold.billable_metric_id, hold.properties)
        and hold.currency == currency_of(reader, bounds.subscription)
        and (limit.is_customers or hold.external_subscription_id == bounds.subscription.external_id)
    ]
    return Standing(
        refusal=refusal,
        code=limit.code,
        measure=limit.measure,
        most=limit.most,
        grace=grace_of(limit.most, limit.grace_percent),
        used=used,
        held=add(held, held_against(limit, amounts)),
        adds=adds,
        limit=limit,
        on_reached=limit.on_reached,
        resets_at=span_of(reader, limit, contract_of(reader, bounds.subscription)).resets_at,
    )


def _of_credits(reader: Reader, bounds: Bounds, now: Used, with_held: Used, with_all: Used) -> list[Standing]:
    """The wallets with a hard stop that would pay for the usage in question."""
    wallets = active_wallets(reader, bounds.customer.id)
    topped_up = {rule.wallet_id for rule in running_rules(reader, wallets) if rule.trigger == RuleTrigger.THRESHOLD}
    used, held, whole = (expected_use(one.nets, wallets, topped_up) for one in (now, with_held, with_all))
    return [
        Standing(
            refusal=Refusal.CREDITS,
            code=wallet.code,
            measure=Measure.CENTS,
            most=Decimal(wallet.balance_cents),
            used=used[wallet.id],
            held=subtract(held[wallet.id], used[wallet.id]),
            adds=subtract(whole[wallet.id], held[wallet.id]),
        )
        for wallet in wallets
        if wallet.hard_stop and subtract(whole[wallet.id], held[wallet.id]) > ZERO
    ]
