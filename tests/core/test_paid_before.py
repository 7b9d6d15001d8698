"""What the old plan was paid in advance pays for a part of the new plan's fixed charges, once."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import fee
from tests.money import share

from usagebill.core.fees import Fee
from usagebill.core.paid_before import (
    PaidInAdvance,
    UnitsPaid,
    deducted_next,
    less_days_paid,
    less_paid_before,
    paid_before_cents,
    share_held,
    unit_days_paid,
)


def seats(cents: int, id: str = "new", add_on: str = "seats") -> Fee:
    return fee(cents, id=id, add_on_id=add_on, fee_type="fixed_charge")


def paid(cents: int, days: int = 30, left: int = 30, given_back: int = 0) -> PaidInAdvance:
    return PaidInAdvance(cents=cents, days=days, days_left=left, given_back=Decimal(given_back))


@pytest.mark.parametrize(
    ("new", "old", "less"),
    [
        (3000, [paid(1000)], 1000),
        (3000, [paid(1000, left=15)], 500),
        (3000, [paid(1000, left=0)], 0),
        (3000, [paid(1000), paid(900, left=10)], 1000 + 300),
        (500, [paid(1000)], 500),
        (0, [paid(1000)], 0),
        (3000, [], 0),
        # What was given back of it pays for nothing.
        (3000, [paid(1000, left=15, given_back=200)], 300),
        (3000, [paid(1000, left=15, given_back=600)], 0),
    ],
)
def test_what_is_left_of_what_was_paid_is_taken_off_down_to_nothing(
    new: int, old: list[PaidInAdvance], less: int
) -> None:
    owed = less_paid_before(seats(new), old, [])
    assert (owed.amount_cents, owed.precise_amount_cents, paid_before_cents(owed)) == (new - less, new - less, less)


def test_the_fee_says_what_it_came_to_before_and_what_was_paid() -> None:
    owed = less_paid_before(seats(3000), [paid(1000, left=15)], [])
    assert owed.basis == {
        "full_cents": "3000.0",
        "paid_before_cents": share(1000, 15, 30),
        "paid_before": [{"paid_cents": 1000, "paid_days": 30, "days_left": 15}],
    }


def test_it_pays_once_for_several_fees_of_the_add_on_and_not_for_other_add_ons() -> None:
    old = [paid(1000)]
    first = less_paid_before(seats(700, "first"), old, [])
    second = less_paid_before(seats(700, "second"), old, [first])
    third = less_paid_before(seats(700, "third"), old, [first, second])
    assert [deducted.amount_cents for deducted in (first, second, third)] == [0, 700 - 300, 700]
    assert less_paid_before(seats(700, "other", add_on="support"), old, [first]).amount_cents == 0


@pytest.mark.parametrize(
    ("payment", "left"),
    [
        (paid(3000, left=20), "1"),
        (paid(3000, left=20, given_back=1000), "0.5"),
        (paid(3000, left=20, given_back=2000), "0"),
        (paid(3000, left=20, given_back=3000), "0"),
        (paid(3000, left=0, given_back=1000), "1"),
        (paid(0, left=20), "1"),
    ],
)
def test_days_that_were_given_back_are_no_longer_paid(payment: PaidInAdvance, left: str) -> None:
    assert payment.unused_share == Decimal(left)


def units_for(units: int, days: int, *, added: bool = False) -> UnitsPaid:
    return UnitsPaid(units=Decimal(units), days=days, of_all=not added)


@pytest.mark.parametrize(
    ("plans", "held", "paid_for"),
    [
        ([], 5, 0),
        ([[units_for(2, 10)]], 2, 2 * 10),
        # One was removed, two were added, and one was added later.
        ([[units_for(2, 10)]], 1, 1 * 10),
        ([[units_for(2, 10)]], 4, 2 * 10),
        ([[units_for(2, 10), units_for(1, 10, added=True)]], 3, 3 * 10),
        # The later plan opened with all units: with those that the first had paid for a week, too.
        ([[units_for(2, 10)], [units_for(2, 3)]], 2, 2 * 10),
        ([[units_for(2, 3)], [units_for(2, 10)]], 2, 2 * 10),
        ([[units_for(2, 10)], [units_for(2, 3)]], 1, 1 * 10),
        # It opened with nothing, as all was paid.
        ([[units_for(1, 10, added=True)], [units_for(2, 3)]], 3, 3 * 3 + 1 * 7),
        ([[units_for(1, 3, added=True)], [], [units_for(2, 10)]], 3, 3 * 3 + 2 * 7),
    ],
)
def test_each_day_of_a_unit_was_paid_once(plans: list[list[UnitsPaid]], held: int, paid_for: int) -> None:
    assert unit_days_paid(plans, Decimal(held)) == paid_for


@pytest.mark.parametrize(("share", "cents"), [("0.25", 750), ("0", 1000), ("1", 0)])
def test_days_that_are_paid_are_left_out_at_the_new_price(share: str, cents: int) -> None:
    owed = less_days_paid(seats(1000), Decimal(share), [paid(2100, days=7, left=5)])
    assert (owed.amount_cents, paid_before_cents(owed)) == (cents, 1000 - cents)
    assert owed.basis["paid_before"] == [{"paid_cents": 2100, "paid_days": 7, "days_left": 5}]


@pytest.mark.parametrize(
    ("payments", "asked", "deducted"),
    [
        ([paid(3100, days=31, left=22)], 5000, [2200]),
        ([paid(3100, days=31, left=22)], 568, [568]),
        ([paid(1000), paid(500)], 1200, [1000, 200]),
        ([paid(1000, given_back=1000)], 1200, [0]),
    ],
)
def test_the_next_plan_deducts_what_is_left_up_to_its_own_price(
    payments: list[PaidInAdvance], asked: int, deducted: list[int]
) -> None:
    assert deducted_next(payments, asked) == deducted


@given(st.lists(st.integers(0, 10**7), max_size=5), st.integers(0, 10**7), st.integers(1, 366), st.data())
def test_no_more_is_taken_off_than_was_left_and_no_fee_falls_below_zero(
    cents: list[int], old: int, days: int, data: st.DataObject
) -> None:
    left = PaidInAdvance(cents=old, days=days, days_left=data.draw(st.integers(0, days)))
    fees: list[Fee] = []
    for place, amount in enumerate(cents):
        fees.append(less_paid_before(seats(amount, f"f{place}"), [left], fees))
    taken = sum(cents) - sum(line.amount_cents for line in fees)
    assert taken == min(sum(cents), left.left_cents) <= old
    assert all(line.amount_cents >= 0 for line in fees)


@pytest.mark.parametrize(
    ("held", "paid_for", "share"),
    [("2", ["2"], "1"), ("1", ["1", "1"], "0.5"), ("0", ["2"], "0"), ("5", ["2"], "1"), ("0", [], "1")],
)
def test_only_units_that_are_left_were_paid_for(held: str, paid_for: list[str], share: str) -> None:
    fees = [fee(100, units=Decimal(units)) for units in paid_for]
    assert share_held(Decimal(held), fees) == Decimal(share)
