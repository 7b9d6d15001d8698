from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario

from usagebill.core.errors import Invalid
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.operations import events
from usagebill.process.settings import Settings
from usagebill.requests.inputs import Paging

NOW = "2024-03-05T10:00:00Z"

pytestmark = pytest.mark.now(NOW)


def send(box: Scenario, **event: Any) -> tuple[int, Any]:
    return box.send("POST", "/events", {"event": {"transaction_id": "t1", "code": "calls", **event}})


def send_batch(box: Scenario, *events: Any) -> tuple[int, Any]:
    return box.send("POST", "/events/batch", {"events": list(events)})


def stored(box: Scenario) -> list[str]:
    _, body = box.send("GET", "/events")
    return [event["transaction_id"] for event in body["events"]]


def metric(box: Scenario, code: str = "calls", **fields: Any) -> None:
    body = {"name": code, "code": code, "aggregation_type": "sum_agg", "field_name": "value", **fields}
    status, answer = box.send("POST", "/billable_metrics", {"billable_metric": body})
    assert status == 200, answer


def raw(box: Scenario, body: bytes, path: str = "/api/v1/events", method: str = "POST") -> tuple[int, Any]:
    api = Api(box.billing, routes())
    answer = api.answer(
        Request(method=method, path=path, headers={"authorization": f"Bearer {box.api_key}"}, body=body)
    )
    return answer.status, json.loads(answer.body, parse_float=str)


class TestOneEvent:
    def test_it_is_answered_as_it_is_stored(self, box: Scenario) -> None:
        status, body = send(
            box,
            external_subscription_id="sub",
            timestamp=1709632800.123456,
            precise_total_amount_cents="12.5",
            properties={"value": "12", "nested": {"a": [1, None, True]}},
        )
        assert status == 200
        assert body["event"] == {
            "svc_id": body["event"]["svc_id"],
            "transaction_id": "t1",
            "svc_customer_id": None,
            "code": "calls",
            "timestamp": "2024-03-05T10:00:00.123Z",
            "precise_total_amount_cents": "12.5",
            "properties": {"value": "12", "nested": {"a": [1, None, True]}},
            "svc_subscription_id": None,
            "external_subscription_id": "sub",
            "created_at": "2024-03-05T10:00:00Z",
        }
        assert box.send("GET", "/events/t1") == (200, body)

    def test_little_is_needed(self, box: Scenario) -> None:
        status, body = send(box, timestamp=None, properties=None, unknown="ignored")
        assert status == 200
        assert body["event"]["timestamp"] == "2024-03-05T10:00:00.000Z"
        assert body["event"]["properties"] == {}
        assert body["event"]["external_subscription_id"] is None
        assert body["event"]["precise_total_amount_cents"] is None

    @pytest.mark.parametrize(
        ("sent", "problems"),
        [
            ({"transaction_id": ""}, {"transaction_id": ["value_is_mandatory"]}),
            ({"transaction_id": None}, {"transaction_id": ["value_is_mandatory"]}),
            ({"transaction_id": ["a"]}, {"transaction_id": ["value_is_mandatory"]}),
            ({"code": " \t"}, {"code": ["value_is_mandatory"]}),
            ({"timestamp": "2024-01-01T00:00:00Z"}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": ""}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": True}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": [1]}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": "NaN"}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": 1e300}, {"timestamp": ["invalid_format"]}),
            ({"timestamp": "-99999999999999"}, {"timestamp": ["invalid_format"]}),
            ({"transaction_id": "a\0b"}, {"transaction_id": ["value_is_invalid"]}),
            ({"code": "a\0b"}, {"code": ["value_is_invalid"]}),
            ({"external_subscription_id": "\0"}, {"external_subscription_id": ["value_is_invalid"]}),
            ({"properties": {"a": "\0"}}, {"properties": ["value_is_invalid"]}),
            ({"properties": {"\0": 1}}, {"properties": ["value_is_invalid"]}),
            ({"properties": {"a": [{"b": ["\0"]}]}}, {"properties": ["value_is_invalid"]}),
            (
                {"transaction_id": "", "code": None, "timestamp": "x"},
                {
                    "transaction_id": ["value_is_mandatory"],
                    "code": ["value_is_mandatory"],
                    "timestamp": ["invalid_format"],
                },
            ),
        ],
    )
    def test_what_cannot_be_taken_is_named(self, box: Scenario, sent: Any, problems: Any) -> None:
        status, body = send(box, **sent)
        assert (status, body["code"], body["error_details"]) == (422, "validation_errors", problems)
        assert stored(box) == []

    @pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'"x"', b"1", b'{"event": {}}', b'{"event": "x"}'])
    def test_a_body_without_an_event_is_a_bad_request(self, box: Scenario, body: bytes) -> None:
        status, answer = raw(box, body)
        assert status == 400
        assert answer["error"] == "BadRequest: param is missing or the value is empty or invalid: event"

    def test_scalars_are_taken_as_text(self, box: Scenario) -> None:
        status, body = send(box, transaction_id=12, code=1.5, external_subscription_id=True)
        assert status == 200
        event = body["event"]
        assert (event["transaction_id"], event["code"], event["external_subscription_id"]) == ("12", "1.5", "true")

    def test_a_transaction_id_is_taken_once_per_subscription(self, box: Scenario) -> None:
        assert send(box, external_subscription_id="a")[0] == 200
        status, body = send(box, external_subscription_id="a", code="other")
        assert (status, body["error_details"]) == (422, {"transaction_id": ["value_already_exist"]})
        assert "another id bills it twice" in str(body["messages"]), "and not: choose another one"
        assert send(box, external_subscription_id="b")[0] == 200
        assert send(box)[0] == 200
        assert send(box)[0] == 200

    @pytest.mark.parametrize(
        ("sent", "shown"),
        [("1780586634.1", ".100"), (1780586634.1, ".100"), ("1780586634.0009999", ".000"), (1780586634, ".000")],
    )
    def test_fractions_of_a_second_are_exact(self, box: Scenario, sent: Any, shown: str) -> None:
        assert send(box, timestamp=sent)[1]["event"]["timestamp"] == f"2026-06-04T15:23:54{shown}Z"

    @pytest.mark.parametrize(
        ("sent", "kept"), [("abc", None), (12.5, "12.5"), ("0.0000000000000005", "0.000000000000001")]
    )
    def test_prices_are_kept_with_15_decimals(self, box: Scenario, sent: Any, kept: str | None) -> None:
        assert send(box, precise_total_amount_cents=sent)[1]["event"]["precise_total_amount_cents"] == kept

    @pytest.mark.parametrize(
        "properties",
        [
            b'{"a": 123456789012345678901234567890.123456789, "b": -0.0, "c": 1e3, "d": 1E-7}',
            b'{"a": 1e400, "b": 1e-400, "c": 99999999999999999999999999999999999999999999999999}',
            '{"é \\u00e9 \\ud83d\\ude00": "\u2028", "": "", "a\\"b\\\\c\\n": "\\u0001"}'.encode(),
            b'{"a": [[[[[[[[[[1]]]]]]]]]], "b": {"c": {"d": {}}}, "e": true, "f": null}',
        ],
    )
    def test_properties_come_back_with_every_digit_and_letter(self, box: Scenario, properties: bytes) -> None:
        body = b'{"event": {"transaction_id": "t1", "code": "calls", "properties": ' + properties + b"}}"
        status, answer = raw(box, body)
        assert status == 200
        sent = json.loads(properties, parse_float=Decimal)
        assert _exact(answer["event"]["properties"]) == sent
        assert _exact(raw(box, b"", "/api/v1/events/t1", "GET")[1]["event"]["properties"]) == sent

    @pytest.mark.parametrize(
        ("properties", "status"),
        [
            (b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", 200),
            (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", 422),
            (b'{"a": ' + b'{"b":' * 500 + b"1" + b"}" * 500 + b"}", 422),
            (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
            (b'{"a": ' + b"9" * 400 + b"}", 200),
            (b'{"a": ' + b"9" * 401 + b"}", 400),
            (b'{"a": ' + b"9" * 100_000 + b"}", 400),
            (b'{"a": 0.' + b"9" * 100_000 + b"}", 400),
            (b'{"a": 1e400}', 200),
            (b'{"a": 1e401}', 400),
            (b'{"a": 1e999999999999999999}', 400),
            (b'{"a": "\\ud800"}', 400),
            (b'{"a": "\xff"}', 400),
            (b'{"a": NaN}', 400),
            (b'{"a": 1, "a": 2}', 200),
        ],
    )
    def test_odd_json_is_stored_or_refused(self, box: Scenario, properties: bytes, status: int) -> None:
        body = b'{"event": {"transaction_id": "t1", "code": "calls", "properties": ' + properties + b"}}"
        assert raw(box, body)[0] == status
        assert stored(box) == (["t1"] if status == 200 else [])

    @pytest.mark.parametrize("properties", [b'"{\\"gb\\": 5}"', b"5", b"true", b"[1]", b'[{"gb": 5}]'])
    def test_properties_that_are_no_object_are_refused_and_not_lost(self, box: Scenario, properties: bytes) -> None:
        body = b'{"event": {"transaction_id": "t1", "code": "calls", "properties": ' + properties + b"}}"
        status, answer = raw(box, body)
        assert (status, answer["error_details"]) == (422, {"properties": ["value_is_invalid"]})
        assert stored(box) == []

    @pytest.mark.parametrize("properties", [b"{}", b"[]", b'""', b"null"])
    def test_there_are_several_ways_to_write_no_properties(self, box: Scenario, properties: bytes) -> None:
        body = b'{"event": {"transaction_id": "t1", "code": "calls", "properties": ' + properties + b"}}"
        assert raw(box, body)[1]["event"]["properties"] == {}


def _exact(value: Any) -> Any:
    """Parsed JSON whose fractions were kept as text, with decimals in their place."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    try:
        return Decimal(value) if isinstance(value, str) else value
    except ArithmeticError:
        return value


_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(10**15, 10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False, places=20).map(str),
        st.text(max_size=8),
        st.sampled_from(["1e5", "-1", " 1", "1_000", "\0", "a\0", "1" * 70, "0.1"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
_fields = st.sampled_from(
    ["transaction_id", "code", "external_subscription_id", "timestamp", "precise_total_amount_cents", "properties"]
)
_events = st.dictionaries(_fields, _json, max_size=6)


class TestAnything:
    @pytest.mark.slow
    @examples(60, deadline=None)
    @given(
        events=st.lists(
            st.one_of(_events, st.dictionaries(_fields, st.text(min_size=1), min_size=6), _json), max_size=3
        )
    )
    def test_whatever_is_sent_is_stored_or_refused_and_answered_as_it_is_stored(self, events: list[Any]) -> None:
        with Scenario(now=NOW) as box:
            metric(box, code="expressed", expression="event.properties.a * 2")
            status, body = raw(box, json.dumps({"events": events}).encode(), "/api/v1/events/batch")
            assert status in (200, 422)
            read, listed = raw(box, b"", "/api/v1/events", "GET")
            assert read == 200
            answered = sorted(event["svc_id"] for event in body["events"]) if status == 200 else []
            assert sorted(event["svc_id"] for event in listed["events"]) == answered
            for event in events:
                single, _ = raw(box, json.dumps({"event": event}).encode())
                assert single in (200, 400, 422)
            box.travel_to("2024-03-05T12:00:00Z")


class TestBatch:
    def test_events_are_answered_in_the_order_sent(self, box: Scenario) -> None:
        status, body = send_batch(box, *({"transaction_id": f"t{n}", "code": "c"} for n in (2, 1, 3)))
        assert status == 200
        assert [event["transaction_id"] for event in body["events"]] == ["t2", "t1", "t3"]
        assert set(body) == {"events"}

    @pytest.mark.parametrize("body", [b"{}", b'{"events": []}', b'{"events": null}', b"[]", b'{"events": [null]}'])
    def test_no_events(self, box: Scenario, body: bytes) -> None:
        status, answer = raw(box, body, "/api/v1/events/batch")
        assert (status, answer["error_details"]) == (422, {"events": ["no_events"]})

    def test_events_that_are_no_list(self, box: Scenario) -> None:
        status, answer = raw(box, b'{"events": "x"}', "/api/v1/events/batch")
        assert (status, answer["error_details"]) == (422, {"events": ["invalid_type"]})

    def test_too_many_events(self, box: Scenario) -> None:
        many = [{"transaction_id": f"t{number}", "code": "c"} for number in range(101)]
        assert send_batch(box, *many[:100])[0] == 200
        status, body = send_batch(box, *many)
        assert (status, body["error_details"]) == (422, {"events": ["too_many_events"]})

    def test_the_limit_is_a_setting(self) -> None:
        with Scenario(now=NOW, settings=Settings(events_per_batch=2)) as box:
            many = [{"transaction_id": f"t{number}", "code": "c"} for number in range(3)]
            assert send_batch(box, *many)[0] == 422
            assert send_batch(box, *many[:2])[0] == 200

    def test_every_bad_event_is_named_and_none_is_stored(self, box: Scenario) -> None:
        status, body = send_batch(
            box,
            {"transaction_id": "t1", "code": "c"},
            {"transaction_id": "t2", "code": "c", "timestamp": "2024-01-01"},
            "no object",
            {"transaction_id": "t1", "code": "c"},
        )
        assert status == 422
        assert body["error_details"] == {
            "1": {"timestamp": ["invalid_format"]},
            "2": {"transaction_id": ["value_is_mandatory"], "code": ["value_is_mandatory"]},
        }
        assert stored(box) == []

    def test_repeats_are_named_by_transaction_id_alone(self, box: Scenario) -> None:
        send(box, transaction_id="known", external_subscription_id="a")
        status, body = send_batch(
            box,
            {"transaction_id": "t1", "code": "c", "external_subscription_id": "a"},
            {"transaction_id": "t1", "code": "c", "external_subscription_id": "b"},
            {"transaction_id": "known", "code": "c", "external_subscription_id": "a"},
            {"transaction_id": "t1", "code": "c"},
        )
        taken = {"transaction_id": ["value_already_exist"]}
        assert (status, body["error_details"]) == (422, {"1": taken, "2": taken, "3": taken})
        assert stored(box) == ["known"]

    def test_those_that_are_stored_already_are_skipped_and_listed_where_that_is_asked_for(self, box: Scenario) -> None:
        def sent(*names: str) -> list[dict[str, Any]]:
            pairs = [name.split("/") for name in names]
            return [{"transaction_id": id, "code": "c", "external_subscription_id": of} for of, id in pairs]

        def skipping(*events: dict[str, Any]) -> tuple[int, Any]:
            return box.send("POST", "/events/batch?on_duplicate=skip", {"events": list(events)})

        assert send_batch(box, *sent("s1/a"))[0] == 200
        # b stands twice, and a of another subscription is another event.
        status, body = skipping(*sent("s1/b", "s1/a", "s2/a", "s1/b"))
        assert status == 200
        stored = [(event["external_subscription_id"], event["transaction_id"]) for event in body["events"]]
        assert sorted(stored) == [("s1", "b"), ("s2", "a")]
        assert body["skipped"] == [{"position": 1, "transaction_id": "a"}, {"position": 3, "transaction_id": "b"}]
        status, body = skipping(*sent("s1/b", "s1/a", "s2/a"))
        assert (status, body["events"], len(body["skipped"])) == (200, [], 3)
        assert box.get("/events")["meta"]["total_count"] == 3

    def test_one_that_is_wrong_refuses_the_batch_also_where_duplicates_are_skipped(self, box: Scenario) -> None:
        good = {"transaction_id": "a", "code": "c"}
        status, body = box.send("POST", "/events/batch?on_duplicate=skip", {"events": [good, {"code": "c"}]})
        assert (status, body["error_details"]) == (422, {"1": {"transaction_id": ["value_is_mandatory"]}})
        assert box.get("/events")["meta"]["total_count"] == 0
        status, body = box.send("POST", "/events/batch?on_duplicate=keep", {"events": [good]})
        assert (status, body["error_details"]) == (422, {"on_duplicate": ["value_is_invalid"]})

    def test_a_single_one_that_is_skipped_is_answered_as_it_was_stored(self, box: Scenario) -> None:
        event = {"transaction_id": "a", "code": "c", "external_subscription_id": "s1", "properties": {"n": 1}}
        first = box.send("POST", "/events", {"event": event})
        assert first[0] == 200
        again = {**event, "properties": {"n": 2}}
        assert box.send("POST", "/events?on_duplicate=skip", {"event": again}) == first
        assert box.send("POST", "/events", {"event": again})[0] == 422

    def test_one_that_is_stored_already_refuses_the_batch(self, box: Scenario) -> None:
        send(box, transaction_id="known", external_subscription_id="a")
        events = [
            {"transaction_id": name, "code": "c", "external_subscription_id": "a"} for name in ("x", "y", "known")
        ]
        status, body = send_batch(box, *events)
        assert (status, body["error_details"]) == (422, {"2": {"transaction_id": ["value_already_exist"]}})
        assert stored(box) == ["known"]


class TestExpressions:
    def test_the_result_stands_in_the_field(self, box: Scenario) -> None:
        metric(box, expression="event.properties.a + event.properties.b")
        _, body = send(box, properties={"a": "1", "b": 2, "value": "sent"})
        assert body["event"]["properties"] == {"a": "1", "b": 2, "value": "3.0"}
        assert box.send("GET", "/events/t1") == (200, body)

    def test_one_that_fails_refuses_the_event(self, box: Scenario) -> None:
        metric(box, expression="event.properties.a + event.properties.b")
        problem = "expression_evaluation_failed: Variable: b not found"
        status, body = send(box, properties={"a": "1"})
        assert (status, body["error_details"]) == (422, problem)
        status, body = send_batch(
            box,
            {"transaction_id": "t1", "code": "calls", "properties": {"a": 1}},
            {"transaction_id": "t2", "code": "calls", "properties": {"a": 1, "b": 1}},
            {"transaction_id": "t3", "code": ""},
        )
        assert body["error_details"] == {"0": problem, "2": {"code": ["value_is_mandatory"]}}
        assert stored(box) == []

    def test_one_that_was_just_changed_is_used(self, box: Scenario) -> None:
        metric(box, expression="1 + 1")
        assert send(box)[1]["event"]["properties"] == {"value": "2.0"}
        box.put("/billable_metrics/calls", billable_metric={"expression": "2 + 2"})
        assert send(box, transaction_id="t2")[1]["event"]["properties"] == {"value": "4.0"}
        box.delete("/billable_metrics/calls")
        assert send(box, transaction_id="t3")[1]["event"]["properties"] == {}


class TestLists:
    def test_latest_first_with_pages(self, box: Scenario) -> None:
        send_batch(box, *({"transaction_id": f"t{n}", "code": "c", "timestamp": 100 + n % 2} for n in range(5)))
        assert stored(box) == ["t1", "t3", "t0", "t2", "t4"]
        _, body = box.send("GET", "/events?per_page=2&page=2")
        assert [event["transaction_id"] for event in body["events"]] == ["t0", "t2"]
        assert body["meta"] == {"current_page": 2, "next_page": 3, "prev_page": 1, "total_pages": 3, "total_count": 5}

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("code=c1", ["t2", "t1"]),
            ("external_subscription_id=s2", ["t3", "t2"]),
            ("code=c1&external_subscription_id=s2", ["t2"]),
            ("code=&external_subscription_id=", ["t3", "t2", "t1"]),
            ("timestamp_from=2024-03-02", ["t3", "t2"]),
            ("timestamp_to=2024-03-02", ["t2", "t1"]),
            ("timestamp_to=2024-03-02T01:00:00%2B01:00", ["t2", "t1"]),
            ("timestamp_from=2024-03-02T00:00:00.001Z", ["t3"]),
            ("timestamp_from=2024-03-02&timestamp_to=2024-03-02T00:00:00Z", ["t2"]),
            ("external_subscription_id=s2&timestamp_from_started_at=true", ["t3", "t2"]),
            ("timestamp_from=2024-03-02&timestamp_from_started_at=false", ["t3", "t2"]),
        ],
    )
    def test_filters(self, box: Scenario, query: str, expected: list[str]) -> None:
        day = 86400
        first = 1709251200  # 2024-03-01
        send(box, transaction_id="t1", code="c1", external_subscription_id="s1", timestamp=first)
        send(box, transaction_id="t2", code="c1", external_subscription_id="s2", timestamp=first + day)
        send(box, transaction_id="t3", code="c2", external_subscription_id="s2", timestamp=first + 2 * day)
        status, body = box.send("GET", f"/events?{query}")
        assert status == 200
        assert [event["transaction_id"] for event in body["events"]] == expected

    @pytest.mark.parametrize(
        ("query", "problems"),
        [
            ("timestamp_from=yesterday", {"timestamp_from": ["invalid_date"]}),
            ("timestamp_to=2024-13-01", {"timestamp_to": ["invalid_date"]}),
            (
                "timestamp_from_started_at=true",
                {"external_subscription_id": ["required with timestamp_from_started_at"]},
            ),
            (
                "timestamp_from_started_at=true&external_subscription_id=s&timestamp_from=2024-01-01",
                {"timestamp_from": ["cannot be used with timestamp_from_started_at"]},
            ),
        ],
    )
    def test_filters_that_make_no_sense(self, box: Scenario, query: str, problems: Any) -> None:
        status, body = box.send("GET", f"/events?{query}")
        assert (status, body["error_details"]) == (422, problems)

    def test_one_by_its_transaction_id(self, box: Scenario) -> None:
        send(box, transaction_id="a/b é?")
        status, body = raw(box, b"", "/api/v1/events/a%2Fb%20%C3%A9%3F", "GET")
        assert (status, body["event"]["transaction_id"]) == (200, "a/b é?")
        status, body = box.send("GET", "/events/unknown")
        assert (status, body["code"]) == (404, "event_not_found")


def event_errors(box: Scenario) -> list[Any]:
    return [message["events_errors"] for message in box.webhooks if message["webhook_type"] == "events.errors"]


class TestHourlyCheck:
    def test_it_reports_what_no_aggregation_can_count(self, box: Scenario) -> None:
        metric(box, filters=[{"key": "region", "values": ["eu"]}])
        metric(box, "names", aggregation_type="unique_count_agg", field_name="name")
        send(box, transaction_id="good", properties={"value": 1, "region": "eu"})
        send(box, transaction_id="bad number", properties={"value": "1e3"})
        send(box, transaction_id="bad region", properties={"value": 1, "region": "us"})
        send(box, transaction_id="no name", code="names")
        send(box, transaction_id="a name", code="names", properties={"name": "x"})
        send(box, transaction_id="who knows", code="unknown", external_subscription_id="a")
        send(box, transaction_id="who knows", code="unknown", external_subscription_id="b")
        box.travel_to("2024-03-05T11:04:59Z")
        assert event_errors(box) == []
        box.travel_to("2024-03-05T11:05:00Z")
        assert event_errors(box)[0] == {
            "invalid_code": ["who knows"],
            "missing_aggregation_property": ["bad number", "no name"],
            "missing_group_key": None,
            "invalid_filter_values": ["bad region"],
        }
        box.travel_to("2024-03-06T00:00:00Z")
        assert len(event_errors(box)) == 1

    def test_an_event_belongs_to_the_hour_in_which_it_is_received(self, box: Scenario) -> None:
        send(box, transaction_id="first", timestamp=0)
        box.jump_to("2024-03-05T10:59:59.999Z")
        send(box, transaction_id="last", timestamp=4000000000)
        box.jump_to("2024-03-05T11:00:00Z")
        send(box, transaction_id="next", timestamp=0)
        box.travel_to("2024-03-05T13:00:00Z")
        assert [errors["invalid_code"] for errors in event_errors(box)] == [["first", "last"], ["next"]]

    def test_good_events_are_not_worth_a_message(self, box: Scenario) -> None:
        metric(box, aggregation_type="count_agg", field_name=None)
        send(box)
        box.travel_to("2024-03-05T12:00:00Z")
        assert event_errors(box) == []


class TestLibrary:
    def test_any_number_of_events_is_taken_in(self, box: Scenario) -> None:
        many = [{"transaction_id": f"t{n}", "code": "c", "properties": {"value": 0.1}} for n in range(1500)]
        taken = box.billing.writing(lambda work: events.ingest(work, many))
        assert [event.transaction_id for event in taken] == [event["transaction_id"] for event in many]
        assert taken[0].properties == {"value": Decimal("0.1")}
        page = box.billing.reading(lambda work: events.list_all(work, events.EventFilters(), Paging(per_page=1)))
        assert page.total_count == 1500

    def test_numbers_of_other_libraries_are_taken_as_they_read(self, box: Scenario) -> None:
        """Arrays are made of floats whose `repr` names their type."""

        class Named(float):
            def __repr__(self) -> str:
                return f"array.{self}"

            __str__ = float.__repr__

        body = {"transaction_id": "t", "code": "c", "properties": {"value": Named(0.1), "more": [Named(2.5)]}}
        taken = box.billing.writing(lambda work: events.ingest(work, [body]))
        assert taken[0].properties == {"value": Decimal("0.1"), "more": [Decimal("2.5")]}

    @pytest.mark.parametrize(
        "value",
        [float("nan"), float("inf"), Decimal("NaN"), "\ud800", object(), b"x", {1: 2}, [{"a": "\ud800"}], 10**2000],
    )
    def test_what_json_has_no_word_for_is_refused(self, box: Scenario, value: object) -> None:
        with pytest.raises(Invalid) as refused:
            box.billing.writing(
                lambda work: events.ingest(work, [{"transaction_id": "t", "code": "c", "properties": {"a": value}}])
            )
        assert refused.value.details == {"0": {"properties": ["value_is_invalid"]}}

    def test_inputs_are_taken_too(self, box: Scenario) -> None:
        sent = [events.EventInput(transaction_id="t", code="c", timestamp=12)]
        (taken,) = box.billing.writing(lambda work: events.ingest(work, sent))
        assert taken.timestamp.timestamp() == 12
