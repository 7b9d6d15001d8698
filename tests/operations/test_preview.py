"""Previews: the invoice that would come, and that nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.price_list import PriceList

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2024-03-30T00:00:00Z") as box:
        yield PriceList(box)


def tax(list_: PriceList, rate: int = 50) -> None:
    list_.post("/taxes", tax={"name": "VAT", "code": "vat", "rate": rate, "applied_to_organization": True})


def preview(list_: PriceList, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = list_.post("/invoices/preview", **{"customer": {"external_id": "acme"}, **body})["invoice"]
    return answer


def amounts(invoice: dict[str, Any]) -> tuple[int, int, int, str]:
    return (
        invoice["fees_amount_cents"],
        invoice["taxes_amount_cents"],
        invoice["total_amount_cents"],
        invoice["issuing_date"],
    )


def refused(list_: PriceList, **body: Any) -> tuple[int, Any]:
    status, answer = list_.box.request(
        "POST", "/api/v1/invoices/preview", json={"customer": {"external_id": "acme"}, **body}
    )
    return status, answer.get("error_details") or answer.get("code") or answer["error"]


def test_a_new_purchase_in_arrears_is_billed_when_its_first_period_ends(list_: PriceList) -> None:
    tax(list_)
    list_.plan(amount_cents=100)
    assert amounts(preview(list_, plan_code="plan")) == (6, 3, 9, "2024-04-01")
    assert amounts(preview(list_, plan_code="plan", billing_time="anniversary")) == (100, 50, 150, "2024-04-30")


def test_a_new_purchase_in_advance_is_billed_at_its_start(list_: PriceList) -> None:
    tax(list_)
    list_.plan(amount_cents=100, pay_in_advance=True)
    list_.post("/customers", customer={"external_id": "acme", "billing_configuration": {"invoice_grace_period": 2}})
    invoice = preview(list_, plan_code="plan", subscription_at="2024-03-31T00:00:00Z")
    assert amounts(invoice) == (3, 2, 5, "2024-04-02")
    assert (invoice["status"], invoice["number"], invoice["svc_id"]) == ("finalized", "", None)
    assert [fee["svc_id"] for fee in invoice["fees"]] == [None]


def test_nothing_of_a_preview_stays(list_: PriceList) -> None:
    list_.plan(amount_cents=100, pay_in_advance=True)
    messages = len(list_.box.webhooks)
    preview(list_, plan_code="plan", customer={"name": "Nobody", "currency": "EUR"})
    assert [customer["external_id"] for customer in list_.get("/customers")["customers"]] == ["acme"]
    assert list_.get("/subscriptions")["subscriptions"] == []
    assert list_.get("/invoices")["invoices"] == []
    assert len(list_.box.webhooks) == messages
    list_.subscribe()
    assert list_.get("/invoices")["invoices"][0]["number"].endswith("-001-001")


def test_fields_of_the_customer_count_for_the_preview_only(list_: PriceList) -> None:
    list_.plan(amount_cents=100)
    shown = preview(
        list_, plan_code="plan", customer={"external_id": "acme", "name": "Other", "timezone": "Asia/Tokyo"}
    )
    assert shown["customer"]["name"] == "Other"
    assert list_.get("/customers/acme")["customer"]["name"] is None


def test_coupons_are_taken_off(list_: PriceList) -> None:
    tax(list_)
    list_.plan(amount_cents=100)
    coupon = {"code": "two", "name": "Two", "coupon_type": "fixed_amount", "amount_cents": 2, "amount_currency": "EUR"}
    invoice = preview(list_, plan_code="plan", coupons=[coupon])
    assert (invoice["coupons_amount_cents"], invoice["total_amount_cents"]) == (2, 6)
    assert list_.get("/coupons")["coupons"] == []


def test_the_next_invoice_holds_the_usage_so_far(list_: PriceList) -> None:
    tax(list_)
    charge = {
        "billable_metric_id": list_.metric("calls", "count_agg"),
        "charge_model": "standard",
        "properties": {"amount": "12.66"},
    }
    list_.plan(charge, amount_cents=100)
    list_.subscribe()
    for _ in range(2):
        list_.event("calls")
    assert amounts(preview(list_, subscriptions={"external_ids": ["sub"]})) == (2538, 1269, 3807, "2024-04-01")
    ended = preview(list_, subscriptions={"external_ids": ["sub"], "terminated_at": "2024-03-30T12:00:00Z"})
    assert amounts(ended) == (2535, 1268, 3803, "2024-03-30")


def test_what_is_refused(list_: PriceList) -> None:
    list_.plan(amount_cents=100)
    list_.plan(code="dollars", amount_cents=100, amount_currency="USD")
    list_.subscribe()
    list_.subscribe(external_id="other")
    one = {"external_ids": ["sub"]}
    both = {"external_ids": ["sub", "other"]}
    cases: list[tuple[dict[str, Any], tuple[int, Any]]] = [
        ({"coupons": "x"}, (400, "coupons_must_be_an_array")),
        ({"subscriptions": "x"}, (400, "subscriptions_must_be_an_object")),
        ({"customer": {"external_id": "none"}}, (404, "customer_not_found")),
        ({"customer": {"name": "x"}, "subscriptions": one}, (422, {"customer": ["must_be_persisted"]})),
        (
            {"customer": {"name": "x"}, "plan_code": "plan", "billing_entity_code": "x"},
            (404, "billing_entity_not_found"),
        ),
        ({"plan_code": "plan", "billing_entity_code": "x"}, (404, "billing_entity_not_found")),
        ({"plan_code": "none"}, (404, "plan_not_found")),
        ({"subscriptions": {"external_ids": ["none"]}}, (404, "subscription_not_found")),
        ({"subscriptions": {**one, "terminated_at": "soon"}}, (422, {"terminated_at": ["invalid_timestamp"]})),
        (
            {"subscriptions": {**one, "terminated_at": "2024-03-01T00:00:00Z"}},
            (422, {"terminated_at": ["cannot_be_in_past"]}),
        ),
        (
            {"subscriptions": {**both, "terminated_at": "2024-04-01T00:00:00Z"}},
            (422, {"subscriptions": ["only_one_subscription_allowed_for_termination"]}),
        ),
        (
            {"subscriptions": {**both, "plan_code": "dollars"}},
            (422, {"subscriptions": ["only_one_subscription_allowed_for_plan_change"]}),
        ),
        (
            {"subscriptions": {**one, "plan_code": "plan"}},
            (422, {"base": ["new_plan_should_be_different_from_existing_plan"]}),
        ),
        (
            {"subscriptions": {**one, "plan_code": "dollars"}},
            (422, {"base": ["subscription_currencies_does_not_match"]}),
        ),
    ]
    for body, expected in cases:
        assert refused(list_, **body) == expected, body


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    interval=st.sampled_from(["weekly", "monthly", "quarterly", "yearly"]),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
    pay_in_advance=st.booleans(),
    amount_cents=st.integers(0, 100_000),
    timezone=st.sampled_from(["UTC", "America/New_York", "Asia/Tokyo"]),
    grace=st.sampled_from([0, 3]),
    values=st.lists(st.integers(0, 50), max_size=4),
    minimum=st.sampled_from([0, 5000]),
)
def test_a_preview_equals_the_invoice_that_then_comes(
    interval: str,
    billing_time: str,
    pay_in_advance: bool,
    amount_cents: int,
    timezone: str,
    grace: int,
    values: list[int],
    minimum: int,
) -> None:
    with Sandbox(now="2024-02-14T15:00:00Z") as box:
        list_ = PriceList(box, timezone=timezone, billing_configuration={"invoice_grace_period": grace})
        tax(list_, 20)
        list_.post("/add_ons", add_on={"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"})
        add_on = list_.get("/add_ons/seat")["add_on"]["svc_id"]
        charge = {
            "billable_metric_id": list_.metric("gb"),
            "charge_model": "standard",
            "properties": {"amount": "1.234"},
            "min_amount_cents": minimum,
        }
        fixed = {
            "add_on_id": add_on,
            "charge_model": "standard",
            "units": 3,
            "prorated": True,
            "properties": {"amount": "7"},
        }
        list_.plan(
            charge, interval=interval, amount_cents=amount_cents, pay_in_advance=pay_in_advance, fixed_charges=[fixed]
        )
        list_.subscribe(billing_time=billing_time)
        box.jump_to("2024-02-16T09:00:00Z")
        for value in values:
            list_.event("gb", value=value)
        expected = preview(list_, subscriptions={"external_ids": ["sub"]})
        known = {invoice["svc_id"] for invoice in list_.get("/invoices")["invoices"]}
        due = box.billing.next_due()
        while not (made := [i for i in list_.get("/invoices")["invoices"] if i["svc_id"] not in known]):
            assert due is not None
            box.travel_to(due)
            due = box.billing.next_due()
        while (real := list_.get(f"/invoices/{made[0]['svc_id']}")["invoice"])["status"] == "draft":
            due = box.billing.next_due()
            assert due is not None
            box.travel_to(due)
        for name in ("fees_amount_cents", "taxes_amount_cents", "total_amount_cents", "currency", "invoice_type"):
            assert expected[name] == real[name], name
        if not grace:
            assert expected["issuing_date"] == real["issuing_date"]
        shown = ("amount_cents", "units", "from_date", "to_date", "events_count", "precise_amount")
        assert [[fee[name] for name in shown] for fee in expected["fees"]] == [
            [fee[name] for name in shown] for fee in real["fees"]
        ]


def test_an_upgrade_credits_the_unused_days(list_: PriceList) -> None:
    list_.plan(amount_cents=3100, pay_in_advance=True)
    list_.plan(code="large", amount_cents=6200, pay_in_advance=True)
    list_.subscribe()
    invoice = preview(list_, subscriptions={"external_ids": ["sub"], "plan_code": "large"})
    assert invoice["fees_amount_cents"] == 400
    assert (invoice["credit_notes_amount_cents"], invoice["total_amount_cents"]) == (200, 200)
    assert list_.get("/subscriptions/sub")["subscription"]["plan_code"] == "plan"
