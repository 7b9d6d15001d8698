"""Features, what plans give of them, and what subscriptions have: the rules beyond one request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario

from usagebill.core.entitlements import PlanEntitlement, SubscriptionEntitlement
from usagebill.process.settings import Settings

pytestmark = pytest.mark.now("2025-01-10T09:00:00Z")

SEATS = {
    "code": "seats",
    "name": "Seats",
    "privileges": [
        {"code": "max", "value_type": "integer"},
        {"code": "root", "value_type": "boolean"},
        {"code": "level", "value_type": "select", "config": {"select_options": ["basic", "gold"]}},
    ],
}


@pytest.fixture(autouse=True)
def entitled(box: Scenario) -> None:
    """The plan `basic` gives 5 seats to the subscription `sub`."""
    box.customer()
    box.plan()
    box.post("/features", feature=SEATS)
    box.post("/plans/basic/entitlements", entitlements={"seats": {"max": 5, "root": True}})
    box.subscribe()


def values(box: Scenario, external_id: str = "sub") -> dict[str, dict[str, Any]]:
    """Feature -> privilege -> value of a subscription."""
    items = box.get(f"/subscriptions/{external_id}/entitlements")["entitlements"]
    return {item["code"]: {privilege["code"]: privilege["value"] for privilege in item["privileges"]} for item in items}


def patch(box: Scenario, path: str, entitlements: Any, status: int = 200) -> Any:
    return box.ask("PATCH", path, {"entitlements": entitlements}, status)


def stored(box: Scenario, kind: type[Any]) -> int:
    return box.billing.reading(lambda reader: len(reader.tx.find(kind)))


def test_an_override_of_a_plan_has_what_the_plan_has_now_and_later(box: Scenario) -> None:
    box.subscribe(external_id="own", plan_overrides={"amount_cents": 7})
    assert values(box, "own") == {"seats": {"max": 5, "root": True}}
    patch(box, "/plans/basic/entitlements", {"seats": {"max": 8}})
    assert values(box, "own") == {"seats": {"max": 8, "root": True}}
    shown = box.get("/subscriptions/own")["subscription"]["plan"]
    assert shown["parent_id"] is not None
    assert shown["entitlements"] == box.get("/plans/basic")["plan"]["entitlements"]
    patch(box, "/subscriptions/own/entitlements", {"seats": {"max": 9}})
    assert values(box, "own")["seats"]["max"] == 9
    assert values(box)["seats"]["max"] == 8


def test_plans_show_what_they_entitle_to(box: Scenario) -> None:
    unnamed: dict[str, object] = {"name": None, "config": {}, "billable_metric_code": None}
    item = {
        "entitlement": {
            "code": "seats",
            "name": "Seats",
            "description": None,
            "privileges": [
                {"code": "max", "value_type": "integer", "value": 5, **unnamed},
                {"code": "root", "value_type": "boolean", "value": True, **unnamed},
            ],
        }
    }
    assert box.get("/plans/basic")["plan"]["entitlements"] == [item]
    assert box.get("/plans")["plans"][0]["entitlements"] == [item]
    assert box.get("/subscriptions/sub")["subscription"]["plan"]["entitlements"] == [item]


def test_messages_about_a_subscription_say_what_it_is_entitled_to(box: Scenario) -> None:
    box.webhooks.clear()
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"max": 6}})
    patch(box, "/subscriptions/sub/entitlements", {})
    box.delete("/subscriptions/sub/entitlements/seats/privileges/root")
    box.delete("/subscriptions/sub/entitlements/seats")
    shown = [message["subscription"]["entitlements"] for message in box.webhooks]
    assert [message["webhook_type"] for message in box.webhooks] == ["subscription.updated"] * 4
    assert [[privilege["code"] for privilege in item[0]["privileges"]] if item else [] for item in shown] == [
        ["max", "root"],
        ["max", "root"],
        ["max"],
        [],
    ]
    assert shown[0][0]["overrides"] == {"max": 6}


def test_a_change_of_plan_leaves_what_the_old_subscription_had_of_its_own(box: Scenario) -> None:
    box.plan(code="bigger", amount_cents=1000)
    box.post("/plans/bigger/entitlements", entitlements={"seats": {"max": 50}})
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"max": 9}})
    box.subscribe(plan="bigger")
    assert values(box) == {"seats": {"max": 50}}


def test_what_a_subscription_was_given_stays_when_its_plan_loses_the_feature(box: Scenario) -> None:
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"max": 9}})
    box.delete("/plans/basic/entitlements/seats")
    assert values(box) == {"seats": {"max": 9}}
    assert box.delete("/subscriptions/sub/entitlements/seats")["entitlements"] == []
    assert stored(box, SubscriptionEntitlement) == 0


def test_what_was_taken_away_stays_away_when_the_plan_changes(box: Scenario) -> None:
    box.delete("/subscriptions/sub/entitlements/seats")
    box.post("/plans/basic/entitlements", entitlements={})
    box.post("/plans/basic/entitlements", entitlements={"seats": {"max": 7}})
    assert values(box) == {}
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"level": "gold"}})
    assert values(box) == {"seats": {"max": 7, "level": "gold"}}


def test_a_removal_that_applies_to_nothing_is_fine_and_stores_nothing(box: Scenario) -> None:
    box.post("/features", feature={"code": "sso"})
    for path in ("sso", "seats/privileges/level"):
        box.delete(f"/subscriptions/sub/entitlements/{path}")
    assert values(box) == {"seats": {"max": 5, "root": True}}
    for path, code in (("none", "feature_not_found"), ("seats/privileges/none", "privilege_not_found")):
        assert box.delete(f"/subscriptions/sub/entitlements/{path}", status=404)["code"] == code


def test_a_feature_without_privileges_can_be_given(box: Scenario) -> None:
    box.post("/features", feature={"code": "sso"})
    patch(box, "/plans/basic/entitlements", {"sso": {}})
    assert values(box) == {"seats": {"max": 5, "root": True}, "sso": {}}


def test_without_entitlements_nothing_changes(box: Scenario) -> None:
    bodies: list[dict[str, Any]] = [{}, {"entitlements": None}, {"entitlements": []}]
    for body in bodies:
        box.ask("POST", "/plans/basic/entitlements", body)
        box.ask("PATCH", "/plans/basic/entitlements", body)
        box.ask("PATCH", "/subscriptions/sub/entitlements", body)
    assert values(box) == {"seats": {"max": 5, "root": True}}
    assert box.ask("POST", "/plans/basic/entitlements", {"entitlements": {}}) == {"entitlements": []}


@pytest.mark.parametrize("sent", [None, 5, "x", [1]])
def test_what_is_no_object_of_values_is_refused(box: Scenario, sent: Any) -> None:
    for method, path in (
        ("POST", "/plans/basic/entitlements"),
        ("PATCH", "/plans/basic/entitlements"),
        ("PATCH", "/subscriptions/sub/entitlements"),
    ):
        refused = box.ask(method, path, {"entitlements": {"seats": sent}}, 422)
        assert refused["error_details"] == {"seats": ["value_is_invalid"]}
    assert values(box) == {"seats": {"max": 5, "root": True}}


def test_every_value_that_does_not_fit_is_named_at_once(box: Scenario) -> None:
    refused = patch(box, "/plans/basic/entitlements", {"seats": {"max": "x", "root": 1, "level": "silver"}}, 422)
    assert refused["error_details"] == {
        "max_privilege_value": ["value_is_invalid"],
        "root_privilege_value": ["value_is_invalid"],
        "level_privilege_value": ["value_not_in_select_options"],
    }


def test_a_privilege_that_is_deleted_and_made_again_has_no_old_values(box: Scenario) -> None:
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"max": 9}})
    box.delete("/features/seats/privileges/max")
    box.put("/features/seats", feature={"privileges": [{"code": "max"}]})
    assert values(box) == {"seats": {"root": True}}
    patch(box, "/plans/basic/entitlements", {"seats": {"max": "nine"}})
    assert values(box) == {"seats": {"max": "nine", "root": True}}


def test_a_plan_that_is_gone_entitles_to_nothing(box: Scenario) -> None:
    patch(box, "/subscriptions/sub/entitlements", {"seats": {"max": 9}})
    box.delete("/plans/basic")
    assert stored(box, PlanEntitlement) == 0
    assert box.get("/subscriptions/sub/entitlements?status=terminated")["entitlements"][0]["overrides"] == {"max": 9}
    assert box.get("/subscriptions/sub/entitlements", status=404)["code"] == "subscription_not_found"
    box.delete("/features/seats")
    assert stored(box, SubscriptionEntitlement) == 0


def test_long_texts_of_features_are_refused(box: Scenario) -> None:
    sent = {"code": "c" * 256, "name": "n" * 256, "description": "d" * 601}
    refused = box.post("/features", status=422, feature=sent)
    assert refused["error_details"] == {name: ["value_is_too_long"] for name in ("code", "name", "description")}
    refused = box.put("/features/seats", status=422, feature={"name": "n" * 256})
    assert refused["error_details"] == {"name": ["value_is_too_long"]}
    wrong = {"code": "max", "config": {"select_options": ["a"]}}
    refused = box.put("/features/seats", status=422, feature={"name": "New", "privileges": [wrong]})
    assert refused["error_details"] == {"privilege.config": ["invalid_format"]}
    assert box.get("/features/seats")["feature"]["name"] == "Seats"


def test_codes_of_callers_keep_their_names_whatever_the_prefix_of_ids() -> None:
    with Scenario(now="2025-01-10T09:00:00Z", settings=Settings(id_prefix="own_")) as box:
        box.customer()
        box.plan()
        privileges = [{"code": "own_max", "value_type": "integer"}]
        box.post("/features", feature={"code": "own_seats", "privileges": privileges})
        box.post("/plans/basic/entitlements", entitlements={"own_seats": {"own_max": 5}})
        box.subscribe()
        patch(box, "/subscriptions/sub/entitlements", {"own_seats": {"own_max": 6}})
        shown = box.get("/subscriptions/sub/entitlements")["entitlements"][0]
        assert (shown["code"], shown["overrides"]) == ("own_seats", {"own_max": 6})
        assert box.get("/features/own_seats")["feature"]["privileges"][0]["code"] == "own_max"
