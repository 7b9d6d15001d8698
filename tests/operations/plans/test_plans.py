"""Plans: created with everything on them, changed as far as that is allowed, listed, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import add_draft, add_period, add_subscription
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import REGION_AND_CLOUD, Scenario, charge_on, fixed_charge_on, plan_fields, price_ranges

from usagebill.core.customers import Customer
from usagebill.core.invoices.records import Invoice
from usagebill.queries.plans import plan_definition
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

RANGES = price_ranges((0, None, "0", "0"))


def post(box: Scenario, **fields: Any) -> tuple[int, Any]:
    return box.send("POST", "/plans", {"plan": plan_fields(**{"amount_cents": 1000, **fields})})


def put(box: Scenario, **fields: object) -> tuple[int, Any]:
    return box.send("PUT", "/plans/basic", {"plan": fields})


def get(box: Scenario) -> Any:
    return box.get("/plans/basic")["plan"]


def test_charges_of_a_plan_name_their_metric_by_code(box: Scenario) -> None:
    box.metric("storage", "count_agg")
    box.metric("traffic", "count_agg")
    priced = {"charge_model": "standard", "properties": {"amount": "1"}}
    assert missing(post(box, charges=[{**priced, "billable_metric_code": "nope"}])) == "billable_metrics"
    shown = accepted(post(box, charges=[{**priced, "billable_metric_code": "storage"}]), "plan")
    assert [charge["billable_metric_code"] for charge in shown["charges"]] == ["storage"]
    charge = {**priced, "id": shown["charges"][0]["svc_id"], "billable_metric_code": "traffic"}
    assert missing(put(box, charges=[{**charge, "billable_metric_code": "nope"}])) == "billable_metrics"
    moved = accepted(put(box, charges=[charge]), "plan")["charges"]
    assert [(one["svc_id"], one["billable_metric_code"]) for one in moved] == [(charge["id"], "traffic")]


def test_a_plan_is_shown_as_it_was_sent(box: Scenario) -> None:
    box.tax(applied_to_organization=False)
    shown = box.plan(
        amount_cents=1000,
        description="d",
        trial_period=2.5,
        tax_codes=["vat"],
        metadata={"tier": "gold", "none": None},
        minimum_commitment={"amount_cents": 500, "tax_codes": ["vat"]},
        usage_thresholds=[{"amount_cents": 100}, {"amount_cents": 100, "recurring": True}],
        charges=[
            charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="1", tax_codes=["vat"])
        ],
        fixed_charges=[{"add_on_id": box.add_on("seats", 200), "charge_model": "standard", "units": 10}],
    )
    assert (shown["description"], shown["trial_period"], shown["metadata"]) == (
        "d",
        2.5,
        {"tier": "gold", "none": None},
    )
    assert [tax["code"] for tax in shown["taxes"]] == ["vat"]
    assert shown["minimum_commitment"]["amount_cents"] == 500
    assert [threshold["recurring"] for threshold in shown["usage_thresholds"]] == [False, True]
    assert [charge["code"] for charge in shown["charges"]] == ["storage"]
    assert [(charge["code"], charge["units"], charge["properties"]) for charge in shown["fixed_charges"]] == [
        ("seats", 10, {"amount": "0"})
    ]
    assert shown["bill_charges_monthly"] is None
    assert get(box) == shown
    assert box.webhooks[-1]["webhook_type"] == "plan.created"


def test_what_a_plan_does_not_have_is_not_shown(box: Scenario) -> None:
    shown = box.plan(amount_cents=1000)
    assert "minimum_commitment" not in shown
    assert "metadata" not in shown
    assert "metadata" in box.plan(amount_cents=1000, code="other", metadata={})


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
        ({"interval": "daily"}, {"interval": ["value_is_invalid"]}),
        ({"amount_cents": None}, {"amount_cents": ["value_is_mandatory"]}),
        ({"amount_currency": "eur"}, {"amount_currency": ["value_is_invalid"]}),
        ({"pay_in_advance": None}, {"pay_in_advance": ["value_is_invalid"]}),
        ({"minimum_commitment": {"amount_cents": 0}}, {"amount_cents": ["value_is_out_of_range"]}),
        ({"minimum_commitment": {"invoice_display_name": "x"}}, {"amount_cents": ["is not a number"]}),
        ({"trial_period": -1}, {"trial_period": ["value_is_out_of_range"]}),
        ({"trial_period": "1e400"}, {"trial_period": ["value_is_out_of_range"]}),
        ({"usage_thresholds": [{}]}, {"usage_thresholds": ["missing_amount_cents"]}),
        ({"metadata": {"k": 1}}, {"value": ["value of 'k' must be a text or null"]}),
    ],
)
def test_a_wrong_plan_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(post(box, **fields)) == details


def test_what_a_plan_refers_to_must_exist(box: Scenario) -> None:
    assert missing(post(box, charges=[charge_on("nope", amount="1")])) == "billable_metrics"
    assert missing(post(box, charges=[{"charge_model": "standard"}])) == "billable_metrics"
    assert missing(post(box, fixed_charges=[{"add_on_id": "nope", "charge_model": "standard"}])) == "add_ons"
    assert missing(post(box, tax_codes=["nope"])) == "tax"
    assert box.send("GET", "/plans")[1]["plans"] == []


def test_errors_of_charges_are_reported_flat_and_nothing_is_kept(box: Scenario) -> None:
    wrong = charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="-1")
    assert refused(post(box, charges=[wrong])) == {"properties": ["invalid_amount"]}
    unit = charge_on(
        box.metric("unit", "count_agg", filters=REGION_AND_CLOUD), amount="1", applied_pricing_unit={"code": "nope"}
    )
    assert refused(post(box, charges=[unit])) == {
        "conversion_rate": ["value_is_mandatory", "is not a number"],
        "pricing_unit": ["relation_must_exist"],
    }
    assert missing(box.send("GET", "/plans/basic")) == "plan"


def test_charges_without_a_code_are_named_after_their_metric(box: Scenario) -> None:
    used, seats = box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), box.add_on("seats", 200)
    charges = [
        charge_on(used, amount="1"),
        charge_on(used, amount="1"),
        charge_on(used, amount="1", code="storage_5"),
        charge_on(used, amount="1"),
    ]
    fixed_charges = [{"add_on_id": seats, "charge_model": "standard"}, {"add_on_id": seats, "charge_model": "volume"}]
    shown = box.plan(amount_cents=1000, charges=charges, fixed_charges=fixed_charges)
    assert [charge["code"] for charge in shown["charges"]] == ["storage", "storage_2", "storage_5", "storage_6"]
    assert [charge["code"] for charge in shown["fixed_charges"]] == ["seats", "seats_2"]
    taken = [charge_on(used, amount="1", code="x"), charge_on(used, amount="1", code="x")]
    assert refused(post(box, code="other", charges=taken)) == {"code": ["value_already_exist"]}


def test_filters_price_declared_values_only(box: Scenario) -> None:
    used = box.metric("storage", "count_agg", filters=REGION_AND_CLOUD)

    def with_filter(**charge_filter: object) -> tuple[int, Any]:
        return post(
            box, charges=[charge_on(used, amount="1", filters=[{"properties": {"amount": "1"}, **charge_filter}])]
        )

    assert refused(with_filter()) == {"values": ["value_is_mandatory"]}
    assert refused(with_filter(values={"region": []})) == {"values": ["value_is_mandatory"]}
    assert refused(with_filter(values={"region": ["mars"]})) == {"values": ["value_is_invalid"]}
    assert refused(with_filter(values={"planet": ["mars"]})) == {
        "billable_metric_filter": ["relation_must_exist"],
        "values": ["value_is_invalid"],
    }
    assert refused(with_filter(values={"region": ["us"]}, properties={})) == {"properties": ["invalid_amount"]}
    values = {"region": ["__ALL_FILTER_VALUES__"], "cloud": ["gcp", "aws"]}
    assert accepted(with_filter(values=values), "plan")["charges"][0]["filters"][0]["values"] == values


def test_codes_are_unique_among_plans(box: Scenario) -> None:
    box.plan(amount_cents=1000)
    assert refused(post(box)) == {"code": ["value_already_exist"]}
    box.plan(amount_cents=1000, code="other")
    assert refused(put(box, code="other")) == {"code": ["value_already_exist"]}


def test_lists_are_newest_first_and_without_fixed_charges(box: Scenario) -> None:
    box.plan(amount_cents=1000, fixed_charges=[{"add_on_id": box.add_on("seats", 200), "charge_model": "standard"}])
    box.jump_to("2024-03-06T00:00:00Z")
    box.plan(amount_cents=1000, code="pro")
    shown = box.send("GET", "/plans")[1]
    assert [plan["code"] for plan in shown["plans"]] == ["pro", "basic"]
    assert all("fixed_charges" not in plan for plan in shown["plans"])
    assert shown["meta"]["total_count"] == 2


def test_an_unused_plan_can_be_changed_altogether(box: Scenario) -> None:
    used = box.metric("storage", "count_agg", filters=REGION_AND_CLOUD)
    charge = box.plan(amount_cents=1000, charges=[charge_on(used, amount="1")])["charges"][0]
    changed = put(
        box,
        name="Pro",
        code="pro",
        interval="yearly",
        pay_in_advance=True,
        amount_currency="USD",
        trial_period=3,
        bill_charges_monthly=True,
        charges=[{"id": charge["svc_id"], "charge_model": "graduated", "code": "g", "min_amount_cents": 5}],
    )
    shown = accepted(changed, "plan")
    assert [shown[name] for name in ("name", "code", "interval", "amount_currency", "trial_period")] == [
        "Pro",
        "pro",
        "yearly",
        "USD",
        3,
    ]
    assert (shown["bill_charges_monthly"], shown["bill_fixed_charges_monthly"]) == (True, False)
    [graduated] = shown["charges"]
    assert (graduated["svc_id"], graduated["code"], graduated["min_amount_cents"]) == (charge["svc_id"], "g", 5)
    assert graduated["properties"] == {"graduated_ranges": RANGES}
    assert box.webhooks[-1]["webhook_type"] == "plan.updated"


def test_a_plan_with_subscriptions_keeps_its_terms(box: Scenario) -> None:
    used = box.metric("storage", "count_agg", filters=REGION_AND_CLOUD)
    charges = [charge_on(used, amount="1", filters=[{"values": {"region": ["us"]}, "properties": {"amount": "3"}}])]
    created = box.plan(amount_cents=1000, charges=charges)
    add_subscription(box, created["svc_id"], status="terminated")
    charge = created["charges"][0]
    changed = put(
        box,
        name="Pro",
        code="pro",
        interval="yearly",
        pay_in_advance=True,
        amount_cents=2000,
        charges=[
            {
                "id": charge["svc_id"],
                "charge_model": "graduated",
                "properties": {"amount": "7"},
                "min_amount_cents": 5,
                "code": "g",
                "invoice_display_name": "Storage",
            }
        ],
    )
    shown = accepted(changed, "plan")
    assert (shown["name"], shown["amount_cents"]) == ("Pro", 2000)
    assert (shown["code"], shown["interval"], shown["pay_in_advance"]) == ("basic", "monthly", False)
    [kept] = shown["charges"]
    assert kept["invoice_display_name"] == "Storage"
    assert (kept["charge_model"], kept["properties"]) == ("standard", {"amount": "7"})
    assert (kept["code"], kept["min_amount_cents"]) == ("storage", 0)
    assert kept["filters"] == charge["filters"]


def test_listed_charges_are_all_that_remain(box: Scenario) -> None:
    used, other = (
        box.metric("storage", "count_agg", filters=REGION_AND_CLOUD),
        box.metric("traffic", "count_agg", filters=REGION_AND_CLOUD),
    )
    created = box.plan(amount_cents=1000, charges=[charge_on(used, amount="1"), charge_on(used, amount="1")])
    first = created["charges"][0]["svc_id"]
    kept = {"id": first, "charge_model": "standard", "properties": {"amount": "2"}}
    shown = accepted(
        put(box, charges=[kept, charge_on(other, amount="1"), {**charge_on(other, amount="1"), "id": "unknown"}]),
        "plan",
    )
    assert [charge["code"] for charge in shown["charges"]] == ["storage", "traffic", "traffic_2"]
    assert accepted(put(box, charges=None), "plan")["charges"] == shown["charges"]
    assert accepted(put(box, name="B"), "plan")["charges"] == shown["charges"]
    assert accepted(put(box, charges=[]), "plan")["charges"] == []


def test_sent_filters_are_matched_by_their_values(box: Scenario) -> None:
    def region_filter(region: str, amount: str, **fields: object) -> dict[str, object]:
        return {"values": {"region": [region]}, "properties": {"amount": amount}, **fields}

    sent = [region_filter("us", "1", invoice_display_name="US"), region_filter("eu", "2")]
    charge = box.plan(
        amount_cents=1000,
        charges=[charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="1", filters=sent)],
    )["charges"][0]
    us = charge["filters"][0]["svc_id"]
    again = {"id": charge["svc_id"], "charge_model": "standard", "properties": {"amount": "1"}}
    filters = [region_filter("asia", "3"), region_filter("us", "4")]
    shown = accepted(put(box, charges=[{**again, "filters": filters}]), "plan")["charges"][0]["filters"]
    assert [(charge_filter["values"]["region"], charge_filter["properties"]["amount"]) for charge_filter in shown] == [
        (["asia"], "3"),
        (["us"], "4"),
    ]
    assert (shown[1]["svc_id"], shown[1]["invoice_display_name"]) == (us, None)
    assert accepted(put(box, charges=[again]), "plan")["charges"][0]["filters"] == shown
    assert accepted(put(box, charges=[{**again, "filters": []}]), "plan")["charges"][0]["filters"] == []


def test_what_is_not_sent_of_a_fixed_charge_stays(box: Scenario) -> None:
    seats = {
        "add_on_id": box.add_on("seats", 200),
        "charge_model": "standard",
        "units": 3,
        "invoice_display_name": "Seats",
    }
    created = box.plan(amount_cents=1000, fixed_charges=[seats])
    item = {"id": created["fixed_charges"][0]["svc_id"], "properties": {"amount": "2"}}
    [priced] = accepted(put(box, fixed_charges=[item]), "plan")["fixed_charges"]
    assert (priced["units"], priced["properties"]) == (3, {"amount": "2"})
    [more] = accepted(put(box, fixed_charges=[{"id": item["id"], "units": 4}]), "plan")["fixed_charges"]
    assert (more["units"], more["properties"], more["invoice_display_name"]) == (4, {"amount": "2"}, "Seats")
    assert refused(put(box, fixed_charges=[{**item, "units": None}])) == {"units": ["is not a number"]}
    assert refused(put(box, fixed_charges=[{**item, "units": -1}])) == {"units": ["value_is_out_of_range"]}
    shown = accepted(put(box, fixed_charges=[{**item, "units": "2.5", "pay_in_advance": True}]), "plan")
    [fixed_charge] = shown["fixed_charges"]
    assert (fixed_charge["units"], fixed_charge["properties"]) == (2.5, {"amount": "2"})
    assert fixed_charge["pay_in_advance"] is False


def test_a_commitment_is_changed_by_its_keys_and_removed_by_an_empty_object(box: Scenario) -> None:
    box.plan(amount_cents=1000, minimum_commitment={"amount_cents": 500, "invoice_display_name": "At least"})
    assert accepted(put(box, minimum_commitment=None), "plan")["minimum_commitment"]["amount_cents"] == 500
    changed = accepted(put(box, minimum_commitment={"amount_cents": 700}), "plan")["minimum_commitment"]
    assert (changed["amount_cents"], changed["invoice_display_name"]) == (700, "At least")
    assert "minimum_commitment" not in accepted(put(box, minimum_commitment={}), "plan")


def test_thresholds_are_a_whole_list(box: Scenario) -> None:
    box.plan(amount_cents=1000, usage_thresholds=[{"amount_cents": 100}])
    assert len(accepted(put(box, name="B"), "plan")["usage_thresholds"]) == 1
    shown = accepted(put(box, usage_thresholds=[{"amount_cents": 300}, {"amount_cents": 200}]), "plan")
    assert [threshold["amount_cents"] for threshold in shown["applicable_usage_thresholds"]] == [300, 200]
    assert accepted(put(box, usage_thresholds=[]), "plan")["usage_thresholds"] == []


def test_metadata_has_endpoints_of_its_own(box: Scenario) -> None:
    box.plan(amount_cents=1000)

    def metadata(method: str, path: str = "", body: object = None) -> Any:
        return accepted(box.send(method, f"/plans/basic/metadata{path}", body), "metadata")

    assert metadata("POST") is None
    assert metadata("PATCH", body={"metadata": {}}) is None
    assert missing(box.send("DELETE", "/plans/basic/metadata/a")) == "metadata"
    assert metadata("POST", body={"metadata": {"a": "1", "b": "2"}}) == {"a": "1", "b": "2"}
    assert metadata("POST") == {"a": "1", "b": "2"}
    assert metadata("PATCH", body={"metadata": {"b": None, "c": "3"}}) == {"a": "1", "b": None, "c": "3"}
    assert metadata("DELETE", "/b") == {"a": "1", "c": "3"}
    assert metadata("DELETE", "/unknown") == {"a": "1", "c": "3"}
    assert metadata("POST", body={"metadata": {}}) == {}
    assert metadata("DELETE") is None
    assert "metadata" not in get(box)
    assert missing(box.send("POST", "/plans/nope/metadata", {})) == "plan"


def test_metadata_does_not_touch_how_a_plan_bills(box: Scenario) -> None:
    box.plan(amount_cents=1000, interval="yearly", bill_charges_monthly=True)
    box.post("/plans/basic/metadata", metadata={"a": "1"})
    assert get(box)["bill_charges_monthly"] is True


def test_a_change_makes_drafts_of_the_plan_out_of_date(box: Scenario) -> None:
    plan_id = box.plan(amount_cents=1000)["svc_id"]
    box.customer()

    def draft(work: Work) -> str:
        customer = work.tx.first(Customer)
        assert customer is not None
        invoice = add_draft(work, customer)
        add_period(work, invoice, plan_id)
        return invoice.id

    invoice_id = box.billing.writing(draft)
    put(box, name="Pro")
    stored = box.billing.reading(lambda work: work.tx.get(Invoice, invoice_id))
    assert stored is not None
    assert stored.refresh_wanted


def test_a_deleted_plan_is_gone_once_it_has_ended(box: Scenario) -> None:
    plan_id = box.plan(
        amount_cents=1000, charges=[charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="1")]
    )["svc_id"]
    assert box.delete("/plans/basic")["plan"]["pending_deletion"] is True
    assert box.webhooks[-1]["webhook_type"] == "plan.deleted"
    assert missing(box.send("GET", "/plans/basic")) == "plan"
    assert missing(box.send("DELETE", "/plans/basic")) == "plan"
    box.plan(amount_cents=1000)
    kept = box.billing.reading(lambda work: plan_definition(work, plan_id))
    assert not kept.plan.pending_deletion
    assert [charge.code for charge in kept.charges] == ["storage"]


def test_bodies_without_a_plan_are_unreadable(box: Scenario) -> None:
    assert box.send("POST", "/plans", {"plan": {}})[0] == 400
    assert box.send("PUT", "/plans/nope", {})[0] == 400
    assert missing(box.send("PUT", "/plans/nope", {"plan": {"name": "x"}})) == "plan"


@pytest.mark.parametrize(
    ("model", "unit"),
    [("graduated", "per_unit_amount"), ("volume", "per_unit_amount"), ("graduated_percentage", "rate")],
)
def test_an_open_range_sent_without_its_end_shows_null(box: Scenario, model: str, unit: str) -> None:
    open_range = {"from_value": 0, unit: "1", "flat_amount": "0"}
    box.plan(charge_on(box.metric("gb"), model, **{f"{model}_ranges": [open_range]}))
    (charge,) = box.get("/plans/basic")["plan"]["charges"]
    assert charge["properties"][f"{model}_ranges"] == [{**open_range, "to_value": None}]


def test_a_fixed_charge_without_a_name_shows_that_of_its_add_on(box: Scenario) -> None:
    named = box.add_on("seats", invoice_display_name="Seats on invoices")
    add_ons = [named, box.add_on("desks")]
    plan = box.plan(fixed_charges=[fixed_charge_on(add_on, amount="1") for add_on in add_ons])
    assert {charge["invoice_display_name"] for charge in plan["fixed_charges"]} == {"Seats on invoices", "Desks"}
