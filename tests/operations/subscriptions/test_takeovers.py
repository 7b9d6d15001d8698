"""From the midnight of a downgrade on, usage is the successor's, though the run applies it minutes later."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

BEFORE_RUN = "2024-06-01T00:05:00Z"


def downgraded(box: Scenario, old: dict[str, Any], new: dict[str, Any], **fields: Any) -> None:
    box.plan(old, amount_cents=6200, **fields)
    box.plan(new, code="small", amount_cents=0, **fields)
    box.subscribe()
    box.subscribe("small")
    box.travel_to(BEFORE_RUN)


def usage_cents(box: Scenario) -> list[int]:
    return [fee["amount_cents"] for fee in box.usage_fees() if fee["amount_cents"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [(charge_in_advance_on, charge_on), (charge_on, charge_in_advance_on), (charge_in_advance_on,) * 2],
    ids=["in advance, then in arrears", "in arrears, then in advance", "always in advance"],
)
def test_usage_before_the_run_is_billed_once_at_the_price_of_the_successor(old: Any, new: Any) -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        gb = box.metric("gb")
        downgraded(box, old(gb, amount="1"), new(gb, amount="2"))
        box.event("gb", value=3)
        assert box.usage()["amount_cents"] == 600
        assert usage_cents(box) == []
        box.travel_to("2024-07-02T00:00:00Z")
        assert usage_cents(box) == [600]
        assert box.get("/events?unbilled=true")["events"] == []


def test_a_threshold_passed_before_the_run_is_billed_on_the_successor_and_deducted() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        gb = box.metric("gb")
        charge = charge_on(gb, amount="1")
        downgraded(box, charge, charge, usage_thresholds=[{"amount_cents": 1000}])
        box.event("gb", value=20)
        assert box.invoices() == []
        box.travel_to("2024-07-02T00:00:00Z")
        (early,) = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"]
        assert (early["created_at"], early["total_amount_cents"]) == ("2024-06-01T00:10:00Z", 2000)
        bills = [one for one in box.invoices() if one["invoice_type"] == "subscription"]
        assert sum(one["fees_amount_cents"] - one["progressive_billing_credit_amount_cents"] for one in bills) == (
            6200 * 22 // 31
        )


@pytest.mark.parametrize("late", [False, True])
def test_a_threshold_passed_while_the_run_is_overdue_is_billed_at_once(late: bool) -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        charge = charge_on(box.metric("gb"), amount="1")
        box.plan(charge, amount_cents=6200)
        box.plan(charge, code="small", amount_cents=0, usage_thresholds=[{"amount_cents": 1000}])
        box.subscribe()
        box.subscribe("small")
        (box.jump_to if late else box.travel_to)("2024-06-04T07:00:01Z")
        box.event("gb", value=20)
        box.run_due()
        (early,) = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"]
        assert (early["created_at"], early["total_amount_cents"]) == ("2024-06-04T07:00:01Z", 2000)


def test_a_change_before_the_run_concerns_the_successor() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        gb = box.metric("gb")
        downgraded(box, charge_on(gb, amount="1"), charge_on(gb, amount="2"))
        box.plan(code="middle", amount_cents=3100)
        assert box.subscribe("middle")["previous_plan_code"] == "small"


def test_a_downgrade_asked_for_before_the_run_waits_for_its_date() -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.plan(amount_cents=6200)
        box.plan(code="small", amount_cents=0)
        box.subscribe()
        box.travel_to(BEFORE_RUN)
        assert box.subscribe("small")["downgrade_plan_date"] == "2024-07-01"
        box.travel_to("2024-06-02T00:00:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "basic"
        box.travel_to("2024-07-01T00:10:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "small"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("old_has_thresholds", [False, True])
def test_usage_before_an_overdue_run_passes_a_threshold_at_that_run(old_has_thresholds: bool, late: bool) -> None:
    """20 units between the midnight of a downgrade and its run pass a threshold at 00:10; 17 the next day add to it."""
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        charge = charge_on(box.metric("gb"), amount="1")
        thresholds = [{"amount_cents": 1000, "recurring": True}]
        box.plan(charge, amount_cents=6200, **({"usage_thresholds": thresholds} if old_has_thresholds else {}))
        box.plan(charge, code="small", amount_cents=0, usage_thresholds=thresholds)
        box.subscribe()
        box.subscribe("small")
        box.travel_to(BEFORE_RUN)
        box.event("gb", value=20)
        (box.jump_to if late else box.travel_to)("2024-06-02T05:59:00Z")
        box.event("gb", value=17)
        box.run_due()
        stages = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"]
        assert sorted((one["created_at"], one["fees_amount_cents"]) for one in stages) == [
            ("2024-06-01T00:10:00Z", 2000),
            ("2024-06-02T05:59:00Z", 3700),
        ]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("watched", ["thresholds of the old plan", "wallet"])
def test_usage_before_an_overdue_run_passes_a_threshold_before_its_period_closes(watched: str, late: bool) -> None:
    """20 units before the run of 1 June are billed by it; what the next event, of 5 July, sets off closes June."""
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.customer()
        charge = charge_on(box.metric("gb"), amount="1")
        thresholds = [{"amount_cents": 1000, "recurring": True}]
        of_old = thresholds if watched == "thresholds of the old plan" else []
        box.plan(charge, amount_cents=6200, usage_thresholds=of_old)
        box.plan(charge, code="small", amount_cents=0, usage_thresholds=thresholds)
        box.subscribe()
        if watched == "wallet":
            wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": "w"}
            box.post("/wallets", wallet={**wallet, "granted_credits": "1"})
        box.subscribe("small")
        box.travel_to(BEFORE_RUN)
        box.event("gb", value=20)
        (box.jump_to if late else box.travel_to)("2024-07-05T12:00:00Z")
        box.event("gb", value=1)
        box.run_due()
        stages = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"]
        assert [(one["created_at"], one["fees_amount_cents"]) for one in stages] == [("2024-06-01T00:10:00Z", 2000)]
        june = next(one for one in box.invoices() if one["created_at"] == "2024-07-01T00:10:00Z")
        assert (june["fees_amount_cents"], june["progressive_billing_credit_amount_cents"]) == (2000, 2000)


@pytest.mark.parametrize("late", [False, True])
def test_a_threshold_passed_while_the_start_is_overdue_is_billed_at_once(late: bool) -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        charge = charge_on(box.metric("gb"), amount="1")
        box.plan(charge, amount_cents=6200, usage_thresholds=[{"amount_cents": 1000}])
        box.subscribe(subscription_at="2024-06-02T00:00:00Z")
        (box.jump_to if late else box.travel_to)("2024-06-04T07:00:01Z")
        box.event("gb", value=20)
        box.run_due()
        (early,) = [one for one in box.invoices() if one["invoice_type"] == "progressive_billing"]
        assert (early["created_at"], early["total_amount_cents"]) == ("2024-06-04T07:00:01Z", 2000)


@pytest.mark.parametrize("late", [False, True])
def test_usage_while_the_start_is_overdue_is_in_the_ongoing_balance(late: bool) -> None:
    with Scenario(now="2024-05-10T00:00:00Z") as box:
        box.customer()
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": "w"}
        box.post("/wallets", wallet={**wallet, "granted_credits": "100"})
        box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=0)
        box.subscribe(subscription_at="2024-06-02T00:00:00Z")
        (box.jump_to if late else box.travel_to)("2024-06-04T07:00:01Z")
        box.event("gb", value=20)
        box.run_due()
        (one,) = box.get("/wallets?external_customer_id=acme")["wallets"]
        assert one["ongoing_balance_cents"] == 100_00 - 20_00
