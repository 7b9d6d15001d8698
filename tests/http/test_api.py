"""Rules common to all requests: keys, permissions, order of refusals, pages, and separation of organizations."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.cases import each
from tests.json_asserts import accepted, for_programs, missing, refused
from tests.scenarios import plan_fields

from usagebill.core.api_keys import RESOURCES
from usagebill.core.webhooks import MessageStatus
from usagebill.http.api import Answer, Api, Request
from usagebill.http.app import endpoints, routes
from usagebill.http.endpoints import Endpoint
from usagebill.operations import api_keys, organizations, taxes
from usagebill.process.settings import Settings
from usagebill.runtime.work import Work
from usagebill.testing import Sandbox

UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(now="2024-03-05T00:00:00Z") as box:
        yield box


def with_key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


def limited(box: Sandbox, **permissions: tuple[str, ...]) -> dict[str, str]:
    """The header of a new key with these permissions alone."""
    _, value = box.billing.writing(lambda work: api_keys.create(work, permissions=permissions))
    return with_key(value)


def raw(box: Sandbox, method: str, path: str, body: bytes = b"", query: str = "", key: str | None = None) -> Answer:
    """The answer to exactly this."""
    api = Api(box.billing, routes())
    headers = with_key(box.api_key if key is None else key)
    return api.answer(Request(method=method, path=path, query=query, headers=headers, body=body))


# Keys


def test_key_stands_after_any_word(box: Sandbox) -> None:
    for header, status in (
        (f"Bearer {box.api_key}", 200),
        (f"Token {box.api_key}", 200),
        (box.api_key, 401),
        ("", 401),
        ("Bearer", 401),
        (f"Bearer {UNKNOWN}", 401),
    ):
        answer = box.request("GET", "/api/v1/taxes", headers={"authorization": header})
        assert answer[0] == status, header
        if status == 401:
            assert for_programs(answer[1]) == {"status": 401, "error": "Unauthorized"}


@pytest.mark.parametrize(
    ("form", "status"), [(":{}", 200), ("anyone:{}", 200), ("{}:", 200), ("{}:x", 401), (":", 401)]
)
def test_a_key_may_be_the_password_or_the_only_name_of_basic_credentials(box: Sandbox, form: str, status: int) -> None:
    credentials = base64.b64encode(form.format(box.api_key).encode()).decode()
    assert box.request("GET", "/api/v1/taxes", headers={"authorization": f"Basic {credentials}"})[0] == status


@pytest.mark.parametrize("credentials", ["%", "a", "====", "\u00e9"])
def test_what_is_no_basic_credentials_is_no_key(box: Sandbox, credentials: str) -> None:
    assert box.request("GET", "/api/v1/taxes", headers={"authorization": f"Basic {credentials}"})[0] == 401


def test_a_key_that_has_written_is_looked_up_again_with_every_write(box: Sandbox) -> None:
    api = Api(box.billing, routes())
    made, value = box.billing.writing(lambda work: api_keys.create(work, permissions={"event": ("write",)}))

    def send(number: int, path: str = "/api/v1/events", body: object = None) -> tuple[int, Any]:
        event = {"event": {"transaction_id": f"t{number}", "code": "calls", "external_subscription_id": "s"}}
        sent = json.dumps(event if body is None else body).encode()
        answer = api.answer(Request(method="POST", path=path, headers=with_key(value), body=sent))
        return answer.status, json.loads(answer.body)

    assert send(1)[0] == 200
    assert send(2, "/api/v1/taxes", {})[0] == 403
    box.billing.writing(lambda work: api_keys.update(work, made.id, permissions={"tax": ("write",)}))
    assert send(3)[0] == 403
    tax = {"tax": {"name": "VAT", "code": "vat", "rate": 20}}
    assert send(4, "/api/v1/taxes", tax)[0] == 200
    assert send(5, "/api/v1/taxes", tax)[0] == 422
    box.billing.writing(lambda work: api_keys.revoke(work, made.id))
    refused = send(8)
    assert (refused[0], for_programs(refused[1])) == (401, {"status": 401, "error": "Unauthorized"})
    assert send(6, "/api/v1/taxes", tax) == send(7, "/api/v1/taxes", {}) == refused
    assert [event.transaction_id for event in box.billing.events.list().items] == ["t1"]


def test_what_an_organization_has_changed_counts_for_the_next_write(box: Sandbox) -> None:
    api = Api(box.billing, routes())
    _, value = box.billing.writing(lambda work: api_keys.create(work, permissions={"tax": ("write",)}))

    def send(path: str, body: object) -> int:
        return api.answer(
            Request(method="POST", path=path, headers=with_key(value), body=json.dumps(body).encode())
        ).status

    assert send("/api/v1/taxes", {"tax": {"name": "A", "code": "a", "rate": 1}}) == 200
    add_on = {"add_on": {"name": "A", "code": "a", "amount_cents": 1, "amount_currency": "EUR"}}
    assert send("/api/v1/add_ons", add_on) == 403
    box.billing.writing(lambda work: work.tx.replace(replace(work.organization, granular_permissions=False)))
    assert send("/api/v1/add_ons", add_on) == 200


# Permissions


def test_mode_follows_from_the_verb_and_absent_resources_are_denied(box: Sandbox) -> None:
    key = limited(box, add_on=("read",))
    assert box.request("GET", "/api/v1/add_ons", headers=key)[0] == 200
    status, body = box.request("POST", "/api/v1/add_ons", json={}, headers=key)
    refusal = {"status": 403, "error": "Forbidden", "code": "write_action_not_allowed_for_add_on"}
    assert (status, for_programs(body)) == (403, refusal)
    assert box.request("GET", "/api/v1/plans", headers=key)[1]["code"] == "read_action_not_allowed_for_plan"


def test_resource_with_no_mode_is_denied_in_both(box: Sandbox) -> None:
    key = limited(box, tax=())
    for method in ("GET", "POST"):
        assert box.request(method, "/api/v1/taxes", headers=key)[0] == 403


@each("endpoint", endpoints(), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_every_endpoint_needs_its_permission(box: Sandbox, endpoint: Endpoint) -> None:
    assert endpoint.permission in RESOURCES
    others = {resource: ("read", "write") for resource in RESOURCES if resource != endpoint.permission}
    mode = "read" if endpoint.method == "GET" else "write"
    path = "/api/v1" + endpoint.path.replace("{", "").replace("}", "")
    status, body = box.request(endpoint.method, path, headers=limited(box, **others))
    assert (status, body["code"]) == (403, f"{mode}_action_not_allowed_for_{endpoint.permission}")


@pytest.mark.parametrize(
    "path",
    ["/organizations", "/invoices/x/finalize", "/invoices/x/refresh", "/credit_notes/x/void"],
)
def test_what_is_no_change_of_fields_has_one_verb(box: Sandbox, path: str) -> None:
    assert box.request("PATCH", "/api/v1" + path, json={})[1]["code"] == "resource_not_found"
    assert box.request("PUT", "/api/v1" + path, json={})[1].get("code") != "resource_not_found"


def test_evaluating_an_expression_is_a_write(box: Sandbox) -> None:
    key = limited(box, billable_metric=("read",))
    path = "/api/v1/billable_metrics/evaluate_expression"
    assert box.request("POST", path, json={"expression": "1"}, headers=key)[0] == 403


# The order of refusals


def test_refusals_come_in_order(box: Sandbox) -> None:
    nobody = {"authorization": "Bearer nobody"}
    unpermitted = limited(box, plan=("read",))
    assert raw(box, "POST", "/api/v1/taxes", b"{", key="nobody").status == 401
    assert box.request("GET", "/api/v1/nothing", headers=nobody)[0] == 404
    assert box.request("PUT", "/api/v1/taxes/none", json={}, headers=nobody)[0] == 401
    assert box.request("PUT", "/api/v1/taxes/none", json={}, headers=unpermitted)[0] == 403
    assert box.request("PUT", "/api/v1/taxes/none", json={})[0] == 400
    assert box.request("PUT", "/api/v1/taxes/none", json={"tax": {"name": ""}})[0] == 404


@pytest.mark.parametrize("path", ["add_ons/x", "billable_metrics/x", "coupons/x", "plans/x", "taxes/x"])
def test_missing_root_comes_before_the_missing_record(box: Sandbox, path: str) -> None:
    root = path.split("/")[0].removesuffix("es" if path.startswith("taxes") else "s")
    status, body = box.request("PUT", f"/api/v1/{path}", json={})
    assert (status, body["error"].split(": ")[-1]) == (400, root)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("plans/x/charges/y", "plan"),
        ("subscriptions/x/charges/y", "subscription"),
        ("subscriptions/sub/charges/y", "charge"),
        ("subscriptions/sub/fixed_charges/y", "fixed_charge"),
        ("subscriptions/x/lifetime_usage", "subscription"),
        ("credit_notes/x", "credit_note"),
        ("billing_entities/x", "billing_entity"),
    ],
)
def test_a_missing_record_comes_before_the_missing_root_of_what_is_nested(
    box: Sandbox, path: str, missing: str
) -> None:
    box.billing.plans.create(**plan_fields(name="Plan", amount_cents=1))
    box.billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    status, body = box.request("PUT", f"/api/v1/{path}", json={})
    assert (status, body["code"]) == (404, f"{missing}_not_found")


def numeric_field(endpoint: Endpoint) -> str | None:
    assert endpoint.body is not None
    fields = attrs.fields(attrs.resolve_types(endpoint.body))
    return next((field.name for field in fields if "int" in str(field.type) or "Decimal" in str(field.type)), None)


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [
        pytest.param(endpoint, field, id=f"{endpoint.method} {endpoint.path}")
        for endpoint in endpoints()
        if endpoint.body is not None and "{" in endpoint.path and (field := numeric_field(endpoint)) is not None
    ],
)
def test_a_missing_record_comes_before_values_of_the_wrong_kind(box: Sandbox, endpoint: Endpoint, field: str) -> None:
    sent = {field: "much"}
    path = "/api/v1" + re.sub(r"{\w+}", "none", endpoint.path)
    status, body = box.request(endpoint.method, path, json=sent if endpoint.root is None else {endpoint.root: sent})
    assert (status, body["error"]) == (404, "Not Found")


@pytest.mark.parametrize("root", [None, "", [], {}, "text", 1])
def test_root_must_hold_an_object(box: Sandbox, root: object) -> None:
    for resource in ("tax", "add_on", "customer", "billable_metric", "webhook_endpoint", "billing_entity"):
        plural = {"tax": "taxes", "billing_entity": "billing_entities"}.get(resource, resource + "s")
        status, body = box.request("POST", f"/api/v1/{plural}", json={resource: root})
        assert status == 400
        assert for_programs(body) == {
            "status": 400,
            "error": f"BadRequest: param is missing or the value is empty or invalid: {resource}",
        }


def test_unknown_fields_are_ignored(box: Sandbox) -> None:
    tax = {"name": "VAT", "code": "vat", "rate": 20, "colour": "red", "nested": {"a": [1]}}
    assert accepted(box.request("POST", "/api/v1/taxes", json={"tax": tax, "more": 1}), "tax")["rate"] == 20.0


def test_bodies_of_other_shapes_hold_no_root(box: Sandbox) -> None:
    for body in (b"[]", b"1", b'"text"', b"null"):
        assert raw(box, "POST", "/api/v1/taxes", body).status == 400


def test_known_path_with_another_verb_is_not_found(box: Sandbox) -> None:
    for method, path in (("DELETE", "events"), ("POST", "taxes/vat"), ("PUT", "webhooks/public_key"), ("GET", "")):
        status, body = box.request(method, f"/api/v1/{path}")
        error = {"status": 404, "error": "Not Found", "code": "resource_not_found"}
        assert (status, for_programs(body)) == (404, error)


def test_codes_in_paths_are_any_text(box: Sandbox) -> None:
    code = "a.b c/d%e?é"
    tax = {"name": "Odd", "code": code, "rate": "1"}
    assert box.request("POST", "/api/v1/taxes", json={"tax": tax})[0] == 200
    answer = raw(box, "GET", "/api/v1/taxes/a.b%20c%2Fd%25e%3F%C3%A9")
    assert json.loads(answer.body)["tax"]["code"] == code


def test_numbers_of_any_length_keep_their_digits(box: Sandbox) -> None:
    body = b'{"tax": {"name": "Exact", "code": "exact", "rate": 8.12345678901234567890123}}'
    answer = raw(box, "POST", "/api/v1/taxes", body)
    assert b'"rate":8.12345678901234567890123' in answer.body


# Pages


def fill(box: Sandbox, number: int) -> None:
    def act(work: Work) -> None:
        for position in range(number):
            taxes.create(work, taxes.TaxInput(name=f"{position:03d}", code=f"t{position}", rate=Decimal(1)))

    box.billing.writing(act)


def page(box: Sandbox, query: str) -> tuple[int, tuple[Any, ...]]:
    status, body = box.request("GET", f"/api/v1/taxes{query}")
    assert status == 200
    meta = body["meta"]
    assert list(meta) == ["current_page", "next_page", "prev_page", "total_pages", "total_count"]
    return len(body["taxes"]), tuple(meta.values())


def test_pages_of_twenty_five(box: Sandbox) -> None:
    fill(box, 25)
    for query, expected in {
        "?page=2&per_page=10": (10, (2, 3, 1, 3, 25)),
        "?page=3&per_page=10": (5, (3, None, 2, 3, 25)),
        "?page=5&per_page=10": (0, (5, None, 4, 3, 25)),
        "": (25, (1, None, None, 1, 25)),
        "?page=0&per_page=10": (10, (1, 2, None, 3, 25)),
        "?page=-3&per_page=10": (10, (1, 2, None, 3, 25)),
        "?page=two&per_page=10": (10, (1, 2, None, 3, 25)),
        "?per_page=10abc": (10, (1, 2, None, 3, 25)),
        "?per_page=abc": (25, (1, None, None, 1, 25)),
        "?per_page=0": (25, (1, None, None, 1, 25)),
        "?per_page=1000": (25, (1, None, None, 1, 25)),
        "?page=99999999999999999999&per_page=10": (0, (10**20 - 1, None, 10**20 - 2, 3, 25)),
        "?page=2&per_page=99999999999999999999": (0, (2, None, 1, 1, 25)),
        f"?page={'9' * 4000}&per_page={'9' * 4000}": (0, (10**4000 - 1, None, 10**4000 - 2, 1, 25)),
    }.items():
        assert page(box, query) == expected, query


def test_pages_of_many(box: Sandbox) -> None:
    fill(box, 120)
    assert page(box, "") == (100, (1, 2, None, 2, 120))
    assert page(box, "?per_page=-1") == (25, (1, 2, None, 5, 120))


@pytest.mark.slow
def test_a_page_holds_a_thousand_at_most(box: Sandbox) -> None:
    for number in range(1001):
        box.billing.taxes.create(name=f"Tax {number}", code=f"tax-{number}", rate="1")
    for per_page in ("1000", "1001", "9" * 30):
        assert page(box, f"?per_page={per_page}") == (1000, (1, 2, None, 2, 1001))
    assert page(box, "?per_page=5000&page=2") == (1, (2, None, 1, 2, 1001))
    assert (len(box.billing.taxes.list(per_page=5000).items), box.billing.taxes.list(per_page=5000).per_page) == (
        1000,
        1000,
    )


def test_page_of_nothing(box: Sandbox) -> None:
    assert page(box, "?page=4") == (0, (0, None, None, 0, 0))


def test_pages_may_be_asked_for_in_the_body_and_the_query_wins(box: Sandbox) -> None:
    fill(box, 5)
    _, body = box.request("GET", "/api/v1/taxes", json={"per_page": 2})
    assert len(body["taxes"]) == 2
    _, body = box.request("GET", "/api/v1/taxes?per_page=3", json={"per_page": 2})
    assert len(body["taxes"]) == 3


def test_pages_hold_each_record_once(box: Sandbox) -> None:
    fill(box, 25)
    codes = [
        tax["code"]
        for number in (1, 2, 3)
        for tax in accepted(box.request("GET", f"/api/v1/taxes?page={number}&per_page=10"), "taxes")
    ]
    assert codes == [f"t{position}" for position in range(25)]


# Organizations


@pytest.fixture
def other(box: Sandbox) -> dict[str, str]:
    """The header of a key of another organization in the same store."""
    organization = box.billing.store.write(None, lambda tx: organizations.create(tx, box.now, "Other"))
    _, value = box.billing.writing(lambda work: api_keys.create(work), organization)
    return with_key(value)


def test_organizations_do_not_see_each_others_records(box: Sandbox, other: dict[str, str]) -> None:
    sent: dict[str, dict[str, object]] = {
        "customers": {"customer": {"external_id": "x", "name": "Mine"}},
        "taxes": {"tax": {"name": "Mine", "code": "x", "rate": "1"}},
        "add_ons": {"add_on": {"name": "Mine", "code": "x", "amount_cents": 1, "amount_currency": "EUR"}},
        "billable_metrics": {"billable_metric": {"name": "Mine", "code": "x", "aggregation_type": "count_agg"}},
        "billing_entities": {"billing_entity": {"name": "Mine", "code": "x"}},
        "webhook_endpoints": {"webhook_endpoint": {"webhook_url": "https://mine.example", "name": "Mine"}},
    }
    for plural, body in sent.items():
        (root,) = body
        mine = accepted(box.request("POST", f"/api/v1/{plural}", json=body), root)
        id = mine["svc_id"] if root == "webhook_endpoint" else "x"
        listed = accepted(box.request("GET", f"/api/v1/{plural}", headers=other), plural)
        assert not [entity for entity in listed if entity["name"] == "Mine"]
        for method in ("GET", "DELETE", "PUT"):
            if (method, root) in (("PUT", "customer"), ("DELETE", "billing_entity")):
                continue
            answer = box.request(method, f"/api/v1/{plural}/{id}", json=body, headers=other)
            assert missing(answer) == root
        assert accepted(box.request("GET", f"/api/v1/{plural}/{id}"), root)["name"] == "Mine"
        # A code or an address that one has taken is free for the other.
        assert (
            accepted(box.request("POST", f"/api/v1/{plural}", json=body, headers=other), root)["svc_id"]
            != mine["svc_id"]
        )


def test_references_reach_no_other_organization(box: Sandbox, other: dict[str, str]) -> None:
    box.request("POST", "/api/v1/taxes", json={"tax": {"name": "VAT", "code": "vat", "rate": "1"}})
    box.request("POST", "/api/v1/billing_entities", json={"billing_entity": {"name": "FR", "code": "fr"}})
    taxed = {"customer": {"external_id": "x", "tax_codes": ["vat"]}}
    placed = {"customer": {"external_id": "x", "billing_entity_code": "fr"}}
    assert missing(box.request("POST", "/api/v1/customers", json=taxed, headers=other)) == "tax"
    assert missing(box.request("POST", "/api/v1/customers", json=placed, headers=other)) == "billing_entity"


def test_numbers_of_customers_count_for_each_organization(box: Sandbox, other: dict[str, str]) -> None:
    for key, external_id, number in ((None, "a", 1), (None, "b", 2), (other, "a", 1)):
        body = {"customer": {"external_id": external_id}}
        shown = accepted(box.request("POST", "/api/v1/customers", json=body, headers=key), "customer")
        assert shown["sequential_id"] == number


def test_messages_go_to_the_endpoints_of_their_own_organization(box: Sandbox, other: dict[str, str]) -> None:
    endpoint = {"webhook_endpoint": {"webhook_url": "https://mine.example"}}
    id = accepted(box.request("POST", "/api/v1/webhook_endpoints", json=endpoint), "webhook_endpoint")["svc_id"]
    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": "theirs"}}, headers=other)
    assert box.billing.webhooks.list_of_endpoint(id).items == []
    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": "mine"}})
    assert len(box.billing.webhooks.list_of_endpoint(id).items) == 1


@pytest.mark.beyond_reference
def test_webhook_messages_are_listed_and_resent(box: Sandbox, other: dict[str, str]) -> None:
    endpoint = {"webhook_endpoint": {"webhook_url": "https://mine.example"}}
    id = accepted(box.request("POST", "/api/v1/webhook_endpoints", json=endpoint), "webhook_endpoint")["svc_id"]
    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": "mine"}})
    (sent,) = box.billing.webhooks.list().items
    box.billing.writing(lambda work: work.tx.replace(replace(sent, status=MessageStatus.FAILED, http_status=503)))
    _, listed = box.request("GET", f"/api/v1/webhooks?statuses[]=failed&webhook_endpoint_id={id}&http_statuses[]=5xx")
    assert [row["svc_id"] for row in listed["webhooks"]] == [sent.id]
    assert listed["meta"]["total_count"] == 1
    status, shown = box.request("POST", f"/api/v1/webhooks/{sent.id}/resend")
    assert (status, shown["webhook"]["svc_id"]) == (200, sent.id)
    assert box.request("POST", "/api/v1/webhooks/resend_failed") == (200, {"resent_count": 1})
    assert box.request("POST", "/api/v1/webhooks/resend_failed", headers=other) == (200, {"resent_count": 0})
    narrowed = {"event_types": ["plan.created"]}
    assert box.request("POST", "/api/v1/webhooks/resend_failed", json=narrowed) == (200, {"resent_count": 0})
    box.billing.writing(lambda work: work.tx.replace(replace(sent, status=MessageStatus.SUCCEEDED)))
    status, refused = box.request("POST", f"/api/v1/webhooks/{sent.id}/resend")
    assert (status, refused["code"]) == (405, "is_succeeded")


# The prefix of ids


def test_prefix_of_ids_is_a_setting() -> None:
    with Sandbox(now="2024-03-05T00:00:00Z", settings=Settings(id_prefix="acme_")) as box:
        body = b'{"tax": {"name": "VAT", "code": "vat", "rate": "1"}}'
        shown = json.loads(raw(box, "POST", "/api/v1/taxes", body).body)["tax"]
        assert "acme_id" in shown
        assert "svc_id" not in shown


def test_prefix_of_ids_leads_in_every_list_and_message_and_never_in_what_callers_keep() -> None:
    with Sandbox(now="2024-03-05T00:00:00Z", settings=Settings(id_prefix="acme_")) as box:
        customer = {"external_id": "c", "metadata": [{"key": "svc_tier", "value": "gold"}]}
        shown = accepted(box.request("POST", "/api/v1/customers", json={"customer": customer}), "customer")
        announced = box.webhooks[-1]["customer"]
        for item in (shown["metadata"][0], announced["metadata"][0]):
            assert (item["key"], "acme_id" in item, "svc_id" in item) == ("svc_tier", True, False)
        event = {"transaction_id": "1", "code": "x", "properties": {"svc_a": "1", "acme_b": "2"}}
        kept = accepted(box.request("POST", "/api/v1/events", json={"event": event}), "event")["properties"]
        assert kept == {"svc_a": "1", "acme_b": "2"}


def test_values_of_the_wrong_kind_are_named(box: Sandbox) -> None:
    tax = {"name": ["a"], "code": {"a": 1}, "rate": "x"}
    assert refused(box.request("POST", "/api/v1/taxes", json={"tax": tax})) == {
        "name": ["invalid_type"],
        "code": ["invalid_type"],
        "rate": ["is not a number"],
    }
    # Some languages write an empty object as a list: nothing was sent.
    assert refused(box.request("POST", "/api/v1/taxes", json={"tax": {"name": {}, "code": [], "rate": 1}})) == {
        "name": ["value_is_mandatory"],
        "code": ["value_is_mandatory"],
    }
