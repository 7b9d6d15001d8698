"""Alerts of subscriptions and wallets: created, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from usagebill.core.alerts import (
    SUBSCRIPTION_TYPES,
    WALLET_TYPES,
    Alert,
    AlertThreshold,
    AlertType,
    Direction,
    clashes,
    definition_errors,
    read_thresholds,
    removed,
    threshold_errors,
    wallet_value,
)
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import BadRequest, BillingError, Invalid, NotFound
from usagebill.core.numbers import ZERO
from usagebill.core.subscriptions import Subscription
from usagebill.core.wallets import Wallet
from usagebill.operations.alert_watch import watch_subscription
from usagebill.operations.alerts.inputs import (
    AlertInput,
    AlertsInput,
    AlertsRequest,
    AlertThresholdInput,
    AlertUpdate,
)
from usagebill.operations.backlog import after_backlog, of_customer, of_subscriptions
from usagebill.operations.subscription_charges import WhichSubscription
from usagebill.operations.subscriptions import get_of_status
from usagebill.process.json_text import encode_json
from usagebill.queries.alerts import alerts_of_subscription, alerts_of_wallet, of_subscription, of_wallet
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.plans import plan_definition
from usagebill.queries.wallets import wallet_by_code
from usagebill.requests.inputs import Maybe, Paging, changes, is_given, read, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, eq, ne
from usagebill.storage.ports import Page


def _subscription(reader: Reader, external_id: str, options: WhichSubscription) -> Subscription:
    return get_of_status(reader, external_id, options.subscription_status or options.status or None)


def list_all(reader: Reader, external_id: str, options: WhichSubscription, paging: Paging) -> Page[Alert]:
    """The alerts of a subscription, newest first. Raises `NotFound`."""
    subscription = _subscription(reader, external_id, options)
    return reader.page(Alert, *of_subscription(subscription), paging=paging)


def get(reader: Reader, external_id: str, code: str, options: WhichSubscription) -> Alert:
    """The alert of a subscription with this code. Raises `NotFound`."""
    return _of_code(reader, _subscription(reader, external_id, options), code)


def _of(owner: Subscription | Wallet) -> tuple[Condition, ...]:
    return of_wallet(owner.id) if isinstance(owner, Wallet) else of_subscription(owner)


def _of_code(reader: Reader, owner: Subscription | Wallet, code: str) -> Alert:
    alert = reader.tx.first(Alert, *_of(owner), eq("code", code))
    if alert is None:
        raise NotFound("alert", code)
    return alert


@after_backlog(of_subscriptions)
def create(work: Work, external_id: str, request: AlertInput, options: WhichSubscription) -> Alert:
    """A new alert of a subscription, which is checked at once. Raises `NotFound` or `Invalid`."""
    subscription = _subscription(work, external_id, options)
    alert = _created(work, subscription, request)
    watch_subscription(work, subscription)
    return alert


@after_backlog(of_subscriptions)
def create_all(work: Work, external_id: str, request: AlertsInput, options: WhichSubscription) -> list[Alert]:
    """New alerts of a subscription, all or none.

    Raises `NotFound`, `BadRequest` for an empty list, and `Invalid` with details by the position of each refused alert.
    """
    subscription = _subscription(work, external_id, options)
    created = _all_created(work, subscription, request)
    watch_subscription(work, subscription)
    return created


@after_backlog(of_subscriptions)
def create_requested(
    work: Work, external_id: str, request: AlertsRequest, options: WhichSubscription
) -> Alert | list[Alert]:
    """One new alert of a subscription, or several, all or none.

    Raises `NotFound` and `Invalid` as `create` and `create_all` do, `BadRequest` if neither is sent.
    """
    if isinstance(request.alerts, (list, tuple)) and request.alerts:
        return create_all(work, external_id, AlertsInput(alerts=request.alerts), options)
    if not isinstance(request.alert, Mapping) or not request.alert:
        _subscription(work, external_id, options)
        raise _missing("alert")
    return create(work, external_id, read(AlertInput, request.alert), options)


@after_backlog(of_subscriptions)
def update(work: Work, external_id: str, code: str, request: AlertUpdate, options: WhichSubscription) -> Alert:
    """Change an alert, which is checked at once; its type stays. Raises `NotFound` or `Invalid`.

    It keeps its last value, unless its metric is replaced.
    """
    subscription = _subscription(work, external_id, options)
    after = _changed(work, subscription, code, request)
    watch_subscription(work, subscription)
    return after


@after_backlog(of_subscriptions)
def delete(work: Work, external_id: str, code: str, options: WhichSubscription) -> Alert:
    """Remove an alert; its code and its type are free again. Raises `NotFound`."""
    alert = removed(get(work, external_id, code, options), work.now)
    work.tx.replace(alert)
    return alert


@after_backlog(of_subscriptions)
def delete_all(work: Work, external_id: str, options: WhichSubscription) -> None:
    """Remove all alerts of a subscription, if it has any. Raises `NotFound` without the subscription."""
    for alert in alerts_of_subscription(work, _subscription(work, external_id, options)):
        work.tx.replace(removed(alert, work.now))


def list_of_wallet(reader: Reader, external_customer_id: str, wallet_code: str, paging: Paging) -> Page[Alert]:
    """The alerts of a customer's wallet, newest first. Raises `NotFound`."""
    return reader.page(Alert, *_of(_wallet(reader, external_customer_id, wallet_code)), paging=paging)


def get_of_wallet(reader: Reader, external_customer_id: str, wallet_code: str, code: str) -> Alert:
    """The alert of a wallet with this code. Raises `NotFound`."""
    return _of_code(reader, _wallet(reader, external_customer_id, wallet_code), code)


@after_backlog(of_customer)
def create_of_wallet(work: Work, external_customer_id: str, wallet_code: str, request: AlertInput) -> Alert:
    """A new alert of a wallet, starting from its current balance. Raises `NotFound` or `Invalid`."""
    return _created(work, _wallet(work, external_customer_id, wallet_code), request)


@after_backlog(of_customer)
def create_all_of_wallet(work: Work, external_customer_id: str, wallet_code: str, request: AlertsInput) -> list[Alert]:
    """New alerts of a wallet, all or none; raises what `create_all` does."""
    return _all_created(work, _wallet(work, external_customer_id, wallet_code), request)


@after_backlog(of_customer)
def create_requested_of_wallet(
    work: Work, external_customer_id: str, wallet_code: str, request: AlertsRequest
) -> Alert | list[Alert]:
    """One new alert of a wallet, or several, all or none; raises what `create_requested` does."""
    wallet = _wallet(work, external_customer_id, wallet_code)
    if isinstance(request.alerts, (list, tuple)) and request.alerts:
        return _all_created(work, wallet, AlertsInput(alerts=request.alerts))
    if not isinstance(request.alert, Mapping) or not request.alert:
        raise _missing("alert")
    return _created(work, wallet, read(AlertInput, request.alert))


@after_backlog(of_customer)
def update_of_wallet(work: Work, external_customer_id: str, wallet_code: str, code: str, request: AlertUpdate) -> Alert:
    """Change an alert of a wallet; its type and last value stay. Raises `NotFound` or `Invalid`."""
    return _changed(work, _wallet(work, external_customer_id, wallet_code), code, request)


@after_backlog(of_customer)
def delete_of_wallet(work: Work, external_customer_id: str, wallet_code: str, code: str) -> Alert:
    """Remove an alert of a wallet. Raises `NotFound`."""
    alert = removed(get_of_wallet(work, external_customer_id, wallet_code, code), work.now)
    work.tx.replace(alert)
    return alert


@after_backlog(of_customer)
def delete_all_of_wallet(work: Work, external_customer_id: str, wallet_code: str) -> None:
    """Remove all alerts of a wallet, if it has any. Raises `NotFound` without the wallet."""
    for alert in alerts_of_wallet(work, _wallet(work, external_customer_id, wallet_code).id):
        work.tx.replace(removed(alert, work.now))


def _wallet(reader: Reader, external_customer_id: str, code: str) -> Wallet:
    return wallet_by_code(reader, customer_by_external_id(reader, external_customer_id), code)


def _all_created(work: Work, owner: Subscription | Wallet, request: AlertsInput) -> list[Alert]:
    if not isinstance(request.alerts, Sequence) or isinstance(request.alerts, str) or not request.alerts:
        raise _missing("alerts")
    created: list[Alert] = []
    refused: dict[str, object] = {}
    for position, sent in enumerate(request.alerts):
        known = sent if isinstance(sent, Mapping) else {}
        try:
            created.append(_created(work, owner, read(AlertInput, known)))
        except BillingError as problem:
            refused[str(position)] = {"params": sent, "errors": _in_words(problem)}
    if refused:
        raise Invalid(refused)
    return created


def _changed(work: Work, owner: Subscription | Wallet, code: str, request: AlertUpdate) -> Alert:
    before = _of_code(work, owner, code)
    sent = value_or(request.thresholds, ())
    after = replace(before, updated_at=work.now)
    if sent:
        after = replace(after, thresholds=_thresholds(sent))
    if is_given(request.name):
        after = replace(after, name=request.name or None)
    if is_given(request.code):
        after = replace(after, code=request.code or "")
    if request.billable_metric_code:
        metric = _metric(work, request.billable_metric_code)
        if metric.id != before.billable_metric_id:
            after = replace(after, billable_metric_id=metric.id, previous_value=ZERO, last_processed_at=None)
    _check(work, owner, after)
    work.tx.replace(after)
    return after


def _missing(root: str) -> BadRequest:
    return BadRequest(f"BadRequest: param is missing or the value is empty or invalid: {root}")


def _in_words(problem: BillingError) -> str:
    if isinstance(problem, Invalid):
        return f"Validation errors: {encode_json(problem.details).decode()}"
    return problem.code


def _created(work: Work, owner: Subscription | Wallet, request: AlertInput) -> Alert:
    is_wallet = isinstance(owner, Wallet)
    alert_type = _type(request.alert_type, WALLET_TYPES if is_wallet else SUBSCRIPTION_TYPES)
    thresholds = _thresholds(request.thresholds)
    metric = _metric(work, request.billable_metric_code) if request.billable_metric_code else None
    alert = Alert(
        id=work.new_id(),
        organization_id=work.organization.id,
        customer_id=owner.customer_id,
        external_subscription_id=None if isinstance(owner, Wallet) else owner.external_id,
        wallet_id=owner.id if is_wallet else None,
        direction=Direction.DECREASING if is_wallet else Direction.INCREASING,
        previous_value=wallet_value(alert_type, owner) if isinstance(owner, Wallet) else ZERO,
        alert_type=alert_type,
        code=value_or(request.code, ""),
        name=request.name or None,
        thresholds=thresholds,
        billable_metric_id=None if metric is None else metric.id,
        created_at=work.now,
        updated_at=work.now,
    )
    _check(work, owner, alert)
    work.tx.insert(alert)
    return alert


def _type(sent: Maybe[str], allowed: frozenset[AlertType]) -> AlertType:
    if not sent:
        raise Invalid(alert_type=["value_is_mandatory", "value_is_invalid"])
    known = next((alert_type for alert_type in allowed if alert_type == sent), None)
    if known is None:
        raise Invalid(alert_type="invalid_type")
    return known


def _thresholds(sent: Maybe[tuple[AlertThresholdInput, ...]]) -> tuple[AlertThreshold, ...]:
    if not sent:
        raise Invalid(thresholds="value_is_mandatory")
    members = [changes(threshold) for threshold in sent]
    errors = threshold_errors(members)
    if errors:
        raise Invalid(errors)
    return read_thresholds(members)


def _metric(reader: Reader, code: str) -> BillableMetric:
    metric = reader.tx.first(BillableMetric, eq("code", code))
    if metric is None:
        raise NotFound("billable_metric", code)
    return metric


def _check(reader: Reader, owner: Subscription | Wallet, alert: Alert) -> None:
    """Raises `Invalid` if the alert makes no sense, or its owner already has one like it."""
    errors = definition_errors(alert)
    if not errors and isinstance(owner, Subscription) and _is_prorated(reader, owner, alert):
        errors["billable_metric"] = ["prorated_charge"]
    if errors:
        raise Invalid(errors)
    errors = clashes(alert, reader.tx.find(Alert, *_of(owner), ne("id", alert.id)))
    if errors:
        raise Invalid(errors)


def _is_prorated(reader: Reader, subscription: Subscription, alert: Alert) -> bool:
    """Whether the alert watches lifetime units of prorated charges, which exist only per period."""
    return alert.alert_type == AlertType.METRIC_LIFETIME_USAGE_UNITS and any(
        charge.prorated and charge.billable_metric_id == alert.billable_metric_id
        for charge in plan_definition(reader, subscription.plan_id).charges
    )
