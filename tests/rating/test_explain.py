"""Explanations of invoices, as a caller of the API sees them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.json_asserts import missing
from tests.money import percent
from tests.scenarios import Scenario, charge_on, price_ranges

from usagebill.rating import explain


def _billed(box: Scenario) -> Any:
    """An invoice over 12 calls in a region, priced in two ranges, with a coupon and tax."""
    box.tax()
    box.customer()
    metric_id = box.metric("calls", field_name="count", filters=[{"key": "region", "values": ["eu", "us"]}])
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "2"))
    charge = charge_on(metric_id, amount="9", filters=[{"values": {"region": ["eu"]}, "properties": {"amount": "1"}}])
    graduated = charge_on(metric_id, "graduated", graduated_ranges=ranges)
    box.plan(charge, graduated, amount_cents=1000)
    box.coupon(500)
    box.subscribe()
    for name, region, count in (("t1", "eu", 5), ("t2", "eu", 7)):
        event = {
            "transaction_id": name,
            "code": "calls",
            "external_subscription_id": "sub",
            "properties": {"region": region, "count": count},
        }
        box.post("/events", event=event)
    box.travel_to("2024-02-01T01:00:00Z")
    (invoice,) = box.invoices()
    return invoice


def test_every_number_from_the_events_to_the_total() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        invoice = _billed(box)
        shown = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
        assert shown["total_amount_cents"] == invoice["total_amount_cents"]
        base, regional, graduated = shown["fees"]
        assert base["usage"] is None
        assert base["arithmetic"] == ["plan amount 10.0 x 31 / 31 days", "10.0 rounded to 10.0 EUR"]
        assert regional["usage"]["filters"] == {"region": ["eu"]}
        events = [(event["transaction_id"], event["value"]) for event in regional["usage"]["events"]]
        assert (events, regional["usage"]["events_complete"]) == ([("t1", "5"), ("t2", "7")], True)
        assert regional["arithmetic"] == ["12.0 units x 1.0 each", "12.0 rounded to 12.0 EUR"]
        assert graduated["arithmetic"] == [
            "10.0 units from 0 to 10 x 1.0 = 10.0, with the flat amount of 0.0: 10.0",
            "2.0 units from 11 and above x 0.5 = 1.0, with the flat amount of 2.0: 3.0",
            "13.0 rounded to 13.0 EUR",
        ]
        assert [fee["discounts"][0]["amount_cents"] for fee in shown["fees"]] == ["142.85714", "171.42857", "185.71429"]
        assert graduated["taxes"][0]["base_cents"] == "1114.28571"
        steps = [(step["step"], step["amount_cents"], step["result_cents"]) for step in shown["steps"]]
        assert steps == [
            ("fees", 1000 + 1200 + 1300, 3500),
            ("coupon", -500, 3500 - 500),
            ("tax", percent(3000, 20), 3000),
            ("taxes", 600, 3000 + 600),
            ("total", 3000 + 600, 3600),
        ]


def without_names(shown: Any) -> Any:
    """An explanation without the ids and the number that only a stored invoice has."""
    if isinstance(shown, list):
        return [without_names(item) for item in shown]
    if not isinstance(shown, dict):
        return shown
    return {
        name: without_names(value)
        for name, value in shown.items()
        if name not in ("number", "svc_invoice_id", "svc_fee_id")
    }


RANGES = price_ranges((0, 10, "1", "2"), (11, None, "0.5", "1"))


def test_part_of_a_period_with_minimums_and_prorated_quantities() -> None:
    with Scenario(now="2024-01-10T08:00:00Z") as box:
        box.customer()
        seats = box.metric("seats", recurring=True)
        seat = box.post(
            "/add_ons", add_on={"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"}
        )
        graduated = {"charge_model": "graduated", "prorated": True, "properties": {"graduated_ranges": RANGES}}
        calls = {"charge_model": "standard", "min_amount_cents": 1500, "properties": {"amount": "0.105"}}
        box.plan(
            {"billable_metric_id": box.metric("calls"), **calls},
            {"billable_metric_id": seats, **graduated},
            amount_cents=3100,
            fixed_charges=[{"add_on_id": seat["add_on"]["svc_id"], "units": 12, **graduated}],
            minimum_commitment={"amount_cents": 100000},
        )
        box.subscribe()
        for day, units in (("11", "3"), ("12", "4.5"), ("20", "6")):
            box.travel_to(f"2024-01-{day}T12:00:00Z")
            box.event("calls", value=units)
            box.event("seats", value=units)
        coming: Any = {"customer": {"external_id": "acme"}, "subscriptions": {"external_ids": ["sub"]}}
        foreseen = box.post("/invoices/preview/explain", **coming)["invoice_explanation"]
        assert box.invoices() == []
        box.travel_to("2024-02-01T04:00:00Z")
        (invoice,) = box.invoices()
        shown = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
        # Nothing has been used since, so what was foreseen has come, down to the events.
        assert without_names(foreseen) == without_names(shown)
        assert (foreseen["number"], foreseen["status"]) == ("", "finalized")
        base, calls_fee, true_up, seats_fee, fixed, commitment = shown["fees"]
        assert base["arithmetic"] == ["plan amount 31.0 x 22 / 31 days", "22.0 rounded to 22.0 EUR"]
        assert calls_fee["usage"]["counting"] == ["sum of value: 3.0 + 4.5 + 6.0 = 13.5"]
        assert true_up["arithmetic"] == [
            "minimum of 15.0 EUR x 22 / 31 days = 10.645161290322581",
            "less 1.42 of fees: 9.225161290322581",
            "rounded to 9.23 EUR",
        ]
        assert seats_fee["usage"]["counting"][-1] == "sum, rounded up to 5 decimals: 7.25807 prorated units"
        assert seats_fee["arithmetic"][-2:] == [
            "sum 6.580645161290323 + flat amounts of the ranges reached 3.0",
            "9.58064516129032258 rounded to 9.58 EUR",
        ]
        assert fixed["arithmetic"][:2] == ["12.0 units x 22 / 31 days = 8.516129", "prorated units: 8.516129"]
        assert fixed["arithmetic"][-2:] == [
            "sum 7.806451583333333 + flat amounts of the ranges reached 3.0",
            "10.80645158333333333 rounded to 10.81 EUR",
        ]
        counted = sum(fee["amount_cents"] for fee in shown["fees"] if fee is not commitment)
        assert commitment["arithmetic"] == [
            "minimum of 1000.0 EUR x 22 / 31 days = 709.67741935483871",
            "709.67741935483871 rounded to 709.68",
            f"less {counted / 100} of fees: {(70968 - counted) / 100}",
            f"rounded to {commitment['amount_cents'] / 100} EUR",
        ]


def test_prices_changed_since_leave_the_explanation_as_it_was_billed() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("seats", recurring=True)
        charge = {"billable_metric_id": metric, "charge_model": "standard", "prorated": True}
        box.plan({**charge, "code": "seats", "properties": {"amount": "31"}})
        box.subscribe()
        box.travel_to("2024-01-22T00:00:00Z")
        box.event("seats", value="1")
        box.travel_to("2024-02-01T04:00:00Z")
        (invoice,) = box.invoices()
        path = f"/invoices/{invoice['svc_id']}/explain"
        before = box.get(path)["invoice_explanation"]["fees"][-1]["arithmetic"]
        assert before == ["0.32259 prorated units x 31.0 = 10.00029", "10.00029 rounded to 10.0 EUR"]
        (old,) = box.get("/plans/basic")["plan"]["charges"]
        change = {"charges": [{"id": old["svc_id"], **charge, "properties": {"amount": "62"}}]}
        box.put("/plans/basic", plan=change)
        after = box.get(path)["invoice_explanation"]["fees"][-1]["arithmetic"]
        assert after == before


def test_events_that_came_after_the_invoice_explain_nothing() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        invoice = _billed(box)
        box.jump_to("2024-02-02T00:00:00Z")
        late = {
            "transaction_id": "late",
            "code": "calls",
            "external_subscription_id": "sub",
            "timestamp": 1704110400,
            "properties": {"region": "eu", "count": 100},
        }
        box.post("/events", event=late)
        shown = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
        assert [event["transaction_id"] for event in shown["fees"][1]["usage"]["events"]] == ["t1", "t2"]


def test_an_unknown_invoice_is_not_explained() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        assert missing(box.send("GET", "/invoices/none/explain")) == "invoice"


def test_an_event_paid_in_advance_costs_what_it_adds() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        charge = {"charge_model": "graduated", "pay_in_advance": True, "properties": {"graduated_ranges": RANGES}}
        box.plan({"billable_metric_id": box.metric("calls"), **charge})
        box.subscribe()
        box.travel_to("2024-01-05T00:00:00Z")
        box.event("calls", value="9")
        box.event("calls", value="3")
        invoice = next(invoice for invoice in box.invoices() if invoice["fees_amount_cents"] == 300)
        (fee,) = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]["fees"]
        assert fee["arithmetic"] == [
            "12.0 units with this event = 14.0: "
            "10.0 units from 0 to 10 x 1.0 = 10.0, with the flat amount of 2.0: 12.0; "
            "2.0 units from 11 and above x 0.5 = 1.0, with the flat amount of 1.0: 2.0",
            "9.0 units without it = 11.0: 9.0 units from 0 to 10 x 1.0 = 9.0, with the flat amount of 2.0: 11.0",
            "difference: 14.0 - 11.0",
            "3.0 rounded to 3.0 EUR",
        ]


def _grouped(box: Scenario) -> Any:
    """The explained usage by region of an invoice over two regions and an event without one."""
    box.customer()
    properties = {"amount": "1", "pricing_group_keys": ["region"]}
    box.plan(charge_on(box.metric("calls"), **properties))
    box.subscribe()
    for value, region in ((1, "eu"), (2, "us"), (3, "eu"), (4, None)):
        box.event("calls", value=value, region=region)
    box.travel_to("2024-02-01T02:00:00Z")
    (invoice,) = box.invoices()
    fees = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]["fees"]
    usages = [fee["usage"] for fee in fees if fee["type"] == "charge"]
    return {usage["grouped_by"]["region"]: usage for usage in usages}


def _values(usage: Any) -> list[str]:
    return [event["value"] for event in usage["events"]]


def test_each_group_shows_its_own_events() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        by_region = _grouped(box)
    assert {region: _values(usage) for region, usage in by_region.items()} == {
        "eu": ["1", "3"],
        "us": ["2"],
        None: ["4"],
    }
    assert all(usage["events_complete"] and usage["counting"] for usage in by_region.values())


def test_groups_of_too_many_events_show_the_earliest_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "MOST_GROUPED", 2)
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        by_region = _grouped(box)
    assert {region: _values(usage) for region, usage in by_region.items()} == {"eu": ["1"], "us": ["2"], None: []}
    assert not any(usage["events_complete"] for usage in by_region.values())
    assert {region: usage["counting"] for region, usage in by_region.items()} == {
        "eu": ["sum of value of 2 events: 4.0"],
        "us": ["sum of value of 1 events: 2.0"],
        None: ["sum of value of 1 events: 4.0"],
    }


@pytest.mark.parametrize(
    ("aggregation", "fields", "charge", "counting", "arithmetic"),
    [
        ("count_agg", {}, {}, ["number of events: 4.0"], "4.0 units x 1.0 each"),
        ("max_agg", {}, {}, ["largest value of 4 events: 4.0"], "4.0 units x 1.0 each"),
        ("latest_agg", {}, {}, ["latest value of 4 events: 4.0"], "4.0 units x 1.0 each"),
        ("unique_count_agg", {}, {}, ["number of distinct values of value: 4.0"], "4.0 units x 1.0 each"),
        (
            "sum_agg",
            {"rounding_function": "ceil", "rounding_precision": -1},
            {},
            ["sum of value of 4 events: 10.0", "ceil to -1 decimals"],
            "10.0 units x 1.0 each",
        ),
        (
            "sum_agg",
            {"recurring": True},
            {"prorated": True},
            ["sum of value of 4 events: 10.0", "sum, rounded up to 5 decimals: 4.83871 prorated units"],
            "4.83871 prorated units x 1.0 = 4.83871",
        ),
        (
            "weighted_sum_agg",
            {"recurring": True, "weighted_interval": "seconds"},
            {},
            ["value of 4 events weighed by how long each level was held: 4.838709677419355"],
            "4.8387096774193548 units x 1.0 each",
        ),
        (
            "sum_agg",
            {},
            {"charge_model": "dynamic", "properties": {}},
            ["sum of value of 4 events: 10.0"],
            "prices of 4 events: 1000.0 cents",
        ),
    ],
)
def test_too_many_events_are_explained_by_their_totals(
    monkeypatch: pytest.MonkeyPatch, aggregation: str, fields: Any, charge: Any, counting: list[str], arithmetic: str
) -> None:
    monkeypatch.setattr(explain, "MOST_COUNTED", 2)
    monkeypatch.setattr(explain, "MOST_EVENTS", 2)
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        metric = box.metric("calls", aggregation, **fields)
        box.plan({"billable_metric_id": metric, "charge_model": "standard", "properties": {"amount": "1"}, **charge})
        box.subscribe()
        box.travel_to("2024-01-17T00:00:00Z")
        for value in (1, 2, 3, 4):
            box.event("calls", value=value, cents=str(value * 100))
        box.travel_to("2024-02-01T02:00:00Z")
        (invoice,) = box.invoices()
        fee = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]["fees"][-1]
        assert (fee["usage"]["counting"], fee["arithmetic"][0]) == (counting, arithmetic)
        assert ([event["transaction_id"] for event in fee["usage"]["events"]]) == ["t1", "t2"]
        assert fee["usage"]["events_complete"] is False
        assert fee["usage"]["events_count"] == 4
        shown, total = _events_of(box, fee["svc_fee_id"])
        assert ([event["transaction_id"] for event in shown], total) == (["t1", "t2", "t3", "t4"], 4)


def _events_of(box: Scenario, fee_id: str) -> tuple[list[Any], int]:
    """All events of a fee, three a page, and how many there are said to be."""
    events: list[Any] = []
    page: int | None = 1
    total = 0
    while page is not None:
        shown = box.get(f"/fees/{fee_id}/events?page={page}&per_page=3")
        events += shown["events"]
        page, total = shown["meta"]["next_page"], shown["meta"]["total_count"]
    return events, total


def test_all_events_of_a_group_and_none_that_came_later() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        _grouped(box)
        late = {
            "transaction_id": "late",
            "code": "calls",
            "external_subscription_id": "sub",
            "timestamp": 1704110400,
            "properties": {"region": "eu", "value": 100},
        }
        box.post("/events", event=late)
        (invoice,) = box.invoices()
        base, *charges = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]["fees"]
        events_by_region = {fee["usage"]["grouped_by"]["region"]: _events_of(box, fee["svc_fee_id"]) for fee in charges}
        assert _events_of(box, base["svc_fee_id"]) == ([], 0)
    shown = {
        region: ([event["value"] for event in events], total) for region, (events, total) in events_by_region.items()
    }
    assert shown == {"eu": (["1", "3"], 2), "us": (["2"], 1), None: (["4"], 1)}


def test_the_event_that_was_paid_in_advance() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer()
        charge = {"charge_model": "standard", "pay_in_advance": True, "properties": {"amount": "1"}}
        box.plan({"billable_metric_id": box.metric("calls"), "invoiceable": False, **charge})
        box.subscribe()
        for value in (5, 6):
            box.event("calls", value=value)
        shown = box.get("/fees?fee_type=charge")["fees"]
        assert [_events_of(box, fee["svc_id"])[1] for fee in shown] == [1, 1]
        assert sorted(_events_of(box, fee["svc_id"])[0][0]["value"] for fee in shown) == ["5", "6"]
        assert missing(box.send("GET", "/fees/none/events")) == "fee"
