"""Lists of requests are bounded, and what is wrong with them is said in time that grows with their length at most."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

import attrs
import pytest
from tests.input_fields import put
from tests.sample_records import path_of, valid_bodies, world
from tests.scenarios import Scenario

from usagebill.core.errors import Invalid
from usagebill.core.limits import MOST_ENTRIES
from usagebill.core.near_names import near_name
from usagebill.core.pricing import MODELS, normalized_properties, validate_properties
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.requests.reference import hints_of
from usagebill.requests.refusals import word

Place = tuple[str | int, ...]
# The lists in the prices of a charge are bounded by its model (below); those of an event, which a CloudEvent has in its
# `data`, by the size of its body alone.
BOUNDED_ELSEWHERE = {"properties", "data"}


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        yield box


@pytest.fixture(scope="module")
def known(box: Scenario) -> dict[str, str]:
    return world(box)


def lists(kind: type, above: tuple[type, ...] = ()) -> Iterator[tuple[Place, int]]:
    """The places of all lists in an input, each with the most entries that it may have."""
    most = {field.name: field.metadata.get("most") or MOST_ENTRIES for field in attrs.fields(kind)}
    for name, hint in hints_of(kind).items():
        if name not in BOUNDED_ELSEWHERE:
            yield from (((name, *place), own or most[name]) for place, own in within(hint, (*above, kind)))


def within(hint: Any, above: tuple[type, ...]) -> Iterator[tuple[Place, int | None]]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for option in get_args(hint):
            yield from within(option, above)
    elif origin in (list, tuple):
        yield (), None
        yield from (((0, *place), most) for place, most in within(get_args(hint)[0], above))
    elif origin is Mapping:
        inner = get_args(hint)[1]
        # The values of a filter, by their key.
        of_key = tuple[str, ...] if inner is object else inner
        yield from ((("key", *place), most) for place, most in within(of_key, above))
    elif isinstance(hint, type) and attrs.has(hint) and hint not in above:
        yield from lists(hint, above)


BODIES = [
    pytest.param(endpoint, place, most, id=f"{endpoint.method} {endpoint.path} {'.'.join(map(str, place))}")
    for endpoint in endpoints()
    if endpoint.body is not None
    for place, most in sorted(set(lists(endpoint.body)), key=str)
]
QUERIES = [
    pytest.param(endpoint, place[0], id=f"{endpoint.path} {place[0]}")
    for endpoint in endpoints()
    if endpoint.method == "GET" and endpoint.query is not None
    for place, _ in lists(endpoint.query)
    if len(place) == 1
]


@pytest.mark.slow
@pytest.mark.parametrize(("endpoint", "place", "most"), BODIES)
def test_every_list_of_a_body_is_bounded(
    box: Scenario, known: dict[str, str], endpoint: Endpoint, place: Place, most: int
) -> None:
    assert endpoint.body is not None
    body = put(valid_bodies(known).get(endpoint.body.__name__, {}), place, ["x"] * (most + 1))
    sent = body if endpoint.root is None else {endpoint.root: body}
    status, answer = box.request(endpoint.method, path_of(endpoint, known, {}), json=sent)
    if status == 404 and place == ("thresholds",):
        # An alert that is not there is missed first.
        return
    assert status == 422, answer
    assert any(code in str(answer["error_details"]) for code in ("too_many_", "invalid_count")), answer


RANGE = {"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "1", "rate": "1"}
PRICES = [
    *((name, "pricing_group_keys", "x") for name in MODELS),
    *((name, "presentation_group_keys", {"value": "x"}) for name in MODELS),
    *((name, key, RANGE) for name in MODELS for key in MODELS[name].keys if key.endswith("_ranges")),
    ("custom", "custom_properties", 1),
]


@pytest.mark.parametrize(("model", "key", "entry"), PRICES)
def test_every_list_in_the_prices_of_a_charge_is_bounded(model: str, key: str, entry: object) -> None:
    def codes(entries: int) -> list[str]:
        listed = [entry] * entries
        properties = {key: {"a": {"b": listed}} if key == "custom_properties" else listed}
        return list(validate_properties(model, normalized_properties(model, properties)))

    bounded = {"too_many_keys", "too_many_values", f"invalid_{key}"}
    assert bounded & set(codes(MOST_ENTRIES + 1))
    if key == "custom_properties":
        assert codes(MOST_ENTRIES) == []


@pytest.mark.parametrize(("endpoint", "name"), QUERIES)
def test_every_list_of_a_query_is_bounded(box: Scenario, known: dict[str, str], endpoint: Endpoint, name: str) -> None:
    query = "&".join(["external_subscription_id=sub", *[f"{name}[]=x"] * (MOST_ENTRIES + 1)])
    status, answer = box.request("GET", f"{path_of(endpoint, known, {})}?{query}")
    assert (status, answer["error_details"]) == (422, {name: ["too_many_values"]})
    assert answer["message"] == f"{name}: has 1,001 values; send at most 1,000"


def test_a_filter_may_have_as_many_values_as_a_page_has_records(box: Scenario) -> None:
    zipcodes = [str(number) for number in range(MOST_ENTRIES)]
    status, answer = box.request("GET", "/api/v1/customers", json={"zipcodes": zipcodes})
    assert (status, answer["customers"]) == (200, [])


class Counted(dict[str, object]):
    """Counts how often all of it is gone through."""

    walks = 0

    def items(self) -> Any:
        Counted.walks += 1
        return super().items()


@pytest.mark.parametrize("wrong", [10, 1_000, 20_000])
def test_a_refusal_goes_through_what_was_sent_as_often_for_many_errors_as_for_few(wrong: int) -> None:
    Counted.walks = 0
    problem = Invalid({"statuses": {str(place): ["value_is_invalid"] for place in range(wrong)}})
    word(problem, Counted(statuses=["x"] * wrong, other=["y"]))
    assert Counted.walks <= 3


def test_a_refusal_words_the_first_errors_and_says_how_many_there_are() -> None:
    problem = Invalid({str(place): {"name": ["value_is_mandatory", "value_is_invalid"]} for place in range(5_000)})
    word(problem, {"items": [{}] * 5_000})
    assert len(problem.details) == 5_000
    assert list(problem.messages) == [str(place) for place in range(500)]
    assert problem.message.startswith("items[0].name: ")
    assert problem.message.endswith("; and 9990 more")


def test_names_are_compared_only_if_they_are_short() -> None:
    assert near_name("a" * 99 + "b", ["a" * 100]) == "a" * 100
    assert near_name("a" * 100 + "b", ["a" * 100]) is None
    assert near_name("a" * 100, ["a" * 101]) is None


def test_unknown_fields_are_compared_with_known_ones_only_where_that_is_shown(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    closest = difflib.get_close_matches

    def noting(name: str, *rest: Any, **more: Any) -> Any:
        compared.append(name)
        return closest(name, *rest, **more)

    monkeypatch.setattr(difflib, "get_close_matches", noting)
    body = {"customer": {"external_id": "many", **{f"nam{number}": 1 for number in range(5_000)}}}
    assert box.request("POST", "/api/v1/customers", json=body)[0] == 200
    assert compared == []
    headers = {"authorization": f"Bearer {box.api_key}", "usagebill-strict": "true"}
    status, answer = box.request("POST", "/api/v1/customers", json=body, headers=headers)
    assert (status, len(answer["error_details"])) == (422, 5_000)
    assert "did you mean" in answer["message"]
    assert 0 < len(compared) <= 20
