"""Inputs of operations on alerts."""

from __future__ import annotations

from typing import Annotated

from usagebill.requests.inputs import ABSENT, Input, Maybe, described


@Input
class AlertThresholdInput:
    """`value` is a number, or one as text: cents, units or credits, depending on the alert's type."""

    code: Maybe[str] = described("The code of the threshold in messages.", example="warn")
    value: Maybe[Annotated[object, str]] = described(
        "The value that triggers: cents, units or credits.", example="10000", required="always"
    )
    recurring: Maybe[bool] = described("Whether every further multiple triggers.", default="false")


@Input
class AlertInput:
    """`billable_metric_code` is the metric watched by alerts of the `billable_metric_` types."""

    alert_type: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    name: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT
    thresholds: Maybe[tuple[AlertThresholdInput, ...]] = described(required="create")


@Input
class AlertsInput:
    """Several alerts, created all or none."""

    alerts: Maybe[Annotated[object, tuple[AlertInput, ...]]] = described(required="create")


@Input
class AlertsRequest:
    """One alert, or several that are created all or none."""

    alert: Maybe[Annotated[object, AlertInput]] = described("The alert; use `alerts` for several.")
    alerts: Maybe[Annotated[object, tuple[AlertInput, ...]]] = ABSENT


@Input
class AlertUpdate:
    """Fields that are not sent stay; `thresholds` replace the whole list."""

    code: Maybe[str] = ABSENT
    name: Maybe[str] = ABSENT
    billable_metric_code: Maybe[str] = ABSENT
    thresholds: Maybe[tuple[AlertThresholdInput, ...]] = ABSENT
