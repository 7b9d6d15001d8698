"""The description of the API is valid and complete, and matches the API."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from openapi_spec_validator import validate
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.asgi import send

from usagebill import Billing
from usagebill.core.webhooks import OBJECT_TYPES
from usagebill.http.app import create_app, endpoints
from usagebill.http.openapi import document
from usagebill.operations import api_keys
from usagebill.process.json_text import encode_json


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(endpoints())


@pytest.mark.slow
def test_description_is_valid(described: dict[str, Any]) -> None:
    validate(described)


def test_every_endpoint_is_described(described: dict[str, Any]) -> None:
    assert {(row.method.lower(), "/api/v1" + row.path) for row in endpoints()} <= {
        (method, path) for path, methods in described["paths"].items() for method in methods
    }
    assert set(described["paths"]["/api/v1/billable_metrics/{code}"]) == {"get", "put", "patch", "delete"}


def test_operations_have_names_of_their_own_and_a_summary(described: dict[str, Any]) -> None:
    operations = [operation for methods in described["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert [operation["operationId"] for operation in operations if not operation["summary"]] == []


def test_an_operation_says_what_it_takes_and_needs(described: dict[str, Any]) -> None:
    create = described["paths"]["/api/v1/customers"]["post"]
    body = create["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["customer"]
    named = body["properties"]["customer"]["$ref"].rsplit("/", 1)[1]
    assert "external_id" in described["components"]["schemas"][named]["properties"]
    assert "`customer:write`" in create["description"]
    listed = described["paths"]["/api/v1/customers"]["get"]
    assert {"page", "per_page", "search_term"} <= {parameter["name"] for parameter in listed["parameters"]}
    assert "PageMeta" in str(listed["responses"]["200"])
    assert set(create["responses"]) == {"200", "400", "401", "403", "404", "405", "422", "429", "500", "503", "507"}


def test_prefix_of_ids_is_the_installation_own() -> None:
    described = document(endpoints(), prefix="acme_")
    assert "svc_" not in str(described)
    assert "acme_subscription_id" in described["components"]["schemas"]["Fee"]["required"]


def test_an_answer_says_its_fields(described: dict[str, Any]) -> None:
    shapes = described["components"]["schemas"]
    assert shapes["Plan"]["properties"]["charges"]["items"] == {"$ref": "#/components/schemas/Charge"}
    assert shapes["Charge"]["properties"]["created_at"] == {
        "description": "When it was created.",
        "type": "string",
        "format": "date-time",
    }
    regrouped = shapes["Charge"]["properties"]["regroup_paid_fees"]
    assert (regrouped["type"], regrouped["enum"]) == (["string", "null"], ["invoice", None])
    assert {"svc_id", "fees", "total_amount_cents"} <= set(shapes["Invoice"]["required"])
    assert "applied_usage_thresholds" not in shapes["Invoice"]["required"]
    assert "fees" not in shapes["ListedInvoice"]["properties"]
    # Fields that a preview leaves out are not required; an estimated fee has no id.
    assert shapes["PreviewedInvoice"]["properties"]["svc_id"]["type"] == "string"
    assert "billing_periods" not in shapes["PreviewedInvoice"]["properties"]
    assert shapes["UnstoredFee"]["properties"]["svc_id"]["type"] == ["string", "null"]


def test_a_message_says_what_it_carries(described: dict[str, Any]) -> None:
    assert set(described["webhooks"]) <= set(OBJECT_TYPES)
    sent = described["webhooks"]["invoice.drafted"]["post"]
    body = sent["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["webhook_type", "object_type", "organization_id", "invoice"]
    assert body["properties"]["webhook_type"]["enum"] == ["invoice.drafted"]
    shapes = described["components"]["schemas"]
    draft, issued = shapes["DraftInvoice"]["properties"], shapes["IssuedInvoice"]["properties"]
    assert "error_details" in draft
    assert "applied_invoice_custom_sections" not in draft
    assert "error_details" not in issued
    assert "applied_invoice_custom_sections" in issued
    headers = {field["name"] for field in sent["parameters"]}
    assert headers == {"X-Svc-Signature", "X-Svc-Signature-Algorithm", "X-Svc-Unique-Key"}


def test_page_shows_the_description_without_anything_from_elsewhere(described: dict[str, Any]) -> None:
    with Billing() as billing:
        app = create_app(billing)
        page = send(app, "GET", "/docs")
        assert page.headers["content-type"].startswith("text/html")
        files = re.findall(r'(?:src|href)="([^"]*)"', page.text)
        assert len(files) == 6
        for file in set(files) - {"data:,"}:
            answer = send(app, "GET", f"/{file}")
            assert answer.status_code == 200, file
        assert 'url: "openapi.json"' in send(app, "GET", "/docs/static/docs.js").text
        assert "'unsafe-eval'" not in page.headers["content-security-policy"]
        assert send(app, "GET", "/openapi.json").json() == json.loads(encode_json(described))


def test_mounted_below_a_path_everything_is_found_there() -> None:
    with Billing() as billing:
        _, key = billing.writing(lambda work: api_keys.create(work))
        outer = Starlette(routes=[Mount("/billing", app=create_app(billing))])
        headers = {"Authorization": f"Bearer {key}"}
        assert send(outer, "GET", "/billing/health").json()["message"] == "Success"
        assert send(outer, "GET", "/billing/openapi.json").json()["servers"] == [{"url": "/billing"}]
        body = {"customer": {"external_id": "a/b c"}}
        assert send(outer, "POST", "/billing/api/v1/customers", json=body, headers=headers).status_code == 200
        answer = send(outer, "GET", "/billing/api/v1/customers/a%2Fb%20c", headers=headers)
        assert answer.json()["customer"]["external_id"] == "a/b c"
        assert send(outer, "GET", "/api/v1/customers", headers=headers).status_code == 404


def test_lists_that_are_checked_by_hand_are_described_as_lists(described: dict[str, Any]) -> None:
    resend = described["paths"]["/api/v1/invoices/{invoice_id}/resend_email"]["post"]
    assert resend["requestBody"]["required"] is False
    assert set(resend["responses"]["200"]) == {"description"}
    fields = described["components"]["schemas"]["ResendInput"]["properties"]
    assert set(fields) == {"to", "cc", "bcc"}
    assert all(field["type"] == ["array", "null"] for field in fields.values())
    assert all("string" in field["items"]["type"] for field in fields.values())


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("charges/{charge_code}", "charge"),
        ("charges/{charge_code}/filters/{filter_id}", "filter"),
        ("fixed_charges/{fixed_charge_code}", "fixed_charge"),
    ],
)
def test_a_deletion_that_may_cascade_describes_its_body(described: dict[str, Any], path: str, part: str) -> None:
    operation = described["paths"][f"/api/v1/plans/{{code}}/{path}"]["delete"]
    assert operation["requestBody"]["required"] is False
    schemas = described["components"]["schemas"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    options = schemas[body["$ref"].rsplit("/", 1)[1]]["properties"]
    assert set(options) == {part, "cascade_updates"}
    inside = schemas[options[part]["$ref"].rsplit("/", 1)[1]]["properties"]
    assert inside["cascade_updates"]["type"] == ["boolean", "null"]
    # In the query it is `charge[cascade_updates]=true`.
    styles = {parameter["name"]: parameter.get("style") for parameter in operation["parameters"]}
    assert (styles[part], styles["cascade_updates"]) == ("deepObject", None)


def test_other_deletions_describe_no_body(described: dict[str, Any]) -> None:
    with_body = [path for path, item in described["paths"].items() if "requestBody" in item.get("delete", {})]
    assert [path.rsplit("/", 2)[1] for path in with_body] == ["charges", "filters", "fixed_charges"]
