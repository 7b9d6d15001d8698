"""Pricing units: charges priced in a currency of the seller's own, at a rate that can change."""

from __future__ import annotations

import pytest
from tests.json_asserts import accepted, refused
from tests.scenarios import Scenario, charge_on

from usagebill.core.errors import Invalid

pytestmark = pytest.mark.now("2024-03-05T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.billing.pricing_units.create(name="Credits", code="credits", short_name="CRD")
    return box


def charge(box: Scenario, rate: object) -> dict[str, object]:
    return charge_on(
        box.metric(f"metric {rate}"),
        amount="1.0",
        applied_pricing_unit={"code": "credits", "conversion_rate": rate},
    )


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"short_name": "CRED"}, {"short_name": ["value_is_too_long"]}),
        ({"name": " "}, {"name": ["value_is_mandatory"]}),
        ({"code": "credits"}, {"code": ["value_already_exist"]}),
        ({"description": "d" * 601}, {"description": ["value_is_too_long"]}),
    ],
)
def test_a_wrong_unit_is_refused(box: Scenario, fields: dict[str, str], details: object) -> None:
    with pytest.raises(Invalid) as refusal:
        box.billing.pricing_units.create(**{"name": "Tokens", "code": "tokens", "short_name": "TOK", **fields})
    assert refusal.value.details == details


def test_usage_is_priced_in_the_unit_and_billed_in_the_currency(box: Scenario) -> None:
    created = box.plan(amount_cents=1000, charges=[charge(box, "0.5")])
    assert created["charges"][0]["applied_pricing_unit"] == {"code": "credits", "conversion_rate": "0.5"}
    box.subscribe(external_id="sub1")
    for number in range(3):
        event = {
            "transaction_id": f"t{number}",
            "code": "metric 0.5",
            "external_subscription_id": "sub1",
            "properties": {"value": 100},
        }
        box.post("/events", event=event)
    usage = box.send("GET", "/customers/acme/current_usage?external_subscription_id=sub1")[1]["customer_usage"]
    [shown] = usage["charges_usage"]
    assert (shown["units"], shown["amount_cents"]) == ("300.0", 30000 // 2)
    assert shown["pricing_unit_details"] == {"amount_cents": 30000, "short_name": "CRD", "conversion_rate": "0.5"}


def test_only_the_rate_changes_later(box: Scenario) -> None:
    box.billing.pricing_units.create(name="Tokens", code="tokens", short_name="TOK")
    created = box.plan(amount_cents=1000, charges=[charge(box, 2)])["charges"][0]
    item = {"id": created["svc_id"], "charge_model": "standard", "properties": {"amount": "1"}}

    def put(**unit: object) -> tuple[int, object]:
        return box.send("PUT", "/plans/basic", {"plan": {"charges": [{**item, "applied_pricing_unit": unit}]}})

    assert refused(put(conversion_rate="0")) == {"conversion_rate": ["value_is_out_of_range"]}
    assert refused(put(conversion_rate="x")) == {"conversion_rate": ["is not a number"]}
    shown = accepted(put(code="tokens", conversion_rate="3"), "plan")["charges"][0]
    assert shown["applied_pricing_unit"] == {"code": "credits", "conversion_rate": "3.0"}
