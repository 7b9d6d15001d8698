"""Charges, filters and fixed charges of one subscription: what it is given for itself, and what follows its plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import add_draft, add_period
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import REGION_AND_CLOUD, Scenario, charge_in_advance_on, charge_on, fixed_charge_on

from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.core.subscriptions import Subscription
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

CHARGE = "/subscriptions/sub1/charges/storage"
FIXED_CHARGE = "/subscriptions/sub1/fixed_charges/seats"


def one_filter(region: str, amount: str) -> dict[str, object]:
    return {"values": {"region": [region]}, "properties": {"amount": amount}, "invoice_display_name": region}


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """A customer whose subscription `sub1` is on a taxed plan with a filtered charge and a fixed charge."""
    box.tax(applied_to_organization=False)
    charge = charge_on(
        box.metric("storage", "count_agg", filters=REGION_AND_CLOUD),
        amount="1",
        filters=[one_filter("us", "10"), one_filter("eu", "20")],
        tax_codes=["vat"],
    )
    seats = fixed_charge_on(box.add_on("seats", 200), amount="5", units=10)
    box.plan(
        amount_cents=1000,
        charges=[charge],
        fixed_charges=[seats],
        tax_codes=["vat"],
        minimum_commitment={"amount_cents": 100},
        usage_thresholds=[{"amount_cents": 9000}],
    )
    box.customer()
    box.subscribe(external_id="sub1")
    return box


def put(box: Scenario, path: str, root: str, **fields: object) -> tuple[int, Any]:
    return box.send("PUT", path, {root: fields})


def own_plan(box: Scenario) -> Any:
    return box.get("/subscriptions/sub1")["subscription"]["plan"]


def catalog_plan(box: Scenario) -> Any:
    return box.get("/plans/basic")["plan"]


def amounts(filters: list[Any]) -> dict[str, str]:
    return {charge_filter["invoice_display_name"]: charge_filter["properties"]["amount"] for charge_filter in filters}


def test_a_changed_charge_gives_the_subscription_a_plan_of_its_own(box: Scenario) -> None:
    before = catalog_plan(box)
    changed = accepted(put(box, CHARGE, "charge", properties={"amount": "2"}, min_amount_cents=50), "charge")
    assert (changed["properties"], changed["min_amount_cents"]) == ({"amount": "2"}, 50)
    assert changed["svc_parent_id"] == before["charges"][0]["svc_id"]
    assert amounts(changed["filters"]) == {"us": "10", "eu": "20"}
    assert catalog_plan(box) == before
    override = own_plan(box)
    assert (override["parent_id"], override["code"], override["amount_cents"]) == (before["svc_id"], "basic", 1000)
    assert override["fixed_charges"][0]["svc_parent_id"] == before["fixed_charges"][0]["svc_id"]
    assert box.send("GET", "/plans")[1]["meta"]["total_count"] == 1


def test_an_own_plan_has_only_the_taxes_and_the_commitment_it_is_given(box: Scenario) -> None:
    changed = accepted(put(box, CHARGE, "charge", invoice_display_name="Mine"), "charge")
    assert changed["taxes"] == []
    override = own_plan(box)
    assert override["taxes"] == []
    assert "minimum_commitment" not in override
    assert override["usage_thresholds"] == []
    assert override["applicable_usage_thresholds"][0]["amount_cents"] == 9000
    taxed = accepted(put(box, CHARGE, "charge", tax_codes=["vat"]), "charge")
    assert (taxed["invoice_display_name"], [tax["code"] for tax in taxed["taxes"]]) == ("Mine", ["vat"])
    assert own_plan(box)["svc_id"] == override["svc_id"]


def test_charges_are_found_by_subscription_status_and_code(box: Scenario) -> None:
    assert missing(box.send("GET", "/subscriptions/nope/charges")) == "subscription"
    assert missing(box.send("GET", "/subscriptions/sub1/charges?subscription_status=pending")) == "subscription"
    assert missing(box.send("GET", "/subscriptions/sub1/charges/nope")) == "charge"
    assert missing(box.send("GET", "/subscriptions/sub1/fixed_charges/nope")) == "fixed_charge"
    assert missing(box.send("GET", f"{CHARGE}/filters/nope")) == "charge_filter"
    assert missing(box.send("PUT", "/subscriptions/nope/charges/storage")) == "subscription"
    assert box.send("PUT", CHARGE)[0] == 400
    shown = box.send("GET", "/subscriptions/sub1/charges")[1]
    assert ([charge["code"] for charge in shown["charges"]], shown["meta"]["total_count"]) == (["storage"], 1)


def test_a_refused_change_gives_no_own_plan(box: Scenario) -> None:
    assert refused(put(box, CHARGE, "charge", properties={"amount": "-1"})) == {"properties": ["invalid_amount"]}
    assert missing(put(box, CHARGE, "charge", tax_codes=["nope"])) == "tax"
    assert own_plan(box)["parent_id"] is None


def test_filters_are_added_changed_and_removed_for_the_subscription_alone(box: Scenario) -> None:
    us = catalog_plan(box)["charges"][0]["filters"][0]["svc_id"]
    assert refused(box.send("POST", f"{CHARGE}/filters", {"filter": one_filter("us", "1")})) == {
        "values": ["value_already_exists"]
    }
    changed = accepted(put(box, f"{CHARGE}/filters/{us}", "filter", properties={"amount": "99"}), "filter")
    assert (changed["properties"], changed["invoice_display_name"]) == ({"amount": "99"}, "us")
    added = box.post(f"{CHARGE}/filters", filter=one_filter("asia", "30"))["filter"]
    filters = box.send("GET", f"{CHARGE}/filters")[1]["filters"]
    assert amounts(filters) == {"us": "99", "eu": "20", "asia": "30"}
    box.delete(f"{CHARGE}/filters/{added['svc_id']}")["filter"]
    assert box.get(f"{CHARGE}/filters/{changed['svc_id']}")["filter"] == changed
    assert amounts(box.get(CHARGE)["charge"]["filters"]) == {"us": "99", "eu": "20"}
    assert amounts(catalog_plan(box)["charges"][0]["filters"]) == {"us": "10", "eu": "20"}


def test_units_alone_are_the_subscriptions_own(box: Scenario) -> None:
    before = catalog_plan(box)
    changed = accepted(put(box, FIXED_CHARGE, "fixed_charge", units="15.5"), "fixed_charge")
    assert (changed["units"], changed["svc_parent_id"]) == (15.5, None)
    assert box.get(FIXED_CHARGE)["fixed_charge"] == changed
    assert own_plan(box)["parent_id"] is None
    assert catalog_plan(box) == before
    assert refused(put(box, FIXED_CHARGE, "fixed_charge", units=-1)) == {"units": ["value_is_out_of_range"]}
    assert refused(put(box, FIXED_CHARGE, "fixed_charge", units="x")) == {"units": ["is not a number"]}


def test_own_units_go_over_into_a_plan_of_ones_own(box: Scenario) -> None:
    put(box, FIXED_CHARGE, "fixed_charge", units=15)
    put(box, CHARGE, "charge", invoice_display_name="Mine")
    shown = box.get(FIXED_CHARGE)["fixed_charge"]
    assert (shown["units"], shown["svc_parent_id"] is None) == (15, False)
    again = accepted(put(box, FIXED_CHARGE, "fixed_charge", units=20, tax_codes=["vat"]), "fixed_charge")
    assert (again["units"], again["svc_id"]) == (20, shown["svc_id"])
    assert again["taxes"][0]["code"] == "vat"
    assert catalog_plan(box)["fixed_charges"][0]["units"] == 10


def test_another_charge_model_is_refused(box: Scenario) -> None:
    status, body = put(box, FIXED_CHARGE, "fixed_charge", charge_model="volume", units=3)
    assert (status, body["code"]) == (403, "cannot_override_charge_model")


def test_changes_of_the_plan_reach_what_the_subscription_did_not_change(box: Scenario) -> None:
    put(box, CHARGE, "charge", invoice_display_name="Mine")
    charge = catalog_plan(box)["charges"][0]
    sent = {
        "code": "storage",
        "charge_model": "standard",
        "properties": {"amount": "3", "pricing_group_keys": ["cloud"]},
        "filters": [one_filter("us", "15"), one_filter("asia", "30")],
        "cascade_updates": True,
    }
    accepted(put(box, "/plans/basic/charges/storage", "charge", **sent), "charge")
    overridden = box.get(CHARGE)["charge"]
    assert overridden["invoice_display_name"] == "Mine"
    assert (overridden["properties"]["amount"], overridden["properties"]["pricing_group_keys"]) == ("3", ["cloud"])
    assert amounts(overridden["filters"]) == {"us": "15", "asia": "30"}
    assert overridden["svc_parent_id"] == charge["svc_id"]


def test_own_prices_stay_while_groupings_follow_the_plan(box: Scenario) -> None:
    put(box, CHARGE, "charge", properties={"amount": "7"}, filters=[one_filter("us", "99"), one_filter("eu", "20.0")])
    sent = {
        "charge_model": "standard",
        "properties": {"amount": "3", "pricing_group_keys": ["cloud"]},
        "filters": [one_filter("us", "15"), one_filter("eu", "25")],
        "cascade_updates": True,
    }
    accepted(put(box, "/plans/basic/charges/storage", "charge", **sent), "charge")
    charge = box.get(CHARGE)["charge"]
    assert (charge["properties"]["amount"], charge["properties"]["pricing_group_keys"]) == ("7", ["cloud"])
    assert amounts(charge["filters"]) == {"us": "99", "eu": "25"}


def test_without_a_cascade_nothing_reaches_the_subscription(box: Scenario) -> None:
    before = accepted(put(box, CHARGE, "charge", invoice_display_name="Mine"), "charge")
    put(box, "/plans/basic/charges/storage", "charge", charge_model="standard", properties={"amount": "3"})
    box.delete("/plans/basic/fixed_charges/seats")
    assert box.get(CHARGE)["charge"] == before
    assert len(own_plan(box)["fixed_charges"]) == 1


def test_added_and_removed_charges_reach_the_subscription(box: Scenario) -> None:
    put(box, CHARGE, "charge", invoice_display_name="Mine")
    traffic = charge_on(
        box.metric("traffic", "count_agg", filters=REGION_AND_CLOUD),
        amount="1",
        code="traffic",
        tax_codes=["vat"],
        cascade_updates=True,
    )
    added = box.post("/plans/basic/charges", charge=traffic)["charge"]
    charge = box.get("/subscriptions/sub1/charges/traffic")["charge"]
    assert (charge["svc_parent_id"], charge["taxes"]) == (added["svc_id"], [])
    box.delete("/plans/basic/charges/storage?charge[cascade_updates]=true")
    assert missing(box.send("GET", CHARGE)) == "charge"
    box.ask("DELETE", "/plans/basic/fixed_charges/seats", {"fixed_charge": {"cascade_updates": "1"}})
    assert missing(box.send("GET", FIXED_CHARGE)) == "fixed_charge"


def test_units_and_prices_of_fixed_charges_reach_only_untouched_ones(box: Scenario) -> None:
    put(box, CHARGE, "charge", invoice_display_name="Mine")
    seats = "/plans/basic/fixed_charges/seats"
    accepted(
        put(box, seats, "fixed_charge", units=12, properties={"amount": "6"}, cascade_updates=True), "fixed_charge"
    )
    charge = box.get(FIXED_CHARGE)["fixed_charge"]
    assert (charge["units"], charge["properties"]) == (12, {"amount": "6"})
    put(box, FIXED_CHARGE, "fixed_charge", units=40)
    put(box, seats, "fixed_charge", units=14, properties={"amount": "8"}, cascade_updates=True)
    charge = box.get(FIXED_CHARGE)["fixed_charge"]
    assert (charge["units"], charge["properties"]) == (40, {"amount": "6"})


def alike(box: Scenario) -> tuple[str, str]:
    """The ids of the plan's filters of the charge `calls`: 2.00 for us and eu, 3.00 for eu and asia, until the metric
    keeps eu alone. Both accept the same since, and the older one takes the events. An override changed only a name.
    """
    metric = box.metric("calls", "count_agg", filters=REGION_AND_CLOUD)
    filters = [
        {"values": {"region": ["us", "eu"]}, "properties": {"amount": "2"}, "invoice_display_name": "A"},
        {"values": {"region": ["eu", "asia"]}, "properties": {"amount": "3"}, "invoice_display_name": "B"},
    ]
    box.post("/plans/basic/charges", charge={**charge_on(metric, amount="1", filters=filters), "code": "calls"})
    put(box, "/subscriptions/sub1/charges/calls", "charge", invoice_display_name="Mine")
    put(box, "/billable_metrics/calls", "billable_metric", filters=[{"key": "region", "values": ["eu"]}])
    older, newer = box.get("/plans/basic/charges/calls")["charge"]["filters"]
    assert (older["values"], newer["values"]) == ({"region": ["eu"]}, {"region": ["eu"]})
    return older["svc_id"], newer["svc_id"]


def own_amounts(box: Scenario) -> dict[str, str]:
    return amounts(box.get("/subscriptions/sub1/charges/calls")["charge"]["filters"])


def test_a_changed_filter_of_the_plan_reaches_its_own_copy_though_another_accepts_the_same(box: Scenario) -> None:
    _, newer = alike(box)
    path = f"/plans/basic/charges/calls/filters/{newer}"
    accepted(put(box, path, "filter", properties={"amount": "7"}, cascade_updates=True), "filter")
    assert own_amounts(box) == {"A": "2", "B": "7"}
    box.event("calls", "sub1", region="eu")
    usage = box.usage(external_id="sub1")
    assert usage["amount_cents"] == 200


@pytest.mark.parametrize(("place", "left"), [(0, {"B": "3"}), (1, {"A": "2"})])
def test_a_removed_filter_of_the_plan_takes_its_own_copy_along(box: Scenario, place: int, left: dict[str, str]) -> None:
    box.ask("DELETE", f"/plans/basic/charges/calls/filters/{alike(box)[place]}", {"filter": {"cascade_updates": True}})
    assert own_amounts(box) == left


def test_a_filter_is_changed_for_the_subscription_though_another_accepts_the_same(box: Scenario) -> None:
    alike(box)
    path = "/subscriptions/sub1/charges/calls/filters"
    _, newer = (charge_filter["svc_id"] for charge_filter in box.get(path)["filters"])
    accepted(put(box, f"{path}/{newer}", "filter", properties={"amount": "8"}), "filter")
    assert own_amounts(box) == {"A": "2", "B": "8"}
    box.delete(f"{path}/{newer}")
    assert own_amounts(box) == {"A": "2"}


@pytest.mark.parametrize("place", [0, 1])
def test_the_first_change_of_a_filter_for_a_subscription_is_of_the_one_named(box: Scenario, place: int) -> None:
    filters = alike(box)
    box.subscribe(external_id="sub2")
    path = "/subscriptions/sub2/charges/calls"
    accepted(put(box, f"{path}/filters/{filters[place]}", "filter", properties={"amount": "8"}), "filter")
    expected = {"A": "2", "B": "3"} | {"AB"[place]: "8"}
    assert amounts(box.get(path)["charge"]["filters"]) == expected


def test_of_filters_that_accept_the_same_the_same_one_takes_the_events_on_an_override(box: Scenario) -> None:
    older, _ = alike(box)
    # Changed last, it is listed last.
    put(box, f"/plans/basic/charges/calls/filters/{older}", "filter", properties={"amount": "2.5"})
    for external_id in ("sub2", "sub3"):
        box.subscribe(external_id=external_id)
    put(box, "/subscriptions/sub3/charges/calls", "charge", invoice_display_name="Mine")
    for external_id in ("sub2", "sub3"):
        box.event("calls", external_id, region="eu")
        assert box.usage(external_id=external_id)["amount_cents"] == 250


def test_what_was_paid_in_advance_is_known_to_the_copy_of_its_filter(box: Scenario) -> None:
    filters = [
        {"values": {"region": ["us", "eu"]}, "properties": {"amount": "2"}},
        {"values": {"region": ["eu", "asia"]}, "properties": {"amount": "3"}},
    ]
    charge = charge_in_advance_on(box.metric("gb", filters=REGION_AND_CLOUD), amount="1", filters=filters)
    box.post("/plans/basic/charges", charge={**charge, "code": "gb"})
    for region, value in (("us", 10), ("us", -4), ("asia", 5)):
        box.event("gb", "sub1", region=region, value=value)
    # Now both filters accept eu alone, and the older one takes its events: ten are paid, and 10 - 4 + 3 are in use.
    put(box, "/billable_metrics/gb", "billable_metric", filters=[{"key": "region", "values": ["eu"]}])
    put(box, "/subscriptions/sub1/charges/gb", "charge", invoice_display_name="Mine")
    box.event("gb", "sub1", region="eu", value=3)
    assert sorted(fee["amount_cents"] for fee in box.usage_fees()) == [0, 0, 5 * 300, 10 * 200]


def test_a_cascaded_amount_reaches_overrides_that_have_the_old_one(box: Scenario) -> None:
    put(box, CHARGE, "charge", invoice_display_name="Mine")
    accepted(put(box, "/plans/basic", "plan", name="New", amount_cents=1500, cascade_updates=True), "plan")
    assert (own_plan(box)["amount_cents"], own_plan(box)["name"]) == (1500, "Basic")
    accepted(put(box, "/plans/basic", "plan", amount_cents=2000), "plan")
    accepted(put(box, "/plans/basic", "plan", amount_cents=2500, cascade_updates=True), "plan")
    assert own_plan(box)["amount_cents"] == 1500


def test_drafts_of_the_subscription_follow_its_own_prices(box: Scenario) -> None:
    draft_id = box.billing.writing(lambda work: draft_of(work, "sub1"))
    put(box, CHARGE, "charge", properties={"amount": "2"})
    draft = box.billing.reading(lambda work: work.tx.get(Invoice, draft_id))
    assert draft is not None
    assert draft.refresh_wanted


def draft_of(work: Work, external_id: str) -> str:
    """A draft that bills the subscription, whatever it comes to."""
    subscription = work.tx.first(Subscription, eq("external_id", external_id))
    assert subscription is not None
    customer = work.tx.get(Customer, subscription.customer_id)
    assert customer is not None
    invoice = add_draft(work, customer)
    add_period(work, invoice, subscription.plan_id, subscription_id=subscription.id)
    return invoice.id
