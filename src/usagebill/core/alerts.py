"""Alerts: thresholds of a value, and the ones it crosses when it moves.

A subscription's alert watches usage rise, a wallet's alert watches a balance fall. It keeps the last value, so a
threshold triggers when the value reaches it and not again while the value stays beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import assert_never

from usagebill.core.limits import ALERT_THRESHOLD
from usagebill.core.numbers import ZERO, add, multiply, parse_decimal, subtract, total
from usagebill.core.wallets import Wallet

MOST_THRESHOLDS = 20
# A message lists at most this many steps of a recurring threshold: those next to the current value.
MOST_STEPS_LISTED = 1_000


class AlertType(StrEnum):
    """The value that an alert watches."""

    CURRENT_USAGE_AMOUNT = "current_usage_amount"
    METRIC_CURRENT_USAGE_AMOUNT = "billable_metric_current_usage_amount"
    METRIC_CURRENT_USAGE_UNITS = "billable_metric_current_usage_units"
    LIFETIME_USAGE_AMOUNT = "lifetime_usage_amount"
    METRIC_LIFETIME_USAGE_UNITS = "billable_metric_lifetime_usage_units"
    WALLET_BALANCE_AMOUNT = "wallet_balance_amount"
    WALLET_CREDITS_BALANCE = "wallet_credits_balance"
    WALLET_ONGOING_BALANCE_AMOUNT = "wallet_ongoing_balance_amount"
    WALLET_CREDITS_ONGOING_BALANCE = "wallet_credits_ongoing_balance"


SUBSCRIPTION_TYPES = frozenset(alert_type for alert_type in AlertType if not alert_type.startswith("wallet_"))
WALLET_TYPES = frozenset(AlertType) - SUBSCRIPTION_TYPES
METRIC_TYPES = frozenset(alert_type for alert_type in AlertType if alert_type.startswith("billable_metric_"))
# These continue from period to period; all other usage starts over.
CARRIED_TYPES = frozenset({AlertType.LIFETIME_USAGE_AMOUNT, AlertType.METRIC_LIFETIME_USAGE_UNITS})


# The code of the alert that a customer sets in the portal, which tells the customer by e-mail.
OWN_ALERT = "customer_portal"


class Direction(StrEnum):
    """The direction in which a value crosses a threshold."""

    INCREASING = "increasing"
    DECREASING = "decreasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertThreshold:
    """A value that triggers the alert, in cents, units or credits, depending on the alert's type.

    A recurring threshold is a step: it triggers again at each multiple beyond the outermost one-time threshold.
    """

    value: Decimal
    code: str | None = None
    recurring: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert of a subscription (by external id, so across plan changes) or of a wallet.

    `previous_value` is the value at `last_processed_at`; `measured_subscription_id` and `measured_from` are the
    subscription and the start of the period it was measured in.
    """

    id: str
    organization_id: str
    customer_id: str
    alert_type: AlertType
    code: str
    created_at: datetime
    updated_at: datetime
    thresholds: tuple[AlertThreshold, ...]
    direction: Direction = Direction.INCREASING
    name: str | None = None
    external_subscription_id: str | None = None
    wallet_id: str | None = None
    billable_metric_id: str | None = None
    previous_value: Decimal = ZERO
    last_processed_at: datetime | None = None
    measured_subscription_id: str | None = None
    measured_from: datetime | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """The thresholds that a value crossed on its way from `previous_value` to `current_value`.

    One-time thresholds come first, in the alert's order, then the steps of a recurring one by value, each with the
    threshold's code.
    """

    id: str
    alert: Alert
    previous_value: Decimal
    current_value: Decimal
    thresholds: tuple[AlertThreshold, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """One line of current usage: a filter or group of one charge, in cents and units of its metric."""

    billable_metric_id: str
    amount_cents: int
    units: Decimal


def usage_value(alert: Alert, lines: Iterable[UsageLine]) -> Decimal | None:
    """The alert's value from the usage of a plan: the sum over every charge, filter and group of its metric.

    None if the plan does not price the metric. In units for the types that count units, else in cents.
    """
    watched = [line for line in lines if alert.billable_metric_id in (None, line.billable_metric_id)]
    if alert.billable_metric_id is not None and not watched:
        return None
    if alert.alert_type in (AlertType.METRIC_CURRENT_USAGE_UNITS, AlertType.METRIC_LIFETIME_USAGE_UNITS):
        return total(line.units for line in watched)
    return Decimal(sum(line.amount_cents for line in watched))


def wallet_value(alert_type: AlertType, wallet: Wallet) -> Decimal:
    """The wallet's value that this type watches, in cents or credits. Raises `ValueError` for usage types."""
    match alert_type:
        case AlertType.WALLET_BALANCE_AMOUNT:
            return Decimal(wallet.balance_cents)
        case AlertType.WALLET_CREDITS_BALANCE:
            return wallet.credits_balance
        case AlertType.WALLET_ONGOING_BALANCE_AMOUNT:
            return Decimal(wallet.ongoing_balance_cents)
        case AlertType.WALLET_CREDITS_ONGOING_BALANCE:
            return wallet.credits_ongoing_balance
        case (
            AlertType.CURRENT_USAGE_AMOUNT
            | AlertType.METRIC_CURRENT_USAGE_AMOUNT
            | AlertType.METRIC_CURRENT_USAGE_UNITS
            | AlertType.LIFETIME_USAGE_AMOUNT
            | AlertType.METRIC_LIFETIME_USAGE_UNITS
        ):
            raise ValueError(f"{alert_type} is of no wallet")
        case _:
            assert_never(alert_type)


def is_own(alert: Alert) -> bool:
    """Whether it is the alert that the customer sets in the portal."""
    return alert.code == OWN_ALERT and alert.alert_type is AlertType.CURRENT_USAGE_AMOUNT


def reached_level(alert: Alert) -> Decimal | None:
    """The highest threshold that the last value has reached; None if it has reached none."""
    return max((level.value for level in alert.thresholds if level.value <= alert.previous_value), default=None)


# Errors of alerts


def threshold_errors(sent: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """The first error in thresholds as sent (`value`, `recurring`), as field -> codes."""
    if len(sent) > MOST_THRESHOLDS:
        return {"thresholds": ["too_many_thresholds"]}
    values = [_number(threshold.get("value")) for threshold in sent]
    readable = [(value, bool(threshold.get("recurring"))) for value, threshold in zip(values, sent, strict=True)]
    with_value = [pair for pair in readable if pair[0] is not None]
    if len(set(with_value)) < len(with_value):
        return {"thresholds": ["duplicate_threshold_values"]}
    if any(threshold.get("value") is None for threshold in sent):
        return {"thresholds:value": ["value_is_mandatory"]}
    if any(value is None for value in values):
        return {"thresholds:value": ["value_is_invalid"]}
    if any(not ALERT_THRESHOLD.holds(value) for value in values if value is not None):
        return {"thresholds:value": ["value_is_out_of_range"]}
    if any(recurring and value is not None and value <= ZERO for value, recurring in readable):
        return {"thresholds:value": ["recurring_value_is_negative"]}
    if sum(recurring for _, recurring in readable) > 1:
        return {"thresholds": ["multiple_recurring_thresholds"]}
    return {}


def _number(sent: object) -> Decimal | None:
    if isinstance(sent, str):
        return parse_decimal(sent.strip())
    if isinstance(sent, (int, Decimal)) and not isinstance(sent, bool):
        return Decimal(sent)
    return None


def read_thresholds(sent: Sequence[Mapping[str, object]]) -> tuple[AlertThreshold, ...]:
    """The thresholds as sent, once `threshold_errors` has no complaints."""
    return tuple(
        AlertThreshold(
            value=_number(threshold.get("value")) or ZERO,
            code=_text(threshold.get("code")),
            recurring=bool(threshold.get("recurring")),
        )
        for threshold in sent
    )


def _text(sent: object) -> str | None:
    return sent if isinstance(sent, str) and sent else None


def definition_errors(alert: Alert) -> dict[str, list[str]]:
    """Errors in the fields of an alert, as field -> codes; empty if there are none."""
    errors: dict[str, list[str]] = {}
    if not alert.code:
        errors["code"] = ["value_is_mandatory"]
    if alert.alert_type in METRIC_TYPES and alert.billable_metric_id is None:
        errors["billable_metric"] = ["value_is_mandatory"]
    if alert.alert_type not in METRIC_TYPES and alert.billable_metric_id is not None:
        errors["billable_metric"] = ["value_must_be_blank"]
    return errors


def clashes(alert: Alert, existing: Iterable[Alert]) -> dict[str, list[str]]:
    """Conflicts with its owner's `existing` alerts, as field -> codes: each has its own code and its own subject, but
    for the one that the customer sets, which may watch what the seller watches.
    """
    errors: dict[str, list[str]] = {}
    for present in existing:
        if present.code == alert.code:
            errors["code"] = ["value_already_exist"]
        same_subject = (present.alert_type, present.billable_metric_id) == (alert.alert_type, alert.billable_metric_id)
        if same_subject and not is_own(present) and not is_own(alert):
            errors["base"] = ["alert_already_exists"]
    return errors


def removed(alert: Alert, now: datetime) -> Alert:
    """The alert as deleted, without its thresholds."""
    return replace(alert, thresholds=(), deleted_at=now, updated_at=now)


# Crossings


def crossed_thresholds(
    thresholds: Sequence[AlertThreshold], direction: Direction, previous: Decimal, current: Decimal
) -> tuple[AlertThreshold, ...]:
    """The thresholds that a value reaches or passes on its way from `previous` to `current`.

    A threshold at `previous` itself was reached before. At most `MOST_STEPS_LISTED` steps of a recurring threshold are
    listed, those next to `current`.
    """
    falling = direction is Direction.DECREASING
    # A fall from p to c past t is a rise from -p to -c past -t.
    start, end = _turned(previous, falling), _turned(current, falling)
    once = [threshold for threshold in thresholds if not threshold.recurring]
    recurring = next((threshold for threshold in thresholds if threshold.recurring), None)
    crossed = [threshold for threshold in once if start < _turned(threshold.value, falling) <= end]
    if recurring is None or end <= start:
        return tuple(crossed)
    base = max((_turned(threshold.value, falling) for threshold in once), default=ZERO)
    first = max(1, _whole_steps(subtract(start, base), recurring.value) + 1)
    last = _whole_steps(subtract(end, base), recurring.value)
    steps = [
        replace(recurring, value=_turned(add(base, multiply(Decimal(number), recurring.value)), falling))
        for number in range(max(first, last - MOST_STEPS_LISTED + 1), last + 1)
    ]
    return (*crossed, *(reversed(steps) if falling else steps))


def _turned(value: Decimal, falling: bool) -> Decimal:
    return value.copy_negate() if falling else value


def _whole_steps(distance: Decimal, step: Decimal) -> int:
    """The exact number of whole steps within `distance`, negative if `distance` is."""
    return Fraction(distance) // Fraction(step)


def evaluated(
    alert: Alert, value: Decimal, now: datetime, *, crossing_id: str, opening: Decimal | None = None
) -> tuple[Alert, Crossing | None]:
    """The alert after a check against `value`, and the crossing on the way there; None if no threshold was crossed.

    `opening` is the value at which usage started over (a new period, another subscription), None if it continues from
    `previous_value`: thresholds beyond the opening are crossed again, those up to it are not.
    """
    previous = alert.previous_value
    if opening is not None:
        previous = min(previous, opening) if alert.direction is Direction.INCREASING else max(previous, opening)
    crossed = crossed_thresholds(alert.thresholds, alert.direction, previous, value)
    checked = replace(alert, previous_value=value, last_processed_at=now)
    if not crossed:
        return checked, None
    return checked, Crossing(
        id=crossing_id, alert=alert, previous_value=previous, current_value=value, thresholds=crossed, at=now
    )


def has_started_again(alert: Alert, subscription_id: str, start: datetime) -> bool:
    """Whether the watched usage has started over at `start`, with a period or a plan, since the last check.

    `subscription_id` is the subscription that is measured now. A plan that changes minutes after midnight takes over
    the period that began with the day.
    """
    if alert.last_processed_at is None or alert.alert_type == AlertType.LIFETIME_USAGE_AMOUNT:
        return False
    if alert.alert_type in CARRIED_TYPES:
        return alert.measured_subscription_id != subscription_id
    return alert.measured_from != start
