"""Usage of the very instant at which one subscription follows another: one of the two bills it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.testing import Sandbox

START, CHANGE, LATER = "2024-01-01T00:00:00Z", "2024-01-15T10:00:00.250Z", "2024-03-01T00:00:00Z"


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now=START) as box:
        yield PriceList(box)


def plans(list_: PriceList, aggregation_type: str = "sum_agg", **charge: Any) -> None:
    charge = {
        "billable_metric_id": charge.get("billable_metric_id") or list_.metric("gb", aggregation_type),
        "charge_model": "standard",
        "properties": {"amount": "1"},
        **charge,
    }
    list_.plan(charge, code="small", amount_cents=100)
    list_.plan(charge, code="large", amount_cents=200)


def end(list_: PriceList) -> None:
    status, _ = list_.box.request("DELETE", "/api/v1/subscriptions/sub")
    assert status == 200


def change(list_: PriceList, how: str) -> None:
    if how == "new":
        end(list_)
    list_.subscribe("large")


def usage_fees(list_: PriceList) -> list[int]:
    fees = list_.get("/fees?fee_type=charge&per_page=100")["fees"]
    return sorted(fee["amount_cents"] for fee in fees if fee["amount_cents"])


@pytest.mark.parametrize("how", ["upgrade", "new"])
@pytest.mark.parametrize("aggregation_type", ["sum_agg", "max_agg"])
@pytest.mark.parametrize("grace", [0, 3])
def test_what_was_sent_before_the_change_is_billed_by_the_old_plan_and_what_came_after_by_the_new(
    list_: PriceList, how: str, aggregation_type: str, grace: int
) -> None:
    list_.post("/customers", customer={"external_id": "acme", "invoice_grace_period": grace})
    plans(list_, aggregation_type)
    list_.subscribe("small")
    list_.box.travel_to(CHANGE)
    list_.event("gb", value=7)
    change(list_, how)
    assert list_.usage()["amount_cents"] == 0
    list_.event("gb", value=5)
    assert list_.usage()["amount_cents"] == 500
    list_.box.travel_to(LATER)
    assert usage_fees(list_) == [500, 700]
    invoices = list_.get("/invoices")["invoices"]
    explained = [list_.get(f"/invoices/{one['svc_id']}/explain")["invoice_explanation"] for one in invoices]
    usages = [fee["usage"] for one in explained for fee in one["fees"] if fee["usage"]]
    assert sorted([event["value"] for event in usage["events"]] for usage in usages) == [["5"], ["7"]]
    assert [str(finding) for finding in list_.box.billing.audit().findings] == []


def test_a_late_event_of_the_instant_of_the_change_is_billed_by_the_new_plan(list_: PriceList) -> None:
    plans(list_)
    list_.subscribe("small")
    list_.box.travel_to(CHANGE)
    change(list_, "new")
    list_.box.travel_to("2024-01-16T00:00:00Z")
    body = {
        "transaction_id": "late",
        "code": "gb",
        "external_subscription_id": "sub",
        "timestamp": "1705312800.250",
        "properties": {"value": 3},
    }
    list_.post("/events", event=body)
    assert list_.usage()["amount_cents"] == 300
    list_.box.travel_to(LATER)
    assert usage_fees(list_) == [300]


def test_where_nothing_billed_the_end_the_new_subscription_bills_its_instant(list_: PriceList) -> None:
    plans(list_)
    list_.subscribe("small")
    list_.box.travel_to(CHANGE)
    list_.event("gb", value=7)
    status, _ = list_.box.request("DELETE", "/api/v1/subscriptions/sub?on_termination_invoice=skip")
    assert status == 200
    list_.subscribe("large")
    list_.box.travel_to(LATER)
    assert usage_fees(list_) == [700]


@pytest.mark.parametrize("how", ["upgrade", "new"])
def test_tiers_in_advance_begin_anew_with_what_comes_after_the_change(list_: PriceList, how: str) -> None:
    tiers = [
        {"from_value": 0, "to_value": 5, "per_unit_amount": "1", "flat_amount": "0"},
        {"from_value": 6, "to_value": None, "per_unit_amount": "3", "flat_amount": "0"},
    ]
    plans(list_, charge_model="graduated", pay_in_advance=True, properties={"graduated_ranges": tiers})
    list_.subscribe("small")
    list_.box.travel_to(CHANGE)
    list_.event("gb", value=5)
    change(list_, how)
    list_.event("gb", value=4)
    assert usage_fees(list_) == [400, 500]


def of_other(list_: PriceList, **fields: Any) -> Any:
    """The same external id, of another customer."""
    return list_.subscribe("large", external_customer_id="other", **fields)


def billed_to(list_: PriceList, customer: str) -> list[int]:
    fees = list_.get(f"/fees?fee_type=charge&external_customer_id={customer}&per_page=100")["fees"]
    return sorted(fee["amount_cents"] for fee in fees if fee["amount_cents"])


@pytest.mark.parametrize(
    ("aggregation_type", "recurring"),
    [
        ("sum_agg", False),
        ("sum_agg", True),
        ("max_agg", False),
        ("unique_count_agg", False),
        ("unique_count_agg", True),
    ],
)
@pytest.mark.parametrize("grace", [0, 3])
@pytest.mark.parametrize("gap", ["", "2024-01-20T00:00:00Z"])
def test_nothing_that_a_customer_used_under_an_external_id_is_billed_to_the_next_one(
    list_: PriceList, aggregation_type: str, recurring: bool, grace: int, gap: str
) -> None:
    list_.post("/customers", customer={"external_id": "acme", "invoice_grace_period": grace})
    plans(list_, aggregation_type, billable_metric_id=list_.metric("gb", aggregation_type, recurring=recurring))
    list_.subscribe("small")
    list_.event("gb", value=3)
    list_.box.travel_to(CHANGE)
    list_.event("gb", value=7)
    end(list_)
    if gap:
        list_.box.travel_to(gap)
    of_other(list_)
    list_.event("gb", value=5)
    list_.box.travel_to("2024-02-02T00:00:00Z")
    first, second = {"sum_agg": (1000, 500), "max_agg": (700, 500), "unique_count_agg": (200, 100)}[aggregation_type]
    assert billed_to(list_, "acme") == [first]
    assert billed_to(list_, "other") == [second]
    assert [str(finding) for finding in list_.box.billing.audit().findings] == []


def test_a_level_is_not_carried_over_to_the_next_customer_of_an_external_id_nor_through_their_upgrades(
    list_: PriceList,
) -> None:
    metric = list_.metric("gb", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    plans(list_, billable_metric_id=metric)
    list_.subscribe("small")
    list_.event("gb", value=31)
    list_.box.travel_to("2024-02-01T01:00:00Z")
    end(list_)
    list_.subscribe("small", external_customer_id="other")
    list_.box.travel_to("2024-02-11T00:00:00Z")
    of_other(list_)
    list_.box.travel_to(LATER)
    assert billed_to(list_, "other") == []


@pytest.mark.parametrize("recurring", [False, True])
def test_tiers_in_advance_do_not_go_on_where_another_customer_stood(list_: PriceList, recurring: bool) -> None:
    tiers = [
        {"from_value": 0, "to_value": 5, "per_unit_amount": "1", "flat_amount": "0"},
        {"from_value": 6, "to_value": None, "per_unit_amount": "3", "flat_amount": "0"},
    ]
    metric = list_.metric("gb", recurring=recurring)
    plans(
        list_,
        billable_metric_id=metric,
        charge_model="graduated",
        pay_in_advance=True,
        properties={"graduated_ranges": tiers},
    )
    list_.subscribe("large")
    list_.box.travel_to("2024-01-15T10:00:00Z")
    list_.event("gb", value=5)
    end(list_)
    of_other(list_)
    list_.event("gb", value=4)
    assert (billed_to(list_, "acme"), billed_to(list_, "other")) == ([500], [400])
    body = list_.get("/customers/other/current_usage?external_subscription_id=sub")["customer_usage"]
    assert body["amount_cents"] == 400


def test_a_subscription_begins_in_the_past_where_the_id_ceased_to_be_another_customers(list_: PriceList) -> None:
    plans(list_)
    list_.subscribe("small")
    list_.box.travel_to("2024-01-10T12:00:00Z")
    list_.event("gb", value=7)
    end(list_)
    list_.box.travel_to("2024-01-20T00:00:00Z")
    created = of_other(list_, subscription_at="2024-01-05T00:00:00Z")
    assert (created["subscription_at"], created["started_at"]) == (
        "2024-01-05T00:00:00Z",
        "2024-01-10T12:00:00.000Z",
    )
    list_.box.travel_to(LATER)
    assert (billed_to(list_, "acme"), billed_to(list_, "other")) == ([700], [])


def test_an_external_id_that_will_be_another_customers_is_taken(list_: PriceList) -> None:
    plans(list_)
    list_.subscribe("small", subscription_at="2024-01-05T00:00:00Z")
    body = {"external_customer_id": "other", "external_id": "sub", "plan_code": "large"}
    refused = list_.box.request("POST", "/api/v1/subscriptions", json={"subscription": body})
    assert (refused[0], refused[1]["error_details"]) == (422, {"external_id": ["value_already_exist"]})
    status, _ = list_.box.request("DELETE", "/api/v1/subscriptions/sub?status=pending")
    assert status == 200
    assert of_other(list_)["status"] == "active"


def test_an_end_that_is_overdue_frees_the_external_id(list_: PriceList) -> None:
    plans(list_)
    list_.subscribe("small", ending_at="2024-01-10T00:00:00Z")
    list_.box.jump_to("2024-01-12T00:00:00Z")
    assert of_other(list_)["status"] == "active"


def test_subscriptions_that_begin_and_end_at_one_instant_bill_what_came_during_each(list_: PriceList) -> None:
    billing = {"billing_configuration": {"invoice_grace_period": 3}}
    for external_id in ("acme", "other"):
        list_.post("/customers", customer={"external_id": external_id, **billing})
    plans(list_)
    for value, customer in ((3, "acme"), (5, "other"), (7, "acme")):
        list_.subscribe("small", external_customer_id=customer)
        list_.event("gb", value=value)
        end(list_)
    list_.box.travel_to(LATER)
    assert (billed_to(list_, "acme"), billed_to(list_, "other")) == ([300, 700], [500])


@pytest.mark.parametrize("recurring", [False, True])
def test_what_nobody_billed_of_a_customer_is_not_billed_to_the_next_one(list_: PriceList, recurring: bool) -> None:
    plans(list_, billable_metric_id=list_.metric("gb", recurring=recurring))
    list_.subscribe("small")
    list_.box.travel_to(CHANGE)
    list_.event("gb", value=7)
    status, _ = list_.box.request("DELETE", "/api/v1/subscriptions/sub?on_termination_invoice=skip")
    assert status == 200
    list_.event("gb", value=9)
    of_other(list_)
    list_.event("gb", value=1)
    list_.box.travel_to("2024-02-02T00:00:00Z")
    assert billed_to(list_, "other") == [100]
