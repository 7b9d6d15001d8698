"""One-off invoices, as a caller of the API sees them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.json_asserts import missing, refused
from tests.money import gross, percent
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2022-11-25T01:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.customer()
    box.tax()
    for code, cents in (("setup", 1200), ("manual", 400)):
        box.add_on(code, cents)
    return box


def request_invoice(box: Scenario, *fees: dict[str, Any], **fields: Any) -> tuple[int, Any]:
    sent = {"external_customer_id": "acme", "fees": list(fees), **fields}
    return box.send("POST", "/invoices", {"invoice": sent})


def made(box: Scenario, *fees: dict[str, Any], **fields: Any) -> Any:
    status, body = request_invoice(box, *fees, **fields)
    assert status == 200, body
    return body["invoice"]


def test_add_ons_are_invoiced_at_once(box: Scenario) -> None:
    invoice = made(box, {"add_on_code": "setup", "units": 2}, {"add_on_code": "manual"})
    assert (invoice["invoice_type"], invoice["status"]) == ("one_off", "finalized")
    assert (invoice["fees_amount_cents"], invoice["taxes_amount_cents"]) == (
        2 * 1200 + 400,
        percent(2 * 1200 + 400, 20),
    )
    assert invoice["total_amount_cents"] == gross(2 * 1200 + 400, 20)
    fee = invoice["fees"][0]
    assert (fee["units"], fee["precise_unit_amount"], fee["item"]["type"]) == ("2.0", "12.0", "add_on")
    assert (fee["from_date"], fee["to_date"]) == ("2022-11-25T01:00:00+00:00", "2022-11-25T01:00:00+00:00")
    types = [message["webhook_type"] for message in box.webhooks]
    assert "invoice.one_off_created" in types
    assert "invoice.created" not in types


@pytest.mark.parametrize("units", [10**30, "-1e25"])
def test_sums_beyond_all_money_are_refused(box: Scenario, units: object) -> None:
    assert refused(request_invoice(box, {"add_on_code": "setup", "units": units})) == {
        "units": ["value_is_out_of_range"]
    }
    assert box.send("GET", "/invoices")[1]["invoices"] == []


@pytest.mark.parametrize(
    ("fields", "field"), [({"units": -1}, "units"), ({"unit_amount_cents": -5}, "unit_amount_cents")]
)
def test_no_invoice_is_below_zero(box: Scenario, fields: dict[str, Any], field: str) -> None:
    sent = {"external_customer_id": "acme", "fees": [{"add_on_code": "setup", **fields}]}
    assert box.post("/invoices", status=422, invoice=sent)["error_details"] == {field: ["value_is_out_of_range"]}
    assert box.get("/invoices")["invoices"] == []


def test_taxes_take_no_invoice_below_zero(box: Scenario) -> None:
    box.tax(50, applied_to_organization=False, name="High", code="high")
    fees = [
        {"add_on_code": "setup", "unit_amount_cents": 100, "tax_codes": []},
        {"add_on_code": "setup", "unit_amount_cents": -90, "tax_codes": ["high"]},
    ]
    sent = {"external_customer_id": "acme", "fees": fees}
    problems = box.post("/invoices", status=422, invoice=sent)["error_details"]
    assert problems == {"unit_amount_cents": ["value_is_out_of_range"]}
    assert box.invoices() == []


def test_the_date_is_the_customers(box: Scenario) -> None:
    box.customer(timezone="America/Los_Angeles", net_payment_term=10)
    invoice = made(box, {"add_on_code": "setup"})
    assert (invoice["issuing_date"], invoice["payment_due_date"]) == ("2022-11-24", "2022-12-04")


def test_what_is_given_takes_the_place_of_what_the_add_on_says(box: Scenario) -> None:
    for code, rate in (("ten", 10), ("twenty", 20)):
        box.tax(rate, applied_to_organization=False, name=code, code=code)
    invoice = made(
        box,
        {
            "add_on_code": "setup",
            "unit_amount_cents": 10000,
            "units": "1",
            "description": "As agreed",
            "invoice_display_name": "Onboarding",
            "tax_codes": ["ten", "twenty", "unknown"],
            "from_datetime": "2022-11-01",
            "to_datetime": "2022-11-30T00:00:00Z",
        },
    )
    fee = invoice["fees"][0]
    assert (invoice["taxes_amount_cents"], fee["taxes_rate"]) == (percent(10000, 10 + 20), 10 + 20)
    assert (fee["description"], fee["item"]["invoice_display_name"]) == ("As agreed", "Onboarding")
    assert fee["to_date"] == "2022-11-30T00:00:00+00:00"


def test_unknown_tax_codes_leave_the_usual_taxes(box: Scenario) -> None:
    assert made(box, {"add_on_code": "setup", "tax_codes": ["none"]})["taxes_amount_cents"] == percent(1200, 20)


def test_fractions_of_units_are_rounded_once(box: Scenario) -> None:
    fee = made(box, {"add_on_code": "setup", "units": "0.33335", "unit_amount_cents": 100})["fees"][0]
    assert (fee["amount_cents"], fee["precise_amount"]) == (33, "0.33335")


def test_nothing_to_pay_is_paid(box: Scenario) -> None:
    invoice = made(box, {"add_on_code": "setup", "unit_amount_cents": 0})
    assert (invoice["total_amount_cents"], invoice["payment_status"]) == (0, "succeeded")


def test_coupons_and_credits_take_no_part(box: Scenario) -> None:
    coupon = {
        "name": "ten",
        "code": "ten",
        "coupon_type": "percentage",
        "percentage_rate": 10,
        "frequency": "forever",
        "expiration": "no_expiration",
    }
    box.post("/coupons", coupon=coupon)
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
    assert made(box, {"add_on_code": "setup"})["coupons_amount_cents"] == 0


def test_what_is_missing(box: Scenario) -> None:
    assert missing(request_invoice(box, {"add_on_code": "setup"}, external_customer_id="nobody")) == "customer"
    assert missing(request_invoice(box)) == "fees"
    assert missing(request_invoice(box, {"add_on_code": "setup"}, {"add_on_code": "none"})) == "add_on"
    assert missing(request_invoice(box, {"add_on_code": "setup"}, billing_entity_code="none")) == "billing_entity"
    assert box.send("POST", "/invoices", {})[0] == 400


@pytest.mark.parametrize(
    "bounds",
    [
        {"from_datetime": "2022-11-01"},
        {"from_datetime": "soon", "to_datetime": "2022-11-01"},
        {"from_datetime": "2022-11-02", "to_datetime": "2022-11-01"},
    ],
)
def test_a_period_needs_both_ends_in_order(box: Scenario, bounds: dict[str, Any]) -> None:
    answer = request_invoice(box, {"add_on_code": "setup", **bounds})
    assert refused(answer) == {"boundaries": ["values_are_invalid"]}


def test_an_unknown_currency_is_refused_and_a_first_one_kept(box: Scenario) -> None:
    assert refused(request_invoice(box, {"add_on_code": "setup"}, currency="XXX")) == {"currency": ["value_is_invalid"]}
    box.customer("new", currency=None)
    priced = {"add_on_code": "setup", "unit_amount_cents": 100}
    assert made(box, priced, external_customer_id="new", currency="USD")["currency"] == "USD"
    assert box.get("/customers/new")["customer"]["currency"] == "USD"


def test_an_unknown_type_of_payment_method_is_refused(box: Scenario) -> None:
    method = {"payment_method_type": "barter"}
    answer = request_invoice(box, {"add_on_code": "setup"}, payment_method=method)
    assert refused(answer) == {"payment_method": ["invalid_payment_method"]}
    assert box.invoices() == []


def test_purchase_order_numbers_are_trimmed(box: Scenario) -> None:
    assert made(box, {"add_on_code": "setup"}, purchase_order_number=" PO-1 ")["purchase_order_number"] == "PO-1"
    assert made(box, {"add_on_code": "setup"}, purchase_order_number=" ")["purchase_order_number"] is None
    answer = request_invoice(box, {"add_on_code": "setup"}, purchase_order_number="x" * 256)
    assert refused(answer) == {"purchase_order_number": ["value_is_too_long"]}
