"""The trial of an external id may be over before the subscription that follows begins."""

from __future__ import annotations

from tests.scenarios import Scenario


def test_a_plan_that_starts_after_the_trial_of_the_one_before_is_billed_once() -> None:
    with Scenario(now="2024-01-03T13:46:00Z") as box:
        box.plan(interval="semiannual", amount_cents=3100, pay_in_advance=True)
        box.plan(code="pro", amount_cents=2900, pay_in_advance=True, trial_period=10)
        box.subscribe(billing_time="anniversary")
        box.travel_to("2024-02-01T00:04:00Z")
        box.subscribe("pro", billing_time="anniversary")
        box.travel_to("2024-02-02T12:00:00Z")
        # 1 and 2 February of the month from 3 January: 2/31 of 29.00.
        fees = [
            fee["amount_cents"]
            for invoice in box.invoices()
            for fee in invoice["fees"]
            if fee["item"]["type"] == "subscription"
        ]
        assert fees == [3100, 187]
        assert list(box.billing.audit().findings) == []
