"""Recurring usage over a change of plan: each day of a seat is paid once, in advance or in arrears, by the plan of the
day.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

pytestmark = [pytest.mark.now("2024-10-01T00:00:00Z"), pytest.mark.usefixtures("acme")]

DAYS = 31  # of October, at 1.00 a day


def charged(metric: str, how: str, **fields: Any) -> list[dict[str, Any]]:
    if how == "not at all":
        return []
    charge = charge_in_advance_on if how == "in advance" else charge_on
    fields = {"invoiceable": True, **fields} if how == "in advance" else fields
    return [charge(metric, **{"amount": "31", "prorated": True, **fields})]


def plans(box: Scenario, old: str, new: str, *, up: bool, aggregation: str = "unique_count_agg", **fields: Any) -> None:
    metric = box.metric("seats", aggregation, recurring=True)
    box.plan(*charged(metric, old, **fields), code="old", amount_cents=0 if up else 1000)
    box.plan(*charged(metric, new, **fields), code="new", amount_cents=1000 if up else 0)
    box.subscribe("old")


def paid(box: Scenario, *, until: str) -> int:
    """What was invoiced for seats, less what was credited, up to a day, in cents."""
    lines = [
        int(fee["amount_cents"])
        for invoice in box.invoices()
        if invoice["issuing_date"] <= until
        for fee in invoice["fees"]
        if fee["item"]["code"] == "seats"
    ]
    items = [
        int(item["amount_cents"])
        for note in box.get("/credit_notes")["credit_notes"]
        for item in note["items"]
        if item["fee"]["item"]["code"] == "seats"
    ]
    return sum(lines) - sum(items)


CHANGES = [
    ("in arrears", "in advance", 31 * 100),
    ("not at all", "in advance", 16 * 100),
    ("in advance", "in advance", 31 * 100),
    ("in advance", "not at all", 31 * 100),
    ("in arrears", "not at all", 15 * 100),
    ("in advance", "in arrears", 31 * 100),
]


@pytest.mark.parametrize(("old", "new", "october"), CHANGES)
def test_an_upgrade_within_a_period(box: Scenario, old: str, new: str, october: int) -> None:
    plans(box, old, new, up=True)
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-11-01T03:00:00Z")
    november = 31_00 if new == "in advance" else 0
    assert paid(box, until="2024-11-01") == october + november
    box.travel_to("2024-12-01T03:00:00Z")
    later = {"in advance": 2 * 31_00, "in arrears": 31_00}.get(new, 0)
    assert paid(box, until="2024-12-01") == october + later
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new, _ in CHANGES])
def test_a_downgrade_at_the_end_of_a_period(box: Scenario, old: str, new: str) -> None:
    plans(box, old, new, up=False)
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-11-01T03:00:00Z")
    october, november = (0 if plan == "not at all" else 31_00 for plan in (old, new))
    assert paid(box, until="2024-11-01") == october + (november if new == "in advance" else 0)
    box.travel_to("2024-12-01T03:00:00Z")
    december = 31_00 if new == "in advance" else 0
    assert paid(box, until="2024-12-01") == october + november + december
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(("up", "fees"), [(True, [16_00, 31_00]), (False, [31_00])])
def test_a_plan_in_arrears_that_opens_with_seats_bills_its_own_fee_in_arrears(
    box: Scenario, up: bool, fees: list[int]
) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(code="old", amount_cents=0 if up else 40_00)
    box.plan(*charged(metric, "in advance"), code="new", amount_cents=31_00)
    box.subscribe("old")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-12-01T03:00:00Z")
    billed = [fee for invoice in box.invoices() for fee in invoice["fees"] if fee["item"]["code"] == "new"]
    assert sorted(int(fee["amount_cents"]) for fee in billed) == fees
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("aggregation", ["unique_count_agg", "sum_agg"])
def test_seats_added_after_the_change_are_not_in_what_the_plan_opens_with(box: Scenario, aggregation: str) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 5})
    plans(box, "in arrears", "in advance", up=True, aggregation=aggregation)
    box.event("seats", value="1")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-10-20T12:00:00Z")
    box.event("seats", value="1" if aggregation == "sum_agg" else "2")
    box.travel_to("2024-10-31T12:00:00Z")
    assert paid(box, until="2024-10-31") == (31 + 12) * 100
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("aggregation", ["unique_count_agg", "sum_agg"])
def test_what_was_paid_in_advance_is_credited_where_it_is_billed_in_arrears(box: Scenario, aggregation: str) -> None:
    """Seats from the 1st, the 10th and, on the new plan, the 20th on: 31, 22 and 12 days."""
    box.tax("20")
    plans(box, "in advance", "in arrears", up=True, aggregation=aggregation)
    unique = aggregation == "unique_count_agg"
    box.event("seats", value="1")
    box.travel_to("2024-10-10T12:00:00Z")
    box.event("seats", value="2" if unique else "1")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    notes = box.get("/credit_notes")["credit_notes"]
    assert [note["total_amount_cents"] for note in notes] == [16 * 120, 16 * 120]
    box.travel_to("2024-10-20T12:00:00Z")
    box.event("seats", value="3" if unique else "1")
    box.travel_to("2024-11-01T03:00:00Z")
    assert paid(box, until="2024-11-01") == (31 + 22 + 12) * 100
    assert box.billing.audit().findings == ()


def test_a_seat_that_is_gone_is_not_credited(box: Scenario) -> None:
    plans(box, "in advance", "in arrears", up=True)
    box.event("seats", value="a")
    box.event("seats", value="b")
    box.travel_to("2024-10-12T12:00:00Z")
    box.event("seats", value="b", operation_type="remove")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-11-01T03:00:00Z")
    assert paid(box, until="2024-11-01") == (31 + 31) * 100
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize(
    ("old", "new", "later"), [("in arrears", "in advance", 31_00), ("in advance", "in arrears", 0)]
)
def test_a_whole_price_is_paid_once(box: Scenario, old: str, new: str, later: int) -> None:
    plans(box, old, new, up=True, prorated=False)
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-11-01T03:00:00Z")
    assert paid(box, until="2024-11-01") == 31_00 + later
    assert box.billing.audit().findings == ()


def test_what_is_credited_does_not_count_toward_the_minimum(box: Scenario) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    minimum = {"amount_cents": 62_00}
    box.plan(*charged(metric, "in advance"), code="old", amount_cents=0, minimum_commitment=minimum)
    box.plan(*charged(metric, "in arrears"), code="new", amount_cents=1000)
    box.subscribe("old")
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    fees = [fee for invoice in box.invoices() for fee in invoice["fees"] if fee["item"]["type"] == "commitment"]
    # 30.00 for 15 days, of which the seat has paid 15.00.
    assert [fee["amount_cents"] for fee in fees] == [15_00]
    assert box.billing.audit().findings == ()


def test_the_plan_before_last_was_paid_in_advance_too(box: Scenario) -> None:
    plans(box, "in advance", "in arrears", up=True)
    metric = box.get("/billable_metrics/seats")["billable_metric"]["svc_id"]
    box.plan(*charged(metric, "in advance"), code="between", amount_cents=500)
    box.event("seats", value="a")
    for day, plan in (("10", "between"), ("16", "new")):
        box.travel_to(f"2024-10-{day}T12:00:00Z")
        box.subscribe(plan)
    box.travel_to("2024-11-01T03:00:00Z")
    assert paid(box, until="2024-11-01") == 31_00
    assert box.billing.audit().findings == ()


PRICES = {"weekly": "7", "monthly": "30", "quarterly": "91"}


def plans_of_intervals(box: Scenario, old: str, new: str, *, up: bool, **fields: Any) -> None:
    """Seats in advance at 1.00 a day (in June and in its quarter), on plans of two intervals, from Monday 3 June on."""
    box.travel_to("2025-06-02T09:00:00Z")
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    for code, interval, cents in (("old", old, 100 if up else 90_000), ("new", new, 90_000 if up else 100)):
        charge = charged(metric, "in advance", **{"amount": PRICES[interval], **fields})
        box.plan(*charge, code=code, interval=interval, amount_cents=cents)
    box.subscribe("old")
    box.event("seats", value="a")


def for_seats(box: Scenario) -> int:
    return sum(fee["amount_cents"] for fee in box.usage_fees())


INTERVALS = [
    ("weekly", "monthly"),
    ("monthly", "weekly"),
    ("weekly", "weekly"),
    ("monthly", "monthly"),
    ("quarterly", "weekly"),
    ("weekly", "quarterly"),
    ("quarterly", "monthly"),
    ("monthly", "quarterly"),
]


@pytest.mark.parametrize("invoiceable", [True, False])
@pytest.mark.parametrize(("old", "new"), INTERVALS)
def test_each_day_of_a_seat_is_paid_once_over_an_upgrade_to_another_interval(
    box: Scenario, old: str, new: str, invoiceable: bool
) -> None:
    plans_of_intervals(box, old, new, up=True, invoiceable=invoiceable)
    box.travel_to("2025-06-11T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2025-06-29T12:00:00Z")
    paid_until = 30 if "quarterly" in (old, new) or "monthly" in (old, new) else 29
    assert for_seats(box) == (paid_until - 1) * 100
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("invoiceable", [True, False])
@pytest.mark.parametrize("intervals", list(permutations(PRICES)))
def test_each_day_of_a_seat_is_paid_once_over_three_plans_of_three_intervals(
    box: Scenario, intervals: tuple[str, str, str], invoiceable: bool
) -> None:
    """The second plan is left on a day that the first was paid for, too; a seat is added on each plan."""
    box.travel_to("2025-06-02T09:00:00Z")
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    for number, interval in enumerate(intervals):
        charge = charged(metric, "in advance", amount=PRICES[interval], invoiceable=invoiceable)
        box.plan(*charge, code=f"plan-{number}", interval=interval, amount_cents=(10, 900, 90_000)[number])
    days = 0
    for number, day in enumerate((2, 11, 13)):
        box.travel_to(f"2025-06-{day:02}T12:00:00Z")
        box.subscribe(f"plan-{number}")
        box.event("seats", value=f"seat {number}")
        days += 30 - day + 1
    box.travel_to("2025-06-29T12:00:00Z")
    # No plan but the last one was paid for the seat that was added on it.
    missing = 1 if intervals[-1] == "weekly" else 0
    assert for_seats(box) == (days - missing) * 100
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("first", PRICES)
@pytest.mark.parametrize("second", PRICES)
def test_what_two_plans_of_two_intervals_were_paid_is_credited_where_it_is_billed_in_arrears(
    box: Scenario, first: str, second: str
) -> None:
    box.travel_to("2025-06-02T09:00:00Z")
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(*charged(metric, "in advance", amount=PRICES[first]), code="plan-0", interval=first, amount_cents=10)
    box.plan(*charged(metric, "in advance", amount=PRICES[second]), code="plan-1", interval=second, amount_cents=900)
    box.plan(*charged(metric, "in arrears", amount="30"), code="plan-2", amount_cents=90_000)
    days = 0
    for number, day in enumerate((2, 11, 13)):
        box.travel_to(f"2025-06-{day:02}T12:00:00Z")
        box.subscribe(f"plan-{number}")
        box.event("seats", value=f"seat {number}")
        days += 30 - day + 1
    box.travel_to("2025-07-01T03:00:00Z")
    assert paid(box, until="2025-07-01") == days * 100
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("invoiceable", [True, False])
@pytest.mark.parametrize(("old", "new"), INTERVALS)
def test_each_day_of_a_seat_is_paid_once_over_a_downgrade_to_another_interval(
    box: Scenario, old: str, new: str, invoiceable: bool
) -> None:
    plans_of_intervals(box, old, new, up=False, invoiceable=invoiceable)
    box.travel_to("2025-06-11T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2025-07-16T12:00:00Z")
    july = {"weekly": 20, "monthly": 30, "quarterly": 91}
    last = july[new]
    assert for_seats(box) == (29 + last) * 100
    assert box.billing.audit().findings == ()


def test_what_no_invoice_holds_is_opened_by_a_fee_of_its_own(box: Scenario) -> None:
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(*charged(metric, "in arrears"), code="old", amount_cents=0)
    box.plan(*charged(metric, "in advance", invoiceable=False), code="new", amount_cents=1000)
    box.subscribe("old")
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    box.travel_to("2024-11-01T03:00:00Z")
    alone = [fee for fee in box.usage_fees() if fee["svc_invoice_id"] is None]
    assert sorted(fee["amount_cents"] for fee in alone) == [16_00, 31_00]
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("grace", [0, 3])
@pytest.mark.parametrize("invoiceable", [True, False])
@pytest.mark.parametrize("new", ["not at all", "in arrears", "in advance"])
def test_an_upgrade_between_midnight_and_the_run_leaves_the_day_to_the_new_plan(
    box: Scenario, new: str, invoiceable: bool, grace: int
) -> None:
    box.customer(billing_configuration={"invoice_grace_period": grace})
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(*charged(metric, "in advance", invoiceable=invoiceable), code="old", amount_cents=0)
    box.plan(*charged(metric, new), code="new", amount_cents=1000)
    box.subscribe("old")
    box.event("seats", value="a")
    box.travel_to("2024-12-01T00:00:01Z")
    box.subscribe("new")
    box.travel_to("2024-12-20T03:00:00Z")
    december = 31_00 if new == "in advance" else 0
    assert for_seats(box) == 31_00 + 31_00 + december
    assert box.get("/credit_notes")["credit_notes"] == []
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("rate", ["100", "50", "0"])
def test_the_minimum_of_a_plan_that_ends_is_the_same_whoever_paid_for_its_seats(box: Scenario, rate: str) -> None:
    """30.00 for 15 days, toward which a seat of 31.00 in advance counts 15.00, with a coupon or without."""
    metric = box.metric("seats", "unique_count_agg", recurring=True)
    box.plan(*charged(metric, "in advance"), code="old", amount_cents=0, minimum_commitment={"amount_cents": 62_00})
    box.plan(*charged(metric, "in arrears"), code="new", amount_cents=1000)
    box.coupon(0, coupon_type="percentage", percentage_rate=rate, frequency="once")
    box.subscribe("old")
    box.event("seats", value="a")
    box.travel_to("2024-10-16T12:00:00Z")
    box.subscribe("new")
    fees = [fee for invoice in box.invoices() for fee in invoice["fees"] if fee["item"]["type"] == "commitment"]
    assert [fee["amount_cents"] for fee in fees] == [15_00]
    assert box.billing.audit().findings == ()
