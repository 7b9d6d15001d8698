"""A change of plan ends the subscription's own entitlements, and says so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-01-15T10:00:00Z")


def change(box: Scenario, plan: str, external_id: str = "sub") -> Any:
    body = {"external_customer_id": "acme", "external_id": external_id, "plan_code": plan}
    return box.post("/subscriptions", subscription=body)


@pytest.fixture
def agreed(box: Scenario) -> Scenario:
    """A subscription with 25 seats agreed on; its plan has 10, and so has every other one."""
    box.customer()
    box.post("/features", feature={"code": "seats", "privileges": [{"code": "max", "value_type": "integer"}]})
    for code, cents in (("small", 1000), ("basic", 3100), ("big", 6200)):
        box.plan(code=code, amount_cents=cents)
        box.ask("POST", f"/plans/{code}/entitlements", {"entitlements": {"seats": {"max": 10}}})
    assert "ended_entitlements" not in change(box, "basic")
    box.ask("PATCH", "/subscriptions/sub/entitlements", {"entitlements": {"seats": {"max": 25}}})
    box.travel_to("2024-01-16T10:00:00Z")
    return box


def seats(box: Scenario) -> int:
    (feature,) = box.get("/subscriptions/sub/entitlements")["entitlements"]
    return int(feature["privileges"][0]["value"])


def test_an_upgrade_names_what_it_ends(agreed: Scenario) -> None:
    assert change(agreed, "big")["ended_entitlements"] == ["seats"]
    assert seats(agreed) == 10
    agreed.travel_to("2024-01-17T10:00:00Z")
    assert "ended_entitlements" not in change(agreed, "big")


def test_a_downgrade_names_what_it_will_end(agreed: Scenario) -> None:
    assert change(agreed, "small")["ended_entitlements"] == ["seats"]
    assert seats(agreed) == 25
    agreed.travel_to("2024-02-02T00:00:00Z")
    assert seats(agreed) == 10


def test_nothing_is_named_where_nothing_ends(agreed: Scenario) -> None:
    assert "ended_entitlements" not in change(agreed, "basic")
    assert "ended_entitlements" not in change(agreed, "big", "other")
    agreed.put("/subscriptions/sub", subscription={"phases": [{"until": "2024-02-01"}, {"plan_code": "big"}]})
    assert "ended_entitlements" not in change(agreed, "basic")
    agreed.travel_to("2024-02-02T00:00:00Z")
    assert seats(agreed) == 25
