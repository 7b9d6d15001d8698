"""The usage that a subscription's alerts watch: its value now, and at the start of the period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from usagebill.core.aggregation import Window
from usagebill.core.alerts import Alert, AlertType, UsageLine, has_started_again, usage_value
from usagebill.core.instants import MICROSECOND
from usagebill.core.plans import Charge
from usagebill.core.subscriptions import Subscription
from usagebill.queries.subscriptions import definition_for
from usagebill.rating.current_usage import running_window, usage_within
from usagebill.runtime.work import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Usage in the charges period `window`: the `values` of alerts by id.

    For alerts last checked before the period began, `openings` are the values it began with, and `closings` those at
    the end of the previous period, if the subscription that was last checked had it. Lifetime usage is the current
    part alone. An alert on a metric that the plan does not price has no value.
    """

    window: Window
    values: dict[str, Decimal] = field(default_factory=dict)
    closings: dict[str, Decimal] = field(default_factory=dict)
    openings: dict[str, Decimal] = field(default_factory=dict)


def measure(
    reader: Reader, subscription: Subscription, alerts: Sequence[Alert], *, closed: Subscription
) -> Measurement:
    """The usage that these alerts of an active subscription watch; each charge is counted once for all of them.

    `closed` is the subscription that had the period before: the same one, or in the minutes before the run of a
    downgrade the one that gives way.
    """
    window = running_window(reader, subscription)
    measured = Measurement(window=window)
    charges = definition_for(reader, subscription, window.start).charges
    lifetime = [alert for alert in alerts if alert.alert_type == AlertType.METRIC_LIFETIME_USAGE_UNITS]
    current = [alert for alert in alerts if alert not in lifetime]
    _add_closings(reader, closed, current, measured)
    _add_values(reader, subscription, current, _watched(charges, current), window, measured)
    # Units are prorated by the days of one period.
    whole = [charge for charge in _watched(charges, lifetime) if not charge.prorated]
    prorated = {charge.billable_metric_id for charge in charges if charge.prorated}
    countable = [alert for alert in lifetime if alert.billable_metric_id not in prorated]
    if countable:
        since_start = running_window(reader, subscription, full=True)
        _add_values(reader, subscription, countable, whole, since_start, measured)
    return measured


def _watched(charges: Sequence[Charge], alerts: Sequence[Alert]) -> list[Charge]:
    metrics = {alert.billable_metric_id for alert in alerts}
    return [charge for charge in charges if None in metrics or charge.billable_metric_id in metrics]


def _add_closings(reader: Reader, subscription: Subscription, alerts: Sequence[Alert], measured: Measurement) -> None:
    """Add the usage at the very end of the previous period, which came after the alerts were last checked."""
    end = measured.window.start - MICROSECOND
    again = [
        alert
        for alert in alerts
        if has_started_again(alert, subscription.id, measured.window.start)
        and alert.measured_subscription_id == subscription.id
    ]
    if not again or subscription.started_at is None or subscription.started_at > end:
        return
    before = reader.at(end)
    closed = running_window(before, subscription)
    charges = definition_for(reader, subscription, closed.start).charges
    lines = _lines(before, subscription, _watched(charges, again), closed)
    for alert in again:
        value = usage_value(alert, lines)
        if value is not None and alert.measured_from == closed.start:
            measured.closings[alert.id] = value


def _add_values(
    reader: Reader,
    subscription: Subscription,
    alerts: Sequence[Alert],
    charges: Sequence[Charge],
    window: Window,
    measured: Measurement,
) -> None:
    again = [alert for alert in alerts if has_started_again(alert, subscription.id, measured.window.start)]
    now = _lines(reader, subscription, charges, window)
    began = (
        _lines(reader, subscription, _watched(charges, again), window, counted_until=window.start - MICROSECOND)
        if again
        else []
    )
    for alert in alerts:
        value = usage_value(alert, now)
        if value is None:
            continue
        measured.values[alert.id] = value
        if alert in again:
            measured.openings[alert.id] = usage_value(alert, began) or Decimal(0)


def _lines(
    reader: Reader,
    subscription: Subscription,
    charges: Sequence[Charge],
    window: Window,
    *,
    counted_until: datetime | None = None,
) -> list[UsageLine]:
    return [
        UsageLine(
            billable_metric_id=result.metric.id, amount_cents=result.amounts.amount_cents, units=result.amounts.units
        )
        for usage in usage_within(reader, subscription, charges, window, counted_until=counted_until)
        for result in usage.results
    ]
