"""Previews of customers that have all sorts of things that an invoice uses up or waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.operations.invoices.test_preview import billed, next_invoice, preview
from tests.provider import Provider
from tests.scenarios import Scenario, charge_on

pytestmark = pytest.mark.slow

LINK = {"integration_type": "anrok", "integration_code": "main", "sync_with_provider": True}
COUPON = {"name": "Off", "code": "off", "expiration": "no_expiration"}
COUPONS: dict[str, dict[str, Any]] = {
    "once": {"coupon_type": "fixed_amount", "amount_cents": 900, "amount_currency": "EUR", "frequency": "once"},
    "twice": {
        "coupon_type": "fixed_amount",
        "amount_cents": 1500,
        "amount_currency": "EUR",
        "frequency": "recurring",
        "frequency_duration": 2,
    },
    "part": {"coupon_type": "percentage", "percentage_rate": "33.3", "frequency": "forever"},
}


@examples(30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    act=st.sampled_from(["run", "end", "upgrade", "downgrade"]),
    provided=st.booleans(),
    coupon=st.sampled_from(["", *COUPONS]),
    credited=st.sampled_from([0, 0, 500, 4000]),
    threshold=st.sampled_from([0, 1000, 3000]),
    grace=st.sampled_from([0, 0, 3, 40]),
    advance=st.booleans(),
    values=st.lists(st.integers(1, 20), max_size=4),
    at_once=st.booleans(),
    committed=st.sampled_from([0, 8000]),
    second=st.booleans(),
    days=st.integers(0, 40),
)
def test_a_preview_equals_the_invoice_whatever_the_customer_has(
    act: str,
    provided: bool,
    coupon: str,
    credited: int,
    threshold: int,
    grace: int,
    advance: bool,
    values: list[int],
    at_once: bool,
    committed: int,
    second: bool,
    days: int,
) -> None:
    with Scenario(now="2024-02-14T15:00:00Z", tax_provider=Provider()) as box:
        linked: dict[str, Any] = {}
        if provided:
            box.billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example")
            linked = {"integration_customers": [LINK]}
        box.customer(billing_configuration={"invoice_grace_period": grace}, **linked)
        box.tax()
        box.add_on("seat", 5000)
        gb, calls = box.metric("gb"), box.metric("calls")
        charges = (
            charge_on(gb, amount="1.234"),
            charge_on(calls, amount="0.37", pay_in_advance=at_once),
        )
        fixed = {"add_on_code": "seat", "charge_model": "standard", "units": 2, "properties": {"amount": "3"}}
        fields: dict[str, Any] = {
            "fixed_charges": [fixed, {**fixed, "pay_in_advance": True, "prorated": True}],
            **({"minimum_commitment": {"amount_cents": committed}} if committed else {}),
            **({"usage_thresholds": [{"amount_cents": threshold, "recurring": True}]} if threshold else {}),
        }
        box.plan(*charges, amount_cents=3000, pay_in_advance=advance, **fields)
        changed = 5000 if act == "upgrade" else 1000
        box.plan(*charges, code="other", amount_cents=changed, pay_in_advance=advance, **fields)
        if credited:
            one_off = box.post(
                "/invoices",
                invoice={"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "seat"}]},
            )["invoice"]
            fee = box.invoice(one_off["svc_id"])["fees"][0]
            note = {"invoice_id": one_off["svc_id"], "reason": "other", "credit_amount_cents": credited}
            item = {"fee_id": fee["svc_id"], "amount_cents": fee["amount_cents"] * credited // 6000}
            rate = 1.1 if provided else 1.2
            note["credit_amount_cents"] = round(item["amount_cents"] * rate)
            box.post("/credit_notes", credit_note={**note, "items": [item]})
        if coupon:
            box.post("/coupons", coupon={**COUPON, **COUPONS[coupon]})
            box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
        box.subscribe()
        names = ["sub"]
        if second and act == "run":
            box.subscribe("other", "second")
            names.append("second")
        box.travel_to(box.now + timedelta(days=days, hours=1))
        for value in values:
            box.event("gb", value=value)
            box.event("calls", value=value)
            box.travel_to(box.now + timedelta(minutes=5))
        box.travel_to(box.now + timedelta(hours=2))
        subscriptions: dict[str, Any] = {"external_ids": names}
        if act == "end":
            subscriptions["terminated_at"] = box.now.isoformat()
        elif act != "run":
            subscriptions["plan_code"] = "other"
        known = {invoice["svc_id"] for invoice in box.get("/invoices")["invoices"]}
        jobs = box.billing.next_due()
        heard = len(box.webhooks)
        expected = preview(box, subscriptions=subscriptions)
        assert billed(preview(box, subscriptions=subscriptions), dated=True) == billed(expected, dated=True)
        assert {line["invoice"]["svc_id"] for line in expected["credits"]}.isdisjoint(known)
        assert (box.billing.next_due(), len(box.webhooks)) == (jobs, heard)
        assert {invoice["svc_id"] for invoice in box.get("/invoices")["invoices"]} == known
        if act == "end":
            box.request("DELETE", "/api/v1/subscriptions/sub")
        elif act != "run":
            box.subscribe("other")
        real = next_invoice(box, known)
        assert real["status"] == "finalized"
        assert billed(real, dated=not grace) == billed(expected, dated=not grace)
        assert real["progressive_billing_credit_amount_cents"] == expected["progressive_billing_credit_amount_cents"]
