"""Minimum commitments on invoices: what counts toward them, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.price_list import PriceList
from tests.scenarios import ask, invoices_of

from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    """10.00 a month in arrears, usage at 1.00 paid in advance, and 100.00 at least."""
    with Sandbox(now="2024-03-01T00:00:00Z") as box:
        list_ = PriceList(box)
        charge = {
            "billable_metric_id": list_.metric("calls", "sum_agg"),
            "charge_model": "standard",
            "pay_in_advance": True,
            "properties": {"amount": "1"},
        }
        list_.plan(charge, amount_cents=1000, minimum_commitment={"amount_cents": 10_000})
        list_.subscribe()
        yield list_


def true_ups(list_: PriceList) -> list[int]:
    fees: list[Any] = [fee for invoice in invoices_of(list_.box) for fee in invoice["fees"]]
    return [fee["amount_cents"] for fee in fees if fee["item"]["type"] == "commitment"]


def test_what_was_billed_in_advance_counts(list_: PriceList) -> None:
    list_.event("calls", value=30)
    list_.box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(list_) == [6000]


def test_nothing_is_missing_once_the_commitment_is_reached(list_: PriceList) -> None:
    list_.event("calls", value=90)
    list_.box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(list_) == []


def test_what_was_voided_does_not_count(list_: PriceList) -> None:
    list_.event("calls", value=30)
    (paid,) = invoices_of(list_.box)
    ask(list_.box, "POST", f"/invoices/{paid['svc_id']}/void")
    list_.box.travel_to("2024-04-01T01:00:00Z")
    assert true_ups(list_) == [9000]


def test_each_period_starts_anew(list_: PriceList) -> None:
    list_.event("calls", value=30)
    list_.box.travel_to("2024-05-01T01:00:00Z")
    assert sorted(true_ups(list_)) == [6000, 9000]


def test_what_was_billed_ahead_at_a_threshold_counts_once(list_: PriceList) -> None:
    charge = {"billable_metric_id": list_.metric("gb"), "charge_model": "standard", "properties": {"amount": "1"}}
    terms = {"minimum_commitment": {"amount_cents": 10_000}, "usage_thresholds": [{"amount_cents": 2000}]}
    list_.plan(charge, code="ahead", **terms)
    list_.subscribe("ahead", "other")
    list_.event("gb", "other", value=30)
    list_.box.travel_to("2024-04-01T01:00:00Z")
    made = [one for one in invoices_of(list_.box) for fee in one["fees"] if fee["item"]["code"] == "gb"]
    assert [one["invoice_type"] for one in made] == ["progressive_billing", "subscription"]
    assert sorted(true_ups(list_)) == [7000, 9000]
    assert sum(one["total_amount_cents"] for one in made) == 2 * 10_000
