"""Webhook endpoints over HTTP: addresses, algorithms, event types, the public key."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

URL = "https://example.com/hook"


def post(box: Scenario, **fields: object) -> tuple[int, Any]:
    return box.send("POST", "/webhook_endpoints", {"webhook_endpoint": {"webhook_url": URL, **fields}})


def test_created_endpoint_listens_to_everything_and_signs_with_jwt(box: Scenario) -> None:
    shown = accepted(post(box), "webhook_endpoint")
    assert shown == {
        "svc_id": shown["svc_id"],
        "svc_organization_id": box.billing.organization.id,
        "webhook_url": URL,
        "signature_algo": "jwt",
        "name": None,
        "event_types": None,
        "created_at": "2024-03-05T00:00:00Z",
    }
    assert box.get(f"/webhook_endpoints/{shown['svc_id']}")["webhook_endpoint"] == shown
    assert box.webhooks == []


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"webhook_url": None}, {"webhook_url": ["value_is_mandatory", "url_is_invalid"]}),
        ({"webhook_url": "foobar"}, {"webhook_url": ["url_is_invalid"]}),
        ({"signature_algo": "sha1"}, {"signature_algo": ["value_is_invalid"]}),
        ({"event_types": "wrong"}, {"event_types": ["must_be_array"]}),
        ({"event_types": {"a": 1}}, {"event_types": ["must_be_array"]}),
        ({"event_types": ["wrong.type"]}, {"event_types": ['contains invalid types: ["wrong.type"]']}),
        ({"event_types": ["*", "customer.created"]}, {"event_types": ['contains invalid types: ["*"]']}),
        (
            {"event_types": ["invoice.add_on_added"]},
            {"event_types": ['contains invalid types: ["invoice.add_on_added"]']},
        ),
    ],
)
def test_endpoint_that_makes_no_sense_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(post(box, **fields)) == details


@pytest.mark.parametrize("url", ["http://example.com", "HTTPS://example.com/hooks?key=a", "http://[::1]:8080/"])
def test_addresses_that_can_be_sent_to(box: Scenario, url: str) -> None:
    assert accepted(post(box, webhook_url=url), "webhook_endpoint")["webhook_url"] == url


def test_event_types_are_tidied(box: Scenario) -> None:
    sent = [" Customer.Created ", "invoice.drafted ", " Invoice.DRAFTED", None, ""]
    shown = accepted(post(box, event_types=sent, signature_algo=None, name="Books"), "webhook_endpoint")
    assert shown["event_types"] == ["customer.created", "invoice.drafted"]
    assert (shown["signature_algo"], shown["name"]) == ("jwt", "Books")


def test_address_is_unique(box: Scenario) -> None:
    post(box)
    assert refused(post(box)) == {"webhook_url": ["value_already_exist"]}


def test_ten_endpoints_are_the_most(box: Scenario) -> None:
    for number in range(10):
        assert post(box, webhook_url=f"{URL}/{number}")[0] == 200
    assert refused(post(box)) == {"base": ["Maximum number of webhook endpoints was reached"]}
    listed = box.send("GET", "/webhook_endpoints?per_page=3")[1]
    assert [endpoint["webhook_url"] for endpoint in listed["webhook_endpoints"]] == [
        f"{URL}/{number}" for number in range(3)
    ]
    id = listed["webhook_endpoints"][0]["svc_id"]
    box.delete(f"/webhook_endpoints/{id}")
    assert post(box)[0] == 200


def test_change_touches_what_is_sent(box: Scenario) -> None:
    created = accepted(post(box, event_types=["plan.created"], signature_algo="hmac"), "webhook_endpoint")
    path = f"/api/v1/webhook_endpoints/{created['svc_id']}"
    shown = accepted(box.request("PUT", path, json={"webhook_endpoint": {"name": "n"}}), "webhook_endpoint")
    assert shown == {**created, "name": "n"}
    for sent, kept in ((None, None), ([], []), (["*"], None)):
        body = {"webhook_endpoint": {"event_types": sent}}
        assert accepted(box.request("PATCH", path, json=body), "webhook_endpoint")["event_types"] == kept
    bad = {"webhook_endpoint": {"webhook_url": "x"}}
    assert refused(box.request("PUT", path, json=bad)) == {"webhook_url": ["url_is_invalid"]}


def test_deleted_endpoint_is_gone(box: Scenario) -> None:
    created = accepted(post(box), "webhook_endpoint")
    path = f"/api/v1/webhook_endpoints/{created['svc_id']}"
    assert accepted(box.request("DELETE", path), "webhook_endpoint") == created
    for method in ("GET", "DELETE"):
        assert missing(box.request(method, path)) == "webhook_endpoint"
    assert missing(box.send("GET", "/webhook_endpoints/not-a-uuid")) == "webhook_endpoint"


def test_public_key_is_the_same_text_in_both_forms(box: Scenario) -> None:
    status, text = box.send("GET", "/webhooks/public_key")
    assert status == 200
    assert base64.b64decode(text).startswith(b"-----BEGIN PUBLIC KEY-----")
    assert {len(line) for line in text.splitlines()[:-1]} == {60}
    assert text.endswith("\n")
    assert box.send("GET", "/webhooks/json_public_key") == (200, {"webhook": {"public_key": text}})


def hmac_endpoint(box: Scenario) -> str:
    return str(accepted(post(box, signature_algo="hmac"), "webhook_endpoint")["svc_id"])


def rotate(box: Scenario, id: str, **sent: object) -> tuple[int, Any]:
    return box.send("POST", f"/webhook_endpoints/{id}/rotate_secret", sent or None)


@pytest.mark.beyond_reference
def test_a_new_secret_is_shown_once_and_the_old_one_until_it_expires(box: Scenario) -> None:
    id = hmac_endpoint(box)
    before = box.get(f"/webhook_endpoints/{id}")["webhook_endpoint"]
    rotated = accepted(rotate(box, id), "webhook_endpoint")
    secret = rotated.pop("secret")
    assert len(secret) == 64
    assert rotated == {**before, "old_secret_expires_at": "2024-03-06T00:00:00Z"}
    assert box.get(f"/webhook_endpoints/{id}")["webhook_endpoint"] == rotated
    (entry,) = box.get("/api_logs?request_paths[]=/api/v1/webhook_endpoints/*/rotate_secret")["api_logs"]
    assert entry["request_response"]["webhook_endpoint"]["secret"] == "[left out]"
    (event,) = box.get("/security_logs?to_date=2100-01-01&log_events[]=webhook_endpoint.updated")["security_logs"]
    assert event["resources"] == {"webhook_url": URL, "secrets": "changed"}
    assert secret not in str(event)
    box.jump_to("2024-03-06T00:00:00Z")
    assert box.get(f"/webhook_endpoints/{id}")["webhook_endpoint"] == before


@pytest.mark.beyond_reference
def test_the_old_secret_ends_when_it_is_said_or_on_request(box: Scenario) -> None:
    id = hmac_endpoint(box)
    shown = accepted(rotate(box, id, old_secret_expires_at="2024-04-01T00:00:00Z"), "webhook_endpoint")
    assert shown["old_secret_expires_at"] == "2024-04-01T00:00:00Z"
    assert refused(rotate(box, id)) == {"secret": ["two_secrets_are_valid"]}
    ended = box.delete(f"/webhook_endpoints/{id}/old_secret")["webhook_endpoint"]
    assert "old_secret_expires_at" not in ended
    # There is nothing left to end, and the only secret stays.
    assert box.delete(f"/webhook_endpoints/{id}/old_secret")["webhook_endpoint"] == ended
    at_once = accepted(rotate(box, id, old_secret_expires_at=None), "webhook_endpoint")
    assert "old_secret_expires_at" not in at_once
    assert "old_secret_expires_at" in accepted(rotate(box, id), "webhook_endpoint")


def test_a_rotation_that_makes_no_sense_is_refused_and_changes_nothing(box: Scenario) -> None:
    id = hmac_endpoint(box)
    for sent in ("yesterday", "2024-03-05T00:00:00Z"):
        assert refused(rotate(box, id, old_secret_expires_at=sent)) == {"old_secret_expires_at": ["invalid_date"]}
    signed_by_jwt = accepted(post(box, webhook_url=f"{URL}/jwt"), "webhook_endpoint")["svc_id"]
    assert refused(rotate(box, signed_by_jwt)) == {"signature_algo": ["has_no_secret"]}
    assert missing(rotate(box, "none")) == "webhook_endpoint"
    assert missing(box.send("DELETE", "/webhook_endpoints/none/old_secret")) == "webhook_endpoint"
    assert all("old_secret_expires_at" not in shown for shown in box.get("/webhook_endpoints")["webhook_endpoints"])


@pytest.mark.beyond_reference
def test_a_new_key_pair_is_shown_and_the_old_one_until_it_expires(box: Scenario) -> None:
    def rotate_key(**sent: object) -> tuple[int, Any]:
        return box.send("POST", "/webhooks/rotate_key", sent or None)

    old = box.get("/webhooks/json_public_key")["webhook"]["public_key"]
    shown = accepted(rotate_key(), "webhook")
    assert shown == {
        "public_key": box.get("/webhooks/json_public_key")["webhook"]["public_key"],
        "old_key_expires_at": "2024-03-06T00:00:00Z",
    }
    assert shown["public_key"] != old
    assert refused(rotate_key()) == {"key": ["two_keys_are_valid"]}
    assert box.delete("/webhooks/old_key")["webhook"] == {"public_key": shown["public_key"]}
    # There is nothing left to end, and the only pair stays.
    assert box.delete("/webhooks/old_key")["webhook"] == {"public_key": shown["public_key"]}
    at_once = accepted(rotate_key(old_key_expires_at=None), "webhook")
    assert at_once.keys() == {"public_key"}
    for sent in ("yesterday", "2024-03-05T00:00:00Z"):
        assert refused(rotate_key(old_key_expires_at=sent)) == {"old_key_expires_at": ["invalid_date"]}
    assert box.get("/webhooks/json_public_key")["webhook"] == at_once


@pytest.mark.beyond_reference
def test_the_first_key_pair_may_be_made_by_a_rotation(box: Scenario) -> None:
    shown = accepted(box.send("POST", "/webhooks/rotate_key"), "webhook")
    assert shown == box.get("/webhooks/json_public_key")["webhook"]


@pytest.mark.beyond_reference
def test_whoever_changes_the_key_pair_is_in_the_security_log(box: Scenario) -> None:
    until = "2024-04-01T00:00:00+00:00"
    for method, path, sent in (
        ("POST", "rotate_key", None),
        ("POST", "rotate_key", {"old_key_expires_at": until}),
        ("POST", "rotate_key", None),  # refused: two are valid
        ("DELETE", "old_key", None),
        ("DELETE", "old_key", None),  # there is none
        ("POST", "rotate_key", {"old_key_expires_at": None}),
        ("POST", "rotate_key", {"old_key_expires_at": "2024-03-05T03:45:00Z"}),
        ("POST", "rotate_key", {"old_key_expires_at": until}),  # clears the expired pair away
    ):
        box.jump_to(box.now + timedelta(minutes=30))
        box.send(method, f"/webhooks/{path}", sent)
    logged = box.get("/security_logs?log_types[]=signing_key")["security_logs"]
    assert all(event["api_key_id"] for event in logged)
    events = [(event["log_event"], event["resources"]) for event in reversed(logged)]
    named = [resources["key_id"] for name, resources in events if name != "signing_key.deleted"]
    first, second, third, fourth, fifth = (name if isinstance(name, str) else name["added"] for name in named)
    assert events == [
        ("signing_key.created", {"key_id": first}),
        ("signing_key.rotated", {"key_id": {"deleted": first, "added": second}, "old_key_expires_at": until}),
        ("signing_key.deleted", {"key_id": first}),
        ("signing_key.rotated", {"key_id": {"deleted": second, "added": third}}),
        (
            "signing_key.rotated",
            {"key_id": {"deleted": third, "added": fourth}, "old_key_expires_at": "2024-03-05T03:45:00+00:00"},
        ),
        ("signing_key.rotated", {"key_id": {"deleted": fourth, "added": fifth}, "old_key_expires_at": until}),
    ]
    assert "PRIVATE KEY" not in str(logged)
