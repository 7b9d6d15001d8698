"""Add-ons: one-time prices, and the fixed charges that are built on them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import add_fixed_charge, add_plan
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import Scenario

from usagebill.core.plans import FixedCharge
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")

SETUP = {"name": "Setup", "code": "setup", "amount_cents": 12000, "amount_currency": "EUR"}


@pytest.fixture
def box(box: Scenario) -> Scenario:
    for code in ("vat", "city"):
        box.tax("10", applied_to_organization=False, name=code, code=code)
    return box


def post(box: Scenario, **fields: object) -> tuple[int, Any]:
    return box.send("POST", "/add_ons", {"add_on": {**SETUP, **fields}})


def tax_codes(shown: Any) -> list[str]:
    return [tax["code"] for tax in shown["taxes"]]


def test_created_add_on_is_shown_as_sent(box: Scenario) -> None:
    shown = accepted(post(box, invoice_display_name="One-time setup", description="d", tax_codes=["vat"]), "add_on")
    assert {key: shown[key] for key in SETUP} == SETUP
    assert (shown["invoice_display_name"], shown["description"]) == ("One-time setup", "d")
    assert shown["created_at"] == "2024-03-05T00:00:00Z"
    assert tax_codes(shown) == ["vat"]
    assert box.get("/add_ons/setup")["add_on"] == shown


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"name": None}, {"name": ["value_is_mandatory"]}),
        ({"code": ""}, {"code": ["value_is_mandatory"]}),
        ({"amount_cents": 0}, {"amount_cents": ["value_is_out_of_range"]}),
        ({"amount_cents": -1}, {"amount_cents": ["value_is_out_of_range"]}),
        ({"amount_cents": None}, {"amount_cents": ["is not a number"]}),
        ({"amount_cents": "much"}, {"amount_cents": ["is not a number"]}),
        ({"amount_cents": 10**30}, {"amount_cents": ["value_is_out_of_range"]}),
        ({"amount_currency": "eur"}, {"amount_currency": ["value_is_invalid"]}),
        ({"amount_currency": None}, {"amount_currency": ["value_is_invalid"]}),
        (
            {"amount_cents": 0, "amount_currency": "?"},
            {"amount_cents": ["value_is_out_of_range"], "amount_currency": ["value_is_invalid"]},
        ),
    ],
)
def test_add_on_that_makes_no_sense_is_refused(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(post(box, **fields)) == details


def test_unknown_tax_refuses_the_whole_request(box: Scenario) -> None:
    assert missing(post(box, tax_codes=["vat", "none"])) == "tax"
    assert missing(box.send("GET", "/add_ons/setup")) == "add_on"


def test_change_touches_what_is_sent_and_replaces_taxes(box: Scenario) -> None:
    created = accepted(post(box, description="d", tax_codes=["vat"]), "add_on")
    sent = {"code": "onboarding", "description": None, "tax_codes": ["city", "city"]}
    shown = box.put("/add_ons/setup", add_on=sent)["add_on"]
    assert tax_codes(shown) == ["city"]
    assert shown == {**created, "code": "onboarding", "description": None, "taxes": shown["taxes"]}
    for change, left in (({"tax_codes": None, "name": "n"}, ["city"]), ({"tax_codes": []}, [])):
        shown = accepted(box.send("PATCH", "/add_ons/onboarding", {"add_on": change}), "add_on")
        assert tax_codes(shown) == left


def test_change_is_refused_like_a_new_one(box: Scenario) -> None:
    post(box)
    post(box, code="other")
    for sent, details in (
        ({"code": "other"}, {"code": ["value_already_exist"]}),
        ({"name": None, "amount_cents": None}, {"name": ["value_is_mandatory"], "amount_cents": ["is not a number"]}),
    ):
        assert refused(box.send("PUT", "/add_ons/setup", {"add_on": sent})) == details
    assert missing(box.send("PUT", "/add_ons/none", {"add_on": {"name": "x"}})) == "add_on"
    # Without its root a request is bad whatever it names.
    assert box.send("PUT", "/add_ons/none", {})[0] == 400


def test_deleting_takes_its_fixed_charges_along_and_frees_the_code(box: Scenario) -> None:
    created = accepted(post(box), "add_on")

    def build_on(work: Work) -> None:
        add_fixed_charge(work, plan_id=add_plan(work).id, add_on_id=created["svc_id"])

    box.billing.writing(build_on)
    assert box.delete("/add_ons/setup")["add_on"] == created
    assert box.billing.reading(lambda work: work.tx.find(FixedCharge)) == []
    assert missing(box.send("DELETE", "/add_ons/setup")) == "add_on"
    assert accepted(post(box), "add_on")["svc_id"] != created["svc_id"]


def test_lists_are_newest_first(box: Scenario) -> None:
    for day, code in ((6, "a"), (7, "b")):
        box.jump_to(f"2024-03-0{day}T00:00:00Z")
        post(box, code=code)
    assert [add_on["code"] for add_on in box.send("GET", "/add_ons")[1]["add_ons"]] == ["b", "a"]
