"""A plan's versions say who changed what about its prices, and when."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on

from usagebill.core.plans import Plan
from usagebill.core.price_versions import PriceChange
from usagebill.runtime.work import Work


def versions(box: Scenario, query: str = "") -> list[Any]:
    return list(box.get(f"/plans/basic/versions{query}")["versions"])


@pytest.fixture
def priced(box: Scenario) -> Scenario:
    """A plan with a charge and seats, with a tax of its own; made in January."""
    box.jump_to("2024-01-10T08:00:00Z")
    box.tax(20, applied_to_organization=False)
    seat = box.add_on("seat")
    calls = charge_on(box.metric("calls"), code="calls", amount="2", tax_codes=["vat"])
    box.plan(calls, amount_cents=3100, fixed_charges=[fixed_charge_on(seat, code="seat", amount="7", units=3)])
    return box


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-01-01T08:00:00Z") as box:
        yield box


@pytest.mark.beyond_reference
def test_versions_are_listed_newest_first_with_what_changed_and_who_did_it(priced: Scenario) -> None:
    priced.jump_to("2024-02-10T08:00:00Z")
    priced.put("/plans/basic/charges/calls", charge={"charge_model": "standard", "properties": {"amount": "3"}})
    priced.jump_to("2024-03-10T08:00:00Z")
    priced.put("/plans/basic", plan={"amount_cents": 4000})
    priced.put("/taxes/vat", tax={"rate": 21})
    priced.delete("/plans/basic/charges/calls")
    gone, tax, amount, price, made = versions(priced)
    assert [version["version"] for version in (gone, tax, amount, price, made)] == sorted(
        (version["version"] for version in versions(priced)), reverse=True
    )
    assert (price["created_at"], price["source"]) == ("2024-02-10T08:00:00Z", "api")
    assert price["api_key_id"] is not None
    (changed,) = price["changes"]
    assert (changed["kind"], changed["code"], changed["activity"]) == ("charge", "calls", "updated")
    assert changed["changes"] == {"properties": [{"amount": "2"}, {"amount": "3"}]}
    assert amount["changes"][0]["changes"] == {"amount_cents": [3100, 4000]}
    assert [(one["kind"], one["activity"]) for one in gone["changes"]] == [("charge", "deleted")]
    # The tax is that of a charge which is gone by now.
    assert tax["changes"][0]["changes"] == {"rate": [20, 21]}
    assert [(one["kind"], one["code"]) for one in made["changes"]] == [
        ("plan", "basic"),
        ("charge", "calls"),
        ("fixed_charge", "seat"),
    ]


@pytest.mark.beyond_reference
def test_a_new_rate_of_a_tax_or_an_add_on_is_a_version_of_the_plans_that_have_it(priced: Scenario) -> None:
    priced.put("/taxes/vat", tax={"rate": 21})
    priced.put("/add_ons/seat", add_on={"amount_cents": 900})
    add_on, tax, *_ = versions(priced)
    assert [(one["kind"], one["changes"]) for one in tax["changes"]] == [("tax", {"rate": [20, 21]})]
    assert [(one["kind"], one["changes"]) for one in add_on["changes"]] == [("add_on", {"amount_cents": [100, 900]})]
    (page,) = versions(priced, "?per_page=1&page=2")
    assert page == tax


@pytest.mark.beyond_reference
def test_a_change_of_nothing_makes_no_version(priced: Scenario) -> None:
    before = versions(priced)
    priced.put("/plans/basic", plan={"amount_cents": 3100})
    assert versions(priced) == before


@pytest.mark.beyond_reference
def test_a_version_never_changes(priced: Scenario) -> None:
    for turn in range(1, 4):
        before = versions(priced)
        priced.put("/plans/basic", plan={"amount_cents": 4000 + turn})
        priced.put("/taxes/vat", tax={"rate": 20 + turn})
        assert versions(priced)[2:] == before


@pytest.mark.beyond_reference
def test_a_change_that_is_refused_makes_no_version(priced: Scenario) -> None:
    before = versions(priced)
    priced.put("/plans/basic", plan={"amount_cents": 4000, "charges": [{"id": "none"}]}, status=404)
    assert versions(priced) == before


@pytest.mark.beyond_reference
def test_a_plan_from_before_versions_were_kept_begins_with_version_0(priced: Scenario) -> None:
    def as_before(work: Work) -> None:
        work.tx.delete(*work.tx.find(PriceChange))

    priced.billing.writing(as_before)
    priced.put("/plans/basic", plan={"amount_cents": 4000})
    newest, oldest = versions(priced)
    assert newest["changes"][0]["changes"] == {"amount_cents": [3100, 4000]}
    assert (oldest["version"], oldest["source"], oldest["changes"]) == (0, None, [])


@pytest.mark.beyond_reference
def test_the_library_lists_the_definitions_before_and_after(priced: Scenario) -> None:
    priced.billing.plans.update("basic", amount_cents=4000)
    newest, *_ = priced.billing.plans.list_versions("basic").items
    (changed,) = newest.changes
    assert isinstance(changed.before, Plan)
    assert isinstance(changed.after, Plan)
    assert (changed.before.amount_cents, changed.after.amount_cents) == (3100, 4000)


def test_an_unknown_plan_has_no_versions(priced: Scenario) -> None:
    priced.get("/plans/other/versions", status=404)


def shown(box: Scenario, external_id: str) -> tuple[int | None, Any]:
    subscription = box.get(f"/subscriptions/{external_id}")["subscription"]
    return subscription["plan_version"], subscription["next_plan_version"]


def counts(box: Scenario) -> dict[int, int]:
    return {one["version"]: one["subscriptions_count"] for one in versions(box) if one["subscriptions_count"]}


@pytest.mark.beyond_reference
def test_each_version_says_how_many_subscriptions_are_on_it_while_prices_wait(priced: Scenario) -> None:
    priced.customer()
    priced.customer("far", timezone="Asia/Tokyo")
    for external_id, customer in (("sub", "acme"), ("far", "far"), ("own", "acme"), ("leaving", "acme")):
        priced.subscribe(external_id=external_id, customer=customer)
    priced.put("/subscriptions/own", subscription={"plan_overrides": {"amount_cents": 100}})
    priced.plan(code="small", amount_cents=1)
    priced.subscribe(external_id="leaving", plan_code="small")
    (first, *_) = [version["version"] for version in versions(priced)]
    assert counts(priced) == {first: 3}
    priced.travel_to("2024-01-16T10:00:00Z")
    priced.put("/plans/basic", plan={"amount_cents": 4000, "effective": "next_period"})
    second = versions(priced)[0]
    assert (second["prices_from"], second["effective_on"]) == ("2024-01-16T10:00:00Z", None)
    priced.put("/plans/basic", plan={"amount_cents": 5000, "effective": "2024-03-01"})
    third = versions(priced)[0]
    assert (third["prices_from"], third["effective_on"]) == ("2024-03-01T00:00:00Z", "2024-03-01")
    priced.subscribe(external_id="new")
    assert counts(priced) == {first: 3, second["version"]: 1}
    february = {"version": second["version"], "begins_on": "2024-02-01"}
    assert shown(priced, "sub") == (first, february)
    assert shown(priced, "far") == (first, february)
    march = {"version": third["version"], "begins_on": "2024-03-01"}
    assert shown(priced, "new") == (second["version"], march)
    # It will be on another plan by then, and one with a price of its own stays on that.
    assert shown(priced, "leaving") == (first, None)
    assert shown(priced, "own")[1] is None
    # In Tokyo it is February, elsewhere it is not.
    priced.travel_to("2024-01-31T16:00:00Z")
    assert counts(priced) == {first: 2, second["version"]: 2}
    priced.travel_to("2024-02-01T10:00:00Z")
    assert counts(priced) == {second["version"]: 3}
    priced.travel_to("2024-02-29T16:00:00Z")
    before_the_job = counts(priced)
    assert before_the_job == {second["version"]: 2, third["version"]: 1}
    priced.travel_to("2024-03-01T10:00:00Z")
    newest = versions(priced)[0]
    assert newest["effective_on"] == "2024-03-01"
    assert counts(priced) == {newest["version"]: 3}
    assert shown(priced, "sub") == (newest["version"], None)


@pytest.mark.beyond_reference
def test_a_price_that_was_taken_back_comes_no_more(priced: Scenario) -> None:
    priced.customer()
    priced.subscribe()
    priced.put("/plans/basic", plan={"amount_cents": 5000, "effective": "2024-03-01"})
    made, waiting = shown(priced, "sub")
    assert waiting["begins_on"] == "2024-03-01"
    version = waiting["version"]
    priced.put(f"/plans/basic/scheduled_prices/{version}", scheduled_prices={"effective_on": "2024-04-02"})
    assert shown(priced, "sub") == (made, {"version": version, "begins_on": "2024-05-01"})
    priced.delete(f"/plans/basic/scheduled_prices/{version}")
    assert shown(priced, "sub") == (made, None)
    assert counts(priced) == {made: 1}


@pytest.mark.beyond_reference
def test_a_subscription_that_has_not_started_is_on_no_version(priced: Scenario) -> None:
    priced.customer()
    priced.subscribe(subscription_at="2024-05-01T00:00:00Z")
    pending = priced.get("/subscriptions/sub?status=pending")["subscription"]
    assert (pending["plan_version"], pending["next_plan_version"]) == (None, None)
    assert counts(priced) == {}
