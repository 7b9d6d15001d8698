"""Explanations of invoices, as a caller of the API sees them."""

from __future__ import annotations

from typing import Any

from tests.answers import missing
from tests.worlds import ask, invoices_of, subscribe

from usagebill.testing import Sandbox


def _billed(box: Sandbox) -> Any:
    """An invoice over 12 calls in a region, priced in two ranges, with a coupon and tax."""
    ask(box, "POST", "/taxes", {"tax": {"name": "VAT", "code": "vat", "rate": 20, "applied_to_organization": True}})
    ask(box, "POST", "/customers", {"customer": {"external_id": "acme", "currency": "EUR"}})
    metric = {
        "name": "Calls",
        "code": "calls",
        "aggregation_type": "sum_agg",
        "field_name": "count",
        "filters": [{"key": "region", "values": ["eu", "us"]}],
    }
    metric_id = ask(box, "POST", "/billable_metrics", {"billable_metric": metric})["billable_metric"]["svc_id"]
    ranges = [
        {"from_value": 0, "to_value": 10, "per_unit_amount": "1", "flat_amount": "0"},
        {"from_value": 11, "to_value": None, "per_unit_amount": "0.5", "flat_amount": "2"},
    ]
    charge = {
        "billable_metric_id": metric_id,
        "charge_model": "standard",
        "properties": {"amount": "9"},
        "filters": [{"values": {"region": ["eu"]}, "properties": {"amount": "1"}}],
    }
    graduated = {
        "billable_metric_id": metric_id,
        "charge_model": "graduated",
        "properties": {"graduated_ranges": ranges},
    }
    plan = {
        "name": "Basic",
        "code": "basic",
        "interval": "monthly",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        "charges": [charge, graduated],
    }
    ask(box, "POST", "/plans", {"plan": plan})
    coupon = {
        "name": "five",
        "code": "five",
        "coupon_type": "fixed_amount",
        "amount_cents": 500,
        "amount_currency": "EUR",
        "frequency": "once",
        "expiration": "no_expiration",
    }
    ask(box, "POST", "/coupons", {"coupon": coupon})
    ask(box, "POST", "/applied_coupons", {"applied_coupon": {"external_customer_id": "acme", "coupon_code": "five"}})
    subscribe(box)
    for name, region, count in (("t1", "eu", 5), ("t2", "eu", 7)):
        event = {
            "transaction_id": name,
            "code": "calls",
            "external_subscription_id": "sub",
            "properties": {"region": region, "count": count},
        }
        ask(box, "POST", "/events", {"event": event})
    box.travel_to("2024-02-01T01:00:00Z")
    (invoice,) = invoices_of(box)
    return invoice


def test_every_number_from_the_events_to_the_total() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        invoice = _billed(box)
        shown = ask(box, "GET", f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
        assert shown["total_amount_cents"] == invoice["total_amount_cents"]
        base, regional, graduated = shown["fees"]
        assert base["usage"] is None
        assert base["arithmetic"] == ["plan amount 1000 cents a period", "10.0 rounded to 10.0 EUR"]
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
            ("fees", 3500, 3500),
            ("coupon", -500, 3000),
            ("tax", 600, 3000),
            ("taxes", 600, 3600),
            ("total", 3600, 3600),
        ]


def test_events_that_came_after_the_invoice_explain_nothing() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        invoice = _billed(box)
        box.jump_to("2024-02-02T00:00:00Z")
        late = {
            "transaction_id": "late",
            "code": "calls",
            "external_subscription_id": "sub",
            "timestamp": 1704110400,
            "properties": {"region": "eu", "count": 100},
        }
        ask(box, "POST", "/events", {"event": late})
        shown = ask(box, "GET", f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
        assert [event["transaction_id"] for event in shown["fees"][1]["usage"]["events"]] == ["t1", "t2"]


def test_an_unknown_invoice_is_not_explained() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        assert missing(box.request("GET", "/api/v1/invoices/none/explain")) == "invoice"
