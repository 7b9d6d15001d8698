"""Wallets that top themselves up: at intervals, each once for its day, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.json_asserts import refused
from tests.operations.test_wallets import create, created, funded
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = [pytest.mark.now("2025-01-31T10:00:00Z"), pytest.mark.usefixtures("acme")]

MONTHLY = {"trigger": "interval", "interval": "monthly"}


def days(box: Scenario, wallet_id: str, query: str = "") -> list[str]:
    """The days of the top-ups at an interval, oldest first."""
    transactions = box.get(f"/wallets/{wallet_id}/wallet_transactions?per_page=1000{query}")["wallet_transactions"]
    return [item["created_at"][:10] for item in reversed(transactions) if item["source"] == "interval"]


def latest(box: Scenario, wallet_id: str) -> Any:
    return box.get(f"/wallets/{wallet_id}/wallet_transactions")["wallet_transactions"][0]


def test_a_monthly_rule_tops_up_on_its_day(box: Scenario) -> None:
    rule = {
        **MONTHLY,
        "paid_credits": "10",
        "granted_credits": "2",
        "transaction_name": "Monthly",
        "transaction_metadata": [{"key": "kind", "value": "auto"}],
        "invoice_requires_successful_payment": True,
        "purchase_order_number": "PO-7",
    }
    wallet_id = created(box, recurring_transaction_rules=[rule])["svc_id"]
    box.travel_to("2025-04-30T23:00:00Z")
    assert days(box, wallet_id, "&transaction_status=granted") == ["2025-02-28", "2025-03-31", "2025-04-30"]
    assert days(box, wallet_id, "&transaction_status=purchased") == ["2025-02-28", "2025-03-31", "2025-04-30"]
    transaction = latest(box, wallet_id)
    assert (transaction["name"], transaction["metadata"]) == ("Monthly", [{"key": "kind", "value": "auto"}])
    assert (transaction["invoice_requires_successful_payment"], transaction["purchase_order_number"]) == (True, "PO-7")
    assert box.get("/invoices")["invoices"] == []
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["credits_balance"] == "6.0"


def test_days_that_passed_while_nothing_ran_are_made_up_for_once(box: Scenario) -> None:
    wallet_id = created(box, recurring_transaction_rules=[{**MONTHLY, "granted_credits": "1"}])["svc_id"]
    box.jump_to("2025-06-10T00:00:00Z")
    box.run_due()
    box.run_due()
    expected = ["2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31"]
    assert days(box, wallet_id) == expected
    box.travel_to("2025-06-30T12:00:00Z")
    assert days(box, wallet_id) == [*expected, "2025-06-30"]


def test_a_rule_that_changes_on_its_day_does_not_act_twice(box: Scenario) -> None:
    wallet = created(box, recurring_transaction_rules=[{**MONTHLY, "granted_credits": "1"}])
    rule_id = wallet["recurring_transaction_rules"][0]["svc_id"]
    box.travel_to("2025-02-28T12:00:00Z")
    changed = {**MONTHLY, "svc_id": rule_id, "granted_credits": "5"}
    box.put(f"/wallets/{wallet['svc_id']}", wallet={"recurring_transaction_rules": [changed]})
    box.put(f"/wallets/{wallet['svc_id']}", wallet={"recurring_transaction_rules": [{**MONTHLY}]})
    box.travel_to("2025-03-01T12:00:00Z")
    assert days(box, wallet["svc_id"]) == ["2025-02-28"]


def test_a_rule_ends_with_its_wallet_its_time_or_by_request(box: Scenario) -> None:
    rule = {**MONTHLY, "granted_credits": "1"}
    ended = created(box, recurring_transaction_rules=[rule])["svc_id"]
    expiring = created(box, recurring_transaction_rules=[{**rule, "expiration_at": "2025-03-10T00:00:00Z"}])["svc_id"]
    taken_away = created(box, recurring_transaction_rules=[rule])["svc_id"]
    box.travel_to("2025-03-01T00:00:00Z")
    box.delete(f"/wallets/{ended}")
    box.put(f"/wallets/{taken_away}", wallet={"recurring_transaction_rules": []})
    box.travel_to("2025-06-01T00:00:00Z")
    for wallet_id in (ended, expiring, taken_away):
        assert days(box, wallet_id) == ["2025-02-28"]
        assert box.get(f"/wallets/{wallet_id}")["wallet"]["recurring_transaction_rules"] == []


def test_days_are_those_of_the_customer_also_after_a_move(box: Scenario) -> None:
    wallet_id = created(box, recurring_transaction_rules=[{**MONTHLY, "granted_credits": "1"}])["svc_id"]
    box.post("/customers", customer={"external_id": "acme", "timezone": "Asia/Tokyo"})
    box.travel_to("2025-02-27T14:00:00Z")
    assert days(box, wallet_id) == []
    box.travel_to("2025-02-27T16:00:00Z")
    # It is the 28th in Tokyo.
    assert days(box, wallet_id) == ["2025-02-27"]
    box.travel_to("2025-03-01T16:00:00Z")
    assert days(box, wallet_id) == ["2025-02-27"]


def test_a_target_rule_buys_what_is_missing_or_nothing(box: Scenario) -> None:
    rule = {**MONTHLY, "method": "target", "target_ongoing_balance": "100", "grants_target_top_up": True}
    wallet_id = funded(box, recurring_transaction_rules=[rule])
    box.travel_to("2025-02-28T12:00:00Z")
    assert latest(box, wallet_id)["credit_amount"] == "100.0"


@pytest.mark.parametrize(
    "rule",
    [
        {"trigger": "moon"},
        {},
        {**MONTHLY, "method": "weird"},
        {**MONTHLY, "paid_credits": 10},
        {**MONTHLY, "paid_credits": "10", "granted_credits": "abc"},
        {**MONTHLY, "expiration_at": "2025-01-31T09:00:00Z"},
        {**MONTHLY, "started_at": "soon"},
        {**MONTHLY, "started_at": "9999-12-31T00:00:00Z"},
        {**MONTHLY, "grants_target_top_up": False},
        {**MONTHLY, "method": "target"},
        {**MONTHLY, "transaction_metadata": {"a": "b"}},
        {**MONTHLY, "transaction_name": "n" * 256},
        {"trigger": "threshold"},
        {"trigger": "threshold", "threshold_credits": None},
        {**MONTHLY, "payment_method": {"payment_method_type": "card"}},
    ],
)
def test_a_rule_that_cannot_work_is_refused(box: Scenario, rule: dict[str, object]) -> None:
    answer = create(box, recurring_transaction_rules=[rule])
    assert refused(answer) == {"recurring_transaction_rules": ["invalid_recurring_rule"]}
    assert box.get("/wallets")["wallets"] == []


def test_a_rule_keeps_to_the_limits_of_its_wallet_unless_it_ignores_them(box: Scenario) -> None:
    rule = {**MONTHLY, "paid_credits": "20"}
    answer = create(box, paid_top_up_max_amount_cents=1000, recurring_transaction_rules=[rule])
    assert refused(answer) == {"recurring_transaction_rules": ["invalid_recurring_rule"]}
    ignoring = {**rule, "ignore_paid_top_up_limits": True}
    wallet_id = created(box, paid_top_up_max_amount_cents=1000, recurring_transaction_rules=[ignoring])["svc_id"]
    box.travel_to("2025-02-28T12:00:00Z")
    assert latest(box, wallet_id)["credit_amount"] == "20.0"


def test_a_rule_pays_with_a_method_of_its_own_customer(box: Scenario) -> None:
    with StripeServer(now=lambda: box.now) as stripe:
        stripe.knows("cus_1", "pm_1")
        box.connect_payment_provider("stripe", code="main", url=stripe.url, **stripe.credentials)
        provider = {"payment_provider": "stripe", "payment_provider_code": "main", "provider_customer_id": "cus_1"}
        box.customer("globex", currency="EUR", billing_configuration=provider)
        box.run_due()
    (method,) = box.get("/customers/globex/payment_methods")["payment_methods"]
    chosen = {"payment_method_type": "provider", "payment_method_id": method["svc_id"]}
    rule = {**MONTHLY, "paid_credits": "10", "payment_method": chosen}
    assert refused(create(box, recurring_transaction_rules=[rule])) == {
        "recurring_transaction_rules": ["invalid_recurring_rule"]
    }
    wallet = created(box, external_customer_id="globex", recurring_transaction_rules=[rule])
    assert wallet["recurring_transaction_rules"][0]["payment_method"] == chosen


def change_rules(box: Scenario, wallet_id: str, *rules: Mapping[str, object]) -> Any:
    """The rules that are running after a change."""
    body = {"recurring_transaction_rules": list(rules)}
    return box.put(f"/wallets/{wallet_id}", wallet=body)["wallet"]["recurring_transaction_rules"]


def test_a_rule_is_changed_by_its_id_and_gives_way_to_any_other(box: Scenario) -> None:
    wallet = created(box, recurring_transaction_rules=[{**MONTHLY, "granted_credits": "1"}])
    (first,) = wallet["recurring_transaction_rules"]
    wallet_id = wallet["svc_id"]
    (changed,) = change_rules(box, wallet_id, {"svc_id": first["svc_id"], **MONTHLY, "granted_credits": "2"})
    assert (changed["svc_id"], changed["granted_credits"]) == (first["svc_id"], "2.0")
    (unknown,) = change_rules(box, wallet_id, {"svc_id": "none", **MONTHLY, "granted_credits": "3"})
    assert unknown["svc_id"] not in (first["svc_id"], "none")
    # One that has ended is no longer known.
    (again,) = change_rules(box, wallet_id, {"svc_id": first["svc_id"], **MONTHLY, "granted_credits": "4"})
    assert again["svc_id"] not in (first["svc_id"], unknown["svc_id"])
    # Without the key the rule stays as it is.
    kept = box.put(f"/wallets/{wallet_id}", wallet={"name": "New"})["wallet"]["recurring_transaction_rules"]
    assert kept == [again]
    two_rules = {"recurring_transaction_rules": [MONTHLY, MONTHLY]}
    assert refused(box.send("PUT", f"/wallets/{wallet_id}", {"wallet": two_rules})) == {
        "recurring_transaction_rules": ["invalid_number_of_recurring_rules"]
    }
    assert change_rules(box, wallet_id) == []


def test_a_new_rule_follows_its_wallet_and_one_that_runs_its_own(box: Scenario) -> None:
    rule = {**MONTHLY, "paid_credits": "5"}
    wallet = created(box, paid_credits="10", granted_credits="4", recurring_transaction_rules=[rule])
    (running,) = wallet["recurring_transaction_rules"]
    shown = ("method", "paid_credits", "granted_credits", "threshold_credits", "grants_target_top_up")
    assert [running[name] for name in shown] == ["fixed", "5.0", "0.0", "0.0", False]
    wallet_id = wallet["svc_id"]
    gated = {"invoice_requires_successful_payment": True}
    body = {**gated, "recurring_transaction_rules": [{**MONTHLY, "svc_id": running["svc_id"]}]}
    changed = box.put(f"/wallets/{wallet_id}", wallet=body)["wallet"]["recurring_transaction_rules"][0]
    assert changed["invoice_requires_successful_payment"] is False
    (other,) = change_rules(box, wallet_id, MONTHLY)
    # Only at the start a rule takes the credits of its wallet.
    assert (other["paid_credits"], other["granted_credits"]) == ("0.0", "0.0")
    assert other["invoice_requires_successful_payment"] is True


def test_a_rule_may_become_one_of_another_method(box: Scenario) -> None:
    target = {**MONTHLY, "method": "target", "target_ongoing_balance": "100", "grants_target_top_up": True}
    wallet = created(box, recurring_transaction_rules=[target])
    (rule,) = wallet["recurring_transaction_rules"]
    fixed = {"svc_id": rule["svc_id"], **MONTHLY, "method": "fixed", "granted_credits": "3"}
    (changed,) = change_rules(box, wallet["svc_id"], fixed)
    assert (changed["svc_id"], changed["method"], changed["grants_target_top_up"]) == (rule["svc_id"], "fixed", False)
    box.travel_to("2025-02-28T12:00:00Z")
    assert latest(box, wallet["svc_id"])["credit_amount"] == "3.0"


def test_a_target_that_is_reached_adds_nothing_and_buys_as_much_as_is_missing(box: Scenario) -> None:
    rule = {**MONTHLY, "method": "target", "target_ongoing_balance": "30"}
    full = created(box, granted_credits="30", paid_top_up_max_amount_cents=500, recurring_transaction_rules=[rule])
    half = created(box, granted_credits="10", paid_top_up_max_amount_cents=500, recurring_transaction_rules=[rule])
    box.travel_to("2025-02-28T12:00:00Z")
    assert days(box, full["svc_id"]) == []
    # The most that a purchase may be is not for targets.
    assert (latest(box, half["svc_id"])["transaction_status"], latest(box, half["svc_id"])["amount"]) == (
        "purchased",
        "20.0",
    )


def test_a_rule_that_starts_later_acts_from_the_day_of_its_start(box: Scenario) -> None:
    rule = {**MONTHLY, "granted_credits": "1", "started_at": "2025-04-15T09:30:00Z"}
    wallet_id = created(box, recurring_transaction_rules=[rule])["svc_id"]
    box.travel_to("2025-04-15T09:29:59Z")
    assert days(box, wallet_id) == []
    box.travel_to("2025-06-01T00:00:00Z")
    assert days(box, wallet_id) == ["2025-04-15", "2025-05-15"]


def test_the_day_of_a_wallet_is_that_of_its_creation_and_not_that_of_its_rule(box: Scenario) -> None:
    wallet_id = created(box)["svc_id"]
    box.travel_to("2025-02-10T00:00:00Z")
    change_rules(box, wallet_id, {"trigger": "interval", "interval": "weekly", "granted_credits": "1"})
    box.travel_to("2025-03-01T00:00:00Z")
    # 31 January 2025 was a Friday.
    assert days(box, wallet_id) == ["2025-02-14", "2025-02-21", "2025-02-28"]


def test_a_payment_that_failed_is_not_tried_before_the_next_day(box: Scenario) -> None:
    wallet_id = created(box, recurring_transaction_rules=[{**MONTHLY, "paid_credits": "1"}])["svc_id"]
    box.travel_to("2025-02-28T12:00:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    box.put(f"/invoices/{invoice['svc_id']}", invoice={"payment_status": "failed"})
    box.travel_to("2025-03-30T23:59:00Z")
    assert days(box, wallet_id) == ["2025-02-28"]
    box.travel_to("2025-03-31T12:00:00Z")
    assert days(box, wallet_id) == ["2025-02-28", "2025-03-31"]


def test_a_top_up_is_charged_as_it_says_else_as_its_rule_else_as_its_wallet_else_as_usual(box: Scenario) -> None:
    with StripeServer(now=lambda: box.now) as stripe:
        stripe.knows("cus_1", "pm_usual")
        path = box.connect_payment_provider("stripe", code="main", url=stripe.url, **stripe.credentials)
        provider = {"payment_provider": "stripe", "payment_provider_code": "main", "provider_customer_id": "cus_1"}
        box.customer(billing_configuration=provider)
        box.run_due()
        for card in ("pm_wallet", "pm_rule", "pm_own"):
            notice = stripe.card_added("cus_1", card)
            assert box.receive(path, notice.body, dict(notice.headers)) == 200
        box.run_due()
        methods = {
            method["provider_method_id"]: method["svc_id"]
            for method in box.get("/customers/acme/payment_methods")["payment_methods"]
        }
        box.put(f"/customers/acme/payment_methods/{methods['pm_usual']}/set_as_default")
        by_hand = {"payment_method_type": "manual"}

        def by(name: str) -> dict[str, str]:
            return {"payment_method_type": "provider", "payment_method_id": methods[name]}

        def charged() -> list[str]:
            return [intent["payment_method"] for intent in stripe.intents.values()]

        def buy(wallet_id: str, **fields: object) -> None:
            box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "paid_credits": "1", **fields})
            box.run_due()

        rule = {"trigger": "interval", "interval": "monthly", "paid_credits": "2", "payment_method": by("pm_rule")}
        plain = funded(box)
        chosen = funded(box, payment_method=by("pm_wallet"), recurring_transaction_rules=[rule])
        buy(plain)
        assert charged() == ["pm_usual"]
        buy(chosen)
        assert charged()[1:] == ["pm_wallet"]
        buy(chosen, payment_method=by("pm_own"))
        assert charged()[2:] == ["pm_own"]
        buy(chosen, payment_method=by_hand)
        assert charged()[3:] == []
        box.travel_to("2025-02-28T12:00:00Z")
        assert charged()[3:] == ["pm_rule"]
        (running,) = box.get(f"/wallets/{chosen}")["wallet"]["recurring_transaction_rules"]
        change_rules(box, chosen, {"svc_id": running["svc_id"], **MONTHLY, "payment_method": by_hand})
        box.travel_to("2025-03-31T12:00:00Z")
        assert charged()[4:] == []
