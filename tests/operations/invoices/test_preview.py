"""Previews: the invoice that would come, and that nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
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


_TOTALS = (
    "invoice_type",
    "currency",
    "fees_amount_cents",
    "coupons_amount_cents",
    "sub_total_excluding_taxes_amount_cents",
    "taxes_amount_cents",
    "sub_total_including_taxes_amount_cents",
    "credit_notes_amount_cents",
    "total_amount_cents",
    "payment_status",
)
_DATES = ("issuing_date", "payment_due_date")
_FEE = (
    "amount_cents",
    "precise_amount",
    "units",
    "events_count",
    "from_date",
    "to_date",
    "taxes_amount_cents",
    "precise_coupons_amount_cents",
    "amount_details",
)


def billed(invoice: Any, *, dated: bool) -> dict[str, Any]:
    """What an invoice asks for, without the ids by which it, or its preview, is known."""
    return {
        **{name: invoice[name] for name in _TOTALS + (_DATES if dated else ())},
        "fees": [(fee["item"]["code"], *(fee.get(name) for name in _FEE)) for fee in invoice["fees"]],
        "taxes": [
            (line["tax_code"], line["amount_cents"], line["fees_amount_cents"]) for line in invoice["applied_taxes"]
        ],
        "credits": [(line["item"]["type"], line["amount_cents"]) for line in invoice["credits"]],
    }


def next_invoice(list_: PriceList, known: set[str]) -> Any:
    """The next invoice that is made, once it is issued."""
    box = list_.box

    def made() -> list[Any]:
        return [invoice for invoice in list_.get("/invoices")["invoices"] if invoice["svc_id"] not in known]

    def go_on() -> None:
        due = box.billing.next_due()
        assert due is not None
        box.travel_to(due)

    while not made():
        go_on()
    id = made()[0]["svc_id"]
    while (invoice := list_.get(f"/invoices/{id}")["invoice"])["status"] == "draft":
        go_on()
    return invoice


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    act=st.sampled_from(["purchase", "run", "end", "upgrade", "downgrade"]),
    interval=st.sampled_from(["weekly", "monthly", "quarterly", "semiannual", "yearly"]),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
    pay_in_advance=st.booleans(),
    next_in_advance=st.booleans(),
    amount_cents=st.integers(60, 100_000),
    timezone=st.sampled_from(["UTC", "America/New_York", "Asia/Tokyo"]),
    grace=st.sampled_from([0, 0, 3]),
    trial=st.sampled_from([0, 0, 10]),
    values=st.lists(st.integers(0, 50), max_size=4),
    minimum=st.sampled_from([0, 5000]),
    committed=st.sampled_from([0, 30_000]),
    discount=st.booleans(),
    days=st.integers(1, 40),
)
def test_a_preview_equals_the_invoice_that_then_comes(
    act: str,
    interval: str,
    billing_time: str,
    pay_in_advance: bool,
    next_in_advance: bool,
    amount_cents: int,
    timezone: str,
    grace: int,
    trial: int,
    values: list[int],
    minimum: int,
    committed: int,
    discount: bool,
    days: int,
) -> None:
    with Sandbox(now="2024-02-14T15:00:00Z") as box:
        list_ = PriceList(box, timezone=timezone, billing_configuration={"invoice_grace_period": grace})
        tax(list_, 20)
        if discount:
            coupon = {"name": "Ten", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10"}
            list_.post("/coupons", coupon={**coupon, "frequency": "forever", "expiration": "no_expiration"})
            list_.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
        list_.post("/add_ons", add_on={"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"})
        charge = {
            "billable_metric_id": list_.metric("gb"),
            "charge_model": "standard",
            "properties": {"amount": "1.234"},
            "min_amount_cents": minimum,
        }
        fixed = {"add_on_code": "seat", "charge_model": "standard", "units": 3, "prorated": True}
        fields: dict[str, Any] = {
            "interval": interval,
            "trial_period": trial,
            "fixed_charges": [{**fixed, "properties": {"amount": "7"}}],
            **({"minimum_commitment": {"amount_cents": committed}} if committed else {}),
        }
        list_.plan(charge, amount_cents=amount_cents, pay_in_advance=pay_in_advance, **fields)
        changed = amount_cents * 2 if act == "upgrade" else amount_cents // 2
        list_.plan(charge, code="other", amount_cents=changed, pay_in_advance=next_in_advance, **fields)
        if act == "purchase":
            expected = preview(list_, plan_code="plan", billing_time=billing_time)
            list_.subscribe(billing_time=billing_time)
            assert billed(next_invoice(list_, set()), dated=not grace) == billed(expected, dated=not grace)
            return
        list_.subscribe(billing_time=billing_time)
        box.travel_to(box.now + timedelta(days=days, hours=18))
        for value in values:
            list_.event("gb", value=value)
        known = {invoice["svc_id"] for invoice in list_.get("/invoices")["invoices"]}
        asked: dict[str, Any] = {"external_ids": ["sub"]}
        if act == "end":
            asked["terminated_at"] = box.now.isoformat()
        elif act != "run":
            asked["plan_code"] = "other"
        expected = preview(list_, subscriptions=asked)
        if act == "end":
            box.request("DELETE", "/api/v1/subscriptions/sub")
        elif act != "run":
            list_.subscribe("other")
        real = next_invoice(list_, known)
        assert billed(real, dated=not grace) == billed(expected, dated=not grace)


def test_an_upgrade_credits_the_unused_days(list_: PriceList) -> None:
    list_.plan(amount_cents=3100, pay_in_advance=True)
    list_.plan(code="large", amount_cents=6200, pay_in_advance=True)
    list_.subscribe()
    invoice = preview(list_, subscriptions={"external_ids": ["sub"], "plan_code": "large"})
    assert invoice["fees_amount_cents"] == 400
    assert (invoice["credit_notes_amount_cents"], invoice["total_amount_cents"]) == (200, 200)
    assert list_.get("/subscriptions/sub")["subscription"]["plan_code"] == "plan"
