"""What every invoice of a customer says, whatever it was made for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on

from usagebill.fields import RegeneratedFeeFields

# How an invoice of each type comes about: its type, and why it bills (`-` if it bills no subscription).
TYPES = {
    ("subscription", "subscription_starting"),
    ("subscription", "subscription_periodic"),
    ("subscription", "subscription_terminating"),
    ("subscription", "in_advance_charge"),
    ("progressive_billing", "progressive_billing"),
    ("advance_charges", "in_advance_charge_periodic"),
    ("one_off", "-"),
}
FEE_TYPES = {"subscription", "charge", "fixed_charge", "commitment", "add_on"}


@pytest.fixture(scope="module")
def month() -> Iterator[Scenario]:
    """A customer who is a partner, with an invoice of every type, of each the original, voided, and another try at it.

    The drafts are of a customer with a grace period.
    """
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        invoices_of_every_type(box)
        yield box


def invoices_of_every_type(box: Scenario) -> None:
    for code in ("bank", "late"):
        box.billing.invoice_custom_sections.create(name=code.title(), code=code, details=code, display_name=code)
    partner: dict[str, Any] = {"account_type": "partner", "invoice_custom_section_codes": ["bank"]}
    box.customer(**partner)
    box.customer("slow", **partner, billing_configuration={"invoice_grace_period": 3})
    gb, calls = box.metric("gb"), box.metric("calls")
    seats, support = box.add_on("seats"), box.add_on("support")
    in_advance = {"pay_in_advance": True, "regroup_paid_fees": "invoice", "invoiceable": False}
    arrears = box.plan(
        charge_on(gb, amount="1", code="gb"),
        charge_on(calls, amount="1", code="at_once", pay_in_advance=True),
        charge_on(calls, amount="2", code="paid_first", **in_advance),
        code="arrears",
        amount_cents=3100,
        minimum_commitment={"amount_cents": 1_000_000},
        usage_thresholds=[{"amount_cents": 1000}],
        fixed_charges=[
            fixed_charge_on(seats, amount="5", units="2", pay_in_advance=True),
            fixed_charge_on(support, amount="7", units="1"),
        ],
    )
    assert arrears["minimum_commitment"]["amount_cents"] == 1_000_000
    box.plan(code="advance", amount_cents=900, pay_in_advance=True)
    for customer in ("acme", "slow"):
        box.subscribe("arrears", external_id=f"{customer}-sub", customer=customer)
        box.subscribe("advance", external_id=f"{customer}-start", customer=customer)
        box.event("gb", external_id=f"{customer}-sub", value=12)
        box.event("calls", external_id=f"{customer}-sub", value=3)
        fees = box.get(f"/fees?external_customer_id={customer}&per_page=100")["fees"]
        for fee in fees:
            if fee["svc_invoice_id"] is None:
                box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
        box.post("/invoices", invoice={"external_customer_id": customer, "fees": [{"add_on_code": "seats"}]})
    box.travel_to("2025-07-01T01:00:00Z")
    for customer in ("acme", "slow"):
        box.unsubscribe(f"{customer}-sub")


def finalized(box: Scenario) -> list[Any]:
    return [invoice for invoice in box.invoices() if invoice["status"] == "finalized"]


def kind_of(invoice: Any) -> tuple[str, str]:
    reasons = [period["invoicing_reason"] for period in invoice["billing_periods"]] or ["-"]
    return invoice["invoice_type"], reasons[0]


def sections(invoice: Any) -> tuple[str, ...]:
    return tuple(section["code"] for section in invoice["applied_invoice_custom_sections"])


def test_the_customer_has_an_invoice_of_every_type_with_fees_of_every_type(month: Scenario) -> None:
    invoices = finalized(month)
    assert {kind_of(invoice) for invoice in invoices} == TYPES
    assert {fee["item"]["type"] for invoice in invoices for fee in invoice["fees"]} == FEE_TYPES
    assert {invoice["status"] for invoice in month.invoices("slow")} == {"draft", "finalized"}


@pytest.mark.parametrize("customer", ["acme", "slow"])
def test_every_invoice_ends_with_the_customer_s_section(month: Scenario, customer: str) -> None:
    shown = {(kind_of(invoice), sections(invoice)) for invoice in month.invoices(customer)}
    assert shown == {(kind, ("bank",)) for kind in TYPES}


@pytest.mark.parametrize("customer", ["acme", "slow"])
def test_every_line_of_an_invoice_to_a_partner_is_self_billed(month: Scenario, customer: str) -> None:
    invoices = month.invoices(customer)
    assert {invoice["self_billed"] for invoice in invoices} == {True}
    lines = [(kind_of(invoice), fee["item"]["type"]) for invoice in invoices for fee in invoice["fees"]]
    billed = [
        (kind_of(invoice), fee["item"]["type"]) for invoice in invoices for fee in invoice["fees"] if fee["self_billed"]
    ]
    assert billed == lines


def test_an_invoice_made_again_after_a_void_has_the_sections_of_now_and_self_billed_lines() -> None:
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        invoices_of_every_type(box)
        for invoice in finalized(box):
            paid = invoice["payment_status"] == "succeeded"
            refund = {"generate_credit_note": True, "refund_amount": invoice["total_amount_cents"]} if paid else {}
            box.post(f"/invoices/{invoice['svc_id']}/void", **refund)
        box.customer(account_type="partner", invoice_custom_section_codes=["late"])
        for invoice in box.invoices():
            fees: list[RegeneratedFeeFields] = [{"id": fee["svc_id"]} for fee in invoice["fees"]]
            box.billing.invoices.regenerate(invoice["svc_id"], fees=fees)
        made = [invoice for invoice in box.invoices() if invoice["status"] != "voided"]
        assert {(kind_of(invoice), sections(invoice)) for invoice in made} == {(kind, ("late",)) for kind in TYPES}
        assert {fee["self_billed"] for invoice in made for fee in invoice["fees"]} == {True}
        assert {fee["item"]["type"] for invoice in made for fee in invoice["fees"]} == FEE_TYPES
