"""Inputs of operations on alerts."""

from __future__ import annotations

from typing import Annotated

from usagebill.inputs import ABSENT, Input, Maybe

__all__ = ["AlertInput", "AlertThresholdInput", "AlertUpdate", "AlertsInput", "AlertsRequest"]


@Input
class AlertThresholdInput:
    """`value` is a number, or text that spells one: cents, units or credits as the alert's type says."""

    code: Maybe[str] = ABSENT
    value: Maybe[Annotated[object, str]] = ABSENT
    recurring: Maybe[bool] = ABSENT


@Input
class AlertInput:
    """`billable_metric_code` names the metric that alerts of the `billable_metric_` types watch."""

    alert_type: Maybe[str] = ABSENT
    code: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT
    thresholds: Maybe[tuple[AlertThresholdInput, ...]] = ABSENT


@Input
class AlertsInput:
    """Several alerts, made together or not at all."""

    alerts: Maybe[Annotated[object, tuple[AlertInput, ...]]] = ABSENT


@Input
class AlertsRequest:
    """One alert, or several that are made together or not at all."""

    alert: Maybe[Annotated[object, AlertInput]] = ABSENT
    alerts: Maybe[Annotated[object, tuple[AlertInput, ...]]] = ABSENT


@Input
class AlertUpdate:
    """What is not sent stays; `thresholds` that are sent replace all there were."""

    code: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT
    thresholds: Maybe[tuple[AlertThresholdInput, ...]] = ABSENT
