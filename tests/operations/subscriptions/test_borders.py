"""Borders in time: every day, seat and event at the border of two plans or periods is billed once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, charge_on, fixed_charge_on

DAILY = "31"  # a price for each day of October


def billed(box: Scenario, code: str, kind: str = "charge") -> list[int]:
    """The cents of an item on each invoice that has it, oldest first."""
    amounts = [
        [fee["amount_cents"] for fee in invoice["fees"] if (fee["item"]["type"], fee["item"]["code"]) == (kind, code)]
        for invoice in box.invoices()
    ]
    return [sum(fees) for fees in amounts if fees]


@pytest.mark.parametrize("hour", ["00:00:00", "12:00:00", "23:59:59"])
@pytest.mark.parametrize(
    ("metric", "added"), [({"aggregation_type": "unique_count_agg"}, "a"), ({"aggregation_type": "sum_agg"}, 1)]
)
def test_the_day_of_an_upgrade_is_paid_once_by_each_prorated_unit(
    metric: dict[str, Any], added: object, hour: str
) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats = box.metric("seats", recurring=True, **metric)
        box.customer()
        for code in ("basic", "larger"):
            box.plan(charge_on(seats, amount=DAILY, prorated=True), code=code, amount_cents=3100)
        box.subscribe()
        box.event("seats", value=added)
        box.travel_to(f"2024-10-16T{hour}Z")
        box.subscribe("larger")
        box.travel_to("2024-11-01T01:00:00Z")
        # 1 to 15 October on the old plan, 16 to 31 October on the new one, as of the plans themselves.
        assert billed(box, "seats") == [1500, 1600]
        assert [billed(box, code, "subscription") for code in ("basic", "larger")] == [[1500], [1600]]
        assert not list(box.billing.audit().findings)


@pytest.mark.parametrize(
    ("events", "old", "new"),
    [
        # Removed on the day of the upgrade, before it: the day is the new plan's.
        ([("01T08", "add"), ("16T10", "remove")], 1500, 100),
        # Removed the day before: the old plan's alone.
        ([("01T08", "add"), ("15T10", "remove")], 1500, 0),
        # Added and removed on the day of the upgrade, before it or around it.
        ([("16T09", "add"), ("16T10", "remove")], 0, 100),
        ([("16T09", "add"), ("16T13", "remove")], 0, 100),
        # Added on the day of the upgrade.
        ([("16T09", "add")], 0, 1600),
        # Removed before the upgrade and added again after it, on its day: never gone.
        ([("01T08", "add"), ("16T10", "remove"), ("16T13", "add")], 1500, 1600),
    ],
)
def test_a_seat_that_comes_or_goes_on_the_day_of_an_upgrade(events: list[tuple[str, str]], old: int, new: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        seats = box.metric("seats", "unique_count_agg", recurring=True)
        box.customer()
        for code in ("basic", "larger"):
            box.plan(charge_on(seats, amount=DAILY, prorated=True), code=code)
        box.subscribe()
        for at, change in sorted([*events, ("16T12", "upgrade")]):
            box.travel_to(f"2024-10-{at}:00:00Z")
            if change == "upgrade":
                box.subscribe("larger")
            else:
                box.event("seats", value="a", operation_type=change)
        box.travel_to("2024-11-01T01:00:00Z")
        paid = [invoice["fees_amount_cents"] for invoice in box.invoices()]
        assert paid == [old, new]


def test_the_day_of_an_upgrade_is_paid_once_by_fixed_charges_minimums_and_commitments() -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        calls, seat = box.metric("calls"), box.add_on("seat")
        box.customer()
        for code in ("basic", "larger"):
            box.plan(
                charge_on(calls, amount="1", min_amount_cents=6200),
                code=code,
                fixed_charges=[fixed_charge_on(seat, amount=DAILY, units=1, prorated=True)],
                minimum_commitment={"amount_cents": 31000},
            )
        box.subscribe()
        box.travel_to("2024-10-16T12:00:00Z")
        box.subscribe("larger")
        box.travel_to("2024-11-01T01:00:00Z")
        # 15 and 16 days of 31: a fixed charge of 31.00, a minimum of 62.00, and 310.00 in all.
        assert billed(box, "seat", "fixed_charge") == [1500, 1600]
        assert billed(box, "calls") == [3000, 3200]
        assert [invoice["total_amount_cents"] for invoice in box.invoices()] == [15000, 16000]


@pytest.mark.parametrize("start", ["00", "06", "18", "23"])
@pytest.mark.parametrize("end", ["00", "12", "23"])
def test_the_days_of_a_minimum_do_not_depend_on_the_hour(start: str, end: str) -> None:
    with Scenario(f"2024-11-01T{start}:00:00Z") as box:
        calls = box.metric("calls")
        box.customer()
        box.plan(charge_on(calls, amount="1", min_amount_cents=30000))
        box.subscribe()
        box.travel_to(f"2024-11-10T{end}:00:00Z")
        box.unsubscribe()
        (invoice,) = box.invoices()
        assert invoice["total_amount_cents"] == share(30000, 10, 30)


@pytest.mark.parametrize("second", ["23:59:59", "23:59:59.999999"])
def test_an_upgrade_in_the_last_second_of_a_period_opens_that_period_and_not_the_next(second: str) -> None:
    with Scenario("2024-11-01T00:00:00Z") as box:
        seat = box.add_on("seat")
        box.customer()
        box.plan(amount_cents=1000)
        fixed = fixed_charge_on(seat, amount="30", units=1, prorated=True, pay_in_advance=True)
        box.plan(code="larger", amount_cents=9900, pay_in_advance=True, fixed_charges=[fixed])
        box.subscribe()
        box.travel_to(f"2024-11-30T{second}Z")
        box.subscribe("larger")
        box.travel_to("2024-12-02T00:00:00Z")
        # 29 days of November on the old plan, one day of it on the new one, and December, once: 111.97 in plan fees.
        assert billed(box, "basic", "subscription") == [share(1000, 29, 30)]
        assert billed(box, "larger", "subscription") == [share(9900, 1, 30), 9900]
        # 30.00 a month: November was not paid before, so its last day costs 1.00.
        assert billed(box, "seat", "fixed_charge") == [100, 3000]
        assert not list(box.billing.audit().findings)


def test_a_start_in_the_last_instant_of_a_period_is_billed_for_it() -> None:
    with Scenario("2024-10-31T23:59:59.999999Z") as box:
        calls, seat = box.metric("calls"), box.add_on("seat")
        box.customer()
        fixed = fixed_charge_on(seat, amount=DAILY, units=1, prorated=True)
        box.plan(charge_on(calls, amount="1"), amount_cents=3100, fixed_charges=[fixed])
        box.subscribe()
        # The whole second belongs to the subscription.
        box.events("calls", {"value": 5, "at": datetime.fromisoformat("2024-10-31T23:59:59Z").timestamp()})
        box.travel_to("2024-12-02T00:00:00Z")
        assert billed(box, "basic", "subscription") == [100, 3100]
        assert billed(box, "seat", "fixed_charge") == [100, 3100]
        assert billed(box, "calls") == [500]
        assert not list(box.billing.audit().findings)


def test_a_draft_keeps_its_days_when_an_upgrade_follows_before_the_run() -> None:
    with Scenario("2024-10-08T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 3})
        for code, amount in (("basic", 1000), ("larger", 9900)):
            box.plan(code=code, amount_cents=amount)
        box.subscribe()
        box.travel_to("2024-11-01T00:05:00Z")
        # The upgrade bills October first, and both documents are of one instant.
        box.subscribe("larger")
        october = share(1000, 24, 31)  # 8 to 31 October: 7.74
        assert billed(box, "basic", "subscription") == [october, 0]
        box.travel_to("2024-11-05T00:00:00Z")
        assert billed(box, "basic", "subscription") == [october, 0]


@pytest.mark.parametrize("percent", [0, 50])
def test_the_end_of_a_trial_leaves_what_thresholds_have_billed(percent: int) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        calls = box.metric("calls")
        box.customer()
        box.plan(
            charge_on(calls, amount="1"),
            amount_cents=3100,
            pay_in_advance=True,
            trial_period=20,
            usage_thresholds=[{"amount_cents": 1000}],
        )
        box.subscribe()
        box.event("calls", value=20)
        if percent:
            box.coupon(0, coupon_type="percentage", percentage_rate=str(percent), frequency="once")
        box.travel_to("2024-11-02T00:00:00Z")
        assert [invoice["invoice_type"] for invoice in box.invoices()] == [
            "progressive_billing",
            "subscription",
            "subscription",
        ]
        # 20.00 of usage, 11 of 31 days after the trial (less the coupon), November: the usage is not billed again.
        totals = [invoice["total_amount_cents"] for invoice in box.invoices()]
        assert totals == [2000, 1100 - 11 * percent, 3100]
        assert box.get("/credit_notes")["credit_notes"] == []
        assert not list(box.billing.audit().findings)


def test_a_trial_that_ends_right_before_a_billing_day_leaves_no_day_unbilled() -> None:
    with Scenario("2024-10-11T23:59:00Z") as box:
        box.customer()
        box.plan(amount_cents=3100, pay_in_advance=True, trial_period=20)
        box.subscribe()
        # It ends on 31 October at 23:59 and is noticed on 1 November at 00:35, after the run.
        box.travel_to("2024-12-02T00:00:00Z")
        fees = [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"]]
        assert sorted(fees) == [share(3100, 1, 31), 3100, 3100]
        assert not list(box.billing.audit().findings)


@pytest.mark.parametrize(
    ("fee", "commitment", "paid"),
    [
        (3100, 31000, 16000),  # 16 of 31 days
        (9900, 20000, share(20000, 16, 31)),
        (9900, 1, share(9900, 16, 31)),
    ],
)
def test_a_plan_in_advance_that_ends_brings_in_its_commitment_for_the_days_used(
    fee: int, commitment: int, paid: int
) -> None:
    with Scenario("2024-10-01T00:00:00Z") as box:
        box.customer()
        box.plan(amount_cents=fee, pay_in_advance=True, minimum_commitment={"amount_cents": commitment})
        box.subscribe()
        box.travel_to("2024-10-16T12:00:00Z")
        box.unsubscribe()
        fees = sum(invoice["fees_amount_cents"] for invoice in box.invoices())
        (note,) = box.get("/credit_notes")["credit_notes"]
        # The fee counts only for the days that were not given back.
        assert fees - note["total_amount_cents"] == paid
