"""One record of most kinds, and for each operation a request that it accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.worlds import ask
from usagebill.http.endpoints import Endpoint
from usagebill.testing import Sandbox

__all__ = ["event", "path_of", "plan", "valid_bodies", "world"]

AMOUNT = {"amount": "1"}


def world(box: Sandbox) -> dict[str, str]:
    """One record of most kinds; path parameters by name, with the resource where the name alone does not tell."""
    ask(box, "POST", "/taxes", {"tax": {"name": "VAT", "code": "vat", "rate": "20"}})
    ask(box, "POST", "/customers", {"customer": {"external_id": "acme", "currency": "EUR"}})
    cloud = [{"key": "cloud", "values": ["aws", "gcp"]}]
    metric = {"name": "Gb", "code": "gb", "aggregation_type": "sum_agg", "field_name": "value", "filters": cloud}
    metric_id = ask(box, "POST", "/billable_metrics", {"billable_metric": metric})["billable_metric"]["svc_id"]
    seat = {"name": "Seat", "code": "seat", "amount_cents": 100, "amount_currency": "EUR"}
    ask(box, "POST", "/add_ons", {"add_on": seat})
    shown = ask(box, "POST", "/plans", {"plan": plan("basic", metric_id)})["plan"]
    ask(box, "POST", "/plans", {"plan": plan("unused", metric_id)})
    for external_id in ("sub", "sub2"):
        sent = {"external_customer_id": "acme", "plan_code": "basic", "external_id": external_id}
        ask(box, "POST", "/subscriptions", {"subscription": sent})
    ask(box, "POST", "/events", {"event": event("t1")})
    coupon = {"name": "C", "code": "ten", "coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
    ask(box, "POST", "/coupons", {"coupon": {**coupon, "expiration": "no_expiration"}})
    applied = {"external_customer_id": "acme", "coupon_code": "ten"}
    applied_id = ask(box, "POST", "/applied_coupons", {"applied_coupon": applied})["applied_coupon"]["svc_id"]
    one_off = {"external_customer_id": "acme", "fees": [{"add_on_code": "seat", "units": 2}]}
    invoice = ask(box, "POST", "/invoices", {"invoice": one_off})["invoice"]
    listener = ask(box, "POST", "/webhook_endpoints", {"webhook_endpoint": {"webhook_url": "https://listener.example"}})
    charge = shown["charges"][0]
    return {
        "metric": metric_id,
        "add_ons": "seat",
        "billable_metrics": "gb",
        "billing_entities": "default",
        "coupons": "ten",
        "customers": "acme",
        "plans": "basic",
        "subscriptions": "sub",
        "taxes": "vat",
        "webhook_endpoints": listener["webhook_endpoint"]["svc_id"],
        "charge_code": charge["code"],
        "filter_id": charge["filters"][0]["svc_id"],
        "fixed_charge_code": "seats",
        "transaction_id": "t1",
        "applied_coupon_id": applied_id,
        "invoice_id": invoice["svc_id"],
        "fee_id": invoice["fees"][0]["svc_id"],
        "key": "tier",
    }


def plan(code: str, metric_id: str) -> dict[str, Any]:
    filters = [{"values": {"cloud": ["aws"]}, "properties": AMOUNT}]
    return {
        "name": "Plan",
        "code": code,
        "interval": "monthly",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        "tax_codes": ["vat"],
        "metadata": {"tier": "gold"},
        "minimum_commitment": {"amount_cents": 500, "tax_codes": ["vat"]},
        "usage_thresholds": [{"amount_cents": 100_000, "recurring": False}],
        "charges": [
            {"billable_metric_id": metric_id, "charge_model": "standard", "properties": AMOUNT, "filters": filters},
            {
                "billable_metric_id": metric_id,
                "charge_model": "package",
                "properties": {**AMOUNT, "package_size": 5, "free_units": 1},
            },
            {
                "billable_metric_id": metric_id,
                "charge_model": "graduated",
                "properties": {
                    "graduated_ranges": [
                        {"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "0"},
                    ]
                },
            },
            {
                "billable_metric_id": metric_id,
                "charge_model": "percentage",
                "pay_in_advance": True,
                "properties": {"rate": "1", "free_units_per_events": 1},
            },
        ],
        "fixed_charges": [
            {"add_on_code": "seat", "code": "seats", "charge_model": "standard", "units": 3, "properties": AMOUNT}
        ],
    }


def event(transaction_id: str) -> dict[str, Any]:
    used = {"value": "5", "cloud": "aws"}
    return {"transaction_id": transaction_id, "code": "gb", "external_subscription_id": "sub", "properties": used}


def valid_bodies(world: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """By input class, something that would be accepted if nothing were odd about it."""
    whole = plan("other", world["metric"])
    return {
        "AddOnInput": {"name": "A", "code": "a", "amount_cents": 100, "amount_currency": "EUR", "tax_codes": ["vat"]},
        "BillableMetricInput": {"name": "M", "code": "m", "aggregation_type": "sum_agg", "field_name": "u"},
        "ExpressionInput": {"expression": "event.properties.a + 1", "event": {"properties": {"a": "1"}}},
        "CouponInput": {
            "name": "C",
            "code": "c",
            "coupon_type": "fixed_amount",
            "amount_cents": 100,
            "amount_currency": "EUR",
            "frequency": "once",
            "expiration": "no_expiration",
            "applies_to": {"plan_codes": ["basic"]},
        },
        "AppliedCouponInput": {"external_customer_id": "acme", "coupon_code": "ten"},
        "CreditNoteInput": {
            "invoice_id": world["invoice_id"],
            "credit_amount_cents": 10,
            "items": [{"fee_id": world["fee_id"], "amount_cents": 10}],
        },
        "CreditNoteEstimateInput": {
            "invoice_id": world["invoice_id"],
            "items": [{"fee_id": world["fee_id"], "amount_cents": 10}],
        },
        "CustomerInput": {"external_id": "acme", "metadata": [{"key": "k", "value": "v"}]},
        "EventInput": event("t2"),
        "EventsInput": {"events": [event("t3")]},
        "OneOffInput": {"external_customer_id": "acme", "fees": [{"add_on_code": "seat", "units": 2}]},
        "PreviewInput": {"customer": {"external_id": "acme"}, "plan_code": "basic", "billing_time": "anniversary"},
        "PlanInput": whole,
        "ChargeInput": {**whole["charges"][0], "code": "new"},
        "ChargeFilterInput": whole["charges"][0]["filters"][0],
        "FixedChargeInput": whole["fixed_charges"][0],
        "SubscriptionInput": {"external_customer_id": "acme", "plan_code": "basic", "external_id": "new"},
        "TaxInput": {"name": "T", "code": "t", "rate": "10"},
        "WebhookEndpointInput": {"webhook_url": "https://other.example"},
        "PaymentInput": {"invoice_id": world["invoice_id"], "amount_cents": 5, "reference": "bank"},
        "MetadataInput": {"metadata": {"tier": "gold"}},
    }


def path_of(endpoint: Endpoint, world: Mapping[str, str], odd: Mapping[str, str]) -> str:
    resource = endpoint.path.split("/")[1]

    def filled(found: re.Match[str]) -> str:
        name = found.group(1)
        return odd.get(name) or world.get(name) or world.get(resource) or "00000000-0000-0000-0000-000000000000"

    return "/api/v1" + re.sub(r"{(\w+)}", filled, endpoint.path)
