"""What is carried over in advance is billed again for each period; what was paid one by one is put on an invoice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2024-06-05T10:00:00Z") as box:
        yield PriceList(box)


def seats(metric: str, amount: str = "30", **fields: Any) -> dict[str, Any]:
    return {
        "billable_metric_id": metric,
        "charge_model": "standard",
        "pay_in_advance": True,
        "invoiceable": False,
        "prorated": True,
        "properties": {"amount": amount, **fields.pop("properties", {})},
        **fields,
    }


def fees(list_: PriceList, **wanted: Any) -> list[dict[str, Any]]:
    found = list_.get("/fees?fee_type=charge&per_page=1000")["fees"]
    return [fee for fee in found if all(fee[key] == value for key, value in wanted.items())]


def renewals(list_: PriceList) -> list[dict[str, Any]]:
    return fees(list_, event_transaction_id=None)


def pay(list_: PriceList, *wanted: dict[str, Any]) -> None:
    for fee in wanted:
        status, _ = list_.box.request(
            "PUT", f"/api/v1/fees/{fee['svc_id']}", json={"fee": {"payment_status": "succeeded"}}
        )
        assert status == 200


def grouped(list_: PriceList) -> list[dict[str, Any]]:
    found = list_.get("/invoices?invoice_type=advance_charges")["invoices"]
    return [list_.get(f"/invoices/{invoice['svc_id']}")["invoice"] for invoice in found]


def metric(list_: PriceList, **fields: Any) -> str:
    return list_.metric("seats", "unique_count_agg", recurring=True, **fields)


def test_the_whole_quantity_is_renewed_at_the_full_price(list_: PriceList) -> None:
    list_.plan(seats(metric(list_)))
    list_.subscribe()
    for seat in "abc":
        list_.event("seats", value=seat)
    list_.event("seats", value="c", operation_type="remove")
    list_.box.travel_to("2024-07-01T12:00:00Z")
    (fee,) = renewals(list_)
    assert (fee["units"], fee["amount_cents"], fee["svc_invoice_id"]) == ("2.0", 6000, None)
    assert (fee["pay_in_advance"], fee["invoiceable"]) == (True, False)
    assert (fee["from_date"], fee["to_date"]) == ("2024-07-01T00:00:00+00:00", "2024-07-31T23:59:59+00:00")
    told = [message for message in list_.box.webhooks if message["webhook_type"] == "fee.created"]
    assert {**told[-1]["fee"], "applied_taxes": []} == fee


def test_nothing_is_renewed_too_where_no_invoice_holds_it(list_: PriceList) -> None:
    seat = metric(list_)
    list_.plan(seats(seat), seats(seat, invoiceable=True))
    list_.subscribe()
    list_.box.travel_to("2024-07-01T12:00:00Z")
    assert [(fee["units"], fee["amount_cents"], fee["svc_invoice_id"]) for fee in renewals(list_)] == [("0.0", 0, None)]


def test_an_invoiceable_charge_is_renewed_on_the_invoice_with_the_other_usage(list_: PriceList) -> None:
    seat, calls = metric(list_), list_.metric("calls", "count_agg")
    arrears = {"billable_metric_id": calls, "charge_model": "standard", "properties": {"amount": "1"}}
    list_.plan(arrears, seats(seat, invoiceable=True))
    list_.subscribe()
    list_.event("seats", value="a")
    list_.event("calls")
    list_.box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = [one for one in list_.get("/invoices")["invoices"] if one["issuing_date"] == "2024-07-01"]
    lines = list_.get(f"/invoices/{invoice['svc_id']}")["invoice"]["fees"]
    assert [(fee["item"]["code"], fee["amount_cents"]) for fee in lines if fee["item"]["type"] == "charge"] == [
        ("calls", 100),
        ("seats", 3000),
    ]
    (renewal,) = [fee for fee in lines if fee["item"]["code"] == "seats"]
    assert (renewal["pay_in_advance"], renewal["event_transaction_id"]) == (False, None)
    assert (renewal["from_date"], renewal["to_date"]) == ("2024-07-01T00:00:00+00:00", "2024-07-31T23:59:59+00:00")


def test_an_event_of_the_new_period_is_not_renewed_with_the_old_one(list_: PriceList) -> None:
    list_.plan(seats(metric(list_)))
    list_.subscribe()
    list_.event("seats", value="a")
    list_.box.jump_to("2024-07-01T00:01:00Z")
    list_.event("seats", value="b")
    list_.event("seats", value="a", operation_type="remove")
    list_.box.run_due()
    list_.box.travel_to("2024-07-01T12:00:00Z")
    assert [(fee["units"], fee["amount_cents"]) for fee in renewals(list_)] == [("1.0", 3000)]
    assert [fee["amount_cents"] for fee in fees(list_, event_transaction_id="t2")] == [3000]


def test_an_end_renews_nothing(list_: PriceList) -> None:
    seat = metric(list_)
    list_.plan(seats(seat), seats(seat, invoiceable=True))
    list_.subscribe()
    list_.event("seats", value="a")
    list_.box.jump_to("2024-06-20T10:00:00Z")
    list_.box.request("DELETE", "/api/v1/subscriptions/sub")
    assert renewals(list_) == []


def test_paid_fees_are_put_on_one_invoice_when_the_period_is_over(list_: PriceList) -> None:
    list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": "19.9", "applied_to_organization": True})
    list_.plan(seats(metric(list_), "30.11", regroup_paid_fees="invoice"))
    list_.subscribe()
    for seat in "abcd":
        list_.event("seats", value=seat)
    first = fees(list_)
    pay(list_, *first[:3])
    list_.box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = grouped(list_)
    assert [fee["svc_id"] for fee in invoice["fees"]] == [fee["svc_id"] for fee in first[:3]]
    assert invoice["fees_amount_cents"] == sum(fee["amount_cents"] for fee in first[:3])
    assert invoice["taxes_amount_cents"] == sum(fee["taxes_amount_cents"] for fee in first[:3])
    assert invoice["total_amount_cents"] == sum(fee["total_amount_cents"] for fee in first[:3])
    (tax,) = invoice["applied_taxes"]
    assert (tax["amount_cents"], tax["fees_amount_cents"]) == (
        invoice["taxes_amount_cents"],
        invoice["fees_amount_cents"],
    )
    assert (invoice["status"], invoice["payment_status"], invoice["total_due_amount_cents"]) == (
        "finalized",
        "succeeded",
        0,
    )
    assert [period["invoicing_reason"] for period in invoice["billing_periods"]] == ["in_advance_charge_periodic"]
    status, answer = list_.box.request(
        "PUT", f"/api/v1/fees/{first[0]['svc_id']}", json={"fee": {"payment_status": "failed"}}
    )
    assert (status, answer["code"]) == (405, "invoiced_fee")
    list_.box.travel_to("2024-08-01T12:00:00Z")
    assert len(grouped(list_)) == 1


def test_a_tax_that_came_later_is_not_added(list_: PriceList) -> None:
    list_.plan(seats(metric(list_), regroup_paid_fees="invoice"))
    list_.subscribe()
    list_.event("seats", value="a")
    pay(list_, *fees(list_))
    list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": 20, "applied_to_organization": True})
    list_.box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = grouped(list_)
    assert invoice["taxes_amount_cents"] == 0
    assert invoice["total_amount_cents"] == invoice["fees_amount_cents"]


def test_paid_fees_of_all_charges_go_along_where_one_asks_for_it(list_: PriceList) -> None:
    calls = list_.metric("calls", "count_agg")
    list_.plan(seats(metric(list_), regroup_paid_fees="invoice"), seats(calls, "1", prorated=False))
    list_.subscribe()
    list_.event("calls")
    list_.event("calls")
    pay(list_, fees(list_)[0])
    list_.box.travel_to("2024-07-01T12:00:00Z")
    assert [len(invoice["fees"]) for invoice in grouped(list_)] == [1]


def test_without_the_option_paid_fees_stay_alone(list_: PriceList) -> None:
    list_.plan(seats(metric(list_)))
    list_.subscribe()
    list_.event("seats", value="a")
    pay(list_, *fees(list_))
    list_.box.travel_to("2024-07-01T12:00:00Z")
    assert grouped(list_) == []


def test_a_fee_of_the_new_period_waits_unless_the_subscription_ends(list_: PriceList) -> None:
    list_.plan(seats(metric(list_), regroup_paid_fees="invoice"))
    list_.subscribe()
    list_.box.jump_to("2024-07-01T00:01:00Z")
    list_.event("seats", value="a")
    pay(list_, *fees(list_))
    list_.box.travel_to("2024-07-02T00:00:00Z")
    assert grouped(list_) == []
    list_.box.request("DELETE", "/api/v1/subscriptions/sub")
    (invoice,) = grouped(list_)
    assert [fee["event_transaction_id"] for fee in invoice["fees"]] == ["t1"]


def test_an_upgrade_groups_what_was_paid_and_later_ones_take_the_rest(list_: PriceList) -> None:
    seat = metric(list_)
    list_.plan(seats(seat, regroup_paid_fees="invoice"))
    list_.plan(seats(seat, regroup_paid_fees="invoice"), code="bigger", amount_cents=500)
    list_.subscribe()
    list_.event("seats", value="a")
    list_.event("seats", value="b")
    first, second = fees(list_)
    pay(list_, first)
    list_.box.jump_to("2024-06-15T10:00:00Z")
    list_.subscribe("bigger")
    assert [[fee["svc_id"] for fee in invoice["fees"]] for invoice in grouped(list_)] == [[first["svc_id"]]]
    pay(list_, second)
    list_.box.travel_to("2024-07-01T12:00:00Z")
    assert sorted(len(invoice["fees"]) for invoice in grouped(list_)) == [1, 1]
    (renewal,) = renewals(list_)
    assert renewal["units"] == "2.0"
