"""Phases: a contract whose plan changes on dates that were agreed on at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, windows

RAMP: list[dict[str, Any]] = [
    {"until": "2024-03-10"},
    {"until": "2024-06-01", "plan_overrides": {"amount_cents": 5000}},
    {"plan_code": "big"},
]


def contract(box: Scenario, phases: list[dict[str, Any]] = RAMP, **fields: Any) -> Any:
    box.plan(amount_cents=3100, **fields)
    box.plan(code="big", amount_cents=6200, **fields)
    return box.subscribe(phases=phases)


def fees(box: Scenario) -> list[tuple[int, str, str]]:
    """Amount, first and last day of each plan fee."""
    return [
        (fee["amount_cents"], fee["from_date"][:10], fee["to_date"][:10])
        for invoice in box.invoices()
        for fee in box.invoice(invoice["svc_id"])["fees"]
        if fee["item"]["type"] == "subscription"
    ]


@pytest.mark.parametrize("daily", [True, False], ids=["day by day", "after downtime"])
@pytest.mark.parametrize("in_advance", [True, False], ids=["in advance", "in arrears"])
def test_each_month_is_billed_by_the_phase_in_which_it_begins(in_advance: bool, daily: bool) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        contract(box, pay_in_advance=in_advance)
        (box.travel_to if daily else box.jump_to)("2024-08-01T12:00:00Z")
        box.run_due()
        billed = fees(box)
        assert [cents for cents, _, _ in billed] == [3100] * 3 + [5000] * 2 + [6200] * (3 if in_advance else 2)
        assert [first for _, first, _ in billed] == [f"2024-0{month}-01" for month in range(1, len(billed) + 1)]
        assert box.billing.audit().findings == ()


def test_usage_of_each_period_has_the_price_of_its_phase() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        gb = box.metric("gb")
        box.plan(charge_on(gb, amount="1"), amount_cents=0)
        box.plan(charge_on(gb, amount="2"), code="big", amount_cents=0)
        box.subscribe(phases=[{"until": "2024-03-01"}, {"plan_code": "big"}])
        for day in ("2024-02-29T23:59:59Z", "2024-03-01T00:00:00Z", "2024-03-01T00:05:00Z", "2024-03-02T00:00:00Z"):
            box.travel_to(day)
            box.event("gb", value=1)
        box.travel_to("2024-04-02T00:00:00Z")
        assert sorted(fee["amount_cents"] for fee in box.usage_fees() if fee["amount_cents"]) == [100, 600]
        assert box.get("/events?unbilled=true")["events"] == []


def test_the_subscription_shows_its_phases_and_what_takes_over_when() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        shown = contract(box)
        first = {
            "plan_code": "basic",
            "plan_amount_cents": 3100,
            "plan_amount_currency": "EUR",
            "plan_overrides": None,
            "begins_on": "2024-01-15",
            "until": "2024-03-10",
        }
        own = {"plan_amount_cents": 5000, "plan_overrides": {"amount_cents": 5000}}
        second = {**first, **own, "begins_on": "2024-04-01", "until": "2024-06-01"}
        third = {**first, "plan_code": "big", "plan_amount_cents": 6200, "begins_on": "2024-06-01", "until": None}
        assert shown["phases"] == [first, second, third]
        assert (shown["next_plan_code"], shown["downgrade_plan_date"]) == ("basic", "2024-04-01")
        box.travel_to("2024-04-02T00:00:00Z")
        now = box.get("/subscriptions/sub")["subscription"]
        assert (now["plan_amount_cents"], now["phases"]) == (5000, [second, third])
        box.travel_to("2024-06-02T00:00:00Z")
        now = box.get("/subscriptions/sub")["subscription"]
        assert (now["plan_code"], now["phases"], now["next_plan_code"]) == ("big", [], None)
        assert box.webhook_types("subscription.terminated", "subscription.started").count("subscription.started") == 3


def test_a_scheduled_downgrade_is_shown_as_a_phase() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        box.plan(amount_cents=3100)
        box.plan(code="small", amount_cents=100)
        box.subscribe()
        shown = box.subscribe("small")["phases"]
        assert [(phase["plan_code"], phase["begins_on"], phase["until"]) for phase in shown] == [
            ("basic", "2024-01-15", "2024-02-01"),
            ("small", "2024-02-01", None),
        ]


def test_a_phase_changes_the_plan_alone() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        contract(box)
        box.put("/subscriptions/sub", subscription={"name": "Ours", "purchase_order_number": "PO 7"})
        box.put("/subscriptions/sub", subscription={"ending_at": "2024-12-31T12:00:00Z"})
        box.travel_to("2024-06-02T00:00:00Z")
        now = box.get("/subscriptions/sub")["subscription"]
        assert (now["name"], now["purchase_order_number"]) == ("Ours", "PO 7")
        assert now["ending_at"] == "2024-12-31T12:00:00Z"


def test_features_of_the_subscription_stay_its_own() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        contract(box)
        box.post("/features", feature={"code": "seats", "privileges": [{"code": "max", "value_type": "integer"}]})
        box.ask("PATCH", "/subscriptions/sub/entitlements", {"entitlements": {"seats": {"max": 7}}})
        box.travel_to("2024-06-02T00:00:00Z")
        (seats,) = box.get("/subscriptions/sub/entitlements")["entitlements"]
        assert (seats["code"], seats["privileges"][0]["value"]) == ("seats", 7)


def test_phases_are_replaced_and_removed_until_they_count() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        contract(box)
        box.travel_to("2024-02-10T00:00:00Z")
        sent = [{"until": "2024-04-01"}, {"plan_code": "big"}]
        changed = box.put("/subscriptions/sub", subscription={"phases": sent})["subscription"]
        assert [phase["begins_on"] for phase in changed["phases"]] == ["2024-01-15", "2024-04-01"]
        assert box.get("/subscriptions?status[]=pending")["meta"]["total_count"] == 1
        assert box.put("/subscriptions/sub", subscription={"phases": []})["subscription"]["phases"] == []
        box.travel_to("2024-07-02T00:00:00Z")
        assert {cents for cents, _, _ in fees(box)[1:]} == {3100}


def test_an_end_drops_the_phases_to_come() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        contract(box)
        box.unsubscribe()
        assert box.get("/subscriptions?status[]=pending")["subscriptions"] == []
        box.subscribe(phases=RAMP)
        dropped = box.delete("/subscriptions/sub?status=pending")["subscription"]
        assert dropped["status"] == "canceled"
        assert box.get("/subscriptions/sub")["subscription"]["phases"] == []
        assert box.get("/subscriptions?status[]=pending")["subscriptions"] == []


def test_a_contract_of_later_has_its_phases_from_the_start() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.plan(code="big", amount_cents=6200, pay_in_advance=True)
        box.subscribe(phases=RAMP, subscription_at="2024-02-01T00:00:00Z")
        shown = box.get("/subscriptions/sub?status=pending")["subscription"]
        assert (shown["previous_plan_code"], len(shown["phases"])) == (None, 3)
        box.put("/subscriptions/sub", subscription={"name": "Ours"})
        problem = box.put("/subscriptions/sub", 422, subscription={"subscription_at": "2024-03-11T00:00:00Z"})
        assert problem["error_details"] == {"subscription_at": ["starts_after_first_phase"]}
        box.travel_to("2024-07-02T00:00:00Z")
        assert [cents for cents, _, _ in fees(box)] == [3100, 3100, 5000, 5000, 6200, 6200]


def test_anniversary_periods_and_zones_decide_the_day() -> None:
    with Scenario(now="2024-01-20T12:00:00Z") as box:
        box.customer(timezone="America/Los_Angeles")
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.plan(code="big", amount_cents=6200, pay_in_advance=True)
        box.subscribe(billing_time="anniversary", phases=[{"until": "2024-03-20"}, {"plan_code": "big"}])
        box.travel_to("2024-03-20T06:59:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "basic"
        box.travel_to("2024-03-20T07:10:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "big"
        assert windows(box.invoices()[-1])[-1][0] == "2024-03-20T07:00:00Z"


def test_a_change_of_prices_leaves_the_steps_where_they_were_agreed() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        contract(box, [{"until": "2024-03-10"}, {"plan_code": "big"}])
        box.put("/plans/big", plan={"name": "Big", "amount_cents": 9000})
        box.put("/plans/basic", plan={"name": "Basic", "amount_cents": 9500})
        box.travel_to("2024-01-16T00:00:00Z")
        assert [phase["begins_on"] for phase in box.get("/subscriptions/sub")["subscription"]["phases"]] == [
            "2024-01-15",
            "2024-04-01",
        ]


def test_a_deleted_plan_takes_its_phase_and_the_later_ones() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        box.plan(code="other", amount_cents=1)
        contract(box, [{"until": "2024-03-01"}, {"until": "2024-04-01", "plan_code": "other"}, {"plan_code": "big"}])
        box.delete("/plans/other")
        box.run_due()
        assert box.get("/subscriptions/sub")["subscription"]["phases"] == []
        assert box.get("/subscriptions?status[]=pending")["subscriptions"] == []


def test_what_is_refused_changes_nothing() -> None:
    with Scenario(now="2024-01-15T00:00:00Z") as box:
        shown = contract(box)
        box.plan(code="dollars", amount_cents=1, amount_currency="USD")
        box.plan(code="yearly", amount_cents=1, interval="yearly")
        big = {"plan_code": "big"}
        until = "phases[0].until"
        cases: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
            ([{"until": "2024-01-15"}, big], {until: ["cannot_be_in_past"]}),
            ([{"until": "soon"}, big], {until: ["invalid_date"]}),
            ([{"until": "2024-03-01T00:00:00Z"}, big], {until: ["invalid_date"]}),
            ([{}, big], {until: ["value_is_mandatory"]}),
            ([{"until": "2024-03-01"}], {until: ["last_phase_has_no_end"]}),
            (
                [{"until": "2024-03-01"}, {"until": "2024-02-20", **big}, big],
                {"phases[1].until": ["phase_too_short"]},
            ),
            (
                [{"until": "2024-03-02"}, {"until": "2024-04-01", **big}, big],
                {"phases[1].until": ["phase_too_short"]},
            ),
            ([{"until": "2024-03-01"}, {}], {"phases[1].plan_code": ["value_is_mandatory"]}),
            ([{"until": "2024-03-01", **big}, big], {"phases[0].plan_code": ["value_is_invalid"]}),
            (
                [{"until": "2024-03-01"}, {"plan_code": "dollars"}],
                {"phases[1].plan_code": ["currencies_does_not_match"]},
            ),
            ([{"until": "2024-03-01"}, {"plan_code": "yearly"}], {"phases[1].plan_code": ["intervals_do_not_match"]}),
        ]
        for sent, details in cases:
            assert box.put("/subscriptions/sub", 422, subscription={"phases": sent})["error_details"] == details, sent
        unknown = [{"until": "2024-03-01"}, {"plan_code": "none"}]
        assert box.put("/subscriptions/sub", 404, subscription={"phases": unknown})["code"] == "plan_not_found"
        ends = box.put("/subscriptions/sub", 422, subscription={"ending_at": "2024-06-01T12:00:00Z"})
        assert ends["error_details"] == {"ending_at": ["ends_before_last_phase"]}
        plan = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "big"}
        beside = box.post("/subscriptions", 422, subscription=plan)
        assert beside["error_details"] == {"plan_code": ["subscription_has_phases"]}
        assert box.get("/subscriptions/sub")["subscription"]["phases"] == shown["phases"]
        box.unsubscribe()
        ended = box.put("/subscriptions/sub", 422, subscription={"phases": RAMP})
        assert ended["error_details"] == {"phases": ["value_is_not_editable"]}
