"""Payments recorded by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-02-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.customer()
    box.plan(amount_cents=10_000, pay_in_advance=True)
    box.subscribe()
    return box


def invoice(box: Scenario) -> dict[str, Any]:
    (listed,) = box.get("/invoices")["invoices"]
    invoice: dict[str, Any] = box.invoice(listed["svc_id"])
    return invoice


def pay(box: Scenario, **fields: Any) -> tuple[int, Any]:
    body = {"invoice_id": invoice(box)["svc_id"], "reference": "transfer", **fields}
    return box.send("POST", "/payments", {"payment": body})


def updates(box: Scenario) -> int:
    return sum(message["webhook_type"] == "invoice.payment_status_updated" for message in box.webhooks)


def test_an_invoice_is_paid_when_its_parts_add_up(box: Scenario) -> None:
    status, answer = pay(box, amount_cents=2000, paid_at="2024-01-15")
    payment = answer["payment"]
    assert (status, payment["created_at"], payment["type"]) == (200, "2024-01-15T00:00:00Z", "manual")
    partly = invoice(box)
    assert (partly["payment_status"], partly["total_paid_amount_cents"]) == ("pending", 2000)
    assert partly["total_due_amount_cents"] == 8000
    assert updates(box) == 0
    assert pay(box, amount_cents=8000)[0] == 200
    paid = invoice(box)
    assert (paid["payment_status"], paid["total_due_amount_cents"]) == ("succeeded", 0)
    assert {fee["payment_status"] for fee in paid["fees"]} == {"succeeded"}
    assert updates(box) == 1
    assert box.get(f"/payments/{payment['svc_id']}") == {**payment, "payment": payment}
    assert len(box.get("/customers/acme/payments")["payments"]) == 2
    assert box.get("/payments?external_customer_id=none")["payments"] == []


def test_what_a_credit_note_settles_need_not_be_paid(box: Scenario) -> None:
    unpaid = invoice(box)
    items = [{"fee_id": unpaid["fees"][0]["svc_id"], "amount_cents": 2000}]
    note = {"invoice_id": unpaid["svc_id"], "offset_amount_cents": 2000, "items": items}
    box.post("/credit_notes", credit_note=note)
    left = unpaid["total_amount_cents"] - 2000
    assert pay(box, amount_cents=left + 1)[0] == 422
    assert pay(box, amount_cents=left)[0] == 200
    paid = invoice(box)
    assert (paid["payment_status"], paid["total_due_amount_cents"]) == ("succeeded", 0)


@pytest.mark.parametrize(
    ("fields", "status", "details"),
    [
        ({"invoice_id": "", "amount_cents": 1}, 422, {"invoice_id": ["value_is_mandatory"]}),
        ({"amount_cents": "100"}, 422, {"amount_cents": ["invalid_value"]}),
        ({"amount_cents": 0}, 422, {"amount_cents": ["invalid_value"]}),
        ({}, 422, {"amount_cents": ["invalid_value"]}),
        ({"invoice_id": "none", "amount_cents": 1}, 404, None),
        ({"amount_cents": 1, "paid_at": "soon"}, 422, {"paid_at": ["invalid_date"]}),
        (
            {"amount_cents": 10_001, "reference": None},
            422,
            {"reference": ["value_is_mandatory"], "amount_cents": ["value_is_out_of_range"]},
        ),
        ({"amount_cents": 1, "reference": "x" * 41}, 422, {"reference": ["value_is_too_long"]}),
    ],
)
def test_what_is_refused(box: Scenario, fields: dict[str, Any], status: int, details: Any) -> None:
    answered, answer = pay(box, **fields)
    assert (answered, answer.get("error_details")) == (status, details)
    assert invoice(box)["total_paid_amount_cents"] == 0


def test_only_issued_invoices_are_paid(box: Scenario) -> None:
    id = invoice(box)["svc_id"]
    box.post(f"/invoices/{id}/void")
    status, answer = pay(box, amount_cents=1)
    assert (status, answer["code"]) == (403, "feature_unavailable")
    status, answer = box.send("GET", "/payments?invoice_id=x")
    assert (status, answer["error_details"]) == (422, {"invoice_id": ["is in invalid format"]})
