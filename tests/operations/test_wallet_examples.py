"""Worked examples of wallets from request to invoice: what each wallet would pay by now, and what it pays then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.money import gross
from tests.scenarios import Scenario, charge_on, fee_of, fixed_charge_on

from usagebill.core.wallets import Wallet
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]

CURRENT = "?current_ongoing_balance=true"
Balances = list[tuple[int, int, int]]


def wallet(box: Scenario, code: str, credits: str, priority: int, rate: str = "1", **fields: Any) -> str:
    body = {"external_customer_id": "acme", "rate_amount": rate, "currency": "EUR", "code": code, "priority": priority}
    made = box.post("/wallets", wallet={**body, "granted_credits": credits, **fields})["wallet"]
    box.run_due()
    return str(made["svc_id"])


def shown(box: Scenario, code: str, query: str = "") -> Any:
    return box.get(f"/customers/acme/wallets/{code}{query}")["wallet"]


def balances(box: Scenario, *codes: str) -> Balances:
    """Balance, ongoing usage and what is left of each wallet: as stored, on demand, and as the library has it."""
    values = []
    for code in codes:
        stored, current = shown(box, code), shown(box, code, CURRENT)
        record = box.billing.wallets.get_of_customer("acme", code, current_ongoing_balance=True)
        of_library = (record.balance_cents, record.ongoing_usage_balance_cents, record.ongoing_balance_cents)
        assert stored == current
        assert of_library == _values(stored)
        values.append(_values(stored))
    assert box.billing.audit().findings == ()
    return values


def _values(wallet: Any) -> tuple[int, int, int]:
    return wallet["balance_cents"], wallet["ongoing_usage_balance_cents"], wallet["ongoing_balance_cents"]


def priced(box: Scenario, *codes: str, amount: str = "1", **plan: Any) -> None:
    """A subscription to metrics of these codes, 1.00 a unit each."""
    box.plan(*(charge_on(box.metric(code), amount=amount) for code in codes), **plan)
    box.subscribe()


RULE = {"trigger": "threshold", "threshold_credits": "-100", "granted_credits": "1"}
INTERVAL = {"trigger": "interval", "interval": "yearly", "granted_credits": "1"}


@pytest.mark.beyond_reference  # Rules of the threshold trigger have no interval there.
@pytest.mark.parametrize(
    ("credits", "rules", "used", "usage"),
    [
        ((0.5, 1.5), {}, 80, [50, 30]),
        ((0.5, 1.5), {0: RULE}, 80, [80, 0]),
        ((0.5, 1.5), {0: INTERVAL}, 80, [50, 30]),
        ((0.5, 0.5, 0.5), {1: RULE}, 200, [50, 150, 0]),
        ((0.5, 1.5), {}, 250, [50, 200]),
        ((0, 0.5, 0.5), {}, 80, [0, 50, 30]),
    ],
)
def test_usage_goes_down_the_wallets_to_one_that_is_topped_up_or_to_the_last(
    box: Scenario, credits: Sequence[float], rules: dict[int, dict[str, str]], used: int, usage: list[int]
) -> None:
    priced(box, "gb", amount="0.01")
    codes = [f"w{position}" for position in range(len(credits))]
    for position, code in enumerate(codes):
        listed: dict[str, Any] = {"recurring_transaction_rules": [rules[position]]} if position in rules else {}
        wallet(box, code, str(credits[position]), position + 1, **listed)
    box.event("gb", value=used)
    assert [use for _, use, _ in balances(box, *codes)] == usage
    # A rule that ends takes no more than the wallet holds.
    for position in rules:
        box.put(f"/customers/acme/wallets/w{position}", wallet={"recurring_transaction_rules": []})
    box.event("gb", value=0)
    if rules == {0: RULE}:
        assert [use for _, use, _ in balances(box, *codes)] == [50, 30]


def test_drafts_with_coupons_and_taxes_count_for_the_wallets_that_may_pay_them(box: Scenario) -> None:
    """Three wallets of 10.00, one for each of two metrics and one for all."""
    box.customer(billing_configuration={"invoice_grace_period": 10})
    priced(box, "bm1", "bm2")
    for priority, (code, limit) in enumerate((("one", ["bm1"]), ("two", ["bm2"]), ("free", [])), start=1):
        wallet(box, code, "10", priority, applies_to={"billable_metric_codes": limit})
    box.events("bm1", {"value": 30})
    box.events("bm2", {"value": 5})
    assert balances(box, "one", "two", "free") == [
        (1000, 1000, 0),
        (1000, 5 * 100, 1000 - 500),
        (1000, 30 * 100 - 1000, 1000 - 2000),
    ]
    box.travel_to("2024-04-01T01:00:00Z")
    # The draft has no taxes and no coupons yet.
    assert balances(box, "one", "two", "free") == [
        (1000, 1000, 0),
        (1000, 5 * 100, 1000 - 500),
        (1000, 30 * 100 - 1000, 1000 - 2000),
    ]
    box.tax(10)
    box.put(f"/invoices/{box.invoices()[0]['svc_id']}/refresh")
    box.run_due()
    bm1, bm2 = gross(30 * 100, 10), gross(5 * 100, 10)
    assert balances(box, "one", "two", "free") == [
        (1000, 1000, 0),
        (1000, bm2, 1000 - bm2),
        (1000, bm1 - 1000, 2000 - bm1),
    ]
    box.travel_to("2024-04-11T01:00:00Z")
    assert balances(box, "one", "two", "free") == [(0, 0, 0), (1000 - bm2, 0, 1000 - bm2), (0, 0, 0)]
    (invoice,) = box.invoices()
    assert (invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) == (1000 + bm2 + 1000, bm1 - 2000)


def test_usage_a_draft_and_its_finalization_take_the_same_credits_once(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 10})
    priced(box, "gb", amount_cents=100)
    wallet_id = wallet(box, "default", "10", 1)
    box.event("gb", value=5)
    assert balances(box, "default") == [(1000, 5 * 100, 1000 - 500)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert balances(box, "default") == [(1000, 100 + 5 * 100, 1000 - 600)]
    box.event("gb", value=3)
    assert balances(box, "default") == [(1000, 600 + 3 * 100, 1000 - 900)]
    box.travel_to("2024-04-11T01:00:00Z")
    assert balances(box, "default") == [(1000 - 600, 3 * 100, 400 - 300)]
    listed = box.get(f"/wallets/{wallet_id}/wallet_transactions?transaction_status=invoiced")["wallet_transactions"]
    assert [(item["amount"], item["source"], item["svc_invoice_id"]) for item in listed] == [
        ("6.0", "manual", box.invoices()[0]["svc_id"])
    ]


def test_what_is_paid_in_advance_leaves_the_wallet_at_once(box: Scenario) -> None:
    box.tax(10)
    box.customer(billing_configuration={"invoice_grace_period": 3})
    box.plan(charge_on(box.metric("gb"), amount="1", pay_in_advance=True), amount_cents=100)
    box.subscribe()
    wallet(box, "default", "100", 1)
    box.event("gb", value=50)
    assert balances(box, "default") == [(4500, 0, 4500)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert balances(box, "default") == [(4500, 110, 4500 - 110)]


def test_ongoing_credits_are_worth_the_rate_of_the_wallet(box: Scenario) -> None:
    box.tax(10)
    gb, ops = box.metric("gb"), box.metric("ops")
    box.plan(charge_on(gb, amount="1"), charge_on(ops, amount="1", pay_in_advance=True))
    box.subscribe()
    wallet(box, "default", "100", 1, rate="10")
    box.event("gb", value=10)
    box.event("gb", value=100)
    box.event("ops", value=20)
    held = shown(box, "default")
    assert (held["credits_balance"], held["balance_cents"]) == ("97.8", 100_000 - gross(20 * 100, 10))
    assert (held["ongoing_balance_cents"], held["credits_ongoing_balance"]) == (
        97_800 - gross((10 + 100) * 100, 10),
        "85.7",
    )
    assert (held["ongoing_usage_balance_cents"], held["credits_ongoing_usage_balance"]) == (
        gross((10 + 100) * 100, 10),
        "12.1",
    )
    assert box.webhook_types("wallet.depleted_ongoing_balance") == []


def test_more_usage_than_credits_leaves_less_than_nothing_and_says_so(box: Scenario) -> None:
    priced(box, "gb")
    wallet(box, "default", "5", 1, rate="2")
    before = len(box.webhook_types("wallet.depleted_ongoing_balance"))
    box.event("gb", value=11)
    held = shown(box, "default")
    assert (held["credits_ongoing_usage_balance"], held["ongoing_balance_cents"]) == ("5.5", -100)
    assert held["credits_ongoing_balance"] == "-0.5"
    assert len(box.webhook_types("wallet.depleted_ongoing_balance")) == before + 1


def test_wallets_limited_to_metrics_take_what_progressive_billing_left(box: Scenario) -> None:
    box.tax(10)
    priced(box, "bm1", "bm2", usage_thresholds=[{"amount_cents": 2000}])
    wallet(box, "two", "100", 1, applies_to={"billable_metric_codes": ["bm2"]})
    wallet(box, "free", "100", 2)
    box.event("bm2", value=20)
    assert balances(box, "two", "free") == [(7800, 0, 7800), (10_000, 0, 10_000)]
    box.event("bm2", value=1)
    box.event("bm1", value=2)
    assert balances(box, "two", "free") == [(7800, 110, 7800 - 110), (10_000, 220, 10_000 - 220)]
    box.travel_to("2024-04-01T01:00:00Z")
    assert balances(box, "two", "free") == [(7800 - 110, 0, 7800 - 110), (10_000 - 220, 0, 10_000 - 220)]


def six_wallets(box: Scenario) -> None:
    for suffix, fee_types in (("", []), ("-charge", ["charge"]), ("-sub", ["subscription"])):
        for name, priority in (("n", 50), ("p", 49)):
            wallet(box, f"{name}{suffix}", "10", priority, applies_to={"fee_types": fee_types})
            box.travel_to(box.now.replace(minute=box.now.minute + 1))


def paid(box: Scenario, invoice: Any) -> dict[str, int]:
    """What each wallet paid of an invoice, by its code, as the explanation tells it."""
    parts: dict[str, int] = {}
    for fee in box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]["fees"]:
        for part in fee["prepaid_credits"]:
            parts[part["wallet_code"]] = parts.get(part["wallet_code"], 0) + part["amount_cents"]
    assert sum(parts.values()) == invoice["prepaid_credit_amount_cents"]
    return parts


def test_six_wallets_pay_usage_by_priority(box: Scenario) -> None:
    priced(box, "gb")
    six_wallets(box)
    box.event("gb", value=15)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert paid(box, invoice) == {"p": 1000, "p-charge": 500}


def test_six_wallets_pay_a_fee_and_usage_as_far_as_each_may(box: Scenario) -> None:
    box.tax("2.8571428571", code="small", applied_to_organization=False)
    box.tax("3.3333333333", code="usage", applied_to_organization=False)
    gb = box.metric("gb")
    box.plan(
        charge_on(gb, amount="1", tax_codes=["usage"]), amount_cents=3500, tax_codes=["small"], pay_in_advance=False
    )
    box.subscribe(billing_time="anniversary")
    six_wallets(box)
    box.event("gb", value=15)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert invoice["sub_total_including_taxes_amount_cents"] == gross(3500, "2.8571428571") + gross(
        1500, "3.3333333333"
    )
    assert paid(box, invoice) == {
        "p": 1000,
        "p-charge": 1000,
        "p-sub": 1000,
        "n": 1000,
        "n-charge": 550,
        "n-sub": 600,
    }
    assert invoice["total_amount_cents"] == 0


def test_an_event_paid_in_advance_is_paid_with_its_taxes_by_the_wallet_of_its_metric(box: Scenario) -> None:
    box.tax(24)
    charges = [charge_on(box.metric(code), amount="1", pay_in_advance=True) for code in ("one", "two")]
    box.plan(*charges)
    box.subscribe()
    wallet(box, "default", "39", 1, applies_to={"billable_metric_codes": ["one"]})
    for metric, value, prepaid, left in (("one", 14.29, 1772, 2128), ("one", 14.27, 1769, 359), ("two", 10, 0, 359)):
        box.event(metric, value=value)
        invoice = box.invoices()[-1]
        assert invoice["prepaid_credit_amount_cents"] == prepaid
        assert shown(box, "default")["balance_cents"] == left


def test_a_wallet_of_another_billing_entity_pays_and_one_of_another_currency_does_not(box: Scenario) -> None:
    for code in ("us", "eu"):
        box.post("/billing_entities", billing_entity={"name": code, "code": code})
    box.customer(billing_entity_code="eu")
    priced(box, "gb")
    wallet(box, "of-us", "3", 2, billing_entity_code="us")
    wallet(box, "dollars", "9", 1)

    def to_dollars(work: Work) -> None:
        (wallet,) = work.tx.find(Wallet, eq("code", "dollars"))
        work.tx.replace(replace(wallet, currency="USD"))

    # Customers had wallets in several currencies when earlier versions wrote their files.
    box.billing.writing(to_dollars)
    box.event("gb", value=5)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert (paid(box, invoice), invoice["total_amount_cents"]) == ({"of-us": 300}, 200)


@pytest.mark.beyond_reference  # Its documents know fewer types of fees than it takes.
def test_a_fixed_charge_is_paid_by_a_wallet_for_fixed_charges_also_in_a_preview(box: Scenario) -> None:
    box.plan(amount_cents=2000, fixed_charges=[fixed_charge_on(box.add_on(), amount="3", units=1)])
    box.subscribe()
    wallet(box, "default", "5", 1, applies_to={"fee_types": ["fixed_charge"]})
    preview = box.post("/invoices/preview", customer={"external_id": "acme"}, subscriptions={"external_ids": ["sub"]})
    box.travel_to("2024-04-01T01:00:00Z")
    (issued,) = box.invoices()
    for invoice in (preview["invoice"], issued):
        assert (invoice["prepaid_credit_amount_cents"], invoice["total_amount_cents"]) == (300, 2000)
    assert shown(box, "default")["balance_cents"] == 200


def test_invoices_that_no_wallet_pays(box: Scenario) -> None:
    wallet(box, "default", "100", 1)
    box.add_on()
    one_off = box.post(
        "/invoices",
        invoice={"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]},
    )["invoice"]
    priced(box, "gb")
    box.post(
        "/wallet_transactions", wallet_transaction={"wallet_id": shown(box, "default")["svc_id"], "paid_credits": "1"}
    )
    box.travel_to("2024-04-01T01:00:00Z")
    by_type = {invoice["invoice_type"]: invoice for invoice in box.invoices()}
    assert set(by_type) == {"one_off", "credit", "subscription"}
    assert {invoice["prepaid_credit_amount_cents"] for invoice in by_type.values()} == {0}
    # Nothing is due of an invoice over nothing.
    assert by_type["subscription"]["total_amount_cents"] == 0
    assert one_off["total_amount_cents"] == 100
    assert shown(box, "default")["balance_cents"] == 10_000


def test_a_regenerated_invoice_is_paid_from_what_wallets_have_then(box: Scenario) -> None:
    priced(box, "gb")
    wallet_id = wallet(box, "default", "4", 1, purchase_order_number="PO-1")
    bought = {"wallet_id": wallet_id, "paid_credits": "2", "metadata": [{"key": "a", "value": "b"}], "priority": 1}
    box.post("/wallet_transactions", wallet_transaction=bought)
    box.run_due()
    box.put(f"/invoices/{box.invoices()[0]['svc_id']}", invoice={"payment_status": "succeeded"})
    box.event("gb", value=9)
    box.travel_to("2024-04-01T01:00:00Z")
    invoice = box.invoices()[-1]
    assert (invoice["prepaid_granted_credit_amount_cents"], invoice["prepaid_purchased_credit_amount_cents"]) == (
        400,
        200,
    )
    box.post(f"/invoices/{invoice['svc_id']}/void")
    held = shown(box, "default")
    assert (held["credits_balance"], held["consumed_credits"]) == ("6.0", "0.0")
    returned = box.get(f"/wallets/{wallet_id}/wallet_transactions")["wallet_transactions"][0]
    assert returned["svc_voided_invoice_id"] == invoice["svc_id"]
    # What had been bought comes back as a grant.
    assert (returned["transaction_status"], returned["status"], returned["source"]) == ("granted", "settled", "manual")
    assert (returned["credit_amount"], returned["priority"], returned["metadata"]) == ("6.0", 50, [])
    assert returned["purchase_order_number"] == "PO-1"
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "voided_credits": "5"})
    fee = fee_of(invoice, "charge")
    box.billing.invoices.regenerate(invoice["svc_id"], fees=[{"id": fee["svc_id"]}])
    anew = box.invoices()[-1]
    assert (anew["prepaid_granted_credit_amount_cents"], anew["prepaid_purchased_credit_amount_cents"]) == (100, None)
    assert anew["total_amount_cents"] == 9 * 100 - 100
    assert box.billing.audit().findings == ()
