"""Batches of events: which events are stored, which are refused, and the consequences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from usagebill.core.aggregation import lacks_property
from usagebill.core.billable_metrics import BillableMetric, declared_values
from usagebill.core.events import Event, JsonValue, repeated_positions
from usagebill.core.expressions import EvaluationError, ExpressionSyntaxError, evaluated_text
from usagebill.core.filters import undeclared_keys
from usagebill.core.ingestion import Received
from usagebill.core.unbilled import is_uncounted

# The errors of an event: codes by field, or a text for a failed expression.
Problems = Mapping[str, object] | str
ALREADY_STORED: Final[Problems] = {"transaction_id": ["value_already_exist"]}
_WHOLE: Final = 10**30


def events_of(
    received: Sequence[Received],
    ids: Iterable[str],
    metrics: Mapping[str, BillableMetric],
    *,
    organization_id: str,
    now: datetime,
) -> tuple[list[Event], dict[int, Problems]]:
    """The events to store, one for each of `received`, and the errors of refused ones by position.

    `ids` provides as many new ids, `metrics` those of the codes received. The expression of an event's metric is
    evaluated, and its value stored in the metric's field.
    """
    problems: dict[int, Problems] = {position: item.problems for position, item in enumerate(received) if item.problems}
    expressions = {code: metric for code, metric in metrics.items() if metric.expression and metric.field_name}
    events: list[Event] = []
    for position, (item, id) in enumerate(zip(received, ids, strict=True)):
        properties = item.properties
        if item.code in expressions and not item.problems:
            try:
                properties = _with_result(expressions[item.code], item)
            except (EvaluationError, ExpressionSyntaxError) as problem:
                problems[position] = f"expression_evaluation_failed: {problem}"
        # Positional arguments: keywords would take longer than the event itself.
        events.append(
            Event(
                id,
                organization_id,
                item.transaction_id,
                item.code,
                item.external_subscription_id,
                item.timestamp,
                properties,
                item.precise_total_amount_cents,
                now,
                item.unread_amount,
            )
        )
    return events, problems


def _with_result(metric: BillableMetric, item: Received) -> Mapping[str, JsonValue]:
    value = evaluated_text(
        metric.expression or "", code=item.code, timestamp=item.timestamp, properties=item.properties
    )
    return {**item.properties, metric.field_name or "": value}


def uncounted_ids(events: Sequence[Event], metrics: Mapping[str, BillableMetric]) -> set[str]:
    """The ids of the events that their metric cannot count; `metrics` are by code."""
    with_field = {code: metric for code, metric in metrics.items() if metric.field_name is not None}
    if not with_field:
        return set()
    return {
        event.id
        for event in events
        if (metric := with_field.get(event.code)) is not None
        # Most events have whole numbers.
        and not (type(number := event.properties.get(metric.field_name or "")) is int and -_WHOLE < number < _WHOLE)
        and is_uncounted(metric, event)
    }


def names_by_subscription(events: Iterable[Event], codes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The transaction ids of the events with these codes that have one, by external subscription id."""
    names: dict[str, list[str]] = {}
    for event in events:
        if event.code in codes and event.external_subscription_id is not None:
            names.setdefault(event.external_subscription_id, []).append(event.transaction_id)
    return {external_id: tuple(transaction_ids) for external_id, transaction_ids in names.items()}


def event_key(sent: Mapping[str, object]) -> tuple[str, str]:
    """The identity of an event: external subscription id and transaction id, numbers as texts."""
    return str(sent.get("external_subscription_id")), str(sent.get("transaction_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The next step of storing events in batches: the positions of duplicates, and of the next batch.

    All other events share a transaction id with one in the batch, and wait for the next round.
    """

    duplicates: tuple[int, ...]
    batch: tuple[int, ...]


def next_round(waiting: Sequence[int], keys: Sequence[tuple[str, str]], stored: Collection[tuple[str, str]]) -> Round:
    """The next round of the events at `waiting`; `keys` are those of all events, `stored` the keys that are stored
    already.
    """
    duplicates = tuple(position for position in waiting if keys[position] in stored)
    new_positions = [position for position in waiting if keys[position] not in stored]
    repeated = set(repeated_positions(keys[position][1] for position in new_positions))
    batch = tuple(position for index, position in enumerate(new_positions) if index not in repeated)
    return Round(duplicates=duplicates, batch=batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedProblems:
    """The transaction ids of events that were stored but that no aggregation can use, each once and in order."""

    unknown_code: tuple[str, ...]
    missing_property: tuple[str, ...]
    undeclared_values: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.unknown_code or self.missing_property or self.undeclared_values)


def received_problems(events: Iterable[Event], metrics: Mapping[str, BillableMetric]) -> ReceivedProblems:
    """Errors in stored events; `metrics` are all existing ones, by code."""
    declared = {code: declared_values(metric) for code, metric in metrics.items()}
    unknown_code: dict[str, None] = {}
    missing_property: dict[str, None] = {}
    undeclared_values: dict[str, None] = {}
    for event in events:
        metric = metrics.get(event.code)
        if metric is None:
            unknown_code[event.transaction_id] = None
            continue
        if lacks_property(metric, event):
            missing_property[event.transaction_id] = None
        if undeclared_keys(event, declared[event.code]):
            undeclared_values[event.transaction_id] = None
    return ReceivedProblems(
        unknown_code=tuple(unknown_code),
        missing_property=tuple(missing_property),
        undeclared_values=tuple(undeclared_values),
    )
