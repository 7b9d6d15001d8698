"""Checks: whether more usage is allowed by spend limits, quotas and prepaid credits, asked before it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from usagebill.core import limits
from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.blank import is_blank
from usagebill.core.checks import Addition, Check, Question
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotFound, PaymentRequired
from usagebill.core.events import Event
from usagebill.core.numbers import add
from usagebill.core.ongoing import net_key, summed_nets
from usagebill.core.organizations import Organization
from usagebill.core.spend_limits import Measure, Standing, read_number
from usagebill.core.subscriptions import Subscription
from usagebill.operations.backlog import Unrelated, catch_up, is_behind, of_named_subscriptions, without_backlog
from usagebill.operations.bounds import Bounds, Used, bounds_of, standings, used_now, used_with_held, with_held
from usagebill.operations.held_usage import EventOfUsage, event_of, use
from usagebill.operations.organizations import check_enabled
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.customers import customer_of
from usagebill.queries.takeovers import in_force
from usagebill.rating.spending import (
    added_by,
    amount_added,
    currency_of,
    in_period_of,
    metric_usage,
    prices_alike,
    with_event_alike,
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


@without_backlog(Unrelated.ROLLED_BACK, on_snapshot=True)
def check(reader: Reader, request: CheckInput) -> Check:
    """Whether a subscription may use this much now, what it would cost, and what is left. Nothing is stored.

    Raises `NotFound` for the subscription and the metric, `Invalid`.
    """
    check_enabled(reader.tx.get(Organization, reader.organization.id))
    external_ids = (str(request.external_subscription_id or ""),)

    def play(trial: Work) -> Check:
        catch_up(trial, of_named_subscriptions(trial, external_ids))
        return assess(trial, question_of(trial, request))

    if is_behind(reader, external_ids):
        return reader.tried(play)
    return assess(reader, question_of(reader, request))


@without_backlog(Unrelated.ROLLED_BACK)
def standings_of(work: Work, external_id: str) -> list[Standing]:
    """All limits and quotas of an active subscription's usage, with what is used, held and left of each now; credits
    are not among them. Raises `NotFound`.
    """

    def play(trial: Work) -> list[Standing]:
        catch_up(trial, of_named_subscriptions(trial, (external_id,)))
        subscription = in_force(trial, get_of_status(trial, external_id))
        bounds = replace(bounds_of(trial, subscription, customer_of(trial, subscription), None), has_credits=False)
        now = used_now(trial, bounds)
        held = now if bounds.held.adds_up else with_held(trial, bounds)
        return standings(trial, bounds, now=now, with_held=held, with_all=held)

    return work.dry_run(play, counts_ahead=False)


def properties_sent(sent: object, otherwise: Mapping[str, object]) -> Mapping[str, object]:
    """The properties of a request, `otherwise` if it has none. Raises `Invalid`."""
    if isinstance(sent, Mapping):
        return sent
    if sent is ABSENT or is_blank(sent):
        return otherwise
    raise Invalid(properties="value_is_invalid")


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
    sent = properties_sent(request.properties, {})
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


def assess(reader: Reader, question: Question) -> Check:
    """What the usage in question would add, and what bounds it. It needs a dry run if its price depends on what is
    used and held before.
    """
    asking = reader.for_one_question()
    bounds = bounds_of(asking, question.subscription, question.customer, [(question.metric, question.properties)])
    now = used_now(asking, bounds)
    if bounds.held.adds_up:
        added, with_held = _added(asking, question), now
        with_all = _plus(asking, now, added, bounds, question)
    else:
        tried = partial(_tried, question=question, bounds=bounds)
        added, with_held, with_all = reader.tried(tried)
    return Check(
        question=question,
        currency=currency_of(asking, question.subscription),
        addition=added,
        standings=standings(asking, bounds, now=now, with_held=with_held, with_all=with_all),
    )


def refuse_beyond(check: Check) -> None:
    """Raises `PaymentRequired` if the usage is refused."""
    standing = check.refused_by
    if standing is not None:
        raise payment_required(standing)


def payment_required(standing: Standing) -> PaymentRequired:
    """The refusal of usage by what bounds it."""
    return PaymentRequired(standing.refusal, {"limit": standing_view(standing)})


def _added(reader: Reader, question: Question) -> Addition:
    """What the usage in question adds, if that is the same whatever is used and held before."""
    subscription, customer, metric = question.subscription, question.customer, question.metric
    if metric is None or question.amount_cents is not None:
        return amount_added(reader, customer, subscription, question.amount_cents or 0)
    event = event_of(reader, subscription.external_id, metric, question.properties)
    return _added_alike(reader, customer, subscription, metric, event)


def _tried(work: Work, question: Question, bounds: Bounds) -> tuple[Addition, Used, Used]:
    """What the usage in question adds, what would be used with what is held, and with both. For dry runs."""
    held, customer, subscription, metric = bounds.held, question.customer, question.subscription, question.metric
    use(work, held.events)
    asking = work.for_one_question()
    with_held = used_with_held(asking, bounds)
    if metric is None or question.amount_cents is not None:
        added = amount_added(asking, customer, subscription, question.amount_cents or 0)
        return added, with_held, _plus(asking, with_held, added, bounds, question)
    event = event_of(work, subscription.external_id, metric, question.properties)
    own = EventOfUsage(subscription=subscription, metric=metric, event=event)
    before = metric_usage(asking, subscription, metric)
    use(work, [own])
    asking = work.for_one_question()
    after = metric_usage(asking, subscription, metric)
    added = added_by(asking, customer, subscription, metric, event, before=before, after=after)
    return added, with_held, used_with_held(asking, bounds, [own])


def _plus(reader: Reader, used: Used, added: Addition, bounds: Bounds, question: Question) -> Used:
    """What would be used with an addition that is the same to all bounds."""
    key = net_key(question.metric_id, currency_of(reader, question.subscription), question.properties)
    of_limits = [
        add(before, added.units if limit.measure is Measure.UNITS else added.amount_cents)
        for (_, limit), before in zip(bounds.limits, used.of_limits, strict=True)
    ]
    return Used(of_limits=of_limits, nets=summed_nets([*used.nets.items(), (key, added.total_cents)]))


def addition(
    work: Work, customer: Customer, subscription: Subscription, metric: BillableMetric, event: Event
) -> Addition:
    """What the event would add to the period that it falls into."""
    if event.timestamp == work.now and prices_alike(work, subscription, metric):
        return _added_alike(work.for_one_question(), customer, subscription, metric, event)
    return work.dry_run(
        lambda trial: _added_by_storing(trial, customer, subscription, metric, event), counts_ahead=False
    )


def _added_alike(
    reader: Reader, customer: Customer, subscription: Subscription, metric: BillableMetric, event: Event
) -> Addition:
    """What an event of now adds that costs the same whatever was used before (`prices_alike`)."""
    before = metric_usage(reader, subscription, metric)
    after = with_event_alike(reader, subscription, metric, before, event)
    return added_by(reader, customer, subscription, metric, event, before=before, after=after)


def _added_by_storing(
    work: Work, customer: Customer, subscription: Subscription, metric: BillableMetric, event: Event
) -> Addition:
    """What the event adds. It is stored, so this is for dry runs."""
    period = work if event.timestamp == work.now else in_period_of(work, subscription, event.timestamp)
    before = metric_usage(period, subscription, metric)
    use(work, [EventOfUsage(subscription=subscription, metric=metric, event=event)])
    after = metric_usage(period, subscription, metric)
    return added_by(period, customer, subscription, metric, event, before=before, after=after)
