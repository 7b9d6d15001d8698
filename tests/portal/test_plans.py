"""Customers change to plans that the seller offers in the portal, and see before what that comes to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cases import each
from tests.portal.test_pages import NARROW, visit
from tests.scenarios import Scenario

from usagebill.core.documents.words import WORDS


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-03-11T09:00:00Z") as box:
        for code, cents in (("basic", 31_00), ("pro", 62_00)):
            box.plan(code=code, name=code.title(), amount_cents=cents, pay_in_advance=True, offered_in_portal=True)
        box.plan(code="secret", name="Secret", amount_cents=1_00)
        box.plan(code="dollars", name="Dollars", amount_cents=1_00, amount_currency="USD", offered_in_portal=True)
        for name in ("acme", "other"):
            box.customer(name)
        box.subscribe(plan="basic", external_id="acme/1", customer="acme")
        yield box


def shown(box: Scenario, path: str, customer: str = "acme") -> str:
    return visit(box, path, customer=customer).text.replace(NARROW, " ")


def plan_of(box: Scenario) -> tuple[str, str | None]:
    subscription = box.get("/subscriptions/acme%2F1")["subscription"]
    return subscription["plan_code"], subscription["next_plan_code"]


def test_only_offered_plans_of_the_same_currency_are_shown(box: Scenario) -> None:
    assert "/plans/acme%2F1" in shown(box, "/usage/acme%2F1")
    page = shown(box, "/plans/acme%2F1")
    assert "?plan=pro" in page
    assert "Secret" not in page
    assert "Dollars" not in page


def test_an_upgrade_costs_what_its_preview_says(box: Scenario) -> None:
    page = shown(box, "/plans/acme%2F1?plan=pro")
    # 21 of 31 days of each: 42.00, less 21.00 of the plan that was paid.
    for text in ("The change takes effect at once.", "€42.00", "Change to Pro"):
        assert text in page, text
    assert plan_of(box) == ("basic", None)
    assert len(box.invoices("acme")) == 1
    answer = visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"})
    assert answer.status_code == 303
    assert plan_of(box) == ("pro", None)
    assert "Your plan has been changed." in shown(box, "/plans/acme%2F1?changed")
    invoices = box.invoices("acme")
    assert len(invoices) == 2
    assert sorted(invoice["fees_amount_cents"] for invoice in invoices) == [21_00, 42_00]
    # Sent again it changes nothing.
    assert visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"}).status_code == 404
    assert len(box.invoices("acme")) == 2


def test_a_downgrade_waits_for_the_end_of_the_month(box: Scenario) -> None:
    visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"})
    page = shown(box, "/plans/acme%2F1?plan=basic")
    assert "The change takes effect on Apr 1, 2024." in page
    assert "€31.00" in page
    assert visit(box, "/plans/acme%2F1", "POST", data={"plan": "basic"}).status_code == 303
    assert plan_of(box) == ("pro", "basic")
    assert "Changes to Basic on Apr 1, 2024." in shown(box, "/plans/acme%2F1?changed")
    box.travel_to("2024-04-01T12:00:00Z")
    assert plan_of(box) == ("basic", None)
    (invoice,) = [found for found in box.invoices("acme") if found["issuing_date"] == "2024-04-01"]
    assert invoice["fees_amount_cents"] == 31_00


@each("code", ["secret", "dollars", "basic", "nowhere", ""], ids=str)
def test_no_other_plan_can_be_had(box: Scenario, code: str) -> None:
    if code:
        assert visit(box, f"/plans/acme%2F1?plan={code}").status_code == 404
    assert visit(box, "/plans/acme%2F1", "POST", data={"plan": code}).status_code == 404
    assert plan_of(box) == ("basic", None)


def test_a_plan_with_prices_of_its_own_is_left_by_agreement_only(box: Scenario) -> None:
    box.put("/subscriptions/acme%2F1", subscription={"plan_overrides": {"amount_cents": 20_00}})
    assert "?plan=" not in shown(box, "/plans/acme%2F1")
    assert visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"}).status_code == 404


def test_where_the_seller_offers_nothing_there_is_no_link(box: Scenario) -> None:
    for code in ("basic", "pro"):
        box.put(f"/plans/{code}", plan={"offered_in_portal": False})
        assert box.get(f"/plans/{code}")["plan"]["offered_in_portal"] is False
    assert "/plans/" not in shown(box, "/usage/acme%2F1")
    assert visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"}).status_code == 404


def test_nobody_changes_another_customers_plan(box: Scenario) -> None:
    assert visit(box, "/plans/acme%2F1", customer="other").status_code == 404
    assert visit(box, "/plans/acme%2F1", "POST", customer="other", data={"plan": "pro"}).status_code == 404
    assert plan_of(box) == ("basic", None)


def test_what_the_seller_agreed_on_is_kept(box: Scenario) -> None:
    box.put(
        "/subscriptions/acme%2F1",
        subscription={
            "name": "Mine",
            "progressive_billing_disabled": True,
            "payment_method": {"payment_method_type": "manual"},
        },
    )
    visit(box, "/plans/acme%2F1", "POST", data={"plan": "pro"})
    subscription = box.get("/subscriptions/acme%2F1")["subscription"]
    assert subscription["plan_code"] == "pro"
    assert (subscription["name"], subscription["progressive_billing_disabled"]) == ("Mine", True)
    assert subscription["payment_method"]["payment_method_type"] == "manual"


@pytest.mark.parametrize("locale", WORDS)
def test_the_change_speaks_the_languages_of_documents(box: Scenario, locale: str) -> None:
    box.customer("acme", billing_configuration={"document_locale": locale})
    for path in ("/plans/acme%2F1", "/plans/acme%2F1?plan=pro"):
        page = visit(box, path)
        assert page.status_code == 200
        assert f'<html lang="{locale}">' in page.text
        assert "{" not in page.text
