"""Payments recorded by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2024-02-01T00:00:00Z") as box:
        list_ = PriceList(box)
        list_.plan(amount_cents=10_000, pay_in_advance=True)
        list_.subscribe()
        yield list_


def invoice(list_: PriceList) -> dict[str, Any]:
    (listed,) = list_.get("/invoices")["invoices"]
    found: dict[str, Any] = list_.get(f"/invoices/{listed['svc_id']}")["invoice"]
    return found


def pay(list_: PriceList, **fields: Any) -> tuple[int, Any]:
    body = {"invoice_id": invoice(list_)["svc_id"], "reference": "transfer", **fields}
    return list_.box.request("POST", "/api/v1/payments", json={"payment": body})


def updates(list_: PriceList) -> int:
    return sum(message["webhook_type"] == "invoice.payment_status_updated" for message in list_.box.webhooks)


def test_an_invoice_is_paid_when_its_parts_add_up(list_: PriceList) -> None:
    status, answer = pay(list_, amount_cents=2000, paid_at="2024-01-15")
    payment = answer["payment"]
    assert (status, payment["created_at"], payment["type"]) == (200, "2024-01-15T00:00:00Z", "manual")
    partly = invoice(list_)
    assert (partly["payment_status"], partly["total_paid_amount_cents"]) == ("pending", 2000)
    assert partly["total_due_amount_cents"] == 8000
    assert updates(list_) == 0
    assert pay(list_, amount_cents=8000)[0] == 200
    paid = invoice(list_)
    assert (paid["payment_status"], paid["total_due_amount_cents"]) == ("succeeded", 0)
    assert {fee["payment_status"] for fee in paid["fees"]} == {"succeeded"}
    assert updates(list_) == 1
    assert list_.get(f"/payments/{payment['svc_id']}") == payment
    assert len(list_.get("/customers/acme/payments")["payments"]) == 2
    assert list_.get("/payments?external_customer_id=none")["payments"] == []


def test_what_a_credit_note_settles_need_not_be_paid(list_: PriceList) -> None:
    unpaid = invoice(list_)
    items = [{"fee_id": unpaid["fees"][0]["svc_id"], "amount_cents": 2000}]
    note = {"invoice_id": unpaid["svc_id"], "offset_amount_cents": 2000, "items": items}
    assert list_.box.request("POST", "/api/v1/credit_notes", json={"credit_note": note})[0] == 200
    assert pay(list_, amount_cents=8001)[0] == 422
    assert pay(list_, amount_cents=8000)[0] == 200
    paid = invoice(list_)
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
def test_what_is_refused(list_: PriceList, fields: dict[str, Any], status: int, details: Any) -> None:
    found, answer = pay(list_, **fields)
    assert (found, answer.get("error_details")) == (status, details)
    assert invoice(list_)["total_paid_amount_cents"] == 0


def test_only_issued_invoices_are_paid(list_: PriceList) -> None:
    id = invoice(list_)["svc_id"]
    assert list_.box.request("POST", f"/api/v1/invoices/{id}/void")[0] == 200
    status, answer = pay(list_, amount_cents=1)
    assert (status, answer["code"]) == (403, "feature_unavailable")
    status, answer = list_.box.request("GET", "/api/v1/payments?invoice_id=x")
    assert (status, answer["error_details"]) == (422, {"invoice_id": ["is in invalid format"]})
