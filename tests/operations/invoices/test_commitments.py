"""Minimum commitments on invoices: what counts toward them, and what does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """10.00 a month in arrears, usage at 1.00 paid in advance, and 100.00 at least."""
    box.customer()
    charge = charge_on(box.metric("calls", "sum_agg"), amount="1", pay_in_advance=True)
    box.plan(charge, amount_cents=1000, minimum_commitment={"amount_cents": 10_000})
    box.subscribe()
    return box


def true_ups(box: Scenario) -> list[int]:
    fees: list[Any] = [fee for invoice in box.invoices() for fee in invoice["fees"]]
    return [fee["amount_cents"] for fee in fees if fee["item"]["type"] == "commitment"]


def test_what_was_billed_in_advance_counts(box: Scenario) -> None:
    box.event("calls", value=30)
    box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(box) == [6000]


def test_nothing_is_missing_once_the_commitment_is_reached(box: Scenario) -> None:
    box.event("calls", value=90)
    box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(box) == []


def test_what_was_voided_does_not_count(box: Scenario) -> None:
    box.event("calls", value=30)
    (paid,) = box.invoices()
    box.post(f"/invoices/{paid['svc_id']}/void")
    box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(box) == [9000]


def test_each_period_has_a_commitment_of_its_own(box: Scenario) -> None:
    box.event("calls", value=30)
    box.travel_to("2024-05-01T01:00:00Z")
    assert sorted(true_ups(box)) == [6000, 9000]


def test_what_was_billed_ahead_at_a_threshold_counts_once(box: Scenario) -> None:
    charge = charge_on(box.metric("gb"), amount="1")
    terms = {"minimum_commitment": {"amount_cents": 10_000}, "usage_thresholds": [{"amount_cents": 2000}]}
    box.plan(charge, code="ahead", **terms)
    box.subscribe("ahead", "other")
    box.event("gb", "other", value=30)
    box.travel_to("2024-04-01T01:00:00Z")
    made = [invoice for invoice in box.invoices() for fee in invoice["fees"] if fee["item"]["code"] == "gb"]
    assert [invoice["invoice_type"] for invoice in made] == ["progressive_billing", "subscription"]
    assert sorted(true_ups(box)) == [7000, 9000]
    assert sum(invoice["total_amount_cents"] for invoice in made) == 2 * 10_000


@pytest.mark.parametrize("in_advance", [True, False])
def test_a_plan_that_ends_brings_in_the_commitment_of_its_days(in_advance: bool) -> None:
    with Scenario(now="2024-04-01T00:00:00Z") as box:
        box.customer()
        box.plan(amount_cents=4200, pay_in_advance=in_advance, minimum_commitment={"amount_cents": 20_000})
        box.subscribe()
        box.travel_to("2024-04-15T12:00:00Z")
        box.unsubscribe()
        asked = sum(invoice["sub_total_excluding_taxes_amount_cents"] for invoice in box.invoices())
        given_back = [note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"]]
        # 15 of 30 days: 100.00. In advance, 21.00 of the fee of 42.00 are given back, so they do not count.
        assert given_back == ([2100] if in_advance else [])
        assert asked - sum(given_back) == 10_000


def test_unused_time_that_a_coupon_paid_for_does_not_count(box: Scenario) -> None:
    """31.00 for March in advance, all of it a coupon's: 10 of its days count toward 10/31 of 100.00, as without it."""
    box.plan(code="ahead", amount_cents=3100, pay_in_advance=True, minimum_commitment={"amount_cents": 10_000})
    coupon = {"name": "Off", "code": "off", "coupon_type": "percentage", "percentage_rate": "100"}
    box.post("/coupons", coupon={**coupon, "frequency": "once", "expiration": "no_expiration"})
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.subscribe("ahead", "other")
    box.travel_to("2024-03-10T12:00:00Z")
    box.unsubscribe("other")
    assert true_ups(box) == [round(10_000 * 10 / 31) - 1000]
    assert box.get("/credit_notes")["credit_notes"] == []
    assert box.billing.audit().findings == ()


def test_what_the_plan_before_was_paid_for_fixed_charges_counts(box: Scenario) -> None:
    """62.00 for March in advance, from the 30th 310.00 in arrears: 20.00 for two days, of which 4.00 are paid."""
    seats = box.add_on("seats", 100)
    old = fixed_charge_on(seats, units=1, properties={"amount": "62"}, pay_in_advance=True)
    new = fixed_charge_on(seats, units=1, properties={"amount": "310"}, prorated=True)
    box.plan(code="old", amount_cents=0, fixed_charges=[old])
    box.plan(code="new", amount_cents=1, fixed_charges=[new], minimum_commitment={"amount_cents": 62_000})
    box.subscribe("old", "other")
    box.travel_to("2024-03-30T12:00:00Z")
    box.subscribe("new", "other")
    box.travel_to("2024-04-01T01:00:00Z")
    # The other is the 10.00 subscription of its own.
    assert sorted(true_ups(box)) == [4000 - 2000, 9000]
    assert box.billing.audit().findings == ()


def test_what_was_made_again_after_the_draft_counts(box: Scenario) -> None:
    """31.00 for March in advance, from the 10th another plan: 9 of 31 days of 310.00, of which 9.00 are paid."""
    box.customer(billing_configuration={"invoice_grace_period": 5})
    box.plan(code="old", amount_cents=3100, pay_in_advance=True, minimum_commitment={"amount_cents": 31_000})
    box.plan(code="new", amount_cents=3200)
    box.subscribe("old", "other")
    box.travel_to("2024-03-10T12:00:00Z")
    (paid,) = box.invoices()
    box.subscribe("new", "other")
    box.post(f"/invoices/{paid['svc_id']}/void")
    box.billing.invoices.regenerate(paid["svc_id"], fees=[{"id": fee["svc_id"]} for fee in paid["fees"]])
    box.travel_to("2024-03-16T00:00:00Z")
    assert true_ups(box) == [9000 - 900]
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("ahead", [False, True])
def test_two_subscriptions_on_one_invoice_with_coupons_and_thresholds(box: Scenario, *, ahead: bool) -> None:
    """Each fills up its own commitment of 100.00 a month; 20.00 are off once, 50 % of the rest for ever."""
    thresholds = [{"amount_cents": 2000}, {"amount_cents": 1000, "recurring": True}] if ahead else []
    gb = charge_on(box.metric("gb"), amount="1")
    box.plan(
        gb, code="pooled", amount_cents=3000, minimum_commitment={"amount_cents": 10_000}, usage_thresholds=thresholds
    )
    box.coupon(2000)
    box.coupon(0, code="half", coupon_type="percentage", percentage_rate="50", frequency="forever")
    for name in ("one", "two"):
        box.subscribe("pooled", name)
    for at, name, used in (("03-05", "one", 40), ("03-10", "two", 25), ("03-20", "one", 15), ("04-02", "two", 90)):
        box.travel_to(f"2024-{at}T00:00:00Z")
        box.event("gb", name, value=used)
    box.travel_to("2024-04-20T12:00:00Z")
    box.unsubscribe("two")
    box.travel_to("2024-05-02T00:00:00Z")
    invoices = box.invoices()
    assert len([one for one in invoices if one["invoice_type"] == "progressive_billing"]) == (4 if ahead else 0)
    assert max(len(one["subscriptions"]) for one in invoices) == 3
    # The third subscription fills up 90.00 a month. March: 15.00 and 45.00; April: 70.00, and 110.00 are used of 66.67.
    assert sum(true_ups(box)) == 2 * 9000 + 1500 + 4500 + 7000
    march, april = 3 * 10_000, 2 * 10_000 + 2000 + 9000
    asked = sum(one["sub_total_excluding_taxes_amount_cents"] for one in invoices)
    given = sum(note["sub_total_excluding_taxes_amount_cents"] for note in box.get("/credit_notes")["credit_notes"])
    assert asked - given == (march - 2000) // 2 + april // 2
    assert box.billing.audit().findings == ()


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(
    ("price", "old", "new"),
    [
        # 29.03 for 9 days, of which 9.00 are brought in; 70.97 for 22 days and 22.00.
        ("15.5", 20_03, 48_97),
        # The new plan asks 44.00, and deducts 22.00.
        ("31", 20_03, 26_97),
        # The new plan asks and deducts 5.68: 25.32 of the 31.00 were charged for the old one.
        ("4", 3_71, 65_29),
        # The new plan bills it whole, and deducts nothing.
        ("", 0, 70_97),
    ],
)
def test_what_the_next_plan_deducts_is_brought_in_by_that_plan(price: str, old: int, new: int, ahead: bool) -> None:
    """Fixed charges of 31.00 for March in advance, and an upgrade on the 10th: in all, 100.00 is the least."""

    def plan(box: Scenario, seat: str, code: str, amount: str, *, in_advance: bool) -> None:
        charge = {**fixed_charge_on(seat, amount=amount, units=2), "prorated": True, "pay_in_advance": in_advance}
        charges = [charge] if amount else []
        least = {"amount_cents": 100_00}
        box.plan(code=code, amount_cents=0, minimum_commitment=least, fixed_charges=charges)

    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        seat = box.add_on("seat", 1000)
        plan(box, seat, "old", "15.5", in_advance=True)
        plan(box, seat, "new", price, in_advance=ahead)
        box.subscribe("old")
        box.travel_to("2024-03-10T12:00:00Z")
        box.subscribe("new")
        box.travel_to("2024-04-01T12:00:00Z")
        assert true_ups(box) == [cents for cents in (old, new) if cents]
        assert box.billing.audit().findings == ()
