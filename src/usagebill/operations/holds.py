"""Holds: usage that may come is reserved, captured once it has happened, or released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated

from usagebill.core import limits
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid, NotAllowed, NotFound
from usagebill.core.holds import DEFAULT_SECONDS, Hold, HoldStatus, captured, expired, expiry, released
from usagebill.core.life_cycles import TransitionError
from usagebill.core.numbers import ZERO
from usagebill.core.tasks import ExpireHold
from usagebill.operations import events
from usagebill.operations.backlog import after_backlog, of_named_subscriptions, of_record
from usagebill.operations.checks import CheckInput, addition, assess, properties_sent, question_of, refuse_beyond
from usagebill.operations.held_usage import event_of, subscription_of
from usagebill.queries.customers import customer_of
from usagebill.queries.holds import hold_by_id, metric_of_hold
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described, read, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, all_of, any_of, at_most, eq, more
from usagebill.storage.ports import Page
from usagebill.views.holds import hold_view


@Input
class HoldInput(CheckInput):
    """As in `CheckInput`; `expires_in` is how long it is reserved."""

    expires_in: Maybe[Annotated[int, limits.HOLD_SECONDS]] = described(
        "How long it is reserved, at most 24 hours.", unit="seconds", default=str(DEFAULT_SECONDS)
    )


@Input
class CaptureInput:
    """The usage as it was: an event of the hold's subscription and metric. What is not sent is as it was held."""

    transaction_id: Maybe[object] = described("Your own id of the event; by default the hold's.")
    code: Maybe[str] = described("The billable metric, by code, if an amount was held.")
    properties: Maybe[object] = described("The properties of the event.", example={"tokens": 850}, most=None)
    timestamp: Maybe[object] = described("When it happened, in Unix seconds; by default now.")


@Input
class HoldFilters:
    """Both filters must match."""

    status: Maybe[str] = described("Only holds with this status.", values=tuple(HoldStatus))
    external_subscription_id: Maybe[str] = ABSENT
    external_customer_id: Maybe[str] = ABSENT


def of_question(work: Work, request: CheckInput) -> list[str]:
    """The backlog of the customers of the subscription that a request is about."""
    return of_named_subscriptions(work, (str(request.external_subscription_id or ""),))


@after_backlog(of_question)
def create(work: Work, request: HoldInput) -> Hold:
    """Reserve what usage would add on top of all usage and open holds. Raises `PaymentRequired` if that is refused,
    `NotFound` and `Invalid`.
    """
    seconds = value_or(request.expires_in, None)
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    if not limits.HOLD_SECONDS.holds(seconds):
        raise Invalid(expires_in="value_is_out_of_range")
    question = question_of(work, request)
    check = assess(work, question)
    refuse_beyond(check)
    hold = Hold(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=question.customer.id,
        external_subscription_id=question.subscription.external_id,
        currency=check.currency,
        billable_metric_id=question.metric_id,
        properties=question.properties,
        is_amount=question.amount_cents is not None,
        amount_cents=check.addition.amount_cents,
        total_cents=check.addition.total_cents,
        units=check.addition.units,
        expires_at=expiry(work.now, seconds),
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(hold)
    work.schedule(_expiry_of(hold), hold.expires_at)
    return hold


@after_backlog(of_record(Hold))
def capture(work: Work, hold_id: str, request: CaptureInput) -> Hold:
    """Store the event of usage that was held, and end the hold, together. Usage beyond what was held is stored too, and
    so is that of an expired hold. A repeat with the same transaction id changes nothing.

    Raises `NotFound`, `NotAllowed` if it was captured or released, `Invalid`.
    """
    hold = hold_by_id(work, hold_id)
    properties = properties_sent(request.properties, hold.properties)
    transaction_id = str(value_or(request.transaction_id, None) or hold.id)
    if hold.status is HoldStatus.CAPTURED and hold.transaction_id == transaction_id:
        return hold
    metric = _captured_metric(work, hold, request)
    sent = {
        "transaction_id": transaction_id,
        "code": metric.code,
        "external_subscription_id": hold.external_subscription_id,
        "properties": properties,
        "timestamp": value_or(request.timestamp, None),
    }
    ended = _ended(
        hold, lambda: captured(hold, transaction_id, _added(work, hold, metric, properties, request), work.now)
    )
    events.record_happened(work, read(events.EventInput, sent))
    work.tx.replace(ended)
    work.cancel(_expiry_of(hold))
    return ended


@after_backlog(of_record(Hold))
def release(work: Work, hold_id: str) -> Hold:
    """End an open hold whose usage does not come. Raises `NotFound`, `NotAllowed` if it has ended."""
    hold = hold_by_id(work, hold_id)
    ended = _ended(hold, lambda: released(hold, work.now))
    work.tx.replace(ended)
    work.cancel(_expiry_of(hold))
    return ended


def expire(work: Work, task: ExpireHold) -> None:
    """Job: note and tell that a hold has expired. It has not counted since."""
    hold = work.tx.get(Hold, task.hold_id)
    if hold is None or hold.status is not HoldStatus.HELD:
        return
    ended = expired(hold)
    work.tx.replace(ended)
    work.emit("hold.expired", lambda: hold_view(work, ended), ended.id)


def get(reader: Reader, hold_id: str) -> Hold:
    """The hold with this id. Raises `NotFound`."""
    return hold_by_id(reader, hold_id)


def list_all(reader: Reader, options: HoldFilters, paging: Paging) -> Page[Hold]:
    """Holds, newest first, by their status now."""
    conditions: list[Condition] = []
    if options.status:
        conditions.append(_of_status(reader, options.status))
    if options.external_subscription_id:
        conditions.append(eq("external_subscription_id", options.external_subscription_id))
    if options.external_customer_id:
        customer = reader.tx.first(Customer, eq("external_id", options.external_customer_id))
        conditions.append(eq("customer_id", "" if customer is None else customer.id))
    return reader.page(Hold, *conditions, paging=paging)


def _of_status(reader: Reader, status: str) -> Condition:
    held = eq("status", HoldStatus.HELD)
    if status == HoldStatus.HELD:
        return all_of(held, more("expires_at", reader.now))
    if status == HoldStatus.EXPIRED:
        return any_of(eq("status", status), all_of(held, at_most("expires_at", reader.now)))
    return eq("status", status)


def _ended(hold: Hold, end: Callable[[], Hold]) -> Hold:
    """The hold after `end`. Raises `NotAllowed` if it has ended otherwise."""
    try:
        return end()
    except TransitionError as problem:
        raise NotAllowed("hold_has_ended", str(problem.status)) from problem


def _captured_metric(reader: Reader, hold: Hold, request: CaptureInput) -> BillableMetric:
    metric = metric_of_hold(reader, hold)
    if metric is not None:
        return metric
    if not request.code:
        raise Invalid(code="value_is_mandatory")
    metric = reader.tx.first(BillableMetric, eq("code", request.code))
    if metric is None:
        raise NotFound("billable_metric", request.code)
    return metric


def _added(
    work: Work, hold: Hold, metric: BillableMetric, properties: Mapping[str, object], request: CaptureInput
) -> Decimal:
    """What the captured usage adds to the period that it falls into; nothing if there was no subscription then."""
    timestamp = value_or(request.timestamp, None)
    event = event_of(work, hold.external_subscription_id, metric, properties, timestamp)
    subscription = subscription_of(work, event)
    if subscription is None:
        return ZERO
    return addition(work, customer_of(work, subscription), subscription, metric, event).amount_cents


def _expiry_of(hold: Hold) -> ExpireHold:
    return ExpireHold(customer_id=hold.customer_id, hold_id=hold.id)
