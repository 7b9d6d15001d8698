"""Spend limits of customers, subscriptions and plans: created, changed and deleted."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, TypeVar

from usagebill.core import limits
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.plans import Plan
from usagebill.core.spend_limits import (
    LimitInterval,
    OnReached,
    SetBy,
    SpendLimit,
    limit_errors,
    own_code,
    read_group,
    read_number,
    removed,
)
from usagebill.core.subscriptions import Subscription
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.limit_watch import forget, watch_limit
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import plan_by_code
from usagebill.queries.spend_limits import Owner, of_owner
from usagebill.requests.inputs import Input, Maybe, Paging, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, ne
from usagebill.storage.ports import Page

K = TypeVar("K", bound=StrEnum)


@Input
class SpendLimitInput:
    """`amount_cents`, before taxes, or `units` of the metric; fields that are not sent stay."""

    code: Maybe[str] = described("The code of the limit, unique among those of its owner.", required="create")
    amount_cents: Maybe[Annotated[int, limits.SPEND_LIMIT_AMOUNT]] = described(
        "The most that may be used, before taxes.", unit="cents", example=5000
    )
    units: Maybe[Annotated[object, str]] = described(
        "The most units of the metric that may be used, instead of an amount.", unit="units"
    )
    interval: Maybe[str] = described("When usage starts over.", values=tuple(LimitInterval), default="billing_period")
    billable_metric_code: Maybe[str] = described("Only usage of this metric counts; by default all does.")
    group: Maybe[object] = described("Only events with these values of properties count.", example={"model": "large"})
    on_reached: Maybe[str] = described("Whether usage beyond it is refused.", values=tuple(OnReached), default="refuse")
    grace_percent: Maybe[Annotated[object, str]] = described(
        "How far usage may go beyond it, in percent of it.", default="0"
    )


def list_of_customer(reader: Reader, external_id: str, paging: Paging) -> Page[SpendLimit]:
    """The limits of a customer, newest first. Raises `NotFound`."""
    return _page(reader, customer_by_external_id(reader, external_id), paging)


def list_of_subscription(reader: Reader, external_id: str, paging: Paging) -> Page[SpendLimit]:
    """The limits of an active subscription itself, newest first. Raises `NotFound`."""
    return _page(reader, get_of_status(reader, external_id), paging)


def list_of_plan(reader: Reader, code: str, paging: Paging) -> Page[SpendLimit]:
    """The limits of a plan, newest first. Raises `NotFound`."""
    return _page(reader, plan_by_code(reader, code), paging)


def get_of_customer(reader: Reader, external_id: str, spend_limit_code: str) -> SpendLimit:
    """The limit of a customer with this code. Raises `NotFound`."""
    return _of_code(reader, customer_by_external_id(reader, external_id), spend_limit_code)


def get_of_subscription(reader: Reader, external_id: str, spend_limit_code: str) -> SpendLimit:
    """The limit of an active subscription with this code. Raises `NotFound`."""
    return _of_code(reader, get_of_status(reader, external_id), spend_limit_code)


def get_of_plan(reader: Reader, code: str, spend_limit_code: str) -> SpendLimit:
    """The limit of a plan with this code. Raises `NotFound`."""
    return _of_code(reader, plan_by_code(reader, code), spend_limit_code)


@without_backlog(Unrelated.NOT_BILLED)
def create_of_customer(work: Work, external_id: str, request: SpendLimitInput) -> SpendLimit:
    """A new limit of all the customer's subscriptions together. Raises `NotFound` or `Invalid`."""
    return _created(work, customer_by_external_id(work, external_id), request)


@without_backlog(Unrelated.NOT_BILLED)
def create_of_subscription(work: Work, external_id: str, request: SpendLimitInput) -> SpendLimit:
    """A new limit of an active subscription, across changes of its plan. It replaces the limit of the plan with the
    same code. Raises `NotFound` or `Invalid`.
    """
    return _created(work, get_of_status(work, external_id), request)


@without_backlog(Unrelated.NOT_BILLED)
def create_of_plan(work: Work, code: str, request: SpendLimitInput) -> SpendLimit:
    """A new limit of each subscription on the plan. Raises `NotFound` or `Invalid`."""
    return _created(work, plan_by_code(work, code), request)


@without_backlog(Unrelated.NOT_BILLED)
def update_of_customer(work: Work, external_id: str, spend_limit_code: str, request: SpendLimitInput) -> SpendLimit:
    """Change a limit of a customer, at once. Raises `NotFound` or `Invalid`."""
    return _changed(work, customer_by_external_id(work, external_id), spend_limit_code, request)


@without_backlog(Unrelated.NOT_BILLED)
def update_of_subscription(work: Work, external_id: str, spend_limit_code: str, request: SpendLimitInput) -> SpendLimit:
    """Change a limit of an active subscription, at once. Raises `NotFound` or `Invalid`."""
    return _changed(work, get_of_status(work, external_id), spend_limit_code, request)


@without_backlog(Unrelated.NOT_BILLED)
def update_of_plan(work: Work, code: str, spend_limit_code: str, request: SpendLimitInput) -> SpendLimit:
    """Change a limit of a plan, at once. Raises `NotFound` or `Invalid`."""
    return _changed(work, plan_by_code(work, code), spend_limit_code, request)


@without_backlog(Unrelated.NOT_BILLED)
def delete_of_customer(work: Work, external_id: str, spend_limit_code: str) -> SpendLimit:
    """Remove a limit of a customer. Raises `NotFound`."""
    return _removed(work, get_of_customer(work, external_id, spend_limit_code))


@without_backlog(Unrelated.NOT_BILLED)
def delete_of_subscription(work: Work, external_id: str, spend_limit_code: str) -> SpendLimit:
    """Remove a limit of an active subscription; a limit of its plan with this code holds again. Raises `NotFound`."""
    return _removed(work, get_of_subscription(work, external_id, spend_limit_code))


@without_backlog(Unrelated.NOT_BILLED)
def delete_of_plan(work: Work, code: str, spend_limit_code: str) -> SpendLimit:
    """Remove a limit of a plan. Raises `NotFound`."""
    return _removed(work, get_of_plan(work, code, spend_limit_code))


def own_limits(reader: Reader, subscription: Subscription) -> dict[LimitInterval, SpendLimit]:
    """The limits that the customer has set for the subscription."""
    limits = reader.tx.find(SpendLimit, *of_owner(subscription))
    return {limit.interval: limit for limit in limits if limit.set_by is SetBy.CUSTOMER}


def set_own(work: Work, subscription: Subscription, interval: LimitInterval, cents: int) -> SpendLimit:
    """Set or change the customer's limit for the interval. Raises `Invalid` for an amount out of range."""
    request = SpendLimitInput(amount_cents=cents)
    limit = own_limits(work, subscription).get(interval)
    if limit is None:
        return _stored(work, _read(work, _new(work, subscription, own_code(interval), interval), request, subscription))
    return _replaced(work, limit, request, subscription)


def remove_own(work: Work, subscription: Subscription, interval: LimitInterval) -> SpendLimit:
    """Remove the customer's limit for the interval. Raises `NotFound`."""
    return _removed(work, _of_code(work, subscription, own_code(interval)))


def _page(reader: Reader, owner: Owner, paging: Paging) -> Page[SpendLimit]:
    return reader.page(SpendLimit, *of_owner(owner), paging=paging)


def _of_code(reader: Reader, owner: Owner, code: str) -> SpendLimit:
    limit = reader.tx.first(SpendLimit, *of_owner(owner), eq("code", code))
    if limit is None:
        raise NotFound("spend_limit", code)
    return limit


def _created(work: Work, owner: Owner, request: SpendLimitInput) -> SpendLimit:
    return _stored(work, _read(work, _new(work, owner, "", LimitInterval.BILLING_PERIOD), request, owner))


def _new(work: Work, owner: Owner, code: str, interval: LimitInterval) -> SpendLimit:
    return SpendLimit(
        id=work.new_id(),
        organization_id=work.organization.id,
        code=code,
        interval=interval,
        customer_id=_customer_id(owner),
        external_subscription_id=owner.external_id if isinstance(owner, Subscription) else None,
        plan_id=owner.id if isinstance(owner, Plan) else None,
        created_at=work.now,
        updated_at=work.now,
    )


def _stored(work: Work, limit: SpendLimit) -> SpendLimit:
    work.tx.insert(limit)
    watch_limit(work, limit)
    return limit


def _customer_id(owner: Owner) -> str | None:
    match owner:
        case Customer():
            return owner.id
        case Subscription():
            return owner.customer_id
        case Plan():
            return None


def _changed(work: Work, owner: Owner, code: str, request: SpendLimitInput) -> SpendLimit:
    limit = _of_code(work, owner, code)
    if limit.set_by is SetBy.CUSTOMER:
        raise NotAllowed("set_by_customer", state=limit.set_by)
    return _replaced(work, limit, request, owner)


def _replaced(work: Work, before: SpendLimit, request: SpendLimitInput, owner: Owner) -> SpendLimit:
    limit = _read(work, replace(before, updated_at=work.now), request, owner)
    work.tx.replace(limit)
    forget(work, limit)
    watch_limit(work, limit)
    return limit


def _removed(work: Work, limit: SpendLimit) -> SpendLimit:
    gone = removed(limit, work.now)
    work.tx.replace(gone)
    forget(work, limit)
    return gone


def _read(reader: Reader, limit: SpendLimit, request: SpendLimitInput, owner: Owner) -> SpendLimit:
    """The limit with the fields of the request. Raises `NotFound` for a metric, `Invalid` for all that is wrong."""
    errors: dict[str, list[str]] = {}
    if is_given(request.code):
        limit = replace(limit, code=request.code or "")
        if limit.set_by is SetBy.CUSTOMER:
            errors["code"] = ["value_is_reserved"]
    if is_given(request.amount_cents):
        limit = replace(limit, amount_cents=value_or(request.amount_cents, None))
        if request.amount_cents is not None and not is_given(request.units):
            limit = replace(limit, units=None)
    if is_given(request.units):
        units = _number(request.units, "units", errors)
        limit = replace(limit, units=units)
        if units is not None and not is_given(request.amount_cents):
            limit = replace(limit, amount_cents=None)
    if is_given(request.grace_percent):
        limit = replace(limit, grace_percent=_number(request.grace_percent, "grace_percent", errors) or Decimal(0))
    if request.interval:
        limit = replace(limit, interval=_one_of(LimitInterval, request.interval, "interval", errors) or limit.interval)
    if request.on_reached:
        limit = replace(
            limit, on_reached=_one_of(OnReached, request.on_reached, "on_reached", errors) or limit.on_reached
        )
    if is_given(request.group):
        group = read_group(request.group)
        if group is None:
            errors["group"] = ["invalid_format"]
        limit = replace(limit, group=group or {})
    if is_given(request.billable_metric_code):
        limit = replace(limit, billable_metric_id=_metric_id(reader, value_or(request.billable_metric_code, None)))
    others = reader.tx.find(SpendLimit, *of_owner(owner), ne("id", limit.id))
    errors = {**limit_errors(limit, codes={other.code for other in others}), **errors}
    if errors:
        raise Invalid(errors)
    return limit


def _number(sent: object, name: str, errors: dict[str, list[str]]) -> Decimal | None:
    if sent is None:
        return None
    number = read_number(sent)
    if number is None:
        errors[name] = ["value_is_not_valid_number"]
    return number


def _one_of(kind: type[K], sent: str, name: str, errors: dict[str, list[str]]) -> K | None:
    known = next((value for value in kind if value == sent), None)
    if known is None:
        errors[name] = ["value_is_invalid"]
    return known


def _metric_id(reader: Reader, code: str | None) -> str | None:
    if not code:
        return None
    metric = reader.tx.first(BillableMetric, eq("code", code))
    if metric is None:
        raise NotFound("billable_metric", code)
    return metric.id
