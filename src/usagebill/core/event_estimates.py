"""Estimates of events: the charges that would bill an event at once, and its units."""

from __future__ import annotations

from decimal import Decimal

from usagebill.core.aggregation import AGGREGATIONS, Accumulation, round_units
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.errors import Invalid
from usagebill.core.events import Event, numeric_value, property_of
from usagebill.core.expressions import EvaluationError, ExpressionSyntaxError, evaluated_text
from usagebill.core.numbers import ONE, ZERO
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing import MODELS


def is_instant(charge: Charge) -> bool:
    """Whether the price of one event of the charge depends on no other event."""
    return charge.pay_in_advance and MODELS[charge.charge_model].instant_price is not None


def instant_charges(definition: PlanDefinition, code: str) -> list[Charge]:
    """The charges of a plan that price each event of this code separately."""
    return [
        charge
        for charge in definition.charges
        if is_instant(charge) and definition.metrics[charge.billable_metric_id].code == code
    ]


def has_advance_charge(definition: PlanDefinition, metric: BillableMetric) -> bool:
    """Whether the plan bills events of the metric in advance."""
    return any(charge.pay_in_advance and charge.billable_metric_id == metric.id for charge in definition.charges)


def evaluated(event: Event, metric: BillableMetric) -> Event:
    """The event with the value of the metric's expression in its field.

    Raises `Invalid` if it cannot be evaluated, and if the value is not a number although the metric sums or compares
    numbers. An event without the property is accepted, and so is any event of a metric that holds a level.
    """
    field = metric.field_name
    if metric.expression and field:
        try:
            value = evaluated_text(
                metric.expression, code=event.code, timestamp=event.timestamp, properties=event.properties
            )
        except (EvaluationError, ExpressionSyntaxError) as problem:
            raise Invalid(f"expression_evaluation_failed: {problem}") from problem
        event = event._replace(properties={**event.properties, field: value})
    aggregation = AGGREGATIONS[metric.aggregation_type]
    needs_number = aggregation.numeric and aggregation.accumulation is not Accumulation.LEVEL
    if needs_number and property_of(event, field) is not None and numeric_value(event, field) is None:
        raise Invalid(properties="value_is_not_valid_number")
    return event


def instant_units(event: Event, metric: BillableMetric) -> Decimal:
    """The units of one event by itself, rounded by the metric: its number, or 1 if the metric has no field."""
    units = ONE if metric.field_name is None else numeric_value(event, metric.field_name) or ZERO
    return round_units(units, metric)
