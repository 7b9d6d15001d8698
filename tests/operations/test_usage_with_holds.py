"""What open holds would add is seen in current usage."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from tests.operations.test_holds import capture, hold, standing
from tests.scenarios import Scenario, charge_in_advance_on, charge_on, plan_fields, price_ranges

from usagebill import Billing
from usagebill.within import Within

pytestmark = [pytest.mark.now("2024-03-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def held(box: Scenario, query: str = "") -> tuple[int, list[int]]:
    """In all, and by charge."""
    usage = box.usage(query)
    return usage["held_amount_cents"], [charge["held_amount_cents"] for charge in usage["charges_usage"]]


def cap(box: Scenario) -> None:
    box.post("/customers/acme/spend_limits", spend_limit={"code": "cap", "amount_cents": 100_000})


def test_what_is_held_is_told_until_it_is_captured_released_or_expires(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    assert held(box) == (0, [0])
    first, second = hold(box, units="2"), hold(box, units="3", expires_in=60)
    hold(box, units="4", expires_in=120)
    assert held(box) == (900, [900])
    capture(box, first, properties={"value": "2.5"})
    assert (held(box), box.usage()["amount_cents"]) == ((700, [700]), 250)
    box.post(f"/holds/{second['svc_id']}/release")
    assert held(box) == (400, [400])
    box.travel_to(box.now + timedelta(seconds=120))
    assert held(box) == (0, [0])


def test_it_costs_what_it_adds_to_the_usage_of_now(box: Scenario) -> None:
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.1", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", graduated_ranges=ranges))
    box.subscribe()
    cap(box)
    first = hold(box, units="10")
    assert hold(box, units="10")["amount_cents"] == 100
    assert held(box) == (1_100, [1_100])
    box.post(f"/holds/{first['svc_id']}/release")
    # Of the second alone, units cost 1.00 now.
    assert (held(box), standing(box)[1]) == ((1_000, [1_000]), "1000.0")
    box.event("gb", value=10)
    assert (held(box), standing(box)[1]) == ((100, [100]), "100.0")
    assert box.usage()["amount_cents"] == 1_000


def test_each_charge_of_a_metric_and_each_group_has_its_own(box: Scenario) -> None:
    metric = box.metric("gb")
    grouped = charge_on(metric, amount="1", pricing_group_keys=["region"])
    box.plan(grouped, charge_in_advance_on(metric, amount="2"))
    box.subscribe()
    hold(box, properties={"value": 3, "region": "eu"})
    hold(box, properties={"value": 4, "region": "us"})
    hold(box, amount_cents=5)
    assert held(box) == (2_105, [700, 1_400])
    code = box.usage()["charges_usage"][1]["charge"]["code"]
    assert held(box, f"&charge_code={code}") == (1_400, [1_400])
    assert held(box, "&filter_by_group[region]=eu")[1] == [300, 600]


def test_another_subscription_and_a_bare_amount(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.subscribe(external_id="other")
    hold(box, units="2", external_id="other")
    assert held(box) == (0, [0])
    box.post("/holds", hold={"external_subscription_id": "sub", "amount_cents": 70})
    assert held(box) == (70, [0])


def test_usage_that_is_projected_or_billed_says_nothing_of_holds(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    hold(box, units="2")
    projected = box.get("/customers/acme/projected_usage?external_subscription_id=sub")["customer_projected_usage"]
    assert "held_amount_cents" not in projected
    assert "held_amount_cents" not in projected["charges_usage"][0]


def wallet(box: Scenario, id: str, query: str = "") -> tuple[int, int, int]:
    """Its ongoing balance, what is held of it, and what is left."""
    shown = box.get(f"/wallets/{id}{query}")["wallet"]
    return shown["ongoing_balance_cents"], shown["held_amount_cents"], shown["available_balance_cents"]


def test_what_is_held_lowers_what_is_left_on_wallets_in_the_order_in_which_they_pay(box: Scenario) -> None:
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.event("gb", value=2)
    fields = {"external_customer_id": "acme", "currency": "EUR", "rate_amount": "1", "hard_stop": True}
    first, second = (
        box.post("/wallets", wallet={**fields, "name": name, "priority": place, "granted_credits": "5"})["wallet"][
            "svc_id"
        ]
        for place, name in enumerate(("first", "second"), 1)
    )
    box.travel_to(box.now + timedelta(minutes=1))
    assert (wallet(box, first), wallet(box, second)) == ((300, 0, 300), (500, 0, 500))
    held = hold(box, units="4")
    assert (wallet(box, first), wallet(box, second)) == ((300, 300, 0), (500, 100, 400))
    assert wallet(box, second, "?current_ongoing_balance=true") == (500, 100, 400)
    listed = box.get("/wallets?external_customer_id=acme")["wallets"]
    assert {one["name"]: one["available_balance_cents"] for one in listed} == {"first": 0, "second": 400}
    assert hold(box, 402, units="4.01") == "insufficient_credits"
    capture(box, held)
    box.travel_to(box.now + timedelta(minutes=1))
    assert (wallet(box, first), wallet(box, second)) == ((0, 0, 0), (400, 0, 400))
    hold(box, units="1")
    assert wallet(box, second) == (400, 100, 300)
    assert box.delete(f"/wallets/{second}")["wallet"]["held_amount_cents"] == 0


@pytest.mark.beyond_reference
def test_a_hold_triggers_no_alert_and_tops_nothing_up(box: Scenario) -> None:
    """They tell of usage that has happened: what is held may be released."""
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    fields = {"external_customer_id": "acme", "currency": "EUR", "rate_amount": "1", "granted_credits": "5"}
    rule = {"trigger": "threshold", "threshold_credits": "2", "paid_credits": "0", "granted_credits": "10"}
    id = box.post("/wallets", wallet={**fields, "recurring_transaction_rules": [rule]})["wallet"]["svc_id"]
    level = {"alert_type": "current_usage_amount", "code": "spend", "thresholds": [{"code": "warn", "value": 300}]}
    box.post("/subscriptions/sub/alerts", alert=level)
    held = hold(box, units="4", expires_in=86_400)
    box.travel_to(box.now + timedelta(minutes=5))
    assert box.webhook_types("alert.") == []
    assert wallet(box, id) == (500, 400, 100)
    capture(box, held)
    box.travel_to(box.now + timedelta(minutes=5))
    assert box.webhook_types("alert.") == ["alert.triggered"]
    assert wallet(box, id) == (1_100, 0, 1_100)


def test_programs_see_it_too(box: Scenario) -> None:
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.1", "0"))
    box.plan(charge_on(box.metric("gb"), "graduated", graduated_ranges=ranges))
    box.subscribe()
    with box.billing.holds.hold("sub", "gb", units=12):
        usage = box.billing.usage.current("acme", external_subscription_id="sub")
        assert (usage.held_amount_cents, [charge.held_amount_cents for charge in usage.charges]) == (1_020, [1_020])
    assert box.usage()["held_amount_cents"] == 0


def set_up(billing: Billing) -> None:
    """A subscription to a metric at 1.00 for the first ten units, then 0.10."""
    metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="value")
    ranges = price_ranges((0, 10, "1", "0"), (11, None, "0.1", "0"))
    billing.plans.create(**plan_fields(charge_on(metric.id, "graduated", graduated_ranges=ranges)))
    billing.customers.upsert(external_id="acme", currency="EUR")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")


def test_on_both_engines_and_for_those_who_only_read(database: str) -> None:
    def held_by(billing: Billing | Within) -> int:
        return billing.usage.current("acme", external_subscription_id="sub").held_amount_cents

    with Billing(database) as billing:
        set_up(billing)
        with billing.holds.hold("sub", "gb", units=10), billing.holds.hold("sub", "gb", units=10):
            assert held_by(billing) == 1_100
            billing.events.create(
                transaction_id="1", code="gb", external_subscription_id="sub", properties={"value": 10}
            )
            assert held_by(billing) == 200
            with Billing(database, read_only=True) as reading:
                assert held_by(reading) == 1_100
            if database.startswith("postgresql"):
                with psycopg.connect(database) as connection:
                    connection.execute("SELECT 1")
                    assert held_by(billing.within(connection)) == 200
                    assert billing.within(connection).events.list().total_count == 1
        assert held_by(billing) == 0
        assert list(billing.audit().findings) == []
