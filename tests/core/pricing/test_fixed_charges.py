"""Fixed charges: periods, changes of units, upgrades."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.money import share

from usagebill.core.pricing import Properties, parse_properties
from usagebill.core.pricing.fees import FeeAmounts
from usagebill.core.pricing.fixed_charges import fixed_charge_amounts, units_change_amounts, unused_cents

D = Decimal


def standard(amount: str) -> Properties:
    return parse_properties("standard", {"amount": amount}, subunits=100)


def graduated(*rows: tuple[int, int | None, str, str]) -> Properties:
    ranges = [{"from_value": a, "to_value": b, "per_unit_amount": c, "flat_amount": d} for a, b, c, d in rows]
    return parse_properties("graduated", {"graduated_ranges": ranges}, subunits=100)


def change(new: int, paid: int, days: int = 31) -> FeeAmounts:
    return units_change_amounts(
        "standard", standard("10"), "EUR", new_units=D(new), paid_units=D(paid), days=days, period_days=31
    )


def test_a_prorated_period_shows_the_full_units() -> None:
    fee = fixed_charge_amounts("standard", standard("310"), "EUR", units=D("3.225806"), full_units=D(10))
    # 310.00 x 3.225806 is 999.99986: rounded for the fee, cut to 99.99 for each of ten units.
    assert [fee.units, fee.amount_cents, fee.unit_amount_cents] == [10, 1000_00, 99_99]


def test_a_full_period() -> None:
    fee = fixed_charge_amounts("standard", standard("10"), "EUR", units=D(3))
    assert [fee.units, fee.amount_cents, fee.unit_amount_cents, fee.precise_unit_amount] == [3, 3 * 1000, 1000, 10]


def test_prorated_ranges_are_chosen_by_the_full_units() -> None:
    terms = graduated((0, 5, "10", "100"), (6, None, "5", "50"))
    fee = fixed_charge_amounts("graduated", terms, "EUR", units=D(5), full_units=D(10))
    assert fee.amount_cents == (25 + 12.5 + 150) * 100
    whole = fixed_charge_amounts("graduated", terms, "EUR", units=D(10), full_units=D(10))
    assert whole.amount_cents == fixed_charge_amounts("graduated", terms, "EUR", units=D(10)).amount_cents


def test_added_units_are_paid_and_removed_units_are_not_refunded() -> None:
    added = change(15, paid=10)
    assert [added.units, added.amount_cents, added.unit_amount_cents] == [15 - 10, 5 * 1000, 1000]
    removed = change(5, paid=10)
    assert [removed.units, removed.amount_cents, removed.unit_amount_cents] == [0, 0, 0]
    assert change(15, paid=10).units == 5


@pytest.mark.parametrize(
    ("added", "days"),
    [(10, 17), (10, 1), (5, 12)],
)
def test_added_units_are_paid_for_the_days_left(added: int, days: int) -> None:
    fee = change(added, paid=0, days=days)
    assert [fee.units, fee.amount_cents] == [added, share(added * 10_00, days, 31)]


def test_the_unit_amount_of_added_units_is_rounded() -> None:
    fee = change(10, paid=0, days=17)
    assert fee.unit_amount_cents == 548
    assert fee.precise_unit_amount == D("5.483870967741935")


def test_added_units_are_priced_from_the_first_range() -> None:
    terms = graduated((0, 5, "10", "100"), (6, None, "5", "50"))
    fee = units_change_amounts("graduated", terms, "EUR", new_units=D(12), paid_units=D(10), days=31, period_days=31)
    assert [fee.units, fee.amount_cents] == [2, 2 * 10_00 + 100_00]


def test_nothing_added_owes_no_flat_amount() -> None:
    fee = units_change_amounts(
        "graduated", graduated((0, None, "1", "5")), "EUR", new_units=D(1), paid_units=D(1), days=31, period_days=31
    )
    assert [fee.units, fee.amount_cents] == [0, 0]


def test_days_that_are_left_of_a_fee_in_advance_are_worth_their_share() -> None:
    assert unused_cents(2000, days=14, paid_days=20) == share(2000, 14, 20)
    assert unused_cents(1065, days=10, paid_days=22) == share(1065, 10, 22)
    assert unused_cents(2000, days=20, paid_days=0) == 0


@given(paid=st.integers(0, 10**7), days=st.integers(1, 366), left=st.integers(0, 366))
def test_no_more_is_left_of_a_fee_than_was_paid_and_all_of_it_on_its_first_day(paid: int, days: int, left: int) -> None:
    assert unused_cents(paid, days=days, paid_days=days) == paid
    part = unused_cents(paid, days=min(left, days), paid_days=days)
    assert 0 <= part <= paid
    rest = unused_cents(paid, days=days - min(left, days), paid_days=days)
    assert abs(part + rest - paid) <= 1


@given(units=st.integers(1, 1000), split=st.integers(0, 1000), days=st.integers(1, 31))
def test_adding_in_two_steps_costs_what_one_step_costs(units: int, split: int, days: int) -> None:
    first = min(split, units)
    at_once = change(units, 0, days).precise_amount_cents
    in_two_steps = change(first, 0, days).precise_amount_cents + change(units, first, days).precise_amount_cents
    assert abs(at_once - in_two_steps) <= D("2e-15")
