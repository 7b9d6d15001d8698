"""Pricing units: charges priced in a currency of the seller's own, at a rate that can change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.json_asserts import accepted, refused
from tests.operations.plans.catalog import metric, plan, send
from tests.scenarios import charge_on

from usagebill.core.errors import Invalid
from usagebill.testing import Sandbox


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(now="2024-03-05T00:00:00Z") as box:
        box.billing.pricing_units.create(name="Credits", code="credits", short_name="CRD")
        yield box


def charge(box: Sandbox, rate: object) -> dict[str, object]:
    return charge_on(
        metric(box, f"metric {rate}", aggregation_type="sum_agg", field_name="value"),
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
def test_a_wrong_unit_is_refused(box: Sandbox, fields: dict[str, str], details: object) -> None:
    with pytest.raises(Invalid) as refusal:
        box.billing.pricing_units.create(**{"name": "Tokens", "code": "tokens", "short_name": "TOK", **fields})
    assert refusal.value.details == details


def test_usage_is_priced_in_the_unit_and_billed_in_the_currency(box: Sandbox) -> None:
    created = accepted(plan(box, charges=[charge(box, "0.5")]), "plan")
    assert created["charges"][0]["applied_pricing_unit"] == {"code": "credits", "conversion_rate": "0.5"}
    subscription = {"external_customer_id": "acme", "external_id": "sub1", "plan_code": "basic"}
    accepted(send(box, "POST", "/subscriptions", {"subscription": subscription}), "subscription")
    for number in range(3):
        event = {
            "transaction_id": f"t{number}",
            "code": "metric 0.5",
            "external_subscription_id": "sub1",
            "properties": {"value": 100},
        }
        send(box, "POST", "/events", {"event": event})
    usage = send(box, "GET", "/customers/acme/current_usage?external_subscription_id=sub1")[1]["customer_usage"]
    [shown] = usage["charges_usage"]
    assert (shown["units"], shown["amount_cents"]) == ("300.0", 15000)
    assert shown["pricing_unit_details"] == {"amount_cents": 30000, "short_name": "CRD", "conversion_rate": "0.5"}


def test_only_the_rate_changes_later(box: Sandbox) -> None:
    box.billing.pricing_units.create(name="Tokens", code="tokens", short_name="TOK")
    created = accepted(plan(box, charges=[charge(box, 2)]), "plan")["charges"][0]
    item = {"id": created["svc_id"], "charge_model": "standard", "properties": {"amount": "1"}}

    def put(**unit: object) -> tuple[int, object]:
        return send(box, "PUT", "/plans/basic", {"plan": {"charges": [{**item, "applied_pricing_unit": unit}]}})

    assert refused(put(conversion_rate="0")) == {"conversion_rate": ["value_is_out_of_range"]}
    assert refused(put(conversion_rate="x")) == {"conversion_rate": ["is not a number"]}
    shown = accepted(put(code="tokens", conversion_rate="3"), "plan")["charges"][0]
    assert shown["applied_pricing_unit"] == {"code": "credits", "conversion_rate": "3.0"}
