"""Drafts of subscriptions that have ended: they bill the plan as it was, late events included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, filter_on, fixed_charge_on

pytestmark = pytest.mark.beyond_reference


@pytest.fixture
def box() -> Iterator[Scenario]:
    """A plan at 31.00 a month in arrears, with 10 units at 2.00 and a fixed charge of 4.00; five days of grace."""
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        box.entity(billing_configuration={"invoice_grace_period": 5})
        metric = box.metric("gb", filters=[{"key": "region", "values": ["eu", "us"]}])
        box.plan(
            charge_on(metric, code="gb", amount="1", filters=[filter_on({"region": ["eu"]}, amount="2")]),
            amount_cents=3100,
            fixed_charges=[
                {**fixed_charge_on(box.add_on("support", 100), amount="4"), "code": "support", "units": "1"}
            ],
        )
        box.plan(code="big", amount_cents=6200)
        box.subscribe()
        box.event("gb", value=10, region="eu")
        yield box


EDITS: dict[str, Callable[[Scenario], Any]] = {
    "price": lambda box: box.put("/plans/basic", plan={"amount_cents": 7000}),
    "commitment": lambda box: box.put("/plans/basic", plan={"minimum_commitment": {"amount_cents": 90000}}),
    "charge": lambda box: box.put("/plans/basic/charges/gb", charge={"properties": {"amount": "9"}, "filters": []}),
    "no charge": lambda box: box.delete("/plans/basic/charges/gb"),
    "new charge": lambda box: box.post(
        "/plans/basic/charges",
        charge=charge_on(box.get("/billable_metrics/gb")["billable_metric"]["svc_id"], code="more", amount="5"),
    ),
    "fixed charge": lambda box: box.put("/plans/basic/fixed_charges/support", fixed_charge={"units": "7"}),
    "filters of the metric": lambda box: box.put("/billable_metrics/gb", billable_metric={"filters": []}),
    "metric": lambda box: box.delete("/billable_metrics/gb"),
}
ENDS: dict[str, Callable[[Scenario], Any]] = {
    "ended": Scenario.unsubscribe,
    "upgraded": lambda box: box.subscribe("big"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_the_plan_leaves_the_draft_of_an_end_as_it_was(box: Scenario, edit: str, end: str) -> None:
    box.travel_to("2024-01-19T12:00:00Z")
    ENDS[end](box)
    (draft,) = box.invoices()
    # 19 days, or 18 before an upgrade, the fixed charge and 10 units.
    made = (1900 if end == "ended" else 1800) + 400 + 2000
    assert draft["fees_amount_cents"] == made
    EDITS[edit](box)
    box.travel_to("2024-01-19T13:00:00Z")
    assert box.put(f"/invoices/{draft['svc_id']}/refresh")["invoice"]["fees_amount_cents"] == made
    box.events("gb", {"value": 1, "region": "eu", "at": 1704844800})
    box.travel_to("2024-01-25T12:00:00Z")
    final = box.get(f"/invoices/{draft['svc_id']}")["invoice"]
    assert (final["status"], final["fees_amount_cents"]) == ("finalized", made + 200)
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("end", ENDS)
def test_the_draft_of_a_closed_month_is_fixed_once_its_subscription_ends(box: Scenario, end: str) -> None:
    box.travel_to("2024-02-02T12:00:00Z")
    (draft,) = box.invoices()
    assert draft["fees_amount_cents"] == 3100 + 400 + 2000
    box.put("/plans/basic", plan={"amount_cents": 4000})
    box.travel_to("2024-02-02T13:00:00Z")
    # A running subscription's draft follows its plan.
    (draft,) = box.invoices()
    assert draft["fees_amount_cents"] == 4000 + 400 + 2000
    ENDS[end](box)
    EDITS["price"](box)
    box.travel_to("2024-02-10T12:00:00Z")
    final = box.get(f"/invoices/{draft['svc_id']}")["invoice"]
    assert (final["status"], final["fees_amount_cents"]) == ("finalized", 4000 + 400 + 2000)
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("edit", ["no charge", "new charge"])
def test_an_edit_of_the_new_plan_leaves_the_draft_of_the_old_one_as_it_was(edit: str) -> None:
    """What is in stock is carried over whole to a new plan that charges for it, as that was at the upgrade."""
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 5})
        stock = charge_on(box.metric("stock", recurring=True), code="stock", amount="1")
        box.plan(stock, amount_cents=3100)
        box.plan(*([stock] if edit == "no charge" else []), code="big", amount_cents=6200)
        box.subscribe()
        box.event("stock", value=10)
        box.travel_to("2024-01-19T12:00:00Z")
        box.subscribe("big")
        (draft,) = box.invoices()
        made = 1800 + (0 if edit == "no charge" else 1000)
        assert draft["fees_amount_cents"] == made
        if edit == "no charge":
            box.delete("/plans/big/charges/stock")
        else:
            box.post("/plans/big/charges", charge=stock)
        box.travel_to("2024-01-25T12:00:00Z")
        final = box.get(f"/invoices/{draft['svc_id']}")["invoice"]
        assert (final["status"], final["fees_amount_cents"]) == ("finalized", made)
        assert box.billing.audit().findings == ()
