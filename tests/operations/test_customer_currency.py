"""A customer has one currency: nothing in another bills it or waits in vain to pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.json_asserts import accepted, refused
from tests.scenarios import Scenario

from usagebill.core.subscriptions import Subscription
from usagebill.runtime.work import Work

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z")]

OTHER = {"currency": ["currencies_does_not_match"]}
OFF = {"code": "new", "coupon_type": "fixed_amount", "amount_cents": 100, "amount_currency": "EUR"}
LISTS = ("/subscriptions", "/wallets", "/applied_coupons", "/invoices")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Acme in EUR, `new` without a currency, plans and add-ons in EUR and USD."""
    box.customer()
    box.customer("new", currency=None)
    for code, currency in (("basic", "EUR"), ("plus", "EUR"), ("dollars", "USD")):
        box.plan(code=code, amount_cents=1000, amount_currency=currency)
    box.add_on("setup", 500)
    box.add_on("dollar-setup", 500, amount_currency="USD")
    return box


def subscribe(box: Scenario, plan: str, customer: str = "acme", **fields: Any) -> Any:
    body = {"external_customer_id": customer, "external_id": "sub", "plan_code": plan, **fields}
    return box.send("POST", "/subscriptions", {"subscription": body})


def wallet(box: Scenario, currency: str, customer: str = "acme") -> Any:
    body = {"external_customer_id": customer, "rate_amount": "1", "currency": currency, "granted_credits": "5"}
    return box.send("POST", "/wallets", {"wallet": body})


def coupon(box: Scenario, currency: str | None, customer: str = "acme", **fields: Any) -> Any:
    kind = (
        {"coupon_type": "percentage", "percentage_rate": "10"}
        if currency is None
        else {"coupon_type": "fixed_amount", "amount_cents": 100, "amount_currency": currency}
    )
    body = {"name": "Off", "code": "off", "frequency": "once", "expiration": "no_expiration", **kind}
    box.send("POST", "/coupons", {"coupon": body})
    applied = {"external_customer_id": customer, "coupon_code": "off", **fields}
    return box.send("POST", "/applied_coupons", {"applied_coupon": applied})


def one_off(box: Scenario, currency: str | None, customer: str = "acme", **fee: Any) -> Any:
    fees = [{"add_on_code": "setup", **fee}]
    body = {"external_customer_id": customer, "fees": fees} | ({"currency": currency} if currency else {})
    return box.send("POST", "/invoices", {"invoice": body})


def to_dollars(box: Scenario, plan: str = "dollars") -> None:
    """Move the subscription to a plan in another currency, as files of earlier versions have it."""
    plan_id = box.billing.plans.get(plan).id

    def move(work: Work) -> None:
        (subscription,) = work.tx.find(Subscription)
        work.tx.replace(replace(subscription, plan_id=plan_id))

    box.billing.writing(move)


@pytest.mark.parametrize("what", ["plan", "override", "wallet", "coupon", "coupon's amount", "one-off"])
def test_what_is_in_another_currency_than_the_customers_is_refused_in_words(box: Scenario, what: str) -> None:
    answer = {
        "plan": lambda: subscribe(box, "dollars"),
        "override": lambda: subscribe(box, "basic", plan_overrides={"amount_currency": "USD"}),
        "wallet": lambda: wallet(box, "USD"),
        "coupon": lambda: coupon(box, "USD"),
        "coupon's amount": lambda: coupon(box, "EUR", amount_currency="USD"),
        "one-off": lambda: one_off(box, "USD", unit_amount_cents=100),
    }[what]()
    assert refused(answer) == {"currency": ["currencies_does_not_match"]}
    text = "currency: USD is not the currency of customer 'acme', which is EUR"
    assert answer[1]["messages"]["currency"] == [text]
    assert [box.get(path)["meta"]["total_count"] for path in LISTS] == [0, 0, 0, 0]


@pytest.mark.parametrize("first", [subscribe, wallet, coupon, one_off])
def test_a_customer_without_a_currency_takes_that_of_the_first_thing_it_gets(box: Scenario, first: Any) -> None:
    currency = "dollars" if first is subscribe else "USD"
    price = {"unit_amount_cents": 100} if first is one_off else {}
    status, body = first(box, currency, "new", **price)
    assert status == 200, body
    assert box.get("/customers/new")["customer"]["currency"] == "USD"
    assert refused(wallet(box, "EUR", "new")) == OTHER


def test_a_percentage_is_of_any_currency(box: Scenario) -> None:
    accepted(coupon(box, None, "new"), "applied_coupon")
    accepted(subscribe(box, "dollars", "new"), "subscription")


def test_an_add_on_is_priced_in_its_own_currency_unless_a_price_is_sent(box: Scenario) -> None:
    answer = one_off(box, None, add_on_code="dollar-setup")
    assert refused(answer) == OTHER
    assert answer[1]["messages"]["currency"][0].startswith("fees[0].currency: add-on 'dollar-setup' is in USD")
    invoice = accepted(one_off(box, None, add_on_code="dollar-setup", unit_amount_cents=700), "invoice")
    assert (invoice["currency"], invoice["total_amount_cents"]) == ("EUR", 700)


def test_a_change_to_a_plan_in_another_currency_is_refused_and_changes_nothing(box: Scenario) -> None:
    accepted(subscribe(box, "basic"), "subscription")
    assert refused(subscribe(box, "dollars")) == OTHER
    assert (
        refused(box.send("PUT", "/subscriptions/sub", {"subscription": {"plan_overrides": {"amount_currency": "USD"}}}))
        == OTHER
    )
    shown = box.get("/subscriptions/sub")["subscription"]
    assert (shown["plan_code"], shown["plan"]["amount_currency"], shown["next_plan_code"]) == ("basic", "EUR", None)


def test_a_plan_of_a_subscription_that_starts_later_stays_in_its_currency(box: Scenario) -> None:
    accepted(subscribe(box, "basic", subscription_at="2024-04-01T00:00:00Z"), "subscription")
    assert refused(subscribe(box, "dollars")) == OTHER
    assert accepted(subscribe(box, "plus"), "subscription")["plan_code"] == "plus"


def test_a_subscription_in_another_currency_of_an_earlier_version_stays_as_it_is(box: Scenario) -> None:
    accepted(subscribe(box, "basic"), "subscription")
    to_dollars(box)
    # Sent again, it is unchanged; its plan can change neither to the customer's currency nor within its own.
    assert accepted(subscribe(box, "dollars"), "subscription")["plan_code"] == "dollars"
    assert refused(subscribe(box, "plus")) == OTHER
    # The customer can follow.
    assert box.customer(currency="USD")["currency"] == "USD"


@pytest.mark.parametrize("held", ["subscription", "wallet", "coupon", "credit note"])
def test_a_customer_keeps_its_currency_while_it_has_something_in_it(box: Scenario, held: str) -> None:
    if held == "subscription":
        subscribe(box, "basic")
    elif held == "wallet":
        wallet(box, "EUR")
    elif held == "coupon":
        coupon(box, "EUR")
    else:
        invoice = accepted(one_off(box, "EUR"), "invoice")
        items = [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 500}]
        note = {"invoice_id": invoice["svc_id"], "items": items, "credit_amount_cents": 500}
        box.post("/credit_notes", credit_note=note)
    answer = box.send("POST", "/customers", {"customer": {"external_id": "acme", "currency": "USD"}})
    assert refused(answer) == {"currency": ["currency_not_editable"]}
    # As clients send it that send every field.
    assert box.customer(currency=None)["currency"] == "EUR"
    assert box.customer(currency="EUR", name="Other")["name"] == "Other"


def test_a_customer_that_has_nothing_any_more_may_change_its_currency(box: Scenario) -> None:
    accepted(one_off(box, "EUR"), "invoice")
    subscribe(box, "basic")
    box.delete("/subscriptions/sub")
    assert box.customer(currency="USD")["currency"] == "USD"


def test_a_preview_is_refused_as_the_purchase_would_be(box: Scenario) -> None:
    for fields in (
        {"customer": {"external_id": "acme"}, "plan_code": "dollars"},
        {"customer": {"name": "Somebody", "currency": "EUR"}, "plan_code": "dollars"},
        {"customer": {"name": "Somebody"}, "plan_code": "dollars", "coupons": [OFF]},
    ):
        assert refused(box.send("POST", "/invoices/preview", fields)) == OTHER


def test_a_plan_keeps_its_currency_while_subscriptions_have_prices_of_their_own_on_it(box: Scenario) -> None:
    """Overrides follow the plan's amount and thresholds: 20 yen would become 0.20 euros."""
    accepted(subscribe(box, "basic", plan_overrides={"name": "Ours"}), "subscription")
    change = {"amount_currency": "JPY", "amount_cents": 20, "cascade_updates": True}
    answer = box.send("PUT", "/plans/basic", {"plan": change})
    assert refused(answer) == {"amount_currency": ["currencies_does_not_match"]}
    assert "prices of their own on the plan 'basic', in EUR" in answer[1]["messages"]["amount_currency"][0]
    for plan in (box.get("/plans/basic")["plan"], box.get("/subscriptions/sub")["subscription"]["plan"]):
        assert (plan["amount_currency"], plan["amount_cents"]) == ("EUR", 1000)
    # Other fields change with the same currency sent again, and all of them once nobody has such prices any more.
    assert box.put("/plans/basic", plan={"amount_currency": "EUR", "name": "Base"})["plan"]["name"] == "Base"
    box.delete("/subscriptions/sub")
    assert box.put("/plans/basic", plan=change)["plan"]["amount_currency"] == "JPY"
