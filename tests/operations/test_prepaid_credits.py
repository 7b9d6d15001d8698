"""Prepaid credits on invoices, and ongoing balances: what wallets pay, and what they would pay by now."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from tests.builders import add_wallet, customer_with
from tests.provider import Provider, refused
from tests.scenarios import Scenario, charge_on, fees_of

from usagebill.core.wallet_transactions import TransactionKind, WalletConsumption, WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.queries.wallets import active_wallets
from usagebill.storage.conditions import eq

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


CURRENT = "?current_ongoing_balance=true"


def wallets(box: Scenario) -> list[Wallet]:
    """The wallets of the customer, in the order they pay."""
    customer_id = customer_with(box).id
    return box.billing.reading(lambda reader: active_wallets(reader, customer_id))


def records(box: Scenario, kind: type[Any], **fields: Any) -> list[Any]:
    conditions = [eq(name, value) for name, value in fields.items()]
    return box.billing.reading(lambda reader: reader.tx.find(kind, *conditions))


def subscribed(box: Scenario, **plan: Any) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"), **plan)
    box.subscribe()


def balances(box: Scenario) -> list[tuple[int, int, int]]:
    return [(w.balance_cents, w.ongoing_usage_balance_cents, w.ongoing_balance_cents) for w in wallets(box)]


def messages(box: Scenario, webhook_type: str) -> list[dict[str, Any]]:
    return [message for message in box.webhooks if message["webhook_type"] == webhook_type]


def test_the_invoice_of_a_period_is_paid_by_wallets_in_their_order(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 2000, code="second", priority=2)
    add_wallet(box, 300, code="first", priority=1)
    box.event("gb", value=10)
    assert balances(box) == [(300, 300, 0), (2000, 700, 1300)]
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert invoice["prepaid_credit_amount_cents"] == invoice["prepaid_granted_credit_amount_cents"] == 1000
    assert invoice["prepaid_purchased_credit_amount_cents"] is None
    assert (invoice["total_amount_cents"], invoice["payment_status"]) == (0, "succeeded")
    assert balances(box) == [(0, 0, 0), (1300, 0, 1300)]
    paid = records(box, WalletTransaction, invoice_id=invoice["svc_id"])
    assert [(transaction.transaction_status, transaction.status, transaction.amount_cents) for transaction in paid] == [
        (TransactionKind.INVOICED, "settled", 300),
        (TransactionKind.INVOICED, "settled", 700),
    ]
    assert sum(row.amount_cents for row in records(box, WalletConsumption)) == 1000
    announced = [message["wallet_transaction"] for message in messages(box, "wallet_transaction.created")]
    uses = [
        (use["amount"], use["wallet"]["balance_cents"]) for use in announced if use["transaction_type"] == "outbound"
    ]
    # With what is left in the wallet then.
    assert uses == [("3.0", 0), ("7.0", 1300)]


def test_a_draft_uses_no_credits_until_it_is_finalized(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 10})
    subscribed(box, amount_cents=100)
    add_wallet(box, 1000)
    box.event("gb", value=5)
    assert balances(box) == [(1000, 5 * 100, 1000 - 5 * 100)]
    box.travel_to("2024-04-01T01:00:00Z")
    (draft,) = box.invoices()
    assert (draft["prepaid_credit_amount_cents"], draft["total_amount_cents"]) == (0, 100 + 5 * 100)
    assert balances(box) == [(1000, 100 + 5 * 100, 1000 - 600)]
    box.event("gb", value=3)
    assert balances(box) == [(1000, 600 + 3 * 100, 1000 - 900)]
    box.travel_to("2024-04-11T01:00:00Z")
    (invoice,) = box.invoices()
    assert (invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) == (100 + 5 * 100, 0)
    assert balances(box) == [(1000 - 600, 3 * 100, 400 - 300)]


def test_progressive_billing_is_paid_at_once_and_counts_no_more(box: Scenario) -> None:
    subscribed(box, usage_thresholds=[{"amount_cents": 1000}])
    add_wallet(box, 5000)
    box.event("gb", value=12)
    assert balances(box) == [(5000 - 12 * 100, 0, 5000 - 12 * 100)]
    box.event("gb", value=2)
    assert balances(box) == [(5000 - 12 * 100, 2 * 100, 5000 - 14 * 100)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert balances(box) == [(5000 - 14 * 100, 0, 5000 - 14 * 100)]


def test_a_preview_shows_what_wallets_will_pay_and_takes_nothing(box: Scenario) -> None:
    subscribed(box, amount_cents=700)
    add_wallet(box, 500)
    subscriptions = {"external_ids": ["sub"]}
    shown = box.post("/invoices/preview", customer={"external_id": "acme"}, subscriptions=subscriptions)["invoice"]
    assert (shown["prepaid_credit_amount_cents"], shown["total_amount_cents"]) == (500, 200)
    assert [wallet.balance_cents for wallet in wallets(box)] == [500]
    assert records(box, WalletConsumption) == []


def test_a_void_gives_back_what_wallets_paid_as_granted_credits(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert invoice["total_amount_cents"] == 10 * 100 - 700
    box.post(f"/invoices/{invoice['svc_id']}/void")
    (wallet,) = wallets(box)
    assert (wallet.balance_cents, wallet.credits_balance, wallet.consumed_credits) == (700, Decimal(7), 0)
    (returned,) = records(box, WalletTransaction, voided_invoice_id=invoice["svc_id"])
    assert (returned.transaction_status, returned.remaining_amount_cents) == (TransactionKind.GRANTED, 700)


def test_a_wallet_that_has_expired_pays_nothing(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700, expiration_at=box.now)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    assert [invoice["prepaid_credit_amount_cents"] for invoice in box.invoices()] == [0]


def test_a_depletion_is_announced_once_until_there_are_credits_again(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700)
    box.event("gb", value=6)
    assert messages(box, "wallet.depleted_ongoing_balance") == []
    box.event("gb", value=1)
    box.event("gb", value=1)
    (message,) = messages(box, "wallet.depleted_ongoing_balance")
    assert message["wallet"]["ongoing_balance_cents"] == 0


def test_current_values_are_those_that_the_next_refresh_stores(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700)
    box.event("gb", value=2)
    plan = box.get("/plans/basic")["plan"]
    (charge,) = plan["charges"]
    box.put(f"/plans/basic/charges/{charge['code']}", charge={"properties": {"amount": "2"}})
    (stored,) = wallets(box)
    assert stored.ongoing_balance_cents == 700 - 2 * 100
    current = box.get(f"/wallets/{stored.id}?current_ongoing_balance=true")["wallet"]
    assert (current["ongoing_balance_cents"], current["credits_ongoing_usage_balance"]) == (700 - 2 * 200, "4.0")
    by_code = box.get("/customers/acme/wallets/default?current_ongoing_balance=true")["wallet"]
    assert by_code == current
    assert box.get(f"/wallets/{stored.id}")["wallet"]["ongoing_balance_cents"] == 700 - 2 * 100
    assert box.billing.wallets.get(stored.id, current_ongoing_balance=True).ongoing_balance_cents == 700 - 2 * 200
    box.event("gb", value=0)
    assert balances(box) == [(700, 2 * 200, 700 - 2 * 200)]


def test_an_explanation_tells_which_wallet_paid_which_fee_out_of_which_credits(box: Scenario) -> None:
    subscribed(box, amount_cents=400)
    add_wallet(box, 300, code="usage", priority=1, fee_types=("charge",))
    add_wallet(box, 900, code="all", priority=2)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    explained = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
    paid = {
        fee["type"]: [(part["wallet_code"], part["inbound_transaction_status"], part["amount_cents"]) for part in parts]
        for fee in explained["fees"]
        if (parts := fee["prepaid_credits"])
    }
    assert paid == {
        "charge": [("usage", "granted", 300), ("all", "granted", 700)],
        "subscription": [("all", "granted", 200)],
    }
    steps = [(step["text"], step["result_cents"]) for step in explained["steps"] if step["step"] == "prepaid_credits"]
    assert steps == [("wallet usage: 1400 - 300 = 1100", 1100), ("wallet all: 1100 - 900 = 200", 200)]
    assert explained["total_amount_cents"] == 200


def test_invoices_of_one_batch_use_a_credit_once(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1", pay_in_advance=True))
    box.subscribe()
    add_wallet(box, 1500)
    box.events("gb", {"value": 10}, {"value": 9}, {"value": 8})
    paid = [(invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) for invoice in box.invoices()]
    assert sorted(paid, reverse=True) == [(1000, 0), (500, 400), (0, 800)]
    assert balances(box) == [(0, 0, 0)]
    assert box.billing.audit().findings == ()


def test_credits_of_another_currency_pay_nothing(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700, currency="USD")
    box.event("gb", value=10)
    assert balances(box) == [(700, 0, 700)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [1000]


def test_a_void_with_a_credit_note_gives_nothing_back_to_wallets(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 2000)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    box.post(f"/invoices/{invoice['svc_id']}/void", generate_credit_note=True, credit_amount=1000)
    assert [wallet.balance_cents for wallet in wallets(box)] == [1000]
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["balance_amount_cents"] == 1000
    assert box.billing.audit().findings == ()


def test_every_subscription_of_the_customer_counts_and_each_only_as_far_as_it_is_not_billed(box: Scenario) -> None:
    gb = box.metric("gb")
    box.plan(charge_on(gb, amount="1"))
    box.plan(charge_on(gb, amount="2", pay_in_advance=True), code="advance")
    box.plan(charge_on(gb, amount="3"), code="billed", usage_thresholds=[{"amount_cents": 2000}])
    for external_id, code in (("plain", "basic"), ("advance", "advance"), ("ahead", "billed")):
        box.subscribe(code, external_id=external_id)
    add_wallet(box, 10_000)
    box.event("gb", "plain", value=1)
    box.event("gb", "advance", value=10)
    box.event("gb", "ahead", value=10)
    box.event("gb", "ahead", value=1)
    left = 10_000 - 10 * 200 - 10 * 300
    assert balances(box) == [(left, 100 + 300, left - 100 - 300)]


def test_a_subscription_that_ends_without_an_invoice_is_expected_no_more(box: Scenario) -> None:
    subscribed(box)
    add_wallet(box, 700)
    box.event("gb", value=2)
    box.delete("/subscriptions/sub?on_termination_invoice=skip")
    assert balances(box) == [(700, 0, 700)]


def targeted(box: Scenario, *, accepts: bool = True, advance: bool = False) -> None:
    """A price of 10.00 a unit, of usage that may name the wallet that pays for it, and two wallets."""
    terms = {"accepts_target_wallet": accepts, "pay_in_advance": advance}
    box.plan(charge_on(box.metric("seats"), amount="10", **terms))
    box.subscribe()
    add_wallet(box, 20_000, code="wallet_1", priority=1)
    add_wallet(box, 25_000, code="wallet_2", priority=2)


def test_usage_that_names_its_wallet_is_paid_by_that_one_alone(box: Scenario) -> None:
    targeted(box)
    box.event("seats", value=15, target_wallet_code="wallet_1")
    box.event("seats", value=20, target_wallet_code="wallet_2")
    assert balances(box) == [(20_000, 15 * 1000, 20_000 - 15_000), (25_000, 20 * 1000, 25_000 - 20_000)]
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert [fee["item"]["grouped_by"] for fee in fees_of(invoice, "charge")] == [
        {"target_wallet_code": "wallet_1"},
        {"target_wallet_code": "wallet_2"},
    ]
    assert (invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) == ((15 + 20) * 1000, 0)
    assert [wallet.balance_cents for wallet in wallets(box)] == [20_000 - 15_000, 25_000 - 20_000]


def test_usage_of_a_charge_that_takes_no_target_is_paid_in_the_order_of_wallets(box: Scenario) -> None:
    targeted(box, accepts=False)
    box.event("seats", value=15, target_wallet_code="wallet_1")
    box.event("seats", value=20, target_wallet_code="wallet_2")
    assert balances(box) == [(20_000, 20_000, 0), (25_000, 35 * 1000 - 20_000, 25_000 - 15_000)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert [wallet.balance_cents for wallet in wallets(box)] == [0, 25_000 - 15_000]


def test_a_named_wallet_pays_whatever_it_is_limited_to_and_no_other_takes_over(box: Scenario) -> None:
    targeted(box)
    add_wallet(box, 3000, code="small", priority=3, fee_types=("subscription",))
    box.event("seats", value=5, target_wallet_code="small")
    box.event("seats", value=2)
    assert balances(box) == [(20_000, 2 * 1000, 20_000 - 2000), (25_000, 0, 25_000), (3000, 5 * 1000, 3000 - 5000)]
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert (invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) == (3000 + 2 * 1000, 5 * 1000 - 3000)
    assert [wallet.balance_cents for wallet in wallets(box)] == [20_000 - 2 * 1000, 25_000, 0]
    assert box.billing.audit().findings == ()


def test_an_event_paid_in_advance_is_paid_by_the_wallet_that_it_names(box: Scenario) -> None:
    targeted(box, advance=True)
    box.event("seats", value=1, target_wallet_code="wallet_2")
    box.event("seats", value=1)
    assert [wallet.balance_cents for wallet in wallets(box)] == [20_000 - 1000, 25_000 - 1000]
    named, unnamed = (invoice["fees"][0]["item"]["grouped_by"] for invoice in box.invoices())
    assert (named, unnamed) == ({"target_wallet_code": "wallet_2"}, {})


def test_an_event_for_an_unknown_wallet_is_accepted_and_reported(box: Scenario) -> None:
    targeted(box)
    box.event("seats", value=1, target_wallet_code="wallet_1")
    box.event("seats", value=1, target_wallet_code="")
    assert messages(box, "event.error") == []
    sent = box.event("seats", value=1, target_wallet_code="none")
    (message,) = messages(box, "event.error")
    problem = message["event_error"]
    assert (problem["status"], problem["error"]) == (422, "Unprocessable entity")
    assert json.loads(problem["message"]) == {"target_wallet_code": ["target_wallet_code_not_found"]}
    assert problem["event"]["transaction_id"] == sent["transaction_id"]
    assert balances(box) == [(20_000, 2 * 1000, 20_000 - 2 * 1000), (25_000, 0, 25_000)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [1000]


def test_usage_of_a_closed_period_is_expected_until_its_run_has_billed_it(box: Scenario) -> None:
    subscribed(box)
    wallet = add_wallet(box, 1000)
    box.event("gb", value=6)

    def ongoing() -> tuple[int, int]:
        stored, current = (box.get(f"/wallets/{wallet.id}{query}")["wallet"] for query in ("", CURRENT))
        return stored["ongoing_balance_cents"], current["ongoing_balance_cents"]

    box.travel_to("2024-04-01T00:05:00Z")
    assert ongoing() == (400, 400)
    box.event("gb", value=1)
    assert ongoing() == (300, 300)
    box.travel_to("2024-04-01T00:11:00Z")
    assert ongoing() == (300, 300)
    # Nothing runs for two months: what they come to is still to be billed.
    box.jump_to("2024-06-03T00:00:00Z")
    assert ongoing() == (300, 300)
    box.run_due()
    assert ongoing() == (300, 300)
    assert [invoice["prepaid_credit_amount_cents"] for invoice in box.invoices()] == [6 * 100, 1 * 100, 0]


def test_an_invoice_that_waits_for_its_taxes_is_expected_like_a_draft() -> None:
    provider = Provider("0")
    with Scenario(now="2024-03-01T00:00:00Z", tax_provider=provider) as box:
        box.billing.tax_connections.create(kind="anrok", code="main", url="https://tax.example")
        link = {"integration_type": "anrok", "integration_code": "main", "sync_with_provider": True}
        box.customer(integration_customers=[link])
        subscribed(box)
        add_wallet(box, 1000)
        box.event("gb", value=6)
        provider.failures.append(refused())
        box.travel_to("2024-04-01T01:00:00Z")
        (invoice,) = box.invoices()
        assert (invoice["status"], balances(box)) == ("failed", [(1000, 6 * 100, 1000 - 6 * 100)])
        box.post(f"/invoices/{invoice['svc_id']}/retry")
        box.run_due()
        assert balances(box) == [(1000 - 6 * 100, 0, 1000 - 6 * 100)]


def test_an_invoice_paid_by_a_wallet_that_has_ended_is_not_voided(box: Scenario) -> None:
    subscribed(box)
    wallet = add_wallet(box, 700)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    box.delete(f"/wallets/{wallet.id}")
    refused = box.post(f"/invoices/{invoice['svc_id']}/void", status=405)
    assert "paid with 7.00 EUR of a wallet that has ended" in refused["message"]
    shown = box.get(f"/wallets/{wallet.id}")["wallet"]
    assert (shown["balance_cents"], "lost_credits" in shown) == (0, False)


@pytest.mark.parametrize("has_ended", [True, False])
def test_nothing_is_lost_if_a_wallet_or_a_credit_note_gives_it_back(box: Scenario, has_ended: bool) -> None:
    subscribed(box)
    wallet = add_wallet(box, 700)
    box.event("gb", value=10)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    if has_ended:
        box.delete(f"/wallets/{wallet.id}")
        box.post(f"/invoices/{invoice['svc_id']}/void", generate_credit_note=True, credit_amount=700)
    else:
        box.post(f"/invoices/{invoice['svc_id']}/void")
        box.delete(f"/wallets/{wallet.id}")
    assert "lost_credits" not in box.get(f"/wallets/{wallet.id}")["wallet"]
