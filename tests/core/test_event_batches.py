"""What is stored of a batch of events and what is refused, in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.event_batches import (
    ReceivedProblems,
    Round,
    event_key,
    events_of,
    names_by_subscription,
    next_round,
    received_problems,
    uncounted_ids,
)
from usagebill.core.events import Event, JsonValue
from usagebill.core.ingestion import receive

NOW = datetime(2024, 3, 5, tzinfo=UTC)
CALLS = BillableMetric(
    id="calls",
    organization_id="o",
    name="Calls",
    code="calls",
    aggregation_type="count_agg",
    created_at=NOW,
    updated_at=NOW,
)
TOKENS = replace(CALLS, id="tokens", code="tokens", aggregation_type="sum_agg", field_name="total")
SPENT = replace(TOKENS, id="spent", code="spent", expression="event.properties.input + event.properties.output")
METRICS = {metric.code: metric for metric in (CALLS, TOKENS, SPENT)}


def event(
    id: str, code: str = "tokens", properties: Mapping[str, JsonValue] | None = None, subscription: str | None = "s"
) -> Event:
    return Event(id, "o", f"t-{id}", code, subscription, NOW, properties or {}, None, NOW)


def stored(*sent: dict[str, object]) -> tuple[list[Event], dict[int, object]]:
    received = [receive({"transaction_id": f"t{place}", **item}, NOW) for place, item in enumerate(sent)]
    ids = [f"id{place}" for place in range(len(sent))]
    events, problems = events_of(received, ids, METRICS, organization_id="o", now=NOW)
    return events, dict(problems)


def test_each_event_has_its_place_and_its_id() -> None:
    events, problems = stored({"code": "calls"}, {"code": "unknown", "properties": {"a": 1}})
    assert problems == {}
    assert [(item.id, item.transaction_id, item.code) for item in events] == [
        ("id0", "t0", "calls"),
        ("id1", "t1", "unknown"),
    ]
    assert {(item.organization_id, item.created_at) for item in events} == {("o", NOW)}


def test_an_expression_gives_the_value_that_is_counted() -> None:
    (item,), problems = stored({"code": "spent", "properties": {"input": 3, "output": 4}})
    assert problems == {}
    assert Decimal(str(item.properties["total"])) == 3 + 4


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"code": ""}, {"code": ["value_is_mandatory"]}),
        ({"code": "calls", "timestamp": "soon"}, {"timestamp": ["invalid_format"]}),
        ({"code": "spent", "properties": {"input": 3}}, "expression_evaluation_failed: "),
    ],
)
def test_what_is_refused_is_named_by_its_position(sent: dict[str, object], problem: object) -> None:
    _, problems = stored({"code": "calls"}, sent)
    assert list(problems) == [1]
    if isinstance(problem, str):
        assert str(problems[1]).startswith(problem)
    else:
        assert problems[1] == problem


@pytest.mark.parametrize(
    ("code", "properties", "is_uncounted"),
    [
        ("calls", {}, False),
        ("unknown", {}, False),
        ("tokens", {"total": 7}, False),
        ("tokens", {"total": "7.5"}, False),
        ("tokens", {"total": True}, True),
        ("tokens", {"total": "many"}, True),
        ("tokens", {}, True),
        ("tokens", {"total": None}, True),
    ],
)
def test_events_that_their_metric_cannot_count(code: str, properties: dict[str, JsonValue], is_uncounted: bool) -> None:
    assert uncounted_ids([event("e", code, properties)], METRICS) == ({"e"} if is_uncounted else set())


def test_names_are_grouped_by_subscription_in_the_order_sent() -> None:
    events = [event("b"), event("a", "calls"), event("c", subscription="z"), event("d", subscription=None), event("e")]
    assert names_by_subscription(events, {"tokens"}) == {"s": ("t-b", "t-e"), "z": ("t-c",)}


S_1, S_2, Z_1 = ("s", "1"), ("s", "2"), ("z", "1")


@pytest.mark.parametrize(
    ("keys", "waiting", "known", "duplicates", "batch"),
    [
        ([S_1, S_2], [0, 1], [], (), (0, 1)),
        ([S_1, S_2], [1], [], (), (1,)),
        ([S_1, S_2], [0, 1], [S_2], (1,), (0,)),
        # A transaction id is in a batch once: that of another subscription waits.
        ([S_1, Z_1, S_2], [0, 1, 2], [], (), (0, 2)),
        ([S_1, Z_1], [1], [S_1], (), (1,)),
        ([S_1, S_1], [0, 1], [], (), (0,)),
        ([S_1, S_1], [1], [S_1], (1,), ()),
    ],
)
def test_rounds(
    keys: list[tuple[str, str]],
    waiting: list[int],
    known: list[tuple[str, str]],
    duplicates: tuple[int, ...],
    batch: tuple[int, ...],
) -> None:
    assert next_round(waiting, keys, set(known)) == Round(duplicates=duplicates, batch=batch)


@given(keys=st.lists(st.tuples(st.sampled_from("sz"), st.sampled_from("123"))))
def test_every_event_is_stored_once_or_a_duplicate(keys: Sequence[tuple[str, str]]) -> None:
    waiting, batches, duplicates = list(range(len(keys))), [], 0
    known: set[tuple[str, str]] = set()
    while waiting:
        step = next_round(waiting, keys, known)
        batch = [keys[position] for position in step.batch]
        assert len({name for _, name in batch}) == len(batch)
        assert step.batch or step.duplicates
        batches += batch
        duplicates += len(step.duplicates)
        known |= set(batch)
        waiting = [position for position in waiting if position not in {*step.batch, *step.duplicates}]
    assert sorted(batches) == sorted(set(keys))
    assert len(batches) + duplicates == len(keys)


def test_numbers_are_part_of_a_key_as_texts() -> None:
    assert event_key({"external_subscription_id": 7, "transaction_id": "1"}) == ("7", "1")


def test_what_no_aggregation_can_use_is_reported_once() -> None:
    events = [event("a"), event("a"), event("b", "unknown"), event("c", properties={"total": 1}), event("d", "calls")]
    assert received_problems(events, METRICS) == ReceivedProblems(
        unknown_code=("t-b",), missing_property=("t-a",), undeclared_values=()
    )
    assert not received_problems(events[3:], METRICS)
