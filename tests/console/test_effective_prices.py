"""Forms of prices say from when they count; the plan shows what waits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on, filter_on, fixed_charge_on

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")

DAY = {"effective": "day", "effective_on": "2024-05-01"}


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    """Somebody before a plan that a customer is on, with a charge, its filter, a fixed charge and a commitment."""
    regions = [{"key": "region", "values": ["eu", "us"]}]
    calls = box.metric("calls", filters=regions)
    seats = fixed_charge_on(box.add_on("seat"), amount="7", units=2, code="seats")
    charge = charge_on(calls, amount="1", code="calls", filters=[filter_on({"region": ["eu"]}, amount="2")])
    commitment = {"amount_cents": 900}
    box.plan(charge, amount_cents=1000, fixed_charges=[seats], minimum_commitment=commitment, description="Ours")
    box.customer()
    box.subscribe()
    box.travel_to("2024-03-06T10:00:00Z")
    return Visitor(box.billing, invited(box.billing, "admin"))


def plan(box: Scenario) -> Any:
    return box.get("/plans/basic")["plan"]


def forms(box: Scenario) -> dict[str, dict[str, str]]:
    """Each form that changes a price of the plan, with another one."""
    filter_id = plan(box)["charges"][0]["filters"][0]["svc_id"]
    whole = {"name": "Basic", "code": "basic", "description": "Ours", "amount_currency": "EUR", "interval": "monthly"}
    return {
        "/change/plans/basic": {**whole, "amount_cents": "20.00"},
        "/change/charges/calls?plan=basic": {"amount": "3", "step": "save"},
        f"/change/filters/{filter_id}?plan=basic&charge=calls": {"amount": "4", "step": "save"},
        "/change/fixed-charges/seats?plan=basic": {"amount": "9", "units": "2", "step": "save"},
        "/plans/basic/terms": {"amount_cents": "30.00", "step": "save"},
    }


def test_every_form_of_a_price_can_put_it_off(box: Scenario, admin: Visitor) -> None:
    before = plan(box)
    for path, fields in forms(box).items():
        assert 'name="effective_on"' in admin.page(path), path
        answer = admin.send_form(path, **fields, **DAY)
        assert answer.status_code == 303, (path, re.findall(r'role="alert">(.*?)<', answer.text))
    after = plan(box)
    assert [prices["effective_on"] for prices in after["scheduled_prices"]] == ["2024-05-01"] * 5
    for name in ("amount_cents", "charges", "fixed_charges", "minimum_commitment"):
        assert after[name] == before[name], name
    page = admin.page("/plans/basic")
    assert "Prices to come" in page
    assert "€20.00" in page
    box.travel_to("2024-05-01T01:00:00Z")
    assert (plan(box)["amount_cents"], plan(box)["charges"][0]["properties"]["amount"]) == (2000, "3")
    assert "scheduled_prices" not in plan(box)


def test_prices_to_come_are_moved_and_taken_back(box: Scenario, admin: Visitor) -> None:
    charge = "/change/charges/calls?plan=basic"
    admin.send_form(charge, amount="3", step="save", **DAY)
    admin.send_form(charge, amount="4", step="save", effective="day", effective_on="2024-06-01")
    first, second = (prices["version"] for prices in plan(box)["scheduled_prices"])
    path = f"/plans/basic/prices-to-come/{first}"
    assert f'href="/console{path}"' in admin.page("/plans/basic")
    assert 'value="2024-05-01"' in admin.page(path)
    for wrong in ("", "2020-01-01", "soon"):
        answer = admin.send_form(path, effective_on=wrong, step="save")
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text
    answer = admin.send_form(path, effective_on="2024-05-15", step="save")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/plans/basic")
    assert [prices["effective_on"] for prices in plan(box)["scheduled_prices"]] == ["2024-05-15", "2024-06-01"]
    admin.send_form(path, step="remove")
    assert [prices["version"] for prices in plan(box)["scheduled_prices"]] == [second]
    assert admin.send_form(path, step="remove").status_code == 404
    assert admin.send_form(f"/plans/basic/prices-to-come/{second}", step="remove").status_code == 303
    assert "scheduled_prices" not in plan(box)
    box.travel_to("2024-07-02T00:00:00Z")
    assert plan(box)["charges"][0]["properties"]["amount"] not in ("3", "4")


def test_the_next_period_and_at_once_are_chosen_too(box: Scenario, admin: Visitor) -> None:
    path = "/change/charges/calls?plan=basic"
    box.event("calls", value=1)
    for effective, cents in (("next_period", 100), ("immediately", 100)):
        answer = admin.send_form(path, amount="5", step="save", effective=effective)
        assert answer.status_code == 303
        # Once it has been promised, the open period keeps its price.
        assert box.usage()["amount_cents"] == cents
    box.travel_to("2024-04-02T00:00:00Z")
    box.event("calls", value=1)
    assert box.usage()["amount_cents"] == 500


def test_a_day_that_is_missing_or_not_asked_for_is_refused_in_words(box: Scenario, admin: Visitor) -> None:
    before = plan(box)
    for path, fields in forms(box).items():
        for chosen in ({"effective": "day"}, {"effective": "next_period", "effective_on": "2024-05-01"}):
            answer = admin.send_form(path, **fields, **chosen)
            assert answer.status_code == 422, (path, chosen)
            assert "effective_on" in answer.text
    past = admin.send_form(
        "/change/charges/calls?plan=basic", amount="3", step="save", effective="day", effective_on="2024-03-01"
    )
    assert past.status_code == 422
    assert plan(box) == before
