"""Requests about subscriptions: what can be read, changed and listed, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from tests.money import share
from tests.scenarios import Scenario, windows

from usagebill.core.subscriptions import Subscription
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq


def put(box: Scenario, status: int = 200, query: str = "", **fields: object) -> dict[str, object]:
    answer = box.put(f"/subscriptions/sub{query}", status=status, subscription=fields)
    body: dict[str, object] = answer["subscription"] if status == 200 else answer
    return body


def test_only_what_is_sent_changes() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000, pay_in_advance=True)
        box.subscribe(name="Seats", purchase_order_number=" po-1 ")
        changed = put(box, on_termination_credit_note="refund", consolidate_invoice=False)
        assert changed["name"] == "Seats"
        assert changed["purchase_order_number"] == "po-1"
        assert changed["on_termination_credit_note"] == "refund"
        assert changed["consolidate_invoice"] is False
        assert put(box, name=None, purchase_order_number=" ")["purchase_order_number"] is None
        assert box.webhook_types()[-1] == "subscription.updated"


def test_options_of_a_plan_in_arrears_have_no_credit_note() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()
        assert put(box, on_termination_credit_note="nonsense")["on_termination_credit_note"] is None
        assert put(box, 422, on_termination_invoice="nonsense")["error_details"] == {
            "on_termination_invoice": ["invalid_value"]
        }


def test_a_future_start_can_be_moved() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000, pay_in_advance=True)
        box.subscribe(subscription_at="2024-02-10T00:00:00Z")
        moved = put(box, subscription_at="2024-02-20T00:00:00Z")
        assert (moved["status"], moved["subscription_at"]) == ("pending", "2024-02-20T00:00:00Z")
        box.travel_to("2024-02-15T00:00:00Z")
        box.get("/subscriptions/sub", status=404)
        assert put(box, query="?status=pending", subscription_at="2024-02-15T00:00:00Z")["status"] == "active"
        assert len(box.invoices()) == 1
        box.travel_to("2024-02-21T00:00:00Z")
        assert len(box.invoices()) == 1


def test_a_future_start_is_moved_by_dates_in_utc() -> None:
    """Now it is 05:00 on 11 March in Tokyo, where the new start is on the evening of the 10th: the same day in UTC."""
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer(timezone="Asia/Tokyo")
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.subscribe(subscription_at="2024-04-10T00:00:00Z")
        box.travel_to("2024-03-10T20:00:00Z")
        moved = put(box, query="?status=pending", subscription_at="2024-03-10T10:00:00Z")
        assert (moved["status"], moved["started_at"]) == ("active", "2024-03-10T10:00:00.000Z")
        [invoice] = box.invoices()
        # From the 10th, the local date of the start, to the end of March.
        assert invoice["fees_amount_cents"] == share(3100, 22, 31)
        box.travel_to("2024-04-02T00:00:00Z")
        assert [other["fees_amount_cents"] for other in box.invoices()] == [share(3100, 22, 31), 3100]
        assert box.billing.audit().findings == ()


def test_a_future_start_moved_to_an_earlier_day_is_billed_by_the_next_run() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000, pay_in_advance=True)
        box.subscribe(subscription_at="2024-02-10T00:00:00Z")
        assert put(box, subscription_at="2024-01-10T00:00:00Z")["started_at"] == "2024-01-10T00:00:00.000Z"
        assert box.invoices() == []
        box.travel_to("2024-02-01T00:10:00Z")
        assert windows(box.invoices()[0]) == [("2024-02-01T00:00:00Z", "2024-02-29T23:59:59Z")]


def test_a_pending_subscription_takes_another_plan() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.plan(code="other", amount_cents=1)
        box.subscribe(subscription_at="2024-02-10T00:00:00Z", name="Seats")
        changed = box.subscribe("other", subscription_at="2024-02-10T00:00:00Z")
        assert (changed["status"], changed["plan_code"], changed["name"]) == ("pending", "other", "Seats")


def test_a_new_ending_date_replaces_the_old_one() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe(ending_at="2024-01-20T00:00:00Z")
        put(box, ending_at="2024-02-10T00:00:00Z")
        box.travel_to("2024-01-25T00:00:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["status"] == "active"
        box.travel_to("2024-02-10T00:05:00Z")
        ended = box.get("/subscriptions/sub?status=terminated")["subscription"]
        assert ended["terminated_at"] == "2024-02-10T00:05:00Z"


def test_an_end_is_announced_forty_five_and_fifteen_days_before() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe(ending_at="2024-06-30T00:00:00Z")
        announced = []
        for day in ("2024-05-16T00:49:00Z", "2024-05-16T00:50:00Z", "2024-06-15T00:50:00Z", "2024-06-30T00:00:00Z"):
            box.travel_to(day)
            announced.append(box.webhook_types().count("subscription.termination_alert"))
        assert announced == [0, 1, 2, 2]


def test_lists_show_active_subscriptions_unless_asked_otherwise() -> None:
    with Scenario(now="2024-01-17T10:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.plan(code="usd", amount_cents=10_000, amount_currency="USD")
        for id in ("a", "c", "e"):
            box.subscribe(external_id=id)
        box.subscribe("usd", external_id="b", customer="dollars")
        box.subscribe(customer="other", external_id="d")
        box.delete("/subscriptions/c")

        def listed(query: str, path: str = "/subscriptions") -> list[str]:
            return sorted(subscription["external_id"] for subscription in box.get(f"{path}?{query}")["subscriptions"])

        assert listed("") == ["a", "b", "d", "e"]
        assert listed("status[]=terminated") == ["c"]
        assert listed("status[]=active&status[]=terminated") == ["a", "b", "c", "d", "e"]
        assert listed("status[]=active&status[]=bogus") == ["a", "b", "c", "d", "e"]
        assert listed("currency=usd") == ["b"]
        assert listed("plan_code=basic") == ["a", "d", "e"]
        assert listed("external_customer_id=nobody") == []
        assert listed("overridden=true") == []
        assert listed("", "/customers/acme/subscriptions") == ["a", "e"]
        assert listed("billing_entity_codes[]=default") == ["a", "b", "d", "e"]
        box.get("/subscriptions?billing_entity_codes[]=none", status=404)
        box.get("/customers/nobody/subscriptions", status=404)


def test_subscriptions_of_one_customer_share_an_invoice_of_one_currency() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.plan(code="usd", amount_cents=10_000, amount_currency="USD")
        box.subscribe(external_id="a")
        box.subscribe(external_id="b")
        box.subscribe(external_id="c")
        # Customers had plans in several currencies when earlier versions wrote their files.
        usd = box.billing.plans.get("usd")

        def to_dollars(work: Work) -> None:
            (subscription,) = work.tx.find(Subscription, eq("external_id", "c"))
            work.tx.replace(replace(subscription, plan_id=usd.id))

        box.billing.writing(to_dollars)
        box.subscribe(external_id="d", consolidate_invoice=False)
        box.subscribe(external_id="e", purchase_order_number="po")
        box.travel_to("2024-02-01T00:10:00Z")
        shared = sorted(
            sorted(period["external_subscription_id"] for period in invoice["billing_periods"])
            for invoice in box.invoices()
        )
        assert shared == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_downgrade_of_a_plan_billed_monthly_waits_for_its_year() -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(interval="yearly", pay_in_advance=True, bill_charges_monthly=True, amount_cents=120_000)
        box.plan(code="small", amount_cents=100)
        box.subscribe()
        assert box.subscribe("small")["downgrade_plan_date"] == "2025-01-01"
        box.travel_to("2024-12-31T00:00:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "basic"
        box.travel_to("2025-01-01T00:10:00Z")
        assert box.get("/subscriptions/sub")["subscription"]["plan_code"] == "small"


@pytest.mark.parametrize(
    ("before", "after"), [("UTC", "America/Los_Angeles"), ("America/Los_Angeles", "UTC"), ("UTC", "Asia/Tokyo")]
)
def test_a_new_time_zone_leaves_no_usage_out_and_bills_none_twice(before: str, after: str) -> None:
    with Scenario(now="2024-01-05T00:00:00Z") as box:
        box.customer(timezone=before)
        box.plan(amount_cents=10_000)
        box.subscribe()
        box.travel_to("2024-02-01T09:00:00Z")
        box.customer(timezone=after)
        box.travel_to("2024-04-03T00:00:00Z")
        usage = [
            (
                datetime.fromisoformat(period["charges_from_datetime"]),
                datetime.fromisoformat(period["charges_to_datetime"]),
            )
            for invoice in box.invoices()
            for period in invoice["billing_periods"]
        ]
        assert len(usage) == 3
        assert [starts - ends for (_, ends), (starts, _) in pairwise(usage)] == [timedelta(seconds=1)] * 2


def test_one_customer_that_cannot_be_billed_does_not_stop_the_others() -> None:
    from dataclasses import replace
    from typing import Any

    from usagebill.core.customers import Customer
    from usagebill.storage.conditions import eq

    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe(customer="bad", external_id="bad")
        box.subscribe(customer="good", external_id="good")

        def zone(name: str | None) -> None:
            def change(work: Any) -> None:
                customer = work.tx.first(Customer, eq("external_id", "bad"))
                work.tx.replace(replace(customer, timezone=name))

            box.billing.writing(change)

        zone("Nowhere/Land")
        box.jump_to("2024-02-01T12:00:00Z")
        box.billing.run_due()
        assert len(box.invoices("good")) == 1
        zone(None)
        assert [invoice["status"] for invoice in box.invoices("bad")] == ["failed"]
        box.jump_to("2024-02-01T14:00:00Z")
        box.run_due()
        (late,) = box.invoices("bad")
        assert (late["issuing_date"], late["created_at"]) == ("2024-02-01", "2024-02-01T00:10:00Z")


def test_a_customer_can_be_put_right_while_its_billing_fails() -> None:
    from dataclasses import replace
    from typing import Any

    from usagebill.core.customers import Customer

    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()

        def spoil(work: Any) -> None:
            work.tx.replace(replace(work.tx.first(Customer), timezone="Nowhere/Land"))

        box.billing.writing(spoil)
        box.jump_to("2024-02-01T12:00:00Z")
        box.customer(timezone="UTC")
        box.delete("/subscriptions/sub")
        assert [invoice["issuing_date"] for invoice in box.invoices()] == ["2024-02-01", "2024-02-01"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_an_end_at_the_end_of_time_is_no_end(zone: str) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.customer(timezone=zone)
        box.plan(amount_cents=10_000)
        assert box.subscribe(ending_at="9999-12-31T23:59:59Z")["ending_at"] == "9999-12-31T23:59:59Z"
        box.travel_to("2024-03-02T00:00:00Z")
        assert len(box.invoices()) == (3 if zone == "America/Los_Angeles" else 2)


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_start_beyond_any_calendar_is_refused(instant: str) -> None:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        body = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "basic", "subscription_at": instant}
        answer = box.post("/subscriptions", status=422, subscription=body)
        assert answer["error_details"] == {"subscription_at": ["invalid_date"]}


def test_a_future_start_is_not_moved_into_time_that_was_billed_before() -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.plan(amount_cents=3100)
        box.subscribe()
        box.travel_to("2024-03-10T12:00:00Z")
        box.delete("/subscriptions/sub")
        box.subscribe(subscription_at="2024-04-15T00:00:00Z")
        box.travel_to("2024-03-20T00:00:00Z")
        moved = box.put("/subscriptions/sub?status=pending", subscription={"subscription_at": "2024-03-01T00:00:00Z"})[
            "subscription"
        ]
        assert moved["started_at"] == "2024-03-10T12:00:00.000Z"
        box.travel_to("2024-04-01T01:00:00Z")
        assert [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"]] == [
            share(3100, 10, 31),
            share(3100, 22, 31),
        ]


def test_a_start_on_the_day_of_an_end_bills_nothing_of_before_it() -> None:
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.plan(amount_cents=10_000)
        box.subscribe()
        box.travel_to("2024-03-10T12:00:00Z")
        box.delete("/subscriptions/sub")
        again = box.subscribe(subscription_at="2024-03-10T08:00:00Z")
        assert again["started_at"] == "2024-03-10T12:00:00.000Z"
        box.travel_to("2024-04-02T00:00:00Z")
        assert box.billing.audit().findings == ()
