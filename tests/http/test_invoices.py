"""Invoices and fees over HTTP: what is shown of them, and which of them a list holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from tests import builders
from tests.money import gross, percent

from usagebill.core.invoices.records import Invoice, InvoiceMetadata
from usagebill.queries.contracts import parties_of
from usagebill.rating.settlement import settle
from usagebill.runtime.work import Work
from usagebill.testing import Sandbox


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(now="2024-05-01T12:00:00Z") as box:
        yield box


def _invoice(box: Sandbox, amounts: tuple[int, ...] = (1000,), external_id: str = "acme", **fields: Any) -> Invoice:
    owner = builders.customer_with(box, external_id, name=f"{external_id} Inc", email=f"mail@{external_id}.test")

    def make(work: Work) -> Invoice:
        invoice = builders.add_issued_invoice(work, owner, **fields)
        fees = [builders.unsaved_fee(work, owner, amount, invoice_id=invoice.id) for amount in amounts]
        settled = settle(work, invoice, fees, (), parties=parties_of(work, invoice), finalizing=False)
        work.tx.insert(*settled.fees)
        work.tx.replace(settled.invoice)
        return settled.invoice

    return box.billing.writing(make)


def _numbers(box: Sandbox, query: str = "") -> list[str]:
    status, body = box.request("GET", f"/api/v1/invoices{query}")
    assert status == 200, body
    return [invoice["number"] for invoice in body["invoices"]]


def test_an_invoice_shows_its_fees_and_what_they_add_up_to(box: Sandbox) -> None:
    builders.customer_with(box)
    box.billing.writing(lambda work: builders.give_taxes(work, "acme", {"vat": "20"}))
    invoice = _invoice(box, (151, 379))
    status, body = box.request("GET", f"/api/v1/invoices/{invoice.id}")
    shown = body["invoice"]
    assert status == 200
    assert [fee["amount_cents"] for fee in shown["fees"]] == [151, 379]
    assert [fee["taxes_amount_cents"] for fee in shown["fees"]] == [percent(151, 20), percent(379, 20)]
    assert (shown["fees_amount_cents"], shown["taxes_amount_cents"], shown["total_amount_cents"]) == (
        151 + 379,
        percent(151 + 379, 20),
        gross(151 + 379, 20),
    )
    assert shown["applied_taxes"][0]["tax_code"] == "vat"
    assert shown["applied_taxes"][0]["fees_amount_cents"] == 151 + 379
    assert shown["customer"]["external_id"] == "acme"
    assert shown["payment_status"] == "pending"
    assert shown["total_due_amount_cents"] == gross(151 + 379, 20)


@pytest.mark.parametrize("status", ["generating", "open", "closed", "deleted"])
def test_an_invoice_that_nobody_may_see_does_not_exist(box: Sandbox, status: str) -> None:
    invoice = _invoice(box, status=status)
    assert box.request("GET", f"/api/v1/invoices/{invoice.id}")[0] == 404
    assert _numbers(box) == []


def test_lists_leave_out_fees_and_show_the_latest_issuing_date_first(box: Sandbox) -> None:
    _invoice(box, number="A", issuing_date=date(2024, 4, 1))
    _invoice(box, number="B", issuing_date=date(2024, 5, 1))
    _, body = box.request("GET", "/api/v1/invoices")
    assert [invoice["number"] for invoice in body["invoices"]] == ["B", "A"]
    assert "fees" not in body["invoices"][0]
    assert body["invoices"][0]["customer"]["name"] == "acme Inc"


def test_a_list_is_narrowed_by_each_filter(box: Sandbox) -> None:
    when = box.now
    _invoice(
        box,
        (500,),
        number="A-1",
        issuing_date=date(2024, 1, 31),
        currency="USD",
        metadata=(
            InvoiceMetadata(id="00000000-0000-7000-8000-000000000001", key="team", value="red", created_at=when),
        ),
        purchase_order_number="PO-7",
        payment_overdue=True,
    )
    _invoice(box, (1500,), "globex", number="B_2", status="draft", total_paid_amount_cents=1, self_billed=True)
    _invoice(box, (0,), "globex", number="C-3", status="voided", invoice_type="one_off", payment_dispute_lost_at=when)
    for query, expected in {
        "?external_customer_id=acme": ["A-1"],
        "?customer_external_id=globex": ["B_2", "C-3"],
        "?external_customer_id=nobody": [],
        "?status=draft": ["B_2"],
        "?statuses[]=draft&statuses[]=voided": ["B_2", "C-3"],
        "?payment_status=succeeded": ["C-3"],
        "?payment_statuses[]=pending": ["A-1", "B_2"],
        "?invoice_type=one_off": ["C-3"],
        "?invoice_type=nothing": [],
        "?currency=USD": ["A-1"],
        "?issuing_date_from=2024-01-31&issuing_date_to=2024-01-31": ["A-1"],
        "?amount_from=500&amount_to=500": ["A-1"],
        "?amount_from=500.5": ["B_2"],
        "?payment_overdue=true": ["A-1"],
        "?payment_overdue=false": ["B_2", "C-3"],
        "?payment_dispute_lost=true": ["C-3"],
        "?payment_dispute_lost=false": ["A-1", "B_2"],
        "?partially_paid=true": ["B_2"],
        "?partially_paid=false": ["A-1", "C-3"],
        "?settlements=payment": ["B_2"],
        "?settlements[]=credit_note": [],
        "?self_billed=true": ["B_2"],
        "?purchase_order_number=po-7": ["A-1"],
        "?metadata[team]=red": ["A-1"],
        "?metadata[team]=blue": [],
        "?metadata[team]=": ["B_2", "C-3"],
        "?search_term=b_2": ["B_2"],
        "?search_term=GLOBEX": ["B_2", "C-3"],
        "?search_term=globex&external_customer_id=globex": [],
        "?billing_entity_codes[]=default": ["A-1", "B_2", "C-3"],
    }.items():
        assert sorted(_numbers(box, query)) == expected, query


def test_a_search_for_a_whole_id_finds_that_invoice_and_a_part_of_it_none(box: Sandbox) -> None:
    invoice = _invoice(box)
    assert _numbers(box, f"?search_term={invoice.id.upper()}") == [invoice.number]
    assert _numbers(box, f"?search_term={invoice.id[:20]}") == []


@pytest.mark.parametrize(
    ("query", "details"),
    [
        (
            "status=random",
            {"status": ["must be one of: draft, finalized, voided, failed, pending or must be an array"]},
        ),
        (
            "payment_statuses[]=pending&payment_statuses[]=random",
            {"payment_status": {"1": ["must be one of: pending, succeeded, failed"]}},
        ),
        ("status=open", {"status": ["must be one of: draft, finalized, voided, failed, pending or must be an array"]}),
        ("self_billed=random", {"self_billed": ["must be boolean"]}),
        ("amount_from=ten", {"amount_from": ["value_is_invalid"]}),
        (
            "issuing_date_from=2024 01 01&issuing_date_to=31.1.2024",
            {"issuing_date_from": ["invalid_date"], "issuing_date_to": ["invalid_date"]},
        ),
    ],
)
def test_values_that_no_invoice_can_have_are_refused(box: Sandbox, query: str, details: object) -> None:
    status, body = box.request("GET", f"/api/v1/invoices?{query}")
    assert (status, body["error_details"]) == (422, details)


def test_an_unknown_billing_entity_or_customer_is_not_found(box: Sandbox) -> None:
    status, body = box.request("GET", "/api/v1/invoices?billing_entity_codes[]=default&billing_entity_codes[]=none")
    assert (status, body["code"]) == (404, "billing_entity_not_found")
    status, body = box.request("GET", "/api/v1/customers/nobody/invoices")
    assert (status, body["code"]) == (404, "customer_not_found")


def test_a_customers_invoices_are_listed_under_the_customer(box: Sandbox) -> None:
    _invoice(box, number="A")
    _invoice(box, (1,), "globex", number="B")
    _, body = box.request("GET", "/api/v1/customers/globex/invoices")
    assert [invoice["number"] for invoice in body["invoices"]] == ["B"]


def test_a_fee_of_an_invoice_can_be_neither_paid_nor_deleted_by_itself(box: Sandbox) -> None:
    invoice = _invoice(box)
    _, body = box.request("GET", "/api/v1/fees")
    fee = body["fees"][0]
    assert fee["svc_invoice_id"] == invoice.id
    status, body = box.request("PUT", f"/api/v1/fees/{fee['svc_id']}", json={"fee": {"payment_status": "succeeded"}})
    assert (status, body["code"]) == (405, "invoiced_fee")
    status, body = box.request("DELETE", f"/api/v1/fees/{fee['svc_id']}")
    assert (status, body["code"]) == (405, "invoiced_fee")


def test_a_fee_without_invoice_is_paid_refunded_and_deleted(box: Sandbox) -> None:
    owner = builders.customer_with(box)
    fee = box.billing.writing(lambda work: builders.add_fee(work, owner, 700))
    path = f"/api/v1/fees/{fee.id}"
    _, body = box.request("PUT", path, json={"fee": {"payment_status": "succeeded"}})
    assert body["fee"]["succeeded_at"] == "2024-05-01T12:00:00Z"
    _, body = box.request("PUT", path, json={"fee": {"payment_status": "refunded"}})
    assert (body["fee"]["succeeded_at"], body["fee"]["refunded_at"]) == (None, "2024-05-01T12:00:00Z")
    status, body = box.request("PUT", path, json={"fee": {"payment_status": None}})
    assert (status, body["error_details"]) == (422, {"payment_status": ["value_is_invalid"]})
    status, body = box.request("DELETE", path)
    assert status == 200
    assert "applied_taxes" not in body["fee"]
    assert box.request("GET", path)[0] == 404
    assert box.request("GET", "/api/v1/fees")[1]["fees"] == []


def test_fees_are_listed_oldest_first_and_narrowed_by_each_filter(box: Sandbox) -> None:
    owner = builders.customer_with(box)
    first = box.billing.writing(
        lambda work: builders.add_fee(work, owner, 1, event_transaction_id="t1", currency="USD")
    )
    box.jump_to("2024-05-02T00:00:00Z")
    second = box.billing.writing(
        lambda work: builders.add_fee(work, owner, 2, fee_type="charge", external_subscription_id="s")
    )
    for query, expected in {
        "": [first.id, second.id],
        "fee_type=charge": [second.id],
        "external_subscription_id=s": [second.id],
        "external_customer_id=acme": [first.id, second.id],
        "external_customer_id=nobody": [],
        "currency=usd": [first.id],
        "event_transaction_id=t1": [first.id],
        "billable_metric_code=calls": [],
        "payment_status=pending": [first.id, second.id],
        "payment_status=failed": [],
        "created_at_from=2024-05-02T00:00:00Z": [second.id],
        "created_at_to=2024-05-01T12:00:00Z": [first.id],
        "succeeded_at_from=2024-01-01": [],
    }.items():
        _, body = box.request("GET", f"/api/v1/fees?{query}")
        assert [fee["svc_id"] for fee in body["fees"]] == expected, query
    for query, field, code in (
        ("fee_type=x", "fee_type", "value_is_invalid"),
        ("payment_status=x", "payment_status", "value_is_invalid"),
        ("refunded_at_to=x", "refunded_at_to", "invalid_date"),
    ):
        status, body = box.request("GET", f"/api/v1/fees?{query}")
        assert (status, body["error_details"]) == (422, {field: [code]})
