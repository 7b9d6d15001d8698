"""What sources hold is ingested once, or listed until it can be; how far they were taken is noted with it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on

from usagebill.core.errors import Invalid, NotAllowed
from usagebill.operations.event_sources import Arrival, take
from usagebill.sources.intake import Intake
from usagebill.sources.payloads import arrival_of

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.beyond_reference]


TIME = "2024-03-05T10:00:00Z"


def used(transaction_id: str, subscription: str = "sub", **rest: Any) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "code": "gb", "external_subscription_id": subscription, **rest}


def stored(box: Scenario) -> list[tuple[str, str | None]]:
    return [(event.transaction_id, event.external_subscription_id) for event in box.billing.events.list()]


def test_a_transaction_id_that_two_subscriptions_share_names_an_event_of_each(box: Scenario) -> None:
    arrivals = [Arrival(number, "", used("t1", f"sub{number % 2}")) for number in range(4)]
    taken = Intake(box.billing, "kafka:usage").take(arrivals, position=4)
    assert (taken.ingested, taken.duplicates, taken.refused) == (2, 2, {})
    assert sorted(stored(box)) == [("t1", "sub0"), ("t1", "sub1")]


def test_what_is_taken_twice_is_stored_and_listed_once(box: Scenario) -> None:
    arrivals = [Arrival(0, "", used("t1")), Arrival(1, "nonsense", problem={"payload": ["invalid_json"]})]
    for _ in range(2):
        Intake(box.billing, "kafka:usage").take(arrivals, part="3", position=2)
    (source,) = box.get("/event_sources")["event_sources"]
    assert (source["source"], source["part"], source["position"]) == ("kafka:usage", "3", 2)
    assert (source["events_count"], source["duplicates_count"], source["refused_count"]) == (1, 1, 1)
    (refused,) = box.get("/refused_events?source=kafka:usage")["refused_events"]
    assert (refused["payload"], refused["position"], refused["event"]) == ("nonsense", 1, None)
    assert refused["problem"] == {"payload": ["invalid_json"]}


def test_nothing_remains_of_what_could_not_be_noted(box: Scenario) -> None:
    class Failed(Exception):
        pass

    def fail(work: Any) -> None:
        take(work, "kafka:usage", "", [Arrival(0, "", used("t1")), Arrival(1, "?", problem={})], position=2)
        raise Failed

    with pytest.raises(Failed):
        box.billing.writing(fail)
    assert (stored(box), box.get("/event_sources")["event_sources"]) == ([], [])
    assert box.get("/refused_events")["refused_events"] == []


def test_a_refused_event_is_ingested_once_its_metric_is_right(box: Scenario) -> None:
    gb = box.metric("gb", expression="event.properties.missing + 1")
    Intake(box.billing, "nats:usage").take(
        [arrival_of(9, b'{"transaction_id": "t1", "code": "gb", "timestamp": 1709632800}')], position=10
    )
    (refused,) = box.billing.event_sources.refused()
    with pytest.raises(Invalid, match="expression_evaluation_failed"):
        box.billing.event_sources.retry(refused.id)
    assert box.billing.event_sources.retry_all().events_count == 0
    box.put("/billable_metrics/gb", billable_metric={"expression": "event.timestamp", "id": gb})
    assert box.billing.event_sources.retry_all().events_count == 1
    assert (stored(box), list(box.billing.event_sources.refused())) == ([("t1", None)], [])


def test_what_cannot_be_read_is_only_deleted(box: Scenario) -> None:
    Intake(box.billing, "nats:usage").take([arrival_of(0, b"\xff\x00{")], position=1)
    (refused,) = box.billing.event_sources.refused()
    assert refused.payload == "\\xff\\x00{"
    with pytest.raises(NotAllowed):
        box.billing.event_sources.retry(refused.id)
    box.delete(f"/refused_events/{refused.id}")
    assert box.get("/refused_events")["meta"]["total_count"] == 0


@pytest.mark.parametrize(
    ("payload", "headers", "event"),
    [
        (b'{"transaction_id": "a", "timestamp": "2024-03-05T10:00:00Z"}', {}, {"transaction_id": "a"}),
        (
            b'{"specversion": "1.0", "id": "7", "source": "m", "type": "gb", "subject": "sub",'
            b'"time": "2024-03-05T10:00:00Z"}',
            {"content-type": "application/cloudevents+json"},
            {"transaction_id": "m#7", "code": "gb"},
        ),
        (
            b'{"gb": 5}',
            {
                "ce_specversion": "1.0",
                "ce_id": "7",
                "ce_source": "m",
                "ce_type": "gb",
                "ce_subject": "sub",
                "ce_time": TIME,
            },
            {"transaction_id": "m#7", "properties": {"gb": 5}},
        ),
        (
            b'{"gb": 5}',
            {
                "Ce-Specversion": "1.0",
                "Ce-Id": "7",
                "Ce-Source": "m",
                "Ce-Type": "gb",
                "Ce-Subject": "sub",
                "Ce-Time": TIME,
            },
            {"transaction_id": "m#7", "properties": {"gb": 5}},
        ),
    ],
    ids=["ours", "structured", "binary on Kafka", "binary on NATS"],
)
def test_messages_are_events_of_ours_or_cloud_events(
    payload: bytes, headers: dict[str, str], event: dict[str, Any]
) -> None:
    arrival = arrival_of(0, payload, headers)
    assert arrival.problem is None
    assert arrival.event is not None
    assert event.items() <= arrival.event.items()


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"{", "invalid_json"), (b"[]", "not_an_object"), (b'"' + b"x" * 1_000_001 + b'"', "value_is_too_long")],
)
def test_what_is_no_message_says_why(payload: bytes, code: str) -> None:
    assert arrival_of(0, payload).problem == {"payload": [code]}


# CloudEvents over HTTP

CLOUD = {"specversion": "1.0", "source": "/meter", "type": "gb", "subject": "sub", "data": {"value": 2}}


def test_cloud_events_are_taken_one_and_many_and_once(box: Scenario) -> None:
    def send(body: Any, status: int = 200) -> Any:
        return box.ask("POST", "/events/cloudevents", body, status=status)

    assert send({**CLOUD, "id": "1"})["cloud_events"] == {"events_count": 1, "duplicates_count": 0}
    batch = [{**CLOUD, "id": "1"}, {**CLOUD, "id": "2"}]
    assert send(batch)["cloud_events"] == {"events_count": 1, "duplicates_count": 1}
    assert sorted(stored(box)) == [("/meter#1", "sub"), ("/meter#2", "sub")]
    refusal = send([{**CLOUD, "id": "3"}, {**CLOUD}], status=422)
    assert refusal["error_details"] == {"1": {"id": ["value_is_mandatory"]}}
    assert len(stored(box)) == 2
    assert send([], status=422)["error_details"] == {"events": ["no_events"]}


def test_cloud_events_are_billed_as_others_are(box: Scenario) -> None:
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="3"))
    box.subscribe()
    box.ask("POST", "/events/cloudevents", [{**CLOUD, "id": "1"}, {**CLOUD, "id": "2"}])
    shown = box.get("/customers/acme/current_usage?external_subscription_id=sub")["customer_usage"]
    assert shown["amount_cents"] == (2 + 2) * 300
