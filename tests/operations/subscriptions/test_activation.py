"""Subscriptions that wait for their first payment, beside what the conformance scenarios say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario, charge_on

from usagebill.operations.audit import audit

pytestmark = [pytest.mark.now("2024-03-05T09:00:00Z")]

RULE = {"type": "payment", "timeout_hours": 0}


class Gate:
    """A customer of a provider that says at first that charges are being processed."""

    def __init__(self, box: Scenario, stripe: StripeServer) -> None:
        self.box = box
        self.stripe = stripe
        stripe.knows("cus_1", "pm_1")
        self.path = box.connect_payment_provider("stripe", code="main", url=stripe.url, **stripe.credentials)
        box.customer(
            billing_configuration={
                "payment_provider": "stripe",
                "payment_provider_code": "main",
                "provider_customer_id": "cus_1",
            }
        )
        box.run_due()

    def subscribe(self, plan: str = "basic", **fields: Any) -> Any:
        self.stripe.outcomes.append("processing")
        made = self.box.subscribe(plan, activation_rules=[RULE], **fields)
        self.box.run_due()
        return made

    def tell(self, outcome: str) -> None:
        """The provider says what the latest charge has come to."""
        notice = self.stripe.payment_event(list(self.stripe.intents)[-1], outcome)
        assert self.box.receive(self.path, notice.body, dict(notice.headers)) == 200
        self.box.run_due()

    def issued(self) -> list[Any]:
        """Every invoice that anybody sees, oldest first."""
        listed = self.box.get("/invoices")["invoices"]
        return [self.box.invoice(invoice["svc_id"]) for invoice in reversed(listed)]


@pytest.fixture
def gate(box: Scenario) -> Iterator[Gate]:
    with StripeServer(now=lambda: box.now) as stripe:
        yield Gate(box, stripe)


def sound(box: Scenario) -> bool:
    return box.billing.reading(audit).findings == ()


def test_a_start_that_is_moved_to_today_waits_for_its_first_payment(box: Scenario, gate: Gate) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe(subscription_at="2024-03-20T00:00:00Z")
    path = "/subscriptions/sub?status=pending"
    moved = box.put(path, subscription={"subscription_at": "2024-03-05T08:00:00Z"})["subscription"]
    assert moved["status"] == "pending"
    box.run_due()
    [rule] = box.get("/subscriptions/sub?status=incomplete")["subscription"]["activation_rules"]
    assert (rule["status"], gate.issued()) == ("pending", [])
    gate.tell("succeeded")
    assert box.get("/subscriptions/sub")["subscription"]["status"] == "active"
    [invoice] = gate.issued()
    assert invoice["fees_amount_cents"] == 3100 * 27 / 31


def test_a_start_that_is_moved_to_an_earlier_day_waits_for_no_payment(box: Scenario, gate: Gate) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe(subscription_at="2024-03-20T00:00:00Z")
    path = "/subscriptions/sub?status=pending"
    moved = box.put(path, subscription={"subscription_at": "2024-03-04T08:00:00Z"})["subscription"]
    assert (moved["status"], moved["activation_rules"]) == ("active", [])
    assert gate.issued() == []


def test_every_period_that_passed_while_it_waited_is_billed(box: Scenario, gate: Gate) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe()
    box.travel_to("2024-05-10T12:00:00Z")
    assert gate.issued() == []
    gate.tell("succeeded")
    periods = [
        (
            period["subscription_from_datetime"][:10],
            period["subscription_to_datetime"][:10],
            invoice["fees_amount_cents"],
        )
        for invoice in gate.issued()
        for period in invoice["billing_periods"]
    ]
    days_of_march = 27
    assert sorted(periods) == [
        ("2024-03-05", "2024-03-31", 3100 * days_of_march // 31),
        ("2024-04-01", "2024-04-30", 3100),
        ("2024-05-01", "2024-05-31", 3100),
    ]
    box.travel_to("2024-06-01T01:00:00Z")
    assert len(gate.issued()) == 4
    assert sound(box)


def test_what_the_first_invoice_used_is_there_again_if_it_is_not_paid(box: Scenario, gate: Gate) -> None:
    coupon = {
        "code": "ten",
        "name": "Ten",
        "coupon_type": "fixed_amount",
        "amount_cents": 1000,
        "amount_currency": "EUR",
    }
    box.post("/coupons", coupon={**coupon, "frequency": "once", "expiration": "no_expiration"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "ten"})
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "5"}
    box.post("/wallets", wallet=wallet)
    box.run_due()
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe()
    (intent,) = gate.stripe.intents.values()
    assert intent["amount"] == 3100 * 27 // 31 - 1000 - 500
    gate.tell("payment_failed")
    assert box.get("/wallets?external_customer_id=acme")["wallets"][0]["balance_cents"] == 500
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert (applied["status"], applied["amount_cents_remaining"]) == ("active", 1000)
    assert gate.issued() == []
    assert sound(box)


def test_a_wallet_that_has_ended_says_what_an_unpaid_first_invoice_did_not_give_back(box: Scenario, gate: Gate) -> None:
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "5"}
    path = f"/wallets/{box.post('/wallets', wallet=wallet)['wallet']['svc_id']}"
    box.run_due()
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe()
    box.delete(path)
    assert "lost_credits" not in box.get(path)["wallet"]
    gate.tell("payment_failed")
    shown = box.get(path)["wallet"]
    assert (shown["balance_cents"], shown["lost_credits"]) == (0, "5.0")


@pytest.mark.parametrize("end", ["customer", "plan"])
def test_what_is_deleted_waits_no_more(box: Scenario, gate: Gate, end: str) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    gate.subscribe()
    box.delete("/customers/acme" if end == "customer" else "/plans/basic")
    box.run_due()
    canceled = [sent for sent in box.webhooks if sent["webhook_type"] == "subscription.canceled"]
    assert [sent["subscription"]["status"] for sent in canceled] == ["canceled"]
    assert [rule["status"] for rule in canceled[0]["subscription"]["activation_rules"]] == ["declined"]
    assert [intent["status"] for intent in gate.stripe.intents.values()] == ["canceled"]


def test_usage_is_of_the_plan_before_until_the_new_plan_is_paid(box: Scenario, gate: Gate) -> None:
    metric = box.metric("gb")
    box.plan(charge_on(metric, amount="1"), code="old", amount_cents=0)
    box.plan(charge_on(metric, amount="10"), code="new", amount_cents=3100, pay_in_advance=True)
    box.subscribe("old")
    gate.subscribe("new")
    box.travel_to("2024-03-10T09:00:00Z")
    box.event("gb", value=3)
    box.travel_to("2024-03-20T09:00:00Z")
    gate.tell("succeeded")
    box.travel_to("2024-03-25T09:00:00Z")
    box.event("gb", value=2)
    box.travel_to("2024-04-01T01:00:00Z")
    usage = [
        fee["amount_cents"] for invoice in gate.issued() for fee in invoice["fees"] if fee["item"]["type"] == "charge"
    ]
    assert [cents for cents in usage if cents] == [3 * 100, 2 * 1000]


def test_an_end_of_the_plan_before_ends_the_wait_too(box: Scenario, gate: Gate) -> None:
    box.plan(code="old", amount_cents=100)
    box.plan(code="new", amount_cents=3100, pay_in_advance=True)
    box.subscribe("old", ending_at="2024-03-20T00:00:00Z")
    gate.subscribe("new")
    box.travel_to("2024-03-21T00:00:00Z")
    statuses = {
        subscription["plan_code"]: subscription["status"]
        for status in ("terminated", "canceled")
        for subscription in box.get(f"/subscriptions?status[]={status}")["subscriptions"]
    }
    assert statuses == {"old": "terminated", "new": "canceled"}
