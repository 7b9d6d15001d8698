"""Fields with a closed set of values name them, in the API's description and in refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.examples import mostly_slow
from tests.input_fields import places, put
from tests.sample_records import path_of, valid_bodies, world
from tests.scenarios import Scenario

from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.http.openapi import document

Place = tuple[str | int, ...]
WRITING = [endpoint for endpoint in endpoints() if endpoint.body is not None and endpoint.many is None]
# Codes that say that a value is not in the set.
_NONE_OF_THEM = ["value_is_invalid"]
# Refused with these codes without a closed set: ISO 4217 codes, numbers, and words or a date.
_OPEN = ("currency", "value", "rate", "effective")


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    return world(box)


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(endpoints())


def schema_at(described: dict[str, Any], endpoint: Endpoint, place: Place) -> Any:
    """The description of a field of a body; None if there is none."""
    operation = described["paths"][f"/api/v1{endpoint.path}"][endpoint.method.lower()]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    for step in place if endpoint.root is None else (endpoint.root, *place):
        if "$ref" in schema:
            schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        schema = schema.get("items") if isinstance(step, int) else schema.get("properties", {}).get(step)
        if schema is None:
            return None
    return schema


def values_of(schema: Any) -> list[Any]:
    """The values that a schema takes, of each item if it is a list."""
    values = schema.get("enum") or schema.get("items", {}).get("enum") or []
    return [value for value in values if isinstance(value, str)]


def refused(box: Scenario, known: dict[str, str], endpoint: Endpoint, place: Place, value: Any) -> bool:
    """Whether an otherwise valid body is refused because `value` is not in the set."""
    assert endpoint.body is not None
    body = put(valid_bodies(known).get(endpoint.body.__name__, {}), place, value)
    path = path_of(endpoint, known, {})
    _, answer = box.request(endpoint.method, path, json=body if endpoint.root is None else {endpoint.root: body})
    details = answer.get("error_details") if isinstance(answer, dict) else None
    return isinstance(details, dict) and details.get(place[-1]) == _NONE_OF_THEM


@pytest.mark.parametrize(
    "endpoint", mostly_slow(WRITING, *WRITING[::8]), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}"
)
def test_what_takes_one_of_a_few_values_says_which(
    box: Scenario, known: dict[str, str], described: dict[str, Any], endpoint: Endpoint
) -> None:
    assert endpoint.body is not None
    for place in places(endpoint.body):
        schema = schema_at(described, endpoint, place)
        if schema is None or "string" not in schema.get("type", ()) or str(place[-1]).endswith(_OPEN):
            continue
        values = values_of(schema)
        if not values and refused(box, known, endpoint, place, "no such value"):
            assert refused(box, known, endpoint, place, "nor this"), place
            pytest.fail(f"{place} takes one of a few values; the reference does not say which")
        for value in values:
            assert not refused(box, known, endpoint, place, value), (place, value)
