"""The contents of the request log, and its omissions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.json_asserts import for_programs
from tests.scenarios import Scenario

from usagebill.core.activity_logs import ActivityLog
from usagebill.core.api_logs import LARGEST, LEFT_OUT, SECRETS, ApiLog, without_secrets, without_signature
from usagebill.core.security_logs import SecurityLog
from usagebill.http.app import endpoints
from usagebill.http.openapi import document
from usagebill.process.settings import Settings
from usagebill.runtime.work import Reader

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")


def logged(box: Scenario, query: str = "") -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = box.get(f"/api_logs?{query}")["api_logs"]
    return shown


def test_an_entry_says_who_asked_what_from_where(box: Scenario) -> None:
    headers = {"x-request-id": "mine", "user-agent": "curl/8", "host": "billing.example"}
    box.request("PUT", "/api/v1/taxes/none?colour=red", json={"tax": {"name": "VAT"}}, headers=headers)
    (entry,) = logged(box)
    (key,) = box.billing.api_keys.list().items
    expected = {
        "request_id": "mine",
        "api_key_id": key.id,
        "client": "curl/8",
        "http_method": "put",
        "http_status": 404,
        "request_origin": "http://billing.example",
        "request_path": "/api/v1/taxes/none",
        "request_body": {"tax": {"name": "VAT"}, "colour": "red", "code": "none"},
    }
    assert {name: entry[name] for name in expected} == expected
    answer = {"status": 404, "error": "Not Found", "code": "tax_not_found"}
    assert for_programs(entry["request_response"]) == answer
    assert entry["duration_ms"] > 0


def test_the_value_of_a_new_key_is_left_out(box: Scenario) -> None:
    made = box.post("/api_keys", api_key={"name": "ci"})["api_key"]
    (entry,) = logged(box)
    assert entry["request_response"]["api_key"]["value"] == LEFT_OUT
    assert entry["request_response"]["api_key"]["name"] == "ci"
    assert made["value"] not in str(box.billing.reading(_everything))


def _everything(work: Reader) -> str:
    return "".join(repr(entry) for kind in (ActivityLog, ApiLog, SecurityLog) for entry in work.tx.find(kind))


def test_fields_that_name_secrets_are_left_out_wherever_they_are() -> None:
    sent = {"items": [{"Api_Key": "k", "name": "n"}], "password": 5, "token": None, "secret": {"client_secret": "s"}}
    assert without_secrets(sent) == {
        "items": [{"Api_Key": LEFT_OUT, "name": "n"}],
        "password": LEFT_OUT,
        "token": None,
        "secret": {"client_secret": LEFT_OUT},
    }


def test_an_address_is_kept_without_its_password(box: Scenario) -> None:
    box.post("/webhook_endpoints", webhook_endpoint={"webhook_url": "https://user:s3cret@hooks.example/in?a=b@c"})
    (entry,) = logged(box)
    for kept in (entry["request_body"], entry["request_response"]):
        assert kept["webhook_endpoint"]["webhook_url"] == "https://hooks.example/in?a=b@c"


def test_a_link_within_a_text_loses_its_signature_alone() -> None:
    text = '{"file_url":"https://x.example/documents/1.ab12","n":"/customer-portal/2.17.cd-_"}'
    assert without_signature(text) == '{"file_url":"https://x.example/documents/1","n":"/customer-portal/2"}'


# Fields of answers that name a secret or an address, and open nothing to whoever reads them: documents and the portal
# are without their signatures, credentials are masked.
_HARMLESS = {
    "file_url",
    "xml_url",
    "web_url",
    "logo_url",
    "url",
    "webhook_url",
    "webhook_urls",
    "success_redirect_url",
    "public_key",
    # An object, whose `checkout_url` is left out.
    "payment_provider_customer_checkout_url",
}


def test_every_field_of_an_answer_that_is_an_address_or_a_secret_is_left_out_or_harmless() -> None:
    described = document(endpoints())
    names: set[str] = set()

    def gather(part: object) -> None:
        if isinstance(part, dict):
            if isinstance(properties := part.get("properties"), dict):
                names.update(properties)
            for inner in part.values():
                gather(inner)
        elif isinstance(part, list):
            for inner in part:
                gather(inner)

    gather(described)
    found = {name for name in names if re.search(r"(url|urls|link|secret|password|token|(?<!_group)_key)$", name)}
    assert {"payment_url", "checkout_url", "portal_url", "api_key"} <= found
    assert found - SECRETS - _HARMLESS == set()


def test_links_that_open_something_by_themselves_are_kept_without_their_signature(box: Scenario) -> None:
    box.add_on()
    box.customer()
    sent = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]}
    invoice = box.post("/invoices", invoice=sent)["invoice"]
    box.post(f"/invoices/{invoice['svc_id']}/download")
    shown = box.post(f"/invoices/{invoice['svc_id']}/download")["invoice"]["file_url"]
    kept = shown.rpartition(".")[0]
    assert kept
    texts = [str(entry) for entry in box.billing.reading(lambda work: work.tx.find(ApiLog))]
    assert any(kept in text for text in texts)
    assert all(shown not in text for text in texts)


def test_what_a_key_may_not_do_and_what_cannot_be_read_is_not_logged(box: Scenario) -> None:
    narrow = box.billing.api_keys.create(permissions={"plan": ["read"]}).value
    assert box.request("POST", "/api/v1/plans", json={}, headers={"authorization": f"Bearer {narrow}"})[0] == 403
    assert box.request("POST", "/api/v1/plans", json={})[0] == 400
    assert box.request("POST", "/api/v1/plans", json={}, headers={"authorization": "Bearer none"})[0] == 401
    assert logged(box) == []


def test_a_change_and_its_entry_are_one_transaction(box: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the log is full")

    with monkeypatch.context() as patch:
        patch.setattr("usagebill.http.api.logged", broken)
        assert box.request("POST", "/api/v1/taxes", json={"tax": {"name": "V", "code": "v", "rate": 1}})[0] == 500
    assert box.get("/taxes")["taxes"] == []


def test_a_long_answer_is_not_kept(box: Scenario) -> None:
    box.add_on("a")
    box.jump_to("2024-03-05T01:00:00Z")
    box.put("/add_ons/a", add_on={"description": "d" * (LARGEST + 1)})
    (entry, _) = logged(box)
    assert "characters" in entry["request_body"]["left_out"]
    assert entry["http_status"] == 200


def test_ingestion_is_logged_where_the_installation_says_so() -> None:
    for log_ingestion, expected in ((False, []), (True, ["/api/v1/events"])):
        settings = Settings(log_ingestion=log_ingestion)
        with Scenario(now="2024-03-05T00:00:00Z", settings=settings) as box:
            box.post("/events", event={"transaction_id": "t", "code": "c", "external_subscription_id": "s"})
            assert [entry["request_path"] for entry in logged(box)] == expected


def test_the_log_can_be_switched_off() -> None:
    with Scenario(now="2024-03-05T00:00:00Z", settings=Settings(api_log_days=0)) as box:
        box.tax(1, "v")
        assert box.request("POST", "/api/v1/taxes", json={"tax": {"name": "V"}})[0] == 422
        assert logged(box) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("request_paths=/api/v1/taxes", 1),
        ("request_paths[]=/api/v1/taxes&request_paths[]=*/v", 2),
        ("request_paths[]=*tax*", 2),
        ("request_paths[]=/api/v1/tax[e-]s", 0),
        ("request_paths[]=/api/v1/tax?s", 0),
        ("clients[]=curl", 0),
        ("http_statuses[]=succeeded&http_statuses[]=failed", 0),
        ("http_statuses[]=odd", 0),
        ("http_statuses[]=20000", 0),
        ("http_methods[]=PUT", 1),
        ("api_version=v2", 0),
    ],
)
def test_filters(box: Scenario, query: str, expected: int) -> None:
    box.tax(1, "v")
    box.put("/taxes/v", tax={"name": "W"})
    assert len(logged(box, query)) == expected
