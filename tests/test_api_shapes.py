"""The shape checker itself, on a small document and on the reference's own: what it accepts and what it finds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from tests.api_shapes import SHAPES, ShapeChecker

WIDGET: dict[str, Any] = {
    "type": "object",
    "required": ["svc_id", "code", "size", "created_at"],
    "properties": {
        "svc_id": {"type": "string", "format": "uuid"},
        "code": {"type": "string"},
        "email": {"type": "string", "format": "email"},
        "size": {"type": "integer"},
        "rate": {"type": "number"},
        "units": {"type": "string", "pattern": "^[0-9]+.?[0-9]*$"},
        "note": {"type": "string"},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "created_at": {"type": "string", "format": "date-time"},
        "due_on": {"type": "string", "format": "date"},
        "value": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Widget"}},
    },
}


def answer(schema: dict[str, Any]) -> dict[str, Any]:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


ONE = {"type": "object", "required": ["widget"], "properties": {"widget": {"$ref": "#/components/schemas/Widget"}}}
LITERAL: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": ["integer", "string", "null"], "enum": [0, 3, "w", None]},
        "b": {"anyOf": [{"$ref": "#/components/schemas/Widget"}, {"type": "array", "items": {"type": "number"}}]},
        "kind": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    },
    "if": {"properties": {"kind": {"const": 3}}},
    "then": {"required": ["b"]},
    "additionalProperties": False,
}
MESSAGE = {
    "type": "object",
    "required": ["webhook_type", "object_type", "widget"],
    "properties": {"webhook_type": {"enum": ["widget.made"]}, **ONE["properties"]},  # type: ignore[dict-item]
}
CHECKER = ShapeChecker(
    {
        "paths": {
            "/widgets/{svc_id}": {"get": answer(ONE), "post": answer(ONE)},
            "/widgets/preview": {"post": answer({"type": "object", "required": ["preview"]})},
            "/widgets/{svc_id}/download": {"post": answer(ONE)},
        },
        "webhooks": {"w": {"post": {"requestBody": {"content": {"application/json": {"schema": MESSAGE}}}}}},
        "components": {"schemas": {"Widget": WIDGET}},
    }
)


def widget(**changes: Any) -> dict[str, Any]:
    made = {
        "svc_id": "018f0000-0000-7000-8000-000000000001",
        "code": "w",
        "size": 3,
        "created_at": "2024-01-01T00:00:00Z",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not ...}


def problems(**changes: Any) -> list[str]:
    return CHECKER.check("GET", "/api/v1/widgets/1?page=2", 200, {"widget": widget(**changes)})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"note": None, "color": None, "due_on": None, "parts": None},
        {"unknown_to_the_document": object()},
        {"units": "-2.50"},
        {"value": 3},
        {"parts": [widget(), widget(color="blue")]},
    ],
)
def test_well_shaped_responses_pass(changes: dict[str, Any]) -> None:
    assert problems(**changes) == []


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"code": ...}, "$.widget"),
        ({"code": None}, "$.widget.code"),
        ({"size": "3"}, "$.widget.size"),
        ({"size": True}, "$.widget.size"),
        ({"rate": "20"}, "$.widget.rate"),
        ({"units": "1e3"}, "$.widget.units"),
        ({"units": 3}, "$.widget.units"),
        ({"color": "green"}, "$.widget.color"),
        ({"created_at": "2024-01-01"}, "$.widget.created_at"),
        ({"created_at": "2024-01-01T00:00:00"}, "$.widget.created_at"),
        ({"due_on": "2024-01-01T00:00:00Z"}, "$.widget.due_on"),
        ({"svc_id": "1"}, "$.widget.svc_id"),
        ({"parts": [widget(), widget(size=None)]}, "$.widget.parts[1].size"),
    ],
)
def test_badly_shaped_responses_are_named_by_their_place(changes: dict[str, Any], place: str) -> None:
    (problem,) = problems(**changes)
    assert problem.startswith(f"GET /widgets/{{svc_id}} 200: {place}: ")


# Values of every type, right and wrong in the form of their fields.
TEXTS = ["", "w", "-2.50", "1e3", "red", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00", str(UUID(int=1))]
VALUES = st.sampled_from([..., None, True, 0, 3, 2.5, Decimal("2.50"), *TEXTS, [], {}, [widget()], [widget(size=None)]])


@given(st.dictionaries(st.sampled_from([*WIDGET["properties"], "unknown"]), VALUES, max_size=4))
def test_the_quick_look_and_the_thorough_one_say_the_same(changes: dict[str, Any]) -> None:
    for instance in ({"widget": widget(**changes)}, {"widget": widget(parts=[widget(**changes)])}):
        assert CHECKER.is_right(ONE, instance) == (not CHECKER.problems(ONE, instance))


@given(st.dictionaries(st.sampled_from(["a", "b", "kind"]), VALUES.filter(lambda value: value is not ...), max_size=3))
def test_to_the_letter_they_say_the_same_too(instance: dict[str, Any]) -> None:
    literal = ShapeChecker({"paths": {}, "components": {"schemas": {"Widget": WIDGET}}}, Draft202012Validator)
    assert literal.is_right(LITERAL, instance) == (not literal.problems(LITERAL, instance))


def test_a_path_written_out_wins_over_a_template() -> None:
    assert CHECKER.operation("POST", "/api/v1/widgets/preview") == "/widgets/preview"
    assert CHECKER.operation("POST", "/api/v1/widgets/other") == "/widgets/{svc_id}"
    assert CHECKER.operation("DELETE", "/api/v1/widgets/other") is None


def test_what_the_document_does_not_know_is_not_checked() -> None:
    assert CHECKER.check("GET", "/api/v1/gadgets", 200, {}) == []
    assert CHECKER.check("GET", "/api/v1/widgets/1", 404, {}) == []
    assert CHECKER.check_webhook({"webhook_type": "gadget.made"}) == []


def test_only_a_download_may_be_empty() -> None:
    assert CHECKER.check("POST", "/api/v1/widgets/1/download", 200, None) == []
    assert CHECKER.check("GET", "/api/v1/widgets/1", 200, None)


def test_webhook_messages_are_checked_by_their_type() -> None:
    message = {"webhook_type": "widget.made", "object_type": "widget", "widget": widget()}
    assert CHECKER.check_webhook(message) == []
    assert CHECKER.check_webhook({**message, "widget": widget(size="3")})[0].startswith(
        "webhook widget.made: $.widget.size"
    )


@pytest.mark.skipif(not SHAPES.exists(), reason="the reference's shapes are not beside this checkout")
class TestReference:
    def test_knows_nested_and_paginated_operations(self) -> None:
        checker = ShapeChecker.of_reference()
        meta = {"current_page": 1, "total_pages": 0, "total_count": 0, "next_page": None, "prev_page": None}
        assert checker.check("GET", "/api/v1/invoices?page=1", 200, {"invoices": [], "meta": meta}) == []
        assert checker.check("GET", "/api/v1/invoices", 200, {"invoices": [{}], "meta": meta})
        assert checker.operation("POST", "/api/v1/invoices/preview") == "/invoices/preview"
        assert checker.operation("DELETE", "/api/v1/customers/c 1/applied_coupons/x") == (
            "/customers/{external_customer_id}/applied_coupons/{applied_coupon_id}"
        )

    @pytest.mark.parametrize(
        ("path", "missing"),
        [
            ("/payments/1", "svc_id"),  # the one bare record of the interface
            ("/invoices/1", "invoice"),
            ("/payment_requests/1", "payment_request"),
            ("/wallet_transactions/1", "wallet_transaction"),
        ],
    )
    def test_every_record_but_a_payment_stands_under_its_name(self, path: str, missing: str) -> None:
        problems_found = ShapeChecker.of_reference().check("GET", "/api/v1" + path, 200, {})
        assert any(f"'{missing}' is a required property" in problem for problem in problems_found)

    def test_a_message_names_its_organization_and_object(self) -> None:
        problems_found = ShapeChecker.of_reference().check_webhook(
            {"webhook_type": "plan.created", "object_type": "plan"}
        )
        assert {problem.split("'")[1] for problem in problems_found} == {"organization_id", "plan"}
