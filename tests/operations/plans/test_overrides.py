"""Overrides sent with a subscription: a plan of its own, or units of its own, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import REGION_AND_CLOUD, Scenario, charge_on, fixed_charge_on

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """A plan of 10.00 with a charge and ten seats at 5.00, paid in advance."""
    box.tax(applied_to_organization=False)
    charge = charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="1")
    seats = fixed_charge_on(box.add_on("seats", 200), amount="5", units=10, pay_in_advance=True)
    box.plan(amount_cents=1000, charges=[charge], fixed_charges=[seats], pay_in_advance=True, tax_codes=["vat"])
    box.customer()
    return box


def catalog_plan(box: Scenario) -> Any:
    return box.get("/plans/basic")["plan"]


def subscribe(box: Scenario, **fields: object) -> tuple[int, Any]:
    body = {"external_customer_id": "acme", "external_id": "sub1", "plan_code": "basic", **fields}
    return box.send("POST", "/subscriptions", {"subscription": body})


def plan_of(box: Scenario) -> Any:
    return box.get("/subscriptions/sub1")["subscription"]["plan"]


def billed(box: Scenario) -> list[int]:
    """What each invoice charges before taxes, in the order of issue."""
    invoices = box.send("GET", "/invoices?external_customer_id=acme")[1]["invoices"]
    return [invoice["fees_amount_cents"] for invoice in invoices][::-1]


def test_a_subscription_with_overrides_is_billed_by_them(box: Scenario) -> None:
    before = catalog_plan(box)
    charge_id, seats_id = before["charges"][0]["svc_id"], before["fixed_charges"][0]["svc_id"]
    overrides = {
        "name": "Special",
        "amount_cents": 700,
        "trial_period": None,
        "tax_codes": [],
        "minimum_commitment": {"amount_cents": 50},
        "charges": [{"id": charge_id, "properties": {"amount": "3"}, "tax_codes": ["vat"]}],
        "fixed_charges": [{"id": seats_id, "units": 2, "invoice_display_name": "Chairs"}],
    }
    shown = accepted(subscribe(box, plan_overrides=overrides), "subscription")
    override = shown["plan"]
    assert (shown["plan_code"], override["name"], override["code"]) == ("basic", "Special", "basic")
    assert (override["parent_id"], override["minimum_commitment"]["amount_cents"]) == (before["svc_id"], 50)
    assert [(charge["properties"], len(charge["taxes"])) for charge in override["charges"]] == [({"amount": "3"}, 1)]
    assert [(charge["units"], charge["invoice_display_name"]) for charge in override["fixed_charges"]] == [
        (2, "Chairs")
    ]
    assert catalog_plan(box) == before
    assert billed(box) == [700 + 2 * 500]


def test_overrides_of_a_plan_that_is_had_already_are_ignored(box: Scenario) -> None:
    first = accepted(subscribe(box), "subscription")
    again = accepted(subscribe(box, plan_overrides={"amount_cents": 5}), "subscription")
    assert again["plan"] == first["plan"]


@pytest.mark.parametrize("kind", ["charge", "fixed_charge"])
@pytest.mark.parametrize("named", [{}, {"id": "00000000-0000-7000-8000-000000000000"}])
@pytest.mark.parametrize("is_overridden", [False, True])
def test_an_override_of_a_charge_that_the_plan_does_not_have_is_refused(
    box: Scenario, kind: str, named: dict[str, str], is_overridden: bool
) -> None:
    own = {"amount_cents": 700} if is_overridden else None
    before = accepted(subscribe(box, plan_overrides=own), "subscription")["plan"]
    wrong = {"amount_cents": 500, f"{kind}s": [{**named, "properties": {"amount": "3"}}]}
    sent = box.send("PUT", "/subscriptions/sub1", {"subscription": {"plan_overrides": wrong}})
    assert missing(sent) == kind
    assert plan_of(box) == before


def test_a_wrong_override_is_refused_and_nothing_is_kept(box: Scenario) -> None:
    charge_id = catalog_plan(box)["charges"][0]["svc_id"]
    wrong = {"charges": [{"id": charge_id, "properties": {"amount": "x"}}]}
    assert refused(subscribe(box, plan_overrides=wrong)) == {"properties": ["invalid_amount"]}
    assert refused(subscribe(box, plan_overrides={"amount_currency": "XYZ"})) == {
        "amount_currency": ["value_is_invalid"]
    }
    assert missing(subscribe(box, plan_overrides={"tax_codes": ["nope"]})) == "tax"
    model = {"charges": [{"id": charge_id, "charge_model": "volume"}]}
    status, body = subscribe(box, plan_overrides=model)
    assert (status, body["code"]) == (403, "cannot_override_charge_model")
    assert missing(box.send("GET", "/subscriptions/sub1")) == "subscription"


def test_units_alone_make_no_plan_of_ones_own(box: Scenario) -> None:
    seats_id = catalog_plan(box)["fixed_charges"][0]["svc_id"]
    units = {"fixed_charges": [{"id": seats_id, "units": 3}]}
    assert missing(subscribe(box, plan_overrides={"fixed_charges": [{"id": "nope", "units": 3}]})) == "fixed_charge"
    shown = accepted(subscribe(box, plan_overrides=units), "subscription")
    assert shown["plan"]["parent_id"] is None
    assert box.get("/subscriptions/sub1/fixed_charges/seats")["fixed_charge"]["units"] == 3
    assert billed(box) == [1000 + 3 * 500]
    changed = {"units": 20, "properties": {"amount": "5"}, "charge_model": "standard"}
    box.put("/plans/basic/fixed_charges/seats", fixed_charge=changed)["fixed_charge"]
    box.travel_to("2024-04-01T00:10:00Z")
    assert billed(box)[1:] == [1000 + 3 * 500]


def test_later_overrides_change_the_subscriptions_own_plan(box: Scenario) -> None:
    accepted(subscribe(box), "subscription")
    first = box.send("PUT", "/subscriptions/sub1", {"subscription": {"plan_overrides": {"amount_cents": 700}}})
    accepted(first, "subscription")
    override = plan_of(box)
    assert (override["amount_cents"], override["taxes"]) == (700, [])
    messages_before = len(box.webhooks)
    overrides = {
        "description": "d",
        "tax_codes": ["vat"],
        "charges": [{"id": override["charges"][0]["svc_parent_id"], "min_amount_cents": 9}],
        "fixed_charges": [{"id": override["fixed_charges"][0]["svc_id"], "units": 4}],
    }
    box.put("/subscriptions/sub1", subscription={"plan_overrides": overrides})["subscription"]
    again = plan_of(box)
    assert (again["svc_id"], again["amount_cents"], again["description"]) == (override["svc_id"], 700, "d")
    messages = box.webhooks[messages_before:]
    assert [message["webhook_type"] for message in messages] == ["plan.updated", "subscription.updated"]
    assert (messages[0]["plan"]["svc_id"], messages[0]["plan"]["parent_id"]) == (
        override["svc_id"],
        override["parent_id"],
    )
    assert messages[0]["plan"]["description"] == "d"
    assert ([tax["code"] for tax in again["taxes"]], again["charges"][0]["min_amount_cents"]) == (["vat"], 9)
    box.travel_to("2024-04-01T00:10:00Z")
    # Its charge was not used: the minimum of 9 cents is billed instead.
    assert billed(box) == [1000 + 10 * 500, 700 + 4 * 500 + 9]


def test_added_units_are_billed_at_once_only_where_that_is_asked(box: Scenario) -> None:
    accepted(subscribe(box), "subscription")
    seats = {"id": catalog_plan(box)["fixed_charges"][0]["svc_id"], "properties": {"amount": "5"}}
    box.travel_to("2024-03-10T00:00:00Z")
    now = {"fixed_charges": [{**seats, "units": 12, "apply_units_immediately": True}]}
    box.put("/plans/basic", plan=now)["plan"]
    assert billed(box) == [6000, 2 * 500]
    box.travel_to("2024-03-11T00:00:00Z")
    box.put("/plans/basic", plan=now)["plan"]
    later = {"fixed_charges": [{**seats, "units": 20}]}
    box.put("/plans/basic", plan=later)["plan"]
    assert billed(box) == [6000, 2 * 500]
    box.travel_to("2024-04-01T00:10:00Z")
    assert billed(box) == [6000, 2 * 500, 1000 + 20 * 500]


def test_a_scheduled_downgrade_falls_when_the_plan_becomes_cheaper_than_its_target(box: Scenario) -> None:
    box.plan(code="small", amount_cents=600)
    accepted(subscribe(box), "subscription")
    assert accepted(subscribe(box, plan_code="small"), "subscription")["next_plan_code"] == "small"
    box.put("/plans/basic", plan={"amount_cents": 600})["plan"]
    assert box.get("/subscriptions/sub1")["subscription"]["next_plan_code"] == "small"
    box.put("/plans/basic", plan={"amount_cents": 599})["plan"]
    assert box.get("/subscriptions/sub1")["subscription"]["next_plan_code"] is None


def test_a_scheduled_downgrade_becomes_an_upgrade_when_its_plan_costs_as_much(box: Scenario) -> None:
    box.plan(code="small", amount_cents=600)
    accepted(subscribe(box), "subscription")
    accepted(subscribe(box, plan_code="small"), "subscription")
    box.put("/plans/small", plan={"amount_cents": 1000})["plan"]
    shown = box.get("/subscriptions/sub1")["subscription"]
    assert (shown["plan_code"], shown["previous_plan_code"]) == ("small", "basic")


def test_a_deleted_plan_takes_its_overrides_and_their_subscriptions_along(box: Scenario) -> None:
    accepted(subscribe(box, plan_overrides={"name": "Special"}), "subscription")
    accepted(subscribe(box, external_id="sub2", plan_overrides={}), "subscription")
    later = {"external_id": "sub3", "subscription_at": "2024-05-01T00:00:00Z"}
    accepted(subscribe(box, **later), "subscription")
    box.delete("/plans/basic")
    shown = box.send("GET", "/subscriptions?status[]=terminated&status[]=canceled&status[]=active")[1]["subscriptions"]
    assert {subscription["external_id"]: subscription["status"] for subscription in shown} == {
        "sub1": "terminated",
        "sub2": "terminated",
        "sub3": "canceled",
    }
    assert missing(box.send("GET", "/plans/basic")) == "plan"


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"cascade_updates": True}),
        ("?cascade_updates=true", None),
        ("", {"charge": {"cascade_updates": True}, "fixed_charge": {"cascade_updates": "1"}}),
        ("?charge[cascade_updates]=true&fixed_charge[cascade_updates]=1", None),
    ],
)
def test_a_deletion_reaches_the_overrides_where_that_is_asked_for(box: Scenario, query: str, body: object) -> None:
    accepted(subscribe(box, plan_overrides={"amount_cents": 700}), "subscription")
    (charge,), (seats,) = plan_of(box)["charges"], plan_of(box)["fixed_charges"]
    box.ask("DELETE", f"/plans/basic/charges/{charge['code']}{query}", body)["charge"]
    box.ask("DELETE", f"/plans/basic/fixed_charges/{seats['code']}{query}", body)["fixed_charge"]
    assert (plan_of(box)["charges"], plan_of(box)["fixed_charges"]) == ([], [])


def test_a_deletion_leaves_the_overrides_alone_otherwise(box: Scenario) -> None:
    accepted(subscribe(box, plan_overrides={"amount_cents": 700}), "subscription")
    (charge,) = plan_of(box)["charges"]
    box.ask("DELETE", f"/plans/basic/charges/{charge['code']}", {"cascade_updates": False})["charge"]
    assert [charge["code"] for charge in plan_of(box)["charges"]] == [charge["code"]]
