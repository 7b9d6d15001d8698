"""Every operation accepts the parameters and fields, and has the errors, of the reference's description.

Parameters, fields of bodies (those inside others too) and statuses of errors, operation by operation, against our own
description. Whether ours is true is tested elsewhere; what a refusal looks like, in `test_shapes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from tests.api_shapes import SHAPES

from usagebill.http.app import endpoints
from usagebill.http.openapi import document

pytestmark = pytest.mark.skipif(not SHAPES.exists(), reason="the reference's shapes are not beside this checkout")

_VERBS = ("get", "post", "put", "patch", "delete")
_DEEPEST = 12

# Fields that a sheet or the interface puts elsewhere: (operation, field) -> where it is taken.
ELSEWHERE = {
    # A whole invoice is kept from its provider, not one of its fees.
    ("post /invoices", "invoice.fees.skip_psp"): "invoice.skip_psp",
    # The sheets have events in the list, as `POST /events/batch` does.
    ("post /events/batch_estimate_instant_fees", "events.event"): "events",
}
# The former name of `pricing_group_keys`: taken, and not described to those who write new code.
FORMER = "grouped_by"
# One list of properties covers all models there; fixed charges have three of them.
NOT_OF_FIXED_CHARGES = {
    *(
        "fixed_amount",
        "free_units",
        "free_units_per_events",
        "free_units_per_total_aggregation",
        "package_size",
        "rate",
    ),
    *("per_transaction_max_amount", "per_transaction_min_amount", "graduated_percentage_ranges", "pricing_group_keys"),
    "custom_properties",
}


def shape_of(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"{\w+}", "{}", path.removeprefix("/api/v1"))


def resolved(described: Any, part: Any) -> Any:
    while isinstance(part, dict) and "$ref" in part:
        target = described
        for step in part["$ref"].split("/")[1:]:
            target = target[step]
        part = target
    return part


def branches(described: Any, schema: Any) -> Iterator[Any]:
    """A schema and all schemas inside it that apply to the same value."""
    schema = resolved(described, schema)
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name, ()):
            yield from branches(described, inner)
    for name in ("then", "else", "items"):
        if name in schema:
            yield from branches(described, schema[name])


def fields(described: Any, schema: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every field of a body; list items have no step of their own."""
    if len(way) > _DEEPEST:
        return
    for branch in branches(described, schema):
        for name, inner in branch.get("properties", {}).items():
            yield (*way, name)
            yield from fields(described, inner, (*way, name))


def takes(described: Any, schema: Any, way: tuple[str, ...]) -> bool:
    """Whether a body may have the field: it is named, or in an object with free members."""
    if not way:
        return True
    shown = list(branches(described, schema))
    named = [branch["properties"][way[0]] for branch in shown if way[0] in branch.get("properties", {})]
    if named:
        return any(takes(described, inner, way[1:]) for inner in named)
    return not any("properties" in branch for branch in shown)


def body_of(described: Any, operation: Any) -> Any:
    body = resolved(described, operation.get("requestBody", {}))
    return body.get("content", {}).get("application/json", {}).get("schema", {})


def queries(described: Any, path: Any, operation: Any) -> set[str]:
    listed = [resolved(described, item) for item in (*path.get("parameters", ()), *operation.get("parameters", ()))]
    return {re.sub(r"\[.*", "", item["name"]) for item in listed if item["in"] == "query"}


@cache
def reference() -> Any:
    return yaml.load(SHAPES.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def ours() -> Any:
    return document(endpoints())


@cache
def our_operations() -> Mapping[tuple[str, str], Any]:
    return {
        (verb, shape_of(path)): operation
        for path, operations in ours()["paths"].items()
        for verb, operation in operations.items()
        if verb in _VERBS
    }


def operations() -> list[tuple[str, str, Any, Any]]:
    """The reference's operations: verb, path, and the descriptions of the path and the operation."""
    return [
        (verb, path, about, about[verb])
        for path, about in reference()["paths"].items()
        for verb in _VERBS
        if verb in about
    ]


def test_there_are_as_many_operations_as_ever() -> None:
    listed = operations()
    assert len(listed) == 202
    assert [f"{verb} {path}" for verb, path, *_ in listed if (verb, shape_of(path)) not in our_operations()] == []


def test_every_parameter_is_taken() -> None:
    lacking = {}
    for verb, path, about, operation in operations():
        our_operation = our_operations()[verb, shape_of(path)]
        missing = queries(reference(), about, operation) - queries(ours(), {}, our_operation)
        if missing:
            lacking[f"{verb} {path}"] = sorted(missing)
    assert lacking == {}


def test_every_field_of_a_body_is_taken() -> None:
    lacking: dict[str, list[str]] = {}
    compared = 0
    for verb, path, _, operation in operations():
        name = f"{verb} {path}"
        our_operation = our_operations()[verb, shape_of(path)]
        parameters, body = queries(ours(), {}, our_operation), body_of(ours(), our_operation)
        for way in set(fields(reference(), body_of(reference(), operation))):
            compared += 1
            if path.startswith("/billing_entities"):
                # Described without the root that the interface gives every body.
                way = way if way[0] == "billing_entity" else ("billing_entity", *way)
            text = ".".join(way)
            elsewhere = next(
                (to for (at, start), to in ELSEWHERE.items() if at == name and text.startswith(start)), None
            )
            if elsewhere is not None:
                assert takes(ours(), body, tuple(elsewhere.split("."))), (name, elsewhere)
            elif (
                way[-1] == FORMER
                or way[0] in parameters
                or ("fixed_charge" in text and NOT_OF_FIXED_CHARGES & set(way))
            ):
                continue
            elif not takes(ours(), body, way):
                lacking.setdefault(name, []).append(text)
    assert lacking == {}
    assert compared > 1000


def test_every_error_that_is_described_is_described_here_too() -> None:
    lacking = {}
    for verb, path, _, operation in operations():
        missing = set(operation["responses"]) - set(our_operations()[verb, shape_of(path)]["responses"])
        if missing:
            lacking[f"{verb} {path}"] = sorted(missing)
    assert lacking == {}


@pytest.mark.parametrize(
    ("verb", "path"), [("post", "/plans"), ("put", "/billing_entities/{code}"), ("post", "/subscriptions")]
)
def test_a_field_that_is_not_taken_is_found(verb: str, path: str) -> None:
    body = body_of(ours(), our_operations()[verb, shape_of(path)])
    root = path.split("/")[1].removesuffix("s").replace("entitie", "entity")
    assert takes(ours(), body, (root, "name"))
    assert not takes(ours(), body, (root, "colour"))
    assert not takes(ours(), body, ("colour",))
