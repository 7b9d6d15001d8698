"""Fees paid in advance are put on an invoice when they are paid, also those of what has ended by then."""

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
            (5 * 100, "succeeded")
        ]


def of_advance(box: Scenario) -> list[tuple[int, str, str]]:
    return [
        (invoice["fees_amount_cents"], invoice["payment_status"], invoice["issuing_date"])
        for invoice in box.invoices()
        if invoice["invoice_type"] == "advance_charges"
    ]


@pytest.mark.parametrize("ended_by", ["request", "ending_at", "ending_at without a worker"])
def test_a_fee_paid_after_its_subscription_has_ended_is_invoiced_at_once(ended_by: str) -> None:
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        box.customer()
        terms = {"pay_in_advance": True, "invoiceable": False, "regroup_paid_fees": "invoice"}
        box.plan(charge_on(box.metric("gb"), amount="1", **terms), amount_cents=0)
        box.subscribe(**({} if ended_by == "request" else {"ending_at": "2025-06-10T00:00:00Z"}))
        box.event("gb", value=5)
        box.event("gb", value=7)
        fees = box.get("/fees?fee_type=charge")["fees"]
        if ended_by == "ending_at without a worker":
            box.jump_to("2025-06-12T00:00:00Z")
        else:
            box.travel_to("2025-06-12T00:00:00Z")
            if ended_by == "request":
                box.unsubscribe()
        assert of_advance(box) == []
        paid = box.put(f"/fees/{fees[0]['svc_id']}", fee={"payment_status": "succeeded"})["fee"]
        assert of_advance(box) == [(fees[0]["amount_cents"], "succeeded", "2025-06-12")]
        assert paid["svc_invoice_id"] is not None
        box.put(f"/fees/{fees[1]['svc_id']}", fee={"payment_status": "failed"})
        box.travel_to("2025-07-05T00:00:00Z")
        assert len(of_advance(box)) == 1
        box.put(f"/fees/{fees[1]['svc_id']}", fee={"payment_status": "succeeded"})
        assert (fees[1]["amount_cents"], "succeeded", "2025-07-05") in of_advance(box)
        assert len(of_advance(box)) == 2


def test_a_fee_paid_while_a_later_subscription_of_its_id_runs_waits_for_that() -> None:
    with Scenario(now="2025-06-01T00:00:00Z") as box:
        box.customer()
        terms = {"pay_in_advance": True, "invoiceable": False, "regroup_paid_fees": "invoice"}
        box.plan(charge_on(box.metric("gb"), amount="1", **terms), amount_cents=0)
        box.subscribe()
        box.event("gb", value=5)
        (fee,) = box.get("/fees?fee_type=charge")["fees"]
        box.travel_to("2025-06-12T00:00:00Z")
        box.unsubscribe()
        box.subscribe()
        box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
        assert of_advance(box) == []
        box.travel_to("2025-07-02T00:00:00Z")
        assert of_advance(box) == [(500, "succeeded", "2025-07-01")]


@pytest.mark.parametrize("plan_in_advance", [False, True])
def test_the_period_of_the_subscription_is_that_of_the_charges(plan_in_advance: bool) -> None:
    with Scenario(now="2025-06-05T00:00:00Z") as box:
        box.customer()
        terms = {"pay_in_advance": True, "invoiceable": False, "regroup_paid_fees": "invoice"}
        charge = charge_on(box.metric("gb"), amount="1", **terms)
        box.plan(charge, amount_cents=100, pay_in_advance=plan_in_advance)
        box.subscribe()
        box.event("gb", value=5)
        (fee,) = box.get("/fees?fee_type=charge")["fees"]
        box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
        box.travel_to("2025-07-02T00:00:00Z")
        (invoice,) = [item for item in box.invoices() if item["invoice_type"] == "advance_charges"]
        (period,) = invoice["billing_periods"]
        for name in ("subscription", "charges"):
            window = (period[f"{name}_from_datetime"], period[f"{name}_to_datetime"])
            assert window == ("2025-06-05T00:00:00Z", "2025-06-30T23:59:59Z")
