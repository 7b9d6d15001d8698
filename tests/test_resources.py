"""The library can do whatever the API can."""

from __future__ import annotations

from functools import cache

import pytest

from usagebill import Billing, resources
from usagebill.bindings import Group, Verb
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint

# Operations whose input is more convenient in Python than what a request can hold: methods of their own.
_OWN_METHODS = {
    "/events",
    "/events/batch",
    "/events/estimate_fees",
    "/events/estimate_instant_fees",
    "/events/batch_estimate_instant_fees",
}


@cache
def verbs() -> dict[str, Verb[object]]:
    """`customers.upsert` -> the verb, for every group that `Billing` has."""
    with Billing() as billing:
        kinds = {name: type(group) for name, group in vars(billing).items() if isinstance(group, Group)}
    return {
        f"{name}.{verb}": value
        for name, kind in kinds.items()
        for verb, value in vars(kind).items()
        if isinstance(value, Verb)
    }


@pytest.mark.parametrize("endpoint", endpoints(), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_what_a_request_does_a_method_does_too(endpoint: Endpoint) -> None:
    if endpoint.method == "POST" and endpoint.path in _OWN_METHODS:
        return
    found = [name for name, verb in verbs().items() if verb.operation is endpoint.call]
    assert found, f"no method of usagebill.resources calls {endpoint.call.__module__}.{endpoint.call.__name__}"


def test_every_group_hangs_on_billing() -> None:
    kinds = {kind for kind in vars(resources).values() if isinstance(kind, type) and issubclass(kind, Group)} - {Group}
    with Billing() as billing:
        assert kinds == {type(group) for group in vars(billing).values() if isinstance(group, Group)}


@pytest.mark.parametrize("name", sorted(verbs()))
def test_arguments_of_a_method_are_told_apart(name: str) -> None:
    verb = verbs()[name]
    assert set(verb.path).isdisjoint({"given", "options", "paging"})
    with pytest.raises(TypeError):
        verb.arguments(("x",) * (len(verb.path) + 1), {})
    with pytest.raises(TypeError, match="unknown argument surely_unknown"):
        verb.arguments(("x",) * len(verb.path), {"surely_unknown": 1})
