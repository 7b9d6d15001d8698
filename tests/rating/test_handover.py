"""Usage of the very instant at which one subscription follows another: one of the two bills it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.examples import mostly_slow
from tests.scenarios import Scenario, price_ranges

START, CHANGE, LATER = "2024-01-01T00:00:00Z", "2024-01-15T10:00:00.250Z", "2024-03-01T00:00:00Z"

pytestmark = [pytest.mark.now(START), pytest.mark.usefixtures("acme")]


def plans(box: Scenario, aggregation_type: str = "sum_agg", **charge: Any) -> None:
    charge = {
        "billable_metric_id": charge.get("billable_metric_id") or box.metric("gb", aggregation_type),
        "charge_model": "standard",
        "properties": {"amount": "1"},
        **charge,
    }
    box.plan(charge, code="small", amount_cents=100)
    box.plan(charge, code="large", amount_cents=200)


def change(box: Scenario, how: str) -> None:
    if how == "new":
        box.unsubscribe()
    box.subscribe("large")


def usage_fees(box: Scenario) -> list[int]:
    fees = box.get("/fees?fee_type=charge&per_page=100")["fees"]
    return sorted(fee["amount_cents"] for fee in fees if fee["amount_cents"])


@pytest.mark.parametrize("how", ["upgrade", "new"])
@pytest.mark.parametrize("aggregation_type", ["sum_agg", "max_agg"])
@pytest.mark.parametrize("grace", [0, 3])
def test_what_was_sent_before_the_change_is_billed_by_the_old_plan_and_what_came_after_by_the_new(
    box: Scenario, how: str, aggregation_type: str, grace: int
) -> None:
    box.customer(invoice_grace_period=grace)
    plans(box, aggregation_type)
    box.subscribe("small")
    box.travel_to(CHANGE)
    box.event("gb", value=7)
    change(box, how)
    assert box.usage()["amount_cents"] == 0
    box.event("gb", value=5)
    assert box.usage()["amount_cents"] == 500
    box.travel_to(LATER)
    assert usage_fees(box) == [500, 700]
    invoices = box.get("/invoices")["invoices"]
    explained = [box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"] for invoice in invoices]
    usages = [fee["usage"] for explanation in explained for fee in explanation["fees"] if fee["usage"]]
    assert sorted([event["value"] for event in usage["events"]] for usage in usages) == [["5"], ["7"]]
    assert [str(finding) for finding in box.billing.audit().findings] == []


def test_a_late_event_of_the_instant_of_the_change_is_billed_by_the_new_plan(box: Scenario) -> None:
    plans(box)
    box.subscribe("small")
    box.travel_to(CHANGE)
    change(box, "new")
    box.travel_to("2024-01-16T00:00:00Z")
    body = {
        "transaction_id": "late",
        "code": "gb",
        "external_subscription_id": "sub",
        "timestamp": "1705312800.250",
        "properties": {"value": 3},
    }
    box.post("/events", event=body)
    assert box.usage()["amount_cents"] == 3 * 100
    box.travel_to(LATER)
    assert usage_fees(box) == [3 * 100]


def test_where_nothing_billed_the_end_the_new_subscription_bills_its_instant(box: Scenario) -> None:
    plans(box)
    box.subscribe("small")
    box.travel_to(CHANGE)
    box.event("gb", value=7)
    status, _ = box.send("DELETE", "/subscriptions/sub?on_termination_invoice=skip")
    assert status == 200
    box.subscribe("large")
    box.travel_to(LATER)
    assert usage_fees(box) == [7 * 100]


@pytest.mark.parametrize("how", ["upgrade", "new"])
def test_tiers_in_advance_restart_after_the_change(box: Scenario, how: str) -> None:
    tiers = price_ranges((0, 5, "1", "0"), (6, None, "3", "0"))
    plans(box, charge_model="graduated", pay_in_advance=True, properties={"graduated_ranges": tiers})
    box.subscribe("small")
    box.travel_to(CHANGE)
    box.event("gb", value=5)
    change(box, how)
    box.event("gb", value=4)
    assert usage_fees(box) == [4 * 100, 5 * 100]


def of_other(box: Scenario, **fields: Any) -> Any:
    """The same external id, of another customer."""
    return box.subscribe("large", customer="other", **fields)


def billed_to(box: Scenario, customer: str) -> list[int]:
    fees = box.get(f"/fees?fee_type=charge&external_customer_id={customer}&per_page=100")["fees"]
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
@pytest.mark.parametrize("grace", mostly_slow([0, 3], 3))
@pytest.mark.parametrize("gap", ["", "2024-01-20T00:00:00Z"])
def test_nothing_that_a_customer_used_under_an_external_id_is_billed_to_the_next_one(
    box: Scenario, aggregation_type: str, recurring: bool, grace: int, gap: str
) -> None:
    box.customer(invoice_grace_period=grace)
    plans(box, aggregation_type, billable_metric_id=box.metric("gb", aggregation_type, recurring=recurring))
    box.subscribe("small")
    box.event("gb", value=3)
    box.travel_to(CHANGE)
    box.event("gb", value=7)
    box.unsubscribe()
    if gap:
        box.travel_to(gap)
    of_other(box)
    box.event("gb", value=5)
    box.travel_to("2024-02-02T00:00:00Z")
    first, second = {"sum_agg": (1000, 500), "max_agg": (700, 500), "unique_count_agg": (200, 100)}[aggregation_type]
    assert billed_to(box, "acme") == [first]
    assert billed_to(box, "other") == [second]
    assert [str(finding) for finding in box.billing.audit().findings] == []


def test_a_level_is_not_carried_over_to_the_next_customer_of_an_external_id_nor_through_their_upgrades(
    box: Scenario,
) -> None:
    metric = box.metric("gb", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    plans(box, billable_metric_id=metric)
    box.subscribe("small")
    box.event("gb", value=31)
    box.travel_to("2024-02-01T01:00:00Z")
    box.unsubscribe()
    box.subscribe("small", customer="other")
    box.travel_to("2024-02-11T00:00:00Z")
    of_other(box)
    box.travel_to(LATER)
    assert billed_to(box, "other") == []


@pytest.mark.parametrize("recurring", [False, True])
def test_tiers_in_advance_do_not_go_on_where_another_customer_stood(box: Scenario, recurring: bool) -> None:
    tiers = price_ranges((0, 5, "1", "0"), (6, None, "3", "0"))
    metric = box.metric("gb", recurring=recurring)
    plans(
        box,
        billable_metric_id=metric,
        charge_model="graduated",
        pay_in_advance=True,
        properties={"graduated_ranges": tiers},
    )
    box.subscribe("large")
    box.travel_to("2024-01-15T10:00:00Z")
    box.event("gb", value=5)
    box.unsubscribe()
    of_other(box)
    box.event("gb", value=4)
    assert (billed_to(box, "acme"), billed_to(box, "other")) == ([500], [400])
    body = box.get("/customers/other/current_usage?external_subscription_id=sub")["customer_usage"]
    assert body["amount_cents"] == 400


def test_a_subscription_begins_in_the_past_where_the_id_ceased_to_be_another_customers(box: Scenario) -> None:
    plans(box)
    box.subscribe("small")
    box.travel_to("2024-01-10T12:00:00Z")
    box.event("gb", value=7)
    box.unsubscribe()
    box.travel_to("2024-01-20T00:00:00Z")
    created = of_other(box, subscription_at="2024-01-05T00:00:00Z")
    assert (created["subscription_at"], created["started_at"]) == (
        "2024-01-05T00:00:00Z",
        "2024-01-10T12:00:00.000Z",
    )
    box.travel_to(LATER)
    assert (billed_to(box, "acme"), billed_to(box, "other")) == ([700], [])


def test_an_external_id_that_will_be_another_customers_is_taken(box: Scenario) -> None:
    plans(box)
    box.subscribe("small", subscription_at="2024-01-05T00:00:00Z")
    body = {"external_customer_id": "other", "external_id": "sub", "plan_code": "large"}
    refused = box.send("POST", "/subscriptions", {"subscription": body})
    assert (refused[0], refused[1]["error_details"]) == (422, {"external_id": ["value_already_exist"]})
    status, _ = box.send("DELETE", "/subscriptions/sub?status=pending")
    assert status == 200
    assert of_other(box)["status"] == "active"


def test_an_end_that_is_overdue_frees_the_external_id(box: Scenario) -> None:
    plans(box)
    box.subscribe("small", ending_at="2024-01-10T00:00:00Z")
    box.jump_to("2024-01-12T00:00:00Z")
    assert of_other(box)["status"] == "active"


def test_subscriptions_that_begin_and_end_at_one_instant_bill_what_came_during_each(box: Scenario) -> None:
    billing = {"billing_configuration": {"invoice_grace_period": 3}}
    for external_id in ("acme", "other"):
        box.customer(external_id, **billing)
    plans(box)
    for value, customer in ((3, "acme"), (5, "other"), (7, "acme")):
        box.subscribe("small", customer=customer)
        box.event("gb", value=value)
        box.unsubscribe()
    box.travel_to(LATER)
    assert (billed_to(box, "acme"), billed_to(box, "other")) == ([300, 700], [500])


@pytest.mark.parametrize("recurring", [False, True])
def test_what_nobody_billed_of_a_customer_is_not_billed_to_the_next_one(box: Scenario, recurring: bool) -> None:
    plans(box, billable_metric_id=box.metric("gb", recurring=recurring))
    box.subscribe("small")
    box.travel_to(CHANGE)
    box.event("gb", value=7)
    status, _ = box.send("DELETE", "/subscriptions/sub?on_termination_invoice=skip")
    assert status == 200
    box.event("gb", value=9)
    of_other(box)
    box.event("gb", value=1)
    box.travel_to("2024-02-02T00:00:00Z")
    assert billed_to(box, "other") == [100]


# The second of a start or a change, as senders have it who know whole seconds only.

SECOND, WITHIN = "2024-01-15T10:00:00Z", "2024-01-15T10:00:00.600Z"


def sent(box: Scenario, value: int, at: str = "1705312800") -> None:
    box.events("gb", {"value": value, "at": at})


@pytest.mark.parametrize(
    ("aggregation_type", "fields", "amount_cents"),
    [
        ("count_agg", {}, 100),
        ("sum_agg", {}, 700),
        ("max_agg", {}, 700),
        ("latest_agg", {}, 700),
        ("unique_count_agg", {}, 100),
        ("sum_agg", {"recurring": True}, 700),
        ("unique_count_agg", {"recurring": True}, 100),
    ],
)
@pytest.mark.parametrize("in_advance", mostly_slow([False, True], True))
def test_an_event_of_the_second_in_which_a_subscription_starts_is_billed(
    aggregation_type: str, fields: dict[str, Any], amount_cents: int, in_advance: bool
) -> None:
    if in_advance and aggregation_type in ("max_agg", "latest_agg"):
        return
    with Scenario(now=WITHIN) as box:
        box.customer()
        plans(box, billable_metric_id=box.metric("gb", aggregation_type, **fields), pay_in_advance=in_advance)
        box.subscribe("small")
        sent(box, 7)
        sent(box, 1000, "1705312799")
        if fields.get("recurring"):
            # What there was before is carried over.
            amount_cents = {"sum_agg": 100_700, "unique_count_agg": 200}[aggregation_type]
        assert box.usage()["amount_cents"] == amount_cents
        assert [
            event["timestamp"]
            for event in box.get("/events?external_subscription_id=sub&timestamp_from_started_at=true")["events"]
        ] == ["2024-01-15T10:00:00.000Z"]
        box.travel_to("2024-02-02T00:00:00Z")
        if not fields.get("recurring"):
            assert usage_fees(box) == [amount_cents]
        assert [str(finding) for finding in box.billing.audit().findings] == []


@pytest.mark.parametrize("how", ["upgrade", "new"])
@pytest.mark.parametrize("in_advance", [False, True])
def test_the_second_of_a_change_is_billed_once_by_the_plan_that_there_was_when_events_came(
    box: Scenario, how: str, in_advance: bool
) -> None:
    plans(box, pay_in_advance=in_advance)
    box.subscribe("small")
    box.travel_to("2024-01-15T10:00:00.300Z")
    sent(box, 7)
    sent(box, 5, "1705312800.200")
    box.travel_to(WITHIN)
    change(box, how)
    sent(box, 3)
    sent(box, 2, "1705312800.500")
    box.travel_to("2024-01-15T10:00:00.900Z")
    sent(box, 1)
    assert box.usage()["amount_cents"] == (3 + 2 + 1) * 100
    box.travel_to(LATER)
    assert sum(usage_fees(box)) == (7 + 5 + 3 + 2 + 1) * 100
    if not in_advance:
        assert usage_fees(box) == [(3 + 2 + 1) * 100, (7 + 5) * 100]
    assert [str(finding) for finding in box.billing.audit().findings] == []


def test_what_lies_between_an_end_and_a_new_start_of_the_same_second_is_the_new_ones(box: Scenario) -> None:
    plans(box)
    box.subscribe("small")
    box.travel_to("2024-01-15T10:00:00.300Z")
    sent(box, 7)
    box.unsubscribe()
    box.travel_to(WITHIN)
    box.subscribe("large")
    sent(box, 5, "1705312800.450")
    sent(box, 3)
    assert box.usage()["amount_cents"] == (5 + 3) * 100
    box.travel_to(LATER)
    assert usage_fees(box) == [7 * 100, (5 + 3) * 100]


def test_a_level_set_in_the_second_of_the_start_holds_from_the_start() -> None:
    with Scenario(now="2024-01-01T00:00:00.600Z") as box:
        box.customer()
        metric = box.metric("gb", "weighted_sum_agg", weighted_interval="seconds")
        plans(box, billable_metric_id=metric)
        box.subscribe("small")
        sent(box, 31 * 86400, "1704067200")
        # Held for all of the month but 0.6 seconds.
        assert box.usage()["charges_usage"][0]["units"] == "2678399.4"
