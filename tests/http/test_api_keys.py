"""API keys over HTTP and in the library: created, changed, rotated and revoked, never with more permissions than their
creator's.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cases import each
from tests.scenarios import Scenario

from usagebill.core.api_keys import MODES, RESOURCES
from usagebill.core.errors import Invalid
from usagebill.http.app import endpoints

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

# The sheet's permission for the first segment of a path, or for a whole path.
OWNERS = {
    "activity_logs": "activity_log",
    "add_ons": "add_on",
    "analytics": "analytic",
    "api_keys": "api_key",
    "api_logs": "api_log",
    "applied_coupons": "applied_coupon",
    "billable_metrics": "billable_metric",
    "billing_entities": "billing_entity",
    "coupons": "coupon",
    "credit_notes": "credit_note",
    "dunning_campaigns": "payment_request",
    "events": "event",
    "exchange_rates": "billing_entity",
    "features": "feature",
    "fees": "fee",
    "invoices": "invoice",
    "ledger": "analytic",
    "organizations": "organization",
    "payment_receipts": "invoice",
    "payment_requests": "payment_request",
    "payments": "payment",
    "plans": "plan",
    "security_logs": "security_log",
    "taxes": "tax",
    "wallet_transactions": "wallet_transaction",
    "webhook_endpoints": "webhook_endpoint",
    "synced_documents": "invoice",
    "event_sources": "event",
    "refused_events": "event",
    "webhooks": "webhook_endpoint",
    "checks": "event",
    "holds": "event",
}
PARTS = {
    "alerts": "alert",
    "applied_coupons": "applied_coupon",
    "credit_notes": "credit_note",
    "current_usage": "customer_usage",
    "invoices": "invoice",
    "lifetime_usage": "lifetime_usage",
    "past_usage": "customer_usage",
    "payment_methods": "payment_method",
    "payment_requests": "payment_request",
    "payments": "payment",
    "projected_usage": "customer_usage",
    "spend_limits": "alert",
    "subscriptions": "subscription",
    "wallet_transactions": "wallet_transaction",
    "wallets": "wallet",
}


def owner_of(path: str) -> str:
    if path in ("/webhooks/public_key", "/webhooks/json_public_key"):
        return "webhook_jwt_public_key"
    first, *rest = path.strip("/").split("/")
    named = [segment for segment in rest if not segment.startswith("{")]
    if first in ("customers", "subscriptions", "wallets"):
        inner = [PARTS[segment] for segment in named if segment in PARTS]
        return inner[-1] if inner else first[:-1]
    return PARTS["spend_limits"] if "spend_limits" in named else OWNERS[first]


@each("endpoint", endpoints(), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_every_operation_needs_the_permission_of_its_resource(endpoint: Any) -> None:
    assert endpoint.permission == owner_of(endpoint.path)


def called(box: Scenario, value: str, method: str, path: str, **body: Any) -> tuple[int, Any]:
    return box.request(method, f"/api/v1{path}", json=body or None, headers={"authorization": f"Bearer {value}"})


def test_a_new_key_is_shown_once_and_works(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "collector", "permissions": {"event": ["write"]}})["api_key"]
    assert made["permissions"] == {"event": ["write"]}
    assert re.fullmatch("ub_[0-9a-f]{40}", made["value"]), "as scanners of published code know it"
    assert called(box, made["value"], "GET", "/events")[0] == 403
    shown = box.get(f"/api_keys/{made['svc_id']}")["api_key"]
    assert shown == {**made, "value": "•" * 8 + made["value"][-3:], "last_used_at": shown["last_used_at"]}
    listed = box.get("/api_keys")
    assert [key["name"] for key in listed["api_keys"]] == [None, "collector"]
    assert made["value"] not in str(listed)


def test_without_permissions_a_key_may_do_everything(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "all"})["api_key"]
    assert made["permissions"] == {resource: list(MODES) for resource in RESOURCES}


def test_a_key_ends_when_it_says(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "guest", "expires_at": "2024-03-06T00:00:00Z"})["api_key"]
    assert called(box, made["value"], "GET", "/plans")[0] == 200
    box.jump_to("2024-03-06T00:00:00Z")
    assert called(box, made["value"], "GET", "/plans")[0] == 401
    assert box.request("GET", f"/api/v1/api_keys/{made['svc_id']}")[1]["code"] == "api_key_not_found"


@pytest.mark.parametrize("text", ["2024-03-05T00:00:00Z", "2023-01-01", "soon"])
def test_an_end_is_in_the_future(box: Scenario, text: str) -> None:
    status, body = box.request("POST", "/api/v1/api_keys", json={"api_key": {"name": "k", "expires_at": text}})
    assert (status, body["error_details"]) == (422, {"expires_at": ["invalid_date"]})


def test_a_rotated_key_keeps_its_name_and_its_permissions(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "ci", "permissions": {"plan": ["read"]}})["api_key"]
    path = f"/api_keys/{made['svc_id']}/rotate"
    successor = box.post(path, expires_at="2024-03-10T00:00:00Z")["api_key"]
    assert (successor["name"], successor["permissions"], successor["expires_at"]) == ("ci", {"plan": ["read"]}, None)
    for value in (made["value"], successor["value"]):
        assert called(box, value, "GET", "/plans")[0] == 200
    box.jump_to("2024-03-10T00:00:00Z")
    assert [called(box, key["value"], "GET", "/plans")[0] for key in (made, successor)] == [401, 200]


def test_a_key_is_rotated_at_once_without_a_body(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "ci"})["api_key"]
    status, body = box.request("POST", f"/api/v1/api_keys/{made['svc_id']}/rotate")
    assert status == 200
    assert [called(box, value, "GET", "/plans")[0] for value in (made["value"], body["api_key"]["value"])] == [401, 200]


def test_each_read_looks_at_the_key_as_it_is_now(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "ci", "permissions": {"plan": ["read"], "tax": ["read"]}})["api_key"]
    path = f"/api_keys/{made['svc_id']}"

    def statuses() -> list[int]:
        return [called(box, made["value"], "GET", resource)[0] for resource in ("/plans", "/taxes")]

    assert statuses() == [200, 200]
    assert box.request("PUT", f"/api/v1{path}", json={"api_key": {"permissions": {"tax": ["read"]}}})[0] == 200
    assert statuses() == [403, 200]
    assert box.request("DELETE", f"/api/v1{path}")[0] == 200
    assert statuses() == [401, 401]


def test_the_last_key_without_an_end_stays(box: Scenario) -> None:
    (key,) = box.get("/api_keys")["api_keys"]
    box.post("/api_keys", api_key={"name": "guest", "expires_at": "2030-01-01"})
    for method, body in (("DELETE", None), ("PUT", {"api_key": {"expires_at": "2030-01-01"}})):
        status, answer = box.request(method, f"/api/v1/api_keys/{key['svc_id']}", json=body)
        assert (status, answer["error_details"]) == (422, {"base": ["last_non_expiring_api_key"]})


class TestKeysThatManageKeys:
    """A key gives no more than it has."""

    @pytest.fixture
    def clerk(self, box: Scenario) -> str:
        permissions = {"api_key": ["read", "write"], "plan": ["read"]}
        return str(box.post("/api_keys", api_key={"name": "clerk", "permissions": permissions})["api_key"]["value"])

    def test_gives_what_it_has(self, box: Scenario, clerk: str) -> None:
        status, body = called(box, clerk, "POST", "/api_keys", api_key={"name": "reader"})
        assert (status, body["api_key"]["permissions"]) == (200, {"api_key": ["read", "write"], "plan": ["read"]})

    def test_gives_nothing_more(self, box: Scenario, clerk: str) -> None:
        wanted = {"name": "writer", "permissions": {"plan": ["read", "write"]}}
        status, body = called(box, clerk, "POST", "/api_keys", api_key=wanted)
        assert (status, body["code"]) == (403, "permissions_beyond_own")
        assert "writer" not in [key["name"] for key in box.get("/api_keys")["api_keys"]]

    def test_takes_over_no_key_that_may_do_more(self, box: Scenario, clerk: str) -> None:
        (owner, *_) = box.get("/api_keys")["api_keys"]
        status, body = called(box, clerk, "POST", f"/api_keys/{owner['svc_id']}/rotate")
        assert (status, body["code"]) == (403, "permissions_beyond_own")
        assert box.get("/api_keys")["api_keys"][0]["expires_at"] is None

    def test_touches_no_key_that_may_do_more(self, box: Scenario, clerk: str) -> None:
        (owner, *_) = box.get("/api_keys")["api_keys"]
        path = f"/api_keys/{owner['svc_id']}"
        narrower = {"permissions": {"plan": ["read"]}}
        for change in ({"name": "mine"}, {"expires_at": "2124-01-01T00:00:00Z"}, narrower):
            status, body = called(box, clerk, "PUT", path, api_key=change)
            assert (status, body["code"]) == (403, "permissions_beyond_own")
        status, body = called(box, clerk, "DELETE", path)
        assert (status, body["code"]) == (403, "permissions_beyond_own")
        assert box.get("/api_keys")["api_keys"][0] == owner

    def test_revokes_what_may_do_no_more(self, box: Scenario, clerk: str) -> None:
        made = called(box, clerk, "POST", "/api_keys", api_key={"name": "reader"})[1]["api_key"]
        assert called(box, clerk, "DELETE", f"/api_keys/{made['svc_id']}")[0] == 200

    def test_widens_no_key_beyond_itself(self, box: Scenario, clerk: str) -> None:
        other = box.post("/api_keys", api_key={"name": "o", "permissions": {"plan": ["read"]}})["api_key"]
        path = f"/api_keys/{other['svc_id']}"
        for permissions, expected in (
            ({"plan": ["read"], "api_key": ["read"]}, 200),
            ({"plan": ["read"], "coupon": ["read"]}, 403),
        ):
            assert called(box, clerk, "PUT", path, api_key={"permissions": permissions})[0] == expected


def test_keys_in_the_library(box: Scenario) -> None:
    issued = box.billing.api_keys.create(name="worker", permissions={"event": ["write"]})
    assert called(box, issued.value, "GET", "/events")[0] == 403
    assert issued.value not in repr(issued)
    successor = box.billing.api_keys.rotate(issued.key.id)
    assert (successor.key.name, successor.key.permissions) == ("worker", {"event": ("write",)})
    renamed = box.billing.api_keys.update(successor.key.id, name="batch")
    assert box.billing.api_keys.get(renamed.id).name == "batch"
    box.billing.api_keys.revoke(renamed.id)
    assert [key.name for key in box.billing.api_keys.list().items] == [None]
    with pytest.raises(Invalid):
        box.billing.api_keys.create(permissions={"moon": ["read"]})


@each(
    "lacking",
    [
        *("customer:read", "invoice:read", "wallet:read", "customer:write", "subscription:write"),
        *("wallet_transaction:write", "payment_method:write", "alert:write"),
    ],
    ids=str,
)
def test_a_portal_link_needs_the_rights_to_what_the_portal_shows_and_changes(box: Scenario, lacking: str) -> None:
    box.customer()
    needed = {
        "customer": ["read", "write"],
        "invoice": ["read"],
        "wallet": ["read"],
        "subscription": ["write"],
        "wallet_transaction": ["write"],
        "payment_method": ["write"],
        "alert": ["write"],
    }
    resource, _, mode = lacking.partition(":")
    fewer = {**needed, resource: [other for other in ("read", "write") if other != mode]}
    for permissions, status in ((needed, 200), (fewer, 403)):
        key = box.post("/api_keys", api_key={"name": "support", "permissions": permissions})["api_key"]["value"]
        answered, body = called(box, key, "GET", "/customers/acme/portal_url")
        assert answered == status
    assert body["code"] == f"{mode}_action_not_allowed_for_{resource}"
