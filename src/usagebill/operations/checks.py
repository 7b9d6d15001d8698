"""Checks: whether more usage is allowed by spend limits, quotas and prepaid credits, asked before it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Annotated

from usagebill.core import limits
from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.checks import Addition, Check, Question
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound, PaymentRequired
from usagebill.core.event_batches import uncounted_ids
from usagebill.core.fees import FeeType
from usagebill.core.grouping import TARGET_WALLET_KEY
from usagebill.core.holds import Hold
from usagebill.core.numbers import ZERO, add, subtract
from usagebill.core.ongoing import UnbilledKey, expected_use, summed_nets
from usagebill.core.recurring_rules import RuleTrigger
from usagebill.core.spend_limits import (
    Measure,
    Refusal,
    SpendLimit,
    Standing,
    concerns,
    grace_of,
    held_against,
    read_number,
)
from usagebill.core.subscriptions import Subscription
from usagebill.operations.backlog import Unrelated, catch_up, of_named_subscriptions, without_backlog
from usagebill.operations.held_usage import adds_up, all_used, event_of, use_held
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.contracts import contract_of
from usagebill.queries.customers import customer_of
from usagebill.queries.holds import open_holds
from usagebill.queries.spend_limits import limits_of_usage, quotas_of_usage
from usagebill.queries.takeovers import in_force
from usagebill.queries.wallets import active_wallets, running_rules
from usagebill.rating.ongoing_usage import unbilled_nets
from usagebill.rating.spending import (
    added_since,
    amount_added,
    currency_of,
    in_period_of,
    span_of,
    usage_before,
)
from usagebill.requests.inputs import ABSENT, Input, Maybe, described
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.views.spend_limits import standing_view


@Input
class CheckInput:
    """The usage in question: `properties` as of an event, `units` of the metric, or an amount."""

    external_subscription_id: Maybe[str] = described(required="always")
    code: Maybe[str] = described("The billable metric, by code; may be left out with an amount.", example="tokens")
    properties: Maybe[object] = described("The properties of the event.", example={"tokens": 1200}, most=None)
    units: Maybe[object] = described("The units, if the metric counts a property of events.", unit="units")
    amount_cents: Maybe[Annotated[int, limits.RESERVED_AMOUNT]] = described(
        "The amount before taxes, instead of usage.", unit="cents"
    )


@without_backlog(Unrelated.ROLLED_BACK)
def check(work: Work, request: CheckInput) -> Check:
    """Whether a subscription may use this much now, what it would cost, and what is left. Nothing is stored.

    Raises `NotFound` for the subscription and the metric, `Invalid`.
    """

    def play(trial: Work) -> Check:
        catch_up(trial, of_named_subscriptions(trial, (str(request.external_subscription_id or ""),)))
        return assess(trial, question_of(trial, request))

    return work.dry_run(play, counts_ahead=False)


def question_of(reader: Reader, request: CheckInput) -> Question:
    """The usage that a request is about. Raises `NotFound`, `Invalid`."""
    if not request.external_subscription_id:
        raise Invalid(external_subscription_id="value_is_mandatory")
    subscription = in_force(reader, get_of_status(reader, request.external_subscription_id))
    metric = None
    if request.code:
        metric = reader.tx.first(BillableMetric, eq("code", request.code))
        if metric is None:
            raise NotFound("billable_metric", request.code)
    sent = request.properties if isinstance(request.properties, Mapping) else {}
    question = Question(
        subscription=subscription,
        customer=customer_of(reader, subscription),
        metric=metric,
        properties={str(key): value for key, value in sent.items()},
    )
    if request.amount_cents is not ABSENT and request.amount_cents is not None:
        if request.amount_cents < 0:
            raise Invalid(amount_cents="value_must_be_positive_or_zero")
        if request.units is not ABSENT and request.units is not None:
            raise Invalid(amount_cents="amount_or_units")
        return replace(question, amount_cents=request.amount_cents)
    if metric is None:
        raise Invalid(code="value_is_mandatory")
    if request.units is ABSENT or request.units is None:
        return question
    units = read_number(request.units)
    if units is None:
        raise Invalid(units="value_is_not_valid_number")
    if metric.field_name is None or AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.VALUES:
        raise Invalid(units="units_need_a_number")
    return replace(question, properties={**question.properties, metric.field_name: units})


def assess(work: Work, question: Question) -> Check:
    """What the usage in question would add, and what bounds it. For a dry run or a change that is refused by it."""
    counted = [
        limit
        for limit in limits_of_usage(work, question.subscription, question.customer)
        if concerns(limit, question.metric_id, question.properties)
    ]
    holds = open_holds(work, question.customer)
    quotas = [] if question.metric is None else quotas_of_usage(work, question.subscription, question.metric)
    bounds = [(Refusal.SPEND_LIMIT, limit) for limit in counted] + [(Refusal.QUOTA, quota) for quota in quotas]
    used = all_used(work, [limit for _, limit in bounds], question.subscription)
    usage = [] if question.metric is None else [(question.subscription, question.metric)]
    tried = work.dry_run(
        partial(
            _tried,
            question=question,
            holds=None if adds_up(work, holds, usage) else holds,
            limits=[limit for _, limit in bounds],
        ),
        counts_ahead=False,
    )
    added = tried.addition
    standings = [
        standing_of(
            work,
            refusal,
            limit,
            question.subscription,
            holds,
            used=used[place],
            adds=tried.adds_to(place, limit),
            with_holds=None if tried.with_holds is None else tried.with_holds[place],
        )
        for place, (refusal, limit) in enumerate(bounds)
    ]
    currency = currency_of(work, question.subscription)
    if has_hard_stop(work, question.customer):
        net = (net_key(question.metric_id, currency, question.properties), added.total_cents)
        unbilled = unbilled_nets(work, question.customer)
        standings += credit_standings(work, question.customer, holds, used=unbilled, adds=[net])
    return Check(question=question, currency=currency, addition=added, standings=standings)


def refuse_beyond(check: Check) -> None:
    """Raises `PaymentRequired` if the usage is refused."""
    standing = check.refused_by
    if standing is not None:
        raise payment_required(standing)


def payment_required(standing: Standing) -> PaymentRequired:
    """The refusal of usage by what bounds it."""
    return PaymentRequired(standing.refusal, {"limit": standing_view(standing)})


@dataclass(frozen=True, slots=True)
class _Tried:
    """What usage adds to its period, and what would be used of each limit with all open holds, and with the usage on
    top; None if it adds to every limit what it adds to its period.
    """

    addition: Addition
    with_holds: Sequence[Decimal] | None = None
    with_all: Sequence[Decimal] = ()

    def adds_to(self, place: int, limit: SpendLimit) -> Decimal:
        """What the usage adds to the limit at this place."""
        if self.with_holds is None:
            return self.addition.units if limit.measure is Measure.UNITS else self.addition.amount_cents
        return subtract(self.with_all[place], self.with_holds[place])


def _tried(work: Work, question: Question, holds: Sequence[Hold] | None, limits: Sequence[SpendLimit]) -> _Tried:
    """The usage in question on top of what `holds` reserve, None if they do not matter."""
    if holds is None:
        return _Tried(addition(work, question))
    use_held(work, holds)
    with_holds = all_used(work, limits, question.subscription)
    added = addition(work, question)
    if question.amount_cents is None:
        return _Tried(added, with_holds, all_used(work, limits, question.subscription))
    with_amount = [
        add(used, ZERO if limit.measure is Measure.UNITS else added.amount_cents)
        for limit, used in zip(limits, with_holds, strict=True)
    ]
    return _Tried(added, with_holds, with_amount)


def addition(work: Work, question: Question) -> Addition:
    """What the usage adds to the period that it falls into. Found out by storing its event, so this is for dry runs."""
    subscription, metric, customer = question.subscription, question.metric, question.customer
    if question.amount_cents is not None:
        return amount_added(work, customer, subscription, question.amount_cents)
    if metric is None:
        return Addition()
    event = event_of(work, subscription.external_id, metric, question.properties, question.timestamp)
    period = work if question.timestamp is None else in_period_of(work, subscription, event.timestamp)
    before = usage_before(period, subscription, metric)
    work.tx.events.append([event], uncounted=uncounted_ids([event], {metric.code: metric}))
    return added_since(period, customer, subscription, metric, before, [event])


def standing_of(
    reader: Reader,
    refusal: Refusal,
    limit: SpendLimit,
    subscription: Subscription,
    holds: Sequence[Hold],
    *,
    used: Decimal,
    adds: Decimal,
    with_holds: Decimal | None = None,
) -> Standing:
    """How far a limit of the subscription's usage is used up, with what of the customer's `holds` counts against it.

    `with_holds` is what would be used with the usage of all holds; None if they add what they added when made.
    """
    counted = [
        hold
        for hold in holds
        if concerns(limit, hold.billable_metric_id, hold.properties)
        and hold.currency == currency_of(reader, subscription)
        and (limit.is_customers or hold.external_subscription_id == subscription.external_id)
        and (with_holds is None or hold.is_amount)
    ]
    held = held_against(limit, [(hold.amount_cents, hold.units) for hold in counted])
    if with_holds is not None:
        held = add(held, subtract(with_holds, used))
    return Standing(
        refusal=refusal,
        code=limit.code,
        measure=limit.measure,
        most=limit.most,
        grace=grace_of(limit.most, limit.grace_percent),
        used=used,
        held=held,
        adds=adds,
        on_reached=limit.on_reached,
        resets_at=span_of(reader, limit, contract_of(reader, subscription)).resets_at,
    )


def has_hard_stop(reader: Reader, customer: Customer) -> bool:
    """Whether the customer has a wallet that refuses what it cannot pay."""
    return any(wallet.hard_stop for wallet in active_wallets(reader, customer.id))


def credit_standings(
    reader: Reader,
    customer: Customer,
    holds: Sequence[Hold],
    *,
    used: Mapping[UnbilledKey, Decimal],
    adds: Iterable[tuple[UnbilledKey, Decimal]],
) -> list[Standing]:
    """The wallets with a hard stop that would pay for what usage `adds` to the unbilled amounts `used`."""
    wallets = active_wallets(reader, customer.id)
    topped_up = {rule.wallet_id for rule in running_rules(reader, wallets) if rule.trigger == RuleTrigger.THRESHOLD}
    held = summed_nets(
        [
            *used.items(),
            *((net_key(hold.billable_metric_id, hold.currency, hold.properties), hold.total_cents) for hold in holds),
        ]
    )
    whole = summed_nets([*held.items(), *adds])
    now, before, after = (expected_use(nets, wallets, topped_up) for nets in (used, held, whole))
    return [
        Standing(
            refusal=Refusal.CREDITS,
            code=wallet.code,
            measure=Measure.CENTS,
            most=Decimal(wallet.balance_cents),
            used=now[wallet.id],
            held=subtract(before[wallet.id], now[wallet.id]),
            adds=subtract(after[wallet.id], before[wallet.id]),
        )
        for wallet in wallets
        if wallet.hard_stop and subtract(after[wallet.id], before[wallet.id]) > ZERO
    ]


def net_key(metric_id: str | None, currency: str, properties: Mapping[str, object]) -> UnbilledKey:
    """The key under which usage of a metric with these properties is unbilled."""
    target = properties.get(TARGET_WALLET_KEY)
    return UnbilledKey(FeeType.CHARGE, metric_id or "", currency, target if isinstance(target, str) else "")
