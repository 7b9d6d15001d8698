"""The library has every operation of the API."""

from __future__ import annotations

from functools import cache

import pytest

from tests.cases import each
from usagebill import Billing, resources
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.resources.bindings import Operation, Resource

# Operations whose input is more convenient in Python than what a request can hold: methods of their own.
_OWN_METHODS = {
    "/subscriptions/{external_id}/alerts",
    "/customers/{external_customer_id}/wallets/{wallet_code}/alerts",
    "/events",
    "/events/batch",
    "/events/estimate_fees",
    "/events/estimate_instant_fees",
    "/events/batch_estimate_instant_fees",
}


@cache
def operations() -> dict[str, Operation[object]]:
    """`customers.upsert` -> the operation, for every resource that `Billing` has."""
    with Billing() as billing:
        kinds = {name: type(resource) for name, resource in vars(billing).items() if isinstance(resource, Resource)}
    return {
        f"{name}.{operation}": value
        for name, kind in kinds.items()
        for operation, value in vars(kind).items()
        if isinstance(value, Operation)
    }


@each("endpoint", endpoints(), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_what_a_request_does_a_method_does_too(endpoint: Endpoint) -> None:
    if endpoint.method == "POST" and endpoint.path in _OWN_METHODS:
        return
    names = [name for name, operation in operations().items() if operation.function is endpoint.call]
    assert names, f"no method of usagebill.resources calls {endpoint.call.__module__}.{endpoint.call.__name__}"


def test_every_resource_hangs_on_billing() -> None:
    declared = {kind for kind in Resource.__subclasses__() if kind.__module__.startswith(resources.__name__)}
    with Billing() as billing:
        hung = {type(resource) for resource in vars(billing).values() if isinstance(resource, Resource)}
    assert hung == declared


@each("name", sorted(operations()))
def test_arguments_of_a_method_are_distinguished(name: str) -> None:
    operation = operations()[name]
    assert set(operation.path).isdisjoint({"request", "options", "paging"})
    with pytest.raises(TypeError):
        operation.arguments(("x",) * (len(operation.path) + 1), {})
    with pytest.raises(TypeError, match="unknown argument surely_unknown"):
        operation.arguments(("x",) * len(operation.path), {"surely_unknown": 1})
