"""Webhook endpoints over HTTP: addresses, algorithms, event types, the public key."""

from __future__ import annotations

import base64
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
