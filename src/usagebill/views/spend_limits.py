"""Spend limits, and checks of usage against them, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.checks import Check
from usagebill.core.numbers import decimal_text, round_cents
from usagebill.core.spend_limits import ReachedLimit, SpendLimit, Standing
from usagebill.queries.customers import customer_of
from usagebill.queries.plans import find_plan
from usagebill.queries.spend_limits import customer_of_limit, metric_of_limit
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, instant_text


class SpendLimitView(TypedDict):
    svc_id: Id
    code: str
    external_customer_id: str | None
    external_subscription_id: str | None
    plan_code: str | None
    amount_cents: int | None
    units: DecimalText | None
    interval: str
    billable_metric_code: str | None
    group: Mapping[str, list[str]]
    on_reached: str
    grace_percent: DecimalText
    set_by: str
    created_at: Instant


class ReachedLimitView(TypedDict):
    code: str
    external_customer_id: str
    external_subscription_id: str | None
    plan_code: str | None
    measured_in: str
    limit: DecimalText
    used: DecimalText
    interval: str
    on_reached: str
    set_by: str
    reached_at: Instant
    resets_at: Instant | None


class StandingView(TypedDict):
    code: str
    refusal_code: str
    measured_in: str
    limit: DecimalText
    grace: DecimalText
    used: DecimalText
    held: DecimalText
    adds: DecimalText
    remaining: DecimalText
    on_reached: str
    set_by: str
    allowed: bool
    resets_at: Instant | None


class CheckView(TypedDict):
    allowed: bool
    refusal_code: str | None
    external_subscription_id: str
    billable_metric_code: str | None
    amount_cents: int
    precise_amount_cents: DecimalText
    currency: str
    units: DecimalText
    limits: list[StandingView]


def spend_limit_view(reader: Reader, limit: SpendLimit) -> SpendLimitView:
    """The limit, with its owner and its metric by code."""
    customer, metric = customer_of_limit(reader, limit), metric_of_limit(reader, limit)
    plan = None if limit.plan_id is None else find_plan(reader, limit.plan_id)
    return {
        "svc_id": limit.id,
        "code": limit.code,
        "external_customer_id": None if customer is None else customer.external_id,
        "external_subscription_id": limit.external_subscription_id,
        "plan_code": None if plan is None else plan.code,
        "amount_cents": limit.amount_cents,
        "units": None if limit.units is None else decimal_text(limit.units),
        "interval": limit.interval,
        "billable_metric_code": None if metric is None else metric.code,
        "group": {key: list(values) for key, values in limit.group.items()},
        "on_reached": limit.on_reached,
        "grace_percent": decimal_text(limit.grace_percent),
        "set_by": limit.set_by,
        "created_at": instant_text(limit.created_at),
    }


def reached_limit_view(reader: Reader, reached: ReachedLimit) -> ReachedLimitView:
    """A limit that was reached, with what was used of it then."""
    limit = reader.tx.get(SpendLimit, reached.spend_limit_id, deleted=True)
    if limit is None:
        raise LookupError(reached.spend_limit_id)
    plan = None if limit.plan_id is None else find_plan(reader, limit.plan_id)
    return {
        "code": limit.code,
        "external_customer_id": customer_of(reader, reached).external_id,
        "external_subscription_id": reached.external_subscription_id or None,
        "plan_code": None if plan is None else plan.code,
        "measured_in": limit.measure,
        "limit": decimal_text(limit.most),
        "used": decimal_text(reached.used),
        "interval": limit.interval,
        "on_reached": limit.on_reached,
        "set_by": limit.set_by,
        "reached_at": instant_text(reached.created_at),
        "resets_at": instant_text(reached.resets_at),
    }


def standing_view(standing: Standing) -> StandingView:
    """What bounds usage, and how far it is used up."""
    return {
        "code": standing.code,
        "refusal_code": standing.refusal,
        "measured_in": standing.measure,
        "limit": decimal_text(standing.most),
        "grace": decimal_text(standing.grace),
        "used": decimal_text(standing.used),
        "held": decimal_text(standing.held),
        "adds": decimal_text(standing.adds),
        "remaining": decimal_text(standing.remaining),
        "on_reached": standing.on_reached,
        "set_by": standing.set_by,
        "allowed": not standing.refuses,
        "resets_at": instant_text(standing.resets_at),
    }


def check_view(_: Reader, check: Check) -> CheckView:
    """The answer to a check, with everything that bounds the usage."""
    refused_by, metric = check.refused_by, check.question.metric
    return {
        "allowed": refused_by is None,
        "refusal_code": None if refused_by is None else refused_by.refusal,
        "external_subscription_id": check.question.subscription.external_id,
        "billable_metric_code": None if metric is None else metric.code,
        "amount_cents": round_cents(check.addition.amount_cents),
        "precise_amount_cents": decimal_text(check.addition.amount_cents),
        "currency": check.currency,
        "units": decimal_text(check.addition.units),
        "limits": [standing_view(standing) for standing in check.standings],
    }
