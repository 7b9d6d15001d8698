"""What no operation can be given is refused before it: NUL characters, deep nesting, dates without neighbours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from tests.asgi import send
from tests.input_fields import places, put
from tests.sample_records import path_of, valid_bodies, world
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import create_app, endpoints, routes
from usagebill.process.json_text import Nul, parse_json

pytestmark = [pytest.mark.usefixtures("sandbox_engine")]

NAMED = [endpoint for endpoint in endpoints() if "{" in endpoint.path]
WRITING = [endpoint for endpoint in endpoints() if endpoint.body is not None]
ASKING = [endpoint for endpoint in endpoints() if endpoint.method == "GET" and endpoint.query]
# What becomes of a NUL elsewhere: events say which field has it, customers are stored without it.
NULS = {(endpoint.method, endpoint.path): endpoint.nul for endpoint in WRITING}
# Python's own recursion ends at 1,000, the decoder's a little later.
DEPTHS = (101, 500, 700, 990, 5_000)
FIRST_AND_LAST = ("0001-01-01", "0001-01-01T00:00:00Z", "9999-12-31", "9999-12-31T23:59:59Z")


@pytest.fixture(scope="module")
def box(sandbox_engine: None) -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    return world(box)


def answered(box: Scenario, method: str, path: str, body: str = "") -> Answer:
    target, _, query = path.partition("?")
    headers = {"authorization": f"Bearer {box.api_key}"}
    sent = Request(method=method, path=target, query=query, headers=headers, body=body.encode())
    return Api(box.billing, routes()).answer(sent)


def refused(answer: Answer, reason: str) -> None:
    said = json.loads(answer.body)
    assert (answer.status, said["error"]) == (400, "Bad Request"), said
    assert reason in said["message"]


def bodies(known: dict[str, str], value: str, *, every_field: bool = False) -> Iterator[tuple[str, str, str]]:
    """For each operation that takes a body: with this JSON in its first field, or in each of its fields in turn."""
    for endpoint in WRITING:
        assert endpoint.body is not None
        valid = valid_bodies(known).get(endpoint.body.__name__, {})
        fields_of_body = list(places(endpoint.body))
        for place in fields_of_body if every_field else fields_of_body[:1]:
            fields = put(valid, place, "@")
            body: Any = fields if endpoint.root is None else {endpoint.root: fields}
            yield endpoint.method, path_of(endpoint, known, {}), json.dumps(body).replace('"@"', value)


def test_no_path_has_a_nul(box: Scenario, known: dict[str, str]) -> None:
    for endpoint in NAMED:
        for name in re.findall(r"{(\w+)}", endpoint.path):
            refused(answered(box, endpoint.method, path_of(endpoint, known, {name: "a%00"})), "NUL")


def test_no_query_has_a_nul(box: Scenario, known: dict[str, str]) -> None:
    for endpoint in ASKING:
        assert endpoint.query is not None
        path = path_of(endpoint, known, {})
        for field in attrs.fields(endpoint.query):
            for form in ("=%00", "[]=%00", "[%00]=x"):
                refused(answered(box, "GET", f"{path}?{field.name}{form}"), "NUL")


def test_no_body_has_a_nul(box: Scenario, known: dict[str, str]) -> None:
    for value in ('"a\\u0000"', '{"\\u0000": 1}', '["\\\\\\u0000"]'):
        for method, path, body in bodies(known, value):
            answer = answered(box, method, path, body)
            match NULS.get((method, path.removeprefix("/api/v1")), Nul.REFUSED):
                case Nul.REFUSED:
                    refused(answer, "NUL")
                case Nul.DROPPED:
                    assert answer.status in (200, 422), (path, answer)
                case Nul.NAMED:
                    assert answer.status == 422, (path, answer)


def test_a_backslash_before_u0000_is_text(box: Scenario) -> None:
    assert parse_json(b'{"a": "\\\\u0000"}') == {"a": "\\u0000"}
    assert box.customer("back\\u0000slash")["external_id"] == "back\\u0000slash"


@pytest.mark.parametrize("depth", DEPTHS)
def test_no_body_is_nested_deep(box: Scenario, known: dict[str, str], depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        for method, path, body in bodies(known, opening * depth + "1" + closing * depth):
            refused(answered(box, method, path, body), "the body cannot be read")


def test_usage_may_be_nested_less_deep(box: Scenario, known: dict[str, str]) -> None:
    nested: Any = "x"
    for _ in range(90):
        nested = [nested]
    event = {"transaction_id": "deep", "code": "gb", "external_subscription_id": "sub", "properties": {"a": nested}}
    assert box.post("/events", event=event)["event"]["properties"]["a"] == nested


def test_no_first_or_last_date_breaks_a_query(box: Scenario, known: dict[str, str]) -> None:
    for endpoint in ASKING:
        assert endpoint.query is not None
        names = [field.name for field in attrs.fields(endpoint.query)]
        subscription = "" if "external_subscription_id" not in names else "&external_subscription_id=sub"
        for date in FIRST_AND_LAST:
            for name in names:
                for granularity in ("daily", "weekly", "monthly") if "time_granularity" in names else ("",):
                    grain = f"&time_granularity={granularity}" if granularity else ""
                    path = f"{path_of(endpoint, known, {})}?{name}={date}{grain}{subscription}"
                    assert answered(box, "GET", path).status < 500, path


@pytest.mark.parametrize("date", FIRST_AND_LAST)
def test_usage_is_not_asked_for_before_1900_or_after_9000(box: Scenario, date: str) -> None:
    status, answer = box.send("GET", f"/analytics/usage?from_date={date}&to_date={date}")
    assert (status, answer["error_details"]) == (422, {"from_date": ["value_is_out_of_range"]}) or (
        (status, answer["error_details"]) == (422, {"to_date": ["value_is_out_of_range"]})
    )


@pytest.mark.slow
def test_no_first_or_last_date_breaks_a_change(box: Scenario, known: dict[str, str]) -> None:
    for date in (FIRST_AND_LAST[0], FIRST_AND_LAST[-1]):
        for method, path, body in bodies(known, f'"{date}"', every_field=True):
            assert answered(box, method, path, body).status < 500, (path, body)


@pytest.mark.parametrize(
    "path", ["/documents/%00", "/customer-portal/%00", "/webhooks/stripe/%00?code=%00", "/api/v1/customers?%00"]
)
def test_no_other_path_has_a_nul_either(empty_database: str, path: str) -> None:
    with Billing(empty_database) as billing:
        answer = send(create_app(billing), "POST" if "webhooks" in path else "GET", path)
        assert (answer.status_code, "NUL" in answer.json()["message"]) == (400, True)
