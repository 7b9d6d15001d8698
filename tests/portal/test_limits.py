"""Customers see what bounds their usage in the portal, and set limits of their own where the seller lets them."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from tests.cases import each
from tests.portal.test_pages import NARROW, visit
from tests.scenarios import Scenario, charge_on

from usagebill.core.documents.words import WORDS
from usagebill.core.spend_limits import LimitInterval

PAGE = "/limits/acme%2F1"
API = "/subscriptions/acme%2F1/spend_limits"


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-03-01T09:00:00Z") as box:
        box.plan(charge_on(box.metric("tokens"), amount="1"), name="Pro")
        allow(box)
        for name in ("acme", "other"):
            box.customer(name)
            box.subscribe(external_id=f"{name}/1", customer=name)
        yield box


def allow(box: Scenario, allowed: bool = True) -> None:
    box.put("/billing_entities/default", billing_entity={"portal_spend_limits": allowed})


def send(box: Scenario, customer: str = "acme", page: str = PAGE, **form: str) -> httpx.Response:
    return visit(box, page, "POST", customer=customer, data=form)


def cells(box: Scenario) -> list[str]:
    text = visit(box, PAGE).text.replace(NARROW, " ")
    return re.findall(r'<td class="number[^"]*" data-label="[^"]*">(.*?)</td>', text)


def allowed(box: Scenario, cents: int) -> bool:
    sent = {"external_subscription_id": "acme/1", "amount_cents": cents}
    answer: bool = box.post("/checks", check=sent)["check"]["allowed"]
    return answer


def test_a_customer_sees_what_the_seller_allows_and_what_is_held(box: Scenario) -> None:
    allow(box, False)
    assert "/limits/" not in visit(box, "/usage/acme%2F1").text
    assert "There are no limits." in visit(box, PAGE).text
    quota = {"code": "tokens", "units": "40", "billable_metric_code": "tokens", "interval": "day"}
    box.post("/plans/basic/spend_limits", spend_limit={**quota, "group": {"model": ["large"]}, "on_reached": "alert"})
    box.post("/customers/acme/spend_limits", spend_limit={"code": "all", "amount_cents": 5000, "interval": "month"})
    box.event("tokens", "acme/1", value="5", model="large")
    box.post("/holds", hold={"external_subscription_id": "acme/1", "code": "tokens", "properties": {"value": "7"}})
    box.post("/holds", hold={"external_subscription_id": "other/1", "amount_cents": 4321})
    assert f"{PAGE}" in visit(box, "/usage/acme%2F1").text
    assert cells(box) == [
        *("€50.00", "€5.00", "€7.00", "€38.00", "Apr 1, 2024, 00:00"),
        *("40", "5", "0", "35", "Mar 2, 2024, 00:00"),
        *("7", "€7.00", "Mar 1, 2024, 09:05"),
    ]
    page = visit(box, PAGE).text
    assert all(
        text in page for text in ("All subscriptions together", "model: large", "Usage beyond it is not refused")
    )
    assert "<select" not in page
    assert send(box, interval="day", amount="1").status_code == 404
    assert box.get(API)["spend_limits"] == []


def test_quotas_of_entitlements_are_seen(box: Scenario) -> None:
    privilege = {"code": "max", "value_type": "integer", "billable_metric_code": "tokens"}
    box.post("/features", feature={"code": "ai", "name": "AI", "privileges": [privilege]})
    box.post("/plans/basic/entitlements", entitlements={"ai": {"max": 30}})
    box.event("tokens", "acme/1", value="12")
    assert cells(box)[:4] == ["30", "12", "0", "18"]


def test_a_customer_sets_changes_and_removes_a_limit_that_refuses(box: Scenario) -> None:
    assert send(box, interval="month", amount="20.50").status_code == 303
    (limit,) = box.get(API)["spend_limits"]
    assert (limit["code"], limit["set_by"]) == ("customer_portal_month", "customer")
    assert (limit["amount_cents"], limit["interval"], limit["on_reached"]) == (2050, "month", "refuse")
    box.event("tokens", "acme/1", value="15")
    assert (allowed(box, 550), allowed(box, 551)) == (True, False)
    refused = box.post("/holds", hold={"external_subscription_id": "acme/1", "amount_cents": 551}, status=402)
    assert refused["error_details"]["limit"]["set_by"] == "customer"
    assert "Set by you" in visit(box, PAGE).text
    assert 'value="20.50"' in visit(box, PAGE).text
    send(box, interval="month", amount="30")
    assert (allowed(box, 1500), allowed(box, 1501)) == (True, False)
    assert len(box.get(API)["spend_limits"]) == 1
    assert send(box, interval="month", remove="yes").status_code == 303
    assert allowed(box, 10**9)
    assert send(box, interval="month", remove="yes").status_code == 404


@each("interval", list(LimitInterval), ids=str)
def test_it_only_ever_adds_a_bound(box: Scenario, interval: str) -> None:
    owners = ("plans/basic", "subscriptions/acme%2F1", "customers/acme")
    for owner in owners:
        box.post(f"/{owner}/spend_limits", spend_limit={"code": interval, "amount_cents": 1000, "interval": interval})
    before = [box.get(f"/{owner}/spend_limits/{interval}") for owner in owners]
    send(box, interval=interval, amount="1000000")
    assert (allowed(box, 1000), allowed(box, 1001)) == (True, False)
    send(box, interval=interval, amount="5")
    assert (allowed(box, 500), allowed(box, 501)) == (True, False)
    send(box, interval=interval, remove="yes")
    assert (allowed(box, 1000), allowed(box, 1001)) == (True, False)
    assert [box.get(f"/{owner}/spend_limits/{interval}") for owner in owners] == before


def test_codes_of_customers_are_theirs_alone(box: Scenario) -> None:
    for owner in ("plans/basic", "subscriptions/acme%2F1", "customers/acme"):
        sent = {"code": "customer_portal_day", "amount_cents": 1}
        refused = box.post(f"/{owner}/spend_limits", spend_limit=sent, status=422)
        assert refused["error_details"] == {"code": ["value_is_reserved"]}
        box.post(f"/{owner}/spend_limits", spend_limit={"code": "mine", "amount_cents": 1})
        refused = box.put(f"/{owner}/spend_limits/mine", spend_limit={"code": "customer_portal_day"}, status=422)
        assert refused["error_details"] == {"code": ["value_is_reserved"]}
    assert box.get(f"{API}/mine")["spend_limit"]["set_by"] == "seller"


def test_the_seller_removes_a_customers_limit_but_does_not_change_it(box: Scenario) -> None:
    send(box, interval="day", amount="5")
    refused = box.put(f"{API}/customer_portal_day", spend_limit={"amount_cents": 1}, status=405)
    assert refused["code"] == "set_by_customer"
    box.delete(f"{API}/customer_portal_day")
    assert allowed(box, 10**9)


def test_once_the_seller_allows_none_any_more_those_that_are_set_hold_until_they_are_removed(box: Scenario) -> None:
    send(box, interval="day", amount="5")
    allow(box, False)
    assert not allowed(box, 501)
    assert send(box, interval="day", amount="6").status_code == 404
    assert 'name="remove"' in visit(box, PAGE).text
    assert send(box, interval="day", remove="yes").status_code == 303
    assert allowed(box, 501)


@each("form", [("day", ""), ("day", "0"), ("day", "-1"), ("day", "1e500"), ("day", "0.001"), ("week", "5")], ids=str)
def test_what_is_no_limit_is_refused(box: Scenario, form: tuple[str, str]) -> None:
    refused = send(box, interval=form[0], amount=form[1])
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert box.get(API)["spend_limits"] == []


def test_nobody_sees_or_sets_another_customers(box: Scenario) -> None:
    send(box, interval="day", amount="5")
    assert visit(box, PAGE, customer="other").status_code == 404
    assert send(box, customer="other", interval="day", amount="6").status_code == 404
    assert send(box, customer="other", interval="day", remove="yes").status_code == 404
    box.post("/customers/acme/spend_limits", spend_limit={"code": "all", "amount_cents": 10})
    assert send(box, interval="lifetime", remove="yes").status_code == 404
    assert [limit["amount_cents"] for limit in box.get(API)["spend_limits"]] == [500]


def test_the_activity_log_says_who_set_it(box: Scenario) -> None:
    send(box, interval="day", amount="5")
    activities = box.get("/activity_logs")["activity_logs"]
    made = [one["activity_source"] for one in activities if one["activity_type"] == "spend_limit.created"]
    assert made == ["front"]


@pytest.mark.parametrize("locale", WORDS)
def test_limits_speak_the_languages_of_documents(box: Scenario, locale: str) -> None:
    box.customer("acme", billing_configuration={"document_locale": locale})
    send(box, interval="lifetime", amount="10")
    box.post("/holds", hold={"external_subscription_id": "acme/1", "amount_cents": 4})
    page = visit(box, PAGE).text
    assert "{" not in page
    assert (locale == "en") == ("Set by you" in page)
