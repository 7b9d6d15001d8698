"""Explanations: the numbers in between lead from the fees to the total, and are those that the invoice keeps."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import coupon, fee, note, settle, tax

from usagebill.core.invoices.explanation import arithmetic, discounts, fee_taxes, invoice_steps
from usagebill.core.invoices.totals import InvoiceInProgress, ProgressiveBilled
from usagebill.core.numbers import round_cents, total
from usagebill.core.progressive_billing import ProgressiveFee


@pytest.mark.parametrize(
    ("details", "lines"),
    [
        ({}, ["2.5 units x 4.0 each"]),
        (
            {
                "graduated_ranges": [
                    {
                        "units": "10.0",
                        "from_value": 0,
                        "to_value": 10,
                        "flat_unit_amount": "2.0",
                        "per_unit_amount": "0.5",
                        "per_unit_total_amount": "5.0",
                        "total_with_flat_amount": "7.0",
                    },
                    {
                        "units": "5.0",
                        "from_value": 11,
                        "to_value": None,
                        "flat_unit_amount": "0.0",
                        "per_unit_amount": "0.6",
                        "per_unit_total_amount": "3.0",
                        "total_with_flat_amount": "3.0",
                    },
                ]
            },
            [
                "10.0 units from 0 to 10 x 0.5 = 5.0, with the flat amount of 2.0: 7.0",
                "5.0 units from 11 and above x 0.6 = 3.0, with the flat amount of 0.0: 3.0",
            ],
        ),
        (
            {"free_units": "10.0", "paid_units": "20.0", "per_package_size": 10, "per_package_unit_amount": "5.0"},
            ["10.0 units free", "20.0 units in packages of 10: 2 packages x 5.0 a package"],
        ),
        (
            {"flat_unit_amount": "2.0", "per_unit_amount": "0.1", "per_unit_total_amount": "8.0"},
            ["2.5 units, all of them x 0.1 = 8.0", "flat amount of the range reached: 2.0"],
        ),
        (
            {
                "units": "100.0",
                "free_units": "10.0",
                "free_events": 1,
                "paid_units": "90.0",
                "rate": "2.0",
                "per_unit_total_amount": "1.8",
                "paid_events": 3,
                "fixed_fee_unit_amount": "0.5",
                "fixed_fee_total_amount": "1.5",
                "min_max_adjustment_total_amount": "-0.3",
            },
            [
                "10.0 units and 1 events free",
                "90.0 units x 2.0 % = 1.8",
                "3 events x 0.5 = 1.5",
                "bounds of single events: -0.3",
            ],
        ),
    ],
)
def test_the_arithmetic_of_each_charge_model(details: Mapping[str, Any], lines: list[str]) -> None:
    explained_fee = fee(
        1001, precise="1000.5", units=Decimal("2.5"), precise_unit_amount=Decimal(4), amount_details=details
    )
    assert list(arithmetic(explained_fee)) == [*lines, "10.005 rounded to 10.01 EUR"]


@pytest.mark.parametrize(
    ("basis", "lines"),
    [
        (
            {"minimum_cents": 1500, "days": 22, "period_days": 31, "used_cents": 64},
            [
                "minimum of 15.0 EUR x 22 / 31 days = 10.645161290322581",
                "less 0.64 of fees: 10.005161290322581",
                "rounded to 10.01 EUR",
            ],
        ),
        (
            {"minimum_cents": 100000, "days": 22, "period_days": 31, "due_cents": 70968, "used_cents": 69967},
            [
                "minimum of 1000.0 EUR x 22 / 31 days = 709.67741935483871",
                "709.67741935483871 rounded to 709.68",
                "less 699.67 of fees: 10.01",
                "rounded to 10.01 EUR",
            ],
        ),
        (
            {
                "terms": [
                    {"units": "10.0", "days": 9, "prorated_units": "2.903226"},
                    {"units": "12.0", "days": 22, "prorated_units": "8.516129"},
                ],
                "period_days": 31,
                "prorated_units": "11.419355",
                "paid_before_cents": 500,
                "full_cents": "1500.5",
                "paid_before": [
                    {"paid_cents": 800, "paid_days": 10, "days_left": 5},
                    {"paid_cents": 120, "paid_days": 6, "days_left": 5},
                ],
            },
            [
                "10.0 units x 9 / 31 days = 2.903226",
                "12.0 units x 22 / 31 days = 8.516129",
                "prorated units: 11.419355",
                "15.005 rounded to 15.01 EUR",
                "the old plan was paid 8.0 for 10 days, 5 of which are left",
                "the old plan was paid 1.2 for 6 days, 5 of which are left",
                "less 5.0: 10.01 EUR",
            ],
        ),
        (
            {"prorated_units": "1.09678", "unit_amount": "31.0"},
            [
                "2.0 units from the event's day to the last of the period: 1.09678 prorated units",
                "1.09678 prorated units x 31.0",
                "10.005 rounded to 10.01 EUR",
            ],
        ),
        (
            {
                "with_event": {
                    "units": "3.0",
                    "amount": "8.0",
                    "details": {"flat_unit_amount": "2.0", "per_unit_amount": "2.0", "per_unit_total_amount": "6.0"},
                },
                "without_event": {"units": "0.0", "amount": "0.0", "details": {}},
            },
            [
                "3.0 units with this event = 8.0: 3.0 units, all of them x 2.0 = 6.0; "
                "flat amount of the range reached: 2.0",
                "0.0 units without it = 0.0",
                "difference: 8.0 - 0.0",
                "10.005 rounded to 10.01 EUR",
            ],
        ),
        (
            {"new_units": "12.0", "paid_units": "10.0", "days": 5, "period_days": 31},
            ["12.0 units less 10.0 billed before, x 5 / 31 days", "10.005 rounded to 10.01 EUR"],
        ),
    ],
)
def test_days_and_minimums_that_an_amount_is_based_on(basis: Mapping[str, Any], lines: list[str]) -> None:
    explained_fee = fee(1001, precise="1000.5", units=Decimal(2), precise_unit_amount=Decimal(5), basis=basis)
    assert list(arithmetic(explained_fee)) == lines


def test_the_days_of_a_plan() -> None:
    details = {"plan_amount_cents": 3100}
    explained_fee = fee(2200, precise="2200", amount_details=details, basis={"days": 22, "period_days": 31})
    assert list(arithmetic(explained_fee)) == ["plan amount 31.0 x 22 / 31 days", "22.0 rounded to 22.0 EUR"]


def test_a_pricing_unit_is_converted() -> None:
    unit = {"amount_cents": 250, "short_name": "CR", "conversion_rate": "0.5"}
    assert arithmetic(fee(125, pricing_unit_details=unit)) == ("2.5 CR x 0.5 EUR", "1.25 rounded to 1.25 EUR")


def _explained(
    usage: dict[str, int], billed: dict[str, int], coupons: list[Any], balance: int
) -> tuple[InvoiceInProgress, dict[str, tuple[Any, ...]]]:
    lines = [
        fee(cents, id=key, charge_id=key, billable_metric_id=key, subscription_id="s") for key, cents in usage.items()
    ]
    rates = [tax("20"), tax("7.7")]
    keys = frozenset((applied.code, applied.rate) for applied in rates)
    before = ProgressiveBilled(
        invoice_id="earlier",
        number="earlier",
        subscription_id="s",
        left_cents=sum(billed.values()),
        fees=tuple(
            ProgressiveFee(
                charge_id=key,
                charge_filter_id=None,
                grouped_by={},
                amount_cents=cents,
                net_cents=Decimal(cents),
                taxes=keys,
            )
            for key, cents in billed.items()
        ),
    )
    draft = settle(
        lines,
        rates,
        progressive=[before] if billed else [],
        coupons=coupons,
        notes=[note("n", balance)] if balance else [],
        plan_of={"s": "p"},
    )
    taken = discounts(
        draft.invoice,
        draft.fees,
        {held.applied.id: held.targets for held in coupons},
        {"s": "p"},
    )
    return draft, taken


_usage = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**8), min_size=1)
_coupons = st.lists(
    st.builds(
        lambda number, cents, metrics: coupon(f"c{number}", cents=cents, metrics=metrics, at=number),
        st.integers(0, 50),
        st.integers(1, 10**8),
        st.none() | st.just(["a", "b"]),
    ),
    max_size=3,
    unique_by=lambda held: held.applied.id,
)


@given(_usage, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**8)), _coupons, st.integers(0, 10**8))
def test_replayed_discounts_are_those_that_fees_keep(
    usage: dict[str, int], billed: dict[str, int], coupons: list[Any], balance: int
) -> None:
    draft, taken = _explained(usage, billed, coupons, balance)
    for line in draft.fees:
        assert total(step.share for step in taken[line.id]) == line.precise_coupons_amount_cents
        for step, following in zip(taken[line.id], taken[line.id][1:], strict=False):
            assert step.after == following.before
        assert round_cents(total(step.exact for step in fee_taxes(line))) == line.taxes_amount_cents


@given(_usage, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**8)), _coupons, st.integers(0, 10**8))
def test_the_steps_lead_to_the_total(
    usage: dict[str, int], billed: dict[str, int], coupons: list[Any], balance: int
) -> None:
    draft, _ = _explained(usage, billed, coupons, balance)
    steps = invoice_steps(draft.invoice, draft.fees)
    assert steps[0].result_cents == draft.invoice.fees_amount_cents
    assert steps[-1].result_cents == draft.invoice.total_amount_cents
    left = 0
    for step in steps[:-1]:
        if step.name != "tax":
            left += step.amount_cents
            assert step.result_cents == left
    shown = {line.code: line.amount_cents for line in draft.invoice.applied_taxes}
    assert {step.text.split(":")[0]: step.amount_cents for step in steps if step.name == "tax"} == shown
