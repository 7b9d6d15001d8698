"""Discounts on usage that is invoiced in stages: thresholds change when a period is paid, not what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.money import gross
from tests.scenarios import Scenario, charge_on

from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.operations.audit import audit
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = [pytest.mark.now("2024-03-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def subscribed(box: Scenario, *thresholds: int, recurring: int | None = None, **plan: Any) -> None:
    """A unit of usage costs 1.00."""
    steps: list[dict[str, Any]] = [{"amount_cents": cents} for cents in thresholds]
    if recurring is not None:
        steps.append({"amount_cents": recurring, "recurring": True})
    box.plan(charge_on(box.metric("gb"), amount="1"), usage_thresholds=steps, **plan)
    box.subscribe()


def totals(box: Scenario, *used: int) -> list[int]:
    """The totals of all invoices of March with this usage, in order."""
    for day, units in enumerate(used, 2):
        box.travel_to(f"2024-03-{day:02d}T00:00:00Z")
        box.event("gb", value=units)
    box.travel_to("2024-04-01T01:00:00Z")
    return [invoice["total_amount_cents"] for invoice in in_order(box)]


def in_order(box: Scenario) -> list[Any]:
    return sorted(box.invoices(), key=lambda invoice: (invoice["created_at"], int(invoice["sequential_id"] or 0)))


def half(box: Scenario, **fields: Any) -> None:
    rate = {"coupon_type": "percentage", "amount_cents": None, "amount_currency": None, "percentage_rate": "50"}
    body = {"name": "half", "code": "half", "expiration": "no_expiration", **rate, **fields}
    box.post("/coupons", coupon=body)
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "half"})


def faults(box: Scenario) -> list[str]:
    """What the audit finds."""
    return [str(finding) for finding in box.billing.reading(audit).findings]


def test_a_fixed_coupon_that_a_threshold_used_is_not_taken_back(box: Scenario) -> None:
    subscribed(box, 1000)
    box.coupon(500)
    # 10.00 - 5.00, then 20.00 - 10.00: 15.00, as for 20.00 - 5.00.
    assert totals(box, 10, 10) == [1000 - 500, 2000 - 1000]
    assert faults(box) == []


def test_a_percentage_for_one_invoice_is_that_of_the_threshold_and_is_not_taken_back(box: Scenario) -> None:
    subscribed(box, 1000)
    half(box, frequency="once")
    # 10.00 - 5.00, then 20.00 - 10.00 without the coupon, which is used up: 15.00.
    assert totals(box, 10, 10) == [1000 // 2, 2000 - 1000]
    assert faults(box) == []


@pytest.mark.parametrize(("used", "expected"), [((10, 10), [500, 500]), ((10,), [500, 0])])
def test_a_percentage_for_ever_applies_to_each_stage_once(
    box: Scenario, used: Sequence[int], expected: list[int]
) -> None:
    subscribed(box, 1000)
    half(box, frequency="forever")
    assert totals(box, *used) == expected
    assert faults(box) == []


@pytest.mark.parametrize("fields", [{"frequency": "forever"}, {"frequency": "recurring", "frequency_duration": 2}])
def test_an_amount_for_each_period_is_taken_off_once_a_period(box: Scenario, fields: dict[str, Any]) -> None:
    subscribed(box, 1000, 2000)
    box.coupon(500, **fields)
    # The period of 30.00 costs 25.00, as it does without thresholds.
    assert totals(box, 10, 10, 10) == [1000 - 500, 1000, 1000]
    box.event("gb", value=30)
    box.travel_to("2024-05-01T01:00:00Z")
    # The coupon of two periods has one left.
    assert in_order(box)[-1]["total_amount_cents"] == 3000 - 500
    assert faults(box) == []


def test_a_percentage_for_two_periods_counts_the_stages_of_a_period_once(box: Scenario) -> None:
    subscribed(box, 1000, 2000)
    half(box, frequency="recurring", frequency_duration=2)
    assert totals(box, 10, 10, 10) == [500, 500, 500]
    for month in (5, 6):
        box.event("gb", value=30)
        box.travel_to(f"2024-{month:02d}-01T01:00:00Z")
    assert [invoice["total_amount_cents"] for invoice in in_order(box)[-2:]] == [1500, 3000]
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert (applied["status"], applied["frequency_duration_remaining"]) == ("terminated", 0)
    assert faults(box) == []


def test_a_percentage_that_ends_with_a_threshold_still_reduces_the_rest_of_its_period(box: Scenario) -> None:
    subscribed(box, 1000)
    half(box, frequency="recurring", frequency_duration=1)
    assert totals(box, 10, 10) == [500, 500]
    assert faults(box) == []


def test_a_coupon_larger_than_a_stage_leaves_the_rest_to_the_next(box: Scenario) -> None:
    subscribed(box, 1000, amount_cents=3000)
    box.coupon(2500, frequency="forever")
    # 20.00 and 30.00 less 25.00: 25.00.
    assert totals(box, 10, 10) == [0, 1000 + 3000 - 1500]
    assert faults(box) == []


def test_what_usage_lost_is_given_back_as_if_it_had_not_been(box: Scenario) -> None:
    box.tax(20)
    subscribed(box, 1000)
    box.coupon(500)
    # 8.00 - 5.00 = 3.00 in the end, of which 5.00 were paid.
    assert totals(box, 10, -2) == [gross(500, 20), 0]
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["total_amount_cents"] == gross(500, 20) - gross(300, 20)
    assert faults(box) == []


def test_a_note_made_by_hand_on_a_stage_is_not_billed_again(box: Scenario) -> None:
    subscribed(box, 1000)
    box.event("gb", value=10)
    (stage,) = box.invoices()
    items = [{"fee_id": stage["fees"][0]["svc_id"], "amount_cents": 400}]
    box.post("/credit_notes", credit_note={"invoice_id": stage["svc_id"], "items": items, "credit_amount_cents": 400})
    box.travel_to("2024-04-01T01:00:00Z")
    assert in_order(box)[-1]["sub_total_excluding_taxes_amount_cents"] == 0
    assert faults(box) == []


def test_the_audit_finds_a_discount_that_is_billed_again(box: Scenario) -> None:
    """The books of a coupon of 5.00 on 10.00 of 20.00, its closing invoice crediting 5.00 instead of 10.00."""
    subscribed(box, 1000)
    box.coupon(500)
    totals(box, 10, 10)
    closing = in_order(box)[-1]

    def plant(work: Work) -> None:
        invoice = work.tx.get(Invoice, closing["svc_id"])
        assert invoice is not None
        (credit,) = invoice.credits
        cents: dict[str, Any] = {
            "sub_total_excluding_taxes_amount_cents": 1500,
            "sub_total_including_taxes_amount_cents": 1500,
            "progressive_billing_credit_amount_cents": 500,
            "total_amount_cents": 1500,
        }
        work.tx.replace(replace(invoice, credits=(replace(credit, amount_cents=500),), **cents))
        fee = next(fee for fee in work.tx.find(Fee, eq("invoice_id", invoice.id)) if fee.amount_cents)
        work.tx.replace(replace(fee, precise_coupons_amount_cents=Decimal(500)))

    box.billing.writing(plant)
    (found,) = faults(box)
    assert "deducted of usage billed ahead" in found
    assert found.endswith("expected 1000, found 500")


@pytest.mark.parametrize("thresholds", [(), (2000,)])
def test_the_end_of_a_trial_leaves_what_a_threshold_has_billed(box: Scenario, thresholds: Sequence[int]) -> None:
    half(box, frequency="forever")
    subscribed(box, *thresholds, amount_cents=3100, pay_in_advance=True, trial_period=10)
    box.travel_to("2024-03-05T00:00:00Z")
    box.event("gb", value=20)
    box.travel_to("2024-04-01T01:00:00Z")
    # Half of the 20.00 used, of 21 days of March from the 11th on, and of April's 31.00.
    assert sum(invoice["total_amount_cents"] for invoice in box.invoices()) == (2000 + 2100 + 3100) // 2
    assert box.get("/credit_notes")["credit_notes"] == []
    assert faults(box) == []
