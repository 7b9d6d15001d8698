"""Billable metrics: create, change and delete them, with the effects on the charges that price them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from usagebill.core import expressions, limits
from usagebill.core.aggregation import AGGREGATIONS, FieldUse
from usagebill.core.alerts import Alert, removed
from usagebill.core.billable_metrics import (
    ROUNDING_FUNCTIONS,
    WEIGHTED_INTERVALS,
    BillableMetric,
    MetricFilter,
    declared_values,
    definition_errors,
    filter_errors,
    merged_filters,
)
from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.core.events import JsonValue, property_text
from usagebill.core.filters import trimmed_values
from usagebill.core.numbers import parse_decimal
from usagebill.core.plans import Charge, Plan
from usagebill.core.unbilled import is_uncounted
from usagebill.operations import draft_invoices
from usagebill.operations.alert_watch import watch_plans
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.queries.removed_events import were_removed
from usagebill.requests.inputs import ABSENT, Absent, Input, Maybe, Paging, changes, described, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, missing, related
from usagebill.storage.ports import Page
from usagebill.views.billable_metrics import billable_metric_view


@Input
class MetricFilterInput:
    key: Maybe[str] = described("The property of events.", example="region", required="always")
    values: Maybe[tuple[str, ...]] = described(
        "All values that charge filters may use.",
        example=["us", "eu"],
        required="always",
        most=limits.MOST_FILTER_VALUES,
    )


@Input
class BillableMetricInput:
    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT
    aggregation_type: Maybe[str] = described(required="create")
    field_name: Maybe[str] = ABSENT
    recurring: Maybe[bool] = described("Whether units carry over into the next period.", default="false")
    weighted_interval: Maybe[str] = described("The time step of a weighted sum.", values=WEIGHTED_INTERVALS)
    rounding_function: Maybe[str] = described(
        "How units are rounded before they are priced.", values=ROUNDING_FUNCTIONS
    )
    rounding_precision: Maybe[Annotated[int, limits.ROUNDING_PRECISION]] = described(
        "The number of decimals that units are rounded to.", default="0"
    )
    expression: Maybe[str] = described(
        "Computes the value of an event from its properties.", example="event.properties.gb * event.properties.hours"
    )
    filters: Maybe[tuple[MetricFilterInput, ...]] = described(
        "The properties by which prices may differ, and their values."
    )


@Input
class ExpressionEventInput:
    code: Maybe[str] = described("The billable metric, by code.")
    timestamp: Maybe[str] = described("When it happened.")
    properties: Maybe[Mapping[str, object]] = described("The properties of the event.", required="always", most=None)


@Input
class ExpressionInput:
    expression: Maybe[str] = described(
        "The expression to try.", example="event.properties.gb * event.properties.hours", required="create"
    )
    event: Maybe[ExpressionEventInput] = described(
        "An event to try the expression on.",
        example={"code": "storage", "properties": {"gb": 2, "hours": 3}},
        required="create",
    )


# The fields (besides filters) that can still change once a charge prices the metric.
_ALWAYS_EDITABLE = ("name", "description")
_EDITABLE = (
    *_ALWAYS_EDITABLE,
    "code",
    "aggregation_type",
    "field_name",
    "recurring",
    "weighted_interval",
    "rounding_function",
    "rounding_precision",
    "expression",
)


def get(reader: Reader, code: str) -> BillableMetric:
    """The metric with this code. Raises `NotFound`."""
    metric = reader.tx.first(BillableMetric, eq("code", code))
    if metric is None:
        raise NotFound("billable_metric", code)
    return metric


def list_all(reader: Reader, paging: Paging) -> Page[BillableMetric]:
    """Billable metrics, newest first."""
    return reader.page(BillableMetric, paging=paging)


@without_backlog(Unrelated.NEW)
def create(work: Work, request: BillableMetricInput) -> BillableMetric:
    """A new metric. Raises `Invalid`, and `Forbidden` for custom aggregations."""
    _refuse_custom(request)
    filters = _filters_sent(request)
    metric = _checked(
        work,
        BillableMetric(
            id=work.new_id(),
            organization_id=work.organization.id,
            name=value_or(request.name, ""),
            code=value_or(request.code, ""),
            aggregation_type=value_or(request.aggregation_type, ""),
            description=value_or(request.description, None),
            field_name=value_or(request.field_name, None),
            recurring=value_or(request.recurring, False),
            weighted_interval=value_or(request.weighted_interval, None),
            rounding_function=value_or(request.rounding_function, None),
            rounding_precision=value_or(request.rounding_precision, None),
            expression=value_or(request.expression, None),
            filters=filters or (),
            created_at=work.now,
            updated_at=work.now,
        ),
    )
    work.tx.insert(metric)
    work.tx.events.mark(metric.code, partial(is_uncounted, metric))
    work.emit("billable_metric.created", lambda: billable_metric_view(work, metric), metric.id)
    return metric


@after_backlog(of_everyone)
def update(work: Work, code: str, request: BillableMetricInput) -> BillableMetric:
    """Change what is sent; once a charge of a plan prices the metric, only name, description and filters change."""
    _refuse_custom(request)
    before = get(work, code)
    filters = _filters_sent(request)
    sent = changes(request, *(_ALWAYS_EDITABLE if _is_used(work, before) else _EDITABLE))
    for name in ("name", "code", "aggregation_type"):
        if name in sent and sent[name] is None:
            sent[name] = ""
    if sent.get("recurring", False) is None:
        sent["recurring"] = False
    after = _checked(work, replace(before, updated_at=work.now, **sent))
    if filters is not None:
        after = replace(after, filters=filters)
    work.tx.replace(after)
    counting = ("code", "aggregation_type", "field_name")
    if any(getattr(before, name) != getattr(after, name) for name in counting):
        work.tx.events.mark(after.code, partial(is_uncounted, after))
    if filters is not None:
        _adapt_charges(work, after)
    work.emit("billable_metric.updated", lambda: billable_metric_view(work, after), after.id)
    return after


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> BillableMetric:
    """Delete the metric, every charge that prices it and every alert that watches it.

    Events and past fees stay; the code is free again.
    """
    deleted = replace(get(work, code), deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    charges = work.tx.find(Charge, eq("billable_metric_id", deleted.id))
    for charge in charges:
        work.tx.replace(replace(charge, deleted_at=work.now, updated_at=work.now))
        work.divides_time |= charge.pay_in_advance
    for alert in work.tx.find(Alert, eq("billable_metric_id", deleted.id)):
        work.tx.replace(removed(alert, work.now))
    plan_ids = {charge.plan_id for charge in charges}
    draft_invoices.flag(work, draft_invoices.drafts_of_plans(plan_ids))
    watch_plans(work, plan_ids)
    work.emit("billable_metric.deleted", lambda: billable_metric_view(work, deleted), deleted.id)
    return deleted


def evaluate_expression(reader: Reader, request: ExpressionInput) -> str:
    """The value of an expression for an event, as text; numbers are decimals. Raises `Invalid`.

    All property values count as text. The event's timestamp is in Unix seconds and defaults to now.
    """
    if not request.expression or not request.expression.strip():
        raise Invalid(expression="value_is_mandatory")
    try:
        parsed = expressions.parse(request.expression)
    except expressions.ExpressionSyntaxError as problem:
        raise Invalid(expression="invalid_expression") from problem
    event = value_or(request.event, ExpressionEventInput())
    try:
        value = expressions.evaluate(
            parsed,
            code=value_or(event.code, ""),
            timestamp=_timestamp(event.timestamp, reader.now),
            properties=_texts(value_or(event.properties, {})),
        )
        return expressions.value_text(value)
    except expressions.EvaluationError as problem:
        raise Invalid(event="invalid_event") from problem


def _texts(properties: Mapping[str, object]) -> Mapping[str, JsonValue]:
    return {key: property_text(value) or "" for key, value in properties.items()}  # type: ignore[arg-type]


def _timestamp(sent: str | Literal[Absent.ABSENT] | None, now: datetime) -> datetime:
    if not sent:
        return now
    seconds = parse_decimal(sent)
    if seconds is None:
        raise Invalid(event="invalid_event")
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError) as problem:
        raise Invalid(event="invalid_event") from problem


def _refuse_custom(request: BillableMetricInput) -> None:
    # Their units come from a program of the caller's, which a request cannot carry.
    aggregation = AGGREGATIONS.get(value_or(request.aggregation_type, ""))
    if aggregation is not None and aggregation.is_program:
        raise Forbidden("feature_unavailable")


def _filters_sent(request: BillableMetricInput) -> tuple[MetricFilter, ...] | None:
    if request.filters is None or request.filters is ABSENT:
        return None
    sent = [(value_or(item.key, ""), value_or(item.values, ())) for item in request.filters]
    problems = filter_errors(sent)
    if problems:
        raise Invalid(problems)
    return merged_filters(sent)


def _checked(reader: Reader, metric: BillableMetric) -> BillableMetric:
    """The metric, checked. Raises `Invalid` if it makes no sense or its code is taken."""
    aggregation = AGGREGATIONS.get(metric.aggregation_type)
    if aggregation is not None and aggregation.field is FieldUse.NONE:
        metric = replace(metric, field_name=None)
    problems = definition_errors(metric)
    if metric.code:
        holder = reader.tx.first(BillableMetric, eq("code", metric.code))
        if holder is not None and holder.id != metric.id:
            problems["code"] = ["value_already_exist"]
    if metric.recurring and not problems and were_removed(reader, metric.code):
        # Levels are counted from the first event on.
        problems["recurring"] = ["needs_removed_events"]
    if problems:
        raise Invalid(problems)
    return metric


def _is_used(reader: Reader, metric: BillableMetric) -> bool:
    on_a_plan = related(Plan, "plan_id", missing("deleted_at"))
    return reader.tx.first(Charge, eq("billable_metric_id", metric.id), on_a_plan) is not None


def _adapt_charges(work: Work, metric: BillableMetric) -> None:
    """Remove values that the metric no longer declares from the filters of its charges.

    A charge filter that loses its last key is deleted; one that keeps a key matches more events than before.
    """
    declared = declared_values(metric)
    charges = work.tx.find(Charge, eq("billable_metric_id", metric.id))
    for charge in charges:
        kept = []
        for charge_filter in charge.filters:
            values = trimmed_values(charge_filter.values, declared)
            if values is not None:
                changed = dict(charge_filter.values) != values
                kept.append(replace(charge_filter, values=values, updated_at=work.now) if changed else charge_filter)
        if tuple(kept) != charge.filters:
            work.tx.replace(replace(charge, filters=tuple(kept), updated_at=work.now))
    plan_ids = {charge.plan_id for charge in charges}
    draft_invoices.flag(work, draft_invoices.drafts_of_plans(plan_ids))
    watch_plans(work, plan_ids)
