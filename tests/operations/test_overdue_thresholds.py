"""Jobs that run at once, ahead of overdue ones: a period closes after the overdue check of its thresholds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.operations.subscriptions.test_activation import Gate, gate as gate
from tests.scenarios import Scenario, charge_on

from usagebill.core.subscriptions import Subscription
from usagebill.core.tasks import CheckAlerts, LeavePlan, Task
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z")]

Act = Callable[[], object]


def top_up(box: Scenario, gate: Gate) -> Act:
    """Stripe says that purchased credits are paid."""
    gate.stripe.outcomes.append("processing")
    wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "name": "w", "paid_credits": "5"}
    box.post("/wallets", wallet=wallet)
    box.run_due()
    return partial(gate.tell, "succeeded")


def first_payment(box: Scenario, gate: Gate) -> Act:
    """Stripe says that the first invoice of another subscription is paid."""
    box.plan(code="ahead", amount_cents=900, pay_in_advance=True)
    gate.subscribe("ahead", external_id="other")
    return partial(gate.tell, "succeeded")


def alert(box: Scenario, gate: Gate) -> Act:
    alert = {"alert_type": "current_usage_amount", "code": "watch", "thresholds": [{"value": "1000"}]}
    box.post("/subscriptions/sub/alerts", alert=alert)
    box.run_due()
    return partial(at_once, box, lambda sub: CheckAlerts(subscription_id=sub.id))


def plan_that_is_deleted(box: Scenario, gate: Gate) -> Act:
    return partial(at_once, box, lambda sub: LeavePlan(customer_id=sub.customer_id, plan_id=sub.plan_id))


def at_once(box: Scenario, task_of: Callable[[Subscription], Task]) -> None:
    def schedule(work: Work) -> None:
        (sub,) = work.tx.find(Subscription, eq("external_id", "sub"))
        work.schedule(task_of(sub), work.now)

    box.billing.writing(schedule)
    box.run_due()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("prepared", [top_up, first_payment, alert, plan_that_is_deleted])
def test_an_overdue_check_of_thresholds_comes_before_a_job_that_closes_its_period(
    box: Scenario, gate: Gate, prepared: Callable[[Scenario, Gate], Act], *, late: bool
) -> None:
    """30 units before a threshold of 20.00 is set: the check of five minutes later bills them, the period deducts."""
    box.plan(charge_on(box.metric("gb"), amount="1"), amount_cents=3100)
    box.subscribe()
    act = prepared(box, gate)
    box.event("gb", value=30)
    box.put("/subscriptions/sub", subscription={"usage_thresholds": [{"amount_cents": 2000}]})
    (box.jump_to if late else box.travel_to)("2024-04-03T00:00:00Z")
    act()
    invoices = [one for one in box.invoices() if any(fee["item"]["code"] == "gb" for fee in one["fees"])]
    assert [
        (one["created_at"], one["fees_amount_cents"], one["progressive_billing_credit_amount_cents"])
        for one in invoices[:2]
    ] == [("2024-03-01T00:05:00Z", 3000, 0), ("2024-04-01T00:10:00Z", 3100 + 3000, 3000)]
    assert box.billing.audit().findings == ()
