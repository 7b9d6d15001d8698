"""What the log of security says of keys, endpoints and connections, and of keys that are used wrongly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario

from usagebill.process.settings import Settings

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")


def events(box: Scenario, query: str = "") -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = box.get(f"/security_logs?to_date=2100-01-01&{query}")["security_logs"]
    return shown


def security_events(box: Scenario, query: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Event and resources, the oldest first."""
    return [(event["log_event"], event["resources"]) for event in reversed(events(box, query))]


def ask(box: Scenario, value: str, method: str = "GET", path: str = "/add_ons") -> int:
    headers = {"authorization": f"Bearer {value}", "user-agent": "curl/8"}
    return box.request(method, f"/api/v1{path}", headers=headers)[0]


def test_the_life_of_a_key(box: Scenario) -> None:
    box.post("/api_keys", api_key={"name": "other"})
    box.jump_to("2024-03-05T01:00:00Z")
    made = box.post("/api_keys", api_key={"name": "ci", "permissions": {"plan": ["read"], "tax": ["write"]}})["api_key"]
    path = f"/api_keys/{made['svc_id']}"
    box.jump_to("2024-03-05T02:00:00Z")
    box.put(path, api_key={"name": "build", "permissions": {"plan": ["read", "write"]}})
    box.jump_to("2024-03-05T03:00:00Z")
    rotated = box.post(f"{path}/rotate", expires_at="2024-03-09T00:00:00Z")["api_key"]
    box.jump_to("2024-03-05T04:00:00Z")
    box.delete(f"/api_keys/{rotated['svc_id']}")
    ending, successor = made["value"][-3:], rotated["value"][-3:]
    assert security_events(box, "log_types[]=api_key&from_date=2024-03-05T00:30:00Z") == [
        ("api_key.created", {"name": "ci", "value_ending": ending, "permissions": ["plan:read", "tax:write"]}),
        (
            "api_key.updated",
            {
                "name": {"deleted": "ci", "added": "build"},
                "value_ending": ending,
                "permissions": {"deleted": ["tax:write"], "added": ["plan:write"]},
            },
        ),
        (
            "api_key.rotated",
            {
                "name": "build",
                "value_ending": {"deleted": ending, "added": successor},
                "expires_at": "2024-03-09T00:00:00+00:00",
            },
        ),
        ("api_key.deleted", {"name": "build", "value_ending": successor}),
    ]


def test_a_refused_key_is_logged_once_an_hour_for_each_reason(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "narrow", "permissions": {"add_on": ["read"]}})["api_key"]
    for _ in range(3):
        assert ask(box, made["value"], "POST", "/add_ons") == 403
    assert ask(box, made["value"], "GET", "/plans") == 403
    refused = events(box, "log_events[]=api_key.refused")
    assert sorted((event["resources"]["reason"], event["resources"]["request_path"]) for event in refused) == [
        ("read_action_not_allowed_for_plan", "/api/v1/plans"),
        ("write_action_not_allowed_for_add_on", "/api/v1/add_ons"),
    ]
    assert {event["api_key_id"] for event in refused} == {made["svc_id"]}
    assert refused[0]["device_info"] == {"user_agent": "curl/8"}
    box.jump_to("2024-03-05T01:00:00Z")
    ask(box, made["value"], "POST", "/add_ons")
    assert len(events(box, f"log_events[]=api_key.refused&api_key_ids[]={made['svc_id']}")) == 3


def test_the_use_of_an_expired_key_is_logged(box: Scenario) -> None:
    ends = (box.now + timedelta(days=1)).isoformat()
    made = box.post("/api_keys", api_key={"name": "guest", "expires_at": ends})["api_key"]
    box.jump_to("2024-03-06T00:00:00Z")
    assert ask(box, made["value"]) == 401
    (refused,) = events(box, "log_events[]=api_key.refused")
    assert (refused["resources"]["name"], refused["resources"]["reason"]) == ("guest", "expired")


def test_what_nobody_s_key_opens_is_in_no_organization_s_log(box: Scenario) -> None:
    assert ask(box, "not-a-key") == 401
    assert events(box, "log_events[]=api_key.refused") == []


def test_endpoints_billing_entities_and_connections(box: Scenario) -> None:
    box.jump_to("2024-03-05T01:00:00Z")
    created = box.post("/webhook_endpoints", webhook_endpoint={"webhook_url": "https://one.example"})
    path = f"/webhook_endpoints/{created['webhook_endpoint']['svc_id']}"
    box.put(path, webhook_endpoint={"webhook_url": "https://two.example", "signature_algo": "hmac"})
    box.delete(path)
    box.put("/billing_entities/default", billing_entity={"legal_name": "Seller Ltd"})
    box.billing.tax_connections.create(kind="anrok", code="tax", url="https://tax.example", api_key="secret-0815")
    box.billing.tax_connections.update("tax", api_key="secret-4711")
    assert sorted(security_events(box, "from_date=2024-03-05T01:00:00Z"), key=lambda event: event[0]) == [
        (
            "billing_entity.updated",
            {
                "billing_entity_name": "Default organization",
                "billing_entity_code": "default",
                "legal_name": {"deleted": None, "added": "Seller Ltd"},
            },
        ),
        ("integration.created", {"integration_name": "tax", "integration_type": "anrok"}),
        ("integration.updated", {"integration_name": "tax", "integration_type": "anrok", "api_key": "changed"}),
        ("webhook_endpoint.created", {"webhook_url": "https://one.example", "signature_algo": "jwt"}),
        ("webhook_endpoint.deleted", {"webhook_url": "https://two.example", "signature_algo": "hmac"}),
        (
            "webhook_endpoint.updated",
            {
                "webhook_url": {"deleted": "https://one.example", "added": "https://two.example"},
                "signature_algo": {"deleted": "jwt", "added": "hmac"},
            },
        ),
    ]


def test_a_list_without_dates_has_all_events(box: Scenario) -> None:
    assert box.get("/security_logs")["security_logs"] == events(box) != []
    assert box.get("/security_logs?to_date=")["security_logs"] == events(box)
    assert len(box.billing.security_logs.list().items) == len(events(box))
    status, body = box.request("GET", "/api/v1/security_logs?to_date=soon")
    assert (status, body["error_details"]) == (422, {"to_date": ["invalid_date"]})


def test_after_its_days_an_event_is_neither_listed_nor_shown(box: Scenario) -> None:
    (event,) = events(box)
    assert box.get(f"/security_logs/{event['log_id']}")["security_log"] == event
    box.jump_to(box.now + timedelta(days=90, seconds=1))
    assert events(box) == []
    status, body = box.request("GET", f"/api/v1/security_logs/{event['log_id']}")
    assert (status, body["code"]) == (404, "security_log_not_found")


def test_the_log_can_be_switched_off() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=Settings(security_log_days=0)) as box:
        made = box.post("/api_keys", api_key={"permissions": {"add_on": ["read"]}})["api_key"]
        assert ask(box, made["value"], "GET", "/plans") == 403
        assert events(box) == []
