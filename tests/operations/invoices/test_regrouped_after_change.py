"""Fees paid in advance of a plan that is no more are put on an invoice when they are paid."""

from __future__ import annotations

import pytest
from tests.scenarios import Scenario, charge_on


@pytest.mark.parametrize("paid_after", [False, True])
def test_a_fee_of_the_plan_before_an_upgrade_is_invoiced_where_the_new_plan_has_no_such_charge(
    paid_after: bool,
) -> None:
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        box.customer()
        charge = charge_on(
            box.metric("gb"), amount="1", pay_in_advance=True, invoiceable=False, regroup_paid_fees="invoice"
        )
        box.plan(charge, code="small", amount_cents=100)
        box.plan(code="large", amount_cents=200)
        box.subscribe("small")
        box.event("gb", value=5)
        (fee,) = box.get("/fees?fee_type=charge")["fees"]

        def pay() -> None:
            box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})

        if not paid_after:
            pay()
        box.travel_to("2025-06-10T00:00:00Z")
        box.subscribe("large")
        if paid_after:
            pay()
        box.travel_to("2025-09-02T00:00:00Z")
        together = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "advance_charges"]
        assert [(invoice["fees_amount_cents"], invoice["payment_status"]) for invoice in together] == [
            (500, "succeeded")
        ]
