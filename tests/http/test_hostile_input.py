"""No value in a body, a query or a path causes a 500."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import attrs
import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.input_fields import places, put
from tests.sample_records import path_of, valid_bodies, world
from tests.scenarios import Scenario

from usagebill.http.api import Api, Request
from usagebill.http.app import endpoints, routes
from usagebill.http.endpoints import Endpoint

pytestmark = pytest.mark.slow

ODD: list[Any] = [
    *(None, "", [], {}, "x", 0, -1, 1.5, True, False, 10**30, -(10**30), 1e300),
    *("1e400", "nan", "Infinity", "-0", "9" * 400, "1" * 40, "\x00", "\ud800", "é", "\U0001f600" * 300),
    *([None], [[]], [{}], ["x"], [1], {"": 1}, {"a": {"b": [1]}}, {"a": ["x"]}, [{"id": 1}], "{", "[1]", '{"a": [{}]}'),
    *("2024-13-45", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "99999-01-01", "2024-02-30T25:00:00Z"),
]
# Numbers that nobody bills and nothing may compute with: a few bytes here are gigabytes, or hours, in a sum.
MONSTERS = [
    *("1e9999999", "-1e9999999", "1e-9999999", "1e99999999999999999999", "1e401", "1e-999", "0e99999"),
    *("9" * 401, "-" + "9" * 4000, "0." + "1" * 401),
]
SEGMENTS = ["%00", "a%2Fb", "%20", ".", "..", "%C3%A9", "%F0%9F%98%80", "x" * 3000, "'", "%25", "%2E%2E"]


def parameters(endpoint: Endpoint) -> list[str]:
    query_fields = attrs.fields(endpoint.query) if endpoint.query else ()
    return ["page", "per_page", *(field.name for field in query_fields)]


WRITING = [endpoint for endpoint in endpoints() if endpoint.body is not None]
ASKING = [endpoint for endpoint in endpoints() if endpoint.method == "GET" and (endpoint.query or endpoint.paged)]
NAMED = [endpoint for endpoint in endpoints() if "{" in endpoint.path]
FIELDS = {kind: list(places(kind)) for endpoint in WRITING if (kind := endpoint.body) is not None}
QUIET = examples(
    60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    # Requests build on records of earlier ones: a failure must be reproducible.
    derandomize=True,
)


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    return world(box)


def answered(box: Scenario, method: str, path: str, body: object = None) -> None:
    status, answer = box.request(method, path, json=body)
    assert status in (200, 400, 403, 404, 405, 422), (method, path, body, answer)
    if status != 200:
        assert answer["status"] == status
        assert answer["error"]


def as_sent(box: Scenario, method: str, path: str, body: str) -> int:
    """The status of an answer to a body that need not be what `json` writes."""
    headers = {"authorization": f"Bearer {box.api_key}"}
    target, _, query = path.partition("?")
    request = Request(method=method, path=target, query=query, headers=headers, body=body.encode())
    return Api(box.billing, routes()).answer(request).status


@pytest.mark.parametrize("endpoint", WRITING, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_every_field_alone_may_hold_anything(box: Scenario, known: dict[str, str], endpoint: Endpoint) -> None:
    assert endpoint.body is not None
    valid = valid_bodies(known).get(endpoint.body.__name__, {})
    path = path_of(endpoint, known, {})
    for number, place in enumerate(FIELDS[endpoint.body]):
        # An eighth of the odd values for each field, each value for an eighth of the fields.
        for value in ODD[number % 8 :: 8]:
            body = put(valid, place, value)
            answered(box, endpoint.method, path, body if endpoint.root is None else {endpoint.root: body})


@pytest.mark.parametrize("endpoint", WRITING, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_no_field_takes_a_number_that_cannot_be_computed_with(
    box: Scenario, known: dict[str, str], endpoint: Endpoint
) -> None:
    assert endpoint.body is not None
    valid = valid_bodies(known).get(endpoint.body.__name__, {})
    path = path_of(endpoint, known, {})
    for place in FIELDS[endpoint.body]:
        body = put(valid, place, "@")
        text = json.dumps(body if endpoint.root is None else {endpoint.root: body})
        for number in MONSTERS:
            assert as_sent(box, endpoint.method, path, text.replace('"@"', number)) == 400, (place, number)
        for number in MONSTERS[:4]:
            status = as_sent(box, endpoint.method, path, text.replace("@", number))
            assert status in (200, 400, 403, 404, 405, 422), (place, number)


@QUIET
@given(data=st.data())
def test_many_fields_at_once_may_hold_anything(box: Scenario, known: dict[str, str], data: st.DataObject) -> None:
    endpoint = data.draw(st.sampled_from(WRITING))
    assert endpoint.body is not None
    body: Any = valid_bodies(known).get(endpoint.body.__name__, {})
    for place in data.draw(st.lists(st.sampled_from(FIELDS[endpoint.body]), min_size=2, max_size=6)):
        body = put(body, place, data.draw(st.sampled_from(ODD)))
    answered(
        box, endpoint.method, path_of(endpoint, known, {}), body if endpoint.root is None else {endpoint.root: body}
    )


@QUIET
@given(data=st.data())
def test_queries_may_hold_anything(box: Scenario, known: dict[str, str], data: st.DataObject) -> None:
    endpoint = data.draw(st.sampled_from(ASKING))
    names = parameters(endpoint)
    sent_parameters = data.draw(
        st.dictionaries(
            st.tuples(st.sampled_from(names), st.sampled_from(["", "[]", "[a]", "[a][b]"])),
            st.sampled_from([value for value in ODD if isinstance(value, str) and value.isprintable()]),
            min_size=1,
            max_size=3,
        )
    )
    query = "&".join(f"{name}{form}={quote(value)}" for (name, form), value in sent_parameters.items())
    needed = "&external_subscription_id=sub" if "external_subscription_id=" not in query else ""
    answered(box, "GET", f"{path_of(endpoint, known, {})}?{query}{needed}")


@QUIET
@given(data=st.data())
def test_bodies_of_queries_may_hold_anything(box: Scenario, known: dict[str, str], data: st.DataObject) -> None:
    endpoint = data.draw(st.sampled_from(ASKING))
    names = parameters(endpoint)
    body = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(ODD), min_size=1, max_size=3))
    answered(box, "GET", path_of(endpoint, known, {}), {"external_subscription_id": "sub", **body})


@pytest.mark.parametrize("endpoint", NAMED, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_paths_may_name_anything(box: Scenario, known: dict[str, str], endpoint: Endpoint) -> None:
    body: Any = valid_bodies(known).get(endpoint.body.__name__, {}) if endpoint.body else None
    for name in re.findall(r"{(\w+)}", endpoint.path):
        for segment in SEGMENTS:
            path = path_of(endpoint, known, {name: segment})
            answered(box, endpoint.method, path, {endpoint.root: body} if endpoint.root else body)


@pytest.mark.parametrize("path", ["customers", "invoices"])
def test_metadata_may_be_asked_for_in_a_hundred_pairs(box: Scenario, path: str) -> None:
    def find_by_pairs(count: int) -> tuple[int, Any]:
        query = "&".join(f"metadata[key-{number}]={'v' * (number % 2)}" for number in range(count))
        return box.request("GET", f"/api/v1/{path}?{query}")

    assert find_by_pairs(100)[0] == 200
    for count in (101, 1001, 20_000):
        status, answer = find_by_pairs(count)
        assert (status, answer["error_details"]) == (422, {"metadata": ["invalid_count"]})
