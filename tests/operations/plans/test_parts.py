"""Charges, filters and fixed charges of a plan, each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.builders import add_subscription
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import REGION_AND_CLOUD, Scenario, charge_on, fees_of, filter_on, plan_fields

from usagebill.core.billable_metrics import BillableMetric, declared_values

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

CHARGES = "/plans/basic/charges"
FILTERS = CHARGES + "/storage/filters"
FIXED_CHARGES = "/plans/basic/fixed_charges"


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.tax(applied_to_organization=False)
    charge = charge_on(box.metric("storage", "count_agg", filters=REGION_AND_CLOUD), amount="1")
    box.plan(amount_cents=1000, charges=[charge])
    return box


def add_filter(box: Scenario, region: str, **fields: object) -> tuple[int, Any]:
    body = {"values": {"region": [region]}, "properties": {"amount": "2"}, "invoice_display_name": region, **fields}
    return box.send("POST", FILTERS, {"filter": body})


def names(box: Scenario) -> list[str]:
    return [charge_filter["invoice_display_name"] for charge_filter in box.send("GET", FILTERS)[1]["filters"]]


def test_a_charge_needs_a_code_of_its_own(box: Scenario) -> None:
    body = {
        "billable_metric_id": box.metric("traffic", "count_agg", filters=REGION_AND_CLOUD),
        "charge_model": "standard",
        "tax_codes": ["vat"],
    }
    assert refused(box.send("POST", CHARGES, {"charge": body})) == {"code": ["value_is_mandatory"]}
    assert refused(box.send("POST", CHARGES, {"charge": {**body, "code": "storage"}})) == {
        "code": ["value_already_exist"]
    }
    assert missing(box.send("POST", CHARGES, {"charge": {**body, "billable_metric_id": "x"}})) == "billable_metric"
    assert missing(box.send("POST", "/plans/nope/charges", {"charge": body})) == "plan"
    box.jump_to("2024-03-06T00:00:00Z")
    added = box.post(CHARGES, charge={**body, "code": "t"})["charge"]
    assert (added["properties"], added["taxes"][0]["code"]) == ({"amount": "0"}, "vat")
    assert [charge["code"] for charge in box.send("GET", CHARGES)[1]["charges"]] == ["t", "storage"]
    assert box.get(CHARGES + "/t")["charge"] == added


def test_charges_name_their_metric_by_id_or_code(box: Scenario) -> None:
    traffic = box.metric("traffic", "count_agg")
    body = {"billable_metric_code": "traffic", "charge_model": "standard", "code": "t"}
    added = box.post(CHARGES, charge=body)["charge"]
    assert (added["svc_billable_metric_id"], added["billable_metric_code"]) == (traffic, "traffic")
    assert missing(box.send("POST", CHARGES, {"charge": {**body, "billable_metric_code": "x"}})) == "billable_metric"
    assert missing(box.send("PUT", CHARGES + "/t", {"charge": {"billable_metric_code": "x"}})) == "billable_metric"
    moved = box.put(CHARGES + "/t", charge={"billable_metric_code": "storage", "charge_model": "standard"})["charge"]
    assert moved["billable_metric_code"] == "storage"


def test_an_id_and_a_code_name_the_same_metric_or_add_on(box: Scenario) -> None:
    storage = box.get("/billable_metrics/storage")["billable_metric"]["svc_id"]
    box.metric("traffic", "count_agg")
    charge = {"billable_metric_id": storage, "charge_model": "standard", "code": "s"}
    other = box.send("POST", CHARGES, {"charge": {**charge, "billable_metric_code": "traffic"}})
    assert refused(other) == {"billable_metric_code": ["incompatible_params"]}
    assert box.post(CHARGES, charge={**charge, "billable_metric_code": "storage"})["charge"]["code"] == "s"
    fixed = {"add_on_id": box.add_on("seats", 200), "charge_model": "standard", "code": "s", "units": 1}
    assert refused(box.send("POST", FIXED_CHARGES, {"fixed_charge": {**fixed, "add_on_code": "desks"}})) == {
        "add_on_code": ["incompatible_params"]
    }


def test_a_changed_charge_loses_what_is_not_sent_again(box: Scenario) -> None:
    change = {"charge_model": "standard", "properties": {"amount": "3"}, "invoice_display_name": "Storage"}
    box.put(CHARGES + "/storage", charge={**change, "min_amount_cents": 7})["charge"]
    bare = box.put(CHARGES + "/storage", charge={"charge_model": "standard"})["charge"]
    assert (bare["properties"], bare["invoice_display_name"]) == ({"amount": "0"}, None)
    assert bare["min_amount_cents"] == 0
    assert refused(box.send("PUT", CHARGES + "/storage", {"charge": {"properties": {"amount": "1"}}})) == {
        "charge_model": ["value_is_mandatory"]
    }
    assert not any(message["webhook_type"] == "plan.updated" for message in box.webhooks)


def test_an_unused_charge_can_price_another_metric(box: Scenario) -> None:
    add_filter(box, "us")
    other = box.metric("traffic", "count_agg", filters=[{"key": "cloud", "values": ["aws"]}])
    change = charge_on(other, amount="3")
    shown = box.put(CHARGES + "/storage", charge=change)["charge"]
    assert (shown["billable_metric_code"], shown["filters"]) == ("traffic", [])


def test_a_deleted_charge_is_shown_once_more(box: Scenario) -> None:
    deleted = box.delete(CHARGES + "/storage")["charge"]
    assert (deleted["code"], deleted["billable_metric_code"]) == ("storage", "storage")
    assert missing(box.send("GET", CHARGES + "/storage")) == "charge"
    assert box.get("/plans/basic")["plan"]["charges"] == []


def test_filters_stand_in_the_order_of_their_last_change(box: Scenario) -> None:
    first = accepted(add_filter(box, "us"), "filter")
    accepted(add_filter(box, "eu"), "filter")
    assert (first["charge_code"], first["values"]) == ("storage", {"region": ["us"]})
    assert names(box) == ["us", "eu"]
    box.put(f"{FILTERS}/{first['svc_id']}", filter={"properties": {"amount": "5"}})["filter"]
    assert names(box) == ["eu", "us"]
    page = box.send("GET", FILTERS + "?page=2&per_page=1")[1]
    assert ([charge_filter["svc_id"] for charge_filter in page["filters"]], page["meta"]["total_pages"]) == (
        [first["svc_id"]],
        2,
    )


def test_a_filter_is_changed_by_what_is_sent_and_keeps_its_values(box: Scenario) -> None:
    created = accepted(add_filter(box, "us"), "filter")
    path = f"{FILTERS}/{created['svc_id']}"
    named = box.put(path, filter={"invoice_display_name": "US", "values": {"x": ["y"]}})["filter"]
    assert named == {**created, "invoice_display_name": "US"}
    assert refused(box.send("PUT", path, {"filter": {"properties": {"amount": 1}}})) == {
        "properties": ["invalid_amount"]
    }
    assert refused(add_filter(box, "us", values={})) == {"values": ["value_is_mandatory"]}
    assert accepted(add_filter(box, "us"), "filter")["svc_id"] != created["svc_id"]
    assert box.delete(path)["filter"] == named
    assert missing(box.send("GET", path)) == "charge_filter"
    assert missing(box.send("GET", CHARGES + "/nope/filters")) == "charge"


def test_fixed_charges_name_their_add_on_by_id_or_code(box: Scenario) -> None:
    seats = box.add_on("seats", 200)
    body = {"add_on_code": "seats", "charge_model": "standard", "units": "3", "code": "s"}
    added = box.post(FIXED_CHARGES, fixed_charge=body)["fixed_charge"]
    assert (added["svc_add_on_id"], added["add_on_code"], added["units"]) == (seats, "seats", 3)
    nameless = {**body, "code": ""}
    assert refused(box.send("POST", FIXED_CHARGES, {"fixed_charge": nameless})) == {"code": ["value_is_mandatory"]}
    assert missing(box.send("POST", FIXED_CHARGES, {"fixed_charge": {**body, "add_on_code": "x"}})) == "add_on"
    assert refused(box.send("PUT", FIXED_CHARGES + "/s", {"fixed_charge": {"units": "x"}})) == {
        "units": ["is not a number"]
    }
    priced = box.send("PUT", FIXED_CHARGES + "/s", {"fixed_charge": {"properties": {"amount": "1"}}})
    assert accepted(priced, "fixed_charge")["units"] == 3
    changed = box.put(FIXED_CHARGES + "/s", fixed_charge={"units": 4, "code": "t"})["fixed_charge"]
    assert (changed["code"], changed["units"], changed["properties"]) == ("t", 4, {"amount": "1"})
    assert [charge["code"] for charge in box.send("GET", FIXED_CHARGES)[1]["fixed_charges"]] == ["t"]
    box.delete(FIXED_CHARGES + "/t")["fixed_charge"]
    assert missing(box.send("GET", FIXED_CHARGES + "/t")) == "fixed_charge"


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"charge_model": "package"}, {"charge_model": ["value_is_invalid"]}),
        ({"charge_model": None}, {"charge_model": ["value_is_mandatory"]}),
        ({"charge_model": "volume", "pay_in_advance": True}, {"pay_in_advance": ["invalid_charge_model"]}),
        (
            {"charge_model": "graduated", "pay_in_advance": True, "prorated": True},
            {"prorated": ["invalid_charge_model"]},
        ),
        ({"units": -1}, {"units": ["value_is_out_of_range"]}),
        ({"units": "many"}, {"units": ["is not a number"]}),
    ],
)
def test_a_wrong_fixed_charge_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    body = {"add_on_id": box.add_on("seats", 200), "charge_model": "standard", "units": 1, "code": "s", **fields}
    assert refused(box.send("POST", FIXED_CHARGES, {"fixed_charge": body})) == details


def test_the_code_of_a_used_fixed_charge_stays(box: Scenario) -> None:
    body = {"add_on_id": box.add_on("seats", 200), "charge_model": "standard", "units": 1, "code": "s"}
    box.post(FIXED_CHARGES, fixed_charge=body)["fixed_charge"]
    add_subscription(box, box.get("/plans/basic")["plan"]["svc_id"])
    change = {"units": 4, "code": "t", "charge_model": "volume", "properties": {"amount": "2"}}
    changed = box.put(FIXED_CHARGES + "/s", fixed_charge=change)["fixed_charge"]
    assert (changed["code"], changed["charge_model"], changed["properties"]) == ("s", "standard", {"amount": "2"})


def regions(count: int) -> list[str]:
    return [f"r{number}" for number in range(count)]


def test_a_metric_declares_at_most_a_hundred_keys_and_a_charge_with_all_of_them_is_billed() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        body = {"name": "Calls", "code": "calls", "aggregation_type": "count_agg"}
        declared = [{"key": f"k{number}", "values": ["yes", "no"]} for number in range(101)]
        answer = box.post("/billable_metrics", billable_metric={**body, "filters": declared}, status=422)
        assert answer["error_details"] == {"filters": ["too_many_filters"]}
        metric = box.metric("calls", "count_agg", filters=declared[:100])
        filters = [filter_on({f"k{number}": ["yes"]}, amount=str(number)) for number in range(100)]
        box.plan(charge_on(metric, amount="1000", filters=filters))
        box.customer()
        box.subscribe()
        box.events("calls", {"k7": "yes"}, {"k99": "yes"}, {"k99": "no"})
        charge = box.usage()["charges_usage"][0]
        assert charge["amount_cents"] == 700 + 9900 + 100_000


@pytest.mark.slow
def test_a_charge_has_at_most_ten_thousand_filters() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        names = regions(10_001)
        metric = box.metric("calls", filters=[{"key": "region", "values": names}])
        filters = [filter_on({"region": [name]}, amount="1") for name in names]
        answer = box.post("/plans", plan=plan_fields(charge_on(metric, amount="2", filters=filters)), status=422)
        assert answer["error_details"] == {"filters": ["too_many_filters"]}
        charge = box.plan(charge_on(metric, amount="2", filters=filters[:-1]))["charges"][0]
        assert len(charge["filters"]) == 10_000
        path = f"/plans/basic/charges/{charge['code']}/filters"
        assert box.post(path, filter=filters[-1], status=422)["error_details"] == {"filters": ["too_many_filters"]}
        # Sent again, each keeps its own.
        kept = {**charge_on(metric, amount="2", filters=filters[:-1]), "id": charge["svc_id"]}
        again = box.put("/plans/basic", plan={"charges": [kept]})["plan"]["charges"][0]
        assert [charge_filter["svc_id"] for charge_filter in again["filters"]] == [
            charge_filter["svc_id"] for charge_filter in charge["filters"]
        ]


@pytest.mark.slow
def test_the_values_of_filters_are_at_most_a_hundred_thousand() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        names = regions(100_001)
        body = {"name": "Calls", "code": "calls", "aggregation_type": "count_agg"}
        declared = [{"key": "region", "values": names}]
        answer = box.post("/billable_metrics", billable_metric={**body, "filters": declared}, status=422)
        assert answer["error_details"] == {"values": ["too_many_values"]}
        metric = box.metric("calls", "count_agg", filters=[{"key": "region", "values": names[:-1]}])
        halves = [filter_on({"region": names[:50_000]}, amount="1"), filter_on({"region": names[:50_001]}, amount="1")]
        fields = plan_fields(charge_on(metric, amount="2", filters=halves))
        assert box.post("/plans", plan=fields, status=422)["error_details"] == {"values": ["too_many_values"]}
        assert box.plan(charge_on(metric, amount="2", filters=halves[:1]))


@pytest.mark.slow
def test_ten_thousand_filters_are_billed_and_explained() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        names = regions(10_000)
        metric = box.metric("calls", filters=[{"key": "region", "values": names}])
        filters = [filter_on({"region": [name]}, amount="1") for name in names]
        box.plan(charge_on(metric, amount="2", filters=filters))
        box.subscribe()
        for region in (names[0], names[5_000], "elsewhere"):
            box.event("calls", value=1, region=region)
        assert box.usage()["amount_cents"] == 100 + 100 + 200
        box.travel_to("2024-02-02T00:00:00Z")
        [invoice] = box.invoices()
        assert (invoice["status"], sorted(fee["amount_cents"] for fee in invoice["fees"])) == (
            "finalized",
            [0, 100, 100, 200],
        )
        assert box.get(f"/invoices/{invoice['svc_id']}/explain")
        for fee in fees_of(invoice, "charge"):
            assert len(box.get(f"/fees/{fee['svc_id']}/events")["events"]) == 1
        assert box.billing.audit().findings == ()


def test_the_values_of_a_metric_are_gathered_once_for_all_filters_of_a_charge(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"r{number}" for number in range(50)]
    metric = box.metric("calls", "count_agg", filters=[{"key": "region", "values": names}])
    gathered: list[BillableMetric] = []

    def counted(metric: BillableMetric) -> Mapping[str, frozenset[str]]:
        gathered.append(metric)
        return declared_values(metric)

    monkeypatch.setattr("usagebill.operations.plans.filters.declared_values", counted)
    filters = [filter_on({"region": [name]}, amount="2") for name in names]
    made = box.plan(charge_on(metric, amount="1", filters=filters), code="regional")
    assert len(made["charges"][0]["filters"]) == 50
    assert len(gathered) == 1
