"""Wallets that are topped up when their ongoing balance is low: soon, once, and not while payments fail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, plan_fields

from usagebill import Billing
from usagebill.runtime.clock import ManualClock

pytestmark = [
    pytest.mark.now("2025-01-15T10:00:00Z"),
    pytest.mark.usefixtures("acme"),
    # Rules of the threshold trigger have no interval there.
    pytest.mark.beyond_reference,
]

BUYS_TEN = {"trigger": "threshold", "threshold_credits": "5", "paid_credits": "10"}
GRANTS_TEN: Any = {"trigger": "threshold", "threshold_credits": "5", "granted_credits": "10"}


def later(box: Scenario, **time: float) -> None:
    box.travel_to(box.now + timedelta(**time))


def wallet_with(box: Scenario, rule: dict[str, Any], **fields: Any) -> str:
    """The id of a wallet of 10.00 with this rule; usage costs 1.00 a unit."""
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "granted_credits": "10"}
    body = {**wallet, "recurring_transaction_rules": [rule], **fields}
    return str(box.post("/wallets", wallet=body)["wallet"]["svc_id"])


def top_ups(box: Scenario, wallet_id: str) -> list[tuple[str, str, str]]:
    """Kind, status and credits of what rules have added, oldest first."""
    listed = box.get(f"/wallets/{wallet_id}/wallet_transactions?per_page=1000")["wallet_transactions"]
    return [
        (item["transaction_status"], item["status"], item["credit_amount"])
        for item in reversed(listed)
        if item["source"] == "threshold"
    ]


def pay(box: Scenario, status: str = "succeeded") -> None:
    """What becomes of the payment of the latest top-up invoice."""
    invoice = box.get("/invoices?invoice_type=credit")["invoices"][0]
    box.put(f"/invoices/{invoice['svc_id']}", invoice={"payment_status": status})


def test_what_a_rule_adds_comes_two_seconds_after_the_balance_has_fallen(box: Scenario) -> None:
    wallet_id = wallet_with(box, GRANTS_TEN)
    box.event("gb", value=6)
    later(box, seconds=1)
    assert top_ups(box, wallet_id) == []
    later(box, seconds=1)
    assert top_ups(box, wallet_id) == [("granted", "settled", "10.0")]


def test_falls_within_two_seconds_are_made_up_for_once(box: Scenario) -> None:
    wallet_id = wallet_with(box, GRANTS_TEN)
    for _ in range(3):
        box.event("gb", value=2)
        later(box, milliseconds=500)
    box.event("gb", value=1)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [("granted", "settled", "10.0")]


def test_a_purchase_that_waits_for_its_payment_holds_the_next_one_back(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    box.event("gb", value=6)
    later(box, seconds=2)
    box.event("gb", value=2)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [("purchased", "pending", "10.0")]
    # 2 credits are left, 10 wait: at 15 used, 5 would be.
    box.event("gb", value=7)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [("purchased", "pending", "10.0")] * 2


def test_a_purchase_whose_invoice_was_voided_holds_nothing_back(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    box.event("gb", value=6)
    later(box, minutes=1)
    (invoice,) = box.get("/invoices?invoice_type=credit")["invoices"]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert top_ups(box, wallet_id) == [("purchased", "pending", "10.0")]
    box.event("gb", value=1)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [("purchased", "pending", "10.0")] * 2


def test_a_rule_whose_payment_failed_buys_nothing_for_an_hour(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    failed = ("purchased", "failed", "10.0")
    box.event("gb", value=6)
    later(box, seconds=2)
    pay(box, "failed")
    later(box, minutes=10)
    box.event("gb", value=1)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [failed]
    later(box, minutes=50)
    box.event("gb", value=1)
    later(box, seconds=2)
    assert top_ups(box, wallet_id) == [failed, ("purchased", "pending", "10.0")]


def test_credits_that_are_paid_for_lift_the_hour_and_granted_ones_do_not(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    failed = ("purchased", "failed", "10.0")
    box.event("gb", value=6)
    later(box, seconds=2)
    pay(box, "failed")
    later(box, minutes=10)
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "granted_credits": "0.5"})
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [failed]
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "paid_credits": "0.5"})
    later(box, minutes=1)
    pay(box)
    later(box, seconds=2)
    assert top_ups(box, wallet_id) == [failed, ("purchased", "pending", "10.0")]


def test_a_manual_purchase_that_failed_holds_no_rule_back(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "paid_credits": "1"})
    pay(box, "failed")
    box.event("gb", value=6)
    later(box, seconds=2)
    assert top_ups(box, wallet_id) == [("purchased", "pending", "10.0")]


def test_a_rule_that_only_grants_waits_for_no_payment(box: Scenario) -> None:
    wallet_id = wallet_with(box, BUYS_TEN)
    box.event("gb", value=6)
    later(box, seconds=2)
    pay(box, "failed")
    box.put(f"/wallets/{wallet_id}", wallet={"recurring_transaction_rules": [GRANTS_TEN]})
    box.event("gb", value=1)
    later(box, seconds=2)
    assert top_ups(box, wallet_id) == [("purchased", "failed", "10.0"), ("granted", "settled", "10.0")]


def test_a_target_rule_grants_what_is_missing_or_buys_the_least_amount(box: Scenario) -> None:
    target = {"trigger": "threshold", "threshold_credits": "5", "method": "target", "target_ongoing_balance": "10"}
    granting = wallet_with(box, {**target, "grants_target_top_up": True})
    box.event("gb", value=6)
    later(box, seconds=2)
    assert top_ups(box, granting) == [("granted", "settled", "6.0")]
    assert box.get(f"/wallets/{granting}")["wallet"]["credits_balance"] == "16.0"
    assert box.get("/invoices")["invoices"] == []
    box.put(
        f"/wallets/{granting}", wallet={"recurring_transaction_rules": [target], "paid_top_up_min_amount_cents": 5000}
    )
    box.event("gb", value=6)
    later(box, seconds=2)
    assert top_ups(box, granting)[1:] == [("purchased", "pending", "50.0")]


def test_a_rule_may_ignore_the_limits_of_its_wallet(box: Scenario) -> None:
    """An invoice takes 6.00 of 10.00; the rule buys less than the wallet's least amount."""
    rule = {**BUYS_TEN, "ignore_paid_top_up_limits": True}
    wallet_id = wallet_with(box, rule, paid_top_up_min_amount_cents=10_000)
    box.event("gb", value=6)
    later(box, seconds=2)
    pay(box)
    later(box, days=20)
    wallet = box.get(f"/wallets/{wallet_id}")["wallet"]
    assert (wallet["balance_cents"], wallet["consumed_credits"]) == (1000 + 1000 - 6 * 100, "6.0")


@pytest.mark.parametrize("late", [False, True])
def test_falls_while_nothing_ran_are_made_up_for_as_of_their_moments(late: bool) -> None:
    """Ten a month are billed: from the second invoice on there is too little, and the rule grants ten each time."""
    clock = ManualClock(datetime(2025, 1, 15, tzinfo=UTC))
    with Billing(":memory:", clock=clock, deliver=False) as billing:
        metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="count_agg")
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="1"), amount_cents=1000))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        wallet = billing.wallets.create(
            external_customer_id="acme", rate_amount="1", granted_credits="13", recurring_transaction_rules=[GRANTS_TEN]
        )
        billing.run_due()
        end = datetime(2025, 5, 15, tzinfo=UTC)
        while not late and (due := billing.next_due()) is not None and due <= end:
            clock.set(due)
            billing.run_due()
        clock.set(end)
        # Events are taken in while nothing runs.
        billing.events.create(transaction_id="t", code="gb", external_subscription_id="sub")
        billing.run_due()
        moves = billing.wallet_transactions.list_of_wallet(wallet.id).items
        granted = [move.created_at for move in reversed(moves) if move.source == "threshold"]
        assert [f"{instant:%m-%d %H:%M:%S}" for instant in granted] == [
            *("03-01 00:10:02", "04-01 00:10:02", "05-01 00:10:02")
        ]


def test_each_depletion_is_announced_once(box: Scenario) -> None:
    wallet_id = wallet_with(box, {**GRANTS_TEN, "threshold_credits": "0"})

    def depletions() -> int:
        return len(box.webhook_types("wallet.depleted_ongoing_balance"))

    # The wallet was empty until its first credits came.
    before = depletions()
    box.event("gb", value=10)
    assert depletions() == before + 1
    box.event("gb", value=1)
    assert depletions() == before + 1
    later(box, seconds=2)
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["ongoing_balance_cents"] == 1000 + 1000 - (10 + 1) * 100
    assert depletions() == before + 1
    box.event("gb", value=12)
    box.event("gb", value=1)
    assert depletions() == before + 2


def test_a_rule_for_a_wallet_that_is_low_already_waits_for_its_next_change(box: Scenario) -> None:
    wallet_id = wallet_with(box, {**GRANTS_TEN, "threshold_credits": "0"})
    box.event("gb", value=8)
    box.put(f"/wallets/{wallet_id}", wallet={"recurring_transaction_rules": [GRANTS_TEN]})
    later(box, days=1)
    assert top_ups(box, wallet_id) == []
    box.event("gb", value=1)
    later(box, seconds=2)
    assert top_ups(box, wallet_id) == [("granted", "settled", "10.0")]


def test_a_rule_that_grants_little_goes_on_until_its_threshold_is_passed(box: Scenario) -> None:
    wallet_id = wallet_with(box, {**GRANTS_TEN, "granted_credits": "2"})
    box.event("gb", value=9)
    later(box, minutes=1)
    assert top_ups(box, wallet_id) == [("granted", "settled", "2.0")] * 3
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["credits_ongoing_balance"] == "7.0"


def test_a_rule_that_has_expired_or_a_wallet_that_has_ended_tops_nothing_up(box: Scenario) -> None:
    expires = (box.now + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    expiring = wallet_with(box, {**GRANTS_TEN, "expiration_at": expires})
    later(box, minutes=5)
    assert box.get(f"/wallets/{expiring}")["wallet"]["recurring_transaction_rules"] == []
    box.event("gb", value=6)
    later(box, minutes=1)
    assert top_ups(box, expiring) == []
    box.put(f"/wallets/{expiring}", wallet={"recurring_transaction_rules": [GRANTS_TEN]})
    box.event("gb", value=1)
    # What was ordered two seconds ago comes no more once the wallet has ended.
    box.delete(f"/wallets/{expiring}")
    later(box, minutes=1)
    assert top_ups(box, expiring) == []


def test_what_a_rule_adds_says_what_the_rule_says(box: Scenario) -> None:
    pairs = [{"key": "kind", "value": "auto"}]
    names = {"transaction_name": "Refill", "transaction_metadata": pairs, "purchase_order_number": "PO-7"}
    wallet_id = wallet_with(box, {**BUYS_TEN, **names, "invoice_requires_successful_payment": True})
    box.event("gb", value=6)
    later(box, seconds=2)
    (bought,) = (
        item
        for item in box.get(f"/wallets/{wallet_id}/wallet_transactions")["wallet_transactions"]
        if item["source"] == "threshold"
    )
    assert (bought["name"], bought["metadata"], bought["purchase_order_number"]) == ("Refill", pairs, "PO-7")
    assert bought["invoice_requires_successful_payment"] is True
    assert box.get("/invoices")["invoices"] == []


def test_a_fixed_rule_buys_several_times_its_credits_and_no_more_than_a_top_up_may_be(box: Scenario) -> None:
    wallet_id = wallet_with(box, {**BUYS_TEN, "granted_credits": "1"}, paid_top_up_max_amount_cents=2500)
    box.event("gb", value=18)
    later(box, seconds=2)
    # 5 less -8 less 1 granted are 12: twice ten.
    grant = ("granted", "settled", "1.0")
    assert sorted(top_ups(box, wallet_id)) == [grant, ("purchased", "pending", "20.0")]
    box.event("gb", value=60)
    later(box, seconds=2)
    assert sorted(top_ups(box, wallet_id)[2:]) == [grant, ("purchased", "pending", "25.0")]
